package otcadapter

import (
	"context"
	"maps"
	"mime"
	"net/http"
	"strings"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/ocp/security"
	"github.com/fairwayhq/fairway/ocp/tool"
	"github.com/fairwayhq/fairway/otcadapter/idempotency"
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
	caller      tool.Caller
	credentials credentialSet
	maxRecorded int // maximum size of a recorded response in bytes; 0 if responses are not recorded
}

// headerExposes is the response header with the values that the calling agent exposes (see tool.Result).
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
	if c.tool != nil {
		if c.grant, f = c.toolkit.authorize(c.tool, &c.context, r, site.Access); f != nil {
			tool.RecordCall(site.Host.Caller(c.toolkit.index, info), c.tool.Tool, string(tool.Unauthorized))
			s.writeFault(w, f, form)
			return
		}
	}
	if c.credentials = c.credentialsOf(r); c.credentials != nil {
		info.Conceal = c.credentials.conceal
	}
	c.caller = site.Host.Caller(c.toolkit.index, info)
	ctx := r.Context()
	if c.grant.supplement != nil {
		ctx = security.ContextWithSupplement(ctx, c.grant.supplement)
	}
	if s.records != nil && c.hasCallID && c.tool != nil {
		s.serveIdempotent(ctx, w, r, c, site.User)
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
func writeCallResponse(w http.ResponseWriter, response *idempotency.Response) {
	maps.Copy(w.Header(), response.Header)
	writeJSON(w, response.Status, response.Body)
}

// responseSize returns about the size of the response to a call, in bytes.
func responseSize(result *tool.Result) int {
	if result == nil {
		return envelopeSize
	}
	return len(result.Body) + envelopeSize
}

// run calls the tool and returns the response, which may be recorded. Its body begins with the reserved
// bytes.
func (c *call) run(ctx context.Context, reserved int) idempotency.Response {
	outcome := c.caller.Call(ctx, c.name, c.input)
	defer outcome.Release()
	b := make([]byte, reserved, reserved+responseSize(outcome.Result))
	response := c.respond(b, &outcome)
	response.HasCredentials = c.credentials.areIn(outcome.Result, response.Body[reserved:], c.maxRecorded)
	return response
}

// respond appends the response to a call that has returned.
func (c *call) respond(b []byte, outcome *tool.Outcome) idempotency.Response {
	failure := outcome.Failure
	if failure != nil {
		failure.Message = c.credentials.conceal(failure.Message)
	}
	switch {
	case failure == nil:
	case failure.Kind == tool.UnknownTool:
		return c.reject(b, unknownTool(failure))
	case failure.Kind == tool.InvalidArguments && c.encoder.form.oxp:
		return c.reject(b, invalidInput(failure))
	case failure.Kind == tool.Refused && failure.Status == http.StatusUnauthorized && c.grant.fromCaller():
		return c.reject(b, badCredentials(outcome, c))
	}
	return idempotency.Response{
		Status:    http.StatusOK,
		Header:    resultHeader(outcome.Result),
		Body:      c.encoder.appendResponse(b, outcome),
		Retryable: isRetryable(outcome),
	}
}

// resultHeader returns the headers with those parts of a result that the schemas of the
// standards do not allow in the body. It returns nil if there are none.
func resultHeader(result *tool.Result) http.Header {
	if result == nil {
		return nil
	}
	var header http.Header
	set := func(name, value string) {
		if header == nil {
			header = http.Header{}
		}
		header.Set(name, value)
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
func (c *call) reject(b []byte, f *fault) idempotency.Response {
	response := idempotency.Response{Status: f.status, Retryable: true}
	if f.header != "" && f.value != "" {
		response.Header = http.Header{}
		response.Header.Set(f.header, f.value)
	}
	response.Body = f.append(b, c.encoder.form, c.encoder.developerMessages)
	return response
}

// isRetryable reports whether the same call may run once more.
func isRetryable(outcome *tool.Outcome) bool {
	failure := outcome.Failure
	return failure != nil && (failure.Kind == tool.InvalidArguments || failure.Retryable(outcome.Tool))
}
