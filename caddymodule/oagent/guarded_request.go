package oagent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/dustin/go-humanize"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/oagent/agentset"
	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/ocp"
)

// passage is a request to the API that an agent's document governs. It resolves the agent and
// the operation, checks the input restriction, runs the request, and checks the output
// restriction before the response is released (answer.go, call.go).
type passage struct {
	*Handler
	w    http.ResponseWriter
	r    *http.Request
	next caddyhttp.Handler
	repl *caddy.Replacer
	call *ocp.Call          // nil for a plain request
	rec  *toolcall.Recorder // the recorder of the tool call; nil for a plain request

	linked  *agentset.Set
	agent   *agentset.Agent
	binding oagent.Binding

	operation  *agentset.Operation
	name       string // the operation's name in agent documents
	capability *oagent.Capability
	inputs     jsontext.Value

	began  time.Time
	key    string // see engagementKey
	ticket *oagent.Ticket
	status int             // of the response
	failed ocp.FailureKind // failure of a next handler; "" if none
	with   toolcall.InjectedCredentials
}

// serve passes the request on, or refuses it.
func (p *passage) serve() error {
	p.repl, _ = p.r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	p.call, p.rec = ocp.CallFromContext(p.r.Context()), recorderOf(p.w)
	p.linked = p.agents.CurrentFor(p.r, p.next)
	if refusal := p.findAgent(); refusal != nil {
		return p.answerRefusal(refusal)
	}
	if refusal := p.readRequest(); refusal != nil {
		return p.answerRefusal(refusal)
	}
	var identity upstreamIdentity
	if p.capability != nil {
		var refusal *refused
		if identity, refusal = p.identify(); refusal != nil {
			return p.answerRefusal(refusal)
		}
	}
	if refusal := p.begin(); refusal != nil {
		return p.answerRefusal(refusal)
	}
	p.decided(allowed)
	if p.ticket.Replayed != nil {
		return p.replay()
	}
	removeForwardedTargets(p.r.Header)
	identity.apply(p.r, p.operation, p.callerHeaders)
	p.present(identity.with)
	if p.rec != nil && p.w == http.ResponseWriter(p.rec) {
		return p.serveCall()
	}
	return p.servePlain()
}

// present records the credentials that the API gets instead of the caller's; nil for none.
func (p *passage) present(with *ocp.Supplement) {
	if p.rec != nil {
		p.with = p.rec.Injected
	}
	if with != nil {
		p.with = append(p.with, with)
	}
	if p.rec != nil {
		p.rec.Injected = p.with
	}
}

// recorderOf returns the recorder of a tool call, or nil if there is none.
func recorderOf(w http.ResponseWriter) *toolcall.Recorder {
	for {
		if rec, ok := w.(*toolcall.Recorder); ok {
			return rec
		}
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return nil
		}
		w = wrapper.Unwrap()
	}
}

// replaced replaces the placeholders in a text.
func (p *passage) replaced(text string) string {
	if text == "" || p.repl == nil {
		return text
	}
	return p.repl.ReplaceAll(text, "")
}

// findAgent finds the agent that governs the request, and the Engagement.
func (p *passage) findAgent() *refused {
	name := p.replaced(p.Guard)
	switch {
	case name != "":
		p.agent = p.linked.Agents[name]
	case p.linked.Only != nil:
		p.agent = p.linked.Only
	default:
		return p.refuse(engagement.KindUnknownAgent, 0, "", "nothing was done: the request does not say which agent it belongs to, and there are several: "+
			p.linked.ListAgents(), nil)
	}
	if p.agent == nil {
		return p.refuse(engagement.KindUnknownAgent, 0, "", fmt.Sprintf("nothing was done: there is no agent %.128q", name), nil)
	}
	p.binding = p.bind(p.r, p.agent.Agent)
	return p.bindCaller()
}

// engagementKey returns the key of the Engagement, or "" if no agent governs the request.
func (p *passage) engagementKey() string {
	switch {
	case p.key != "" || p.agent == nil:
	case p.ticket != nil:
		p.key = p.ticket.Key
	default:
		p.key = p.binding.Key()
	}
	return p.key
}

// bind returns the Engagement of a request with an agent. It is identified by the authenticated
// user and by the id in the request. If the caller is not authenticated, the id is extended by
// its IP address as Caddy determines it (client_ip, which respects trusted proxies). So nobody
// can use or exhaust another caller's Engagement by knowing its id. See also bindCaller.
func (o *Handler) bind(r *http.Request, agent *oagent.Agent) oagent.Binding {
	b := oagent.Binding{Agent: agent}
	repl, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if repl != nil {
		b.User.ID, _ = repl.GetString("http.auth.user.id")
		b.User.Email, _ = repl.GetString("http.auth.user.email")
		if o.Engagement != "" {
			b.Engagement = repl.ReplaceAll(o.Engagement, "")
		}
	}
	if b.User.ID == "" {
		address, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
		b.Engagement += "@" + address
	}
	o.reviewers.Bind(&b)
	return b
}

