package oagent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/tools/logonly"
)

// Binding is the agent that makes a call, and the Engagement that the call belongs to. See
// engagement.Ref.
type Binding struct {
	Agent      *Agent
	Engagement string // as sent by the client
	User       engagement.User
	Identity   *identity.User // groups and claims of the user now; nil if they are unknown
	Reviewed   string         // see engagement.Ref.Reviewed
	Owner      share.Owner    // whose shares the call uses; default: those of the user
	CallID     string         // of the call, for the record; "" if it is unknown
}

// owner returns Owner with its default.
func (b *Binding) owner() share.Owner {
	if b.Owner != "" {
		return b.Owner
	}
	return share.OwnerOf(b.User.ID, "")
}

// ref returns the identifiers of the Engagement.
func (b *Binding) ref() engagement.Ref {
	return engagement.Ref{Agent: b.Agent.Name, ID: b.Engagement, User: b.User, Reviewed: b.Reviewed, Owner: b.Owner}
}

// Key returns the name of the Engagement within this server, see engagement.Ref.Key.
func (b *Binding) Key() string {
	of := b.ref()
	return of.Key()
}

func (b *Binding) check() error {
	of := b.ref()
	return of.Check()
}

// Reviewing returns the Engagement in which an agent decides reviews. reviewed is the key of
// the Engagement under review, user its user.
func Reviewing(agent *Agent, reviewed string, user engagement.User) Binding {
	of := review.DecidingRef(agent.Name, reviewed, user)
	return Binding{Agent: agent, Engagement: of.ID, User: of.User, Reviewed: of.Reviewed}
}

// Call is a call of a tool or an agent that the Guard decides about.
type Call struct {
	Binding
	Name    string // the tool's name in kebab case, or the agent's name
	IsAgent bool   // Name is an agent's, so it also matches a capability oagent://name
	Names   Names  // distinguishes reviewers that are agents from users; if nil, only oagent://name is an agent
	// Conditional is true if the request has a condition, such as If-Match. Refusals of its
	// result must then not reveal whether the condition was met.
	Conditional bool
	Inputs      jsontext.Value // a JSON object; nil means {}; must not change while the Ticket is in use
	// Checked is true if Inputs are known to be a strict JSON object, because the caller encoded
	// them. They are not checked again.
	Checked bool

	// Inspected is set if inspectors require reviews of the inputs. The record and the reviews have its inputs instead.
	Inspected *Inspected
	// Originals encrypts the inputs of calls with Inspected until their reviews are decided. Inspected requires it. Other calls need it
	// to find held results of calls with Inspected; nil if there are no inspectors that require reviews.
	Originals *review.Originals

	// Editable is true if the caller of the Guard can make the call with other inputs, so that reviewers may change them. See Edit.
	Editable bool
	// Edit is set if the call has the inputs of a reviewer. The caller of the Guard got it from Begin.
	Edit *Edit

	// Would is what a rule in log only, outside of the Guard, would have done to the call. The record has it if the call passes.
	Would logonly.Would

	// NoWait refuses a call that needs a review at once, instead of waiting for the decision up
	// to GuardOptions.ReviewWait. The caller repeats the call when the review is decided.
	NoWait bool
	// Serving ends the wait when the server stops. Then the call is refused as if GuardOptions.ReviewWait had passed.
	// Nil never ends it.
	Serving context.Context
	// Turn is the place of the call among those of one message of the model. nil if it is made alone.
	Turn *Turn
	// Uncertain is true if the caller does not know whether it has made the call before. Begin then
	// only releases the held result of an identical call. If there is none, the refusal wraps
	// ErrNoHeldResult and is not recorded. Exception: if there is a review of identical inputs, that
	// review decides as usual, since the call was not made: making a call removes its review.
	Uncertain bool
}

// Inspected has what inspectors require of a call: reviewers must approve it, and its record must not have some values of its inputs.
type Inspected struct {
	Inputs   jsontext.Value // the inputs with these values masked: a strict JSON object
	Required []RequiredReview
}

// RequiredReview is a review that must approve a call before it is made.
type RequiredReview struct {
	Reviewer  string // as in the document of an agent
	Rule      string
	Inspector string   // that requires it; "" if the agent's document does
	Found     []string // what the inspector has found
}

// recordedInputs returns the inputs for the record and for reviews.
func (t *Ticket) recordedInputs() jsontext.Value {
	if t.call.Inspected != nil {
		return t.call.Inspected.Inputs
	}
	return t.inputs
}

// ErrNoHeldResult means that a call with Uncertain has no held result and no review.
var ErrNoHeldResult = errors.New("no result of an identical call is held")

