package mcpadapter

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/catalog"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/callid"
)

// A client is who sent a message, as far as the HTTP request or the connection says it.
type client struct {
	header     http.Header      // nil if the message came over a connection
	remote     string           // address; "" over a connection
	channel    protocol.Channel // sends messages other than the response; nil if that is not possible
	connection *connection      // nil for an HTTP request of its own
	session    *session.Session // nil if the request has none
	state      *session.State   // of the session or the connection; nil without one
}

// owner returns whose shares the client uses.
func (c *client) owner(site *Site) share.Owner {
	if c.connection != nil {
		return c.connection.owner
	}
	return ownerOf(site, c.remote)
}

// An exchange serves one body of a client, which is a message or a batch. A message passes these phases,
// each of which makes the next one:
//
//  1. readEnvelope reads the members of JSON-RPC.
//  2. agree determines the revision. newRequest returns the request, which the methods serve.
//  3. A method that calls a tool makes a toolCall of the request.
//  4. The method writes the response.
type exchange struct {
	client
	server *Server
	site   *Site
	ctx    context.Context
	tools  *tools.Toolset
	caller tools.Caller

	request  request  // the latest one
	response response // to the latest message; its buffer collects those of a batch

	status   int             // HTTP status; 0 if the response is already written
	fault    *protocol.Fault // the last fault that was written as a response
	terms    protocol.Terms  // those of the headers, the session or the connection; a message may change them for itself
	batched  bool            // whether the body is a batch
	canceled bool            // the client has canceled the request and expects no response
}

// serve serves a body: one message, or a batch if the revision has batches.
func (x *exchange) serve(body []byte) {
	if err := strictjson.Check(body); err != nil {
		x.refuseUnreadable(body, err)
		return
	}
	switch body = bytes.TrimLeft(body, " \t\r\n"); body[0] {
	case '{':
		x.serveMessage(body)
	case '[':
		x.serveBatch(body)
	default:
		x.refuse(protocol.Malformed("the body must be one JSON-RPC message, a JSON object"))
	}
}

// serveMessage serves one message. Notifications and responses of the client get an empty 202
// response.
func (x *exchange) serveMessage(data []byte) {
	m, f := readEnvelope(data)
	if f == nil && m.method == "" {
		f = x.takeResponse(&m)
	}
	terms := x.terms
	if f == nil {
		f = x.agree(&terms, &m)
	}
	x.response.id, x.response.version = m.id, terms.Version
	switch {
	case f != nil:
		x.refuse(f)
	case m.id == nil || m.method == "":
		x.status = http.StatusAccepted
		if m.method == "notifications/cancelled" {
			x.cancelRequest(m.params.raw)
		}
	default:
		x.dispatch(&m, terms)
	}
}

// agree determines the terms of the message and checks the message against the rules of its
// revision.
func (x *exchange) agree(terms *protocol.Terms, m *envelope) *protocol.Fault {
	if x.batched && m.method == "initialize" {
		return protocol.Malformed("initialize must not be part of a batch: send it separately")
	}
	message := protocol.Message{
		Header: x.header, Method: m.method, Request: m.id != nil,
		Params: m.params.raw, Meta: m.params.meta, Named: methods[m.method].named,
	}
	if x.connection != nil {
		f := terms.AgreeWithoutHeaders(x.server.enabled, &message)
		if f == nil && x.connection.legacy && !terms.Version.Stateless() {
			f = x.connection.checkInitialized(m)
		}
		return f
	}
	return terms.Agree(x.server.enabled, &message)
}

// An envelope holds the members of a JSON-RPC 2.0 message; absent members are nil. They refer to the
// request body, whose buffer is reused after the request. Clone what must live longer.
type envelope struct {
	id              jsontext.Value // a string or a number
	method          string         // "" for a response of the client
	params          params
	result, failure jsontext.Value // of a response
}

// params holds the parameters that several methods use; absent ones are nil.
type params struct {
	raw                   jsontext.Value // the whole params object
	meta, name, arguments jsontext.Value
}

