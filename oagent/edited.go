package oagent

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
)

// Edit says that a reviewer has approved a call with other inputs. It is the error of Begin. The holder makes the call again with these
// inputs and with the Edit, and the Guard decides about it as about every call:
//
//   - The approval of the reviewer who has changed the inputs holds for these inputs, and for no others.
//   - Other reviewers must approve these inputs too. What they have approved before does not count.
//   - When the call passes, its reviews are used up, also those of the inputs that were replaced.
//
// The client repeats the call with its own inputs, so a held result is found by those.
type Edit struct { //nolint:errname // Call.Edit has it as a value
	Inputs jsontext.Value // of the reviewer

	original jsontext.Value // the inputs of the client
	editor   string         // id of the user who has changed the inputs
	reviews  []string       // ids of the reviews that have replaced inputs, in order
	stages   []string       // hashes of the inputs that they replaced
}

// Error implements error.
func (*Edit) Error() string { return "a reviewer has approved the call with other inputs" }

// check returns an error if a call does not have the inputs that the reviewer approved. Headers of the client can override arguments,
// and inspectors can mask them.
func (e *Edit) check(inputs jsontext.Value) error {
	if review.Equal(e.Inputs, inputs) {
		return nil
	}
	return errors.New("its request would not have the arguments that a reviewer has approved; continue without it")
}

// has reports whether a review has replaced inputs of the call.
func (e *Edit) has(id string) bool { return e != nil && slices.Contains(e.reviews, id) }

// find returns the index of the review that approved the inputs, or -1.
func (e *Edit) find(all review.Requests) int {
	if e == nil {
		return -1
	}
	return all.Find(func(a *engagement.RequestedReview) bool { return a.ID == e.reviews[len(e.reviews)-1] })
}

// replaced returns whether a review is of inputs that were replaced.
func (e *Edit) replaced(name string) func(engagement.RequestedReview) bool {
	return func(a engagement.RequestedReview) bool {
		return a.Side == engagement.SideInput && a.Name == name && slices.Contains(e.stages, a.Inputs)
	}
}

// fetchEdit reads the inputs of the review c.edited.
func (c *check) fetchEdit() (*Edit, error) {
	a := c.edited
	entries, err := c.ticket.guard.Engagements.Log(c.ctx, c.ticket.Key, a.Edited, 1)
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 || entries[0].Review != a.ID {
		return nil, fmt.Errorf("the record has no inputs of the review %s", a.ID)
	}
	e := &Edit{Inputs: entries[0].Inputs, original: c.ticket.inputs, editor: a.DecidedBy.User}
	if before := c.ticket.call.Edit; before != nil {
		e.original, e.reviews, e.stages = before.original, slices.Clone(before.reviews), slices.Clone(before.stages)
	}
	e.reviews, e.stages = append(e.reviews, a.ID), append(e.stages, a.Inputs)
	return e, nil
}

// changed says what reviewers have changed in the inputs of a call.
func (e *Edit) changed(t *Ticket) string { return review.Changes(e.original, t.recordedInputs()) }

// lastEditor returns the id of the user who has changed the inputs, "" for none.
func (e *Edit) lastEditor() string {
	if e == nil {
		return ""
	}
	return e.editor
}

// usedRefusal is for a call whose approval a concurrent identical call has used.
func usedRefusal(c *Call) *engagement.Refusal {
	return &engagement.Refusal{Kind: engagement.KindReviewPending, RetryAfter: review.RetryPending, Message: fmt.Sprintf(
		"the call of %s was not made: an identical call has used its approval; repeat it with exactly these inputs later", text.Cut(c.Name, maxName))}
}