// Ticket allows one call, once. The call is already in the record. The holder makes the call
// and then calls Finish or Abort.
type Ticket struct {
	Capability *Capability
	Key        string // of the Engagement, see Binding.Key
	Number     int64  // number of the call in the Engagement, counted from 1
	Nth        int64  // number among the calls of the same name, from 1
	Review     string // id of the review that approved it; "" if none was needed

	// Replayed is the result of an identical call that was made before and held for a review.
	// If it is set, the call must not be made again.
	Replayed *Replay

	// Changed says for the model what reviewers have changed in the inputs; "" if the call, or that of Replayed, has those of the client.
	Changed string

	// Unrecorded is the reason why the record must not contain the outputs, for example
	// engagement.OmittedCredentials. Set it before Finish. "" allows the record to contain them.
	Unrecorded string

	// Would is what a rule in log only would have done to the call or to its result: the first one that would have changed the
	// decision. Incomplete is the path of a rule that could not be judged.
	Would      logonly.Would
	Incomplete string

	// ResultWould is what a rule in log only, outside of the Guard, would have done to the result. Set it before Finish.
	ResultWould logonly.Would

	guard  *Guard
	call   Call
	inputs jsontext.Value
	born   uint64 // state.Born of the Engagement
	done   atomic.Bool
}

// Replay is a held result that is now released.
type Replay struct {
	Outputs jsontext.Value
	Status  int // HTTP status
}

// Begin decides whether the call may be made, and records it. It checks in this order:
//
//   - The Engagement has not ended, and its record is not full.
//   - The agent has the capability.
//   - If an identical call has a held result, its review decides (see Ticket.Replayed). A call
//     with Call.Uncertain ends here, unless there is a review of its inputs.
//   - The call does not violate short_circuit.
//   - The assertion of the input restriction holds.
//   - The reviewer of the input restriction has approved. Begin waits for the decision up to
//     GuardOptions.ReviewWait, unless Call.NoWait is set.
//
// The error is an *engagement.Refusal, and then the call must not be made. Exception: if a reviewer has approved an editable call with
// other inputs, the error is an *Edit.
func (g *Guard) Begin(ctx context.Context, c Call) (*Ticket, error) {
	if c.Agent == nil {
		return nil, &engagement.Refusal{
			Kind: engagement.KindUnknownAgent, Engagement: c.Engagement, Name: c.Name,
			Message: "no agent document governs this call, so it was not made",
		}
	}
	inputs, err := c.Inputs, error(nil)
	if !c.Checked || inputs == nil {
		inputs, err = CheckInputs(inputs)
	}
	if err = errors.Join(err, c.check()); c.Edit != nil {
		err = errors.Join(err, c.Edit.check(inputs))
	}
	if err != nil {
		return nil, &engagement.Refusal{
			Kind: engagement.KindInvalid, Agent: c.Agent.Name, Engagement: c.Engagement, Name: c.Name,
			Message: "the call was not made: " + err.Error(),
		}
	}
	d := &decision{passing: Ticket{Key: c.Key(), guard: g, call: c, inputs: inputs}}
	d.check = check{ctx: ctx, ticket: &d.passing, side: engagement.SideInput}
	if capability, ok := c.Agent.Capability(c.Name); ok && (c.IsAgent || !capability.Reference.Agent) {
		d.passing.Capability = capability
	}
	if c.Turn != nil {
		c.Turn.awaitDecision(ctx)
		defer func() {
			if d.edit == nil { // else the decision comes with the inputs of the reviewer
				c.Turn.pass()
			}
		}()
	}
	if err := d.run(d.begin, d.decide); err != nil {
		return nil, refuseUnrecorded(&c.Binding, c.Name, false, err)
	}
	if d.refusal != nil {
		g.notifyEnd(d.refusal, c.User)
		return nil, d.refusal
	}
	if d.edit != nil {
		return nil, d.edit
	}
	d.passing.noteTrial(&d.trial)
	return &d.passing, nil
}

// noteTrial adds the result of a decision to the Ticket.
func (t *Ticket) noteTrial(of *trial) {
	if t.Would.Effect == "" {
		t.Would = of.would
	}
	t.Incomplete = cmp.Or(t.Incomplete, of.incomplete)
}

// CheckInputs returns inputs without white space around them. The error says why they are not a strict JSON object.
func CheckInputs(inputs jsontext.Value) (jsontext.Value, error) {
	if inputs == nil {
		return jsontext.Value("{}"), nil
	}
	inputs = bytes.TrimSpace(inputs)
	if inputs.Kind() != '{' {
		return nil, errors.New("its inputs must be a JSON object")
	}
	return inputs, strictjson.Check(inputs)
}

// Finish records the result of the call and decides whether it may be used. outputs is nil if
// there are none; the caller may change it after Finish returns. If the output restriction
// requires a review, Finish waits up to GuardOptions.ReviewWait, unless ctx ends before. The
// error is an *engagement.Refusal, and then the outputs must not be used.
func (t *Ticket) Finish(ctx context.Context, outputs jsontext.Value, status int) error {
	if t.Replayed != nil {
		return nil
	}
	if t.done.Swap(true) {
		return &engagement.Refusal{
			Kind: engagement.KindInvalid, Agent: t.call.Agent.Name, Engagement: t.call.Engagement, Name: t.call.Name, Made: true,
			Message: "the result of the call is withheld: the ticket of the call was already used",
		}
	}
	if t.call.Turn != nil {
		t.call.Turn.AwaitResult(ctx)
	}
	f := &finish{check{ctx: ctx, ticket: t, side: engagement.SideOutput, outputs: checkOutputs(outputs), status: status}}
	if err := f.run(nil, f.decide); err != nil {
		return refuseUnrecorded(&t.call.Binding, t.call.Name, true, err)
	}
	if f.refusal != nil {
		t.guard.notifyEnd(f.refusal, t.call.User)
		return f.refusal
	}
	t.noteTrial(&f.trial)
	return nil
}

