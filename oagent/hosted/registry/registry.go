package registry

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/internal/stored"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/store"
)

// Limits on all accepted documents together.
const (
	maxDocuments = 500
	maxTotal     = 32 << 20 // bytes

	maxBy = 256 // bytes of the id of a user in the index
)

// ttl is the lifetime of the documents. Running nodes renew it.
const ttl = store.MaxTTL

const keyPrefix = "accepted/"

var (
	// ErrNotFound reports that no document with that name was accepted.
	ErrNotFound = errors.New("no accepted document has that name")
	// ErrFull reports that a limit on all documents together is reached.
	ErrFull = errors.New("the server accepts no more agent documents")
)

// Options configures a Registry. Store is required.
type Options struct {
	Store store.Store

	// Scope separates the documents of sites that share a store. Nodes of one site need the same.
	Scope string

	// Report is called with errors that an operator should see. It must return quickly.
	// Default: none.
	Report func(error)
	// Now returns the current time. Default: time.Now.
	Now func() time.Time
}

// Registry keeps the accepted documents of a site. It is safe for concurrent use.
type Registry struct {
	options Options
	key     string // of the index
	pause   time.Duration
}

// Entry describes the current version of an accepted document.
type Entry struct {
	Name   string    `json:"name"`
	Digest string    `json:"digest"` // of the document's bytes, in hexadecimal digits
	Size   int       `json:"size"`   // bytes
	By     string    `json:"by"`     // id of the user
	At     time.Time `json:"at"`     // when this version was accepted
	ID     string    `json:"id"`     // of the record with the document
}

// Tag returns the entity tag of the version.
func (e Entry) Tag() string { return `"` + e.Digest + `"` }

// Document is an accepted document.
type Document struct {
	Entry
	Source []byte
}

// index is the value of the index record.
type index struct {
	Renewed   time.Time `json:"renewed"`   // when the lifetime of all records was extended
	Documents []Entry   `json:"documents"` // ordered by name
}

