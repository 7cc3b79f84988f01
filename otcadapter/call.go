package otcadapter

import (
	"context"
	"maps"
	"mime"
	"net/http"
	"strings"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/callid"
	"github.com/fairwayhq/fairway/tools/once"
	"github.com/fairwayhq/fairway/tools/security"
)

// A call is a parsed request for a call, with everything needed to run it.
type call struct {
	callRequest
	encoder     responseEncoder
	toolkit     *toolkit
	tool        *entry   // nil if the toolkit has no such tool
	name        string   // name of the tool in the client's request
	keyHeaders  []string // see catalog
	grant       grant
	caller      tools.Caller
	credentials credentialSet
	once        *once.Request // nil if the call is not recorded
	maxRecorded int           // maximum size of a recorded response in bytes; 0 if responses are not recorded
}

// headerExposes is the response header with the values that the calling agent exposes (see tools.Result).
const headerExposes = "Oagent-Exposes"

// envelopeSize is about the size of a response without its value, in bytes.
const envelopeSize = 512

// serveCall handles POST /call and POST /tools/call.
func (s *Server) serveCall(w http.ResponseWriter, r *http.Request, catalog *catalog, form *standard, site Site) {
	request, f := s.readCall(r)
	if f != nil {
		s.writeFault(w, f, form)
		return
	}
	c := &call{callRequest: request, keyHeaders: catalog.keyHeaders}
	if f := c.findTool(catalog); f != nil {
		s.writeFault(w, f, form)
		return
	}
	c.encoder = responseEncoder{form: form, developerMessages: s.options.DeveloperMessages, request: &c.callRequest, tool: c.tool}
	info := CallInfo{CallID: c.callID, HasID: c.hasCallID, TraceID: c.traceID, UserID: c.context.userID}
	if c.tool != nil && len(c.tool.requirements) > 0 {
		if c.grant, f = c.toolkit.authorize(c.tool, &c.context, r, site.Access); f != nil {
			tools.RecordCall(site.Host.Caller(c.toolkit.index, info), c.tool.Tool, string(tools.Unauthorized), f.message)
			s.writeFault(w, f, form)
			return
		}
	}
	if len(c.context.credentials) > 0 || catalog.mayCarryCredentials(r.Header) {
		if c.credentials = c.credentialsOf(r); c.credentials != nil {
			info.Conceal = c.credentials.conceal
		}
	}
	c.caller = site.Host.Caller(c.toolkit.index, info)
	ctx := r.Context()
	if c.grant.supplement != nil {
		ctx = security.ContextWithSupplement(ctx, c.grant.supplement)
	}
	if s.records != nil && c.hasCallID && c.tool != nil {
		s.serveOnce(ctx, w, r, c, &site)
		return
	}
	outcome := c.caller.Call(ctx, c.name, c.input)
	defer outcome.Release()
	answer := buffer.Get()
	defer buffer.Put(answer)
	answer.Grow(responseSize(outcome.Result))
	response := c.respond(answer.B, &outcome)
	answer.B = response.Body
	writeCallResponse(w, &response)
}

// findTool sets the tool that the request names.
func (c *call) findTool(catalog *catalog) *fault {
	toolkit, tool, ref, f := catalog.resolve(c.toolID)
	c.toolkit, c.tool, c.name = toolkit, tool, ref.tool
	return f
}

// writeCallResponse writes the response to a call.
func writeCallResponse(w http.ResponseWriter, response *once.Response) {
	maps.Copy(w.Header(), response.Header)
	writeJSON(w, response.Status, response.Body)
}

// responseSize returns about the size of the response to a call, in bytes.
func responseSize(result *tools.Result) int {
	if result == nil {
		return envelopeSize
	}
	return len(result.Body) + envelopeSize
}

// run calls the tool and returns the response, which may be recorded. Its body begins with the reserved
// bytes.
func (c *call) run(ctx context.Context, reserved int) once.Response {
	prepared := c.once.Prepared
	if arguments := c.once.Arguments(c.input); len(arguments) != len(c.input) { // the API gets a key
		prepared = tools.PrepareCall(c.caller, c.toolkit.tools, c.name, arguments)
	}
	outcome := tools.CallPrepared(ctx, c.caller, prepared)
	defer outcome.Release()
	b := make([]byte, reserved, reserved+responseSize(outcome.Result))
	response := c.respond(b, &outcome)
	response.HasCredentials = outcome.Result.IsPrivate()
	if c.credentials != nil && !response.HasCredentials {
		response.HasCredentials = c.credentials.areIn(outcome.Result, response.Body[reserved:], c.maxRecorded)
	}
	return response
}

