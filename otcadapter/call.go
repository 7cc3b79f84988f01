package otcadapter

import (
	"context"
	"encoding/base64"
	"maps"
	"mime"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/otcadapter/idempotency"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/keyedhash"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/callid"
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
	prepared    tools.Prepared // if the call has a call_id
	maxRecorded int            // maximum size of a recorded response in bytes; 0 if responses are not recorded
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
		s.serveIdempotent(ctx, w, r, c, &site)
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
func responseSize(result *tools.Result) int {
	if result == nil {
		return envelopeSize
	}
	return len(result.Body) + envelopeSize
}

// run calls the tool and returns the response, which may be recorded. Its body begins with the reserved
// bytes.
func (c *call) run(ctx context.Context, reserved int) idempotency.Response {
	outcome := tools.CallPrepared(ctx, c.caller, c.prepared)
	defer outcome.Release()
	b := make([]byte, reserved, reserved+responseSize(outcome.Result))
	response := c.respond(b, &outcome)
	if c.credentials != nil {
		response.HasCredentials = c.credentials.areIn(outcome.Result, response.Body[reserved:], c.maxRecorded)
	}
	return response
}

// respond appends the response to a call that has returned.
func (c *call) respond(b []byte, outcome *tools.Outcome) idempotency.Response {
	failure := outcome.Failure
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
	return idempotency.Response{
		Status:    http.StatusOK,
		Header:    resultHeader(outcome),
		Body:      c.encoder.appendResponse(b, outcome),
		Retryable: isRetryable(outcome),
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
func isRetryable(outcome *tools.Outcome) bool {
	failure := outcome.Failure
	return failure != nil && (failure.Kind == tools.InvalidArguments || failure.Retryable(outcome.Tool))
}

// serveIdempotent handles a call with a call_id from the client, which is an idempotency key
// (OTC 1.0, Tool Request Schema). If an earlier request had the same call_id, the client gets the
// stored response.
func (s *Server) serveIdempotent(ctx context.Context, w http.ResponseWriter, r *http.Request, c *call, site *Site) {
	c.maxRecorded = s.records.MaxResponse()
	c.prepared = tools.PrepareCall(c.caller, c.toolkit.tools, c.name, c.input)
	c.input = c.prepared.Arguments // as the tool reads them, so that the same call in another JSON form is the same call
	response, outcome := s.records.Do(ctx, &idempotentCall{call: c, request: r, user: site.User, owner: site.Owner, endpoint: s.records.Endpoint()})
	switch outcome {
	case idempotency.Canceled:
		return // the client has disconnected
	case idempotency.Ran:
	case idempotency.Replayed:
		tools.RecordCall(c.caller, c.tool.Tool, tools.OutcomeReplayed, "")
		w.Header().Set("Idempotent-Replayed", "true")
	default:
		response = c.withoutResponse(outcome)
	}
	writeCallResponse(w, &response)
}

// withoutResponse returns the response to a call whose own response is not available.
func (c *call) withoutResponse(outcome idempotency.Outcome) idempotency.Response {
	const doNotRepeat = "The call has been carried out: do not repeat it. Check the current state with another tool."
	var message, prompt string
	switch outcome {
	case idempotency.Conflict:
		return c.reject(nil, conflictingCallID(c.callID))
	case idempotency.Unavailable:
		return c.reject(nil, unavailable("the call was not run, because calls with a call_id cannot be recorded at the moment", idempotency.RetryAfter))
	case idempotency.Unfinished:
		message = "this call was started but not finished: the gateway that ran it stopped or lost its store, so it is unknown whether the call had an effect"
		prompt = "Do not repeat the call before you have checked the current state with another tool. If it had no effect, call again with a new call_id."
	case idempotency.TooLarge:
		message = "this call has already run; its response was too large to be stored"
		prompt = "The call has been carried out: do not repeat it. Read what you need with another tool, or request less with a new call_id."
	case idempotency.NoShare:
		return c.reject(nil, shareUsed())
	case idempotency.Dropped:
		message = "this call has already run; its stored response was dropped to make room for others"
		prompt = doNotRepeat
	case idempotency.HadCredentials:
		message = "this call has already run; its response contained credentials of the call, so it was not stored"
		prompt = doNotRepeat
	default:
		message = "this call has already run; its stored response cannot be read"
		prompt = doNotRepeat
	}
	return idempotency.Response{Status: http.StatusOK, Body: c.encoder.appendLost(nil, message, prompt)}
}

// An idempotentCall is a call with a call_id from the client. It implements idempotency.Call.
type idempotentCall struct {
	*call
	request  *http.Request
	user     string // authenticated by the site; "" for none
	owner    store.Owner
	endpoint string // see idempotency.Options
}

// Identity implements idempotency.Call. There is one record for each call_id of one user at one
// endpoint. Callers that the site has not authenticated are distinguished by their credentials
// for the API.
func (c *idempotentCall) Identity(key *keyedhash.Key) (record string, content keyedhash.Digest) {
	h := key.Hash("record")
	h.Add(c.endpoint)
	h.Add(httpheader.HostName(c.request.Host))
	h.Add(c.user)
	if c.user == "" {
		h.AddCredentials(c.request.Header, c.keyHeaders)
	}
	h.Add(c.callID)
	digest := h.Digest()
	var name [len(recordPrefix) + 43]byte // 43 characters for 32 bytes
	return string(base64.RawURLEncoding.AppendEncode(append(name[:0], recordPrefix...), digest[:])), c.contentHash(key)
}

// recordPrefix is the prefix of the key of each record in the store.
const recordPrefix = "otc/call/"

// contentHash hashes what two requests must have in common to be the same call: the tool, its
// input, its context, and the cookies of an unauthenticated caller. Tracing headers and the form
// of the response are not included.
func (c *idempotentCall) contentHash(key *keyedhash.Key) keyedhash.Digest {
	h := key.Hash("content")
	scratch := buffer.Get()
	defer buffer.Put(scratch)
	scratch.B = c.toolkit.appendID(scratch.B, c.tool.Name)
	h.AddBytes(scratch.B)
	addCanonical(h, c.input, scratch)
	addCanonical(h, c.context.raw, scratch)
	if c.user == "" {
		for _, cookie := range c.request.Header["Cookie"] {
			h.Add(cookie)
		}
	}
	return h.Digest()
}

// addCanonical adds JSON without white space and with sorted members. Null is treated as an empty
// object. Scratch is where the canonical form is put together.
func addCanonical(h keyedhash.Hash, value jsontext.Value, scratch *buffer.Buffer) {
	if isNull(value) {
		h.Add("{}")
		return
	}
	canonical := jsontext.Value(append(scratch.B[:0], value...))
	// The value is valid JSON. If it cannot be put into canonical form, it is hashed as it is.
	_ = canonical.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	h.AddBytes(canonical)
	scratch.B = canonical
}

// Idempotent implements idempotency.Call.
func (c *idempotentCall) Idempotent() bool { return c.tool.Idempotent() || c.prepared.Resumes }

// Owner implements idempotency.Call.
func (c *idempotentCall) Owner() store.Owner { return c.owner }

// ReadOnly implements idempotency.Call.
func (c *idempotentCall) ReadOnly() bool { return c.tool.ReadOnly() }

// Run implements idempotency.Call.
func (c *idempotentCall) Run(ctx context.Context, reserved int) idempotency.Response {
	return c.run(ctx, reserved)
}

// HasForm implements idempotency.Call.
func (c *idempotentCall) HasForm(body []byte) bool { return formOf(body) == c.encoder.form }

// Convert implements idempotency.Call.
func (c *idempotentCall) Convert(body []byte) []byte { return c.encoder.convert(body) }
