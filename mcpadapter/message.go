package mcpadapter

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
)

// Limits of a batch, which only revision 2025-03-26 has. The responses are collected in memory, so a
// small batch must not produce an unlimited amount.
const (
	maxBatch       = 64       // messages
	maxBatchAnswer = 16 << 20 // bytes of responses after which no further request is served
)

// An envelope holds the members of a JSON-RPC 2.0 message; absent members are nil. The members refer
// to the request body, whose buffer is reused after the request. Clone what must live longer.
type envelope struct {
	version, id, method, params, result, failure jsontext.Value
}

// params holds the parameters that several methods use; absent ones are nil.
type params struct {
	raw                                            jsontext.Value // the whole params object
	meta, name, arguments, cursor, protocolVersion jsontext.Value
}

// serve serves a body: one message, or a batch if the revision has batches.
func (x *exchange) serve(body []byte) {
	if err := wire.Check(body); err != nil {
		x.refuseUnreadable(body, err)
		return
	}
	switch body = bytes.TrimLeft(body, " \t\r\n"); body[0] {
	case '{':
		x.serveMessage(body)
	case '[':
		x.serveBatch(body)
	default:
		x.refuse(malformed("the body must be one JSON-RPC message, a JSON object"))
	}
}

// serveMessage serves one message. Notifications and responses of the client get an empty 202
// response.
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
		if method == "notifications/cancelled" {
			x.cancelRequest()
		}
	default:
		x.dispatch(method)
	}
}

// open checks the envelope of a message and reads its id and parameters. The returned method is ""
// for a response of the client.
func (x *exchange) open(data []byte) (method string, f *fault) {
	x.id, x.params = nil, params{}
	m := readEnvelope(data)
	if m.id != nil {
		if !isRequestID(m.id) {
			return "", malformed("the id must be a string or a number, not %s", wire.KindName(m.id.Kind()))
		}
		x.id = m.id
	}
	switch {
	case string(m.version) != `"2.0"`:
		return "", malformed(`the member jsonrpc must be "2.0"`)
	case m.method == nil:
		return "", x.takeResponse(&m)
	case m.method.Kind() != '"':
		return "", malformed("the method must be a string, not %s", wire.KindName(m.method.Kind()))
	case string(m.method) == `""`:
		return "", malformed("the method is empty")
	case m.result != nil || m.failure != nil:
		return "", malformed("a message with a method can have neither result nor error")
	}
	return methodName(m.method), x.openParams(m.params)
}

// methodName returns the name of a method. For a method that the server knows it does not allocate.
func methodName(raw jsontext.Value) string {
	if known, ok := methods[string(raw[1:len(raw)-1])]; ok {
		return known.method
	}
	return wire.Text(raw)
}

// readEnvelope reads the members of a message. The caller has checked that data is strict JSON.
func readEnvelope(data []byte) (m envelope) {
	for walk := wire.Into(data); walk.Next(); {
		switch {
		case walk.Is("jsonrpc"):
			m.version = walk.Value
		case walk.Is("id"):
			m.id = walk.Value
		case walk.Is("method"):
			m.method = walk.Value
		case walk.Is("params"):
			m.params = walk.Value
		case walk.Is("result"):
			m.result = walk.Value
		case walk.Is("error"):
			m.failure = walk.Value
		}
	}
	return m
}

// openParams reads the parameters. Some clients send null for no parameters.
func (x *exchange) openParams(raw jsontext.Value) *fault {
	switch raw.Kind() {
	case 0, 'n':
		return nil
	case '{':
	default:
		return faultf(http.StatusBadRequest, invalidParams, "params must be an object, not %s", wire.KindName(raw.Kind()))
	}
	x.params.raw = raw
	for walk := wire.Into(raw); walk.Next(); {
		switch {
		case walk.Is("_meta"):
			x.params.meta = walk.Value
		case walk.Is("name"):
			x.params.name = walk.Value
		case walk.Is("arguments"):
			x.params.arguments = walk.Value
		case walk.Is("cursor"):
			x.params.cursor = walk.Value
		case walk.Is("protocolVersion"):
			x.params.protocolVersion = walk.Value
		}
	}
	return nil
}

