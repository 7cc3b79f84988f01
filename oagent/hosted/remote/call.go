package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/fetch"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

const (
	maxQuestionID = 200             // bytes
	maxDetail     = 300             // bytes of the other server's error message
	maxProblem    = 16 << 10        // bytes of its problem document
	cancelTimeout = 5 * time.Second // of the request that cancels an Engagement
)

// Call is a call of an agent of another server.
type Call struct {
	Reference oagent.Reference
	Input     string // the first message to the agent
	Chain     Chain  // the agents that wait for the result, with the one that calls

	// Caller has the headers of the caller's own request; nil if the caller's identity must not be
	// used. Only Authorization is sent on, and only to a Host with ForwardCaller.
	Caller http.Header

	// Started is called with the URL of the Engagement before it is polled. If it returns an error, the
	// Engagement is canceled.
	Started func(location string) error

	// Location is the URL of the Engagement, if the call has started it before. Then the call goes on: with the Answer to the Question of
	// that id, if the agent has asked.
	Location, Question, Answer string

	// Kept reports whether another attempt will go on with the Engagement after ctx has ended. Otherwise Run cancels it. Default: none will.
	Kept func() bool

	// MayAsk makes Run return an AskedError if the agent has a question. Otherwise its Engagement is canceled, and the call fails.
	MayAsk bool

	// Static adds the credentials of the capability's static_identity. If it is set, neither those
	// of the caller nor those of the Host are used. Default: none.
	Static func(*http.Request) error
}

// started is a call that has an Engagement on the other server.
type started struct {
	call     *Call
	host     *host
	location string // the URL of the Engagement
}

// Run calls an agent, and returns its text and its exposed values as a JSON object. status is 200
// if the agent succeeded, else 502, and then the object has the member error. The error is an
// *Error, and then it may be unknown what the agent did.
//
// If ctx ends, or after Host.Timeout, the Engagement is canceled, see also Call.Kept.
func (c *Client) Run(ctx context.Context, call *Call) (outputs jsontext.Value, status int, err error) {
	h, err := c.host(call.Reference)
	if err != nil {
		return nil, 0, &Error{Message: err.Error()}
	}
	caller := ctx
	ctx, cancel := context.WithTimeoutCause(ctx, h.Timeout, errTimeout)
	defer cancel()
	e := &started{call, h, call.Location}
	switch {
	case call.Location == "":
		if e, err = c.start(ctx, h, call); err != nil {
			return nil, 0, err
		}
		if call.Started != nil {
			err = call.Started(e.location)
		}
	case call.Answer != "":
		err = e.answer(ctx)
	}
	var state *state
	if err == nil {
		state, err = c.poll(ctx, e)
	}
	if err == nil && call.MayAsk && state.status == run.StatusAwaitingInput && len(state.questions) > 0 && len(state.questions[0].ID) <= maxQuestionID {
		first := state.questions[0]
		return nil, 0, &AskedError{Location: e.location, ID: first.ID, Text: printable(first.Text, maxDescription)}
	}
	if kept := caller.Err() != nil && call.Kept != nil && call.Kept(); !kept && (err != nil || !state.isFinal()) {
		e.cancel(context.WithoutCancel(ctx))
	}
	if err != nil {
		if ctx.Err() != nil {
			err = stopped(ctx)
		}
		c.report(call.Reference.String(), errors.Join(err, errors.Unwrap(err)))
		return nil, 0, err
	}
	outputs, status = state.result()
	return outputs, status, nil
}

// AskedError is the error of Run if the agent asks its user. Run with the Location, the id of the question and the answer goes on with the call.
type AskedError struct{ Location, ID, Text string }

func (a *AskedError) Error() string { return "the agent asks: " + a.Text }

