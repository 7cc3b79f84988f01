package mcpadapter

import (
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/seal"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/catalog"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/ocp/callcontext"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/callid"
)

// callTool serves tools/call. A failed call is a result with isError, not a JSON-RPC error, so that
// the model can read the reason and try again (MCP, Tools, Error Handling). This includes invalid
// arguments, in every revision. JSON-RPC errors are used only for the following:
//
//   - params of the wrong type, or an invalid requestState
//   - an unknown tool
//   - a header that contradicts an argument
//   - a scope that the access token lacks, a login that a resource or prompt needs, or a capability that the client lacks (2026-07-28)
//   - an error that the API returns as a native MCP result
func callTool(q *request, w *response) *protocol.Fault {
	if q.params.name.Kind() != '"' {
		tools.RecordCall(q.caller, nil, string(tools.InvalidArguments), "params.name must be a string that names a tool")
		return protocol.BadParams("params.name must be a string that names a tool, not %s", strictjson.KindName(q.params.name.Kind()))
	}
	arguments := q.params.arguments
	if kind := arguments.Kind(); kind != 0 && kind != 'n' && kind != '{' {
		tools.RecordCall(q.caller, nil, string(tools.InvalidArguments), "params.arguments must be an object")
		return protocol.BadParams("params.arguments must be an object, not %s", strictjson.KindName(kind))
	}
	t, name := q.wholeCatalog().CallableNamed(q.params.name)
	resolved := t != nil && t.IsCall
	if resolved {
		var failure *tools.Failure
		if t, arguments, failure = q.resolve(t); failure != nil {
			q.answerFailure(w, callResult{Reply: elicit.Reply{Outcome: tools.Outcome{Failure: failure}}})
			return nil
		}
		name = t.Tool.Name
	}
	if t != nil && t.Hidden {
		f := q.unknownTool(name)
		tools.RecordCall(q.caller, nil, string(tools.UnknownTool), f.Message)
		return f
	}
	if t != nil && len(t.Headers) > 0 && q.version.Stateless() && q.header != nil {
		headers := t.Headers
		if resolved {
			headers = protocol.SentArgumentHeaders(headers, q.header)
		}
		if f := protocol.CheckArgumentHeaders(headers, q.header, arguments); f != nil {
			tools.RecordCall(q.caller, t.Tool, string(tools.InvalidArguments), f.Message)
			return f
		}
	}
	// Clone copies the arguments out of the pooled body: parts of the inner request may refer to
	// them after the call is over.
	c := q.newCall(methodCallTool, name, t, arguments.Clone())
	if records := q.server.options.Once; records != nil && t != nil && t.Changes {
		if keys := keysOf(q, c); keys != nil {
			return callOnce(q, c, records, keys, w)
		}
	}
	if q.server.tasks != nil {
		if served, f := callAsTask(q, c, w); served {
			return f
		}
	}
	r, f := c.run()
	if f != nil {
		return f
	}
	defer r.Release()
	return c.answer(w, r)
}

// resolve returns the tool that a call of the built-in tool t calls, and its arguments.
func (q *request) resolve(t *catalog.Callable) (called *catalog.Callable, arguments jsontext.Value, failure *tools.Failure) {
	resolved, arguments, failure := q.tools.Resolve(t.Tool, q.params.arguments, q.allowed)
	if failure == nil {
		if called = q.wholeCatalog().Callable(resolved.Name); !called.Hidden {
			return called, arguments, nil
		}
		failure = q.tools.Unknown(resolved.Name, q.allowed)
	}
	tools.RecordCall(q.caller, t.Tool, string(failure.Kind), failure.Message)
	return nil, nil, failure
}

// allowed reports whether the client can see and call a tool.
func (s *scope) allowed(t *tools.Tool) bool {
	return !library.IsHidden(t) && s.site.Access.Missing(t, s.tools) == nil
}

