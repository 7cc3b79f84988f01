package oagent

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent/engagement"
)

// serveCall passes a tool call on. Its response goes directly into the recorder. Nobody reads
// the recorder before the call has ended, so the response can be checked there and need not be
// held a second time.
func (p *passage) serveCall() error {
	rec, checked := p.rec, p.isChecked()
	if checked {
		rec.SuppressEvents()
		if isSafe(p.r.Method) {
			deleteConditions(p.r.Header)
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
		p.abort("the answer broke off")
	}()
	err := p.next.ServeHTTP(rec, p.r)
	ended = true
	if err != nil {
		if checked {
			rec.Discard()
		}
		p.abortFor(err)
		return err
	}
	outputs, ok := p.recorded()
	if !ok {
		return nil
	}
	if refusal := p.finish(outputs, rec.Status); refusal != nil {
		rec.Reset(p.r.Method)
		return p.answerRefusal(refusal)
	}
	p.tell(allowed, nil, "")
	p.expose(rec.Headers)
	return nil
}

// recorded returns the outputs of a call. If there are no outputs to check, it aborts the call
// and ok is false.
func (p *passage) recorded() (outputs jsontext.Value, ok bool) {
	rec := p.rec
	delete(rec.Headers, headerExposes)
	switch {
	case rec.TooLarge:
		p.abort("the answer was larger than a tool call may return")
		return nil, false
	case rec.StreamErr != nil:
		p.abort("the answer streamed more than can be read")
		return nil, false
	case rec.Status == 0 || rec.Body == nil:
		p.abort("nothing behind the guard answered")
		return nil, false
	case rec.Stream != nil && p.r.Context().Err() != nil && !rec.StreamComplete():
		p.abort("the answer did not come to its end in time")
		if p.isChecked() {
			rec.Discard()
		}
		return nil, false
	}
	switch {
	case !p.isRecorded():
		return nil, true
	case rec.Stream == nil:
	case !p.isChecked():
		return engagement.Omitted{Bytes: int64(len(rec.Body.B)), Why: engagement.OmittedStream}.JSON(), true
	default:
		if err := rec.FinishStream(); err != nil {
			rec.StreamErr = err
			rec.Release()
			p.abort("the answer was a stream that cannot be read")
			return nil, false
		}
	}
	if int64(len(rec.Body.B)) > p.MaxOutput {
		if !p.isChecked() {
			return engagement.Omitted{Bytes: int64(len(rec.Body.B)), Why: engagement.OmittedAnswer, Limit: p.MaxOutput}.JSON(), true
		}
		rec.Reset(p.r.Method)
		p.ticket.Abort(p.r.Context(), "the answer was larger than max_output, so that it could not be checked, and was withheld")
		_ = p.answerRefusal(p.tooMuch())
		return nil, false
	}
	return p.with.ConcealBody(rec.Status, outputsOf(rec.Headers, rec.Status, rec.Body.B, p.MaxOutput)), true
}
