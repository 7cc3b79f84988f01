package tools

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools/build"
	"github.com/fairwayhq/fairway/tools/callid"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/result"
)

// A Caller runs the tool calls of one incoming request. Protocol adapters use it and
// decide themselves how to present an outcome to the client.
type Caller interface {
	// Call runs the named tool. Arguments is a JSON object; empty or null means {}.
	// Release the outcome after use.
	Call(ctx context.Context, tool string, arguments []byte) Outcome
}

// An Invoker performs a Call and returns its Result. It sends the request through the rest
// of a handler chain or directly to an upstream.
type Invoker interface {
	// Invoke performs the call. Its errors should be of type *Failure, because for any
	// other error the client learns only that the call failed.
	Invoke(ctx context.Context, call *Call) (*Result, error)
}

// A Result is the response of the API.
type Result struct {
	Status int
	Header http.Header
	Body   []byte // decoded: never compressed

	// Exposed contains the values that the calling agent exposes (OpenAgentSpec v1, exposes): a
	// JSON object in ASCII, or "" if there is none. The agent's guard sets it, never the
	// API.
	Exposed string

	// Changed says for the model what reviewers have changed in the arguments. It is "" if the call had those of the client.
	Changed string

	// Note describes for the model which part of the response the gateway omitted from Body, and how
	// to get it. It is "" if Body is the whole response.
	Note string

	// Next is the cursor of the next part of the response, "" if there is none.
	Next string

	// Pending is set if the call has not ended. See Outcome.Pending.
	Pending *Pending

	// Renewed reports that the API has not accepted a credential of the gateway, and that a further call has another one.
	Renewed bool

	// Private means that Body has a secret for the caller, so that no log keeps it.
	Private bool

	// Page is a page that the user may open, nil if there is none. Body, which is JSON, has what the model needs without it.
	Page *Page

	// Memory is the reusable memory that Body belongs to. If it is nil, the garbage
	// collector frees Body.
	Memory Releaser
}

// A Releaser is memory that can be reused.
type Releaser interface {
	Release()
}

// Release ends the use of the result. Body becomes nil, and slices of it must no longer be
// used. Results of a Client need no Release. Further calls of Release do nothing.
func (r *Result) Release() {
	if r == nil || r.Memory == nil {
		return
	}
	memory := r.Memory
	r.Memory, r.Body = nil, nil
	memory.Release()
}

// Owned returns the result with a copy of the body that needs no Release.
func (r *Result) Owned() *Result {
	if r == nil || r.Memory == nil {
		return r
	}
	own := *r
	own.Memory, own.Body = nil, bytes.Clone(r.Body)
	r.Release()
	return &own
}

// MediaType returns the response's media type in lower case, without parameters, or "" if
// it has none.
func (r *Result) MediaType() string {
	contentType := r.Header.Get("Content-Type")
	if contentType == "application/json" { // the most common type
		return contentType
	}
	return httpheader.MediaType(contentType)
}

// An Outcome is how a call ended. Failure is nil exactly if the call succeeded. If the API
// responded with an error, the outcome has both a Result and a Failure.
type Outcome struct {
	Tool     *Tool // nil if there is no such tool
	Result   *Result
	Failure  *Failure
	Duration time.Duration
	ID       callid.ID // of the call, which its operator finds by it; zero if the Caller gives none
}

// Release releases the result. Its Result must not be used afterwards.
func (o Outcome) Release() {
	o.Result.Release()
}

// Names of outcomes in addition to those of FailureKind. Together they are all values that
// metrics, access logs and placeholders use.
const (
	OutcomeOK          = "ok"           // the call succeeded
	OutcomeRateLimited = "rate_limited" // the API, or a handler in front of it, responded with 429
	OutcomeReplayed    = "replayed"     // the client repeated a call and got the stored response

	OutcomeInputRequired = "input_required" // the client must supply more input before the call continues
	OutcomePending       = "pending"        // the call is still in progress, and the adapter polls for its outcome
)

// Succeeded reports whether the outcome of that name is not a failure.
func Succeeded(name string) bool {
	switch name {
	case OutcomeOK, OutcomeReplayed, OutcomePending, OutcomeInputRequired:
		return true
	}
	return false
}

