package oagent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairwayhq/fairway/internal/store"
)

// Defaults and limits of a Guard.
const (
	DefaultTTL        = 7 * 24 * time.Hour // lifetime of an Engagement after its last call
	DefaultReviewWait = 30 * time.Second   // how long a call waits for its reviewer before it is refused
	DefaultAskPause   = time.Second        // before an agent that reviews is called again
	DefaultMaxPayload = 64 << 10           // bytes of inputs, or of outputs, that the record keeps of one call
	LargestMaxPayload = 256 << 10          // bytes; a review stores inputs and outputs together in one value of the store
	DefaultMaxRecord  = 64 << 20           // bytes of all inputs and outputs of one Engagement
	DefaultCacheSize  = 64 << 20           // bytes of Engagements cached in memory

	maxRefused     = 10_000          // refusals with an entry of their own; later ones are only counted
	maxLength      = 1_000_000       // entries of a record before it accepts no more calls
	maxTries       = 100             // attempts to decide while other nodes change the record
	strayTTL       = time.Hour       // lifetime of an anonymous Engagement in which every call was refused
	recordTime     = 5 * time.Second // to record the result of a call whose client has disconnected
	engagementPath = "engagement/"   // prefix of the store's keys
)

// GuardOptions configures a Guard. Every option but Store has a default.
type GuardOptions struct {
	Store store.Store

	// TTL is the lifetime of an Engagement after its last call. Default: DefaultTTL.
	TTL time.Duration
	// ReviewTTL is how long a review can be decided, and how long an approval can be used.
	// Default and maximum: TTL.
	ReviewTTL time.Duration
	// ReviewWait is how long a call waits for its reviewer. A negative value disables waiting.
	// Default: DefaultReviewWait.
	ReviewWait time.Duration
	// MaxPayload is the maximum size in bytes of JSON that the record keeps of the inputs of
	// one call, and of its outputs. Larger values are omitted, see Shed. Default:
	// DefaultMaxPayload. Maximum: LargestMaxPayload.
	MaxPayload int
	// MaxRecord is the maximum size in bytes of JSON of all inputs and outputs in a record.
	// Those of later calls are omitted. Default: DefaultMaxRecord.
	MaxRecord int64
	// CacheSize is the number of bytes of Engagements cached in memory. Default:
	// DefaultCacheSize.
	CacheSize int
	// AskPause is the delay before a reviewing agent is called again if it did not decide. The
	// delay doubles each time. Default: DefaultAskPause.
	AskPause time.Duration
	// Notify is called for each Event. It must return quickly. Default: none.
	Notify func(Event)
	// Now returns the current time. Default: time.Now.
	Now func() time.Time
}

