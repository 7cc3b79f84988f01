package otcadapter

import (
	"bytes"
	"crypto/rand"
	"errors"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/once"
)

const (
	// maxCallID limits the length of the client's call id, in bytes.
	maxCallID = 256

	// maxTraceID limits the length of a trace id, in bytes.
	maxTraceID = 256

	// maxListBody limits the body of a GET, in bytes.
	maxListBody = 64 << 10
)

// A callRequest is a parsed call.
type callRequest struct {
	callID    string // from the client, or generated here
	hasCallID bool   // the client sent the call id
	traceID   string
	toolID    string
	input     jsontext.Value // a JSON object; nil if there was none
	context   callContext
}

// callBody is the body of a call. The protocol's text describes a flat body, its example and
// its schema have an envelope. Both are accepted.
type callBody struct {
	Schema string `json:"$schema"`
	callFields
	Request *callFields `json:"request"`
}

// callFields are the members of a call.
type callFields struct {
	CallID  string         `json:"call_id"`
	TraceID string         `json:"trace_id"`
	ToolID  string         `json:"tool_id"`
	Input   jsontext.Value `json:"input"`
	Inputs  jsontext.Value `json:"inputs"` // the name in the protocol's text
	Context jsontext.Value `json:"context"`
}

// read reads the members of a body, those in the envelope into request. It returns false if one has an
// unexpected type.
func (b *callBody) read(walk strictjson.Walk, request *callFields) bool {
	for walk.Next() {
		switch {
		case walk.Is("$schema"):
			if !readString(&b.Schema, walk.Value) {
				return false
			}
		case walk.Is("request"):
			if walk.Value.Kind() != '{' {
				return false
			}
			b.Request = request
			for inner := strictjson.Into(walk.Value); inner.Next(); {
				if !b.Request.readMember(&inner) {
					return false
				}
			}
		case !b.readMember(&walk):
			return false
		}
	}
	return true
}

// readMember reads one member of a call. It returns false if the member has an unexpected type.
// Values are copied, because the body is in a buffer that is reused.
func (f *callFields) readMember(walk *strictjson.Walk) bool {
	switch {
	case walk.Is("call_id"):
		return readString(&f.CallID, walk.Value)
	case walk.Is("trace_id"):
		return readString(&f.TraceID, walk.Value)
	case walk.Is("tool_id"):
		return readString(&f.ToolID, walk.Value)
	case walk.Is("input"):
		f.Input = walk.Value.Clone()
	case walk.Is("inputs"):
		f.Inputs = walk.Value.Clone()
	case walk.Is("context"):
		f.Context = walk.Value.Clone()
	}
	return true
}

// readString reads a JSON string without escapes. It returns false for any other value.
func readString(into *string, value jsontext.Value) bool {
	if value.Kind() != '"' || bytes.IndexByte(value, '\\') >= 0 {
		return false
	}
	*into = string(value[1 : len(value)-1])
	return true
}

// empty reports whether no member is present.
func (f *callFields) empty() bool {
	return f.CallID == "" && f.TraceID == "" && f.ToolID == "" && f.Input == nil && f.Inputs == nil && f.Context == nil
}

// readCall reads and parses the request of a call.
func (s *Server) readCall(r *http.Request) (callRequest, *fault) {
	if f := checkContent(r); f != nil {
		return callRequest{}, f
	}
	body := buffer.Get()
	defer buffer.Put(body)
	if f := readBody(body, r, s.options.MaxBody); f != nil {
		return callRequest{}, f
	}
	return parseCall(body.B)
}

// checkList validates the body that some clients send with GET /tools. A body with another
// content type than JSON is ignored.
func checkList(r *http.Request) *fault {
	if r.Body == nil || r.ContentLength == 0 || checkContent(r) != nil {
		return nil
	}
	body := buffer.Get()
	defer buffer.Put(body)
	if f := readBody(body, r, maxListBody); f != nil || len(body.B) == 0 {
		return f
	}
	var parsed struct {
		Schema string `json:"$schema"`
	}
	if err := strictjson.Unmarshal(body.B, &parsed); err != nil {
		return badRequest(explainBody(err))
	}
	if !knowsSchema(parsed.Schema) {
		return unknownSchema(parsed.Schema)
	}
	return nil
}

// checkContent requires uncompressed JSON. A browser sends this content type to another site
// only after a preflight request.
func checkContent(r *http.Request) *fault {
	contentType := r.Header.Get("Content-Type")
	if contentType != "application/json" {
		mediaType, parameters, err := mime.ParseMediaType(contentType)
		charset := strings.ToLower(parameters["charset"])
		if err != nil || mediaType != "application/json" || charset != "" && charset != "utf-8" {
			return wrongContent("Content-Type", contentType, "application/json")
		}
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return wrongContent("Content-Encoding", encoding, "identity")
	}
	return nil
}

