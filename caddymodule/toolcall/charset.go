package toolcall

import (
	"bytes"
	"mime"
	"net/http"
	"strings"

	"golang.org/x/text/encoding/htmlindex"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/mediatype"
)

// ByteOrderMark precedes the UTF-8 text of some servers. It is not part of the text, and JSON
// must not begin with it (RFC 8259, section 8.1).
var ByteOrderMark = []byte("\xef\xbb\xbf")

// DecodeText converts a text body to UTF-8 if the header declares another charset, because the
// tool protocols only use UTF-8. It also removes a byte order mark. DecodeText takes ownership
// of body and returns the decoded body, which has at most limit bytes. Text in an unknown
// charset is returned unchanged.
func DecodeText(header http.Header, body *buffer.Buffer, limit int64) (*buffer.Buffer, error) {
	contentType := header.Get("Content-Type")
	if body == nil || !IsText(contentType) {
		return body, nil
	}
	if strings.Contains(contentType, "=") {
		base, parameters, err := mime.ParseMediaType(contentType)
		charset := strings.ToLower(parameters["charset"])
		if err == nil && charset != "" && charset != "utf-8" && charset != "us-ascii" {
			return transcode(header, body, limit, base, charset)
		}
	}
	if bytes.HasPrefix(body.B, ByteOrderMark) {
		body.B = append(body.B[:0], body.B[len(ByteOrderMark):]...)
	}
	return body, nil
}

// IsText reports whether bodies of the content type are text.
func IsText(contentType string) bool {
	base := mediatype.Base(contentType)
	return mediatype.IsText(base) || mediatype.IsJSON(base)
}

// transcode converts a body from the named charset to UTF-8.
func transcode(header http.Header, body *buffer.Buffer, limit int64, base, charset string) (*buffer.Buffer, error) {
	encoding, err := htmlindex.Get(charset)
	if err != nil {
		return body, nil
	}
	defer buffer.Put(body)
	decoded := buffer.Get()
	if err := decoded.ReadAll(encoding.NewDecoder().Reader(bytes.NewReader(body.B)), limit); err != nil {
		buffer.Put(decoded)
		return nil, err
	}
	header.Set("Content-Type", base+"; charset=utf-8")
	header.Del("Content-Length")
	if bytes.HasPrefix(decoded.B, ByteOrderMark) {
		decoded.B = append(decoded.B[:0], decoded.B[len(ByteOrderMark):]...)
	}
	return decoded, nil
}
