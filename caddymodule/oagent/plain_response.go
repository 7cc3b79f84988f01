package oagent

import (
	"errors"
	"maps"
	"net/http"
	"strconv"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/problem"
)

// servePlain passes a plain request on and processes the response. If the capability has an
// output restriction, it holds the whole response until it is checked.
func (s *response) servePlain() (err error) {
	a := s.holdResponse()
	defer a.drop()
	defer func() {
		if value := recover(); value != nil {
			if err = s.recovered(a, value); err != nil {
				panic(value)
			}
		}
	}()
	if err = s.next.ServeHTTP(a, s.r); err != nil {
		s.abortFor(err)
		return err
	}
	return s.releaseResponse(a)
}

// errAborted means that a handler called panic(http.ErrAbortHandler).
var errAborted = errors.New("a handler aborted the request")

// recovered is called when a handler has panicked. A handler aborts with http.ErrAbortHandler
// after a write has failed because the response is too large.
func (s *response) recovered(a *heldResponse, value any) error {
	if value == http.ErrAbortHandler && a.tooLarge {
		return s.releaseResponse(a)
	}
	s.abort("the response was aborted")
	if value == http.ErrAbortHandler && !a.passing {
		s.writeBrokenOff("The API aborted its response, so the response was discarded. The call was made: check its effect before you repeat it.")
		return nil
	}
	return errAborted
}

// writeBrokenOff responds with 502 instead of an incomplete held response.
func (s *response) writeBrokenOff(detail string) {
	problem.Write(s.w, http.StatusBadGateway, "The API aborted its response", detail)
}

// holdResponse prepares the request and the writer for a response that is recorded or checked.
func (s *response) holdResponse() *heldResponse {
	a := &heldResponse{
		ResponseWriter: s.w, limit: s.handler.MaxOutput, checked: s.isChecked(), recorded: s.isRecorded(),
		bodiless: s.r.Method == http.MethodHead,
	}
	if !a.recorded && !s.exposesAny() {
		a.passing = true
		return a
	}
	if a.recorded {
		s.requestWhole(a.checked)
	}
	a.header = maps.Clone(s.w.Header())
	a.body = buffer.Get()
	return a
}

// requestWhole removes headers from the request so that the API returns a complete and
// readable response. Otherwise partial content would be recorded as the response of the call.
func (s *response) requestWhole(checked bool) {
	header := s.r.Header
	delete(header, "Range")
	delete(header, "If-Range")
	if checked && isSafe(s.r.Method) {
		deleteConditions(header)
	}
	s.encoding = [1]string{"identity"}
	header["Accept-Encoding"] = s.encoding[:]
}

// releaseResponse checks the held response, and then sends the response or a refusal.
func (s *response) releaseResponse(a *heldResponse) error {
	switch {
	case a.tooLarge:
		s.ticket.Abort(s.r.Context(), "the response was larger than max_output; it was withheld because it could not be checked")
		return s.sendRefusal(s.refuseTooLarge())
	case a.status == 0 && a.switched:
		s.abort("the API switched to another protocol")
		s.writeBrokenOff("The API switched to another protocol, which the request did not request.")
		return nil
	case a.status == 0:
		s.abort("no handler after oagent wrote a response")
		return nil
	}
	a.conceal(s.injected)
	outputs := a.outputs(s.rec != nil)
	if a.passing {
		outputs = s.injected.ConcealBody(a.status, outputs) // already sent, so only the record is changed
	}
	if refusal := s.finish(outputs, a.status); refusal != nil {
		if a.passing {
			s.logDecision(string(refusal.Kind), refusal, "the response was already sent")
			return nil
		}
		return s.sendRefusal(refusal)
	}
	s.logDecision(allowed, nil, "")
	if !a.passing {
		s.expose(a.header)
		a.release()
	}
	return nil
}

// sendReviewed sends the result that was held for its review.
func (s *response) sendReviewed() error {
	held := s.ticket.Replayed
	header := s.w.Header()
	contentType, body := responseBody(s.operation, held.Outputs)
	if contentType != "" {
		header.Set("Content-Type", contentType)
		header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	header.Set("Cache-Control", "no-store")
	s.status = held.Status
	s.logDecision(allowed, nil, "")
	s.expose(header)
	s.w.WriteHeader(held.Status)
	_, _ = s.w.Write(body)
	return nil
}
