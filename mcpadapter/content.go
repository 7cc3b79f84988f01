package mcpadapter

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// A form is the kind of content block that represents a response body.
type form uint8

const (
	emptyForm form = iota // a text block with the status line
	jsonForm              // a text block, and structuredContent if the JSON is valid
	textForm              // a text block
	imageForm             // an image block in Base64
	audioForm             // an audio block in Base64
	blobForm              // an embedded resource in Base64
)

// formOf selects the form by the media type. A body without a media type becomes text if it is valid
// UTF-8.
func formOf(r *tool.Result) form {
	if r == nil || len(r.Body) == 0 {
		return emptyForm
	}
	media := r.MediaType()
	kind, subtype, _ := strings.Cut(media, "/")
	switch {
	case subtype == "json" || strings.HasSuffix(subtype, "+json"):
		return jsonForm
	case textual(kind, subtype):
		return textForm
	case kind == "image":
		return imageForm
	case kind == "audio":
		return audioForm
	case media == "" && utf8.Valid(r.Body):
		return textForm
	}
	return blobForm
}

// appendJSON appends a body declared as JSON as a text block. It also returns the JSON without
// surrounding space. That is nil if the body is not valid JSON, or if an object in it has a name twice:
// JSON parsers disagree on which of two duplicate members counts.
func appendJSON(dst, body []byte) (b []byte, value []byte) {
	dst = append(dst, `{"type":"text","text":`...)
	b, ok := wire.AppendChecked(dst, body)
	if !ok {
		return append(wire.AppendString(dst, body), '}'), nil
	}
	return append(b, '}'), bytes.TrimSpace(body)
}

// textual reports whether a media type is text, even if it is not text/*. This includes SVG: models
// can read it as text and do not accept it as an image.
func textual(kind, subtype string) bool {
	if kind == "text" || strings.HasSuffix(subtype, "+xml") || strings.HasSuffix(subtype, "+yaml") {
		return true
	}
	if kind != "application" {
		return false
	}
	switch subtype {
	case "xml", "yaml", "x-yaml", "toml", "javascript", "x-javascript", "graphql", "sql",
		"x-www-form-urlencoded", "x-ndjson", "ndjson", "jsonl", "json-seq", "problem":
		return true
	}
	return false
}

// appendContent appends the content block of a successful call.
func (x *exchange) appendContent(dst []byte, f form, outcome tool.Outcome) []byte {
	r := outcome.Result
	if f == audioForm && !x.version.listens() {
		f = blobForm
	}
	switch f {
	case jsonForm, textForm:
		return appendText(dst, r.Body)
	case imageForm:
		return x.appendFilename(appendBytes(append(dst, `{"type":"image","data":`...), r), r)
	case audioForm:
		return x.appendFilename(appendBytes(append(dst, `{"type":"audio","data":`...), r), r)
	case blobForm:
		uri := resourceURI(x.tools, outcome.Tool)
		if name := r.Filename(); name != "" {
			uri += "/" + url.PathEscape(name)
		}
		dst = append(dst, `{"type":"resource","resource":{"uri":`...)
		dst = wire.AppendString(dst, uri)
		return x.appendFilename(append(appendBytes(append(dst, `,"blob":`...), r), '}'), r)
	}
	return appendText(dst, statusLine(r))
}

// appendBytes appends the body in Base64, and its media type.
func appendBytes(dst []byte, r *tool.Result) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, r.Body)
	dst = append(dst, `","mimeType":`...)
	return wire.AppendString(dst, first(r.MediaType(), "application/octet-stream"))
}

// metaFilename is the member of a content block's _meta with the file name from the API's
// Content-Disposition header.
const metaFilename = "io.github.fairwayhq/filename"

// appendFilename closes a content block. It adds the file name if the revision allows _meta in
// content blocks.
func (x *exchange) appendFilename(dst []byte, r *tool.Result) []byte {
	if name := r.Filename(); name != "" && x.version.annotatesContent() {
		dst = append(dst, `,"_meta":{"`+metaFilename+`":`...)
		dst = append(wire.AppendString(dst, name), '}')
	}
	return append(dst, '}')
}

// resourceURI returns the URI of an embedded resource: tool://TOOLSET/TOOL. The caller may append a
// file name. The URI only names the source; clients cannot read it and have to call the tool again.
func resourceURI(tools *tool.Toolset, tool *tool.Tool) string {
	name := ""
	if tool != nil {
		name = tool.Name
	}
	return "tool://" + url.PathEscape(first(tools.Name, "fairway")) + "/" + url.PathEscape(name)
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
		line += "\nLocation: " + clip(location, maxLocation)
	}
	return line
}
