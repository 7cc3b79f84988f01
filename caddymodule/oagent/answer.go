package oagent

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/headerkind"
	"github.com/fairwayhq/fairway/internal/problem"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/ocp/stream"
)

// servePlain passes a plain request on and processes the response. If the capability has an
// output restriction, it holds the whole response until it is checked.
func (p *passage) servePlain() (err error) {
	a := p.holdAnswer()
	defer a.drop()
	defer func() {
		if value := recover(); value != nil {
			if err = p.recovered(a, value); err != nil {
				panic(value)
			}
		}
	}()
	if err = p.next.ServeHTTP(a, p.r); err != nil {
		p.abortFor(err)
		return err
	}
	return p.giveAnswer(a)
}

// errGaveUp means that a handler called panic(http.ErrAbortHandler).
var errGaveUp = errors.New("a handler gave up")

// recovered is called when a handler has panicked. A handler aborts with http.ErrAbortHandler
// after a write has failed because the response is too large.
func (p *passage) recovered(a *heldAnswer, value any) error {
	if value == http.ErrAbortHandler && a.over {
		return p.giveAnswer(a)
	}
	p.abort("the answer broke off")
	if value == http.ErrAbortHandler && !a.passing {
		p.writeBrokenOff("The API broke off in the middle of its response, so nothing of it was passed on. The call was made: find out what it did before you repeat it.")
		return nil
	}
	return errGaveUp
}

// writeBrokenOff responds with 502 instead of an incomplete held response.
func (p *passage) writeBrokenOff(detail string) {
	problem.Write(p.w, http.StatusBadGateway, "The API broke off", detail)
}

// holdAnswer prepares the request and the writer for a response that is recorded or checked.
func (p *passage) holdAnswer() *heldAnswer {
	a := &heldAnswer{
		ResponseWriter: p.w, limit: p.MaxOutput, checked: p.isChecked(), recorded: p.isRecorded(),
		bodiless: p.r.Method == http.MethodHead,
	}
	if !a.recorded && !p.exposesAny() {
		a.passing = true
		return a
	}
	if a.recorded {
		p.wholeAnswers(a.checked)
	}
	a.header = maps.Clone(p.w.Header())
	a.body = buffer.Get()
	return a
}

// wholeAnswers removes headers from the request so that the API returns a complete and
// readable response. Otherwise partial content would be recorded as the response of the call.
func (p *passage) wholeAnswers(checked bool) {
	header := p.r.Header
	delete(header, "Range")
	delete(header, "If-Range")
	if checked && isSafe(p.r.Method) {
		deleteConditions(header)
	}
	header["Accept-Encoding"] = []string{"identity"}
}

// isSafe reports whether requests with this method change nothing. Conditions can be removed
// from such requests.
func isSafe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead
}

// conditions are the headers that make a request conditional (RFC 9110, section 13.1).
var conditions = [...]string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range"}

// deleteConditions removes the conditions, including names that some servers treat as equal
// (see headerkind.Canonical).
func deleteConditions(header http.Header) {
	for name := range header {
		if slices.Contains(conditions[:], headerkind.Canonical(name)) {
			delete(header, name)
		}
	}
}

// isConditional reports whether the header has a condition.
func isConditional(header http.Header) bool {
	for name := range header {
		if slices.Contains(conditions[:], headerkind.Canonical(name)) {
			return true
		}
	}
	return false
}

// giveAnswer checks the held response, and then sends the response or a refusal.
func (p *passage) giveAnswer(a *heldAnswer) error {
	switch {
	case a.over:
		p.ticket.Abort(p.r.Context(), "the answer was larger than max_output, so that it could not be checked, and was withheld")
		return p.answerRefusal(p.tooMuch())
	case a.status == 0 && a.switched:
		p.abort("the API switched to another protocol")
		p.writeBrokenOff("The API switched to another protocol, which the request did not ask for.")
		return nil
	case a.status == 0:
		p.abort("nothing behind the guard answered")
		return nil
	}
	a.conceal(p.with)
	outputs := a.outputs(p.rec != nil)
	if a.passing {
		outputs = p.with.ConcealBody(a.status, outputs) // already sent, so only the record is changed
	}
	if refusal := p.finish(outputs, a.status); refusal != nil {
		if a.passing {
			p.tell(string(refusal.Kind), refusal, "the answer had been given already")
			return nil
		}
		return p.answerRefusal(refusal)
	}
	p.tell(allowed, nil, "")
	if !a.passing {
		p.expose(a.header)
		a.give()
	}
	return nil
}

// tooMuch refuses a response that is too large to check.
func (p *passage) tooMuch() *refused {
	r := p.refuse(engagement.KindOutputRestriction, 0, p.ticket.Capability.Rule()+".output_restriction", fmt.Sprintf(
		"the call of %s was made, but its result is withheld: it has more than %s, and only less can be checked; ask for less",
		p.name, humanize.IBytes(uint64(p.MaxOutput))), nil)
	r.Made = true
	return r
}

