package mcpadapter

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/tools"
)

// answerNative writes the API's result, converted to the client's revision.
func (c *toolCall) answerNative(w *response, r callResult) {
	b, err := c.appendToolResult(w.result("complete", r.nativeMeta(w.locale != "")), r.Native)
	if err != nil {
		r.Failure = elicit.MalformedNative(r.Tool, err)
		c.answerFailure(w, r)
		return
	}
	if structured := strictjson.MemberOf(r.Native, "structuredContent"); len(structured) > advisedStructure && c.version.SupportsStructuredContent(structured[0]) {
		c.server.noteLargeStructure(r.Tool, len(structured))
	}
	w.end(b)
}

// nativeMeta returns the members of the result's _meta: the OCP context and the API's own members.
// localized leaves out the API's locale, because the server adds one.
func (r *callResult) nativeMeta(localized bool) []byte {
	meta := r.contextMeta()
	for walk := strictjson.Into(strictjson.MemberOf(r.Native, "_meta")); walk.Next(); {
		if name := strictjson.Text(walk.Name); name == metaServer || name == metaCall || localized && name == metaLocale || strings.HasPrefix(name, ocpMetaPrefix) {
			continue
		}
		meta = append(append(append(strictjson.Comma(meta), walk.Name...), ':'), walk.Value...)
	}
	return meta
}

// metaServer identifies this server in results, so the API must not set it.
const metaServer = "io.modelcontextprotocol/serverInfo"

// appendToolResult appends the members of a CallToolResult. It leaves out members that no revision
// defines.
func (c *toolCall) appendToolResult(dst []byte, result jsontext.Value) ([]byte, error) {
	structured, flag := strictjson.MemberOf(result, "structuredContent"), strictjson.MemberOf(result, "isError")
	if structured.Kind() == 'n' {
		structured = nil
	}
	if kind := flag.Kind(); kind != 0 && kind != 't' && kind != 'f' && kind != 'n' {
		return dst, fmt.Errorf("isError must be true or false, not %s", strictjson.KindName(kind))
	}
	dst = append(dst, `"content":[`...)
	switch body := strictjson.MemberOf(result, "content"); body.Kind() {
	case '[':
		var err error
		start := len(dst)
		if dst, err = c.blocks().AppendBlocks(dst, body); err != nil {
			return dst, err
		}
		// A text repeats structuredContent (MCP 2025-06-18, Tools, Structured Content). Without one, it would be lost.
		if structured != nil && !c.version.SupportsStructuredContent(structured[0]) && !bytes.Contains(dst[start:], []byte(`{"type":"text"`)) {
			dst = content.AppendText(strictjson.Comma(dst), []byte(structured))
		}
	case '"':
		dst = content.AppendText(dst, strictjson.Text(body))
	case 0, 'n': // some servers have nothing to say after a success
		if structured != nil {
			dst = content.AppendText(dst, []byte(structured))
		} else if old := strictjson.MemberOf(result, "toolResult"); old != nil { // of 2024-10-07
			dst = content.AppendText(dst, []byte(old))
		} else if strictjson.HasMember(result, "messages") || strictjson.HasMember(result, "contents") {
			return dst, fmt.Errorf("the result of a tool must have content or structuredContent")
		}
	default:
		return dst, fmt.Errorf("content must be an array, not %s", strictjson.KindName(body.Kind()))
	}
	dst = append(dst, ']')
	if structured != nil && c.version.SupportsStructuredContent(structured[0]) {
		dst = append(append(dst, `,"structuredContent":`...), structured...)
	}
	if flag.Kind() == 't' {
		tools.AmendCall(c.caller, string(tools.Failed))
		dst = append(dst, `,"isError":true`...)
	}
	return dst, nil
}
