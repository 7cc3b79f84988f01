package hosted

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/oagent/endpoints"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/hosted/remote"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

const (
	maxInputBody = 6*run.MaxInput + 1<<10 // bytes of a body with an input: JSON may escape each byte with six
	maxWait      = time.Minute            // of the preference wait
)

// runRequest is a request about a run of a hosted agent.
type runRequest struct {
	q      *endpoints.Request
	host   *Host
	runner *run.Runner
}

// runState is a run as clients get it.
type runState struct {
	*run.View
	Questions []openQuestion  `json:"questions,omitempty"` // of the run and of the agents that it waits for
	AnswerAt  string          `json:"answer_at,omitzero"`  // where the user sends what Reason says, if a called agent needs it
	Reviews   []pendingReview `json:"reviews,omitempty"`
	Calls     []calledAgent   `json:"waiting_for,omitempty"`
	Audit     string          `json:"audit"` // path of its record
}

// openQuestion is a question to the user without an answer.
type openQuestion struct {
	run.Question
	AnswerAt string `json:"answer_at,omitzero"` // where the user answers it, if a called agent asks
}

// pendingReview is a call that waits for a review.
type pendingReview struct {
	run.PendingCall
	Location string `json:"location,omitzero"` // of the review, for the reviewer
}

// calledAgent is an agent whose answer the run waits for.
type calledAgent struct {
	Agent     string         `json:"agent"`
	Status    run.Status     `json:"status"`
	Questions []openQuestion `json:"questions,omitempty"` // to the user, who answers them at Location
	Reason    string         `json:"reason,omitzero"`     // why it waits for the user, apart from questions
	Location  string         `json:"location"`
}

// open returns a request about a run.
func (h guardHost) open(q *endpoints.Request) (*runRequest, error) {
	runner, err := h.host.Runner(q.R.Context())
	return &runRequest{q, h.host, runner}, err
}

// start begins an Engagement with an agent (OpenAgentSpec v1, Server, rule 3.3).
func (h *runRequest) start(agent *oagent.Agent) error {
	said, err := h.read(false)
	if err != nil {
		return err
	}
	st, err := h.host.Start(h.q.R, agent, h.q.User, said.input, said.title)
	if err != nil {
		return h.startProblem(err)
	}
	h.q.W.Header().Set("Location", h.location(st.ID))
	h.q.W.Header().Set("Cache-Control", "no-store")
	h.q.W.WriteHeader(http.StatusSeeOther)
	return nil
}

// startProblem returns the problem of an error for which an Engagement does not begin, or does not go on.
func (h *runRequest) startProblem(err error) error {
	full, _ := errors.AsType[*share.FullError](err)
	switch {
	case errors.Is(err, remote.ErrCycle), errors.Is(err, remote.ErrTooDeep):
		return endpoints.NewProblem(http.StatusLoopDetected, "Agents call each other in a circle", "The agent was not started: "+err.Error()+".")
	case full != nil: // too many runs are in progress
		h.q.W.Header().Set("Retry-After", strconv.Itoa(int(retryFull.Seconds())))
		return endpoints.NewProblem(http.StatusTooManyRequests, "Too many runs in progress", "The agent was not started: "+err.Error()+". Try again when some of them have ended.")
	case errors.Is(err, remote.ErrMalformedChain):
		return endpoints.NewProblem(http.StatusBadRequest, "Invalid header", "The agent was not started: "+err.Error()+".")
	}
	return err
}

func (h *runRequest) location(id string) string { return h.q.Options.Engagements + "/" + id }

// message is the body of a POST: what the user says.
type message struct {
	input     string // "" if there is only a title
	title     string // of the Engagement; "" if it is not given
	retry     bool   // repeats the request to the model that failed; there is no input
	inReplyTo string // id of the question that the input answers
}

