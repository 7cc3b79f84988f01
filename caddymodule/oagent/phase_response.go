package oagent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/dustin/go-humanize"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/security"
)

// passOn is the last phase: it runs the next handlers, checks their response, and releases or withholds it.
func passOn(d decision, next caddyhttp.Handler) error {
	d.setPlaceholders(allowed)
	s := &response{d: d, ticket: d.admission.ticket, next: next}
	if rec := d.request.rec; rec != nil {
		rec.Changed = s.ticket.Changed
	}
	if s.ticket.Replayed != nil {
		return s.sendReviewed()
	}
	q := d.request
	removeForwardedTargets(q.r.Header)
	d.admission.identity.apply(q.r, d.op.operation, q.handler.forwardHeaders)
	s.setInjected(d.admission.identity.with)
	if q.rec != nil && q.w == http.ResponseWriter(q.rec) {
		return s.serveCall()
	}
	return s.servePlain()
}

// response is the response to a request that was admitted.
type response struct {
	d        decision // which admitted the request
	ticket   *oagent.Ticket
	next     caddyhttp.Handler
	injected route.InjectedCredentials // the credentials that the API gets instead of the caller's
	encoding [1]string                 // storage for the header Accept-Encoding

	status     int               // of a call that is finished; 0 before
	inspection *route.Inspection // of the response of a plain request; nil without inspectors
}

// setInjected records the credentials that the API gets: those of the toolset, and those of with,
// which may be nil.
func (s *response) setInjected(with *security.Supplement) {
	if s.d.request.rec != nil {
		s.injected = s.d.request.rec.Injected
	}
	if with == nil {
		return
	}
	s.injected = append(s.injected, with)
	if s.d.request.rec != nil {
		s.d.request.rec.Injected = s.injected
	}
}

// repeatsCredentials reports whether outputs contain a credential that was sent to the API:
// one that the gateway injected, or one of the caller. The record must not store such outputs.
func (s *response) repeatsCredentials(outputs jsontext.Value) bool {
	further, found := s.d.caller.agents.Credentials.In(s.d.request.r)
	if len(outputs) == 0 || !found && len(s.injected) == 0 {
		return false
	}
	var secrets text.Secrets
	s.injected.AddTo(&secrets)
	for _, value := range s.d.request.r.Header["Authorization"] {
		secrets.AddHeader(value)
	}
	for _, name := range s.d.caller.agents.Credentials.Headers {
		for _, value := range s.d.request.r.Header[name] {
			secrets.Add(value)
		}
	}
	for i := 1; i < len(further); i += 2 {
		secrets.Add(further[i])
	}
	return !secrets.IsEmpty() && secrets.Contains(string(outputs))
}

// isChecked reports whether the response must be checked before it is sent.
func (s *response) isChecked() bool {
	return s.ticket.Capability.Output != nil && !s.ticket.Capability.LogOnly
}

// isRecorded reports whether the response is read for the record or for a check.
func (s *response) isRecorded() bool {
	return s.ticket.Capability.Output != nil || s.ticket.Capability.CollectResults
}

// isTried reports whether an output restriction in log only judges the response, which is sent before that.
func (s *response) isTried() bool {
	return s.ticket.Capability.Output != nil && s.ticket.Capability.LogOnly
}

// finish passes the result of the call to the Guard.
func (s *response) finish(outputs jsontext.Value, status int) *refusalError {
	s.status = status
	if status == http.StatusUnauthorized {
		s.injected.Rejected()
	}
	if s.d.request.hosted != nil { // the result may wait for those of other calls
		defer pauseTimeout(s.d.request.rec)()
	}
	if output := s.ticket.Capability.Output; output != nil {
		if s.ticket.Capability.RequiresReview(output) {
			defer pauseTimeout(s.d.request.rec)()
		}
		if output.Assertion != nil && isDescription(outputs) && !readsDescription(output.Assertion.Expression) {
			outputs = omitDescription(outputs)
		}
	}
	if s.d.op.operation.Toolset.LogOnly.Inspect != nil {
		s.tried(s.inspection)
	}
	if s.repeatsCredentials(outputs) {
		s.ticket.Unrecorded = engagement.OmittedCredentials
	}
	if err := s.ticket.Finish(s.d.request.r.Context(), outputs, status); err != nil {
		return asRefusalError(err)
	}
	return nil
}

// abort records that the call has no result. The note says why.
func (s *response) abort(e outcome) {
	s.ticket.Abort(s.d.request.r.Context(), e.note)
	s.d.log(e)
}

// abortFor is abort for an error of a handler. The record gets the kind of the error, not its
// message.
func (s *response) abortFor(err error) {
	if errors.Is(s.d.request.r.Context().Err(), context.Canceled) {
		s.abort(outcome{failed: tools.Canceled, note: "the call was canceled; its effect is unknown"})
		return
	}
	if e, ok := errors.AsType[caddyhttp.HandlerError](err); ok && e.StatusCode > 0 {
		aborted := outcome{status: e.StatusCode, note: "calling the API failed: status " + strconv.Itoa(e.StatusCode)}
		if failure := route.UpstreamFailure("", e.StatusCode); failure != nil {
			aborted.failed = failure.Kind
		}
		s.abort(aborted)
		return
	}
	s.abort(outcome{failed: tools.Internal, note: "a handler of the gateway failed"})
}

