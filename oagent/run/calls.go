package run

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/model"
)

// makeCalls makes the calls that are recorded as begun, and records each result as it arrives.
func (e *execution) makeCalls(ctx context.Context) error {
	st := e.state
	made := e.conversation.calls()
	if len(made) != len(st.Calls) {
		return fmt.Errorf("the state has %d calls, and the conversation has %d", len(st.Calls), len(made))
	}
	if st.count(CallBegun) == 0 {
		return errors.New("the state has no calls to make")
	}
	limit := e.runner.options.Limits.resultBytes(len(made))
	var group sync.WaitGroup
	errs := make([]error, len(st.Calls))
	for i := range st.Calls {
		if st.Calls[i].Status != CallBegun {
			continue
		}
		group.Go(func() { errs[i] = e.makeCall(ctx, st, i, &made[i], limit) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// makeCall makes one call and records its result.
func (e *execution) makeCall(ctx context.Context, st *State, i int, made *model.ToolCall, limit int) error {
	c := &st.Calls[i]
	arguments, err := argumentsOf(made)
	if err != nil {
		return err // checked before, see plan
	}
	var r Result
	switch t := e.tools.byName[c.Name]; {
	case t == nil && e.tools.isQuestion(c.Name):
		r, err = e.askUser(ctx, arguments)
	case t == nil: // the agent's document has changed since the model requested the call
		r = Result{Text: "this tool no longer exists", IsError: true}
	default:
		r = e.call(ctx, &Invocation{
			Binding: e.binding, Depth: st.Depth, Number: st.Turns, Index: i, Name: c.Name, IsAgent: t.Agent,
			Inputs: arguments, Uncertain: c.Uncertain, Waited: c.Wait, Origin: st.Origin,
		})
	}
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil && (r.IsError || r.Unknown):
		return ctx.Err() // interrupted, so the failure is not a result
	}
	return e.recordResult(i, made, &r, limit)
}

// call calls a tool. It recovers from panics of the tool.
func (e *execution) call(ctx context.Context, i *Invocation) (r Result) {
	defer func() {
		if p := recover(); p != nil {
			e.runner.report(e.id, fmt.Errorf("panic in the tool %s: %v", i.Name, p))
			r = Result{Unknown: true}
		}
	}()
	return e.runner.options.Tools.Call(ctx, i)
}

// recordResult records the result of a call, or that it waits.
func (e *execution) recordResult(i int, made *model.ToolCall, r *Result, limit int) error {
	wait, result := r.Wait, (*model.ToolResult)(nil)
	switch refusal := r.Refusal; {
	case wait != nil:
	case refusal != nil && refusal.Ends():
		return e.failRefused(refusal)
	case refusal != nil && refusal.Kind == engagement.KindReviewPending && refusal.Review != "":
		wait = &Wait{Kind: WaitReview, ID: refusal.Review, Made: refusal.Made}
	case refusal != nil:
		result = serverResult(made, refusal.Message)
	case r.Unknown:
		result = serverResult(made, unknownResult)
	default:
		result = resultFor(made, r, limit)
	}
	err := e.record(func(st *State) []entry {
		c := &st.Calls[i]
		if wait != nil {
			c.Status, c.Wait = CallWaiting, wait
			st.CallsMade-- // it is repeated, or answered by the user
			return []entry{{Kind: entryWaiting, Call: i, Name: c.Name, Wait: wait}}
		}
		c.Status, c.Wait = CallDone, nil
		return []entry{{Kind: entryResult, Call: i, Name: c.Name, Result: result}}
	}, true)
	if wait != nil && errors.Is(err, errLost) {
		e.runner.report(e.id, finalizer{e.runner}.leaseLost(e.ctx, e.id, wait))
	}
	return err
}

// askUser checks the question with the output guardrail, since the user gets it, and waits for
// the answer. If the guardrail ends the run, the error is errLost, because the run has ended.
func (e *execution) askUser(ctx context.Context, arguments jsontext.Value) (Result, error) {
	question := wire.Text(wire.MemberOf(arguments, "question"))
	if question == "" {
		return Result{Text: "the question is missing", IsError: true}, nil
	}
	ended, err := e.check(ctx, engagement.SideOutput, question)
	if ended && err == nil {
		err = errLost
	}
	return Result{Wait: &Wait{Kind: WaitQuestion, Message: question}}, err
}
