package hosted

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/remote"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
	"github.com/fairwayhq/fairway/tools"
)

const (
	firstWait  = 200 * time.Millisecond // of the first call, if the adapter can poll for its outcome
	laterWait  = time.Second            // of a poll
	askAgain   = time.Second            // suggested delay between two polls
	lookEvery  = time.Second            // interval of checks of the agents that a run waits for
	retryFull  = 10 * time.Second       // suggested delay if too many runs are in progress
	cancelTime = 5 * time.Second        // time limit for canceling the run of a client that has disconnected
)

// A toolCall is a call of an agent as a tool: by a client of mcp or otc, not by an agent. It starts a run
// for its caller, or finds the run that an earlier request of the same call has started.
type toolCall struct {
	*route.AgentCall
	host   *Host
	r      *http.Request
	agent  *oagent.Agent
	user   engagement.User
	runner *run.Runner

	lasting tools.LongRunning
	later   bool   // the adapter can poll for the outcome
	handle  string // of the run, for tools.LongRunning
}

// ServeTool implements guard.Host.
func (h guardHost) ServeTool(w http.ResponseWriter, r *http.Request, call *route.AgentCall) bool {
	agent := h.host.agent(call.Agent)
	if agent == nil || !h.host.Runs(agent) || h.host.options.Serve+"/"+agent.Name != call.Serve {
		return false
	}
	t := &toolCall{host: h.host, AgentCall: call, r: r, agent: agent, user: h.host.options.Handler.UserOf(r, agent)}
	t.lasting, t.later = tools.LongRunningFromContext(r.Context())
	call.Reached = true
	a, failure := t.serve()
	switch {
	case failure != nil:
		call.Failure = failure
		w.WriteHeader(http.StatusBadGateway)
	case call.Pending != nil:
		w.WriteHeader(http.StatusAccepted)
	default:
		a.write(w, r.Header)
	}
	return true
}

// serve finds or starts the run, and waits until it has a result for the client.
func (t *toolCall) serve() (*agentAnswer, *tools.Failure) {
	if t.user.ID == "" {
		return nil, &tools.Failure{
			Kind: tools.Refused, Status: http.StatusUnauthorized,
			Message: "the agent " + t.agent.Name + " was not started: it requires an authenticated user; log in first",
		}
	}
	runner, err := t.host.Runner(t.r.Context())
	if err != nil {
		return nil, t.failed(err)
	}
	t.runner = runner
	st, failure := t.find()
	if failure != nil {
		return nil, failure
	}
	t.handle = runHandle + st.ID
	if t.lasting.Cancel {
		t.cancel(st.ID)
		return &agentAnswer{state: st}, nil
	}
	return t.wait(st)
}

// runHandle is the prefix of the handle of a run, see tools.Pending.
const runHandle = "run:"

// find returns the run of the call.
func (t *toolCall) find() (*run.State, *tools.Failure) {
	id, ok := strings.CutPrefix(t.lasting.Handle, runHandle)
	answered := readQuestionState(t.r.Header.Get(elicit.HeaderRequestState))
	if !ok && answered != nil {
		id, ok = answered.run, true
	}
	if !ok && t.CallID != "" {
		id = t.idOf()
		if st, err := t.own(id); err == nil {
			return st, t.arrived(st)
		}
		return t.start(id)
	}
	if !ok {
		return t.start(run.NewID())
	}
	st, err := t.own(id)
	if err != nil {
		return nil, t.failed(err)
	}
	if failure := t.arrived(st); failure != nil || answered == nil {
		return st, failure
	}
	if failure := t.answer(answered); failure != nil {
		return nil, failure
	}
	if st, err = t.own(id); err != nil {
		return nil, t.failed(err)
	}
	return st, nil
}

// own returns a run if it belongs to the caller.
func (t *toolCall) own(id string) (*run.State, error) {
	st, err := t.runner.Get(t.r.Context(), id)
	if err == nil && !st.IsOf(t.user.ID) {
		return nil, run.ErrNotFound
	}
	return st, err
}

// idOf returns the id of the run of a call that the client can repeat.
func (t *toolCall) idOf() string {
	return run.IDOf(engagement.Digest("tool call", t.host.options.Realm(), t.user.ID, t.agent.Name, t.CallID, t.Input))
}

func (t *toolCall) start(id string) (*run.State, *tools.Failure) {
	if strings.TrimSpace(t.Input) == "" {
		return nil, &tools.Failure{Kind: tools.InvalidArguments, Message: "the agent was not started: input is empty; set it to the message to the agent"}
	}
	if len(t.Input) > run.MaxInput {
		return nil, &tools.Failure{Kind: tools.InvalidArguments, Message: fmt.Sprintf("the agent was not started: input has %d bytes, and the limit is %d", len(t.Input), run.MaxInput)}
	}
	st, err := t.host.startRun(t.r, t.agent, run.StartOptions{ID: id, User: t.user, Input: t.Input})
	if errors.Is(err, remote.ErrCycle) || errors.Is(err, remote.ErrTooDeep) || errors.Is(err, remote.ErrMalformedChain) {
		return nil, &tools.Failure{Kind: tools.Refused, Status: http.StatusLoopDetected, Message: "the agent was not started: " + err.Error()}
	}
	if full, ok := errors.AsType[*share.FullError](err); ok {
		return nil, &tools.Failure{Kind: tools.Refused, Status: http.StatusTooManyRequests, RetryAfter: retryFull, Message: "the agent was not started: " + full.Error()}
	}
	if err != nil {
		return nil, t.failed(err)
	}
	return st, nil
}