// replay sends the result that was held for its review.
func (p *passage) replay() error {
	held := p.ticket.Replayed
	header := p.w.Header()
	contentType, body := plainForm(p.operation, held.Outputs)
	if contentType != "" {
		header.Set("Content-Type", contentType)
		header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	header.Set("Cache-Control", "no-store")
	p.status = held.Status
	p.tell(allowed, nil, "")
	p.expose(header)
	p.w.WriteHeader(held.Status)
	_, _ = p.w.Write(body)
	return nil
}

// heldAnswer is the http.ResponseWriter of a request that was allowed. Its mode depends on the
// capability:
//
//   - checked: it holds the whole response until it is checked.
//   - recorded only: it holds the response up to a limit. If the response exceeds the limit or
//     is flushed, it sends what it has and passes on later writes. The record then gets a
//     placeholder.
type heldAnswer struct {
	http.ResponseWriter
	header   http.Header // replaces the writer's header until the response is passed on
	body     *buffer.Buffer
	limit    int64 // bytes
	checked  bool  // nothing is sent before the check
	recorded bool
	bodiless bool
	passing  bool  // writes go to the client
	shed     bool  // body is incomplete
	streamed bool  // body is incomplete because the response is streamed
	over     bool  // checked, and larger than limit
	switched bool  // the API responded with 101
	status   int   // 0 until the final header is written
	size     int64 // bytes written
}

// Header returns the header of the response.
func (a *heldAnswer) Header() http.Header {
	if a.header == nil {
		return a.ResponseWriter.Header()
	}
	return a.header
}

// WriteHeader keeps the first final status. Informational (1xx) headers are passed on only if
// the response is not held.
func (a *heldAnswer) WriteHeader(status int) {
	if a.status != 0 {
		return
	}
	if status < http.StatusOK {
		a.switched = a.switched || status == http.StatusSwitchingProtocols
		if a.passing {
			a.ResponseWriter.WriteHeader(status)
		}
		return
	}
	a.status = status
	delete(a.Header(), headerExposes)
	if status == http.StatusNoContent || status == http.StatusNotModified {
		a.bodiless = true
	}
	if a.passing {
		a.ResponseWriter.WriteHeader(status)
		return
	}
	header := a.Header()
	if header["Trailer"] != nil && a.checked {
		delete(header, "Trailer")
		a.header = maps.Clone(header) // trailers stay in the handler's header
	}
	if a.bodiless {
		return
	}
	length, _ := strconv.ParseInt(header.Get("Content-Length"), 10, 64)
	switch {
	case a.checked:
		a.over = length > a.limit
	case length > a.limit:
		a.shed = true
		a.pass()
	case stream.FormatOf(header.Get("Content-Type")) != 0:
		a.shed, a.streamed = true, true
		a.pass()
	}
}

var errWithheld = errors.New("the answer is larger than the guard may look at")

// Write holds the data or passes it on.
func (a *heldAnswer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	a.size += int64(len(p))
	switch {
	case a.over:
		return 0, errWithheld
	case a.bodiless && !a.passing:
		return len(p), nil
	}
	if a.body != nil && !a.shed {
		if int64(len(a.body.B)+len(p)) <= a.limit {
			a.body.B = append(a.body.B, p...)
		} else if a.checked {
			a.over = true
			a.drop()
			return 0, errWithheld
		} else {
			a.shed = true
			if !a.passing {
				a.pass()
			}
		}
	}
	if a.passing {
		return a.ResponseWriter.Write(p)
	}
	return len(p), nil
}

// FlushError sends the held data, unless it must be checked first. Later writes are passed on
// immediately and still recorded.
func (a *heldAnswer) FlushError() error {
	if a.checked || a.over {
		return nil
	}
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if !a.passing {
		a.pass()
	}
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// pass sends the held data. Later writes are passed on.
func (a *heldAnswer) pass() {
	a.passing = true
	a.writeHeader()
	a.header = nil
	if a.body != nil && len(a.body.B) > 0 {
		_, _ = a.ResponseWriter.Write(a.body.B)
	}
}

// conceal removes credentials from a response that was not sent yet. So the checked, recorded
// and sent responses are the same.
func (a *heldAnswer) conceal(with toolcall.InjectedCredentials) {
	secrets := with.Secrets(a.status)
	if a.passing || a.body == nil || secrets.IsEmpty() {
		return
	}
	if a.header["Content-Encoding"] != nil {
		coded := buffer.Get()
		coded.B = append(coded.B, a.body.B...)
		if plain, err := toolcall.DecodeBody(a.header, coded, a.limit); err == nil {
			buffer.Put(a.body)
			a.body, a.size = plain, int64(len(plain.B))
		}
	}
	if toolcall.ConcealInResponse(secrets, a.header, a.body) {
		delete(a.header, "Content-Length")
		a.size = int64(len(a.body.B))
	}
}

// writeHeader copies the header of the response to the writer.
func (a *heldAnswer) writeHeader() {
	header := a.ResponseWriter.Header()
	clear(header)
	for name, values := range a.header {
		if a.passing || !strings.HasPrefix(name, http.TrailerPrefix) {
			header[name] = values
		}
	}
	a.ResponseWriter.WriteHeader(a.status)
}

// give sends all held data.
func (a *heldAnswer) give() {
	a.writeHeader()
	if a.body != nil && len(a.body.B) > 0 {
		_, _ = a.ResponseWriter.Write(a.body.B) // the client may have disconnected
	}
}

// drop returns the buffer to the pool.
func (a *heldAnswer) drop() {
	buffer.Put(a.body)
	a.body = nil
}
