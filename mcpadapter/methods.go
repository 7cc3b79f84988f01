package mcpadapter

import (
	"context"
	"net/http"
	"time"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/callcontext"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/negotiation"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
	"github.com/fairwayhq/fairway/mcpadapter/library"
)

// A method serves the requests with one method name.
type method struct {
	name  string
	known func(revision.Revision) bool
	named string // parameter that the header Mcp-Name repeats; "" for none
	serve func(*message) *jsonrpc.Fault
}

// methods maps the names of the served requests to their handlers. All notifications are accepted,
// but only notifications/cancelled has an effect.
var methods = byName([]method{
	{"initialize", isStateful, "", func(m *message) *jsonrpc.Fault { return lifecycleRequest{m}.initialize() }},
	{"ping", isStateful, "", func(m *message) *jsonrpc.Fault { return lifecycleRequest{m}.ping() }},
	{"server/discover", isStateless, "", func(m *message) *jsonrpc.Fault { return lifecycleRequest{m}.discover() }},
	{"logging/setLevel", isStateful, "", func(m *message) *jsonrpc.Fault { return clientLog{m}.setLevel() }},
	{"tools/list", always, "", func(m *message) *jsonrpc.Fault { return toolListRequest{m}.listTools() }},
	{"tools/call", always, "name", func(m *message) *jsonrpc.Fault { return toolRequest{m}.callTool() }},
	{"resources/list", always, "", func(m *message) *jsonrpc.Fault { return resourceRequest{m}.listResources() }},
	{"resources/templates/list", always, "", func(m *message) *jsonrpc.Fault { return resourceRequest{m}.listTemplates() }},
	{"resources/read", always, "uri", func(m *message) *jsonrpc.Fault { return resourceRequest{m}.readResource() }},
	{"resources/subscribe", isStateful, "", func(m *message) *jsonrpc.Fault { return watchRequest{message: m}.subscribe() }},
	{"resources/unsubscribe", isStateful, "", func(m *message) *jsonrpc.Fault { return watchRequest{message: m}.unsubscribe() }},
	{"subscriptions/listen", isStateless, "", func(m *message) *jsonrpc.Fault { return newWatchRequest(m).listen() }},
	{"prompts/list", always, "", func(m *message) *jsonrpc.Fault { return promptRequest{m}.listPrompts() }},
	{"prompts/get", always, "name", func(m *message) *jsonrpc.Fault { return promptRequest{m}.getPrompt() }},
	{"completion/complete", always, "", func(m *message) *jsonrpc.Fault { return completionRequest{m}.complete() }},
})

func byName(list []method) map[string]method {
	all := make(map[string]method, len(list))
	for _, m := range list {
		all[m.name] = m
	}
	return all
}

// isStateful reports whether the revision starts with initialize.
func isStateful(v revision.Revision) bool  { return !v.Stateless() }
func isStateless(v revision.Revision) bool { return v.Stateless() }
func always(revision.Revision) bool        { return true }

// dispatch serves a request.
func (x *exchange) dispatch(name string) {
	if len(x.out.B) > maxBatchAnswer {
		x.refuse(jsonrpc.Malformed("the answers to this batch are larger than %d bytes: send this request by itself", maxBatchAnswer))
		return
	}
	m, ok := methods[name]
	if !ok || !m.known(x.version) {
		f := jsonrpc.Faultf(http.StatusOK, jsonrpc.MethodNotFound,
			"method %q is unknown to this server in revision %v", text.Cut(name, text.MaxQuoted), x.version)
		if x.version.Stateless() {
			f.Status = http.StatusNotFound
		}
		x.refuse(f)
		return
	}
	if x.state == nil {
		x.refuseIf(m.serve(&x.message))
		return
	}
	outer, start := x.ctx, len(x.out.B)
	running, done := x.state.Run(outer, x.id)
	defer func() {
		x.ctx = outer
		done()
	}()
	x.ctx = running
	if context.Cause(running) != session.ErrCanceled { // a registered request may be canceled before it is served
		x.refuseIf(m.serve(&x.message))
	}
	if x.canceled = context.Cause(running) == session.ErrCanceled; x.canceled {
		x.withhold(start)
	}
}

func (x *exchange) refuseIf(f *jsonrpc.Fault) {
	if f != nil {
		x.refuse(f)
	}
}