// start starts an Engagement.
func (c *Client) start(ctx context.Context, h *host, call *Call) (*started, error) {
	target, err := url.Parse(address(call.Reference))
	if err != nil {
		return nil, &Error{Message: "the reference is not the URL of an agent", Cause: err}
	}
	if _, err := call.Chain.Enter(target.Host, target.Path); err != nil {
		return nil, &Error{Message: fmt.Sprintf("%s was not called: %v", call.Reference, err), Cause: err}
	}
	if _, err := c.Description(ctx, call.Reference); err != nil {
		return nil, err
	}
	e := &started{call: call, host: h}
	if err := e.post(ctx, target); err != nil {
		if ctx.Err() != nil {
			return nil, stopped(ctx)
		}
		c.report(call.Reference.String(), errors.Join(err, errors.Unwrap(err)))
		return nil, err
	}
	return e, nil
}

// newRequest returns a request with credentials. The error says whose they are, if they are not available.
func newRequest(ctx context.Context, method, address string, body io.Reader, authorize func(*http.Request) error, whose string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, body)
	if err == nil && authorize != nil {
		err = authorize(r)
	}
	if err != nil {
		return nil, &Error{Message: whose + " are not available", Cause: err}
	}
	return r, nil
}

// request returns a request with the operator's credentials for the host.
func (h *host) request(ctx context.Context, method, address string, body io.Reader) (*http.Request, error) {
	return newRequest(ctx, method, address, body, h.Authorize, "the operator's credentials for the server")
}

// request returns a request with the credentials of the call.
func (e *started) request(ctx context.Context, method, address string, body io.Reader) (*http.Request, error) {
	if e.call.Static != nil {
		return newRequest(ctx, method, address, body, e.call.Static, "the credentials of static_identity")
	}
	r, err := e.host.request(ctx, method, address, body)
	if err == nil && e.host.ForwardCaller && e.call.Caller.Get("Authorization") != "" {
		r.Header.Set("Authorization", e.call.Caller.Get("Authorization"))
	}
	return r, err
}

// post sends the input, to a server that refuses the object as the string alone: the reference server of OpenAgentSpec
// (agent-os) takes no other form.
func (e *started) post(ctx context.Context, target *url.URL) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	status, location, err := e.send(ctx, target.String(), message{Input: e.call.Input})
	if status == http.StatusUnprocessableEntity {
		if again, there, failed := e.send(ctx, target.String(), e.call.Input); again/100 != 4 { // else the first refusal says more
			status, location, err = again, there, failed
		}
	}
	if err != nil {
		return err
	}
	if status != http.StatusSeeOther {
		return &Error{Message: (&statusError{status}).Error()}
	}
	return e.locate(target, location)
}

// answer sends the answer of the user. A question that is no longer open was answered by an earlier attempt.
func (e *started) answer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	status, _, err := e.send(ctx, e.location, message{e.call.Answer, e.call.Question})
	if status == http.StatusConflict {
		return nil
	}
	return err
}

// message is a message of the user to an agent.
type message struct {
	Input     string `json:"input"`
	InReplyTo string `json:"in_reply_to,omitzero"`
}

