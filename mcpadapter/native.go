package mcpadapter

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
	asks    *inputRequired // requests to the client before the final result
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
		n.asks, err = readInputRequired(result)
	default:
		err = fmt.Errorf(`resultType must be "complete" or "input_required"`)
	}
	return n, err
}

// readNativeError reads a JSON-RPC error from the API.
func readNativeError(raw jsontext.Value) (*jsonrpc.Fault, error) {
	code, err := strconv.ParseInt(string(wire.MemberOf(raw, "code")), 10, 32)
	if err != nil {
		return nil, fmt.Errorf("error.code must be an integer of 32 bits")
	}
	message := wire.Text(wire.MemberOf(raw, "message"))
	if message == "" {
		return nil, fmt.Errorf("error.message must be a string that says what is wrong")
	}
	f := &jsonrpc.Fault{Status: http.StatusOK, Code: int(code), Message: text.Cut(message, maxNativeError)}
	if data := wire.MemberOf(raw, "data"); data != nil {
		f.Data = append([]byte(nil), data...) // copy, because the body's buffer is reused
	}
	return f, nil
}

// malformedNative returns the failure of a call whose native result is invalid.
func malformedNative(t *tool.Tool, err error) *tool.Failure {
	return &tool.Failure{Kind: tool.Unreadable, Message: fmt.Sprintf(
		"%s %s answered, but with an MCP result (%s) that is malformed: %v", t.Method, t.Path, content.NativeType, err)}
}

// answerNative writes the API's result, converted to the client's revision.
func (x *exchange) answerNative(r reply) {
	start := len(x.out.B)
	b := x.appendResultHead(x.beginResult(), "complete", r.nativeMeta(x.locale() != ""))
	b, err := x.appendToolResult(b, r.native)
	if err != nil {
		x.out.B = b[:start]
		r.Failure = malformedNative(r.Tool, err)
		x.answerFailure(r)
		return
	}
	if structured := wire.MemberOf(r.native, "structuredContent"); len(structured) > advisedStructure && x.version.SupportsStructuredContent(structured[0]) {
		x.server.noteLargeStructure(r.Tool, len(structured))
	}
	x.out.B = append(b, "}}"...)
}

// nativeMeta returns the members of the result's _meta: the OCP context and the API's own members.
// localized leaves out the API's locale, because the server adds one.
func (r *reply) nativeMeta(localized bool) []byte {
	meta := r.contextMeta()
	for walk := wire.Into(wire.MemberOf(r.native, "_meta")); walk.Next(); {
		if name := wire.Text(walk.Name); name == metaServer || localized && name == metaLocale || strings.HasPrefix(name, contextPrefix) {
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
	structured, flag := wire.MemberOf(result, "structuredContent"), wire.MemberOf(result, "isError")
	if kind := flag.Kind(); kind != 0 && kind != 't' && kind != 'f' {
		return dst, fmt.Errorf("isError must be true or false, not %s", wire.KindName(kind))
	}
	dst = append(dst, `"content":[`...)
	switch body := wire.MemberOf(result, "content"); {
	case body.Kind() == '[':
		var err error
		if dst, err = x.blocks().AppendBlocks(dst, body); err != nil {
			return dst, err
		}
	case body.Kind() != 0:
		return dst, fmt.Errorf("content must be an array, not %s", wire.KindName(body.Kind()))
	case structured == nil:
		return dst, fmt.Errorf("a result of a tool must have content or structuredContent")
	default:
		dst = content.AppendText(dst, []byte(structured))
	}
	dst = append(dst, ']')
	if structured != nil && x.version.SupportsStructuredContent(structured[0]) {
		dst = append(append(dst, `,"structuredContent":`...), structured...)
	}
	if flag.Kind() == 't' {
		tool.AmendCall(x.caller, string(tool.Failed))
		dst = append(dst, `,"isError":true`...)
	}
	return dst, nil
}