// arrived gives the credentials of the caller to a run that waits for them.
func (t *toolCall) arrived(st *run.State) *tools.Failure {
	if err := t.host.Arrived(t.r, st); err != nil {
		return t.failed(err)
	}
	return nil
}

// wait waits until the run has ended, needs its user, or lasts too long.
func (t *toolCall) wait(st *run.State) (*agentAnswer, *tools.Failure) {
	ended := t.host.waiting
	if t.later || t.CallID != "" { // the client comes back
		ended = t.host.serving
	}
	ctx, cancel := context.WithCancel(t.r.Context())
	defer cancel()
	defer context.AfterFunc(ended, cancel)()
	end := time.Now().Add(t.Wait)
	switch {
	case t.later && t.lasting.Handle == "":
		end = time.Now().Add(firstWait)
	case t.later:
		end = time.Now().Add(laterWait)
	}
	progress := tools.ListenerFromContext(t.r.Context())
	for count := 1; ; count++ {
		if st.Status.IsFinal() {
			return t.ended(st)
		}
		asking, w := t.needsUser(ctx, st)
		if w != nil && (w.Kind == run.WaitQuestion || !t.host.identifies(t.r)) {
			return &agentAnswer{state: st, view: t.runner.View(ctx, st), asking: asking, wait: w, path: t.host.options.Engagements + "/" + asking.ID}, nil
		}
		left := time.Until(end)
		if left <= 0 || ended.Err() != nil {
			return nil, t.pending(st)
		}
		if progress != nil {
			progress(tools.Event{Kind: tools.EventProgress, Progress: strconv.AppendInt(nil, int64(count), 10), Message: progressOf(st)})
		}
		waiting, stop := context.WithTimeout(ctx, min(left, lookEvery))
		latest, err := t.runner.Await(waiting, st.ID, func(now *run.State) bool {
			return now.Status.IsFinal() || now.Status == run.StatusAwaitingInput && w == nil
		})
		stop()
		if err == nil {
			st = latest
		}
		switch {
		case t.r.Context().Err() != nil:
			if ended.Err() == nil && t.lasting.Handle == "" && t.CallID == "" {
				t.cancel(st.ID)
			}
			return nil, &tools.Failure{Kind: tools.Canceled, Message: "the call of the agent " + t.agent.Name + " was canceled"}
		case err != nil && ended.Err() == nil:
			return nil, t.failed(err)
		case w != nil:
			if failure := t.arrived(st); failure != nil { // the request has the credentials
				return nil, failure
			}
		}
	}
}

// maxAgentDepth is the maximum nesting of agents that needsUser follows. It is more than run.MaxDepth.
const maxAgentDepth = 16

// needsUser returns the run that waits for the user, which is the given run or one of an agent that it
// waits for, and its Wait. It returns nil if no run waits for the user.
func (t *toolCall) needsUser(ctx context.Context, st *run.State) (*run.State, *run.Wait) {
	for range maxAgentDepth {
		called := ""
		for _, w := range st.Waits() {
			switch w.Kind {
			case run.WaitQuestion, run.WaitCredentials:
				if st.Status == run.StatusAwaitingInput {
					return st, &w
				}
			case run.WaitTask:
				called = w.ID
			}
		}
		if called == "" {
			return nil, nil
		}
		var err error
		if st, err = t.runner.Get(ctx, called); err != nil || st.Status.IsFinal() {
			return nil, nil
		}
	}
	return nil, nil
}

// progressOf describes the current activity of a run.
func progressOf(st *run.State) string {
	if st.View().Queued && time.Since(st.Started) >= lookEvery { // a new run usually gets a worker at once
		return "the agent " + st.Agent + " is queued"
	}
	switch st.Status {
	case run.StatusAwaitingTool:
		for i := range st.Calls {
			if st.Calls[i].Status != run.CallDone {
				return "the agent " + st.Agent + " calls " + st.Calls[i].Name
			}
		}
	case run.StatusAwaitingReview:
		return "the agent " + st.Agent + " waits for a review"
	}
	return "the agent " + st.Agent + " is working"
}

// pending makes the call pending. If the adapter cannot poll, it returns a failure, and the run continues
// without the client.
func (t *toolCall) pending(st *run.State) *tools.Failure {
	message := progressOf(st)
	pending := &tools.Pending{Handle: t.handle, After: askAgain, Message: message}
	if t.later {
		t.Pending = pending
		return nil
	}
	f := &tools.Failure{Kind: tools.TimedOut, Message: message + ", and did not answer within the time limit; it continues, and its result will be at " +
		t.host.options.Engagements + "/" + st.ID}
	if t.CallID != "" {
		f.Pending, f.RetryAfter = pending, askAgain
		f.Message = message + "; repeat the call with the same call_id to wait for its answer"
	}
	return f
}

