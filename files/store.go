// Package files keeps the files that callers upload for tool calls, and large responses that a client gets as a link.
//
// An upload has a handle (upl_…), and a URL with 256 random bits, of which the store has only the hash. The URL takes one file. The
// handle names it for its owner only. The first call that uses it claims it: a repetition of that call finds it, another call does not.
//
// A content is the log of the record of its file, in chunks. So each store keeps it, nodes share it, it expires with the record, and
// no folder has to be configured, shared and swept.
package files

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/stored"
	"github.com/fairwayhq/fairway/store"
)

const (
	// Prefix begins the handles of uploads.
	Prefix = "upl_"

	// KeyPrefix begins the keys of the store. Owner.ID and the handle follow.
	KeyPrefix = "files/"

	// Within separates the parts of an Owner.ID: the limits hold for all owners with the same first part.
	Within = "~"

	handleSize = 26               // digits of base32: 130 bits of the hash of a secret
	forgotten  = time.Minute      // how long an expired URL of an upload is still known as such
	grace      = 15 * time.Minute // how long an upload in progress is kept if its node dies
	cleanup    = 10 * time.Second
)

// A Store keeps files. All fields are required. It is safe for concurrent use.
type Store struct {
	Open     func(context.Context) (store.Store, error)
	MaxSize  int64         // of a file, in bytes
	MaxFiles int           // of one owner
	MaxTotal int64         // of one owner, in bytes
	Redeem   time.Duration // lifetime of a URL
	Keep     time.Duration // lifetime of a file
}

// An Owner is who has files.
type Owner struct {
	ID    string      `json:"id"`             // without slashes and dots
	Share store.Owner `json:"share"`          // whose share of the store files take
	User  string      `json:"user,omitempty"` // the authenticated user; "" for none
}

