package mcpadapter

import (
	"bytes"
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/admission"
	"github.com/fairwayhq/fairway/mcpadapter/internal/callcontext"
	"github.com/fairwayhq/fairway/mcpadapter/internal/catalog"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/negotiation"
	"github.com/fairwayhq/fairway/mcpadapter/internal/outputschema"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// A toolRequest is a request of tools/call.
type toolRequest struct{ *message }

// callTool serves tools/call. A failed call is a result with isError, not a JSON-RPC error, so that
// the model can read the reason and try again (MCP, Tools, Error Handling). This includes invalid
// arguments, in every revision. JSON-RPC errors are used only for the following:
//
//   - params of the wrong type, or an invalid requestState
//   - an unknown tool
//   - a header that contradicts an argument
//   - a scope that the access token lacks, or a capability that the client lacks (2026-07-28)
//   - an error that the API returns as a native MCP result
func (q toolRequest) callTool() *jsonrpc.Fault {
	if q.params.name.Kind() != '"' {
		tool.RecordCall(q.caller, nil, string(tool.InvalidArguments))
		return jsonrpc.BadParams("params.name must be a string that names a tool, not %s", wire.KindName(q.params.name.Kind()))
	}
	switch q.params.arguments.Kind() {
	case 0, 'n', '{':
	default:
		tool.RecordCall(q.caller, nil, string(tool.InvalidArguments))
		return jsonrpc.BadParams("params.arguments must be an object, not %s", wire.KindName(q.params.arguments.Kind()))
	}
	c, name := q.wholeCatalog().CallableNamed(q.params.name)
	arguments := q.params.arguments
	resolved := c != nil && c.IsCall
	if resolved {
		var failure *tool.Failure
		if c, arguments, failure = q.resolve(c); failure != nil {
			q.answerFailure(reply{Reply: elicit.Reply{Outcome: tool.Outcome{Failure: failure}}})
			return nil
		}
		name = c.Tool.Name
	}
	if c != nil && c.Hidden {
		tool.RecordCall(q.caller, nil, string(tool.UnknownTool))
		return q.unknownTool(name)
	}
	if c != nil && len(c.Headers) > 0 && q.version.Stateless() && q.header != nil {
		headers := c.Headers
		if resolved {
			headers = negotiation.SentHeaders(headers, q.header)
		}
		if f := negotiation.CheckArguments(headers, q.header, arguments); f != nil {
			tool.RecordCall(q.caller, c.Tool, string(tool.InvalidArguments))
			return f
		}
	}
	// Clone copies the arguments out of the pooled body: parts of the inner request may refer to
	// them after the call is over.
	i := invocation{method: "tools/call", target: name, name: name, callable: c, arguments: arguments.Clone()}
	if q.server.tasks != nil {
		if served, f := q.callAsTask(i); served {
			return f
		}
	}
	r, f := q.invoke(i)
	if f != nil {
		return f
	}
	defer r.Release()
	return q.answer(c, name, r)
}

// answer writes the result of a call.
func (q toolRequest) answer(c *catalog.Callable, name string, r reply) *jsonrpc.Fault {
	switch {
	case r.InputRequired != nil:
		q.writeInputRequired(r)
	case r.Failure != nil && r.Failure.Kind == tool.UnknownTool:
		return q.unknownTool(name)
	case r.Failure != nil:
		if c.Brief && r.Failure.Kind == tool.InvalidArguments {
			r.Failure.Message += schemaHint(c.Tool)
		}
		q.answerFailure(r)
	case r.Native != nil:
		q.answerNative(r)
	default:
		q.answerSuccess(c, r)
	}
	return nil
}

// answerSuccess writes the result of a successful call: the response body as content, and once more
// as structuredContent if it is JSON that the revision allows there.
func (q toolRequest) answerSuccess(c *catalog.Callable, r reply) {
	form := content.FormOf(r.Result)
	var output *outputschema.Output // nil if tools/list declares none
	if c != nil {
		output = c.Output[q.version]
	}
	if output != nil && output.Strict {
		if err := outputschema.Check(r.Tool, r.Result, form == content.JSONForm); err != nil {
			r.Failure = &tool.Failure{Kind: tool.Unreadable, Message: err.Error()}
			tool.AmendCall(q.caller, string(tool.Unreadable))
			q.answerFailure(r)
			return
		}
	}
	structured := form == content.JSONForm && (output != nil || q.version.SupportsStructuredContent(content.FirstByte(r.Result.Body)))
	q.reserve(r.Result, structured)
	b := q.appendResultHead(q.beginResult(), "complete", appendNext(r.contextMeta(), r.Result))
	b = append(b, `"content":[`...)
	var value []byte
	if structured {
		b, value = content.AppendJSON(b, r.Result.Body)
	} else {
		b = content.AppendResponse(b, form, r.Outcome, q.tools, q.version)
	}
	if content.HasLinks(r.Result) {
		links := q.links(r.Tool)
		b = links.AppendTo(b, r.Result)
	}
	b = append(appendNote(b, r.Result), ']')
	before := len(b)
	switch {
	case output != nil:
		b = output.AppendValue(b, value, q.version)
	case value != nil:
		b = append(append(b, `,"structuredContent":`...), value...)
	}
	if size := len(b) - before; size > advisedStructure {
		q.server.noteLargeStructure(r.Tool, size)
	}
	q.out.B = append(b, "}}"...)
}

// links returns the writer of links in responses of a tool.
func (m *message) links(t *tool.Tool) content.Links {
	return content.Links{Version: m.version, Origin: m.tools.PartOf(t).Origin, ResourceAt: func(path string) (uri, name string, ok bool) {
		return m.catalog().Index().ResourceAt(t, path)
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
func (q toolRequest) reserve(r *tool.Result, structured bool) {
	if r == nil || len(r.Body) < largeBody {
		return
	}
	size := len(r.Body) + len(r.Body)/escapedShare + largeBody
	if structured {
		size += len(r.Body)
	}
	q.out.Grow(size)
}

// metaNext is the member of a result's _meta with the cursor of the next part of a large response.
const metaNext = "io.github.fairwayhq/next"

// appendNote appends a text block that describes which part of the response the other blocks contain. It
// is a separate block, so that structuredContent and the text of the response are not changed.
func appendNote(dst []byte, r *tool.Result) []byte {
	if r == nil || r.Note == "" {
		return dst
	}
	return content.AppendText(append(dst, ','), r.Note)
}

// appendNext adds the cursor of the next part to the members of a result's _meta.
func appendNext(meta []byte, r *tool.Result) []byte {
	if r == nil || r.Next == "" {
		return meta
	}
	if len(meta) > 0 {
		meta = append(meta, ',')
	}
	return wire.AppendString(append(meta, `"`+metaNext+`":`...), r.Next)
}

// resolve returns the tool that a call of the built-in tool c calls, and its arguments.
func (q toolRequest) resolve(c *catalog.Callable) (called *catalog.Callable, arguments jsontext.Value, failure *tool.Failure) {
	t, arguments, failure := q.tools.Resolve(c.Tool, q.params.arguments, q.allowed)
	if failure == nil {
		if called = q.wholeCatalog().Callable(t.Name); !called.Hidden {
			return called, arguments, nil
		}
		failure = q.tools.Unknown(t.Name, q.allowed)
	}
	tool.RecordCall(q.caller, c.Tool, string(failure.Kind))
	return nil, nil, failure
}

// allowed reports whether the client can see and call a tool.
func (q toolRequest) allowed(t *tool.Tool) bool {
	return !library.IsHidden(t) && q.site.Access.Missing(t, q.tools) == nil
}

// An invocation is a tool call made for a request of the client. Besides tools/call, prompts and
// resources of operations also call tools.
type invocation struct {
	method    string            // method of the client's request
	target    string            // name of the tool or prompt, or URI of the resource
	name      string            // name of the tool
	callable  *catalog.Callable // nil if the tool does not exist
	arguments []byte            // JSON object or nil; must not be in a pooled buffer
	task      bool              // whether it belongs to a task; the server sends no requests to the client during such a call
}

// A reply is the result of an invocation. The caller must release it.
type reply struct {
	elicit.Reply
	requestContext *ocp.Incoming // OCP context in _meta of the request; nil if none
}

// invoke runs a tool. It checks the access token, adds the client's context, and reports progress. A
// plain tool is called once. If the tool may need something from the client, package elicit may ask
// the client and call the tool several times.
func (m *message) invoke(i invocation) (reply, *jsonrpc.Fault) {
	ctx, own := m.callContext()
	c := i.callable
	if c != nil && m.site.Access != nil {
		if f := admission.CheckScopes(m.site.Access, c.Tool, m.tools); f != nil {
			tool.RecordCall(m.caller, c.Tool, string(tool.Unauthorized))
			return reply{}, f
		}
	}
	if i.method != "tools/call" {
		ctx = tool.ContextWithWholeResponse(ctx) // only results of tools say how to get the rest
	}
	if m.channel != nil {
		listening := &m.listening
		if m.batched {
			listening = new(tool.ListenerContext) // an earlier call may still use the other one
		}
		*listening = tool.ListenerContext{Context: ctx, Source: clientLog{m}}
		ctx = listening
		defer m.endEvents()
	}
	if c == nil || c.Plain {
		return reply{Reply: elicit.Reply{Outcome: m.caller.Call(ctx, i.name, i.arguments)}, requestContext: own}, nil
	}
	r, f := m.elicitation(i).Call(ctx, m.caller, c.Tool, c.Needs)
	return reply{Reply: r, requestContext: own}, f
}

// endEvents ends the forwarding of events to the client.
func (m *message) endEvents() {
	if m.reporter != nil {
		m.reporter.Stop(m.ctx.Err() != nil)
		m.reporter = nil
	}
}

// elicitation returns the request for a tool that may need something from the client.
func (m *message) elicitation(i invocation) *elicit.Request {
	r := &elicit.Request{
		Method:    i.method,
		Target:    i.target,
		Params:    m.params.raw,
		Arguments: i.arguments,
		Revision:  m.version,
		User:      m.site.User,
		Declared:  m.client,
		Progress:  clientLog{m}.progressToken() != nil,
		Sealer:    m.server.sealer,
	}
	if i.task {
		r.Revision, r.StateTTL = revision.V20260728, m.server.tasks.TTL // in rounds, between which the task waits
	} else if q := (clientRequest{m}); q.canAsk() {
		r.Ask = q.ask
	}
	return r
}

// writeInputRequired writes a result of the type "input_required".
func (m *message) writeInputRequired(r reply) {
	b := m.appendResultHead(m.beginResult(), "input_required", nil)
	m.out.B = append(append(b, r.InputRequired...), "}}"...)
}

// callContext returns the context for a tool call. It carries the client's hints and the OCP context of
// _meta, which own returns too. own is nil if _meta has no OCP context.
func (m *message) callContext() (ctx context.Context, own *ocp.Incoming) {
	ctx = m.ctx
	if c := m.wholeCatalog(); c.Hints {
		ctx = callcontext.WithHints(ctx, c.Library, m.params.meta)
	}
	if m.params.meta == nil {
		return ctx, nil
	}
	if own = callcontext.ReadOCP(m.params.meta); own == nil {
		return ctx, nil
	}
	return ocp.ContextWithIncoming(ctx, own), own
}

// locale returns the language of the response, or "" if the client has sent no locale.
func (m *message) locale() string {
	if m.params.meta == nil {
		return ""
	}
	return callcontext.Locale(m.server.library.Load(), m.params.meta)
}

// contextMeta returns the members of the result's _meta with the OCP context and the exposed fields.
func (r *reply) contextMeta() []byte {
	if r.Result == nil || r.requestContext == nil && r.Result.Exposed == "" {
		return nil
	}
	return callcontext.ResultMeta(r.Result, r.requestContext)
}

// blocks returns the writer of content blocks that come from the API.
func (m *message) blocks() content.Blocks {
	return content.Blocks{Version: m.version, Source: content.ToolURI(m.tools, nil)}
}

// catalog returns the catalog for the caller and the message's Toolset. It is cached until the
// document or the Library changes.
func (m *message) catalog() *catalog.Catalog {
	if m.site.Access != nil || m.site.Login != nil {
		return m.server.catalogs.Restricted(m.tools, m.server.library.Load(), m.site.Access, m.site.Login)
	}
	return m.wholeCatalog()
}

// wholeCatalog returns the unrestricted catalog, for everything that does not depend on the caller.
func (m *message) wholeCatalog() *catalog.Catalog {
	return m.server.catalogs.Shared(m.tools, m.server.library.Load())
}

// beginResult appends the head of the response, up to the members of the result.
func (m *message) beginResult() []byte {
	b := append(m.out.B, `{"jsonrpc":"2.0","id":`...)
	b = append(b, m.id...)
	return append(b, `,"result":{`...)
}

// completeHead starts the pre-encoded head of results in 2026-07-28.
const completeHead = `"resultType":"complete",`

// appendResultHead appends the members that every result starts with, followed by a comma. meta
// holds further members of the result's _meta, separated by commas, or is nil.
func (m *message) appendResultHead(dst []byte, resultType string, meta []byte) []byte {
	if locale := m.locale(); locale != "" {
		meta = callcontext.AppendLocale(meta, locale)
	}
	if !m.version.Stateless() {
		if len(meta) == 0 {
			return dst
		}
		dst = append(append(dst, `"_meta":{`...), meta...)
		return append(dst, "},"...)
	}
	complete := m.wholeCatalog().Complete
	if resultType != "complete" {
		dst = append(append(append(dst, `"resultType":"`...), resultType...), `",`...)
		complete = bytes.TrimPrefix(complete, []byte(completeHead))
	}
	dst = append(dst, complete...)
	if len(meta) > 0 {
		dst = append(append(dst[:len(dst)-1], ','), meta...) // insert before the brace that closes _meta
		dst = append(dst, '}')
	}
	return append(dst, ',')
}
