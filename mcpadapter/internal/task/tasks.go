package task

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/keyedhash"
	"github.com/fairwayhq/fairway/store"
)

// Defaults of Options, and limits.
const (
	DefaultTTL   = time.Hour
	DefaultLease = 15 * time.Second

	MaxOwned  = 512 // tasks of one owner, until they expire
	MaxIDSize = 64  // bytes

	storeTimeout = 5 * time.Second // of one operation
)

var (
	// ErrUnknown means that there is no such task, that it has expired, or that it is another owner's.
	ErrUnknown = errors.New("no such task")
	// ErrFull means that the owner has MaxOwned tasks.
	ErrFull = errors.New("too many tasks")
	// ErrUnchanged is returned by the function of Change if there is nothing to change.
	ErrUnchanged = errors.New("nothing is to be changed")
)

// Options configure Tasks.
type Options struct {
	// Open returns the store. Required.
	Open func(context.Context) (store.Store, error)

	// Endpoint separates the tasks of several endpoints in one store.
	Endpoint string

	// TTL is how long a task is kept after its creation. Default: DefaultTTL.
	TTL time.Duration

	// Lease is how long after its last sign of life an attempt counts as dead. Default: DefaultLease.
	Lease time.Duration

	// Failed is called with errors of the store that no client gets. May be nil.
	Failed func(error)
}

// Tasks are the tasks of one endpoint. They are safe for concurrent use.
type Tasks struct {
	Options
	keys *keyedhash.Keys
}

// New returns Tasks.
func New(o Options) *Tasks {
	if o.TTL <= 0 {
		o.TTL = DefaultTTL
	}
	if o.Lease <= 0 {
		o.Lease = DefaultLease
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	return &Tasks{Options: o, keys: keyedhash.NewKeys(nil)}
}

// An Owner identifies the caller who may see a task: the user, or the credentials of callers whom
// the site does not authenticate.
type Owner []string

// prefixes of the keys in the store
const (
	recordPrefix = "mcp/task/"
	indexPrefix  = "mcp/tasks/"
)

// begin opens the store and returns the key of a record: that of a task, or that of the owner's index
// if id is "". The key is a hash, so another owner's task cannot be found.
func (t *Tasks) begin(ctx context.Context, owner Owner, id string) (store.Store, string, error) {
	st, err := t.Open(ctx)
	if err != nil {
		return nil, "", err
	}
	key, err := t.keys.Current(ctx, st)
	if err != nil {
		return nil, "", err
	}
	h := key.Hash("mcp task")
	h.Add(t.Endpoint)
	for _, field := range owner {
		h.Add(field)
	}
	h.Add(id)
	digest := h.Digest()
	prefix := recordPrefix
	if id == "" {
		prefix = indexPrefix
	}
	return st, prefix + base64.RawURLEncoding.EncodeToString(digest[:]), nil
}

// An indexEntry is a task in the index of its owner.
type indexEntry struct {
	ID      string    `json:"id"`
	Expires time.Time `json:"expires"`
}

// Create stores a new task and sets its ID and its times. It is durable when Create returns. TTL is
// that of the task if it is less than that of the Options; 0 means the latter.
func (t *Tasks) Create(ctx context.Context, owner Owner, r *Record, ttl time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if ttl <= 0 || ttl > t.TTL {
		ttl = t.TTL
	}
	r.ID, r.Created = rand.Text(), time.Now().UTC()
	r.Updated, r.Expires = r.Created, r.Created.Add(ttl)
	value, err := t.encode(r)
	if err != nil {
		return err
	}
	st, index, err := t.begin(ctx, owner, "")
	if err != nil {
		return err
	}
	if err := st.Update(ctx, index, func(old store.Record) (store.Change, error) {
		entries := readIndex(old.Value, r.Created)
		if len(entries) >= MaxOwned {
			return store.Change{}, ErrFull
		}
		value, err := json.Marshal(append(entries, indexEntry{r.ID, r.Expires}))
		return store.Change{Value: value, TTL: t.TTL}, err
	}); err != nil {
		return err
	}
	_, key, err := t.begin(ctx, owner, r.ID)
	if err != nil {
		return err
	}
	return st.Put(ctx, key, store.Change{Value: value, TTL: ttl})
}

// readIndex returns the entries of an index that have not expired.
func readIndex(value []byte, now time.Time) (entries []indexEntry) {
	if len(value) == 0 || json.Unmarshal(value, &entries) != nil {
		return nil
	}
	return slices.DeleteFunc(entries, func(e indexEntry) bool { return !now.Before(e.Expires) })
}

func (t *Tasks) encode(r *Record) ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	return json.Marshal(r)
}