// Name returns the name of the outcome: OutcomeOK, OutcomePending, OutcomeRateLimited, or the
// failure's kind.
func (o *Outcome) Name() string {
	switch {
	case o.Pending() != nil:
		return OutcomePending
	case o.Failure == nil:
		return OutcomeOK
	case o.Failure.Kind == Refused && o.Failure.Status == http.StatusTooManyRequests:
		return OutcomeRateLimited
	}
	return string(o.Failure.Kind)
}

// OutcomeOfStatus returns the name of the outcome of an API request for the status of its
// response.
func OutcomeOfStatus(status int) string {
	switch {
	case status == http.StatusTooManyRequests:
		return OutcomeRateLimited
	case status >= http.StatusInternalServerError:
		return string(Failed)
	case status >= http.StatusBadRequest:
		return string(Refused)
	case status >= http.StatusMultipleChoices:
		return string(Redirected)
	}
	return OutcomeOK
}

// CallRecorder is a Caller that records calls which a protocol adapter ends itself.
type CallRecorder interface {
	// RecordCall records a call that ended with the named outcome and did not reach Call.
	// Tool is nil if no tool has the requested name. Reason says for people why the call did not succeed, "" if it did.
	RecordCall(tool *Tool, outcome, reason string) callid.ID

	// AmendCall replaces the outcome of the latest Call in the access log, because the
	// adapter rejected its result. Metrics keep the outcome of the call to the API.
	AmendCall(outcome string)
}

// RecordCall calls RecordCall if caller is a CallRecorder. Otherwise it does nothing, and the id is zero.
func RecordCall(caller Caller, tool *Tool, outcome, reason string) (id callid.ID) {
	if recorder, ok := caller.(CallRecorder); ok {
		id = recorder.RecordCall(tool, outcome, reason)
	}
	return id
}

// AmendCall calls AmendCall if caller is a CallRecorder. Otherwise it does nothing.
func AmendCall(caller Caller, outcome string) {
	if recorder, ok := caller.(CallRecorder); ok {
		recorder.AmendCall(outcome)
	}
}

// IsPrivate reports whether the body has a secret for the caller. There may be no result.
func (r *Result) IsPrivate() bool { return r != nil && r.Private }

// Filename returns the filename from the response's Content-Disposition (RFC 6266), or ""
// if there is none. It contains only the last path element and no control characters, and
// has at most request.MaxFilename bytes.
func (r *Result) Filename() string {
	value := r.Header.Get("Content-Disposition")
	if value == "" {
		return ""
	}
	_, parameters, err := mime.ParseMediaType(value)
	if err != nil {
		return ""
	}
	return text.Cut(request.CleanFilename(parameters["filename"]), request.MaxFilename)
}

// An Event is what a streaming response reports before its end: progress, a line of the
// API's log, or a part of the content. Its values are valid only until the listener
// returns.
type Event = result.Event

// EventKind is the kind of an Event.
type EventKind = result.Kind

// The kinds of events.
const (
	EventProgress = result.Progress
	EventLog      = result.Log
	EventContent  = result.Content
)

type listenerKey struct{}

// ContextWithListener returns a context for Caller.Call. If the response streams, listener
// is called with each event as it arrives, one at a time, in the goroutine of the call. A
// slow listener slows down the stream. A listener that blocks must return when the context
// is done. The listener does not change the Result of the call.
func ContextWithListener(ctx context.Context, listener func(Event)) context.Context {
	return context.WithValue(ctx, listenerKey{}, listener)
}

// ListenerContext is a context with a listener that is made when it is needed, because few responses
// stream. It can be part of another struct, to save an allocation.
type ListenerContext struct {
	context.Context
	Source ListenerSource
}

// A ListenerSource makes the listener of a call.
type ListenerSource interface {
	// Listener returns the listener, nil for none. Further calls return the same one.
	Listener() func(Event)
}

// Value implements context.Context.
func (c *ListenerContext) Value(key any) any {
	if key == any(listenerKey{}) {
		return c.Source.Listener()
	}
	return c.Context.Value(key)
}

// ListenerFromContext returns the listener of a call, or nil if there is none.
func ListenerFromContext(ctx context.Context) func(Event) {
	listener, _ := ctx.Value(listenerKey{}).(func(Event))
	return listener
}

// A Pending describes a call that has not ended, and how to poll for its outcome. It contains no
// credentials, so an adapter can store it and let another node poll.
type Pending struct {
	Handle  string        // for LongRunning.Handle; "" means that the same call is made again
	After   time.Duration // delay before the next poll; 0 lets the adapter choose
	Message string        // what the call waits for, for people and models
}

