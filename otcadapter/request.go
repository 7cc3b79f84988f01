package otcadapter

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/wire"
)

// maxCallID is how long a call id of the client may be, in bytes.
const maxCallID = 256

// A callRequest is a POST /call as it was understood.
type callRequest struct {
	callID string // of the client, or made here
	toolID string
	input  []byte // a JSON object; nil if there was none
}

// callBody is the body of a POST /call. The protocol's text describes it flat, its
// example and its schema put it into an envelope.
type callBody struct {
	callFields
	Request *callFields `json:"request"`
}

type callFields struct {
	CallID string         `json:"call_id"`
	ToolID string         `json:"tool_id"`
	Input  jsontext.Value `json:"input"`
	Inputs jsontext.Value `json:"inputs"` // what the text calls it
}

func (f *callFields) empty() bool {
	return f.CallID == "" && f.ToolID == "" && f.Input == nil && f.Inputs == nil
}

// readBody reads the request's body into b.
func readBody(b *buffer.Buffer, r *http.Request, limit int64) *fault {
	if r.ContentLength > limit {
		return tooLarge(limit)
	}
	err := b.ReadAll(r.Body, limit)
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		return tooLarge(tooLong.Limit)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, buffer.ErrTooLarge):
		return tooLarge(limit)
	default:
		return badRequest("the body broke off before its end")
	}
}

// parseCall reads the body of a call. It keeps nothing of the body.
func parseCall(body []byte) (callRequest, *fault) {
	var parsed callBody
	if err := wire.Unmarshal(body, &parsed); err != nil {
		return callRequest{}, badRequest(explainBody(err))
	}
	fields := &parsed.callFields
	if parsed.Request != nil {
		if !fields.empty() {
			return callRequest{}, badRequest(`the body has a "request" and fields of a request beside it; put them all into "request"`)
		}
		fields = parsed.Request
	}
	return fields.call()
}

func (f *callFields) call() (callRequest, *fault) {
	if f.ToolID == "" {
		return callRequest{}, badRequest(`"tool_id" is missing; it is the id of a tool as GET /tools lists it`)
	}
	if len(f.CallID) > maxCallID {
		return callRequest{}, badRequest(`"call_id" is longer than 256 bytes; a UUID will do`)
	}
	input := f.Input
	if isNull(input) {
		input = f.Inputs
	} else if !isNull(f.Inputs) {
		return callRequest{}, badRequest(`the request has both "input" and "inputs"; send one of them`)
	}
	if !isNull(input) && input.Kind() != '{' {
		return callRequest{}, badRequest(`"input" is ` + wire.KindName(input.Kind()) + `; it must be an object with the tool's parameters`)
	}
	call := callRequest{callID: f.CallID, toolID: f.ToolID, input: input}
	if call.callID == "" {
		call.callID = newCallID()
	}
	return call, nil
}

func isNull(value jsontext.Value) bool {
	return value == nil || value.Kind() == 'n'
}

// explainBody says what is wrong with a body in the words of JSON.
func explainBody(err error) string {
	var mismatch *json.SemanticError
	if !errors.As(err, &mismatch) || mismatch.JSONKind == 0 {
		return "the body is not valid JSON: " + err.Error()
	}
	where := "the body"
	if mismatch.JSONPointer != "" {
		where = `"` + mismatch.JSONPointer.LastToken() + `"`
	}
	want := "an object"
	if mismatch.GoType != nil && mismatch.GoType.Kind() == reflect.String {
		want = "a string"
	}
	return where + " is " + wire.KindName(mismatch.JSONKind) + "; it must be " + want
}

// newCallID returns a random UUID (RFC 9562, version 4).
func newCallID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	var text [36]byte
	hex.Encode(text[0:8], id[0:4])
	hex.Encode(text[9:13], id[4:6])
	hex.Encode(text[14:18], id[6:8])
	hex.Encode(text[19:23], id[8:10])
	hex.Encode(text[24:36], id[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}
