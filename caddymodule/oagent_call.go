package caddymodule

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent"
)

// serveCall passes a tool call on whose answer goes straight into the recorder,
// which nobody looks into before the call has ended: it is judged there, and not
// held once more.
func (p *passage) serveCall() error {
	rec, checked := p.rec, p.isChecked()
	if checked {
		rec.suppressEvents()
		if isSafe(p.r.Method) {
			deleteConditions(p.r.Header)
		}
	}
	ended := false
	defer func() {
		if ended {
			return
		}
		// A handler panics, which is for the dispatcher to tell of.
		if checked {
			rec.discard()
		}
		p.abort("the answer broke off")
	}()
	err := p.next.ServeHTTP(rec, p.r)
	ended = true
	if err != nil {
		if checked {
			rec.discard()
		}
		p.abortFor(err)
		return err
	}
	outputs, ok := p.recorded()
	if !ok {
		return nil
	}
	if refusal := p.finish(outputs, rec.status); refusal != nil {
		rec.reset(p.r.Method)
		return p.answerRefusal(refusal)
	}
	p.tell(allowed, nil, "")
	p.expose(rec.header)
	return nil
}

// recorded returns the outputs of a call. If there are none to judge it is
// aborted, and not ok.
func (p *passage) recorded() (outputs jsontext.Value, ok bool) {
	rec := p.rec
	delete(rec.header, headerExposes)
	switch {
	case rec.tooLarge:
		p.abort("the answer was larger than a tool call may return")
		return nil, false
	case rec.broken != nil:
		p.abort("the answer streamed more than can be read")
		return nil, false
	case rec.status == 0 || rec.body == nil:
		p.abort("nothing behind the guard answered")
		return nil, false
	case rec.stream != nil && p.r.Context().Err() != nil && !rec.saidAll():
		p.abort("the answer did not come to its end in time")
		if p.isChecked() {
			rec.discard()
		}
		return nil, false
	}
	switch {
	case !p.isRecorded():
		return nil, true
	case rec.stream == nil:
	case !p.isChecked():
		return oagent.Shed{Bytes: int64(len(rec.body.B)), Why: oagent.ShedStream}.JSON(), true
	default:
		if err := rec.finishStream(); err != nil {
			rec.broken = err
			rec.drop()
			p.abort("the answer was a stream that cannot be read")
			return nil, false
		}
	}
	if int64(len(rec.body.B)) > p.MaxOutput {
		if !p.isChecked() {
			return oagent.Shed{Bytes: int64(len(rec.body.B)), Why: oagent.ShedAnswer, Limit: p.MaxOutput}.JSON(), true
		}
		rec.reset(p.r.Method)
		p.ticket.Abort(p.r.Context(), "the answer was larger than max_output, so that it could not be checked, and was withheld")
		_ = p.answerRefusal(p.tooMuch())
		return nil, false
	}
	return p.with.concealed(rec.status, outputsOf(rec.header, rec.status, rec.body.B, p.MaxOutput)), true
}