// readRequest finds the operation and its arguments.
func (p *passage) readRequest() *refused {
	if p.call != nil {
		return p.readCall()
	}
	if !p.linked.Loaded {
		return p.refuse(kindUnavailable, http.StatusServiceUnavailable, "",
			"the request was not passed on: the document of the API has not been loaded yet, so that nobody knows what the request means; try again later", nil)
	}
	tool, err := p.linked.Routes.Match(p.r)
	if err != nil {
		return p.refuseUnmatched(err)
	}
	p.found(p.linked.Operation(tool, ""))
	return p.readPlain()
}

func (p *passage) found(op *agentset.Operation) {
	p.operation, p.name = op, op.Name
	if p.capability = p.agent.Capabilities[op]; p.capability != nil {
		p.name = p.capability.Reference.Name
	}
}

// readCall gets the arguments of a tool call.
func (p *passage) readCall() *refused {
	toolset := ""
	if p.repl != nil {
		toolset, _ = p.repl.GetString("http.tool.toolset")
	}
	op := p.linked.Operation(p.call.Tool, toolset)
	if op == nil {
		return p.refuse(kindUnknownOperation, 0, "", fmt.Sprintf("the call of %s was not made: its toolset is not one that this site's agents have", p.call.Tool.Name), nil)
	}
	p.found(op)
	if refusal := p.checkBuilt(); refusal != nil {
		return refusal
	}
	if op.Overridable {
		// The caller's own headers and cookies are sent to the API with the arguments and
		// could override them, so the arguments are read back from the request.
		return p.readPlain()
	}
	if err := p.call.CheckNames(); err != nil {
		return p.refuse(kindUnreadable, 0, "", fmt.Sprintf("the call of %s was not made, because it cannot be judged: %s", p.name, err), err)
	}
	p.inputs = p.call.AppendArguments(nil)
	return nil
}

// checkBuilt refuses a call whose request matches another operation than the one that was
// called. For example, get-trip with the id "latest" has the path of latest-trip, if there is
// such an operation.
func (p *passage) checkBuilt() *refused {
	tool, err := p.linked.Routes.MatchCall(p.r, p.call.Tool)
	if err != nil {
		if errors.Is(err, ocp.ErrNoOperation) && !slices.Contains(p.toolsets, p.operation.Toolset) {
			return nil // plain requests are not matched to the operations of this toolset
		}
		return p.refuseUnmatched(err)
	}
	other := p.linked.Operation(tool, "")
	if other == p.operation || tool.Method == p.call.Tool.Method && tool.Path == p.call.Tool.Path {
		return nil
	}
	return p.refuse(kindAmbiguous, 0, "", fmt.Sprintf(
		"the call of %s was not made: with these arguments its request is one of %s; call that, if it is what you mean", p.name, other.Name), nil)
}

// readPlain parses the arguments from the request, and restores the body.
func (p *passage) readPlain() *refused {
	body, refusal := p.readBody()
	if refusal != nil {
		return refusal
	}
	tool := p.operation.Tool
	if p.call != nil {
		tool = p.call.Tool
	}
	read := tool.ReadDeclared
	if p.Undeclared == undeclaredAllow {
		read = tool.ReadRequest
	}
	inputs, err := read(p.judged(), body, p.operation.CredentialQueries...)
	if e, ok := errors.AsType[*ocp.RequestError](err); ok && e.Kind == ocp.UndeclaredName {
		return p.refuse(kindUndeclared, 0, "", fmt.Sprintf("the call of %s was not made: %s", p.name, e.Message), err)
	}
	if err != nil {
		return p.refuse(kindUnreadable, 0, "", fmt.Sprintf("the call of %s was not made, because the request cannot be judged: %s", p.name, err), err)
	}
	p.inputs = inputs
	return nil
}

