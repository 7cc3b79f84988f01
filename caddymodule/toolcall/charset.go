package toolcall

import (
	"bytes"
	"mime"
	"net/http"
	"strings"

	"golang.org/x/text/encoding/htmlindex"

	"github.com/fairwayhq/fairway/internal/buffer"
)

// ByteOrderMark is what some servers put before UTF-8. It is no part of the text,
// and JSON must not begin with it (RFC 8259, section 8.1).
var ByteOrderMark = []byte("\xef\xbb\xbf")

// DecodeText turns text that header says is in another charset into UTF-8, which
// is all that the tool protocols know, and takes a byte order mark off. It takes
// body and returns the decoded one, which holds at most limit bytes. Text in a
// charset that is not known stays as it is.
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

// IsText reports whether a content type is one that text is read from.
func IsText(contentType string) bool {
	base, _, _ := strings.Cut(contentType, ";")
	base = strings.ToLower(strings.TrimSpace(base))
	return strings.HasPrefix(base, "text/") || strings.HasSuffix(base, "json") || strings.HasSuffix(base, "xml")
}

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
