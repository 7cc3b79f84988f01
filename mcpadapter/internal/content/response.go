package content

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

// A Form is the kind of content block that represents a response body.
type form uint8

const (
	emptyForm form = iota // a text block with the status line
	JSONForm              // a text block, and structuredContent if the JSON is valid
	TextForm              // a text block
	imageForm             // an image block in Base64
	audioForm             // an audio block in Base64
	blobForm              // an embedded resource in Base64
)

// FormOf selects the form by the media type. A body without a media type becomes text if it is valid
// UTF-8.
func FormOf(r *tools.Result) form {
	if r == nil || len(r.Body) == 0 {
		return emptyForm
	}
	media := r.MediaType()
	if media == "application/json" { // the most common type
		return JSONForm
	}
	kind, _, _ := strings.Cut(media, "/")
	switch {
	case httpheader.IsJSON(media):
		return JSONForm
	case httpheader.IsText(media):
		return TextForm
	case kind == "image":
		return imageForm
	case kind == "audio":
		return audioForm
	case media == "" && utf8.Valid(r.Body):
		return TextForm
	}
	return blobForm
}

// AppendJSON appends a body declared as JSON as a text block. It also returns the JSON without
// surrounding space. That is nil if the body is not valid JSON, or if an object in it has a name twice:
// JSON parsers disagree on which of two duplicate members counts.
func AppendJSON(dst, body []byte) (b []byte, value []byte) {
	dst = append(dst, `{"type":"text","text":`...)
	b, ok := strictjson.AppendChecked(dst, body)
	if !ok {
		return append(strictjson.AppendString(dst, body), '}'), nil
	}
	return append(b, '}'), bytes.TrimSpace(body)
}

// FirstByte returns the first byte of a JSON body, which says what kind of value it is. It returns 0 if
// there is none.
func FirstByte(body []byte) byte {
	if body = bytes.TrimLeft(body, " \t\r\n"); len(body) > 0 {
		return body[0]
	}
	return 0
}

// AppendText appends a text block.
func AppendText[T string | []byte](dst []byte, s T) []byte {
	dst = strictjson.AppendString(append(dst, `{"type":"text","text":`...), s)
	return append(dst, '}')
}

// AppendResponse appends the content block of a successful call of a tool in tools.
func AppendResponse(dst []byte, f form, outcome tools.Outcome, toolset *tools.Toolset, v protocol.Revision) []byte {
	r := outcome.Result
	if f == audioForm && !v.SupportsAudio() {
		f = blobForm
	}
	switch f {
	case JSONForm, TextForm:
		return AppendText(dst, r.Body)
	case imageForm:
		return appendFilename(appendBytes(append(dst, `{"type":"image","data":`...), r), r, v)
	case audioForm:
		return appendFilename(appendBytes(append(dst, `{"type":"audio","data":`...), r), r, v)
	case blobForm:
		uri := ToolURI(toolset, outcome.Tool)
		if name := r.Filename(); name != "" {
			uri += "/" + url.PathEscape(name)
		}
		dst = append(dst, `{"type":"resource","resource":{"uri":`...)
		dst = strictjson.AppendString(dst, uri)
		return appendFilename(append(appendBytes(append(dst, `,"blob":`...), r), '}'), r, v)
	}
	return AppendText(dst, statusLine(r))
}

// appendBytes appends the body in Base64, and its media type.
func appendBytes(dst []byte, r *tools.Result) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, r.Body)
	dst = append(dst, `","mimeType":`...)
	return strictjson.AppendString(dst, cmp.Or(r.MediaType(), "application/octet-stream"))
}

// metaFilename is the member of a content block's _meta with the file name from the API's
// Content-Disposition header.
const metaFilename = "io.github.fairwayhq/filename"

// appendFilename closes a content block. It adds the file name if the revision allows _meta in
// content blocks.
func appendFilename(dst []byte, r *tools.Result, v protocol.Revision) []byte {
	if name := r.Filename(); name != "" && v.SupportsContentMeta() {
		dst = append(dst, `,"_meta":{"`+metaFilename+`":`...)
		dst = append(strictjson.AppendString(dst, name), '}')
	}
	return append(dst, '}')
}

// ToolURI returns the URI of an embedded resource: tool://TOOLSET/TOOL. The caller may append a
// file name. The URI only names the source; clients cannot read it and have to call the tool again.
func ToolURI(toolset *tools.Toolset, tool *tools.Tool) string {
	name := ""
	if tool != nil {
		name = tool.Name
	}
	return "tool://" + url.PathEscape(cmp.Or(toolset.Name, "fairway")) + "/" + url.PathEscape(name)
}

// maxLocation is how many bytes of a Location header are shown.
const maxLocation = 2 << 10

// statusLine returns the text for a response without a body.
func statusLine(r *tools.Result) string {
	if r == nil {
		return "done; the API returned no response"
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

// HasLinks reports whether the headers of a response have links.
func HasLinks(r *tools.Result) bool {
	return r != nil && (len(r.Header["Location"]) > 0 || len(r.Header["Link"]) > 0)
}
