package oagent

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent/engagement"
)

// serveCall passes a tool call on. Its response goes directly into the recorder. No one reads
// the recorder before the call has ended, so the response can be checked there and need not be
// held a second time.
func (s *response) serveCall() error {
	rec, checked := s.rec, s.isChecked()
	if checked {
		rec.SuppressEvents()
		if isSafe(s.r.Method) {
			deleteConditions(s.r.Header)
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
		s.abort("the response was aborted")
	}()
	err := s.next.ServeHTTP(rec, s.r)
	ended = true
	if err != nil {
		if checked {
			rec.Discard()
		}
		s.abortFor(err)
		return err
	}
	outputs, ok := s.callOutputs()
	if !ok {
		return nil
	}
	if refusal := s.finish(outputs, rec.Status); refusal != nil {
		rec.Reset(s.r.Method)
		return s.sendRefusal(refusal)
	}
	s.logDecision(allowed, nil, "")
	s.expose(rec.Headers)
	return nil
}

// callOutputs returns the outputs of a call. If there are no outputs to check, it aborts the call
// and ok is false.
func (s *response) callOutputs() (outputs jsontext.Value, ok bool) {
	rec := s.rec
	delete(rec.Headers, headerExposes)
	switch {
	case rec.TooLarge:
		s.abort("the response was larger than the limit for tool calls")
		return nil, false
	case rec.StreamErr != nil:
		s.abort("the streamed response exceeded the limit")
		return nil, false
	case rec.Status == 0 || rec.Body == nil:
		s.abort("no handler after oagent wrote a response")
		return nil, false
	case rec.Stream != nil && s.r.Context().Err() != nil && !rec.StreamComplete():
		s.abort("the response did not end before the timeout")
		if s.isChecked() {
			rec.Discard()
		}
		return nil, false
	}
	switch {
	case !s.isRecorded():
		return nil, true
	case rec.Stream == nil:
	case !s.isChecked():
		return engagement.Omitted{Bytes: int64(len(rec.Body.B)), Why: engagement.OmittedStream}.JSON(), true
	default:
		if err := rec.FinishStream(); err != nil {
			rec.StreamErr = err
			rec.Release()
			s.abort("the streamed response cannot be parsed")
			return nil, false
		}
	}
	if int64(len(rec.Body.B)) > s.handler.MaxOutput {
		if !s.isChecked() {
			return engagement.Omitted{Bytes: int64(len(rec.Body.B)), Why: engagement.OmittedAnswer, Limit: s.handler.MaxOutput}.JSON(), true
		}
		rec.Reset(s.r.Method)
		s.ticket.Abort(s.r.Context(), "the response was larger than max_output; it was withheld because it could not be checked")
		_ = s.sendRefusal(s.refuseTooLarge())
		return nil, false
	}
	return s.injected.ConcealBody(rec.Status, outputsOf(rec.Headers, rec.Status, rec.Body.B, s.handler.MaxOutput)), true
}
