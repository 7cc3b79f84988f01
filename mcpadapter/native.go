package mcpadapter

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/callcontext"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// answerNative writes the API's result, converted to the client's revision.
func (q toolRequest) answerNative(r reply) {
	start := len(q.out.B)
	b := q.appendResultHead(q.beginResult(), "complete", r.nativeMeta(q.locale() != ""))
	b, err := q.appendToolResult(b, r.Native)
	if err != nil {
		q.out.B = b[:start]
		r.Failure = elicit.MalformedNative(r.Tool, err)
		q.answerFailure(r)
		return
	}
	if structured := wire.MemberOf(r.Native, "structuredContent"); len(structured) > advisedStructure && q.version.SupportsStructuredContent(structured[0]) {
		q.server.noteLargeStructure(r.Tool, len(structured))
	}
	q.out.B = append(b, "}}"...)
}

// nativeMeta returns the members of the result's _meta: the OCP context and the API's own members.
// localized leaves out the API's locale, because the server adds one.
func (r *reply) nativeMeta(localized bool) []byte {
	meta := r.contextMeta()
	for walk := wire.Into(wire.MemberOf(r.Native, "_meta")); walk.Next(); {
		if name := wire.Text(walk.Name); name == metaServer || localized && name == callcontext.MetaLocale || strings.HasPrefix(name, callcontext.Prefix) {
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
func (q toolRequest) appendToolResult(dst []byte, result jsontext.Value) ([]byte, error) {
	structured, flag := wire.MemberOf(result, "structuredContent"), wire.MemberOf(result, "isError")
	if kind := flag.Kind(); kind != 0 && kind != 't' && kind != 'f' {
		return dst, fmt.Errorf("isError must be true or false, not %s", wire.KindName(kind))
	}
	dst = append(dst, `"content":[`...)
	switch body := wire.MemberOf(result, "content"); {
	case body.Kind() == '[':
		var err error
		if dst, err = q.blocks().AppendBlocks(dst, body); err != nil {
			return dst, err
		}
	case body.Kind() != 0:
		return dst, fmt.Errorf("content must be an array, not %s", wire.KindName(body.Kind()))
	case structured == nil:
		return dst, fmt.Errorf("the result of a tool must have content or structuredContent")
	default:
		dst = content.AppendText(dst, []byte(structured))
	}
	dst = append(dst, ']')
	if structured != nil && q.version.SupportsStructuredContent(structured[0]) {
		dst = append(append(dst, `,"structuredContent":`...), structured...)
	}
	if flag.Kind() == 't' {
		tool.AmendCall(q.caller, string(tool.Failed))
		dst = append(dst, `,"isError":true`...)
	}
	return dst, nil
}