// onlyReads reports whether requests with this method change nothing. Conditions can be removed
// from such requests.
func onlyReads(method string) bool {
	return method == http.MethodGet || method == http.MethodHead
}

// conditions are the headers that make a request conditional (RFC 9110, section 13.1).
var conditions = [...]string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range"}

// deleteConditions removes the conditions, including names that some servers treat as equal
// (see httpheader.Canonical).
func deleteConditions(header http.Header) {
	for name := range header {
		if slices.Contains(conditions[:], httpheader.Canonical(name)) {
			delete(header, name)
		}
	}
}

// isConditional reports whether the header has a condition.
func isConditional(header http.Header) bool {
	for name := range header {
		if slices.Contains(conditions[:], httpheader.Canonical(name)) {
			return true
		}
	}
	return false
}

// refuseTooLarge refuses a response that is too large to check.
func (s *response) refuseTooLarge() *refusalError {
	r := refuse(engagement.KindOutputRestriction, 0, s.ticket.Capability.Rule()+".output_restriction", fmt.Sprintf(
		"the call of %s was made, but its result is withheld: it is larger than %s, the limit for checks; request less",
		s.d.op.name, humanize.IBytes(uint64(s.d.request.handler.MaxOutput))), nil)
	r.Made = true
	return r
}

// serveCall passes a tool call on. Its response goes directly into the recorder. No one reads
// the recorder before the call has ended, so the response can be checked there and need not be
// held a second time.
func (s *response) serveCall() error {
	rec, checked := s.d.request.rec, s.isChecked()
	if checked {
		rec.SuppressEvents()
		if onlyReads(s.d.request.r.Method) {
			deleteConditions(s.d.request.r.Header)
		}
	}
	ended := false
	defer func() {
		if ended {
			return
		}
		// A handler has panicked. The dispatcher reports it.
		if checked {
			rec.Discard()
		}
		s.abort(outcome{note: "the response was aborted"})
	}()
	err := s.next.ServeHTTP(rec, s.d.request.r)
	ended = true
	if err != nil {
		if checked {
			rec.Discard()
		}
		s.abortFor(err)
		return err
	}
	if rec.Inspection != nil {
		rec.InspectResponse(s.d.request.r.Context())
	}
	outputs, ok := s.callOutputs()
	if !ok {
		return nil
	}
	if refusal := s.finish(outputs, rec.Status); refusal != nil {
		rec.Reset(s.d.request.r.Method)
		return s.d.answer(refusal)
	}
	s.d.log(outcome{status: rec.Status})
	s.d.expose(rec.Headers)
	return nil
}

// callOutputs returns the outputs of a call. If there are no outputs to check, it aborts the call
// and ok is false.
func (s *response) callOutputs() (outputs jsontext.Value, ok bool) {
	rec := s.d.request.rec
	delete(rec.Headers, headerExposes)
	switch {
	case rec.TooLarge:
		s.abort(outcome{note: "the response was larger than the limit for tool calls"})
		return nil, false
	case rec.Err != nil:
		s.abort(outcome{note: "the streamed response exceeded the limit"})
		return nil, false
	case rec.Status == 0 || rec.Body == nil:
		s.abort(outcome{note: "no handler after oagent wrote a response"})
		return nil, false
	case rec.Stream != nil && s.d.request.r.Context().Err() != nil && !rec.StreamComplete():
		s.abort(outcome{note: "the response did not end before the timeout"})
		if s.isChecked() {
			rec.Discard()
		}
		return nil, false
	}
	switch {
	case !s.isRecorded():
		return nil, true
	case rec.Stream == nil:
	case !s.isChecked() && !s.isTried():
		return engagement.Omitted{Bytes: int64(len(rec.Body.B)), Why: engagement.OmittedStream}.JSON(), true
	default:
		if err := rec.FinishStream(); err != nil {
			rec.Err = err
			rec.Release()
			s.abort(outcome{note: "the streamed response cannot be parsed"})
			return nil, false
		}
	}
	if int64(len(rec.Body.B)) > s.d.request.handler.MaxOutput {
		if !s.isChecked() {
			return engagement.Omitted{Bytes: int64(len(rec.Body.B)), Why: engagement.OmittedAnswer, Limit: s.d.request.handler.MaxOutput}.JSON(), true
		}
		rec.Reset(s.d.request.r.Method)
		s.ticket.Abort(s.d.request.r.Context(), "the response was larger than max_output; it was withheld because it could not be checked")
		_ = s.d.answer(s.refuseTooLarge())
		return nil, false
	}
	outputs = outputsOf(rec.Headers, rec.Status, rec.Body.B, s.d.request.handler.MaxOutput)
	if len(s.injected) > 0 {
		outputs = s.injected.ConcealBody(rec.Status, outputs)
	}
	return outputs, true
}