// A toolCall is a call of a tool for a request of the client. Besides tools/call, prompts and resources
// of operations also call tools. It has everything that the call needs, so that the call can outlive the
// request (see attempt); then params and meta must be copied.
type toolCall struct {
	scope
	ctx    context.Context
	caller tools.Caller
	params jsontext.Value // of the request
	meta   jsontext.Value // params._meta

	method    string            // method of the client's request
	target    string            // name of the tool or prompt, or URI of the resource, as in the request
	callable  *catalog.Callable // nil if the tool does not exist
	arguments []byte            // JSON object or nil; must not be in a pooled buffer

	client    *client                                                            // who sent the request; nil for a task
	ask       func(method string, params jsontext.Value) (jsontext.Value, error) // sends a request to the client; nil if that is not possible or never needed
	isTask    bool                                                               // whether the call belongs to a task, which waits for responses of the client
	events    callEvents
	listening tools.ListenerContext // context of the call, if the client can receive events
}

// newCall returns a call of the tool t, which is nil if the tool does not exist. method and target are
// those of the client's request.
func (q *request) newCall(method, target string, t *catalog.Callable, arguments []byte) *toolCall {
	c := &q.call
	if c.caller != nil {
		c = new(toolCall) // the first call may still send events
	}
	c.scope, c.ctx, c.caller, c.params, c.meta = q.scope, q.ctx, q.caller, q.params.raw, q.params.meta
	c.method, c.target, c.callable, c.arguments = method, target, t, arguments
	c.client = q.client
	if t != nil && !t.Plain && q.canAsk() {
		c.ask = q.ask
	}
	c.events = callEvents{call: c, channel: q.channel, state: q.state}
	q.server.keepAlive(q.channel)
	return c
}

// A callResult is the result of a call. The caller must release it.
type callResult struct {
	elicit.Reply
	requestContext http.Header // OCP headers in _meta of the request; nil if none
}

// run runs the tool. It checks the access token, adds the client's context, and reports progress. A
// plain tool is called once. If the tool may need something from the client, package elicit may ask
// the client and call the tool several times.
func (c *toolCall) run() (callResult, *protocol.Fault) {
	ctx, own := c.context()
	t := c.callable
	if t != nil && c.site.Access != nil {
		if f := c.checkScopes(); f != nil {
			return callResult{}, f
		}
	}
	if c.method != methodCallTool {
		ctx = tools.ContextWithWholeResponse(ctx, c.purpose()) // only results of tools say how to get the rest
	}
	if c.events.channel != nil {
		c.listening = tools.ListenerContext{Context: ctx, Source: &c.events}
		ctx = &c.listening
		defer c.endEvents()
	}
	if c.isTask && c.elicitation().AwaitsAccount() {
		lasting, _ := tools.LongRunningFromContext(ctx)
		lasting.AwaitsAccount = true
		ctx = tools.ContextWithLongRunning(ctx, lasting)
	}
	if t == nil || t.Plain {
		name := c.target
		if t != nil {
			name = t.Tool.Name
		}
		r := callResult{Reply: elicit.Reply{Outcome: c.caller.Call(ctx, name, c.arguments)}, requestContext: own}
		var f *protocol.Fault
		if r.Failure != nil && r.Failure.Connection != nil && t != nil {
			r.Reply, f = c.elicitation().Connect(c.caller, r.Outcome)
		}
		return r, f
	}
	r, f := c.elicitation().Call(ctx, c.caller, t.Tool, t.Needs)
	return callResult{Reply: r, requestContext: own}, f
}

// purpose returns what a client that does not call a tool does with the response.
func (c *toolCall) purpose() tools.Purpose {
	switch c.method {
	case "prompts/get":
		return tools.ForPrompt
	case "completion/complete":
		if strictjson.Text(strictjson.MemberOf(strictjson.MemberOf(c.params, "ref"), "type")) == "ref/prompt" {
			return tools.ForPrompt
		}
	}
	return tools.ForResource
}

// endEvents ends the sending of events. If the call was canceled, the client gets no last ones.
func (c *toolCall) endEvents() {
	if c.events.reporter != nil {
		c.events.reporter.Stop(c.ctx.Err() != nil)
		c.events.reporter = nil
	}
}

// checkScopes checks that the access token allows the tool.
func (c *toolCall) checkScopes() *protocol.Fault {
	f := protocol.CheckScopes(c.site.Access, c.callable.Tool, c.tools)
	if f != nil {
		f.IsResult = f.Status == http.StatusUnauthorized && c.method == methodCallTool
		tools.RecordCall(c.caller, c.callable.Tool, string(tools.Unauthorized), f.Message)
	}
	return f
}

