package endpoints

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
	q      *request
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

// open gets the Runner. If it is not available, it sends an error response and returns false.
func (h *runRequest) open() bool {
	var err error
	if h.runner, err = h.q.options.Host.Runner(h.q.r.Context()); err != nil {
		h.q.fail(err)
		return false
	}
	return true
}

// start begins an Engagement with an agent (OpenAgentSpec v1, Server, rule 3.3).
func (h *runRequest) start(agent *oagent.Agent) {
	said, ok := h.read(false)
	if !ok || !h.open() {
		return
	}
	st, err := h.q.options.Host.Start(h.q.r, agent, h.q.user, said.input, said.title)
	if h.refusedStart(err) {
		return
	}
	if err != nil {
		h.q.fail(err)
		return
	}
	h.q.w.Header().Set("Location", h.location(st.ID))
	h.q.w.Header().Set("Cache-Control", "no-store")
	h.q.w.WriteHeader(http.StatusSeeOther)
}

// refusedStart responds to an error for which an Engagement does not begin, or does not go on. It reports whether it did.
func (h *runRequest) refusedStart(err error) bool {
	full, _ := errors.AsType[*share.FullError](err)
	switch {
	case errors.Is(err, remote.ErrCycle), errors.Is(err, remote.ErrTooDeep):
		h.q.problem(http.StatusLoopDetected, "Agents call each other in a circle", "The agent was not started: "+err.Error()+".")
	case full != nil: // too many runs are in progress
		h.q.w.Header().Set("Retry-After", strconv.Itoa(retryFull))
		h.q.problem(http.StatusTooManyRequests, "Too many runs in progress", "The agent was not started: "+err.Error()+". Try again when some of them have ended.")
	case errors.Is(err, remote.ErrMalformedChain):
		h.q.problem(http.StatusBadRequest, "Invalid header", "The agent was not started: "+err.Error()+".")
	default:
		return false
	}
	return true
}

// retryFull is the suggested delay, in seconds, before a user with too many runs in progress begins another.
const retryFull = 10

func (h *runRequest) location(id string) string { return h.q.options.Engagements + "/" + id }

// message is the body of a POST: what the user says.
type message struct {
	input     string // "" if there is only a title
	title     string // of the Engagement; "" if it is not given
	retry     bool   // repeats the request to the model that failed; there is no input
	inReplyTo string // id of the question that the input answers
}

