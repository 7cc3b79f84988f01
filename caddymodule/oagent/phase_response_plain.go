package oagent

import (
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/tools/result"
)

// servePlain passes a plain request on and processes the response. If the capability has an
// output restriction, it holds the whole response until it is checked.
func (s *response) servePlain() (err error) {
	a := s.holdResponse()
	defer a.Release()
	defer func() {
		if value := recover(); value != nil {
			if err = s.recovered(a, value); err != nil {
				panic(value)
			}
		}
	}()
	if err = s.next.ServeHTTP(a, s.d.request.r); err != nil {
		s.abortFor(err)
		return err
	}
	return s.releaseResponse(a)
}

// recovered is called when a handler has panicked. A handler aborts with http.ErrAbortHandler
// after a write has failed because the response is too large.
func (s *response) recovered(a *heldResponse, value any) error {
	if value == http.ErrAbortHandler && a.TooLarge {
		return s.releaseResponse(a)
	}
	s.abort(outcome{status: s.status, note: "the response was aborted"})
	if value == http.ErrAbortHandler && !a.Sends() {
		s.writeBrokenOff("The API aborted its response, so the response was discarded. The call was made: check its effect before you repeat it.")
		return nil
	}
	return errors.New("a handler aborted the request")
}

// writeBrokenOff responds with 502 instead of an incomplete held response.
func (s *response) writeBrokenOff(detail string) {
	respond.WriteProblem(s.d.request.w, http.StatusBadGateway, "The API aborted its response", detail)
}

// holdResponse prepares the request and the writer for a response that is recorded or checked.
func (s *response) holdResponse() *heldResponse {
	isInspected := false
	isTried := s.isTried()
	if s.d.op.operation.Toolset.Inspect != nil || s.d.op.operation.Toolset.LogOnly.Inspect != nil {
		s.inspection = inspectionOf(s.d.request, s.d.caller, s.d.op)
		isInspected = s.inspection.InspectsResponse()
		isTried = isTried || s.inspection != nil && s.inspection.LogOnly != nil
	}
	a := &heldResponse{client: s.d.request.w, checked: s.isChecked() || isInspected, recorded: s.isRecorded() || isInspected || isTried, tried: isTried}
	a.Headers, a.Limit, a.NoBody, a.Policy = s.d.request.w.Header(), s.d.request.handler.MaxOutput, s.d.request.r.Method == http.MethodHead, a
	if !a.recorded && !s.d.exposesAny() {
		a.SendTo(s.d.request.w, false)
		return a
	}
	if a.recorded {
		s.requestWhole(a.checked)
	}
	a.Headers = maps.Clone(a.Headers)
	a.Hold()
	return a
}

// requestWhole removes headers from the request so that the API returns a complete and
// readable response. Otherwise partial content would be recorded as the response of the call.
func (s *response) requestWhole(checked bool) {
	header := s.d.request.r.Header
	delete(header, "Range")
	delete(header, "If-Range")
	if checked && onlyReads(s.d.request.r.Method) {
		deleteConditions(header)
	}
	s.encoding = [1]string{"identity"}
	header["Accept-Encoding"] = s.encoding[:]
}

// releaseResponse checks the held response, and then sends the response or a refusal.
func (s *response) releaseResponse(a *heldResponse) error {
	switch {
	case a.TooLarge:
		s.ticket.Abort(s.d.request.r.Context(), "the response was larger than max_output; it was withheld because it could not be checked")
		return s.d.answer(s.refuseTooLarge())
	case a.Status == 0 && a.switched:
		s.abort(outcome{note: "the API switched to another protocol"})
		s.writeBrokenOff("The API switched to another protocol, although the client did not ask for an upgrade.")
		return nil
	case a.Status == 0:
		s.abort(outcome{note: "no handler after oagent wrote a response"})
		return nil
	}
	a.conceal(s.injected)
	if s.inspection != nil && s.inspection.InspectsResponse() {
		if err := s.inspectHeld(a); err != nil {
			return s.withholdInspected(err)
		}
		a.recorded = s.isRecorded()
	} else if s.inspection != nil && s.inspection.LogOnly != nil {
		s.tryHeld(a)
		a.recorded = s.isRecorded()
	}
	outputs := a.outputs(s.d.request.rec != nil)
	if a.Sends() {
		outputs = s.injected.ConcealBody(a.Status, outputs) // already sent, so only the record is changed
	}
	if refusal := s.finish(outputs, a.Status); refusal != nil {
		if a.Sends() {
			s.d.log(outcome{refusal: refusal, status: a.Status, note: "the response was already sent"})
			return nil
		}
		return s.d.answer(refusal)
	}
	s.d.log(outcome{status: a.Status})
	if !a.Sends() {
		s.d.expose(a.Headers)
		a.send(false)
	}
	return nil
}

