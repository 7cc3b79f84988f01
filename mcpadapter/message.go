package mcpadapter

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// The limits of a 2025-03-26 batch. Its answers are put together in memory, so
// that a small body must not be able to ask for very much.
const (
	maxBatch       = 64       // messages
	maxBatchAnswer = 16 << 20 // bytes after which no further request is served
)

// An envelope says where the members of a JSON-RPC 2.0 message are.
type envelope struct {
	Version span `json:"jsonrpc"`
	ID      span `json:"id"`
	Method  span `json:"method"`
	Params  span `json:"params"`
	Result  span `json:"result"`
	Error   span `json:"error"`
}

// paramSpans says where in its parameters the members are that any served method
// reads.
type paramSpans struct {
	Meta            span `json:"_meta"`
	Name            span `json:"name"`
	Arguments       span `json:"arguments"`
	Cursor          span `json:"cursor"`
	ProtocolVersion span `json:"protocolVersion"`
}

// params are these members, nil where there is none. They lie in the body, which
// another request will overwrite.
type params struct {
	meta, name, arguments, cursor, protocolVersion jsontext.Value
}

// serve answers a body: one message, or an array of them where the revision
// knows batches.
func (x *exchange) serve(body []byte) {
	if isArray(body) {
		x.serveBatch(body)
		return
	}
	x.serveMessage(body)
}

// serveMessage answers one message. A notification, or a response of the client,
// is answered with an empty 202.
func (x *exchange) serveMessage(data []byte) {
	method, f := x.open(data)
	if f == nil {
		f = x.agree(method)
	}
	switch {
	case f != nil:
		x.refuse(f)
	case x.id == nil || method == "":
		x.status = http.StatusAccepted
	default:
		x.dispatch(method)
	}
}

// open checks the envelope and takes from it the id and the parameters. The
// method of a client's response is "".
func (x *exchange) open(data []byte) (method string, f *fault) {
	x.id, x.params, x.at = nil, params{}, positions{}
	m := &x.at.envelope
	if f := decode(data, m); f != nil {
		return "", f
	}
	if id := m.ID.in(data); id != nil {
		if kind := id.Kind(); kind != '"' && kind != '0' {
			return "", malformed("the id must be a string or a number, not %s", kindName(id))
		}
		x.id = id
	}
	if string(m.Version.in(data)) != `"2.0"` {
		return "", malformed(`the member jsonrpc must be "2.0"`)
	}
	name := m.Method.in(data)
	if name == nil {
		return "", x.checkResponse(m)
	}
	if name.Kind() != '"' {
		return "", malformed("the method must be a string, not %s", kindName(name))
	}
	if string(name) == `""` {
		return "", malformed("the method is empty")
	}
	if m.Result.present() || m.Error.present() {
		return "", malformed("a message with a method can have neither result nor error")
	}
	return text(name), x.openParams(m.Params.in(data))
}

// openParams takes the parameters apart. Clients that have none may send null.
func (x *exchange) openParams(raw jsontext.Value) *fault {
	switch raw.Kind() {
	case 0, 'n':
		return nil
	case '{':
	default:
		return faultf(http.StatusBadRequest, invalidParams, "params must be an object, not %s", kindName(raw))
	}
	at := &x.at.params
	if f := decode(raw, at); f != nil {
		return f
	}
	x.params = params{
		meta:            at.Meta.in(raw),
		name:            at.Name.in(raw),
		arguments:       at.Arguments.in(raw),
		cursor:          at.Cursor.in(raw),
		protocolVersion: at.ProtocolVersion.in(raw),
	}
	return nil
}

// checkResponse looks at a message that has no method. The server asks clients
// nothing yet, so a response belongs to no request; it is taken and dropped.
func (x *exchange) checkResponse(m *envelope) *fault {
	if x.id == nil || m.Result.present() == m.Error.present() {
		return malformed("the message has no method: it is neither a request nor a notification nor a response")
	}
	if x.version.selfDescribing() {
		return malformed("revision %v has no responses from clients: send a request", x.version)
	}
	return nil
}

