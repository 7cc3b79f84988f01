package content

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/mediatype"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// A Form is the kind of content block that represents a response body.
type Form uint8

const (
	emptyForm Form = iota // a text block with the status line
	JSONForm              // a text block, and structuredContent if the JSON is valid
	TextForm              // a text block
	ImageForm             // an image block in Base64
	AudioForm             // an audio block in Base64
	BlobForm              // an embedded resource in Base64
)

// FormOf selects the form by the media type. A body without a media type becomes text if it is valid
// UTF-8.
func FormOf(r *tool.Result) Form {
	if r == nil || len(r.Body) == 0 {
		return emptyForm
	}
	media := r.MediaType()
	kind, _, _ := strings.Cut(media, "/")
	switch {
	case mediatype.IsJSON(media):
		return JSONForm
	case mediatype.IsText(media):
		return TextForm
	case kind == "image":
		return ImageForm
	case kind == "audio":
		return AudioForm
	case media == "" && utf8.Valid(r.Body):
		return TextForm
	}
	return BlobForm
}

// AppendJSON appends a body declared as JSON as a text block. It also returns the JSON without
// surrounding space. That is nil if the body is not valid JSON, or if an object in it has a name twice:
// JSON parsers disagree on which of two duplicate members counts.
func AppendJSON(dst, body []byte) (b []byte, value []byte) {
	dst = append(dst, `{"type":"text","text":`...)
	b, ok := wire.AppendChecked(dst, body)
	if !ok {
		return append(wire.AppendString(dst, body), '}'), nil
	}
	return append(b, '}'), bytes.TrimSpace(body)
}

// AppendText appends a text block.
func AppendText[T string | []byte](dst []byte, s T) []byte {
	dst = wire.AppendString(append(dst, `{"type":"text","text":`...), s)
	return append(dst, '}')
}
