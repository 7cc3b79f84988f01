package engagement

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairwayhq/fairway/store"
)

// Limits of a record.
const (
	MaxEntries = 1_000_000 // entries of a record before it accepts no more calls
	MaxTries   = 100       // attempts to decide while other nodes change the record

	refusalOnlyTTL = time.Hour // lifetime of an anonymous Engagement in which every call was refused
	keyPrefix      = KeyPrefix
)

// KeyPrefix is the prefix of the store's keys for Engagements.
const KeyPrefix = "engagement/"

// Options configures Records. Every option is required.
type Options struct {
	Store      store.Store
	TTL        time.Duration    // lifetime of an Engagement after its last call
	MaxPayload int              // bytes of JSON of the inputs of one call, and of its outputs; larger values are omitted
	MaxRecord  int64            // bytes of JSON of all inputs and outputs in a record; those of later calls are omitted
	CacheSize  int              // bytes of Engagements cached in memory
	Now        func() time.Time // current time
}

// Records keeps the records of Engagements in a store. It is safe for concurrent use. A
// process should use one for each store, because it caches the records that it has read.
type Records struct {
	options Options
	store   store.Store
	cache   *cache
}

// NewRecords returns the records in options.Store.
func NewRecords(options Options) *Records {
	return &Records{options: options, store: options.Store, cache: newCache(options.CacheSize)}
}

var (
	// ErrUnchanged is returned by the function of a transaction that changes nothing.
	ErrUnchanged = errors.New("nothing to change")
	// ErrContended means that other nodes kept changing the record.
	ErrContended = errors.New("other nodes keep changing the record of the Engagement")
)

// UnreadError is returned by the function of a transaction that must read more of the log
// first. The transaction reads it and calls the function again.
type UnreadError struct{ Unread }

func (*UnreadError) Error() string {
	return "the decision needs a part of the record that was not read"
}

// Change calls decide in a transaction on an Engagement. begin returns the state of a new
// Engagement; a nil begin allows only existing ones. decide may be called several times, and only
// the last call takes effect. decide returns ErrUnchanged if there is nothing to write.
func (s *Records) Change(ctx context.Context, key string, begin func(now time.Time) *State, decide func(*Tx) error) error {
	r := s.cache.get(key)
	defer s.cache.resize(r)
	for range MaxTries {
		err := s.store.Update(ctx, r.key, func(old store.Record) (store.Change, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			t, err := s.transaction(r, old, begin)
			if err != nil {
				return store.Change{}, err
			}
			if err := decide(t); err != nil {
				return store.Change{}, err
			}
			return t.change()
		})
		if err == nil || errors.Is(err, ErrUnchanged) {
			return nil
		}
		more, ok := errors.AsType[*UnreadError](err)
		if !ok {
			if !errors.Is(err, ErrNotFound) && ctx.Err() == nil {
				r.mu.Lock()
				r.forget() // the store may have returned to its old value
				r.mu.Unlock()
			}
			return err
		}
		if err := s.load(ctx, r, &more.Unread); err != nil {
			return err
		}
	}
	return ErrContended
}

func (s *Records) transaction(r *record, old store.Record, begin func(now time.Time) *State) (*Tx, error) {
	state, err := r.resolve(old)
	if err != nil {
		return nil, err
	}
	t := &Tx{options: &s.options, record: r, Now: s.options.Now()}
	switch {
	case state != nil:
		t.State = state.clone()
	case begin != nil:
		t.State = begin(t.Now)
	default:
		return nil, ErrNotFound
	}
	return t, nil
}

func (s *Records) load(ctx context.Context, r *record, u *Unread) error {
	err := r.load(ctx, s.store, u)
	if errors.Is(err, errNoRecord) {
		r.mu.Lock()
		r.forget()
		r.mu.Unlock()
		return nil
	}
	return err
}

// Read calls read with an Engagement. read must not change it.
func (s *Records) Read(ctx context.Context, key string, read func(*Tx) error) error {
	if !IsKey(key) {
		return ErrNotFound
	}
	r := s.cache.get(key)
	defer s.cache.resize(r)
	for range MaxTries {
		old, err := s.store.Get(ctx, r.key)
		if errors.Is(err, store.ErrNotFound) {
			return ErrNotFound
		}
		if err != nil {
			return fmt.Errorf("reading an Engagement: %w", err)
		}
		var more *UnreadError
		if err := s.readOnce(r, old, read); !errors.As(err, &more) {
			return err
		}
		if err := s.load(ctx, r, &more.Unread); err != nil {
			return fmt.Errorf("reading an Engagement: %w", err)
		}
	}
	return ErrContended
}

func (s *Records) readOnce(r *record, old store.Record, read func(*Tx) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != nil && old.Length < r.length {
		// If no new Engagement has begun, another change has come first and the record in
		// memory is newer.
		if state, err := decodeState(old.Value); err == nil && state.Born == r.state.Born {
			return read(&Tx{options: &s.options, record: r, State: r.state, Now: s.options.Now()})
		}
	}
	t, err := s.transaction(r, old, nil)
	if err != nil {
		return err
	}
	return read(t)
}

// Unbegun returns the transaction of an Engagement that does not exist yet, for reading.
func (s *Records) Unbegun(of Ref) *Tx {
	now := s.options.Now()
	return &Tx{options: &s.options, record: newRecord(""), State: NewState(of, now), Now: now}
}
