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
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/negotiation"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
	"github.com/fairwayhq/fairway/mcpadapter/internal/stream"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// A message is one JSON-RPC message of a client and the response to it. It has what every method needs
// to serve a request; the types of the methods, such as toolRequest, embed it.
type message struct {
	server *Server
	site   *Site
	tools  *tool.Toolset
	caller tool.Caller
	ctx    context.Context
	header http.Header // nil if the message came over a connection
	peer

	version revision.Revision
	client  elicit.Capabilities
	batched bool           // whether the message is part of a batch
	id      jsontext.Value // nil if the message has none or it cannot be read
	params  params

	listening tool.ListenerContext // of the tool call, if the client can receive events
	reporter  *stream.Reporter     // forwards the events of the tool call; nil before the first one
	observed  observedCaller       // caller, during a tools/call that is observed

	out          *buffer.Buffer // for the response
	trailer      []byte         // pre-encoded bytes that follow out; read-only
	newSessionID string         // id of the session that initialize has started
}

// A peer is the client that sent a message, as far as the server knows it.
type peer struct {
	channel    stream.Channel   // sends messages other than the response; nil if that is not possible
	connection *connection      // connection of the message; nil for an HTTP request of its own
	session    *session.Session // nil if the request has none
	state      *session.State   // state of the session or the connection; nil without one
	remote     string           // address of the client; "" over a connection
}

// params holds the parameters that several methods use; absent ones are nil.
type params struct {
	raw                                            jsontext.Value // the whole params object
	meta, name, arguments, cursor, protocolVersion jsontext.Value
}

// An exchange serves one body, which is a message or a batch, and collects the response.
type exchange struct {
	message
	status   int            // HTTP status; 0 if the response is already written
	fault    *jsonrpc.Fault // the last fault that was written as a response
	canceled bool           // the client has canceled the request and expects no response
}

// serve serves a body: one message, or a batch if the revision has batches.
func (x *exchange) serve(body []byte) {
	if err := wire.Check(body); err != nil {
		x.refuseUnreadable(body, err)
		return
	}
	switch body = bytes.TrimLeft(body, " \t\r\n"); body[0] {
	case '{':
		x.serveMessage(body)
	case '[':
		x.serveBatch(body)
	default:
		x.refuse(jsonrpc.Malformed("the body must be one JSON-RPC message, a JSON object"))
	}
}

// serveMessage serves one message. Notifications and responses of the client get an empty 202
// response.
func (x *exchange) serveMessage(data []byte) {
	method, f := x.open(data)
	if f == nil {
		f = x.agree(method)
	}
	switch {
	case f != nil:
		x.refuse(f)
	case x.id == nil || method == "":
		x.status = http.StatusAccepted
		if method == "notifications/cancelled" {
			x.cancelRequest()
		}
	default:
		x.dispatch(method)
	}
}

// agree determines the revision of the message and checks the message against the rules of that
// revision.
func (x *exchange) agree(method string) *jsonrpc.Fault {
	if x.batched && method == "initialize" {
		return jsonrpc.Malformed("initialize must not be part of a batch: send it separately")
	}
	terms := negotiation.Terms{Version: x.version, Client: x.client}
	message := negotiation.Message{
		Header: x.header, Method: method, Request: x.id != nil,
		Params: x.params.raw, Meta: x.params.meta, Named: methods[method].named,
	}
	var f *jsonrpc.Fault
	if x.connection != nil {
		f = terms.AgreeWithoutHeaders(x.server.enabled, &message)
	} else {
		f = terms.Agree(x.server.enabled, &message)
	}
	x.version, x.client = terms.Version, terms.Client
	return f
}

// An envelope holds the members of a JSON-RPC 2.0 message; absent members are nil. The members refer
// to the request body, whose buffer is reused after the request. Clone what must live longer.
type envelope struct {
	Version, ID, Method, Params, Result, Failure jsontext.Value
}

// readEnvelope reads the members of a message. The caller has checked that data is strict JSON.
func readEnvelope(data []byte) (m envelope) {
	for walk := wire.Into(data); walk.Next(); {
		switch {
		case walk.Is("jsonrpc"):
			m.Version = walk.Value
		case walk.Is("id"):
			m.ID = walk.Value
		case walk.Is("method"):
			m.Method = walk.Value
		case walk.Is("params"):
			m.Params = walk.Value
		case walk.Is("result"):
			m.Result = walk.Value
		case walk.Is("error"):
			m.Failure = walk.Value
		}
	}
	return m
}

// open checks the envelope of a message and reads its id and parameters. The returned method is ""
// for a response of the client.
func (x *exchange) open(data []byte) (method string, f *jsonrpc.Fault) {
	x.id, x.params = nil, params{}
	m := readEnvelope(data)
	if m.ID != nil {
		if kind := m.ID.Kind(); kind != '"' && kind != '0' {
			return "", jsonrpc.Malformed("the id must be a string or a number, not %s", wire.KindName(kind))
		}
		x.id = m.ID
	}
	switch {
	case string(m.Version) != `"2.0"`:
		return "", jsonrpc.Malformed(`the member jsonrpc must be "2.0"`)
	case m.Method == nil:
		return "", x.takeResponse(&m)
	case m.Method.Kind() != '"':
		return "", jsonrpc.Malformed("the method must be a string, not %s", wire.KindName(m.Method.Kind()))
	case string(m.Method) == `""`:
		return "", jsonrpc.Malformed("the method is empty")
	case m.Result != nil || m.Failure != nil:
		return "", jsonrpc.Malformed("a message with a method can have neither result nor error")
	}
	return methodName(m.Method), x.openParams(m.Params)
}