// sendReviewed sends the result that was held for its review.
func (s *response) sendReviewed() error {
	held := s.ticket.Replayed
	header := s.d.request.w.Header()
	contentType, body := responseBody(s.d.op.operation, held.Outputs)
	if contentType != "" {
		header.Set("Content-Type", contentType)
		header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	header.Set("Cache-Control", "no-store")
	s.d.log(outcome{status: held.Status})
	s.d.expose(header)
	s.d.request.w.WriteHeader(held.Status)
	_, _ = s.d.request.w.Write(body)
	return nil
}

// responseBody converts outputs back to a response body. A string becomes text, unless the tool
// returns JSON.
func responseBody(op *agentset.Operation, outputs jsontext.Value) (contentType string, body []byte) {
	if len(outputs) == 0 {
		return "", nil
	}
	if outputs.Kind() == '"' {
		text, err := jsontext.AppendUnquote(nil, outputs)
		if err == nil && !op.ReturnsJSON() {
			return "text/plain; charset=utf-8", text
		}
	}
	return "application/json", outputs
}

// heldResponse is the http.ResponseWriter of a request that was allowed. Its mode depends on the
// capability:
//
//   - checked: it holds the whole response until it is checked.
//   - recorded only: it holds the response up to a limit. If the response exceeds the limit or
//     is flushed, it sends what it has and passes on later writes. The record then gets a
//     placeholder.
//
// Until the response is passed on, Headers replaces the client's header.
type heldResponse struct {
	respond.Recorder
	client     http.ResponseWriter
	checked    bool // nothing is sent before the check
	recorded   bool
	tried      bool // a rule in log only judges the response after it was sent
	incomplete bool // Body is incomplete
	streamed   bool // Body is incomplete because the response is streamed
	switched   bool // the API responded with 101
}

// WriteHeader keeps the first final status. Informational (1xx) headers are passed on only if
// the response is not held.
func (a *heldResponse) WriteHeader(status int) {
	if a.Status != 0 || status >= http.StatusOK {
		a.Recorder.WriteHeader(status)
		return
	}
	a.switched = a.switched || status == http.StatusSwitchingProtocols
	if a.Sends() {
		a.client.WriteHeader(status)
	}
}

// Begin implements respond.Policy: it sends a stream, unless it must be checked.
func (a *heldResponse) Begin() {
	delete(a.Headers, headerExposes)
	switch {
	case a.Sends():
		a.client.WriteHeader(a.Status)
	case a.checked:
		if a.Headers["Trailer"] != nil {
			delete(a.Headers, "Trailer")
			a.Headers = maps.Clone(a.Headers) // trailers stay in the handler's header
		}
	case !a.NoBody && result.FormatOf(a.Headers.Get("Content-Type")) != 0:
		a.incomplete, a.streamed = !a.tried, !a.tried
		a.pass(a.tried)
	}
}

// Overflow implements respond.Policy: it sends the response, unless it must be checked.
func (a *heldResponse) Overflow(int64) error {
	if a.checked {
		return errors.New("the response is larger than max_output")
	}
	a.incomplete = true
	a.pass(false)
	return nil
}

// FlushError sends the held data, unless it must be checked first. Later writes are passed on
// immediately and still recorded.
func (a *heldResponse) FlushError() error {
	if a.checked {
		return nil
	}
	if a.Status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if !a.Sends() {
		a.pass(true)
	}
	return a.Recorder.FlushError()
}

// pass sends what is held. Later writes are passed on, and with record they are still recorded.
func (a *heldResponse) pass(record bool) {
	if !a.Sends() {
		a.send(true)
		a.Headers = a.client.Header()
	}
	a.SendTo(a.client, record)
}

// conceal removes credentials from a response that was not sent yet. So the checked, recorded
// and sent responses are the same.
func (a *heldResponse) conceal(with route.InjectedCredentials) {
	secrets := with.Secrets(a.Status)
	if a.Sends() || a.Body == nil || secrets.IsEmpty() {
		return
	}
	if a.Headers["Content-Encoding"] != nil {
		coded := buffer.Get()
		coded.B = append(coded.B, a.Body.B...)
		if plain, err := route.DecodeBody(a.Headers, coded, a.Limit); err == nil {
			buffer.Put(a.Body)
			a.Body, a.Size = plain, int64(len(plain.B))
		}
	}
	if route.ConcealInResponse(secrets, a.Headers, a.Body) {
		delete(a.Headers, "Content-Length")
		a.Size = int64(len(a.Body.B))
	}
}

// send sends the header and what is held. Trailers are sent only if more of the response follows.
func (a *heldResponse) send(moreFollows bool) {
	header := a.client.Header()
	clear(header)
	for name, values := range a.Headers {
		if moreFollows || !strings.HasPrefix(name, http.TrailerPrefix) {
			header[name] = values
		}
	}
	a.client.WriteHeader(a.Status)
	if a.Body != nil && len(a.Body.B) > 0 {
		_, _ = a.client.Write(a.Body.B) // the client may have disconnected
	}
}

// outputs returns the response in the form of the Engagement. The outputs of a streaming tool
// call are its reduced result, because that is all that the caller gets.
func (a *heldResponse) outputs(ofCall bool) jsontext.Value {
	switch {
	case !a.recorded || a.NoBody || a.Size == 0:
		return nil
	case a.streamed:
		return engagement.Omitted{Bytes: a.Size, Why: engagement.OmittedStream}.JSON()
	case a.incomplete || a.Body == nil:
		return engagement.Omitted{Bytes: a.Size, Why: engagement.OmittedAnswer, Limit: a.Limit}.JSON()
	}
	header := a.Headers
	if format := result.FormatOf(header.Get("Content-Type")); ofCall && format != 0 && a.Status < http.StatusMultipleChoices {
		return reducedOutputs(header, a.Status, format, a.Body.B, a.Limit)
	}
	return outputsOf(header, a.Status, a.Body.B, a.Limit)
}

// reducedOutputs returns the outputs for the reduced result of a stream.
func reducedOutputs(header http.Header, status int, format result.Format, body []byte, limit int64) jsontext.Value {
	content := buffer.Get()
	defer buffer.Put(content)
	reducer := result.NewReducer(format, content, result.StreamOptions{MaxContent: limit})
	defer reducer.Release()
	if _, err := reducer.Write(body); err != nil {
		return omitUndecodable(err, body, limit)
	}
	contentType, err := reducer.Finish()
	if err != nil {
		return omitUndecodable(err, body, limit)
	}
	header = maps.Clone(header)
	header["Content-Type"] = []string{contentType}
	return outputsOf(header, status, content.B, limit).Clone()
}
