package mcpadapter

import (
	"bytes"
	"context"

	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/callcontext"
	"github.com/fairwayhq/fairway/mcpadapter/internal/catalog"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
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
	task      bool              // whether it belongs to a task, whose client is not asked during the call
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
