package mcpadapter

import (
	"context"

	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/callcontext"
	"github.com/fairwayhq/fairway/mcpadapter/internal/catalog"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// An invocation is a tool call made for a request of the client. Besides tools/call, prompts and
// resources of operations also call tools.
type invocation struct {
	method    string            // method of the client's request
	target    string            // name of the tool or prompt, or URI of the resource
	name      string            // name of the tool
	callable  *catalog.Callable // nil if the tool does not exist
	arguments []byte            // JSON object or nil; must not be in a pooled buffer
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
	if c != nil {
		if f := m.checkAccess(c.Tool); f != nil {
			tool.RecordCall(m.caller, c.Tool, string(tool.Unauthorized))
			return reply{}, f
		}
	}
	ctx = clientLog{m}.withProgress(ctx)
	defer func() { m.reporter.Stop(m.ctx.Err() != nil) }()
	if c == nil || !c.Needs.Any() {
		return reply{Reply: elicit.Reply{Outcome: m.caller.Call(ctx, i.name, i.arguments)}, requestContext: own}, nil
	}
	r, f := m.elicitation(i).Call(ctx, m.caller, c.Tool, c.Needs)
	return reply{Reply: r, requestContext: own}, f
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
	if q := (clientRequest{m}); q.canAsk() {
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
