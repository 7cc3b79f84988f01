package oagent

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// maxRefusedBefore is how many refusals a record has before it takes no more of
// those that Refuse tells of: a client that asks for what there is not, again and
// again, leaves room for what the guard itself decides (maxRefused), and the store
// alone.
const maxRefusedBefore = 1000

// Refuse records that something was refused which the guard was not asked about:
// what cannot be told to be a call, say, or a call for which there are no
// credentials. It begins the Engagement if there is none yet. Inputs are those of
// the call, nil if they are not known; why is for the record alone, "" for the
// refusal's message. An Engagement with very many refusals takes no more of these.
// The error says that it is not recorded; the refusal stands.
func (g *Guard) Refuse(ctx context.Context, b Binding, r *Refusal, inputs jsontext.Value, why string) error {
	if b.Agent == nil {
		return refusedUnknown(&b)
	}
	if err := b.check(); err != nil {
		return err
	}
	if why == "" {
		why = r.Message
	}
	kept := payload(nil)
	if inputs != nil {
		var err error
		if kept, err = checkInputs(inputs); err != nil {
			return err
		}
	}
	e := Entry{What: EntryRefused, Name: cut(r.Name, MaxName), Kind: r.Kind, Rule: r.Rule, Why: cut(why, maxWhy)}
	begin := func(now time.Time) *state { return newState(&b, now) }
	ctx, cancel := recordContext(ctx)
	defer cancel()
	err := g.change(ctx, b.Key(), begin, func(t *turn) error {
		if t.state.Refused >= maxRefusedBefore || t.record.length >= maxLength {
			return errUnchanged
		}
		if b.User.Email != "" {
			t.state.Email = b.User.Email
		}
		t.state.Refused++
		e := e
		e.Inputs = t.keep(kept)
		t.log(e)
		return nil
	})
	if err != nil {
		return fmt.Errorf("recording a refusal: %w", err)
	}
	return nil
}