// elicitation returns the request for a tool that may need something from the client.
func (c *toolCall) elicitation() *elicit.Request {
	r := &elicit.Request{
		Method:    c.method,
		Target:    c.target,
		Params:    c.params,
		Arguments: c.arguments,
		Revision:  c.version,
		User:      c.site.User,
		Declared:  c.capabilities,
		Progress:  c.events.progressToken() != nil,
		Ask:       c.ask,
		Elicited:  c.elicited,
		Sealer:    func() (*seal.Sealer, *protocol.Fault) { return c.server.stateSealer(c.ctx) },
	}
	if c.isTask {
		r.Sealer = func() (*seal.Sealer, *protocol.Fault) { return c.server.taskSealer(c.ctx) }
		r.IsTask = true
		r.Revision, r.StateTTL = protocol.V20260728, c.server.tasks.TTL // in rounds, between which the task waits
	}
	return r
}

// elicited remembers a URL elicitation, so that the client is notified when the user has connected the account.
func (c *toolCall) elicited(id string, needed *tools.Connection) {
	if c.client == nil || c.client.session == nil && c.client.connection == nil {
		return
	}
	e := session.Elicitation{ID: id, User: c.site.User, Account: needed.ID, Until: time.Now().Add(elicit.ElicitationLifetime)}
	c.server.memory.lives.Elicited(e, c.client.session, c.client.state)
	if c.server.options.Elicited != nil {
		c.server.options.Elicited(e.User, e.Account)
	}
}

// context returns the context for a tool call. It carries the client's hints and the OCP headers in
// _meta, which own returns too. own is nil if _meta has none.
func (c *toolCall) context() (ctx context.Context, own http.Header) {
	ctx = c.ctx
	if whole := c.wholeCatalog(); whole.Hints {
		ctx = withHints(ctx, whole.Library, c.meta)
	}
	if c.meta == nil {
		return ctx, nil
	}
	if own = readOCP(c.meta); own == nil {
		return ctx, nil
	}
	return callcontext.NewContext(ctx, own), own
}

// answer writes the result of a call.
func (c *toolCall) answer(w *response, r callResult) *protocol.Fault {
	w.call = r.ID
	switch {
	case r.InputRequired != nil:
		w.inputRequired(r.InputRequired)
	case r.Failure != nil && r.Failure.Kind == tools.UnknownTool:
		return c.unknownTool(c.target)
	case r.Failure != nil:
		if c.callable.Brief && r.Failure.Kind == tools.InvalidArguments {
			r.Failure.Message += schemaHint(c.callable.Tool)
		}
		c.answerFailure(w, r)
	case r.Native != nil:
		c.answerNative(w, r)
	default:
		c.answerSuccess(w, r)
	}
	return nil
}

// inputRequired writes a result of the type "input_required".
func (w *response) inputRequired(members []byte) {
	w.end(append(w.result("input_required", nil), members...))
}

// answerSuccess writes the result of a successful call: the response body as content, and once more
// as structuredContent if it is JSON that the revision allows there.
func (c *toolCall) answerSuccess(w *response, r callResult) {
	form := content.FormOf(r.Result)
	var output *content.Output // nil if tools/list declares none
	if c.callable != nil {
		output = c.callable.Output[c.version]
	}
	if output != nil && output.Strict {
		if err := content.CheckOutput(r.Tool, r.Result, form == content.JSONForm); err != nil {
			r.Failure = &tools.Failure{Kind: tools.Unreadable, Message: err.Error()}
			tools.AmendCall(c.caller, string(tools.Unreadable))
			c.answerFailure(w, r)
			return
		}
	}
	structured := form == content.JSONForm && (output != nil || c.version.SupportsStructuredContent(content.FirstByte(r.Result.Body)))
	w.reserve(r.Result, structured)
	b := w.result("complete", appendNext(r.contextMeta(), r.Result))
	b = append(b, `"content":[`...)
	var value []byte
	if structured {
		b, value = content.AppendJSON(b, r.Result.Body)
	} else {
		b = content.AppendResponse(b, form, r.Outcome, c.tools, c.version)
	}
	if content.HasLinks(r.Result) {
		links := c.links(r.Tool)
		b = links.AppendTo(b, r.Result)
	}
	b = append(appendNote(b, r.Result), ']')
	before := len(b)
	switch {
	case output != nil:
		b = output.AppendValue(b, value, c.version)
	case value != nil:
		b = append(append(b, `,"structuredContent":`...), value...)
	}
	if size := len(b) - before; size > advisedStructure {
		c.server.noteLargeStructure(r.Tool, size)
	}
	w.end(b)
}