// serveBatch answers an array of messages with the array of their answers, in
// their order, one after the other.
func (x *exchange) serveBatch(body []byte) {
	if !x.version.batches() {
		// Whether it is JSON at all is still the first question.
		if f := decode(body, &jsontext.Value{}); f != nil {
			x.refuse(f)
			return
		}
		x.refuse(malformed("batches belong to revision 2025-03-26 only: send each message in a POST of its own"))
		return
	}
	var messages batch
	if f := decode(body, &messages); f != nil {
		x.refuse(f)
		return
	}
	if len(messages) == 0 {
		x.refuse(malformed("the batch is empty: send at least one message"))
		return
	}
	x.batched = true
	x.out.B = append(x.out.B, '[')
	for _, raw := range messages {
		if x.ctx.Err() != nil {
			break
		}
		x.serveElement(raw)
	}
	if len(x.out.B) == 1 {
		x.out.B, x.status = x.out.B[:0], http.StatusAccepted
		return
	}
	x.out.B[len(x.out.B)-1] = ']' // the comma after the last answer
	x.status = http.StatusOK
}

// serveElement answers one message of a batch and ends the answer with a comma.
func (x *exchange) serveElement(raw jsontext.Value) {
	before := len(x.out.B)
	x.id, x.version, x.status = nil, v20250326, http.StatusOK // whatever the last one was
	if raw.Kind() == '{' {
		x.serveMessage(raw)
	} else {
		x.refuse(malformed("a message must be an object, not %s", kindName(raw)))
	}
	x.out.B = append(x.out.B, x.kept...)
	x.kept = nil
	if len(x.out.B) > before {
		x.out.B = append(x.out.B, ',')
	}
}

// A batch is an array of messages that stops being read at its limit.
type batch []jsontext.Value

var errBatchTooLong = fmt.Errorf("a batch may have at most %d messages", maxBatch)

// UnmarshalJSONFrom reads the array.
func (b *batch) UnmarshalJSONFrom(decoder *jsontext.Decoder) error {
	if _, err := decoder.ReadToken(); err != nil {
		return err
	}
	for decoder.PeekKind() != ']' {
		if len(*b) == maxBatch {
			return errBatchTooLong
		}
		value, err := decoder.ReadValue()
		if err != nil {
			return err
		}
		*b = append(*b, value.Clone())
	}
	_, err := decoder.ReadToken()
	return err
}

// positions are what the parts of one message are decoded into. They stand in the
// exchange so that decoding allocates nothing.
type positions struct {
	envelope envelope
	params   paramSpans
	meta     metaSpans
}

// A span is where in the JSON that is decoded a value stands: a value that is
// passed on is neither copied nor decoded.
type span struct{ from, to int }

// UnmarshalJSONFrom notes the place of the value and steps over it.
func (s *span) UnmarshalJSONFrom(decoder *jsontext.Decoder) error {
	value, err := decoder.ReadValue()
	if err != nil {
		return err
	}
	s.to = int(decoder.InputOffset())
	s.from = s.to - len(value)
	return nil
}

// present reports whether there was a value, null included.
func (s span) present() bool { return s.to > 0 }

// in returns the value, out of the data that was decoded; nil if there was none.
func (s span) in(data []byte) jsontext.Value {
	if !s.present() {
		return nil
	}
	return data[s.from:s.to:s.to]
}

// decode reads strict JSON into v and tells a client what is wrong with it.
func decode(data []byte, v any) *fault {
	if err := wire.Unmarshal(data, v); err != nil {
		return unreadable(err)
	}
	return nil
}

// unreadable tells why JSON was refused: it is broken, or it is something else
// than was asked for.
func unreadable(err error) *fault {
	if errors.Is(err, errBatchTooLong) {
		return malformed("%v: send the rest in another POST", errBatchTooLong)
	}
	if errors.Is(err, wire.ErrTooDeep) {
		return faultf(http.StatusBadRequest, parseError, "%v", err)
	}
	if syntax := (*jsontext.SyntacticError)(nil); errors.As(err, &syntax) {
		reason := strings.TrimPrefix(syntax.Error(), "jsontext: ")
		return faultf(http.StatusBadRequest, parseError, "the body is not valid JSON: %s", clip(reason, 2*maxQuoted))
	}
	return malformed("the body must be one JSON-RPC message, a JSON object")
}

// malformed is a fault in the envelope of a message.
func malformed(format string, args ...any) *fault {
	return faultf(http.StatusBadRequest, invalidRequest, format, args...)
}

func isArray(body []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("["))
}

// text returns the string that a strict JSON value is, "" for any other kind.
func text(value jsontext.Value) string {
	if value.Kind() != '"' {
		return ""
	}
	inner := value[1 : len(value)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	unquoted, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return ""
	}
	return string(unquoted)
}

// kindName names the kind of a JSON value.
func kindName(value jsontext.Value) string {
	switch value.Kind() {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "nothing"
}
