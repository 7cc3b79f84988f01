package mcpadapter

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/negotiation"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
)

// Limits of a batch, which only revision 2025-03-26 has. The responses are collected in memory, so a
// small batch must not produce an unlimited amount.
const (
	maxBatch       = 64       // messages
	maxBatchAnswer = 16 << 20 // bytes of responses after which no further request is served
)

// Params holds the parameters that several methods use; absent ones are nil.
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
		x.refuse(jsonrpc.Malformed("the body must be one JSON-RPC message, a JSON object"))
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

// agree determines the revision of the message and checks the message against the rules of that
// revision.
func (x *exchange) agree(method string) *jsonrpc.Fault {
	if x.batched && method == "initialize" {
		return jsonrpc.Malformed("initialize must not be part of a batch: send it by itself")
	}
	terms := negotiation.Terms{Version: x.version, Client: x.client}
	message := negotiation.Message{
		Header: x.header, Method: method, Request: x.id != nil,
		Params: x.params.raw, Meta: x.params.meta, Named: methods[method].named,
	}
	var f *jsonrpc.Fault
	if x.connection != nil {
		f = terms.AgreeWithoutHeaders(x.server.enabled, &message)
	} else {
		f = terms.Agree(x.server.enabled, &message)
	}
	x.version, x.client = terms.Version, terms.Client
	return f
}

// open checks the envelope of a message and reads its id and parameters. The returned method is ""
// for a response of the client.
func (x *exchange) open(data []byte) (method string, f *jsonrpc.Fault) {
	x.id, x.params = nil, params{}
	m := jsonrpc.ReadEnvelope(data)
	if m.ID != nil {
		if !jsonrpc.IsID(m.ID) {
			return "", jsonrpc.Malformed("the id must be a string or a number, not %s", wire.KindName(m.ID.Kind()))
		}
		x.id = m.ID
	}
	switch {
	case string(m.Version) != `"2.0"`:
		return "", jsonrpc.Malformed(`the member jsonrpc must be "2.0"`)
	case m.Method == nil:
		return "", x.takeResponse(&m)
	case m.Method.Kind() != '"':
		return "", jsonrpc.Malformed("the method must be a string, not %s", wire.KindName(m.Method.Kind()))
	case string(m.Method) == `""`:
		return "", jsonrpc.Malformed("the method is empty")
	case m.Result != nil || m.Failure != nil:
		return "", jsonrpc.Malformed("a message with a method can have neither result nor error")
	}
	return methodName(m.Method), x.openParams(m.Params)
}

// methodName returns the name of a method. For a method that the server knows it does not allocate.
func methodName(raw jsontext.Value) string {
	if known, ok := methods[string(raw[1:len(raw)-1])]; ok {
		return known.name
	}
	return wire.Text(raw)
}

// openParams reads the parameters. Some clients send null for no parameters.
func (x *exchange) openParams(raw jsontext.Value) *jsonrpc.Fault {
	switch raw.Kind() {
	case 0, 'n':
		return nil
	case '{':
	default:
		return jsonrpc.Faultf(http.StatusBadRequest, jsonrpc.InvalidParams, "params must be an object, not %s", wire.KindName(raw.Kind()))
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
		x.refuse(jsonrpc.Malformed("batches belong to revision 2025-03-26 only: send each message by itself"))
		return
	}
	var messages []jsontext.Value
	for walk := wire.Into(body); walk.Next(); {
		if len(messages) == maxBatch {
			x.refuse(jsonrpc.Malformed("a batch may have at most %d messages: send the rest in another", maxBatch))
			return
		}
		messages = append(messages, walk.Value)
	}
	if len(messages) == 0 {
		x.refuse(jsonrpc.Malformed("the batch is empty: send at least one message"))
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
		x.refuse(jsonrpc.Malformed("a message must be an object, not %s", wire.KindName(raw.Kind())))
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
		if id, whole := jsonrpc.DeepID(body); whole {
			x.id = id
			x.refuse(jsonrpc.Malformed("%v", err)) // the body is valid JSON, so this is not a parse error
			return
		}
	} else {
		x.id = jsonrpc.LenientID(body)
	}
	reason := strings.TrimPrefix(err.Error(), "jsontext: ")
	x.refuse(jsonrpc.Faultf(http.StatusBadRequest, jsonrpc.ParseError, "the body is not valid JSON: %s", text.Cut(reason, 2*text.MaxQuoted)))
}

// refuse writes the fault as the response to the current message.
func (x *exchange) refuse(f *jsonrpc.Fault) {
	x.status, x.fault = f.Status, f
	if f.Status == http.StatusNoContent {
		return
	}
	id := x.id
	if id == nil && !f.Anonymous && !x.version.OmitsUnreadID() {
		id = jsontext.Value("null")
	}
	b := append(x.out.B, `{"jsonrpc":"2.0"`...)
	if id != nil {
		b = append(append(b, `,"id":`...), id...)
	}
	b = strconv.AppendInt(append(b, `,"error":{"code":`...), int64(f.Code), 10)
	b = wire.AppendString(append(b, `,"message":`...), f.Message)
	if f.Data != nil {
		b = append(append(b, `,"data":`...), f.Data...)
	}
	x.out.B = append(b, "}}"...)
}