// readBody reads the request's body into b.
func readBody(b *buffer.Buffer, r *http.Request, limit int64) *fault {
	if r.ContentLength > limit {
		return tooLarge(limit)
	}
	err := b.ReadAll(r.Body, limit)
	if err == nil {
		return nil
	}
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		return tooLarge(tooLong.Limit)
	}
	if errors.Is(err, buffer.ErrTooLarge) {
		return tooLarge(limit)
	}
	if status, message := respond.BodyFailure(err); status != 0 {
		return &fault{status: status, message: message, header: "Retry-After", value: respond.BodyRetry}
	}
	return badRequest("the body ended before it was complete")
}

// parseCall parses the body of a call. The result does not refer to the body's bytes.
func parseCall(body []byte) (callRequest, *fault) {
	var parsed callBody
	var request callFields
	if walk, err := strictjson.Object(body); err != nil || !parsed.read(walk, &request) {
		var f *fault
		if parsed, f = decodeCall(body); f != nil {
			return callRequest{}, f
		}
	}
	if !knowsSchema(parsed.Schema) {
		return callRequest{}, unknownSchema(parsed.Schema)
	}
	fields := &parsed.callFields
	if parsed.Request != nil {
		if !fields.empty() {
			return callRequest{}, badRequest(`the body has "request" and other fields of a request; move them all into "request"`)
		}
		fields = parsed.Request
	}
	return fields.request()
}

// decodeCall decodes the body of a call by reflection. It is slower than callBody.read, but its errors
// describe what is wrong.
func decodeCall(body []byte) (decoded callBody, f *fault) {
	if err := strictjson.Unmarshal(body, &decoded); err != nil {
		return callBody{}, badRequest(explainBody(err))
	}
	return decoded, nil
}

// request validates the members of a call.
func (f *callFields) request() (callRequest, *fault) {
	if f.ToolID == "" {
		return callRequest{}, badRequest(`"tool_id" is missing; set it to the id of a tool from GET /tools`)
	}
	if len(f.CallID) > maxCallID {
		return callRequest{}, badRequest(`"call_id" is longer than 256 bytes; use a UUID`)
	}
	if len(f.TraceID) > maxTraceID {
		return callRequest{}, badRequest(`"trace_id" is longer than 256 bytes; use a UUID`)
	}
	input := f.Input
	if isNull(input) {
		input = f.Inputs
	} else if !isNull(f.Inputs) {
		return callRequest{}, badRequest(`the request has both "input" and "inputs"; send one of them`)
	}
	if !isNull(input) && input.Kind() != '{' {
		return callRequest{}, badRequest(`"input" is ` + strictjson.KindName(input.Kind()) + `; it must be an object with the tool's parameters`)
	}
	call := callRequest{callID: f.CallID, hasCallID: f.CallID != "", traceID: f.TraceID, toolID: f.ToolID, input: input}
	if !call.hasCallID {
		call.callID = newCallID()
	}
	if isNull(f.Context) {
		return call, nil
	}
	var flaw *fault
	call.context, flaw = parseContext(f.Context)
	return call, flaw
}

// isNull reports whether the value is missing or null.
func isNull(value jsontext.Value) bool {
	return value == nil || value.Kind() == 'n'
}

// explainBody explains in terms of JSON what is wrong with a body. The text contains nothing of
// the body.
func explainBody(err error) string {
	var mismatch *json.SemanticError
	if !errors.As(err, &mismatch) || mismatch.JSONKind == 0 {
		return "the body is not valid JSON: " + explainSyntax(err)
	}
	where := "the body"
	if mismatch.JSONPointer != "" {
		where = `"` + mismatch.JSONPointer.LastToken() + `"`
	}
	return where + " is " + strictjson.KindName(mismatch.JSONKind) + "; it must be " + expectedKind(mismatch.GoType)
}

// explainSyntax returns the position of a syntax error, without the text at that position,
// which may be part of a secret.
func explainSyntax(err error) string {
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return err.Error()
	}
	if errors.Is(syntax.Err, jsontext.ErrDuplicateName) {
		return "an object has a duplicate member name, before byte " + strconv.FormatInt(syntax.ByteOffset, 10)
	}
	return (&jsontext.SyntacticError{ByteOffset: syntax.ByteOffset, Err: syntax.Err}).Error()
}

// expectedKind returns the JSON kind that is expected for a Go type.
func expectedKind(wanted reflect.Type) string {
	if wanted == nil {
		return "an object"
	}
	switch wanted.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "an array"
	}
	return "an object"
}

// newCallID returns a random UUID (RFC 9562, version 4).
func newCallID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return once.UUID(id)
}
