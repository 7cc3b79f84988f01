package elicit

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// maxNativeError is how many bytes of the API's error message are passed on.
const maxNativeError = 4 << 10

// A nativeAnswer is a parsed native result. Exactly one of its fields is set.
type nativeAnswer struct {
	result  jsontext.Value // the result, strict JSON
	asked   *inputRequired // requests to the client before the final result
	failure *jsonrpc.Fault // a JSON-RPC error
}

// readNative parses a native result. Its errors are meant for the developers of the API.
func readNative(body []byte) (n nativeAnswer, err error) {
	if err := wire.Check(body); err != nil {
		return n, fmt.Errorf("it is not strict JSON: %s", strings.TrimPrefix(err.Error(), "jsontext: "))
	}
	result := jsontext.Value(body)
	if result.Kind() != '{' {
		return n, fmt.Errorf("it must be an object, not %s", wire.KindName(result.Kind()))
	}
	if failure := wire.MemberOf(result, "error"); failure != nil {
		n.failure, err = readNativeError(failure)
		return n, err
	}
	if meta := wire.MemberOf(result, "_meta").Kind(); meta != 0 && meta != '{' {
		return n, fmt.Errorf("_meta must be an object, not %s", wire.KindName(meta))
	}
	switch kind := wire.MemberOf(result, "resultType"); {
	case kind.Kind() == 0, wire.Text(kind) == "complete":
		n.result = result
	case wire.Text(kind) == "input_required":
		n.asked, err = readInputRequired(result)
	default:
		err = fmt.Errorf(`resultType must be "complete" or "input_required"`)
	}
	return n, err
}

// readNativeError reads a JSON-RPC error from the API.
func readNativeError(raw jsontext.Value) (*jsonrpc.Fault, error) {
	code, err := strconv.ParseInt(string(wire.MemberOf(raw, "code")), 10, 32)
	if err != nil {
		return nil, fmt.Errorf("error.code must be a 32-bit integer")
	}
	message := wire.Text(wire.MemberOf(raw, "message"))
	if message == "" {
		return nil, fmt.Errorf("error.message must be a string")
	}
	f := &jsonrpc.Fault{Status: http.StatusOK, Code: int(code), Message: text.Cut(message, maxNativeError)}
	if data := wire.MemberOf(raw, "data"); data != nil {
		f.Data = append([]byte(nil), data...) // copy, because the body's buffer is reused
	}
	return f, nil
}

// MalformedNative returns the failure of a call whose native result is invalid.
func MalformedNative(t *tool.Tool, err error) *tool.Failure {
	return &tool.Failure{Kind: tool.Unreadable, Message: fmt.Sprintf(
		"%s %s returned a malformed MCP result (%s): %v", t.Method, t.Path, content.NativeType, err)}
}