// serveBatch serves the messages of a batch one after the other and writes the array of their
// responses in the same order.
func (x *exchange) serveBatch(body []byte) {
	if !x.version.SupportsBatches() {
		x.refuse(malformed("batches belong to revision 2025-03-26 only: send each message by itself"))
		return
	}
	var messages []jsontext.Value
	for walk := wire.Into(body); walk.Next(); {
		if len(messages) == maxBatch {
			x.refuse(malformed("a batch may have at most %d messages: send the rest in another", maxBatch))
			return
		}
		messages = append(messages, walk.Value)
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
	x.out.B[len(x.out.B)-1] = ']' // replaces the comma after the last response
	x.status = http.StatusOK
}

// serveElement serves one message of a batch and appends a comma to its response.
func (x *exchange) serveElement(raw jsontext.Value) {
	before := len(x.out.B)
	x.id, x.version, x.status = nil, revision.V20250326, http.StatusOK // reset what the previous message set
	if raw.Kind() == '{' {
		x.serveMessage(raw)
	} else {
		x.refuse(malformed("a message must be an object, not %s", wire.KindName(raw.Kind())))
	}
	x.out.B = append(x.out.B, x.trailer...)
	x.trailer = nil
	if len(x.out.B) > before {
		x.out.B = append(x.out.B, ',')
	}
}

// refuseUnreadable rejects a body that fails wire.Check. The error has the id of the request if it
// can be read, so that the client can match the two.
func (x *exchange) refuseUnreadable(body []byte, err error) {
	if errors.Is(err, wire.ErrTooDeep) {
		if id, whole := idOfDeep(body); whole {
			x.id = id
			x.refuse(malformed("%v", err)) // the body is valid JSON, so this is not a parse error
			return
		}
	} else {
		x.id = lenientID(body)
	}
	reason := strings.TrimPrefix(err.Error(), "jsontext: ")
	x.refuse(faultf(http.StatusBadRequest, parseError, "the body is not valid JSON: %s", text.Cut(reason, 2*text.MaxQuoted)))
}

// idOfDeep returns the id of a message that is nested too deeply; nil if it has none or is not an
// object. whole is false if the brackets of the body do not match.
func idOfDeep(body []byte) (id jsontext.Value, whole bool) {
	walk := wire.Into(body)
	object := bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{"))
	for walk.Next() {
		if object && walk.Is("id") && isRequestID(walk.Value) && wire.Check(walk.Value) == nil {
			id = walk.Value.Clone()
		}
	}
	return id, walk.Err() == nil
}

// lenientID returns the id of a message whose only error is a string with invalid Unicode. It
// returns nil for any other body and for an invalid id.
func lenientID(body []byte) (id jsontext.Value) {
	r := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowInvalidUTF8(true))
	if opening, err := r.ReadToken(); err != nil || opening.Kind() != '{' {
		return nil
	}
	for r.PeekKind() == '"' {
		name, err := r.ReadToken()
		if err != nil {
			return nil
		}
		isID := name.String() == "id"
		value, err := r.ReadValue()
		if err != nil {
			return nil
		}
		if isID && isRequestID(value) && wire.Check(value) == nil {
			id = value.Clone()
		}
	}
	if _, err := r.ReadToken(); err != nil {
		return nil
	}
	if _, err := r.ReadToken(); !errors.Is(err, io.EOF) {
		return nil
	}
	return id
}

// isRequestID reports whether a JSON value has a type that an id may have: string or number.
func isRequestID(id jsontext.Value) bool { return id.Kind() == '"' || id.Kind() == '0' }

// malformed returns the fault for an invalid envelope.
func malformed(format string, args ...any) *fault {
	return faultf(http.StatusBadRequest, invalidRequest, format, args...)
}