// links returns the writer of links in responses of a tool.
func (s *scope) links(t *tools.Tool) content.Links {
	return content.Links{Version: s.version, Origin: s.tools.PartOf(t).Origin, ResourceAt: func(path string) (uri, name string, ok bool) {
		return s.catalog().Index().ResourceAt(t, path)
	}}
}

const (
	// largeBody is the size of a body, in bytes, from which the output buffer is sized for it at once.
	largeBody = 2 << 10

	// escapedShare is for how many bytes of a body there is room for one escape. In JSON with short
	// texts, about every fourth byte is a quote. If there are more, the buffer grows. To count them
	// would be one more pass.
	escapedShare = 2
)

// reserve makes room for a body as text and, if structured is set, once more as structuredContent.
func (w *response) reserve(r *tools.Result, structured bool) {
	if r == nil || len(r.Body) < largeBody {
		return
	}
	size := len(r.Body) + len(r.Body)/escapedShare + largeBody
	if structured {
		size += len(r.Body)
	}
	w.out.Grow(size)
}

// metaNext is the member of a result's _meta with the cursor of the next part of a large response.
const metaNext = "io.github.fairwayhq/next"

// appendNote appends a text block that describes which part of the response the other blocks contain. It
// is a separate block, so that structuredContent and the text of the response are not changed.
func appendNote(dst []byte, r *tools.Result) []byte {
	if r == nil || r.Note == "" {
		return dst
	}
	return content.AppendText(append(dst, ','), r.Note)
}

// appendNext adds the cursor of the next part to the members of a result's _meta.
func appendNext(meta []byte, r *tools.Result) []byte {
	if r == nil || r.Next == "" {
		return meta
	}
	return strictjson.AppendString(append(strictjson.Comma(meta), `"`+metaNext+`":`...), r.Next)
}

// contextMeta returns the members of the result's _meta with the OCP context and the exposed fields.
func (r *callResult) contextMeta() []byte {
	if r.Result == nil || r.requestContext == nil && r.Result.Exposed == "" {
		return nil
	}
	return resultMeta(r.Result, r.requestContext)
}

// observedCaller is a Caller that notes the outcome of the latest call.
type observedCaller struct {
	tools.Caller
	span    *calltrace.Call // nil if the call is not traced
	tool    string          // "" if the client named a tool that does not exist
	outcome string
}

// Call implements tools.Caller.
func (c *observedCaller) Call(ctx context.Context, name string, arguments []byte) tools.Outcome {
	outcome := c.Caller.Call(ctx, name, arguments)
	c.note(outcome.Tool, outcome.Name())
	return outcome
}

// RecordCall implements tools.CallRecorder.
func (c *observedCaller) RecordCall(t *tools.Tool, outcome, reason string) callid.ID {
	c.note(t, outcome)
	return tools.RecordCall(c.Caller, t, outcome, reason)
}

// AmendCall implements tools.CallRecorder.
func (c *observedCaller) AmendCall(outcome string) {
	tools.AmendCall(c.Caller, outcome)
	c.outcome = outcome
	if c.span != nil {
		c.span.Ended(c.tool, outcome)
	}
}

func (c *observedCaller) note(t *tools.Tool, outcome string) {
	c.tool, c.outcome = "", outcome
	if t != nil {
		c.tool = t.Name
	}
	if c.span != nil {
		c.span.Ended(c.tool, outcome)
	}
}

// errorType returns the outcome, or "" if it is a success.
func (c *observedCaller) errorType() string {
	if c.outcome == tools.OutcomeOK {
		return ""
	}
	return calltrace.ErrorType(c.outcome)
}
