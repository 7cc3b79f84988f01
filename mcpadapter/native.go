package mcpadapter

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// nativeType is the media type of API responses that are MCP results themselves: CallToolResult,
// GetPromptResult, ReadResourceResult, InputRequiredResult, or
// {"error":{"code":…,"message":…,"data":…}} for a JSON-RPC error. APIs write them in the newest
// revision; the adapter converts them to the client's revision.
const nativeType = "application/vnd.mcp.result+json"

// maxNativeError is how many bytes of the API's error message are passed on.
const maxNativeError = 4 << 10

// A nativeAnswer is a parsed native result. Exactly one of its fields is set.
type nativeAnswer struct {
	result  jsontext.Value // the result, strict JSON
	asks    *inputRequired // requests to the client before the final result
	failure *fault         // a JSON-RPC error
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
	if failure := member(result, "error"); failure != nil {
		n.failure, err = readNativeError(failure)
		return n, err
	}
	if meta := member(result, "_meta").Kind(); meta != 0 && meta != '{' {
		return n, fmt.Errorf("_meta must be an object, not %s", wire.KindName(meta))
	}
	switch kind := member(result, "resultType"); {
	case kind.Kind() == 0, text(kind) == "complete":
		n.result = result
	case text(kind) == "input_required":
		n.asks, err = readInputRequired(result)
	default:
		err = fmt.Errorf(`resultType must be "complete" or "input_required"`)
	}
	return n, err
}

// readNativeError reads a JSON-RPC error from the API.
func readNativeError(raw jsontext.Value) (*fault, error) {
	code, err := strconv.ParseInt(string(member(raw, "code")), 10, 32)
	if err != nil {
		return nil, fmt.Errorf("error.code must be an integer of 32 bits")
	}
	message := text(member(raw, "message"))
	if message == "" {
		return nil, fmt.Errorf("error.message must be a string that says what is wrong")
	}
	f := &fault{status: http.StatusOK, code: int(code), message: clip(message, maxNativeError)}
	if data := member(raw, "data"); data != nil {
		f.data = append([]byte(nil), data...) // copy, because the body's buffer is reused
	}
	return f, nil
}

// malformedNative returns the failure of a call whose native result is invalid.
func malformedNative(t *tool.Tool, err error) *tool.Failure {
	return &tool.Failure{Kind: tool.Unreadable, Message: fmt.Sprintf(
		"%s %s answered, but with an MCP result (%s) that is malformed: %v", t.Method, t.Path, nativeType, err)}
}

// answerNative writes the API's result, converted to the client's revision.
func (x *exchange) answerNative(r reply) {
	start := len(x.out.B)
	b := x.appendResultHead(x.begin(), "complete", r.nativeMeta(x.locale() != ""))
	b, err := x.appendToolResult(b, r.native)
	if err != nil {
		x.out.B = b[:start]
		r.Failure = malformedNative(r.Tool, err)
		x.answerFailure(r)
		return
	}
	if structured := member(r.native, "structuredContent"); len(structured) > advisedStructure && x.version.structures(structured[0]) {
		x.server.noteLargeStructure(r.Tool, len(structured))
	}
	x.out.B = append(b, "}}"...)
}

// nativeMeta returns the members of the result's _meta: the OCP context and the API's own members.
// localized leaves out the API's locale, because the server adds one.
func (r *reply) nativeMeta(localized bool) []byte {
	meta := r.contextMeta()
	for walk := wire.Into(member(r.native, "_meta")); walk.Next(); {
		if name := text(walk.Name); name == metaServer || localized && name == metaLocale || strings.HasPrefix(name, contextPrefix) {
			continue
		}
		if len(meta) > 0 {
			meta = append(meta, ',')
		}
		meta = append(append(append(meta, walk.Name...), ':'), walk.Value...)
	}
	return meta
}

// metaServer identifies this server in results, so the API must not set it.
const metaServer = "io.modelcontextprotocol/serverInfo"

// appendToolResult appends the members of a CallToolResult. It leaves out members that no revision
// defines.
func (x *exchange) appendToolResult(dst []byte, result jsontext.Value) ([]byte, error) {
	structured, flag := member(result, "structuredContent"), member(result, "isError")
	if kind := flag.Kind(); kind != 0 && kind != 't' && kind != 'f' {
		return dst, fmt.Errorf("isError must be true or false, not %s", wire.KindName(kind))
	}
	dst = append(dst, `"content":[`...)
	switch content := member(result, "content"); {
	case content.Kind() == '[':
		var err error
		if dst, err = x.appendBlocks(dst, content); err != nil {
			return dst, err
		}
	case content.Kind() != 0:
		return dst, fmt.Errorf("content must be an array, not %s", wire.KindName(content.Kind()))
	case structured == nil:
		return dst, fmt.Errorf("a result of a tool must have content or structuredContent")
	default:
		dst = appendText(dst, []byte(structured))
	}
	dst = append(dst, ']')
	if structured != nil && x.version.structures(structured[0]) {
		dst = append(append(dst, `,"structuredContent":`...), structured...)
	}
	if flag.Kind() == 't' {
		tool.AmendCall(x.caller, string(tool.Failed))
		dst = append(dst, `,"isError":true`...)
	}
	return dst, nil
}
