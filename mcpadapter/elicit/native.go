package elicit

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

// maxNativeError is how many bytes of the API's error message are passed on.
const maxNativeError = 4 << 10

// A nativeAnswer is a parsed native result. Exactly one of its fields is set.
type nativeAnswer struct {
	result  jsontext.Value  // the result, strict JSON
	asked   *inputRequired  // requests to the client before the final result
	failure *protocol.Fault // a JSON-RPC error
}

// readNative parses a native result. Its errors are meant for the developers of the API.
func readNative(body []byte) (n nativeAnswer, err error) {
	if err := strictjson.Check(body); err != nil {
		return n, fmt.Errorf("it is not strict JSON: %s", strings.TrimPrefix(err.Error(), "jsontext: "))
	}
	result := jsontext.Value(body)
	if result.Kind() != '{' {
		return n, fmt.Errorf("it must be an object, not %s", strictjson.KindName(result.Kind()))
	}
	if failure := strictjson.MemberOf(result, "error"); failure != nil && failure.Kind() != 'n' {
		n.failure, err = readNativeError(failure)
		return n, err
	}
	if meta := strictjson.MemberOf(result, "_meta").Kind(); meta != 0 && meta != '{' && meta != 'n' {
		return n, fmt.Errorf("_meta must be an object, not %s", strictjson.KindName(meta))
	}
	switch kind := strictjson.MemberOf(result, "resultType"); {
	case kind.Kind() == 0, kind.Kind() == 'n', strictjson.Text(kind) == "complete":
		n.result = result
	case strictjson.Text(kind) == "input_required":
		n.asked, err = readInputRequired(result)
	default:
		err = fmt.Errorf(`resultType must be "complete" or "input_required"`)
	}
	return n, err
}

// readNativeError reads a JSON-RPC error from the API.
func readNativeError(raw jsontext.Value) (*protocol.Fault, error) {
	code, err := strconv.ParseInt(string(strictjson.MemberOf(raw, "code")), 10, 32)
	if err != nil {
		return nil, fmt.Errorf("error.code must be a 32-bit integer")
	}
	message := strictjson.Text(strictjson.MemberOf(raw, "message"))
	if message == "" {
		return nil, fmt.Errorf("error.message must be a string")
	}
	f := &protocol.Fault{Status: http.StatusOK, Code: int(code), Message: text.Cut(message, maxNativeError)}
	if data := strictjson.MemberOf(raw, "data"); data != nil {
		f.Data = append([]byte(nil), data...) // copy, because the body's buffer is reused
	}
	return f, nil
}

// MalformedNative returns the failure of a call whose native result is invalid.
func MalformedNative(t *tools.Tool, err error) *tools.Failure {
	return &tools.Failure{Kind: tools.Unreadable, Message: fmt.Sprintf(
		"%s %s was called, so do not repeat the call if it changes something. It returned a malformed MCP result (%s): %v", t.Plan.Method, t.Plan.Path, content.NativeType, err)}
}