// readBody reads the whole body and restores it.
func (p *passage) readBody() ([]byte, *refused) {
	if p.r.Body == nil || p.r.Body == http.NoBody {
		return nil, nil
	}
	tooLarge := func() *refused {
		return p.refuse(kindTooLarge, http.StatusRequestEntityTooLarge, "", fmt.Sprintf(
			"the request was not passed on: its body has more than %s, and only less can be judged; the operator can raise max_input",
			humanize.IBytes(uint64(p.MaxInput))), nil)
	}
	if p.r.ContentLength > p.MaxInput {
		return nil, tooLarge()
	}
	var content buffer.Buffer
	if p.r.ContentLength > 0 {
		content.B = make([]byte, 0, p.r.ContentLength+1)
	}
	err := content.ReadAll(p.r.Body, p.MaxInput)
	_ = p.r.Body.Close()
	switch {
	case errors.Is(err, buffer.ErrTooLarge):
		return nil, tooLarge()
	case err != nil:
		return nil, p.refuse(engagement.KindInvalid, http.StatusBadRequest, "", "the request was not passed on: its body broke off", err)
	}
	p.r.ContentLength, p.r.TransferEncoding, p.r.Trailer = int64(len(content.B)), nil, nil
	delete(p.r.Header, "Trailer")
	if p.r.Body = http.NoBody; len(content.B) > 0 {
		p.r.Body = io.NopCloser(bytes.NewReader(content.B))
		p.r.Header["Content-Length"] = []string{strconv.Itoa(len(content.B))}
	}
	return content.B, nil
}

// begin asks the Guard for a decision. While it waits for a reviewer, the timeout of the tool
// call is paused.
func (p *passage) begin() *refused {
	guard, err := p.guard(p.r.Context())
	if err != nil {
		return p.refuse(engagement.KindStore, 0, "", "the call was not made, because the record of the Engagement cannot be kept just now: try again later", err)
	}
	if p.capability != nil && p.capability.Input != nil && p.capability.Input.RequireReview != "" {
		defer p.stopClock()()
	}
	p.ticket, err = guard.Begin(p.r.Context(), oagent.Call{
		Binding: p.binding, Name: p.name, Names: p.linked.Names, Inputs: p.inputs, Conditional: isConditional(p.r.Header),
	})
	return refusedBy(err)
}

// stopClock pauses the timeout of a tool call. The returned function resumes it.
func (p *passage) stopClock() func() {
	if p.rec == nil || p.rec.StreamOptions.Timer == nil || !p.rec.StreamOptions.Timer.Stop() {
		return func() {}
	}
	return func() { p.rec.StreamOptions.Timer.Reset(p.rec.StreamOptions.Timeout) }
}

// isChecked reports whether the response must be checked before it is sent.
func (p *passage) isChecked() bool { return p.ticket.Capability.Output != nil }

// isRecorded reports whether the response is read for the record or for a check.
func (p *passage) isRecorded() bool { return p.isChecked() || p.ticket.Capability.CollectResults }

// finish gives the result of the call to the Guard.
func (p *passage) finish(outputs jsontext.Value, status int) *refused {
	p.status = status
	if output := p.ticket.Capability.Output; output != nil {
		if output.RequireReview != "" {
			defer p.stopClock()()
		}
		if output.Assertion != nil && isOpaque(outputs) && !asksForForm(output.Assertion.Expression) {
			outputs = shedOpaque(outputs)
		}
	}
	if p.repeatsCredentials(outputs) {
		p.ticket.Unrecorded = engagement.OmittedCredentials
	}
	if err := p.ticket.Finish(p.r.Context(), outputs, status); err != nil {
		return refusedBy(err)
	}
	return nil
}

// abort records that the call has no result.
func (p *passage) abort(reason string) {
	p.ticket.Abort(p.r.Context(), reason)
	p.tell(allowed, nil, reason)
}

// abortFor is abort for an error of a handler. The record gets the kind of the error, not its
// message.
func (p *passage) abortFor(err error) {
	if handlerError, ok := errors.AsType[caddyhttp.HandlerError](err); ok && handlerError.StatusCode > 0 {
		p.status = handlerError.StatusCode
		if failure := toolcall.UpstreamFailure("", p.status); failure != nil {
			p.failed = failure.Kind
		}
		p.abort("the gateway could not get an answer: status " + strconv.Itoa(handlerError.StatusCode))
		return
	}
	p.failed = ocp.Internal
	p.abort("a handler of the gateway failed")
}

// allowed is the decision for a request that passes. The other decisions are the kinds of
// refusals.
const allowed = "allowed"

// decided sets the {http.oagent.*} placeholders.
func (p *passage) decided(decision string) {
	if p.repl == nil {
		return
	}
	if p.agent != nil {
		p.repl.Set("http.oagent.agent", p.agent.Name)
	}
	p.repl.Set("http.oagent.engagement", p.engagementKey())
	p.repl.Set("http.oagent.decision", decision)
}
