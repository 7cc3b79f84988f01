package task

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/stored"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/keyedhash"
	"github.com/fairwayhq/fairway/store/lease"
)

// Defaults of Options, and limits.
const (
	DefaultTTL   = time.Hour
	defaultLease = 15 * time.Second

	maxOwned  = 512 // tasks of one owner, until they expire
	maxIDSize = 64  // bytes

	storeTimeout = 5 * time.Second // of one operation
)

var (
	// ErrUnknown means that there is no such task, that it has expired, or that it is another owner's.
	ErrUnknown = fmt.Errorf("no such task: %w", store.ErrNotFound)
	// ErrFull means that the owner has maxOwned tasks. store.ErrShare means that there is no room for more.
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

	// Lease is how long after its last sign of life an attempt counts as dead. Default: defaultLease.
	Lease time.Duration

	// Failed is called with errors of the store that no client gets. May be nil.
	Failed func(error)
}

// Tasks are the tasks of one endpoint. They are safe for concurrent use.
type Tasks struct {
	Options
	Terms lease.Terms // of attempts
	keys  *keyedhash.Keys
}

// New returns Tasks.
func New(o Options) *Tasks {
	o.TTL = cmp.Or(max(o.TTL, 0), DefaultTTL)
	o.Lease = cmp.Or(max(o.Lease, 0), defaultLease)
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	return &Tasks{Terms: lease.Terms{Duration: o.Lease, Failed: o.Failed}, Options: o, keys: keyedhash.NewKeys(nil)}
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
// that of the task if it is less than that of the Options; 0 means the latter. The records take the share of
// by in the store.
func (t *Tasks) Create(ctx context.Context, owner Owner, by store.Owner, r *Record, ttl time.Duration) error {
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
	if err := t.index(st).Change(ctx, index, by, func(entries []indexEntry) ([]indexEntry, error) {
		if len(entries) >= maxOwned {
			return nil, ErrFull
		}
		return append(entries, indexEntry{r.ID, r.Expires}), nil
	}); err != nil {
		return err
	}
	_, key, err := t.begin(ctx, owner, r.ID)
	if err != nil {
		return err
	}
	return st.Put(ctx, key, store.Change{Value: value, TTL: ttl, Owner: by})
}

// index returns the index of an owner.
func (t *Tasks) index(st store.Store) *lease.List[indexEntry] {
	return &lease.List[indexEntry]{Store: st, TTL: t.TTL, IsOver: func(e *indexEntry) bool { return !time.Now().Before(e.Expires) }}
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
	return decode(key, found, err)
}

// decode reads what the store returned.
func decode(key string, found store.Record, err error) (*Record, []byte, error) {
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil, ErrUnknown
	}
	if err != nil {
		return nil, nil, err
	}
	r := new(Record)
	if err := stored.Decode("tasks", key, found.Value, r); err != nil || !time.Now().Before(r.Expires) {
		return nil, nil, ErrUnknown //nolint:nilerr // a record that cannot be read is as good as none
	}
	return r, found.Value, nil
}

// validID reports whether a task can have that id.
func validID(id string) bool { return id != "" && len(id) <= maxIDSize }

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
		if r, _, err = decode(key, old, nil); err != nil {
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

// Hold returns the claim of the attempt that has taken the lease of the task.
func (t *Tasks) Hold(owner Owner, r *Record) *lease.Claim[*Record] {
	return lease.Hold(&t.Terms, func(ctx context.Context, change func(*Record, *lease.Lease) error) error {
		_, err := t.Change(ctx, owner, r.ID, func(r *Record) error { return change(r, &r.Lease) })
		return err
	}, &r.Lease)
}

// Wait waits until the task differs from seen, until a time, or until the context ends. It returns the
// task as it is then.
func (t *Tasks) Wait(ctx context.Context, owner Owner, seen *Record, until time.Time) (*Record, error) {
	r, value, err := t.read(ctx, owner, seen.ID)
	if err != nil || !r.Updated.Equal(seen.Updated) || r.Lease.Token != seen.Lease.Token || r.Handle != seen.Handle {
		return r, err
	}
	st, key, err := t.begin(ctx, owner, seen.ID)
	if err != nil {
		return nil, err
	}
	found, changed, err := lease.Wait(ctx, st, key, value, until)
	if err == nil && !changed {
		return r, nil
	}
	r, _, err = decode(key, found, err)
	return r, err
}

// List returns the tasks of an owner, oldest first.
func (t *Tasks) List(ctx context.Context, owner Owner) ([]*Record, error) {
	st, index, err := t.begin(ctx, owner, "")
	if err != nil {
		return nil, err
	}
	entries, err := t.index(st).Get(ctx, index)
	if err != nil {
		return nil, err
	}
	var all []*Record
	for _, entry := range entries {
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
