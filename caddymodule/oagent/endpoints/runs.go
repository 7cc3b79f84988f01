package endpoints

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/mediatype"
	"github.com/fairwayhq/fairway/internal/problem"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/remote"
	"github.com/fairwayhq/fairway/oagent/run"
)

const (
	maxInputBody = 6*run.MaxInput + 1<<10 // bytes of a body with an input: JSON may escape each byte with six
	maxWait      = time.Minute            // of the preference wait
)

// runRequest is a request about a run of a hosted agent.
type runRequest struct {
	*request
	runner *run.Runner
}

// runState is a run as clients get it.
type runState struct {
	*run.View
	Reviews []pendingReview `json:"reviews,omitempty"`
	Calls   []calledAgent   `json:"waiting_for,omitempty"`
	Audit   string          `json:"audit"` // path of its record
}

// pendingReview is a call that waits for a review.
type pendingReview struct {
	run.PendingCall
	Location string `json:"location,omitzero"` // of the review, for the reviewer
}

// calledAgent is an agent whose answer the run waits for.
type calledAgent struct {
	Agent    string     `json:"agent"`
	Status   run.Status `json:"status"`
	Question string     `json:"question,omitzero"` // to the user, who answers it at Location
	Reason   string     `json:"reason,omitzero"`   // why it waits for the user, if there is no question
	Location string     `json:"location"`
}

// open gets the Runner. If it is not available, it sends an error response and returns false.
func (q *runRequest) open() bool {
	var err error
	if q.runner, err = q.options.Host.Runner(q.r.Context()); err != nil {
		q.fail(err)
		return false
	}
	return true
}

// start begins an Engagement with an agent (OpenAgentSpec v1, Server, rule 3.3).
func (q *runRequest) start(agent *oagent.Agent) {
	input, ok := q.input()
	if !ok || !q.open() {
		return
	}
	st, err := q.options.Host.Start(q.r, agent, q.user, input)
	switch {
	case errors.Is(err, remote.ErrCycle), errors.Is(err, remote.ErrTooDeep):
		q.problem(http.StatusLoopDetected, "Agents call each other in a circle", "The Engagement was not started: "+err.Error()+".")
		return
	case errors.Is(err, remote.ErrMalformedChain):
		q.problem(http.StatusBadRequest, "Invalid header", "The Engagement was not started: "+err.Error()+".")
		return
	case err != nil:
		q.fail(err)
		return
	}
	q.w.Header().Set("Location", q.location(st.ID))
	q.w.Header().Set("Cache-Control", "no-store")
	q.w.WriteHeader(http.StatusSeeOther)
}

func (q *runRequest) location(id string) string { return q.options.Engagements + "/" + id }

// input reads the input of the body. If it is invalid, it sends an error response and returns
// false. An input that is JSON but no string reaches the model as JSON.
func (q *runRequest) input() (string, bool) {
	members, ok := q.readObject(maxInputBody)
	if !ok {
		return "", false
	}
	if len(members) != 1 || members[0].Name != "input" {
		q.problem(http.StatusBadRequest, "Invalid input", `The body must be a JSON object with the one member "input", the message to the agent.`)
		return "", false
	}
	value := members[0].Value
	input := string(value)
	if value.Kind() == '"' && json.Unmarshal(value, &input) != nil || strings.TrimSpace(input) == "" || input == "null" {
		q.problem(http.StatusBadRequest, "Invalid input", "The input is empty.")
		return "", false
	}
	if len(input) > run.MaxInput {
		q.problem(http.StatusRequestEntityTooLarge, "Input too large", fmt.Sprintf("The input has %d bytes. The limit is %d.", len(input), run.MaxInput))
		return "", false
	}
	return input, true
}

// find returns a run, nil if there is none or the user may not see it. If the store fails, it sends
// an error response and returns false.
func (q *runRequest) find(id string) (*run.State, bool) {
	if q.options.Host == nil {
		return nil, true
	}
	if !q.open() {
		return nil, false
	}
	st, err := q.runner.Get(q.r.Context(), id)
	switch {
	case errors.Is(err, run.ErrNotFound):
		return nil, true
	case err != nil:
		q.fail(err)
		return nil, false
	case st.User.ID != q.user.ID && !q.isAuditor():
		return nil, true
	}
	return st, true
}

// lookUp is like find, for a caller that responds to errors in the same way as to a missing run.
func (q *runRequest) lookUp(id string) (*run.State, bool) {
	if q.options.Host == nil {
		return nil, false
	}
	runner, err := q.options.Host.Runner(q.r.Context())
	if err != nil {
		return nil, false
	}
	st, err := runner.Get(q.r.Context(), id)
	return st, err == nil && (st.User.ID == q.user.ID || q.isAuditor())
}