// checkOutputs returns the outputs in the form of the record. Assertions cannot read outputs
// that are not strict JSON.
func checkOutputs(outputs jsontext.Value) jsontext.Value {
	outputs = bytes.TrimSpace(outputs)
	if len(outputs) == 0 {
		return nil
	}
	if strictjson.Check(outputs) != nil {
		return engagement.Omitted{Bytes: int64(len(outputs)), Why: engagement.OmittedInvalid}.JSON()
	}
	return outputs
}

// Abort records that the call has no result, and why. It counts as a call.
func (t *Ticket) Abort(ctx context.Context, reason string) {
	if t.Replayed != nil || t.done.Swap(true) {
		return
	}
	if t.call.Turn != nil {
		t.call.Turn.AwaitResult(ctx)
	}
	ctx, cancel := engagement.Detach(ctx)
	defer cancel()
	// If this fails, the record has a call without an end, which means the same.
	_ = t.guard.Engagements.Change(ctx, t.Key, nil, func(tx *engagement.Tx) error {
		tx.CallID = t.call.CallID
		if tx.State.Born != t.born {
			tx.Log(engagement.Entry{Event: engagement.EntryLate, Call: t.Number, Nth: t.Nth, Name: t.call.Name, Why: text.Cut(reason, engagement.MaxReason)})
			return nil
		}
		tx.Log(engagement.Entry{Event: engagement.EntryAborted, Call: t.Number, Nth: t.Nth, Name: t.call.Name, Why: text.Cut(reason, engagement.MaxReason)})
		return nil
	})
}

// isFull reports whether the share of the caller is used up. A full store is no such error.
func isFull(err error) bool {
	_, full := errors.AsType[*share.FullError](err)
	return full && !errors.Is(err, store.ErrFull)
}

// refuseUnrecorded refuses a call because the store failed, or because the share of its caller is used up. If
// the call was already made, RetryAfter is 0, because a retry would make it a second time.
func refuseUnrecorded(b *Binding, name string, made bool, err error) *engagement.Refusal {
	r := &engagement.Refusal{Kind: engagement.KindStore, Name: name, Engagement: b.Engagement, Made: made, Cause: err}
	switch {
	case errors.Is(err, engagement.ErrArchive) && !made:
		r.RetryAfter = retryStore
		r.Message = "the call was not made, because the audit archive cannot take its entry; try again later"
	case made:
		r.Message = "the call was made, but its result is withheld, because the record of the Engagement could not be stored; " +
			"check the effect of the call before you repeat it"
	case errors.Is(err, store.ErrShare):
		r.Kind, r.RetryAfter = engagement.KindShare, time.Minute
		r.Message = "the call was not made: " + store.ShareUsed
	case isFull(err):
		r.Kind, r.RetryAfter = engagement.KindShare, retryFull
		r.Message = "the call was not made: too many calls of its caller are being checked by expressions that take long; try again later, with fewer calls at a time"
	default:
		r.RetryAfter = retryStore
		r.Message = "the call was not made, because the record of the Engagement could not be stored; try again later"
	}
	if b.Agent != nil {
		r.Agent = b.Agent.Name
	}
	return r
}

// Token identifies the Ticket for Guard.Resume. It contains no data of the call.
func (t *Ticket) Token() string {
	return strings.Join([]string{
		strconv.FormatInt(t.Number, 10), strconv.FormatInt(t.Nth, 10), strconv.FormatUint(t.born, 10), t.Review,
	}, ".")
}

var errBadToken = errors.New("invalid token of a ticket")

// Resume returns the Ticket of a call that was begun earlier, possibly by another process, so that the
// caller can finish it. c must equal the Call passed to Begin. The caller must finish a call only
// once.
func (g *Guard) Resume(c Call, token string) (*Ticket, error) {
	parts := strings.SplitN(token, ".", 4)
	if len(parts) != 4 || c.Agent == nil {
		return nil, errBadToken
	}
	capability, ok := c.Agent.Capability(c.Name)
	if !ok {
		return nil, errors.New("the agent no longer has the capability " + c.Name)
	}
	inputs, err := CheckInputs(c.Inputs)
	if err != nil {
		return nil, err
	}
	t := &Ticket{Capability: capability, Key: c.Key(), Review: parts[3], guard: g, call: c, inputs: inputs}
	var errs [3]error
	t.Number, errs[0] = strconv.ParseInt(parts[0], 10, 64)
	t.Nth, errs[1] = strconv.ParseInt(parts[1], 10, 64)
	t.born, errs[2] = strconv.ParseUint(parts[2], 10, 64)
	if errors.Join(errs[:]...) != nil {
		return nil, errBadToken
	}
	return t, nil
}