// withhold removes the response that starts at start: a canceled request gets none (MCP 2025-11-25,
// Cancellation, Behavior Requirements).
func (x *exchange) withhold(start int) {
	x.out.B, x.trailer, x.fault = x.out.B[:start], nil, nil
	x.status = http.StatusAccepted
}

// beginResult appends the head of the response, up to the members of the result.
func (m *message) beginResult() []byte {
	b := append(m.out.B, `{"jsonrpc":"2.0","id":`...)
	b = append(b, m.id...)
	return append(b, `,"result":{`...)
}

// uiExtension identifies MCP Apps in the list of extensions that the server declares.
const uiExtension = "io.modelcontextprotocol/ui"

// A lifecycleRequest is a request about the server itself: initialize, ping or server/discover.
type lifecycleRequest struct{ *message }

// initialize serves initialize, which revisions before 2026-07-28 start with (Lifecycle,
// Initialization). It negotiates the client's revision if the server speaks it, otherwise the newest
// revision that has initialize.
func (q lifecycleRequest) initialize() *jsonrpc.Fault {
	if q.params.protocolVersion.Kind() != '"' {
		return jsonrpc.BadParams("params.protocolVersion must be a string that names a revision, such as %q", revision.NewestStateful)
	}
	v := q.server.enabled.Of(wire.Text(q.params.protocolVersion))
	if v == revision.Unknown || v.Stateless() {
		v = q.server.enabled.NewestStateful()
	}
	if v == revision.Unknown {
		return negotiation.Unsupported(q.server.enabled, wire.Text(q.params.protocolVersion))
	}
	q.beginSession(v, elicit.ReadCapabilities(wire.MemberOf(q.params.raw, "capabilities")))
	b := wire.AppendString(append(q.beginResult(), `"protocolVersion":`...), v.String())
	b = q.appendCapabilities(append(b, `,"capabilities":`...), v)
	b = append(b, `,"serverInfo":`...)
	b = q.wholeCatalog().AppendIdentity(b, v)
	b = q.wholeCatalog().AppendInstructions(b)
	if locale := q.locale(); locale != "" {
		b = append(append(append(b, `,"_meta":{`...), callcontext.AppendLocale(nil, locale)...), '}')
	}
	q.out.B = append(b, "}}"...)
	return nil
}

// beginSession stores what initialize negotiated: in the connection, or else in a new session id.
func (q lifecycleRequest) beginSession(v revision.Revision, client elicit.Capabilities) {
	if q.connection != nil {
		q.connection.setNegotiated(v, client)
		return
	}
	q.newSessionID = q.server.signer().Issue(v, client, q.wholeCatalog().Digests(), q.site.User, time.Now().Add(q.server.options.SessionTTL))
}

// appendCapabilities appends the ServerCapabilities for the revision.
func (q lifecycleRequest) appendCapabilities(dst []byte, v revision.Revision) []byte {
	dst = append(dst, `{"tools":{"listChanged":true}`...)
	dst = append(dst, `,"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true}`...)
	if v.SupportsCompletion() {
		dst = append(dst, `,"completions":{}`...)
	}
	if v.SupportsExtensions() && q.catalog().Index().Pages {
		dst = append(dst, `,"extensions":{"`+uiExtension+`":{"mimeTypes":["`+library.AppType+`"]}}`...)
	}
	dst = append(dst, `,"logging":{}`...)
	return append(dst, '}')
}

// ping serves ping with an empty result.
func (q lifecycleRequest) ping() *jsonrpc.Fault {
	q.out.B = append(q.beginResult(), "}}"...)
	return nil
}

// discover serves server/discover, which takes the place of initialize in 2026-07-28: it returns the
// supported revisions and the server's capabilities.
func (q lifecycleRequest) discover() *jsonrpc.Fault {
	b := append(q.beginResult(), `"supportedVersions":`...)
	b = q.server.enabled.AppendTo(b)
	b = q.appendCapabilities(append(b, `,"capabilities":`...), q.version)
	b = append(b, ',')
	b = append(b, q.wholeCatalog().Fresh...)
	b = append(b, ',')
	b = q.appendComplete(b)
	b = q.wholeCatalog().AppendInstructions(b)
	q.out.B = append(b, "}}"...)
	return nil
}

// appendComplete appends the members of every result in 2026-07-28: resultType, and _meta with
// serverInfo.
func (m *message) appendComplete(dst []byte) []byte {
	return append(dst, m.wholeCatalog().Complete...)
}