// read reads the body of a POST. later is true if the Engagement exists. An input that is JSON but no string reaches the model as JSON. A body
// that is a string, as the reference server of OpenAgentSpec takes it, is the input. An Engagement can begin without a body.
func (h *runRequest) read(later bool) (m message, err error) {
	body, err := h.q.ReadBody(maxInputBody)
	if err != nil {
		return m, err
	}
	body = bytes.TrimSpace(body)
	var members []strictjson.Member
	switch {
	case !later && (len(body) == 0 || string(body) == "null"):
		return message{input: noInput}, nil
	case jsontext.Value(body).Kind() == '"' && strictjson.Check(body) == nil:
		members = []strictjson.Member{{Name: "input", Value: body}}
	default:
		if members, err = endpoints.MembersOf(body); err != nil {
			return m, err
		}
	}
	var value jsontext.Value
	valid := true
	readText := func(of jsontext.Value, to *string) bool { return of.Kind() == '"' && json.Unmarshal(of, to) == nil }
	for _, member := range members {
		switch {
		case member.Name == "input":
			value = member.Value
		case member.Name == "title":
			valid = valid && readText(member.Value, &m.title) && strings.TrimSpace(m.title) != ""
		case member.Name == "retry" && later:
			m.retry = member.Value.Kind() == 't'
			valid = valid && m.retry
		case member.Name == "in_reply_to" && later:
			valid = valid && readText(member.Value, &m.inReplyTo)
		default:
			valid = false
		}
	}
	if valid && value == nil && later && (m.title != "" || m.retry) && m.inReplyTo == "" {
		return m, nil
	}
	if !valid || value == nil || m.retry {
		return m, endpoints.NewProblem(http.StatusBadRequest, "Invalid input", `The body must be a JSON string, the message to the agent, or an object with the message in the member "input". `+
			`It can also have the text "title". An answer to a question can also have the member "in_reply_to", the id of the question.`)
	}
	m.input = string(value)
	if value.Kind() == '"' && json.Unmarshal(value, &m.input) != nil || strings.TrimSpace(m.input) == "" || m.input == "null" {
		return m, endpoints.NewProblem(http.StatusBadRequest, "Invalid input", "The input is empty.")
	}
	if len(m.input) > run.MaxInput {
		return m, endpoints.NewProblem(http.StatusRequestEntityTooLarge, "Input too large", fmt.Sprintf("The input has %d bytes. The limit is %d.", len(m.input), run.MaxInput))
	}
	return m, nil
}

// noInput is the input of an Engagement that begins without one: models need a message.
const noInput = "Begin. There is no further input."

// ServeRun implements guard.Host.
func (h guardHost) ServeRun(q *endpoints.Request, id string) (bool, error) {
	of, err := h.open(q)
	if err != nil {
		return false, err
	}
	st, err := of.runner.Get(q.R.Context(), id)
	if errors.Is(err, run.ErrNotFound) || err == nil && !q.MayFollow(st.User.ID, st.Agent, st.Review) {
		return false, nil
	}
	if err == nil {
		err = of.serve(st)
	}
	return true, err
}

// Find implements guard.Host.
func (h guardHost) Find(ctx context.Context, id string) *endpoints.Run {
	runner, err := h.host.Runner(ctx)
	if err != nil {
		return nil
	}
	st, err := runner.Get(ctx, id)
	if err != nil {
		return nil
	}
	return &endpoints.Run{
		ID: st.ID, Agent: st.Agent, User: st.User, Reviewed: st.Reviewed, Review: st.Review, Parent: st.Parent,
		Title: st.Title, Status: string(runner.StatusForUser(ctx, st)), IsChecked: st.IsChecked,
	}
}

// IsDeleted implements guard.Host.
func (h guardHost) IsDeleted(ctx context.Context, id string) bool {
	runner, err := h.host.Runner(ctx)
	if err != nil {
		return true
	}
	deleted, err := runner.Conversation(id).IsDeleted(ctx)
	return deleted || err != nil
}

// ServeAgent implements guard.Host.
func (h guardHost) ServeAgent(q *endpoints.Request, agent *oagent.Agent) error {
	of, err := h.open(q)
	switch {
	case err != nil:
		return err
	case q.R.Method == http.MethodPost:
		return of.start(agent)
	}
	return of.memory(agent.Name)
}

