package content

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// AppendResponse appends the content block of a successful call of a tool in tools.
func AppendResponse(dst []byte, f Form, outcome tool.Outcome, tools *tool.Toolset, v revision.Revision) []byte {
	r := outcome.Result
	if f == AudioForm && !v.SupportsAudio() {
		f = BlobForm
	}
	switch f {
	case JSONForm, TextForm:
		return AppendText(dst, r.Body)
	case ImageForm:
		return appendFilename(appendBytes(append(dst, `{"type":"image","data":`...), r), r, v)
	case AudioForm:
		return appendFilename(appendBytes(append(dst, `{"type":"audio","data":`...), r), r, v)
	case BlobForm:
		uri := ToolURI(tools, outcome.Tool)
		if name := r.Filename(); name != "" {
			uri += "/" + url.PathEscape(name)
		}
		dst = append(dst, `{"type":"resource","resource":{"uri":`...)
		dst = wire.AppendString(dst, uri)
		return appendFilename(append(appendBytes(append(dst, `,"blob":`...), r), '}'), r, v)
	}
	return AppendText(dst, statusLine(r))
}

// appendBytes appends the body in Base64, and its media type.
func appendBytes(dst []byte, r *tool.Result) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, r.Body)
	dst = append(dst, `","mimeType":`...)
	return wire.AppendString(dst, cmp.Or(r.MediaType(), "application/octet-stream"))
}

// metaFilename is the member of a content block's _meta with the file name from the API's
// Content-Disposition header.
const metaFilename = "io.github.fairwayhq/filename"

// appendFilename closes a content block. It adds the file name if the revision allows _meta in
// content blocks.
func appendFilename(dst []byte, r *tool.Result, v revision.Revision) []byte {
	if name := r.Filename(); name != "" && v.SupportsContentMeta() {
		dst = append(dst, `,"_meta":{"`+metaFilename+`":`...)
		dst = append(wire.AppendString(dst, name), '}')
	}
	return append(dst, '}')
}

// ToolURI returns the URI of an embedded resource: tool://TOOLSET/TOOL. The caller may append a
// file name. The URI only names the source; clients cannot read it and have to call the tool again.
func ToolURI(tools *tool.Toolset, tool *tool.Tool) string {
	name := ""
	if tool != nil {
		name = tool.Name
	}
	return "tool://" + url.PathEscape(cmp.Or(tools.Name, "fairway")) + "/" + url.PathEscape(name)
}

// maxLocation is how many bytes of a Location header are shown.
const maxLocation = 2 << 10

// statusLine returns the text for a response without a body.
func statusLine(r *tool.Result) string {
	if r == nil {
		return "done, without an answer"
	}
	line := strconv.Itoa(r.Status)
	if reason := http.StatusText(r.Status); reason != "" {
		line += " " + reason
	}
	if location := r.Header.Get("Location"); location != "" {
		line += "\nLocation: " + text.Cut(location, maxLocation)
	}
	return line
}