// readEnvelope reads a message. The caller has checked that data is strict JSON. If it returns a fault,
// the envelope has at least the id, unless that is invalid.
func readEnvelope(data []byte) (m envelope, f *protocol.Fault) {
	var version, id, method, arguments jsontext.Value
	for walk := strictjson.Into(data); walk.Next(); {
		switch {
		case walk.Is("jsonrpc"):
			version = walk.Value
		case walk.Is("id"):
			id = walk.Value
		case walk.Is("method"):
			method = walk.Value
		case walk.Is("params"):
			arguments = walk.Value
		case walk.Is("result"):
			m.result = walk.Value
		case walk.Is("error"):
			m.failure = walk.Value
		}
	}
	if kind := id.Kind(); id != nil && kind != '"' && (kind != '0' || bytes.ContainsAny(id, ".eE")) && !protocol.IsID(id) {
		return m, protocol.Malformed("the id must be a string or an integer, not %s", text.Cut(string(id), text.MaxQuoted))
	}
	m.id = id
	switch {
	case string(version) != `"2.0"`:
		return m, protocol.Malformed(`the member jsonrpc must be "2.0"`)
	case method == nil:
		return m, nil
	case method.Kind() != '"':
		return m, protocol.Malformed("the method must be a string, not %s", strictjson.KindName(method.Kind()))
	case string(method) == `""`:
		return m, protocol.Malformed("the method is empty")
	case m.result != nil || m.failure != nil:
		return m, protocol.Malformed("a message with a method can have neither result nor error")
	}
	m.method = methodName(method)
	m.params, f = readParams(arguments)
	return m, f
}

// methodName returns the name of a method. For a method that the server knows it does not allocate.
func methodName(raw jsontext.Value) string {
	if known, ok := methods[string(raw[1:len(raw)-1])]; ok {
		return known.name
	}
	return strictjson.Text(raw)
}

// readParams reads the parameters. Some clients send null for no parameters.
func readParams(raw jsontext.Value) (p params, f *protocol.Fault) {
	switch raw.Kind() {
	case 0, 'n':
		return p, nil
	case '{':
	default:
		return p, protocol.Faultf(http.StatusBadRequest, protocol.InvalidParams, "params must be an object, not %s", strictjson.KindName(raw.Kind()))
	}
	p.raw = raw
	for walk := strictjson.Into(raw); walk.Next(); {
		switch {
		case walk.Is("_meta"):
			p.meta = walk.Value
		case walk.Is("name"):
			p.name = walk.Value
		case walk.Is("arguments"):
			p.arguments = walk.Value
		}
	}
	return p, nil
}

// refuseUnreadable rejects a body that fails strictjson.Check. The error has the id of the request if it
// can be read, so that the client can match the two.
func (x *exchange) refuseUnreadable(body []byte, err error) {
	x.response.version = x.terms.Version
	if errors.Is(err, strictjson.ErrTooDeep) {
		if id, whole := protocol.DeepID(body); whole {
			x.response.id = id
			x.refuse(protocol.Malformed("%v", err)) // the body is valid JSON, so this is not a parse error
			return
		}
	} else {
		x.response.id = protocol.LenientID(body)
	}
	reason := strings.TrimPrefix(err.Error(), "jsontext: ")
	x.refuse(protocol.Faultf(http.StatusBadRequest, protocol.ParseError, "the body is not valid JSON: %s", text.Cut(reason, 2*text.MaxQuoted)))
}

// refuse writes the fault as the response to the current message.
func (x *exchange) refuse(f *protocol.Fault) {
	x.status, x.fault = f.Status, f
	if f.Status != http.StatusNoContent {
		x.response.fault(f)
	}
}

// dispatch serves a request with the function of its method.
func (x *exchange) dispatch(m *envelope, terms protocol.Terms) {
	if len(x.response.out.B) > maxBatchAnswer {
		x.refuse(protocol.Malformed("the responses to this batch are larger than %d bytes: send this request separately", maxBatchAnswer))
		return
	}
	served, ok := x.server.methodOf(m.method)
	if !ok || !served.known(terms.Version) {
		x.refuse(unknownMethod(m.method, terms.Version))
		return
	}
	q, start := x.newRequest(m, terms), len(x.response.out.B)
	if x.state == nil {
		x.refuseIf(q.observe(&served, &x.response))
		return
	}
	running, done := x.state.Run(x.ctx, q.id)
	defer done()
	q.ctx = running
	if context.Cause(running) != session.ErrCanceled { // a registered request may be canceled before it is served
		x.refuseIf(q.observe(&served, &x.response))
	}
	if x.canceled = context.Cause(running) == session.ErrCanceled; x.canceled {
		x.withhold(start)
	}
}

func (x *exchange) refuseIf(f *protocol.Fault) {
	if f != nil {
		x.refuse(f)
	}
}

// withhold removes the response that starts at start: a canceled request gets none (MCP 2025-11-25,
// Cancellation, Behavior Requirements).
func (x *exchange) withhold(start int) {
	x.response.out.B, x.response.trailer, x.fault = x.response.out.B[:start], nil, nil
	x.status = http.StatusAccepted
}

// A scope is a toolset as a caller sees it in a revision of MCP.
type scope struct {
	server       *Server
	site         *Site
	tools        *tools.Toolset
	version      protocol.Revision
	capabilities protocol.Capabilities // of the client
}