func (o *GuardOptions) setDefaults() {
	if o.TTL <= 0 {
		o.TTL = DefaultTTL
	}
	o.TTL = min(o.TTL, store.MaxTTL-time.Hour)
	if o.ReviewTTL <= 0 || o.ReviewTTL > o.TTL {
		o.ReviewTTL = o.TTL
	}
	if o.ReviewWait == 0 {
		o.ReviewWait = DefaultReviewWait
	}
	if o.MaxPayload <= 0 {
		o.MaxPayload = DefaultMaxPayload
	}
	o.MaxPayload = min(o.MaxPayload, LargestMaxPayload)
	if o.MaxRecord <= 0 {
		o.MaxRecord = DefaultMaxRecord
	}
	if o.CacheSize <= 0 {
		o.CacheSize = DefaultCacheSize
	}
	if o.AskPause <= 0 {
		o.AskPause = DefaultAskPause
	}
	if o.Notify == nil {
		o.Notify = func(Event) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Guard decides what an agent may do, and records what it did.
//
//   - The decision about a call and its record are one transaction of the store. So if the
//     rules allow only one of two concurrent calls, only one passes, on any number of nodes.
//   - It fails closed: a call that cannot be recorded is refused.
//
// A Guard is safe for concurrent use. A process should use one Guard for each store, because
// the Guard caches the records that it has read.
type Guard struct {
	options GuardOptions
	store   store.Store
	records *cache
}

// NewGuard returns a guard that keeps its records in options.Store.
func NewGuard(options GuardOptions) (*Guard, error) {
	if options.Store == nil {
		return nil, errors.New("a guard needs a store")
	}
	options.setDefaults()
	return &Guard{options: options, store: options.Store, records: newCache(options.CacheSize)}, nil
}

// EventKind is the kind of an Event.
type EventKind string

// Kinds of events.
const (
	EventReviewAsked   EventKind = "review_asked"
	EventReviewDecided EventKind = "review_decided"
	EventEnded         EventKind = "engagement_ended"
)

// Event reports something that an operator may want to know at once.
type Event struct {
	Kind    EventKind
	Review  *Review  // for events about a review
	Refusal *Refusal // for EventEnded: the refusal that ended the Engagement
	User    User     // the user of the Engagement
}

var (
	// errUnchanged is returned by a turn that changes nothing.
	errUnchanged = errors.New("nothing is to be changed")
	// errContended means that other nodes kept changing the record.
	errContended = errors.New("the record of the Engagement changes too often")
)

// wantsError is returned by a turn that must read more of the log first.
type wantsError struct{ wants }

func (*wantsError) Error() string { return "more of the record must be read" }

// change runs decide in a transaction on an Engagement. begin returns the state of a new
// Engagement; a nil begin allows only existing ones. decide may run several times, and only
// its last run counts. decide returns errUnchanged if there is nothing to write.
func (g *Guard) change(ctx context.Context, key string, begin func(now time.Time) *state, decide func(*turn) error) error {
	r := g.records.get(key)
	defer g.records.weigh(r)
	for range maxTries {
		err := g.store.Update(ctx, r.key, func(old store.Record) (store.Change, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			t, err := g.turn(r, old, begin)
			if err != nil {
				return store.Change{}, err
			}
			if err := decide(t); err != nil {
				return store.Change{}, err
			}
			return t.change()
		})
		if err == nil || errors.Is(err, errUnchanged) {
			return nil
		}
		more, ok := errors.AsType[*wantsError](err)
		if !ok {
			if !errors.Is(err, ErrNoEngagement) && ctx.Err() == nil {
				r.mu.Lock()
				r.forget() // the store may have returned to its old value
				r.mu.Unlock()
			}
			return err
		}
		if err := g.load(ctx, r, &more.wants); err != nil {
			return err
		}
	}
	return errContended
}

func (g *Guard) turn(r *record, old store.Record, begin func(now time.Time) *state) (*turn, error) {
	s, err := r.resolve(old)
	if err != nil {
		return nil, err
	}
	t := &turn{guard: g, record: r, now: g.options.Now(), isNew: s == nil}
	switch {
	case s != nil:
		t.state = s.clone()
	case begin != nil:
		t.state = begin(t.now)
	default:
		return nil, ErrNoEngagement
	}
	return t, nil
}

func (g *Guard) load(ctx context.Context, r *record, w *wants) error {
	err := r.load(ctx, g.store, w)
	if errors.Is(err, errGone) {
		r.mu.Lock()
		r.forget()
		r.mu.Unlock()
		return nil
	}
	return err
}

// look runs see on an Engagement. see must not change it.
func (g *Guard) look(ctx context.Context, key string, see func(*turn) error) error {
	if !isKey(key) {
		return ErrNoEngagement
	}
	r := g.records.get(key)
	defer g.records.weigh(r)
	for range maxTries {
		old, err := g.store.Get(ctx, r.key)
		if errors.Is(err, store.ErrNotFound) {
			return ErrNoEngagement
		}
		if err != nil {
			return fmt.Errorf("reading an Engagement: %w", err)
		}
		var more *wantsError
		if err := g.lookOnce(r, old, see); !errors.As(err, &more) {
			return err
		}
		if err := g.load(ctx, r, &more.wants); err != nil {
			return fmt.Errorf("reading an Engagement: %w", err)
		}
	}
	return errContended
}

func (g *Guard) lookOnce(r *record, old store.Record, see func(*turn) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != nil && old.Length < r.length {
		// If no new Engagement has begun, another change has come first and the record in
		// memory is newer.
		if s, err := decodeState(old.Value); err == nil && s.Born == r.state.Born {
			return see(&turn{guard: g, record: r, state: r.state, now: g.options.Now()})
		}
	}
	t, err := g.turn(r, old, nil)
	if err != nil {
		return err
	}
	return see(t)
}
