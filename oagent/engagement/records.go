package engagement

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// Options configures Records. Every option without a default is required.
type Options struct {
	Store      store.Store
	TTL        time.Duration    // lifetime of an Engagement after its last call
	MaxPayload int              // bytes of JSON of the inputs of one call, and of its outputs; larger values are omitted
	MaxRecord  int64            // bytes of JSON of all inputs and outputs in a record; those of later calls are omitted
	CacheSize  int              // bytes of Engagements cached in memory
	Now        func() time.Time // current time

	// Archive gets a copy of each entry. Default: none.
	Archive Archive
	// EvictRefusals allows the store to evict Engagements in which every call was refused, to make room.
	EvictRefusals bool
}

// Archive keeps copies of the entries of records outside the store.
type Archive interface {
	// Ready returns an error if new calls must be refused, because the archive has no room.
	Ready(ctx context.Context) error

	// Record gets the entries of a change. The position is the number of the first entry in the record of the Engagement, from 0.
	// The entries are kept when it returns nil. It must not keep the slice.
	Record(ctx context.Context, of *Ref, key string, position int64, entries []Entry) error
}

// ErrArchive wraps the errors of Options.Archive.
var ErrArchive = errors.New("the audit archive failed")

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
//
// With Options.Archive, the entries are in the record and in the archive when Change returns nil. These are two changes of the
// store, because a change has one record. If the process ends between the two, the caller has got no result: the call was not
// made, or its result was not released.
func (s *Records) Change(ctx context.Context, key string, begin func(now time.Time) *State, decide func(*Tx) error) error {
	r := s.cache.get(key)
	defer s.cache.resize(r)
	if s.options.Archive != nil && begin != nil {
		if err := s.options.Archive.Ready(ctx); err != nil {
			return fmt.Errorf("%w: %w", ErrArchive, err)
		}
	}
	for range MaxTries {
		var t *Tx
		var written store.Change
		var before, position int64
		err := s.store.Update(ctx, r.key, func(old store.Record) (store.Change, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			var err error
			if t, err = s.transaction(r, old, begin); err != nil {
				return store.Change{}, err
			}
			before = t.State.Last
			if old.Value == nil {
				before = 0
			}
			if err = decide(t); err != nil {
				return store.Change{}, err
			}
			written, err = t.change()
			position = t.record.length
			return written, err
		})
		switch {
		case err == nil:
			if before/hourLength != t.State.Last/hourLength {
				s.indexTime(ctx, key, t, written.TTL)
			}
			return s.archive(ctx, key, t, position)
		case errors.Is(err, ErrUnchanged):
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

// archive copies the entries of a change to the archive.
func (s *Records) archive(ctx context.Context, key string, written *Tx, position int64) error {
	if s.options.Archive == nil || len(written.entries) == 0 {
		return nil
	}
	if err := s.options.Archive.Record(ctx, &written.State.Ref, key, position, written.entries); err != nil {
		return fmt.Errorf("%w: %w", ErrArchive, err)
	}
	return nil
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
		if state, err := decodeState(r.key, old.Value); err == nil && state.Born == r.state.Born {
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

// MaxPage is the maximum number of Engagements or entries that one call returns.
const MaxPage = 1000

// Get returns the summary of the Engagement with that key, or ErrNotFound. The
// caller decides who may see it.
func (s *Records) Get(ctx context.Context, key string) (*Summary, error) {
	var e *Summary
	err := s.Read(ctx, key, func(t *Tx) error {
		e = t.State.summary(key, t.Length())
		return nil
	})
	return e, err
}

// Page returns up to limit Engagements (MaxPage at most) in the order of their
// keys. If user is not "", it returns only those of that user, and reads few others. It starts after the given key, or at the
// beginning if after is "". next is the key to pass as after for the next page; it is "" on the last page.
func (s *Records) Page(ctx context.Context, user, after string, limit int) (engagements []*Summary, next string, err error) {
	prefix := keyPrefix
	if user != "" {
		prefix += userDigits(user)
	}
	if after != "" {
		after = keyPrefix + after
	}
	limit = min(limit, MaxPage)
	keys, err := s.store.Keys(ctx, prefix, after, limit+1)
	if err != nil {
		return nil, "", fmt.Errorf("listing Engagements: %w", err)
	}
	if len(keys) > limit { // there is another page
		keys = keys[:limit]
		next = strings.TrimPrefix(keys[limit-1], keyPrefix)
	}
	engagements = make([]*Summary, 0, len(keys))
	for _, key := range keys {
		e, err := s.summaryOf(ctx, strings.TrimPrefix(key, keyPrefix))
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		if user == "" || e.User.ID == user {
			engagements = append(engagements, e)
		}
	}
	return engagements, next, nil
}

// Entries returns up to limit entries (MaxPage at most) of the record of an Engagement. from is
// the number of the first entry, counted from 0. Past the end of the record it returns none.
// Entries contain inputs and outputs as recorded.
func (s *Records) Entries(ctx context.Context, key string, from int64, limit int) ([]Entry, error) {
	if !IsKey(key) || from < 0 {
		return nil, ErrNotFound
	}
	if _, err := s.store.Get(ctx, keyPrefix+key); errors.Is(err, store.ErrNotFound) {
		return nil, ErrNotFound
	}
	entries, err := s.Log(ctx, key, from, max(1, min(limit, MaxPage)))
	if err != nil {
		return nil, fmt.Errorf("reading the record of an Engagement: %w", err)
	}
	return entries, nil
}

// Log reads up to limit entries of the record of an Engagement, which exists.
func (s *Records) Log(ctx context.Context, key string, from int64, limit int) ([]Entry, error) {
	read, err := s.store.Read(ctx, keyPrefix+key, from, limit)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(read))
	for i, data := range read {
		if entries[i], err = decodeEntry(keyPrefix+key, data); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// Call reads the latest call of a name. It returns nil if the record no longer exists.
func (s *Records) Call(ctx context.Context, key string, of CallSummary) (*Payloads, error) {
	call, err := readCall(ctx, s.store, keyPrefix+key, of.Begun, of.Done)
	if errors.Is(err, errNoRecord) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &call.Payloads, nil
}

// maxRenewedRecords limits the size of a record that its user keeps renewing: the inputs and outputs
// of all its Engagements together, as a multiple of Options.MaxRecord.
const maxRenewedRecords = 4

var (
	// ErrActive means that the Engagement has not ended. Its user cannot renew it, because assertions
	// that count calls would start at 0 again.
	ErrActive = errors.New("the Engagement has not ended")
	// ErrRecordFull means that the record has no space for another Engagement. It expires
	// Options.TTL after the last call that was made.
	ErrRecordFull = errors.New("the record of the Engagement is full")
)

// Renewal describes who renews an Engagement.
type Renewal struct {
	By string // id of the user, for the record

	// Force also renews an Engagement that has not ended, or whose record is larger than a
	// user may make it. It is for auditors.
	Force bool
}

// Renew ends the Engagement with that key and begins a new one with the same agent, user and
// id. The new Engagement starts without calls, reviews and repetitions. The record keeps the
// entries of both.
//
//   - The result of a running call is withheld and recorded as EntryLate.
//   - The reviews of the old Engagement are dropped from its state. The caller ends them.
//   - An Engagement without any entry since its last renewal is not changed.
//
// The error is ErrNotFound, ErrActive, ErrRecordFull or an error of the store.
func (s *Records) Renew(ctx context.Context, key string, renewal Renewal) (renewed *Summary, dropped []RequestedReview, err error) {
	if !IsKey(key) {
		return nil, nil, ErrNotFound
	}
	ctx, cancel := Detach(ctx)
	defer cancel()
	err = s.Change(ctx, key, nil, func(t *Tx) error {
		renewed, dropped = nil, nil
		if t.isUntouched() {
			renewed = t.State.summary(key, t.record.length)
			return ErrUnchanged
		}
		if err := t.checkRenewal(renewal); err != nil {
			return err
		}
		dropped = t.State.Reviews
		t.renew(renewal.By)
		renewed = t.State.summary(key, t.State.Earlier.Entries)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return renewed, dropped, nil
}

// isUntouched reports whether the Engagement was renewed and has no entry since then.
func (t *Tx) isUntouched() bool {
	return t.State.Earlier.Renewals > 0 && t.record.length == t.State.Earlier.Entries
}

func (t *Tx) checkRenewal(renewal Renewal) error {
	s := t.State
	switch {
	case t.record.length >= MaxEntries:
		return ErrRecordFull
	case renewal.Force:
		return nil
	case s.Ended == nil:
		return ErrActive
	case s.Earlier.Bytes+s.PayloadBytes > maxRenewedRecords*t.options.MaxRecord:
		return ErrRecordFull
	}
	return nil
}

// renew replaces the state by a new one whose log begins after the existing entries.
func (t *Tx) renew(by string) {
	old := t.State
	e := Entry{Event: EntryRenewed, By: by}
	if old.Ended != nil {
		e.Kind, e.Rule, e.Why = old.Ended.Kind, old.Ended.Rule, old.Ended.Why
	}
	at := t.Log(e)
	t.State = NewState(old.Ref, t.Now)
	t.State.Owner = old.Owner // the record exists
	t.State.Earlier = earlier{Renewals: old.Earlier.Renewals + 1, Entries: at + 1, Bytes: old.Earlier.Bytes + old.PayloadBytes}
	t.Durable, t.Prolong = true, true
}

// detachedTime is the time to record the result of a call whose client has disconnected.
const detachedTime = 5 * time.Second

// Detach returns a context for recording the result of a call, even if its client has
// disconnected.
func Detach(ctx context.Context) (context.Context, context.CancelFunc) {
	return store.Detach(ctx, detachedTime)
}