// methodName returns the name of a method. For a method that the server knows it does not allocate.
func methodName(raw jsontext.Value) string {
	if known, ok := methods[string(raw[1:len(raw)-1])]; ok {
		return known.name
	}
	return wire.Text(raw)
}

// openParams reads the parameters. Some clients send null for no parameters.
func (x *exchange) openParams(raw jsontext.Value) *jsonrpc.Fault {
	switch raw.Kind() {
	case 0, 'n':
		return nil
	case '{':
	default:
		return jsonrpc.Faultf(http.StatusBadRequest, jsonrpc.InvalidParams, "params must be an object, not %s", wire.KindName(raw.Kind()))
	}
	x.params.raw = raw
	for walk := wire.Into(raw); walk.Next(); {
		switch {
		case walk.Is("_meta"):
			x.params.meta = walk.Value
		case walk.Is("name"):
			x.params.name = walk.Value
		case walk.Is("arguments"):
			x.params.arguments = walk.Value
		case walk.Is("cursor"):
			x.params.cursor = walk.Value
		case walk.Is("protocolVersion"):
			x.params.protocolVersion = walk.Value
		}
	}
	return nil
}

// refuseUnreadable rejects a body that fails wire.Check. The error has the id of the request if it
// can be read, so that the client can match the two.
func (x *exchange) refuseUnreadable(body []byte, err error) {
	if errors.Is(err, wire.ErrTooDeep) {
		if id, whole := jsonrpc.DeepID(body); whole {
			x.id = id
			x.refuse(jsonrpc.Malformed("%v", err)) // the body is valid JSON, so this is not a parse error
			return
		}
	} else {
		x.id = jsonrpc.LenientID(body)
	}
	reason := strings.TrimPrefix(err.Error(), "jsontext: ")
	x.refuse(jsonrpc.Faultf(http.StatusBadRequest, jsonrpc.ParseError, "the body is not valid JSON: %s", text.Cut(reason, 2*text.MaxQuoted)))
}

// refuse writes the fault as the response to the current message.
func (x *exchange) refuse(f *jsonrpc.Fault) {
	x.status, x.fault = f.Status, f
	if f.Status == http.StatusNoContent {
		return
	}
	id := x.id
	if id == nil && !f.Anonymous && !x.version.OmitsUnreadID() {
		id = jsontext.Value("null")
	}
	b := append(x.out.B, `{"jsonrpc":"2.0"`...)
	if id != nil {
		b = append(append(b, `,"id":`...), id...)
	}
	b = strconv.AppendInt(append(b, `,"error":{"code":`...), int64(f.Code), 10)
	b = wire.AppendString(append(b, `,"message":`...), f.Message)
	if f.Data != nil {
		b = append(append(b, `,"data":`...), f.Data...)
	}
	x.out.B = append(b, "}}"...)
}

// dispatch serves a request.
func (x *exchange) dispatch(name string) {
	if len(x.out.B) > maxBatchAnswer {
		x.refuse(jsonrpc.Malformed("the responses to this batch are larger than %d bytes: send this request separately", maxBatchAnswer))
		return
	}
	m, ok := methods[name]
	if !ok || !m.known(x.version) {
		x.refuse(x.unknownMethod(name))
		return
	}
	if x.state == nil {
		x.refuseIf(x.observe(&m))
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
		x.refuseIf(x.observe(&m))
	}
	if x.canceled = context.Cause(running) == session.ErrCanceled; x.canceled {
		x.withhold(start)
	}
}

// observe serves a request, reports it to Options.Observe, and makes a span for a tool call that is traced.
func (m *message) observe(served *method) (f *jsonrpc.Fault) {
	callsTool := served.name == methodCallTool
	traced := callsTool && calltrace.Active(m.ctx)
	report := m.server.options.Observe
	if report == nil && !traced {
		return served.serve(m)
	}
	began := time.Now()
	if callsTool {
		outer := m.ctx
		m.observed = observedCaller{Caller: m.caller}
		m.caller = &m.observed
		if traced {
			m.ctx, m.observed.span = m.beginSpan(outer)
			defer m.observed.span.End()
		}
		defer func() { m.ctx, m.caller = outer, m.observed.Caller }()
	}
	f = served.serve(m)
	if f != nil && m.observed.span != nil {
		m.observed.span.Fault(f.Code)
	}
	if report != nil {
		o := Operation{Method: served.name, Revision: m.version.String(), Duration: time.Since(began)}
		if callsTool {
			o.Tool, o.Error = m.observed.tool, m.observed.errorType()
		}
		if f != nil && o.Error == "" {
			o.Error = strconv.Itoa(f.Code)
		}
		report(o)
	}
	return f
}

