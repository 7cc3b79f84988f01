package oagent

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent/engagement"
)

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
	if why == "" {
		why = r.Message
	}
	kept := jsontext.Value(nil)
	if inputs != nil {
		var err error
		if kept, err = checkInputs(inputs); err != nil {
			return err
		}
	}
	e := engagement.Entry{Event: engagement.EntryRefused, Name: engagement.Shorten(r.Name, MaxName), Kind: r.Kind, Rule: r.Rule, Why: engagement.Shorten(why, engagement.MaxReason)}
	begin := func(now time.Time) *engagement.State { return engagement.NewState(b.ref(), now) }
	ctx, cancel := engagement.Detach(ctx)
	defer cancel()
	err := g.Engagements.Change(ctx, b.Key(), begin, func(t *engagement.Tx) error {
		if t.State.Refused >= maxRefusedBefore || t.Length() >= engagement.MaxEntries {
			return engagement.ErrUnchanged
		}
		if b.User.Email != "" {
			t.State.Email = b.User.Email
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