// catalog returns the catalog for the caller.
func (s *scope) catalog() *catalog.Catalog {
	return s.server.catalogFor(s.site, s.tools)
}

// wholeCatalog returns the unrestricted catalog, for everything that does not depend on the caller.
func (s *scope) wholeCatalog() *catalog.Catalog {
	return s.server.catalogOf(s.tools)
}

// blocks returns the writer of content blocks that come from the API.
func (s *scope) blocks() content.Blocks {
	return content.Blocks{Version: s.version, Source: content.ToolURI(s.tools, nil)}
}

// A request is a request of a client whose revision is determined.
type request struct {
	scope
	*client
	ctx      context.Context
	caller   tools.Caller
	id       jsontext.Value
	params   params
	batched  bool
	observed observedCaller // caller, during a tools/call that is observed
	call     toolCall       // the first one; see newCall
}

// newRequest returns the request of a message, and prepares the response.
func (x *exchange) newRequest(m *envelope, terms protocol.Terms) *request {
	q := &x.request
	if x.batched {
		q = new(request) // a call of an earlier request may still use the other one
	}
	q.scope = scope{x.server, x.site, x.tools, terms.Version, terms.Client}
	q.client, q.ctx, q.caller, q.batched = &x.client, x.ctx, x.caller, x.batched
	q.id, q.params = m.id, m.params
	x.response.prepare(&q.scope, m.params.meta)
	return q
}

// observe serves a request, reports it to Options.Observe, and makes a span for a tool call that is traced.
func (q *request) observe(served *method, w *response) (f *protocol.Fault) {
	callsTool := served.name == methodCallTool
	traced := callsTool && calltrace.Active(q.ctx)
	report := q.server.options.Observe
	if report == nil && !traced {
		return served.serve(q, w)
	}
	began := time.Now()
	if callsTool {
		q.observed = observedCaller{Caller: q.caller}
		q.caller = &q.observed
		if traced {
			q.ctx, q.observed.span = q.beginSpan()
			defer q.observed.span.End()
		}
	}
	f = served.serve(q, w)
	if f != nil && q.observed.span != nil {
		q.observed.span.Fault(f.Code)
	}
	if report != nil {
		o := Operation{Method: served.name, Revision: q.version.String(), Duration: time.Since(began)}
		if callsTool {
			o.Tool, o.Error = q.observed.tool, q.observed.errorType()
		}
		if f != nil && o.Error == "" {
			o.Error = strconv.Itoa(f.Code)
		}
		report(o)
	}
	return f
}

// A response is the JSON-RPC response to one request.
type response struct {
	out       *buffer.Buffer
	trailer   []byte         // pre-encoded bytes that follow out; read-only
	id        jsontext.Value // of the request; nil if it has none or it cannot be read
	version   protocol.Revision
	complete  []byte // members of every result in 2026-07-28 (catalog.Catalog.Complete)
	locale    string // language of the response; "" if the client has sent none
	sessionID string // id of the session that initialize has started
	call      callid.ID
}

// prepare sets what results of a request contain.
func (w *response) prepare(s *scope, meta jsontext.Value) {
	w.version, w.complete, w.locale, w.call = s.version, s.wholeCatalog().Complete, "", callid.ID{}
	if meta != nil {
		w.locale = localeOf(s.server.library.Load(), meta)
	}
}

// begin returns the buffer with the head of the response, up to the members of the result.
func (w *response) begin() []byte {
	b := append(w.out.B, `{"jsonrpc":"2.0","id":`...)
	b = append(b, w.id...)
	return append(b, `,"result":{`...)
}

// completeHead starts the pre-encoded head of results in 2026-07-28.
const completeHead = `"resultType":"complete",`

// result returns the buffer with the head of the response and the members that a result starts with,
// followed by a comma. meta holds further members of the result's _meta, separated by commas, or is nil.
func (w *response) result(resultType string, meta []byte) []byte {
	dst := w.begin()
	if w.locale != "" {
		meta = appendLocale(meta, w.locale)
	}
	if !w.version.Stateless() {
		if len(meta) == 0 && w.call == (callid.ID{}) {
			return dst
		}
		return append(w.appendMeta(append(dst, `"_meta":{`...), meta), "},"...)
	}
	complete := w.complete
	if resultType != "complete" {
		dst = append(append(append(dst, `"resultType":"`...), resultType...), `",`...)
		complete = bytes.TrimPrefix(complete, []byte(completeHead))
	}
	dst = append(dst, complete...)
	return append(w.appendMeta(dst[:len(dst)-1], meta), "},"...) // within the _meta of complete
}