// Pending returns how to poll for the outcome, or nil if the call has ended. A call whose context has
// no LongRunning waits for its end, so it is pending only if it waits for a review.
func (o *Outcome) Pending() *Pending {
	switch {
	case o.Failure != nil:
		return o.Failure.Pending
	case o.Result != nil:
		return o.Result.Pending
	}
	return nil
}

// LongRunning enables long-running calls: a call whose context has a LongRunning returns a Pending
// instead of waiting until its end. The adapter polls for the outcome with another call.
type LongRunning struct {
	Handle string // Pending.Handle of the earlier call to poll; "" for a new call
	Cancel bool   // cancels the call with that handle

	// AwaitsAccount is set if the adapter polls until the user has connected an account. See Outcome.AwaitsAccount.
	AwaitsAccount bool
}

// AwaitsAccount reports whether a call with this context was not made because the user has still not connected the account that
// the adapter waits for. Such a call is one of many polls, and is not recorded.
func (o *Outcome) AwaitsAccount(ctx context.Context) bool {
	if o.Failure == nil || o.Failure.Connection == nil {
		return false
	}
	l, _ := LongRunningFromContext(ctx)
	return l.AwaitsAccount
}

type longRunningKey struct{}

// ContextWithLongRunning returns a context for Caller.Call. A call with a handle must have the same
// tool, arguments and caller as the call that returned the handle.
func ContextWithLongRunning(ctx context.Context, l LongRunning) context.Context {
	return context.WithValue(ctx, longRunningKey{}, l)
}

// LongRunningFromContext returns the LongRunning of a call. Ok is false if the adapter cannot poll. An
// Invoker then waits for the end of the call, and reports progress to the listener of the context.
func LongRunningFromContext(ctx context.Context) (l LongRunning, ok bool) {
	l, ok = ctx.Value(longRunningKey{}).(LongRunning)
	return l, ok
}

// Purpose is what a client does with the response of a call.
type Purpose string

// The purposes.
const (
	ForResult   Purpose = "result"    // it is the result of a tool
	ForResource Purpose = "resources" // it is the contents of a resource, or values for a template
	ForPrompt   Purpose = "prompts"   // it is the messages of a prompt, or values for its arguments
)

type wholeResponseKey struct{}

// ContextWithWholeResponse returns a context for calls whose response must not be cut, because their
// protocol has no field for a notice about the missing part.
func ContextWithWholeResponse(ctx context.Context, p Purpose) context.Context {
	return context.WithValue(ctx, wholeResponseKey{}, p)
}

// WantsWholeResponse reports whether the response of a call must not be cut.
func WantsWholeResponse(ctx context.Context) bool {
	_, whole := ctx.Value(wholeResponseKey{}).(Purpose)
	return whole
}

// PurposeOf returns the purpose of a call. Without another one it is ForResult.
func PurposeOf(ctx context.Context) Purpose {
	p, _ := ctx.Value(wholeResponseKey{}).(Purpose)
	return cmp.Or(p, ForResult)
}

// A Prepared is a tool call whose arguments have been read.
type Prepared struct {
	ID        callid.ID // which clients get with the outcome
	Tool      *Tool     // nil if there is no such tool
	Name      string
	Arguments []byte    // as Tool.Read returned them
	Started   time.Time // for Outcome.Duration

	// Resumes is true if a repetition of the call with the client's id of the call continues the first one, also after a crash and on
	// another node.
	Resumes bool

	// Refusal is why the rules for the user do not allow the call, nil if they do. A stored result is not handed out then.
	Refusal *Failure

	call *Call
	err  error
}

// Call returns the call, or nil if the arguments are not valid.
func (p *Prepared) Call() *Call { return p.call }

// Prepare reads the arguments of a call.
func Prepare(tools *Toolset, name string, arguments []byte) Prepared {
	p := Prepared{ID: callid.New(), Name: name, Arguments: arguments, Started: time.Now()}
	tool, ok := tools.Tool(name)
	if !ok {
		p.err = tools.unknownTool(name)
		return p
	}
	p.Tool = tool
	p.call, p.Arguments, p.err = tool.Read(arguments)
	return p
}

// Unprepared returns a call whose arguments could not be read, because of a failure of the gateway.
func Unprepared(name string, arguments []byte, failure *Failure) Prepared {
	return Prepared{ID: callid.New(), Name: name, Arguments: arguments, Started: time.Now(), err: failure}
}