// memory shows the user what an agent remembers of the user's earlier Engagements, or deletes it (OpenAgentSpec v1,
// lifespan.retain_memory).
func (h *runRequest) memory(agent string) error {
	if h.q.R.Method == http.MethodDelete {
		err := h.q.SameOrigin()
		if err == nil {
			err = h.runner.Forget(h.q.R.Context(), agent, h.q.User)
		}
		if err == nil {
			h.q.W.Header().Set("Cache-Control", "no-store")
			h.q.W.WriteHeader(http.StatusNoContent)
		}
		return err
	}
	remembered, err := h.runner.Remembered(h.q.R.Context(), agent, h.q.User)
	if err != nil {
		return err
	}
	return h.q.Write(map[string]any{"remembered": append([]run.Retained{}, remembered...)})
}

// serve serves a run that the user may see.
func (h *runRequest) serve(st *run.State) error {
	err := h.q.Allow(http.MethodGet, http.MethodPost, http.MethodDelete)
	if err == nil && h.q.R.Method != http.MethodGet && h.q.R.Method != http.MethodHead {
		err = h.q.SameOrigin()
	}
	own := st.IsOf(h.q.User.ID)
	if err == nil && own {
		err = h.host.Arrived(h.q.R, st)
	}
	if err != nil {
		return err
	}
	switch {
	case h.q.R.Method == http.MethodDelete && h.q.R.URL.Query().Has("delete"):
		return h.delete(st, own)
	case h.q.R.Method == http.MethodDelete:
		canceled, err := h.runner.Cancel(h.q.R.Context(), st.ID)
		return h.answerChanged(st, canceled, err)
	case h.q.R.Method == http.MethodPost && !own:
		return endpoints.NewProblem(http.StatusForbidden, "Not the user of the Engagement", "Only the user of an Engagement can add input to it.")
	case h.q.R.Method == http.MethodPost:
		return h.say(st)
	case acceptsStream(h.q.R.Header):
		h.stream(st)
		return nil
	}
	return h.answer(st)
}

// say adds what the user says to the Engagement. If the agent has answered, it goes on.
func (h *runRequest) say(st *run.State) error {
	said, err := h.read(true)
	if err != nil {
		return err
	}
	changed := st
	if said.title != "" {
		changed, err = h.runner.Conversation(st.ID).Rename(h.q.R.Context(), said.title)
	}
	if err == nil && (said.input != "" || said.retry) {
		changed, err = h.host.Say(h.q.R, st, run.NewInput{Text: said.input, InReplyTo: said.inReplyTo, Retry: said.retry})
	}
	return h.answerChanged(st, changed, h.startProblem(err))
}

// delete deletes an Engagement of the user that has ended.
func (h *runRequest) delete(st *run.State, own bool) error {
	if !own {
		return endpoints.NewProblem(http.StatusForbidden, "Not the user of the Engagement", "Only the user of an Engagement can delete it.")
	}
	err := h.runner.Conversation(st.ID).Delete(h.q.R.Context())
	switch {
	case errors.Is(err, run.ErrBusy):
		return endpoints.NewProblem(http.StatusConflict, "The Engagement has not ended", text.Sentence(err.Error()))
	case errors.Is(err, run.ErrNotFound):
		return endpoints.ErrNotFound
	case err == nil:
		h.q.W.WriteHeader(http.StatusNoContent)
	}
	return err
}