// observedCaller is a Caller that notes the outcome of the latest call.
type observedCaller struct {
	tool.Caller
	span    *calltrace.Call // nil if the call is not traced
	tool    string          // "" if the client named a tool that does not exist
	outcome string
}

// Call implements tool.Caller.
func (c *observedCaller) Call(ctx context.Context, name string, arguments []byte) tool.Outcome {
	outcome := c.Caller.Call(ctx, name, arguments)
	c.note(outcome.Tool, outcome.Name())
	return outcome
}

// RecordCall implements tool.CallRecorder.
func (c *observedCaller) RecordCall(t *tool.Tool, outcome string) {
	tool.RecordCall(c.Caller, t, outcome)
	c.note(t, outcome)
}

// AmendCall implements tool.CallRecorder.
func (c *observedCaller) AmendCall(outcome string) {
	tool.AmendCall(c.Caller, outcome)
	c.outcome = outcome
	if c.span != nil {
		c.span.Ended(c.tool, outcome)
	}
}

func (c *observedCaller) note(t *tool.Tool, outcome string) {
	if c.tool, c.outcome = "", outcome; t != nil {
		c.tool = t.Name
	}
	if c.span != nil {
		c.span.Ended(c.tool, outcome)
	}
}

// errorType returns the outcome, or "" if it is a success.
func (c *observedCaller) errorType() string {
	if c.outcome == tool.OutcomeOK {
		return ""
	}
	return calltrace.ErrorType(c.outcome)
}

// unknownMethod returns the fault for a method that the server does not serve.
func (m *message) unknownMethod(name string) *jsonrpc.Fault {
	f := jsonrpc.Faultf(http.StatusOK, jsonrpc.MethodNotFound,
		"method %q is unknown to this server in revision %v", text.Cut(name, text.MaxQuoted), m.version)
	if m.version.Stateless() {
		f.Status = http.StatusNotFound
	}
	return f
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

// A method serves the requests with one method name.
type method struct {
	name  string
	known func(revision.Revision) bool
	named string // parameter that the header Mcp-Name repeats; "" for none
	serve func(*message) *jsonrpc.Fault
}

const methodCallTool = "tools/call"

// methods maps the names of the served requests to their handlers. All notifications are accepted,
// but only notifications/cancelled has an effect.
var methods = byName([]method{
	{"initialize", isStateful, "", func(m *message) *jsonrpc.Fault { return lifecycleRequest{m}.initialize() }},
	{"ping", isStateful, "", func(m *message) *jsonrpc.Fault { return lifecycleRequest{m}.ping() }},
	{"server/discover", isStateless, "", func(m *message) *jsonrpc.Fault { return lifecycleRequest{m}.discover() }},
	{"logging/setLevel", isStateful, "", func(m *message) *jsonrpc.Fault { return clientLog{m}.setLevel() }},
	{"tools/list", always, "", func(m *message) *jsonrpc.Fault { return toolListRequest{m}.listTools() }},
	{methodCallTool, always, "name", func(m *message) *jsonrpc.Fault { return toolRequest{m}.callTool() }},
	{"resources/list", always, "", func(m *message) *jsonrpc.Fault { return resourceRequest{m}.listResources() }},
	{"resources/templates/list", always, "", func(m *message) *jsonrpc.Fault { return resourceRequest{m}.listTemplates() }},
	{"resources/read", always, "uri", func(m *message) *jsonrpc.Fault { return resourceRequest{m}.readResource() }},
	{"resources/subscribe", isStateful, "", func(m *message) *jsonrpc.Fault { return watchRequest{message: m}.subscribe() }},
	{"resources/unsubscribe", isStateful, "", func(m *message) *jsonrpc.Fault { return watchRequest{message: m}.unsubscribe() }},
	{"subscriptions/listen", isStateless, "", func(m *message) *jsonrpc.Fault { return newWatchRequest(m).listen() }},
	{"prompts/list", always, "", func(m *message) *jsonrpc.Fault { return promptRequest{m}.listPrompts() }},
	{"prompts/get", always, "name", func(m *message) *jsonrpc.Fault { return promptRequest{m}.getPrompt() }},
	{"tasks/get", hasTasks, "taskId", func(m *message) *jsonrpc.Fault { return taskRequest{m}.get() }},
	{"tasks/update", isStateless, "taskId", func(m *message) *jsonrpc.Fault { return taskRequest{m}.update() }},
	{"tasks/cancel", hasTasks, "taskId", func(m *message) *jsonrpc.Fault { return taskRequest{m}.cancel() }},
	{"tasks/result", hasTaskParameter, "", func(m *message) *jsonrpc.Fault { return taskRequest{m}.result() }},
	{"tasks/list", hasTaskParameter, "", func(m *message) *jsonrpc.Fault { return taskRequest{m}.list() }},
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

func hasTasks(v revision.Revision) bool         { return v.SupportsExtensions() || v.SupportsTaskParameter() }
func hasTaskParameter(v revision.Revision) bool { return v.SupportsTaskParameter() }