// New returns a Registry.
func New(options Options) *Registry {
	if options.Report == nil {
		options.Report = func(error) {}
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	sum := sha256.Sum256([]byte(options.Scope)) // a key has a maximum length
	return &Registry{options, keyPrefix + hex.EncodeToString(sum[:16]), retryPause}
}

// Change is a document to accept. It must have been checked by Policy.Read.
type Change struct {
	Name      string
	Source    []byte
	By        string // id of the user
	Condition Condition
}

// Put accepts a document, or a new version of it. created reports whether it is new. The same
// version again changes nothing. The error is ErrPrecondition, ErrFull, or one of the store.
func (r *Registry) Put(ctx context.Context, c Change) (entry Entry, created bool, err error) {
	sum := sha256.Sum256(c.Source)
	now := r.options.Now().UTC()
	entry = Entry{Name: c.Name, Digest: hex.EncodeToString(sum[:]), Size: len(c.Source), By: text.Cut(c.By, maxBy), At: now, ID: rand.Text()}
	current, err := r.index(ctx)
	if err != nil {
		return Entry{}, false, err
	}
	if old := current.find(c.Name); old != nil && old.Digest == entry.Digest {
		return *old, false, c.Condition.check(old)
	}
	if err := current.check(&c); err != nil {
		return Entry{}, false, err // without writing the document
	}
	if err := r.options.Store.Put(ctx, r.documentKey(&entry), store.Change{Value: c.Source, TTL: ttl}); err != nil {
		return Entry{}, false, err
	}
	var replaced *Entry
	err = r.change(ctx, func(current *index) error {
		if err := current.check(&c); err != nil {
			return err
		}
		replaced = current.put(entry)
		return nil
	})
	switch {
	case errors.Is(err, ErrPrecondition) || errors.Is(err, ErrFull):
		r.drop(ctx, &entry)
	case err == nil && replaced != nil:
		r.drop(ctx, replaced)
	}
	return entry, err == nil && replaced == nil, err
}

// Delete deletes the document with that name. The error is ErrNotFound, ErrPrecondition, or one of
// the store.
func (r *Registry) Delete(ctx context.Context, name string, condition Condition) error {
	var deleted Entry
	err := r.change(ctx, func(current *index) error {
		i, found := current.search(name)
		if !found {
			return ErrNotFound
		}
		deleted = current.Documents[i]
		if err := condition.check(&deleted); err != nil {
			return err
		}
		current.Documents = slices.Delete(current.Documents, i, i+1)
		return nil
	})
	if err == nil {
		r.drop(ctx, &deleted)
	}
	return err
}

// drop deletes the record of a version that is no longer in the index. If that fails, it expires.
func (r *Registry) drop(ctx context.Context, e *Entry) {
	if err := r.options.Store.Delete(context.WithoutCancel(ctx), r.documentKey(e)); err != nil {
		r.options.Report(fmt.Errorf("deleting the record of an old version of agent %s: %w", e.Name, err))
	}
}

// index returns the current index. It is empty if there is none.
func (r *Registry) index(ctx context.Context) (*index, error) {
	value, err := r.indexValue(ctx)
	if err != nil {
		return nil, err
	}
	return readIndex(value)
}

func readIndex(value []byte) (*index, error) {
	current := new(index)
	if len(value) == 0 {
		return current, nil
	}
	return current, stored.Decode("agents", "the list of accepted documents", value, current)
}

// change changes the index. The function may run more than once.
func (r *Registry) change(ctx context.Context, change func(*index) error) error {
	return r.options.Store.Update(ctx, r.key, func(old store.Record) (store.Change, error) {
		current, err := readIndex(old.Value)
		if err != nil {
			return store.Change{}, err
		}
		if old.Value == nil {
			current.Renewed = r.options.Now().UTC()
		}
		if err := change(current); err != nil {
			return store.Change{}, err
		}
		value, err := json.Marshal(current)
		return store.Change{Value: value, TTL: ttl}, err
	})
}

func (r *Registry) documentKey(e *Entry) string { return r.key + "/" + e.ID }

func (x *index) search(name string) (int, bool) {
	return slices.BinarySearchFunc(x.Documents, name, func(e Entry, name string) int { return cmp.Compare(e.Name, name) })
}

// find returns the entry with that name, or nil.
func (x *index) find(name string) *Entry {
	if i, found := x.search(name); found {
		return &x.Documents[i]
	}
	return nil
}

// check returns an error if the change must not be made.
func (x *index) check(c *Change) error {
	old := x.find(c.Name)
	if err := c.Condition.check(old); err != nil {
		return err
	}
	total := len(c.Source)
	for i := range x.Documents {
		if &x.Documents[i] != old {
			total += x.Documents[i].Size
		}
	}
	switch {
	case old == nil && len(x.Documents) >= maxDocuments:
		return fmt.Errorf("%w: it has %d, the limit; delete one first", ErrFull, maxDocuments)
	case total > maxTotal:
		return fmt.Errorf("%w: with this one they would have %s, more than the limit of %s", ErrFull, humanize.IBytes(uint64(total)), humanize.IBytes(maxTotal)) //nolint:gosec // total is positive
	}
	return nil
}

// put adds or replaces an entry, and returns the replaced one or nil.
func (x *index) put(e Entry) *Entry {
	i, found := x.search(e.Name)
	if !found {
		x.Documents = slices.Insert(x.Documents, i, e)
		return nil
	}
	old := x.Documents[i]
	x.Documents[i] = e
	return &old
}

// ErrPrecondition reports that If-Match or If-None-Match does not hold.
var ErrPrecondition = errors.New("the agent has another version than the request expects")

// Condition is the precondition of a change (RFC 9110, section 13.1). The zero value always holds.
type Condition struct {
	ifMatch, ifNoneMatch []string // values of the headers
}

// ConditionOf returns the condition of a request.
func ConditionOf(header http.Header) Condition {
	return Condition{header["If-Match"], header["If-None-Match"]}
}

// check returns ErrPrecondition if the condition does not hold for the current version. current is
// nil if there is none.
func (c Condition) check(current *Entry) error {
	if len(c.ifMatch) > 0 && !matchesStrongly(c.ifMatch, current) {
		return ErrPrecondition
	}
	if len(c.ifNoneMatch) > 0 && current != nil && respond.MatchesTag(c.ifNoneMatch, current.Tag()) {
		return ErrPrecondition
	}
	return nil
}

// matchesStrongly evaluates If-Match, for which a weak tag never matches.
func matchesStrongly(values []string, current *Entry) bool {
	if current == nil {
		return false
	}
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			if item = strings.TrimSpace(item); item == "*" || item == current.Tag() {
				return true
			}
		}
	}
	return false
}