// answerChanged responds with the state after a change.
func (h *runRequest) answerChanged(before, changed *run.State, err error) error {
	question, ambiguous := errors.AsType[*run.QuestionError](err)
	switch {
	case ambiguous:
		return endpoints.NewProblem(http.StatusConflict, "No such question", text.Sentence(question.Error()))
	case errors.Is(err, run.ErrEnded):
		if latest, err := h.runner.Get(h.q.R.Context(), before.ID); err == nil {
			before = latest
		}
		h.writeEnded(before)
		return nil
	case errors.Is(err, run.ErrNotFailed):
		return endpoints.NewProblem(http.StatusConflict, "Nothing to retry", text.Sentence(err.Error()))
	case errors.Is(err, run.ErrFull):
		return endpoints.NewProblem(http.StatusConflict, "Too many inputs", fmt.Sprintf("The agent has not read the last %d inputs yet. Try again later.", run.MaxInputs))
	case errors.Is(err, run.ErrNotFound):
		return endpoints.ErrNotFound
	case err != nil:
		return err
	}
	return h.answer(changed)
}

// writeEnded responds to a change of a run that has ended, with the reason.
func (h *runRequest) writeEnded(st *run.State) {
	kind, reason := string(st.Status), "the agent has answered"
	if st.Ending != nil {
		kind, reason = string(st.Ending.Kind), st.Ending.Message
	}
	d := respond.NewProblem("about:blank", "The Engagement has ended", http.StatusConflict, "The Engagement has ended: "+reason+".")
	d.AddString("kind", kind)
	d.Write(h.q.W)
}

// answer responds with the state of a run. With the preference wait (RFC 7240, section 4.3), it
// first waits until the run has ended, needs its user, or begins to wait for a review.
func (h *runRequest) answer(st *run.State) error {
	if wait, ok := preferredWait(h.q.R.Header); ok {
		h.q.W.Header().Set("Preference-Applied", "wait="+strconv.Itoa(int(wait.Seconds())))
		ctx, cancel := h.host.Serving(h.q.R.Context())
		defer cancel()
		ctx, stop := context.WithTimeout(ctx, wait)
		defer stop()
		before := h.runner.StatusForUser(ctx, st)
		latest, err := h.runner.Await(ctx, st.ID, func(st *run.State) bool {
			now := h.runner.StatusForUser(ctx, st)
			return !now.IsBusy() && (now != run.StatusAwaitingReview || before != run.StatusAwaitingReview)
		})
		if err != nil {
			return err
		}
		st = latest
	}
	return h.q.Write(h.view(h.q.R.Context(), st))
}

// view returns the state of a run for the client.
func (h *runRequest) view(ctx context.Context, st *run.State) *runState {
	v := &runState{View: h.runner.View(ctx, st), Audit: h.location(st.ID) + "/audit"}
	for _, pending := range v.View.Reviews {
		shown := pendingReview{PendingCall: pending}
		if h.q.Options.Reviews != "" {
			shown.Location = h.q.Options.Reviews + "/" + pending.Review
		}
		v.Reviews = append(v.Reviews, shown)
	}
	for _, question := range v.View.Questions {
		v.Questions = append(v.Questions, openQuestion{Question: question})
	}
	v.Status = h.runner.StatusForUser(ctx, st)
	for _, w := range st.Waits() {
		if w.Kind != run.WaitTask {
			continue
		}
		if called, err := h.runner.Get(ctx, w.ID); err == nil {
			v.addCalled(h.view(ctx, called), h.location(called.ID))
		}
	}
	return v
}

// addCalled adds an agent that the run waits for. What that one needs from people, the run needs.
func (v *runState) addCalled(called *runState, location string) {
	v.Calls = append(v.Calls, calledAgent{
		Agent: called.Agent, Status: called.Status, Questions: called.Questions, Reason: called.Reason, Location: location,
	})
	v.Reviews = append(v.Reviews, called.Reviews...)
	for _, question := range called.Questions {
		question.AnswerAt = cmp.Or(question.AnswerAt, location)
		v.Questions = append(v.Questions, question)
	}
	if v.Reason == "" && called.Reason != "" {
		v.Reason, v.AnswerAt = called.Reason, cmp.Or(called.AnswerAt, location)
	}
}

// acceptsStream reports whether the client asks for an event stream.
func acceptsStream(header http.Header) bool {
	for _, line := range header.Values("Accept") {
		for media := range strings.SplitSeq(line, ",") {
			if httpheader.MediaType(media) == "text/event-stream" {
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