// serve serves a run that the user may see.
func (q *runRequest) serve(st *run.State) {
	if !q.allow(http.MethodGet, http.MethodPost, http.MethodDelete) {
		return
	}
	own := st.User.ID == q.user.ID
	if q.r.Method != http.MethodGet && q.r.Method != http.MethodHead && !q.sameOrigin() {
		return
	}
	if own {
		if err := q.options.Host.Arrived(q.r, st); err != nil {
			q.fail(err)
			return
		}
	}
	switch {
	case q.r.Method == http.MethodDelete:
		canceled, err := q.runner.Cancel(q.r.Context(), st.ID)
		q.answerChanged(st, canceled, err)
	case q.r.Method == http.MethodPost && !own:
		q.problem(http.StatusForbidden, "Not the user of the Engagement", "Only the user of an Engagement can add input to it.")
	case q.r.Method == http.MethodPost:
		if input, ok := q.input(); ok {
			changed, err := q.runner.AddInput(q.r.Context(), st.ID, input)
			q.answerChanged(st, changed, err)
		}
	case acceptsStream(q.r.Header):
		q.stream(st)
	default:
		q.answer(st)
	}
}

// answerChanged responds with the state after a change.
func (q *runRequest) answerChanged(before, changed *run.State, err error) {
	switch {
	case errors.Is(err, run.ErrEnded):
		if latest, err := q.runner.Get(q.r.Context(), before.ID); err == nil {
			before = latest
		}
		q.writeEnded(before)
	case errors.Is(err, run.ErrFull):
		q.problem(http.StatusConflict, "Too many inputs", fmt.Sprintf("The agent has not read the last %d inputs yet. Try again later.", run.MaxInputs))
	case errors.Is(err, run.ErrNotFound):
		q.notFound()
	case err != nil:
		q.fail(err)
	default:
		q.answer(changed)
	}
}

// writeEnded responds to a change of a run that has ended, with the reason.
func (q *runRequest) writeEnded(st *run.State) {
	kind, reason := string(st.Status), "the agent has answered; to go on, begin a new Engagement"
	if st.Ending != nil {
		kind, reason = string(st.Ending.Kind), st.Ending.Message
	}
	d := problem.New("about:blank", "The Engagement has ended", http.StatusConflict, "The Engagement has ended: "+reason+".")
	d.AddString("kind", kind)
	d.Write(q.w)
}

// answer responds with the state of a run. With the preference wait (RFC 7240, section 4.3), it
// first waits until the run has ended, needs its user, or begins to wait for a review.
func (q *runRequest) answer(st *run.State) {
	if wait, ok := preferredWait(q.r.Header); ok {
		q.w.Header().Set("Preference-Applied", "wait="+strconv.Itoa(int(wait.Seconds())))
		ctx, cancel := q.options.Host.Serving(q.r.Context())
		defer cancel()
		ctx, stop := context.WithTimeout(ctx, wait)
		defer stop()
		before := st.Status
		latest, err := q.runner.Await(ctx, st.ID, func(st *run.State) bool {
			return !st.Status.IsBusy() && (st.Status != run.StatusAwaitingReview || before != run.StatusAwaitingReview)
		})
		if err != nil {
			q.fail(err)
			return
		}
		st = latest
	}
	q.write(q.view(q.r.Context(), st))
}

// view returns the state of a run for the client.
func (q *runRequest) view(ctx context.Context, st *run.State) *runState {
	v := &runState{View: q.runner.View(ctx, st), Audit: q.location(st.ID) + "/audit"}
	for _, pending := range v.View.Reviews {
		shown := pendingReview{PendingCall: pending}
		if q.options.Reviews != "" {
			shown.Location = q.options.Reviews + "/" + pending.Review
		}
		v.Reviews = append(v.Reviews, shown)
	}
	for _, w := range st.Waits() {
		if w.Kind != run.WaitTask {
			continue
		}
		if called, err := q.runner.Get(ctx, w.ID); err == nil {
			shown := called.View()
			v.Calls = append(v.Calls, calledAgent{
				Agent: shown.Agent, Status: shown.Status, Question: shown.Question, Reason: shown.Reason, Location: q.location(called.ID),
			})
		}
	}
	return v
}

// acceptsStream reports whether the client asks for an event stream.
func acceptsStream(header http.Header) bool {
	for _, line := range header.Values("Accept") {
		for media := range strings.SplitSeq(line, ",") {
			if mediatype.Base(media) == "text/event-stream" {
				return true
			}
		}
	}
	return false
}

// preferredWait returns the preference wait of a request, at most maxWait. ok is false if there is
// none.
func preferredWait(header http.Header) (wait time.Duration, ok bool) {
	for _, line := range header.Values("Prefer") {
		for preference := range strings.SplitSeq(line, ",") {
			preference, _, _ = strings.Cut(preference, ";")
			name, value, _ := strings.Cut(preference, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
			if err != nil {
				continue
			}
			return min(time.Duration(n)*time.Second, maxWait), true
		}
	}
	return 0, false
}