// A File describes a file. Values that are not known yet are zero.
type File struct {
	Name   string `json:"name,omitempty"`
	Type   string `json:"type"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // in hex
}

// Limits say which files are taken.
type Limits struct {
	Accept  []string `json:"accept,omitempty"`  // media types and ranges; none means any
	MaxSize int64    `json:"maxSize,omitempty"` // 0 means Store.MaxSize
}

// A record is the value of a file in the store.
type record struct {
	File
	Limits
	Owner   Owner  `json:"owner"`
	State   string `json:"state"`
	Created int64  `json:"created"` // in Unix seconds, as Until
	Until   int64  `json:"until"`   // when the URL, or then the file, expires
	Call    string `json:"call,omitempty"`
}

// The states of a record.
const (
	issued   = "issued"
	redeemed = "redeemed"
	complete = "stored"
	linked   = "linked" // the URL returns the file
)

// A Ticket is a new upload.
type Ticket struct {
	Handle  string
	Secret  string // the last segment of the URL
	Expires time.Time
	MaxSize int64
}

// A Refusal says why a file is not taken or not found.
type Refusal struct {
	Status  int
	Message string
}

func (r *Refusal) Error() string { return r.Message }

var (
	errUnknown = &Refusal{http.StatusNotFound, "the upload does not exist: create one with create_upload"}
	errGone    = &Refusal{http.StatusGone, "the URL has been used or has expired: create another upload"}
	errEmpty   = &Refusal{http.StatusConflict, "nothing was uploaded to the URL yet: upload the file, or wait for the user, and call again"}
	errClaimed = &Refusal{http.StatusGone, "another call has used the upload: create another upload for this one"}
	errDigest  = &Refusal{http.StatusBadRequest, "the file has another SHA-256 than announced: create another upload"}
	errSize    = &Refusal{http.StatusBadRequest, "the file has another size than announced: create another upload"}
	errBody    = &Refusal{http.StatusBadRequest, "the body is incomplete, or is a form that has not exactly one file: upload the file again"}
	errFull    = &Refusal{http.StatusInsufficientStorage, "you keep too many files or bytes: wait until they expire"}
)

// onlyType returns the media type of all files that are taken, "" if there are several.
func (l *Limits) onlyType() string {
	if len(l.Accept) != 1 || strings.HasSuffix(l.Accept[0], "*") {
		return ""
	}
	return l.Accept[0]
}

// Check returns a *Refusal of a file.
func (l *Limits) Check(f File) error {
	accepts := func(accepted string) bool {
		group, isRange := strings.CutSuffix(accepted, "*")
		return accepted == "*/*" || accepted == octetStream || accepted == f.Type || isRange && strings.HasPrefix(f.Type, group)
	}
	switch {
	case f.Type != "" && len(l.Accept) > 0 && !slices.ContainsFunc(l.Accept, accepts):
		return &Refusal{http.StatusUnsupportedMediaType, fmt.Sprintf("the type %.100s is not accepted: the API takes %s", f.Type, strings.Join(l.Accept, ", "))}
	case l.MaxSize > 0 && f.Size > l.MaxSize:
		return &Refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("the file has %d bytes, and the limit is %d", f.Size, l.MaxSize)}
	}
	return nil
}

// keyOf returns the key of the URL that ends with this secret.
func keyOf(secret string) string {
	owner, _, _ := strings.Cut(secret, ".")
	sum := sha256.Sum256([]byte(secret))
	return KeyPrefix + owner + "/" + Prefix + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:handleSize])
}

// IsHandle reports whether a text can be the handle of an upload.
func IsHandle(text string) bool {
	return strings.HasPrefix(text, Prefix) && len(text) == len(Prefix)+handleSize
}

// Create creates an upload of a file of which something may be known. It stores the record before it counts what the owner has: so that of
// requests at the same time, on any node, each counts the others, and the limits hold without a lock.
func (s *Store) Create(ctx context.Context, o Owner, f File, l Limits) (Ticket, error) {
	f.SHA256 = strings.ToLower(f.SHA256)
	if l.MaxSize <= 0 || l.MaxSize > s.MaxSize {
		l.MaxSize = s.MaxSize
	}
	if err := l.Check(f); err != nil {
		return Ticket{}, err
	}
	expires := time.Now().Add(s.Redeem)
	secret := o.ID + "." + rand.Text() + rand.Text() // 260 bits
	key := keyOf(secret)
	err := s.change(ctx, key, func(now *record) error {
		*now = record{File: f, Limits: l, Owner: o, State: issued, Created: time.Now().Unix(), Until: expires.Unix()}
		return nil
	})
	if err == nil {
		err = s.checkTotal(ctx, o)
	}
	if err != nil {
		s.discard(ctx, key)
	}
	return Ticket{path.Base(key), secret, expires.UTC(), l.MaxSize}, err
}

// checkTotal returns a refusal if an owner has too much. An upload in progress whose size is not known counts as the largest one, and a URL
// that was not used yet as what was announced.
func (s *Store) checkTotal(ctx context.Context, o Owner) error {
	st, err := s.Open(ctx)
	if err != nil {
		return err
	}
	group, _, _ := strings.Cut(o.ID, Within)
	keys, err := st.Keys(ctx, KeyPrefix+group, "", s.MaxFiles+1)
	total := int64(0)
	for _, key := range keys {
		r, err := s.load(ctx, key)
		switch {
		case err != nil: // it has just expired or was refused
		case r.Size == 0 && r.State == redeemed:
			total += r.MaxSize
		default:
			total += r.Size
		}
	}
	if err == nil && (len(keys) > s.MaxFiles || total > s.MaxTotal) {
		return errFull
	}
	return err
}

// isStored reports whether the content is complete.
func (r *record) isStored() bool { return r.State == complete || r.State == linked }

// change changes a record, which may be zero.
func (s *Store) change(ctx context.Context, key string, change func(*record) error) error {
	st, err := s.Open(ctx)
	if err != nil {
		return err
	}
	err = st.Update(ctx, key, func(old store.Record) (store.Change, error) {
		var r record
		if len(old.Value) > 0 {
			if err := stored.Decode("files", key, old.Value, &r); err != nil {
				return store.Change{}, err
			}
		}
		if err := change(&r); err != nil {
			return store.Change{}, err
		}
		lifetime := time.Until(time.Unix(r.Until, 0))
		switch r.State {
		case issued:
			lifetime += forgotten
		case redeemed:
			lifetime += grace
		}
		value, err := json.Marshal(r)
		return store.Change{Value: value, TTL: max(lifetime, time.Second), Owner: r.Owner.Share}, err
	})
	return refusalOf(err)
}

// refusalOf returns the refusal for a store without room, or the error.
func refusalOf(err error) error {
	if errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrShare) {
		return errFull
	}
	return err
}

func (s *Store) load(ctx context.Context, key string) (*record, error) {
	st, err := s.Open(ctx)
	if err != nil {
		return nil, err
	}
	found, err := st.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrTooLarge) { // a long handle has a long key
		return nil, errUnknown
	} else if err != nil {
		return nil, err
	}
	r := new(record)
	if err := stored.Decode("files", key, found.Value, r); err != nil || !r.isStored() || time.Now().Unix() < r.Until {
		return r, err
	}
	return nil, errUnknown
}

// receive redeems a URL and stores its file. End refuses what comes after the content. After an error, nothing of it is left. If the body
// ended early, the URL can be used again.
func (s *Store) receive(ctx context.Context, key string, f File, body io.Reader, end func() error, state string) (File, error) {
	var r record
	err := s.change(ctx, key, func(now *record) error {
		if now.State != issued || time.Now().Unix() >= now.Until {
			return errGone
		}
		now.State, r = redeemed, *now
		return nil
	})
	if err != nil {
		return f, err
	}
	if r.Size == 0 { // Create has counted a known size
		err = s.checkTotal(ctx, r.Owner)
	}
	if err == nil {
		f.Size, f.SHA256, err = s.write(ctx, key, &r, body)
	}
	broken := isBroken(err)
	if err == nil {
		err = end()
	}
	switch {
	case err != nil:
	case r.Size > 0 && f.Size != r.Size:
		err = errSize
	case r.SHA256 != "" && f.SHA256 != r.SHA256:
		err = errDigest
	default:
		err = s.change(ctx, key, func(now *record) error {
			if now.State != redeemed {
				return errGone // erased
			}
			if now.File, now.State = f, state; state == complete {
				now.Until = time.Now().Add(s.Keep).Unix()
			}
			return nil
		})
	}
	if err != nil {
		s.discard(ctx, key)
	}
	if r.State = issued; broken { // the same URL takes the file again
		restored, cancel := store.Detach(ctx, cleanup)
		defer cancel()
		err = errors.Join(err, s.change(restored, key, func(now *record) error {
			*now = r
			return nil
		}))
	}
	return f, err
}

// discard deletes a file that was refused. If that fails, the file expires.
func (s *Store) discard(ctx context.Context, key string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
	defer cancel()
	if st, err := s.Open(ctx); err == nil {
		_ = st.Delete(ctx, key)
	}
}

// write appends a content to the log of a record. It returns the size, and the SHA-256 in hex.
func (s *Store) write(ctx context.Context, key string, r *record, body io.Reader) (size int64, sum string, err error) {
	st, err := s.Open(ctx)
	if err != nil {
		return 0, "", err
	}
	hash := sha256.New()
	for length := store.DefaultMaxValue; length == store.DefaultMaxValue; {
		chunk, err := io.ReadAll(io.LimitReader(body, store.DefaultMaxValue))
		if err != nil {
			return 0, "", badBody(err)
		}
		length = len(chunk)
		size += int64(length)
		if err := r.Check(File{Size: size}); err != nil {
			return 0, "", err
		}
		_, _ = hash.Write(chunk)
		if err := st.Put(ctx, key, store.Change{Entries: [][]byte{chunk}, TTL: s.Redeem + grace, Owner: r.Owner.Share, Async: true}); err != nil {
			return 0, "", refusalOf(err)
		}
	}
	return size, hex.EncodeToString(hash.Sum(nil)), nil
}

// Add stores a file as if it was uploaded. If it is a link, it is kept until the Ticket expires, and the URL returns it.
func (s *Store) Add(ctx context.Context, o Owner, f File, l Limits, content []byte, isLink bool) (Ticket, File, error) {
	f.Size = int64(len(content))
	state := complete
	if isLink {
		state = linked
	}
	t, err := s.Create(ctx, o, f, l)
	if err == nil {
		f, err = s.receive(ctx, keyOf(t.Secret), f, bytes.NewReader(content), func() error { return nil }, state)
	}
	return t, f, err
}

// Describe returns the file of a handle. For other owners than its own, it does not exist.
func (s *Store) Describe(ctx context.Context, o Owner, handle string) (File, error) {
	r, err := s.load(ctx, KeyPrefix+o.ID+"/"+handle)
	if err != nil {
		return File{}, err
	} else if !r.isStored() {
		return File{}, errEmpty
	}
	return r.File, nil
}

// Content returns the content of a file of which f is the description. If call is not "", the file is bound to that call from then on.
func (s *Store) Content(ctx context.Context, o Owner, handle string, f File, call string) ([]byte, error) {
	key := KeyPrefix + o.ID + "/" + handle
	if call != "" {
		err := s.change(ctx, key, func(r *record) error {
			switch {
			case r.File != f:
				return errUnknown
			case r.Call != "" && r.Call != call:
				return errClaimed
			}
			r.Call = call
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	content := bytes.NewBuffer(make([]byte, 0, f.Size))
	if err := s.copy(ctx, content, key); err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(content.Bytes()); hex.EncodeToString(sum[:]) != f.SHA256 {
		return nil, stored.Unreadable("files", key, stored.ErrUnreadable)
	}
	return content.Bytes(), nil
}

// exported is what an export has of a file: not its content, and not its URL.
type exported struct {
	File
	State   string    `json:"state"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// Export returns the descriptions of the files of a user, of all sites.
func (*Store) Export(ctx context.Context, st store.Store, user string) (any, error) {
	all := []exported{}
	err := visitUser(ctx, st, user, func(_ string, r *record) error {
		all = append(all, exported{r.File, r.State, time.Unix(r.Created, 0).UTC(), time.Unix(r.Until, 0).UTC()})
		return nil
	})
	return all, err
}

// Erase deletes the files of a user, of all sites. An upload in progress fails.
func (*Store) Erase(ctx context.Context, st store.Store, user string) (count int, err error) {
	err = visitUser(ctx, st, user, func(key string, _ *record) error {
		count++
		return st.Delete(ctx, key)
	})
	return count, err
}

func visitUser(ctx context.Context, st store.Store, user string, visit func(key string, r *record) error) error {
	return store.Scan(ctx, st, KeyPrefix, func(key string, found store.Record) error {
		r := new(record)
		if len(found.Value) == 0 {
			return nil // chunks of an upload in progress, which was erased
		}
		if err := stored.Decode("files", key, found.Value, r); err != nil || user == "" || r.Owner.User != user {
			return err
		}
		return visit(key, r)
	})
}