// Execute invokes the call and decides whether the response is a success.
func (p *Prepared) Execute(ctx context.Context, invoker Invoker) Outcome {
	outcome := Outcome{Tool: p.Tool}
	err := p.err
	if err == nil {
		p.call.ID = p.ID
		outcome.Result, err = invoker.Invoke(ctx, p.call)
	}
	if err != nil {
		outcome.Failure = asFailure(err)
	} else {
		outcome.Failure = outcome.Result.failureOf(p.Tool)
		if len(p.call.extra)+len(p.call.mismatches) > 0 {
			p.call.noteOn(&outcome)
		}
	}
	outcome.Duration = time.Since(p.Started)
	return outcome
}

// A PreparingCaller is a Caller that can read the arguments of a call before it runs it. An adapter that looks at the arguments uses
// it, so that they are read once.
type PreparingCaller interface {
	Prepare(tool string, arguments []byte) Prepared
	CallPrepared(ctx context.Context, p Prepared) Outcome
}

// PrepareCall reads the arguments of a call that CallPrepared runs.
func PrepareCall(caller Caller, tools *Toolset, name string, arguments []byte) Prepared {
	if preparing, ok := caller.(PreparingCaller); ok {
		return preparing.Prepare(name, arguments)
	}
	return Prepare(tools, name, arguments)
}

// CallPrepared runs a call.
func CallPrepared(ctx context.Context, caller Caller, p Prepared) Outcome {
	if preparing, ok := caller.(PreparingCaller); ok {
		return preparing.CallPrepared(ctx, p)
	}
	return caller.Call(ctx, p.Name, p.Arguments)
}

// Execute runs one call. It finds the tool, reads the arguments, invokes the call and
// decides whether the response is a success.
func Execute(ctx context.Context, tools *Toolset, name string, arguments []byte, invoker Invoker) Outcome {
	p := Prepare(tools, name, arguments)
	return p.Execute(ctx, invoker)
}

func (s *Toolset) unknownTool(name string) *Failure {
	message := fmt.Sprintf("unknown tool %q", text.Cut(name, 2*build.MaxName))
	if near := s.Nearest(name, func(*Tool) bool { return true }); near != "" {
		message += fmt.Sprintf("; did you mean %q?", near)
	} else {
		message += "; list the tools for the available names"
	}
	return &Failure{Kind: UnknownTool, Message: message}
}

// asFailure returns the error as a Failure. It keeps the error's message only if the
// message was written for the client.
func asFailure(err error) *Failure {
	var failure *Failure
	switch {
	case errors.As(err, &failure):
		return failure
	case errors.Is(err, context.Canceled):
		return &Failure{Kind: Canceled, Message: "the call was canceled"}
	case errors.Is(err, context.DeadlineExceeded):
		return &Failure{Kind: TimedOut, Message: "the call exceeded its time limit"}
	}
	return &Failure{Kind: Internal, Message: "the call failed inside the gateway; its log says why"}
}

// failureOf returns nil if the result of a call of the tool is a success, and the Failure otherwise.
func (r *Result) failureOf(t *Tool) *Failure {
	switch {
	case r.Status >= 500:
		return refusal(t, Failed, r)
	case r.Status >= 400:
		return refusal(t, Refused, r)
	case r.Status >= 300:
		return redirection(t, r)
	case r.Status < 200:
		return &Failure{Kind: Unreadable, Status: r.Status, Message: fmt.Sprintf("%s answered %s, which is not a final status", t.Operation(), text.StatusLine(r.Status))}
	}
	if r.MediaType() == "text/html" && !declaresHTML(t) {
		return &Failure{Kind: Unreadable, Status: r.Status, Message: fmt.Sprintf(
			"%s answered an HTML page%s, but its document declares %s: this is often a login or error page, so check the credentials and the address of the API",
			t.Operation(), result.PageTitle(r.Body), strings.Join(t.Output.MediaTypes, " or "))}
	}
	return nil
}

// declaresHTML reports whether the document permits an HTML page as a response. A document
// that declares no media type permits any.
func declaresHTML(t *Tool) bool {
	return len(t.Output.MediaTypes) == 0 || slices.ContainsFunc(t.Output.MediaTypes, func(m string) bool {
		return m == "*/*" || m == "text/*" || strings.Contains(m, "html")
	})
}