// send sends a message as JSON, and returns the Location of the response. The error also describes a response that is neither 303 nor
// 2xx. status is 0 without a response. The transport is used without an http.Client, so nothing is redirected.
func (e *started) send(ctx context.Context, target string, content any) (status int, location string, err error) {
	body, err := json.Marshal(content)
	if err != nil {
		return 0, "", &Error{Message: "the input is not valid UTF-8", Cause: err}
	}
	r, err := e.request(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	calltrace.Inject(ctx, r.Header)
	if len(e.call.Chain) > 0 {
		r.Header.Set(chainHeader, e.call.Chain.String())
	}
	response, err := e.host.transport.RoundTrip(r)
	if err != nil {
		return 0, "", brief(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusSeeOther && response.StatusCode/100 != 2 {
		err = &Error{Message: refusal(response)}
	}
	return response.StatusCode, response.Header.Get("Location"), err
}

// locate sets the URL of the Engagement, which must be on the host of the agent.
func (e *started) locate(target *url.URL, location string) error {
	to, err := target.Parse(location)
	switch {
	case err != nil || location == "":
		return &Error{Message: "the server started an Engagement without a valid Location"}
	case to.Scheme != target.Scheme || withoutPort(to.Host) != withoutPort(target.Host) || to.User != nil:
		return &Error{Message: "the server redirects to an Engagement on another host, which is not followed"}
	}
	to.Fragment, to.RawFragment = "", ""
	e.location = to.String()
	return nil
}

// refusal describes a response that started no Engagement. It contains the server's own message,
// shortened.
func refusal(response *http.Response) string {
	message := (&statusError{response.StatusCode}).Error()
	if response.StatusCode/100 == 3 {
		return message + ", a redirect that is not followed; an Engagement starts with 303"
	}
	body, err := buffer.ReadLimited(response.Body, maxProblem)
	if err != nil || strictjson.Check(body) != nil {
		return message
	}
	if detail := printable(strictjson.Text(strictjson.MemberOf(body, "detail")), maxDetail); detail != "" {
		message += ": " + detail
	}
	return message
}

// cancel cancels the Engagement. It is best effort: the other server has limits of its own.
func (e *started) cancel(ctx context.Context) {
	ctx, end := context.WithTimeout(ctx, cancelTimeout)
	defer end()
	r, err := e.request(ctx, http.MethodDelete, e.location, nil)
	if err != nil {
		return
	}
	if response, err := e.host.transport.RoundTrip(r); err == nil {
		_ = response.Body.Close()
	}
}

const (
	pollWait    = 20 * time.Second       // Prefer: wait (RFC 7240, section 4.3)
	firstGap    = 500 * time.Millisecond // after a response that did not wait; then it doubles
	maxGap      = 10 * time.Second
	maxFailures = 5 // polls one after the other
)

// poll waits until the Engagement ends or waits for its user.
func (c *Client) poll(ctx context.Context, e *started) (*state, error) {
	failures := 0
	for gap := c.firstGap; ; {
		began := time.Now()
		s, after, err := e.get(ctx)
		switch {
		case err == nil && !s.isWaiting():
			return s, nil
		case err == nil:
			failures = 0
			if time.Since(began) >= pollWait/2 { // the server waits
				gap = c.firstGap
				continue
			}
		case ctx.Err() != nil || !isTransient(err):
			return nil, err
		default:
			if failures++; failures == maxFailures {
				return nil, err
			}
		}
		select {
		case <-time.After(max(gap, after)):
		case <-ctx.Done():
			return nil, stopped(ctx)
		}
		gap = min(2*gap, maxGap)
	}
}

// isTransient reports whether another poll may succeed.
func isTransient(err error) bool {
	if _, ok := errors.AsType[*invalidError](err); ok {
		return false
	}
	if failed, ok := errors.AsType[*statusError](err); ok {
		return failed.isTransient()
	}
	_, redirected := errors.AsType[*fetch.RedirectError](err)
	return !redirected && !errors.Is(err, fetch.ErrPrivateAddress)
}

// get requests the state. after is the delay before the next request, as the server requests it.
func (e *started) get(ctx context.Context) (s *state, after time.Duration, err error) {
	r, err := e.request(ctx, http.MethodGet, e.location, nil)
	if err != nil {
		return nil, 0, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Prefer", "wait="+strconv.Itoa(int(pollWait.Seconds())))
	response, err := e.host.fetcher.Get(ctx, r.URL.String(), r.Header)
	switch {
	case errors.Is(err, fetch.ErrTooLarge) || err == nil && len(response.Body) > maxResult:
		return nil, 0, &invalidError{fmt.Errorf("the state of the Engagement is larger than %d bytes", maxResult)}
	case err != nil:
		return nil, 0, brief(err)
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		after = min(time.Duration(min(seconds, int(maxGap.Seconds())))*time.Second, maxGap)
	}
	if response.Status != http.StatusOK {
		return nil, after, &statusError{response.Status}
	}
	s, err = readState(response.Body)
	return s, after, err
}