// respond appends the response to a call that has returned.
func (c *call) respond(b []byte, outcome *tools.Outcome) once.Response {
	failure, again := outcome.Failure, false
	if c.once != nil {
		again = c.once.Conclude(outcome)
	}
	if failure != nil {
		failure.Message = c.credentials.conceal(failure.Message)
	}
	switch {
	case failure == nil:
	case failure.Kind == tools.UnknownTool:
		return c.reject(b, unknownTool(failure))
	case failure.Connection != nil:
		return c.reject(b, missingConnection(failure))
	case failure.Kind == tools.InvalidArguments && c.encoder.form.oxp:
		return c.reject(b, invalidInput(failure))
	case failure.Kind == tools.Refused && failure.Status == http.StatusUnauthorized && c.grant.fromCaller():
		return c.reject(b, badCredentials(outcome, c))
	}
	return once.Response{
		Status:    http.StatusOK,
		Header:    resultHeader(outcome),
		Body:      c.encoder.appendResponse(b, outcome),
		Retryable: again,
	}
}

// resultHeader returns the headers with those parts of a result that the schemas of the
// standards do not allow in the body. It returns nil if there are none.
func resultHeader(outcome *tools.Outcome) http.Header {
	var header http.Header
	set := func(name, value string) {
		if header == nil {
			header = http.Header{}
		}
		header.Set(name, value)
	}
	if id := outcome.ID.String(); id != "" {
		set(callid.Header, id)
	}
	result := outcome.Result
	if result == nil {
		return header
	}
	if result.Exposed != "" {
		set(headerExposes, result.Exposed)
	}
	if filename := result.Filename(); filename != "" {
		set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": filename}))
	}
	if result.Note != "" {
		set(headerNote, asciiText(result.Note))
	}
	if result.Next != "" {
		set(headerNext, result.Next)
	}
	return header
}

// Headers of a response whose value is only a part of the API's response: a description of the part for
// the model, and the cursor for the tool that returns the next part.
const (
	headerNote = "Fairway-Note"
	headerNext = "Fairway-Next-Cursor"
)

// asciiText returns a text for a header. Characters outside ASCII become question marks.
func asciiText(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
}

// reject appends the response to a call that did not run.
func (c *call) reject(b []byte, f *fault) once.Response {
	response := once.Response{Status: f.status, Retryable: true}
	if f.header != "" && f.value != "" {
		response.Header = http.Header{}
		response.Header.Set(f.header, f.value)
	}
	response.Body = f.append(b, c.encoder.form, c.encoder.developerMessages)
	return response
}

// serveOnce handles a call with a call_id from the client, which is an idempotency key
// (OTC 1.0, Tool Request Schema). If an earlier request had the same call_id, the client gets the
// stored response.
func (s *Server) serveOnce(ctx context.Context, w http.ResponseWriter, r *http.Request, c *call, site *Site) {
	c.maxRecorded = s.records.MaxResponse()
	c.once = &once.Request{
		Endpoint: s.records.Endpoint(), Host: r.Host, User: site.User, Header: r.Header, KeyHeaders: c.keyHeaders, Share: site.Owner, Key: c.callID,
		Tool: c.tool.Tool, ToolID: c.toolkit.appendID(nil, c.tool.Name), Context: c.context.raw,
		Prepared: tools.PrepareCall(c.caller, c.toolkit.tools, c.name, c.input), // as the tool reads them, so that the same call in another JSON form is the same call
	}
	response, outcome, failure := s.records.Serve(ctx, c.caller, c.once, &idempotentCall{c.once, c})
	switch {
	case outcome == once.Canceled:
		return // the client has disconnected
	case outcome == once.Replayed && failure != nil:
		response = c.respond(nil, &tools.Outcome{ID: c.once.ID, Tool: c.tool.Tool, Failure: failure})
	case outcome == once.Replayed:
		w.Header().Set("Idempotent-Replayed", "true")
	case outcome != once.Ran:
		response = c.withoutResponse(outcome)
	}
	writeCallResponse(w, &response)
}

// withoutResponse returns the response to a call whose own response is not available.
func (c *call) withoutResponse(outcome once.Outcome) once.Response {
	switch e := outcome.Explain("call_id"); outcome {
	case once.Conflict: // the standard does not define 409
		return c.reject(nil, &fault{status: http.StatusBadRequest, message: e.Message + ": " + quoted(c.callID) + "; " + e.Advice})
	case once.Unavailable, once.InFlight:
		return c.reject(nil, unavailable(e.Message, e.RetryAfter))
	case once.NoShare: // of a client that has used its share of the store
		f := unavailable(e.Message, e.RetryAfter)
		f.status = http.StatusTooManyRequests
		return c.reject(nil, f)
	default:
		return once.Response{Status: http.StatusOK, Body: c.encoder.appendLost(nil, e.Message, e.Advice)}
	}
}

// An idempotentCall is a call with a call_id from the client. It implements once.Call.
type idempotentCall struct {
	*once.Request
	call *call
}

// Run implements once.Call.
func (c *idempotentCall) Run(ctx context.Context, reserved int) once.Response {
	return c.call.run(ctx, reserved)
}

// HasForm implements once.Call.
func (c *idempotentCall) HasForm(body []byte) bool { return formOf(body) == c.call.encoder.form }

// Convert implements once.Call.
func (c *idempotentCall) Convert(body []byte) []byte { return c.call.encoder.convert(body) }
