package oagent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent/assertion"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
	"github.com/fairwayhq/fairway/store"
)

// Defaults and limits of a Guard.
const (
	DefaultTTL        = 7 * 24 * time.Hour // lifetime of an Engagement after its last call
	defaultReviewWait = 30 * time.Second   // how long a call waits for its reviewer before it is refused
	DefaultMaxPayload = 64 << 10           // bytes of inputs, or of outputs, that the record keeps of one call
	LargestMaxPayload = 256 << 10          // bytes; a review stores inputs and outputs together in one value of the store
	defaultMaxRecord  = 64 << 20           // bytes of all inputs and outputs of one Engagement
	defaultCacheSize  = 64 << 20           // bytes of Engagements cached in memory

	maxRefused = 10_000          // refusals that are recorded in the log; later ones are only counted
	retryStore = 2 * time.Second // retry delay after the store failed
	retryFull  = time.Second     // retry delay if the share of the caller is used up
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
	// Default: 30 seconds.
	ReviewWait time.Duration
	// MaxPayload is the maximum size in bytes of JSON that the record keeps of the inputs of
	// one call, and of its outputs. Larger values are omitted, see engagement.Omitted. Default:
	// DefaultMaxPayload. Maximum: LargestMaxPayload.
	MaxPayload int
	// MaxRecord is the maximum size in bytes of JSON of all inputs and outputs in a record.
	// Those of later calls are omitted. Default: defaultMaxRecord.
	MaxRecord int64
	// CacheSize is the number of bytes of Engagements cached in memory. Default:
	// defaultCacheSize.
	CacheSize int
	// RetryPause is the delay before the program of a reviewing agent is called again if it did not
	// decide. The delay doubles each time. Default: review.DefaultRetryPause.
	RetryPause time.Duration
	// Archive gets a copy of each entry of the records. Default: none.
	Archive engagement.Archive
	// EvictRefusals allows the store to evict Engagements in which every call was refused, to make room.
	EvictRefusals bool
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
	o.ReviewWait = cmp.Or(o.ReviewWait, defaultReviewWait)
	if o.MaxPayload <= 0 {
		o.MaxPayload = DefaultMaxPayload
	}
	o.MaxPayload = min(o.MaxPayload, LargestMaxPayload)
	if o.MaxRecord <= 0 {
		o.MaxRecord = defaultMaxRecord
	}
	if o.CacheSize <= 0 {
		o.CacheSize = defaultCacheSize
	}
	if o.RetryPause <= 0 {
		o.RetryPause = review.DefaultRetryPause
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
	// Engagements are the records, for operators and users to read.
	Engagements *engagement.Records
	// Reviews are the reviews that reviewers must decide.
	Reviews *review.Queue

	options GuardOptions
	slots   *assertion.Slots
}

// NewGuard returns a guard that keeps its records in options.Store.
func NewGuard(options GuardOptions) (*Guard, error) {
	if options.Store == nil {
		return nil, errors.New("a guard needs a store")
	}
	options.setDefaults()
	g := &Guard{options: options, slots: assertion.NewSlots()}
	g.Engagements = engagement.NewRecords(engagement.Options{
		Store: options.Store, TTL: options.TTL, MaxPayload: options.MaxPayload, MaxRecord: options.MaxRecord,
		CacheSize: options.CacheSize, Now: options.Now, Archive: options.Archive, EvictRefusals: options.EvictRefusals,
	})
	g.Reviews = review.NewQueue(review.Options{
		Store: options.Store, Records: g.Engagements, TTL: options.ReviewTTL, RetryPause: options.RetryPause, Now: options.Now,
		OnRequested: func(r *review.Review) { options.Notify(Event{Kind: EventReviewAsked, Review: r, User: r.User}) },
		OnDecided:   func(r *review.Review) { options.Notify(Event{Kind: EventReviewDecided, Review: r, User: r.User}) },
	})
	return g, nil
}

// EventKind is the kind of an Event.
type EventKind string

// Kinds of events.
const (
	EventReviewAsked   EventKind = "review_asked"
	EventReviewDecided EventKind = "review_decided"
	EventEnded         EventKind = "engagement_ended"
)

// Event reports a change that operators may want to react to.
type Event struct {
	Kind    EventKind
	Review  *review.Review      // for events about a review
	Refusal *engagement.Refusal // for EventEnded: the refusal that ended the Engagement
	User    engagement.User     // the user of the Engagement
}

// notifyEnd reports the refusal if it ended the Engagement.
func (g *Guard) notifyEnd(r *engagement.Refusal, user engagement.User) {
	if r.Kind == engagement.KindShortCircuit || r.Kind == engagement.KindGuardrail {
		g.options.Notify(Event{Kind: EventEnded, Refusal: r, User: user})
	}
}

// Renew ends the Engagement with that key and begins a new one, see engagement.Records.Renew.
// Undecided reviews of the old Engagement are denied, and held results are deleted.
func (g *Guard) Renew(ctx context.Context, key string, renewal engagement.Renewal) (*engagement.Summary, error) {
	renewed, dropped, err := g.Engagements.Renew(ctx, key, renewal)
	if err != nil {
		return nil, err
	}
	ctx, cancel := engagement.Detach(ctx)
	defer cancel()
	for i := range dropped {
		_ = g.Reviews.Abandon(ctx, dropped[i].ID, "the Engagement was renewed") // best effort: the Engagement no longer refers to the review
	}
	return renewed, nil
}

// Open begins the Engagement of a binding, unless it exists. So lists have it before its first call.
func (g *Guard) Open(ctx context.Context, b Binding) error {
	opened := false
	begin := func(now time.Time) *engagement.State {
		opened = true
		return engagement.NewState(b.ref(), now)
	}
	return g.Engagements.Change(ctx, b.Key(), begin, func(*engagement.Tx) error {
		if !opened {
			return engagement.ErrUnchanged
		}
		return nil
	})
}

// Prolong restarts the lifetime of an Engagement. The error is engagement.ErrNotFound if it does not exist.
func (g *Guard) Prolong(ctx context.Context, b Binding) error {
	return g.Engagements.Change(ctx, b.Key(), nil, func(t *engagement.Tx) error {
		t.Prolong = true
		return nil
	})
}

// maxRefusedBefore is the number of refusals after which Refuse records nothing. It ensures that a
// client that keeps sending invalid calls does not load the store, and does not use up maxRefused,
// which the guard's own decisions need.
const maxRefusedBefore = 1000

// Refuse records a refusal that the caller of the Guard decided: for example of a request that
// matches no operation, or of a call without credentials. If the Engagement does not exist
// yet, Refuse begins it. inputs are the inputs of the call, or nil if they are unknown. why
// is the reason for the record; "" records the refusal's message. After maxRefusedBefore
// refusals, Refuse records nothing.
//
// An error means that the refusal could not be recorded. The call must still be refused.
func (g *Guard) Refuse(ctx context.Context, b Binding, r *engagement.Refusal, inputs jsontext.Value, why string) error {
	if b.Agent == nil {
		return unknownAgentRefusal(&b)
	}
	if err := b.check(); err != nil {
		return err
	}
	why = cmp.Or(why, r.Message)
	kept := jsontext.Value(nil)
	if inputs != nil {
		var err error
		if kept, err = CheckInputs(inputs); err != nil {
			return err
		}
	}
	e := engagement.Entry{Event: engagement.EntryRefused, Name: text.Cut(r.Name, maxName), Kind: r.Kind, Rule: r.Rule, Why: text.Cut(why, engagement.MaxReason)}
	begin := func(now time.Time) *engagement.State { return engagement.NewState(b.ref(), now) }
	ctx, cancel := engagement.Detach(ctx)
	defer cancel()
	err := g.Engagements.Change(ctx, b.Key(), begin, func(t *engagement.Tx) error {
		t.CallID = b.CallID
		if t.State.Refused >= maxRefusedBefore || t.Length() >= engagement.MaxEntries {
			return engagement.ErrUnchanged
		}
		if b.User.Email != "" {
			t.State.User.Email = b.User.Email
		}
		t.State.Refused++
		e := e
		e.Inputs = t.Keep(kept)
		t.Log(e)
		return nil
	})
	if err != nil {
		return fmt.Errorf("recording a refusal: %w", err)
	}
	return nil
}

// maxExposedTotal is the maximum size of all exposed values together, in bytes of JSON.
const maxExposedTotal = 256 << 10

// Exposed contains the values that an agent exposes to its user (OpenAgentSpec v1, exposes).
type Exposed struct {
	Object  jsontext.Value // name → value, in document order; {} if there is none
	Missing []error        // why other values are absent: *assertion.Error each, which may quote values
}

// Exposed computes the values that the agent exposes. A value that cannot be computed is
// omitted, often because it does not exist yet.
func (g *Guard) Exposed(ctx context.Context, b Binding) (Exposed, error) {
	none := Exposed{Object: jsontext.Value("{}")}
	if b.Agent == nil || len(b.Agent.Exposes) == 0 {
		return none, nil
	}
	var exposed Exposed
	expose := func(t *engagement.Tx) (err error) {
		exposed, err = expose(ctx, b.Agent, &assertion.View{Tx: t, Identity: b.Identity, Slots: g.slots, Owner: b.owner()})
		return err
	}
	err := g.Engagements.Read(ctx, b.Key(), expose)
	if errors.Is(err, engagement.ErrNotFound) {
		err = expose(g.Engagements.Unbegun(b.ref()))
	}
	if err != nil {
		return none, err
	}
	return exposed, nil
}

func expose(ctx context.Context, a *Agent, v *assertion.View) (Exposed, error) {
	var missing []error
	object := []byte{'{'}
	for i := range a.Exposes {
		before := len(object)
		if before > 1 {
			object = append(object, ',')
		}
		object = append(strictjson.AppendString(object, a.Exposes[i].Name), ':')
		var err error
		if object, err = a.Exposes[i].Value.Append(ctx, object, v); err == nil && len(object) > maxExposedTotal {
			err = fmt.Errorf("%s: all exposed values together exceed the limit of %d bytes", a.Exposes[i].Value.Rule, maxExposedTotal)
		}
		if err != nil {
			object = object[:before]
			missing = append(missing, err)
		}
	}
	if v.Unread.Any() {
		return Exposed{}, &engagement.UnreadError{Unread: v.Unread}
	}
	return Exposed{Object: append(object, '}'), Missing: missing}, ctx.Err()
}
