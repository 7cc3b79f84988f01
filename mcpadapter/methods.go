package mcpadapter

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/callcontext"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/negotiation"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/ocp/tool"
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
	b = q.server.appendIdentity(b, q.tools, v)
	b = q.server.appendInstructions(b, q.tools)
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
	q.newSessionID = q.server.signer().Issue(v, client, q.wholeCatalog().digests(), q.site.User, time.Now().Add(q.server.options.SessionTTL))
}

// appendCapabilities appends the ServerCapabilities for the revision.
func (q lifecycleRequest) appendCapabilities(dst []byte, v revision.Revision) []byte {
	dst = append(dst, `{"tools":{"listChanged":true}`...)
	dst = append(dst, `,"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true}`...)
	if v.SupportsCompletion() {
		dst = append(dst, `,"completions":{}`...)
	}
	if v.SupportsExtensions() && q.catalog().index().Pages {
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
	b = q.server.appendFreshness(b)
	b = append(b, ',')
	b = q.appendComplete(b)
	b = q.server.appendInstructions(b, q.tools)
	q.out.B = append(b, "}}"...)
	return nil
}

// appendComplete appends the members of every result in 2026-07-28: resultType, and _meta with
// serverInfo.
func (m *message) appendComplete(dst []byte) []byte {
	return append(dst, m.wholeCatalog().complete...)
}

// appendFreshness appends ttlMs and cacheScope: how long clients and proxies may cache a result, and
// whether users may share it.
func (s *Server) appendFreshness(dst []byte) []byte {
	if !s.options.PublicLists {
		return s.appendPrivateFreshness(dst)
	}
	return append(s.appendTTL(dst), `,"cacheScope":"public"`...)
}

// appendPrivateFreshness is appendFreshness for results that differ between users.
func (s *Server) appendPrivateFreshness(dst []byte) []byte {
	return append(s.appendTTL(dst), `,"cacheScope":"private"`...)
}

func (s *Server) appendTTL(dst []byte) []byte {
	return strconv.AppendInt(append(dst, `"ttlMs":`...), s.options.ListTTL.Milliseconds(), 10)
}

// appendIdentity appends serverInfo.
func (s *Server) appendIdentity(dst []byte, tools *tool.Toolset, v revision.Revision) []byte {
	dst = wire.AppendString(append(dst, `{"name":`...), cmp.Or(s.options.Name, nameOfTitle(tools.Title), tools.Name, "fairway"))
	if title := cmp.Or(s.options.Title, tools.Title); title != "" && v.SupportsTitles() {
		dst = wire.AppendString(append(dst, `,"title":`...), title)
	}
	dst = wire.AppendString(append(dst, `,"version":`...), cmp.Or(s.options.Version, tools.Version, "0"))
	return append(content.AppendIcons(dst, library.ExtensionIcons(tools.MCP), v), '}')
}

// maxServerName is how many bytes of a document's title become the server's name.
const maxServerName = 64

// nameOfTitle converts a document's title to a server name: ASCII letters and digits in lower case,
// with a hyphen for everything else. It returns "" if the title has no such characters.
func nameOfTitle(title string) string {
	name := make([]byte, 0, min(len(title), maxServerName))
	for _, c := range []byte(strings.ToLower(title)) {
		isWord := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
		switch {
		case len(name) == maxServerName:
			return strings.TrimRight(string(name), "-")
		case isWord:
			name = append(name, c)
		case len(name) > 0 && name[len(name)-1] != '-':
			name = append(name, '-')
		}
	}
	return strings.TrimRight(string(name), "-")
}

// maxInstructions is how many bytes of a document's description become instructions. Clients may add
// them to every conversation.
const maxInstructions = 2048

func (s *Server) appendInstructions(dst []byte, tools *tool.Toolset) []byte {
	instructions := cmp.Or(s.options.Instructions, text.Cut(tools.Description, maxInstructions))
	if instructions == "" {
		return dst
	}
	return wire.AppendString(append(dst, `,"instructions":`...), instructions)
}
