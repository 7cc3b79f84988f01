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
	DefaultTTL        = 7 * 24 * time.Hour // life of an Engagement after its last call
	DefaultReviewWait = 30 * time.Second   // for a reviewer, before the call is refused
	DefaultAskPause   = time.Second        // before an agent's program is asked once more
	DefaultMaxPayload = 64 << 10           // bytes of inputs, or of outputs, that the record keeps
	LargestMaxPayload = 256 << 10          // bytes: a review has inputs and outputs, and is one value of the store
	DefaultMaxRecord  = 64 << 20           // bytes of all inputs and outputs of one Engagement
	DefaultCacheSize  = 64 << 20           // bytes of the Engagements held in memory

	maxRefused     = 10_000          // refusals that have an entry; more are counted
	maxLength      = 1_000_000       // entries of a record that takes another call
	maxTries       = 100             // to decide on what does not change meanwhile
	strayTTL       = time.Hour       // life of an Engagement of nobody who is known, in which all was refused
	recordTime     = 5 * time.Second // to write what came of a call whose client has gone
	engagementPath = "engagement/"   // begins the store's keys
)

// GuardOptions are those of a Guard. All but Store have a default.
type GuardOptions struct {
	Store store.Store

	// TTL is how long an Engagement lives after its last call. Default: DefaultTTL.
	TTL time.Duration
	// ReviewTTL is how long a review may be decided, and an approval used.
	// Default, and at most: TTL.
	ReviewTTL time.Duration
	// ReviewWait is how long a call waits for its reviewer; negative means not at
	// all. Default: DefaultReviewWait.
	ReviewWait time.Duration
	// MaxPayload is how many bytes of JSON the record keeps of the inputs of a
	// call, and of its outputs: what is larger is shed. Default: DefaultMaxPayload;
	// at most: LargestMaxPayload.
	MaxPayload int
	// MaxRecord is how many bytes of JSON the record keeps of all inputs and
	// outputs: those of later calls are shed. Default: DefaultMaxRecord.
	MaxRecord int64
	// CacheSize is how many bytes of Engagements are held in memory. Default:
	// DefaultCacheSize.
	CacheSize int
	// AskPause is after how long the program of an agent that reviews is asked
	// again, if it has given no answer; twice as long after each further time.
	// Default: DefaultAskPause.
	AskPause time.Duration
	// Notify is told of reviews and of the end of an Engagement. It must return
	// soon.
	Notify func(Event)
	// Now is the clock. Default: time.Now.
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

// A Guard decides what an agent may do, and keeps the record of what it did. Its
// decision about a call and the record of that call are one change of the store,
// so that two calls never both pass where one may, on any number of nodes. It
// fails closed: what cannot be recorded does not pass.
//
// It is safe for concurrent use. Guards of one process that share a store should
// be one Guard, which holds in memory what it has read.
type Guard struct {
	options GuardOptions
	store   store.Store
	records *cache
}

// NewGuard returns a guard that keeps its records in the store of the options.
func NewGuard(options GuardOptions) (*Guard, error) {
	if options.Store == nil {
		return nil, errors.New("a guard needs a store")
	}
	options.setDefaults()
	return &Guard{options: options, store: options.Store, records: newCache(options.CacheSize)}, nil
}

// An EventKind says what an Event is about.
type EventKind string

// Kinds of events.
const (
	EventReviewAsked   EventKind = "review_asked"
	EventReviewDecided EventKind = "review_decided"
	EventEnded         EventKind = "engagement_ended"
)

// An Event is something that somebody may want to know at once.
type Event struct {
	Kind    EventKind
	Review  *Review  // of a review
	Refusal *Refusal // what ended the Engagement
	User    User     // whose Engagement it is
}

var (
	// errUnchanged is what a turn returns that has nothing to write.
	errUnchanged = errors.New("nothing is to be changed")
	// errContended says that others change the record all the time.
	errContended = errors.New("the record of the Engagement changes too often")
)

// wantsError is what a turn returns that must look at more of the log.
type wantsError struct{ wants }

func (*wantsError) Error() string { return "more of the record must be read" }

// change lets decide see an Engagement and change it, in one step of the store.
// begin makes the state of one that is yet to begin; nil if none may begin. decide
// may be called several times, of which the last counts. It returns errUnchanged
// if nothing is to be written.
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
				r.forget() // the store may have gone back to what it was
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

// look lets see look at an Engagement, which it must not change.
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
		// If no other Engagement has begun, a change has come in between, and what
		// is here is newer.
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