// metaCall is the member of a result's _meta with the id of the call.
const metaCall = "io.github.fairwayhq/call"

// appendMeta appends members to those of a _meta: the id of the call, and meta.
func (w *response) appendMeta(dst, meta []byte) []byte {
	if w.call != (callid.ID{}) {
		dst = append(append(strictjson.Comma(dst), `"`+metaCall+`":"`...), w.call[:]...)
		dst = append(dst, '"')
	}
	if len(meta) > 0 {
		dst = append(strictjson.Comma(dst), meta...)
	}
	return dst
}

// end ends the response after the members of the result.
func (w *response) end(b []byte) { w.out.B = append(b, "}}"...) }

// empty writes an empty result.
func (w *response) empty() { w.end(w.begin()) }

// fault writes an error.
func (w *response) fault(f *protocol.Fault) {
	if f.IsResult {
		meta := strictjson.AppendString([]byte(`"`+metaChallenges+`":`), f.Challenge)
		b := append(w.result("complete", meta), `"content":[`...)
		w.end(append(content.AppendText(b, f.Message), `],"isError":true`...))
		return
	}
	id := w.id
	if id == nil && !f.Anonymous && !w.version.OmitsUnreadID() {
		id = jsontext.Value("null")
	}
	b := append(w.out.B, `{"jsonrpc":"2.0"`...)
	if id != nil {
		b = append(append(b, `,"id":`...), id...)
	}
	w.out.B = append(f.AppendTo(append(b, `,"error":`...)), '}')
}

// unknownMethod returns the fault for a method that the server does not serve.
func unknownMethod(name string, v protocol.Revision) *protocol.Fault {
	f := protocol.Faultf(http.StatusOK, protocol.MethodNotFound,
		"method %q is unknown to this server in revision %v", text.Cut(name, text.MaxQuoted), v)
	if v.Stateless() {
		f.Status = http.StatusNotFound
	}
	return f
}

// A method serves the requests with one method name.
type method struct {
	name  string
	known func(protocol.Revision) bool
	named string // parameter that the header Mcp-Name repeats; "" for none
	serve func(*request, *response) *protocol.Fault
}

const methodCallTool = "tools/call"

// methods maps the names of the served requests to their handlers. All notifications are accepted,
// but only notifications/cancelled has an effect.
var methods = byName([]method{
	{"initialize", isStateful, "", initialize},
	{"ping", isStateful, "", ping},
	{"server/discover", isStateless, "", discover},
	{"logging/setLevel", isStateful, "", setLevel},
	{"tools/list", always, "", listTools},
	{methodCallTool, always, "name", callTool},
	{"resources/list", always, "", listResources},
	{"resources/templates/list", always, "", listTemplates},
	{"resources/read", always, "uri", readResource},
	{"resources/subscribe", isStateful, "", subscribe},
	{"resources/unsubscribe", isStateful, "", unsubscribe},
	{"subscriptions/listen", isStateless, "", listen},
	{"skills/list", hasSkills, "", listSkills},
	{"skills/get", hasSkills, "", getSkill},
	{"resources/directory/read", hasSkills, "", readDirectory},
	{"prompts/list", always, "", listPrompts},
	{"prompts/get", always, "name", getPrompt},
	{"tasks/get", hasTasks, "taskId", getTask},
	{"tasks/update", isStateless, "taskId", updateTask},
	{"tasks/cancel", hasTasks, "taskId", cancelTask},
	{"tasks/result", hasTaskParameter, "", taskResult},
	{"tasks/list", hasTaskParameter, "", listTasks},
	{"completion/complete", always, "", complete},
})

// methodOf returns the method with that name, of the server or of an extension.
func (s *Server) methodOf(name string) (served method, ok bool) {
	if served, ok = methods[name]; ok {
		return served, true
	}
	for _, e := range s.options.Extensions {
		if m := e.Methods[name]; m != nil {
			return method{name, always, "", m.serve}, true
		}
	}
	return served, false
}

func byName(list []method) map[string]method {
	all := make(map[string]method, len(list))
	for _, m := range list {
		all[m.name] = m
	}
	return all
}

// isStateful reports whether the revision starts with initialize.
func isStateful(v protocol.Revision) bool  { return !v.Stateless() }
func isStateless(v protocol.Revision) bool { return v.Stateless() }
func always(protocol.Revision) bool        { return true }

func hasTasks(v protocol.Revision) bool         { return v.SupportsExtensions() || v.SupportsTaskParameter() }
func hasSkills(v protocol.Revision) bool        { return v.SupportsExtensions() }
func hasTaskParameter(v protocol.Revision) bool { return v.SupportsTaskParameter() }