// outputsOf returns the body of a response in the form of the Engagement: JSON as it is, text
// as a string, and for anything else
//
//	{"_media_type":"image/png","_bytes":1234}
//
// A body that cannot be decoded, or that is partial content, is omitted (engagement.Omitted), so that
// an assertion on it fails instead of finding no member. Without a body the outputs are nil.
// The outputs may alias the body.
func outputsOf(header http.Header, status int, body []byte, limit int64) jsontext.Value {
	if len(body) == 0 {
		return nil
	}
	contentType := header.Get("Content-Type")
	if coding := header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") || declaresOtherCharset(contentType) {
		decoded, err := decodedCopy(header, body, limit)
		if err != nil {
			return omitUndecodable(err, body, limit)
		}
		defer buffer.Put(decoded)
		return plainOutputs(contentType, status, decoded.B).Clone()
	}
	return plainOutputs(contentType, status, body)
}

// plainOutputs returns the outputs for a body without an encoding.
func plainOutputs(contentType string, status int, body []byte) jsontext.Value {
	body = bytes.TrimPrefix(body, route.ByteOrderMark)
	switch {
	case status == http.StatusPartialContent:
		return engagement.Omitted{Bytes: int64(len(body)), Why: engagement.OmittedPart}.JSON()
	case contentType == "application/json":
		return body // the usual case, without parameters
	}
	switch base := httpheader.MediaType(contentType); {
	case httpheader.IsJSON(base):
		return body // JSON that is not strict is omitted
	case base == "" && startsJSON(body) && strictjson.Check(body) == nil:
		return body
	case (base == "" || route.IsText(base)) && utf8.Valid(body):
		return strictjson.AppendString(nil, body)
	}
	return describeBody(contentType, len(body))
}

func startsJSON(body []byte) bool {
	body = bytes.TrimSpace(body)
	return len(body) > 0 && (body[0] == '{' || body[0] == '[')
}

// declaresOtherCharset reports whether text may be in a character set other than UTF-8.
func declaresOtherCharset(contentType string) bool {
	if !strings.Contains(contentType, "=") || !route.IsText(contentType) {
		return false
	}
	_, parameters, err := mime.ParseMediaType(contentType)
	charset := strings.ToLower(parameters["charset"])
	return err == nil && charset != "" && charset != "utf-8" && charset != "us-ascii"
}

// omitUndecodable returns the placeholder for a body that could not be decoded.
func omitUndecodable(err error, body []byte, limit int64) jsontext.Value {
	if errors.Is(err, buffer.ErrTooLarge) {
		return engagement.Omitted{Bytes: int64(len(body)), Why: engagement.OmittedAnswer, Limit: limit}.JSON()
	}
	return engagement.Omitted{Bytes: int64(len(body)), Why: engagement.OmittedEncoding}.JSON()
}

// decodedCopy decodes the content coding of a body, and converts text to UTF-8.
func decodedCopy(header http.Header, body []byte, limit int64) (*buffer.Buffer, error) {
	header = maps.Clone(header)
	content := buffer.Get()
	content.B = append(content.B, body...)
	content, err := route.DecodeBody(header, content, limit)
	if err == nil {
		content, err = route.DecodeText(header, content, limit)
	}
	if err != nil {
		return nil, err
	}
	if declaresOtherCharset(header.Get("Content-Type")) {
		buffer.Put(content)
		return nil, errors.New("the character set is not known")
	}
	return content, nil
}

// describeBody returns the outputs for a body that expressions cannot read.
func describeBody(contentType string, size int) jsontext.Value {
	base, _, _ := strings.Cut(contentType, ";")
	b := append([]byte(nil), `{"_media_type":`...)
	b = strictjson.AppendString(b, strings.ToValidUTF8(strings.ToLower(strings.TrimSpace(base)), ""))
	b = append(b, `,"_bytes":`...)
	return append(strconv.AppendInt(b, int64(size), 10), '}')
}

var descriptionPrefix = []byte(`{"_media_type":`)

func isDescription(outputs jsontext.Value) bool { return bytes.HasPrefix(outputs, descriptionPrefix) }

// readsDescription reports whether an expression handles opaque bodies. In any other expression, a
// test that a member is absent would hold for every opaque body.
func readsDescription(expression string) bool {
	return strings.Contains(expression, "_media_type") || strings.Contains(expression, "_bytes")
}

// omitDescription replaces opaque outputs by a placeholder, so that an assertion that reads them
// fails.
func omitDescription(outputs jsontext.Value) jsontext.Value {
	size, _ := strconv.ParseInt(string(outputs[bytes.LastIndexByte(outputs, ':')+1:len(outputs)-1]), 10, 64)
	return engagement.Omitted{Bytes: size, Why: engagement.OmittedForm}.JSON()
}
