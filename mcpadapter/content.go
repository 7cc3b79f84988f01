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
	"github.com/fairwayhq/fairway/ocp"
)

// A form is the shape in which an answer of the API is shown to a model.
type form uint8

const (
	emptyForm form = iota // a line about the status
	jsonForm              // text, and structuredContent
	textForm              // text
	imageForm             // Base64, to look at
	audioForm             // Base64, to listen to
	blobForm              // Base64, an embedded resource
)

// formOf decides by media type. An answer that is declared as JSON and is not
// JSON, or whose objects have a name twice, is text: clients take it apart with
// readers that differ in which of the two they see. One without a type is text if
// it reads as such. The value is the JSON without space around it; nil for other
// forms.
func formOf(r *ocp.Result) (form, []byte) {
	if r == nil || len(r.Body) == 0 {
		return emptyForm, nil
	}
	media := r.MediaType()
	kind, subtype, _ := strings.Cut(media, "/")
	switch {
	case subtype == "json" || strings.HasSuffix(subtype, "+json"):
		if value := bytes.TrimSpace(r.Body); wire.Unambiguous(value) {
			return jsonForm, value
		}
		return textForm, nil
	case textual(kind, subtype):
		return textForm, nil
	case kind == "image":
		return imageForm, nil
	case kind == "audio":
		return audioForm, nil
	case media == "" && utf8.Valid(r.Body):
		return textForm, nil
	}
	return blobForm, nil
}

// textual tells the media types that are text under another name than text/*.
// SVG is among them: models read it and take no such image.
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

// appendContent appends the content block of a successful answer.
func (x *exchange) appendContent(dst []byte, f form, outcome ocp.Outcome) []byte {
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

// appendBytes appends the body in Base64 and its media type.
func appendBytes(dst []byte, r *ocp.Result) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, r.Body)
	dst = append(dst, `","mimeType":`...)
	return wire.AppendString(dst, first(r.MediaType(), "application/octet-stream"))
}

// metaFilename is the member of a content block's _meta that has the name which the
// API gave a file.
const metaFilename = "io.github.fairwayhq/filename"

// appendFilename closes a content block, with the name of the file where the
// revision has a place for it.
func (x *exchange) appendFilename(dst []byte, r *ocp.Result) []byte {
	if name := r.Filename(); name != "" && x.version.annotatesContent() {
		dst = append(dst, `,"_meta":{"`+metaFilename+`":`...)
		dst = append(wire.AppendString(dst, name), '}')
	}
	return append(dst, '}')
}

// resourceURI says where the bytes of an embedded resource came from:
// tool://TOOLSET/TOOL, behind which the name of a file follows. Nothing can be read from there again but by calling the
// tool.
func resourceURI(tools *ocp.Toolset, tool *ocp.Tool) string {
	name := ""
	if tool != nil {
		name = tool.Name
	}
	return "tool://" + url.PathEscape(first(tools.Name, "fairway")) + "/" + url.PathEscape(name)
}

// maxLocation is how much of a Location header is shown, in bytes.
const maxLocation = 2 << 10

// statusLine is what there is to say about an answer without a body.
func statusLine(r *ocp.Result) string {
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