// cancel cancels the run of a call that the client has canceled.
func (t *toolCall) cancel(id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.r.Context()), cancelTime)
	defer cancel()
	if _, err := t.runner.Cancel(ctx, id); err != nil && !errors.Is(err, run.ErrEnded) && !errors.Is(err, run.ErrNotFound) {
		t.host.report(id, err)
	}
}

// failed returns the failure for an error of the Runner.
func (t *toolCall) failed(err error) *tools.Failure {
	switch {
	case errors.Is(err, run.ErrNotFound):
		return &tools.Failure{Kind: tools.Refused, Status: http.StatusNotFound, Message: "the Engagement of this call no longer exists; call the agent again"}
	case t.r.Context().Err() != nil:
		return &tools.Failure{Kind: tools.Canceled, Message: "the call of the agent " + t.agent.Name + " was canceled"}
	}
	t.host.report(strings.TrimPrefix(t.handle, runHandle), err)
	return &tools.Failure{Kind: tools.Internal, Message: "the records of the agents are temporarily unavailable; try again later"}
}

// ended returns the answer of a run that has ended.
func (t *toolCall) ended(st *run.State) (*agentAnswer, *tools.Failure) {
	path := t.host.options.Engagements + "/" + st.ID
	if e := st.Ending; e != nil {
		kind := tools.Failed
		switch e.Kind {
		case run.EndCanceled:
			kind = tools.Canceled
		case run.EndLimit, run.EndModel, run.EndContext, run.EndRefused, run.EndOutput, run.EndInternal:
		default:
			kind = tools.Restricted
		}
		return nil, &tools.Failure{Kind: kind, Made: true, Message: "the agent " + st.Agent + " ended without an answer: " + e.Message + "; its record is at " + path}
	}
	return &agentAnswer{state: st, view: t.runner.View(t.r.Context(), st), path: path}, nil
}

// An agentAnswer is the result of a call of an agent.
type agentAnswer struct {
	state *run.State
	view  *run.View
	path  string // of the Engagement

	asking *run.State // the run that waits for its user; nil if the run has ended
	wait   *run.Wait  // of asking
}

// write responds to a call.
func (a *agentAnswer) write(w http.ResponseWriter, header http.Header) {
	if a.view == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	capabilities := header.Get(elicit.HeaderCapabilities)
	body, kind := a.structured(), "application/json"
	if capabilities != "" {
		kind = nativeType
		if a.wait != nil && a.wait.Kind == run.WaitQuestion && elicit.AnswersForms(jsontext.Value(capabilities)) {
			body = a.question()
		} else {
			body = a.native(body)
		}
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) // writes to memory, so there is no error
}

// nativeType is the type of MCP results that an API writes itself.
const nativeType = "application/vnd.mcp.result+json"

// structured returns the answer as JSON.
func (a *agentAnswer) structured() []byte {
	result := struct {
		Status     run.Status     `json:"status"`
		Text       string         `json:"text,omitzero"`
		Value      jsontext.Value `json:"value,omitzero"`
		Exposes    jsontext.Value `json:"exposes,omitzero"`
		Questions  []run.Question `json:"questions,omitempty"`
		Reason     string         `json:"reason,omitzero"`
		Engagement string         `json:"engagement"`
	}{Status: a.view.Status, Text: a.view.Text, Value: a.view.Value, Exposes: a.view.Exposes, Engagement: a.path}
	if a.wait != nil {
		asking := a.asking.View()
		result.Status, result.Text, result.Value, result.Exposes = run.StatusAwaitingInput, "", nil, nil
		result.Questions, result.Reason = asking.Questions, asking.Reason
	}
	body, err := json.Marshal(result, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return []byte("{}") // exposed values are JSON
	}
	return body
}

// native returns the answer as an MCP result.
func (a *agentAnswer) native(structured []byte) []byte {
	b := []byte(`{"content":[`)
	block := func(text string) {
		b = append(strictjson.AppendString(append(b, `{"type":"text","text":`...), text), '}')
	}
	switch {
	case a.wait != nil:
		message := "The agent needs its user: " + a.wait.Message
		if a.wait.Kind == run.WaitQuestion {
			message = "The agent needs its user."
			for _, q := range a.asking.Questions() {
				message += "\nQuestion " + q.ID + ": " + q.Text
			}
		}
		block(message + "\nThe user answers at " + a.path)
	case a.view.Exposes != nil && string(a.view.Exposes) != "{}":
		block(a.view.Text)
		b = append(b, ',')
		block(string(a.view.Exposes))
	default:
		block(a.view.Text)
	}
	return append(append(append(b, `],"structuredContent":`...), structured...), '}')
}