// Get returns a task, or ErrUnknown.
func (t *Tasks) Get(ctx context.Context, owner Owner, id string) (*Record, error) {
	r, _, err := t.read(ctx, owner, id)
	return r, err
}

// read returns a task and its encoded form.
func (t *Tasks) read(ctx context.Context, owner Owner, id string) (*Record, []byte, error) {
	if !validID(id) {
		return nil, nil, ErrUnknown
	}
	st, key, err := t.begin(ctx, owner, id)
	if err != nil {
		return nil, nil, err
	}
	found, err := st.Get(ctx, key)
	return decode(found, err)
}

// decode reads what the store returned.
func decode(found store.Record, err error) (*Record, []byte, error) {
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil, ErrUnknown
	}
	if err != nil {
		return nil, nil, err
	}
	r := new(Record)
	if err := json.Unmarshal(found.Value, r); err != nil || !time.Now().Before(r.Expires) {
		return nil, nil, ErrUnknown //nolint:nilerr // a record of another version is as good as none
	}
	return r, found.Value, nil
}

// validID reports whether a task can have that id.
func validID(id string) bool { return id != "" && len(id) <= MaxIDSize }

// Change changes a task, and returns it as it is then. Change may call the function more than once.
// If the function returns an error, nothing is changed, and Change returns the error; exception:
// ErrUnchanged. Updated is set if status, message or the requests to the client change.
func (t *Tasks) Change(ctx context.Context, owner Owner, id string, change func(*Record) error) (*Record, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if !validID(id) {
		return nil, ErrUnknown
	}
	st, key, err := t.begin(ctx, owner, id)
	if err != nil {
		return nil, err
	}
	var r *Record
	err = st.Update(ctx, key, func(old store.Record) (store.Change, error) {
		var err error
		if old.Value == nil {
			return store.Change{}, ErrUnknown
		}
		if r, _, err = decode(old, nil); err != nil {
			return store.Change{}, err
		}
		before := *r
		if err := change(r); err != nil {
			return store.Change{}, err
		}
		if r.Status != before.Status || r.Message != before.Message || string(r.Requests) != string(before.Requests) {
			r.Updated = time.Now().UTC()
		}
		value, err := t.encode(r)
		return store.Change{Value: value, TTL: max(time.Until(r.Expires), time.Millisecond), Evictable: r.Status.Final()}, err
	})
	if errors.Is(err, ErrUnchanged) {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Wait waits until the task differs from seen, until a time, or until the context ends. It returns the
// task as it is then.
func (t *Tasks) Wait(ctx context.Context, owner Owner, seen *Record, until time.Time) (*Record, error) {
	r, value, err := t.read(ctx, owner, seen.ID)
	if err != nil || !r.Updated.Equal(seen.Updated) || r.Attempt != seen.Attempt || r.Handle != seen.Handle {
		return r, err
	}
	st, key, err := t.begin(ctx, owner, seen.ID)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	found, err := st.Wait(waiting, key, value)
	if ended := waiting.Err() != nil || !time.Now().Before(until); err != nil && ended {
		return r, ctx.Err()
	}
	r, _, err = decode(found, err)
	return r, err
}

// List returns the tasks of an owner, oldest first.
func (t *Tasks) List(ctx context.Context, owner Owner) ([]*Record, error) {
	st, index, err := t.begin(ctx, owner, "")
	if err != nil {
		return nil, err
	}
	found, err := st.Get(ctx, index)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []*Record
	for _, entry := range readIndex(found.Value, time.Now()) {
		r, err := t.Get(ctx, owner, entry.ID)
		if errors.Is(err, ErrUnknown) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}
