package route

import (
	"context"

	"github.com/fairwayhq/fairway/tools"
)

// maxEdits limits how often reviewers change the arguments of one call.
const maxEdits = 8

// edited makes a call with the arguments of a reviewer, instead of those of the client. It passes the inspectors and all handlers as
// a new request. A guard can require that another reviewer approves these arguments, and that one can change them too.
func (r callRun) edited(ctx context.Context, outcome *tools.Outcome) {
	client := r.call
	for range maxEdits {
		edit := outcome.Failure.Edited
		ctx = edit.Context(withoutReview(ctx))
		i := newInspection(ctx, &r.caller.dispatch, outcome.Tool)
		var arguments []byte
		ctx, arguments = i.arguments(ctx, r.call.Name, edit.Arguments)
		noteWould(ctx, i.Would)
		if rejected, ok := rejectedOutcome(ctx, r.set, r.call.Name); ok {
			*outcome = rejected
			return
		}
		r.call = r.caller.readArguments(r.set, r.call.Name, arguments, nil)
		r.call.ID, r.call.Started = client.ID, client.Started
		*outcome = r.call.Execute(ctx, r.caller)
		if hideValues(ctx, r.call.Name, outcome); outcome.Failure == nil || outcome.Failure.Edited == nil {
			return
		}
	}
	outcome.Failure = &tools.Failure{Kind: tools.Restricted, Message: "The API was not called: reviewers have changed the arguments too often."}
}

// noteChanged tells the model what reviewers have changed, in a success and in a refusal of the API.
func noteChanged(outcome *tools.Outcome) {
	note := "A reviewer changed the arguments before the call: " + outcome.Result.Changed + "."
	if outcome.Failure != nil {
		outcome.Failure.Message += ". " + note
	} else if outcome.Result.Note != "" {
		outcome.Result.Note += " " + note
	} else {
		outcome.Result.Note = note
	}
}