// read reads the body of a POST. later is true if the Engagement exists. If the body is invalid, read sends an error
// response and returns false. An input that is JSON but no string reaches the model as JSON. A body that is a string, as
// the reference server of OpenAgentSpec takes it, is the input. An Engagement can begin without a body.
func (h *runRequest) read(later bool) (m message, ok bool) {
	body, ok := h.q.readBody(maxInputBody)
	if !ok {
		return m, false
	}
	body = bytes.TrimSpace(body)
	var members []strictjson.Member
	switch {
	case !later && (len(body) == 0 || string(body) == "null"):
		return message{input: noInput}, true
	case jsontext.Value(body).Kind() == '"' && strictjson.Check(body) == nil:
		members = []strictjson.Member{{Name: "input", Value: body}}
	default:
		if members, ok = h.q.members(body); !ok {
			return m, false
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
		return m, true
	}
	if !valid || value == nil || m.retry {
		h.q.problem(http.StatusBadRequest, "Invalid input", `The body must be a JSON string, the message to the agent, or an object with the message in the member "input". `+
			`It can also have the text "title". An answer to a question can also have the member "in_reply_to", the id of the question.`)
		return m, false
	}
	m.input = string(value)
	if value.Kind() == '"' && json.Unmarshal(value, &m.input) != nil || strings.TrimSpace(m.input) == "" || m.input == "null" {
		h.q.problem(http.StatusBadRequest, "Invalid input", "The input is empty.")
		return m, false
	}
	if len(m.input) > run.MaxInput {
		h.q.problem(http.StatusRequestEntityTooLarge, "Input too large", fmt.Sprintf("The input has %d bytes. The limit is %d.", len(m.input), run.MaxInput))
		return m, false
	}
	return m, true
}

// noInput is the input of an Engagement that begins without one: models need a message.
const noInput = "Begin. There is no further input."

// find returns a run, nil if there is none or the user may not see it. If the store fails, it sends
// an error response and returns false.
func (h *runRequest) find(id string) (*run.State, bool) {
	if h.q.options.Host == nil {
		return nil, true
	}
	if !h.open() {
		return nil, false
	}
	st, err := h.runner.Get(h.q.r.Context(), id)
	switch {
	case errors.Is(err, run.ErrNotFound):
		return nil, true
	case err != nil:
		h.q.fail(err)
		return nil, false
	case !h.mayFollow(st):
		return nil, true
	}
	return st, true
}

// lookUp is like find, for a caller that responds to errors in the same way as to a missing run.
func (h *runRequest) lookUp(id string) (*run.State, bool) {
	if h.q.options.Host == nil {
		return nil, false
	}
	runner, err := h.q.options.Host.Runner(h.q.r.Context())
	if err != nil {
		return nil, false
	}
	st, err := runner.Get(h.q.r.Context(), id)
	return st, err == nil && h.mayFollow(st)
}

// mayFollow reports whether the user may see a run. A run that decides a review can contain data that
// is withheld from its user.
func (h *runRequest) mayFollow(st *run.State) bool {
	return st.IsOf(h.q.user.ID) || h.q.isAuditor() || st.Review != "" && h.q.options.Reviewers.MayDecideFor(h.q.user.ID, st.Agent)
}

// serve serves a run that the user may see.
func (h *runRequest) serve(st *run.State) {
	if !h.q.allow(http.MethodGet, http.MethodPost, http.MethodDelete) {
		return
	}
	own := st.IsOf(h.q.user.ID)
	if h.q.r.Method != http.MethodGet && h.q.r.Method != http.MethodHead && !h.q.sameOrigin() {
		return
	}
	if own {
		if err := h.q.options.Host.Arrived(h.q.r, st); err != nil {
			h.q.fail(err)
			return
		}
	}
	switch {
	case h.q.r.Method == http.MethodDelete && h.q.r.URL.Query().Has("delete"):
		h.delete(st, own)
	case h.q.r.Method == http.MethodDelete:
		canceled, err := h.runner.Cancel(h.q.r.Context(), st.ID)
		h.answerChanged(st, canceled, err)
	case h.q.r.Method == http.MethodPost && !own:
		h.q.problem(http.StatusForbidden, "Not the user of the Engagement", "Only the user of an Engagement can add input to it.")
	case h.q.r.Method == http.MethodPost:
		h.say(st)
	case acceptsStream(h.q.r.Header):
		h.stream(st)
	default:
		h.answer(st)
	}
}

// say adds what the user says to the Engagement. If the agent has answered, it goes on.
func (h *runRequest) say(st *run.State) {
	said, ok := h.read(true)
	if !ok {
		return
	}
	changed, err := st, error(nil)
	if said.title != "" {
		changed, err = h.runner.Conversation(st.ID).Rename(h.q.r.Context(), said.title)
	}
	if err == nil && (said.input != "" || said.retry) {
		changed, err = h.q.options.Host.Say(h.q.r, st, run.NewInput{Text: said.input, InReplyTo: said.inReplyTo, Retry: said.retry})
	}
	if !h.refusedStart(err) {
		h.answerChanged(st, changed, err)
	}
}

// delete deletes an Engagement of the user that has ended.
func (h *runRequest) delete(st *run.State, own bool) {
	if !own {
		h.q.problem(http.StatusForbidden, "Not the user of the Engagement", "Only the user of an Engagement can delete it.")
		return
	}
	switch err := h.runner.Conversation(st.ID).Delete(h.q.r.Context()); {
	case errors.Is(err, run.ErrBusy):
		h.q.problem(http.StatusConflict, "The Engagement has not ended", text.Sentence(err.Error()))
	case errors.Is(err, run.ErrNotFound):
		h.q.notFound()
	case err != nil:
		h.q.fail(err)
	default:
		h.q.w.WriteHeader(http.StatusNoContent)
	}
}

// answerChanged responds with the state after a change.
func (h *runRequest) answerChanged(before, changed *run.State, err error) {
	question, ambiguous := errors.AsType[*run.QuestionError](err)
	switch {
	case ambiguous:
		h.q.problem(http.StatusConflict, "No such question", text.Sentence(question.Error()))
	case errors.Is(err, run.ErrEnded):
		if latest, err := h.runner.Get(h.q.r.Context(), before.ID); err == nil {
			before = latest
		}
		h.writeEnded(before)
	case errors.Is(err, run.ErrNotFailed):
		h.q.problem(http.StatusConflict, "Nothing to retry", text.Sentence(err.Error()))
	case errors.Is(err, run.ErrFull):
		h.q.problem(http.StatusConflict, "Too many inputs", fmt.Sprintf("The agent has not read the last %d inputs yet. Try again later.", run.MaxInputs))
	case errors.Is(err, run.ErrNotFound):
		h.q.notFound()
	case err != nil:
		h.q.fail(err)
	default:
		h.answer(changed)
	}
}

// writeEnded responds to a change of a run that has ended, with the reason.
func (h *runRequest) writeEnded(st *run.State) {
	kind, reason := string(st.Status), "the agent has answered"
	if st.Ending != nil {
		kind, reason = string(st.Ending.Kind), st.Ending.Message
	}
	d := respond.NewProblem("about:blank", "The Engagement has ended", http.StatusConflict, "The Engagement has ended: "+reason+".")
	d.AddString("kind", kind)
	d.Write(h.q.w)
}

// answer responds with the state of a run. With the preference wait (RFC 7240, section 4.3), it
// first waits until the run has ended, needs its user, or begins to wait for a review.
func (h *runRequest) answer(st *run.State) {
	if wait, ok := preferredWait(h.q.r.Header); ok {
		h.q.w.Header().Set("Preference-Applied", "wait="+strconv.Itoa(int(wait.Seconds())))
		ctx, cancel := h.q.options.Host.Serving(h.q.r.Context())
		defer cancel()
		ctx, stop := context.WithTimeout(ctx, wait)
		defer stop()
		before := h.runner.StatusForUser(ctx, st)
		latest, err := h.runner.Await(ctx, st.ID, func(st *run.State) bool {
			now := h.runner.StatusForUser(ctx, st)
			return !now.IsBusy() && (now != run.StatusAwaitingReview || before != run.StatusAwaitingReview)
		})
		if err != nil {
			h.q.fail(err)
			return
		}
		st = latest
	}
	h.q.write(h.view(h.q.r.Context(), st))
}

// view returns the state of a run for the client.
func (h *runRequest) view(ctx context.Context, st *run.State) *runState {
	v := &runState{View: h.runner.View(ctx, st), Audit: h.location(st.ID) + "/audit"}
	for _, pending := range v.View.Reviews {
		shown := pendingReview{PendingCall: pending}
		if h.q.options.Reviews != "" {
			shown.Location = h.q.options.Reviews + "/" + pending.Review
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
