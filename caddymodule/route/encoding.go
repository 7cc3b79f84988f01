package route

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/text/encoding/htmlindex"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/httpheader"
)

// maxWindow is the largest zstd window, in bytes, that is allocated for a response. It is the
// size that RFC 8878 recommends every decoder to support.
const maxWindow = 8 << 20

// decoder is a pooled reader for one content coding.
type decoder interface {
	io.Reader
	open(source *bytes.Reader) error
}

// gzipDecoder reads the content coding gzip.
type gzipDecoder struct{ *gzip.Reader }

func (d gzipDecoder) open(source *bytes.Reader) error { return d.Reset(source) }

// zstdDecoder reads the content coding zstd.
type zstdDecoder struct{ *zstd.Decoder }

func (d zstdDecoder) open(source *bytes.Reader) error { return d.Reset(source) }

// deflateDecoder reads the content coding deflate. By HTTP's definition this is zlib, but some
// servers send raw DEFLATE. It is rare, so its state is not kept.
type deflateDecoder struct{ io.Reader }

func (d *deflateDecoder) open(source *bytes.Reader) (err error) {
	var head [2]byte
	_, _ = source.ReadAt(head[:], 0)
	if head[0]&0x0f == 8 && (uint16(head[0])<<8|uint16(head[1]))%31 == 0 {
		d.Reader, err = zlib.NewReader(source)
	} else {
		d.Reader = flate.NewReader(source)
	}
	return err
}

var (
	gzipDecoders    = sync.Pool{New: func() any { return gzipDecoder{new(gzip.Reader)} }}
	deflateDecoders = sync.Pool{New: func() any { return new(deflateDecoder) }}
	zstdDecoders    = sync.Pool{New: func() any {
		// none of these options can fail
		d, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow))
		return zstdDecoder{d}
	}}
)

// unknownCodingError reports a response in a content coding that cannot be decoded.
type unknownCodingError struct{ coding string }

func (e unknownCodingError) Error() string {
	return fmt.Sprintf("content coding %q", e.coding)
}

// DecodeBody decodes the content coding that the header declares: gzip, deflate or zstd. It
// takes ownership of body and returns the decoded body, which has at most limit bytes. It
// removes the headers that describe the encoded form. On an error it returns body to the pool.
func DecodeBody(header http.Header, body *buffer.Buffer, limit int64) (*buffer.Buffer, error) {
	codings := header["Content-Encoding"]
	if len(codings) == 0 {
		return body, nil
	}
	coding := strings.ToLower(strings.TrimSpace(strings.Join(codings, ", ")))
	var pool *sync.Pool
	switch coding {
	case "", "identity":
		delete(header, "Content-Encoding")
		return body, nil
	case "gzip", "x-gzip":
		pool = &gzipDecoders
	case "deflate":
		pool = &deflateDecoders
	case "zstd":
		pool = &zstdDecoders
	}
	if body == nil || len(body.B) == 0 {
		delete(header, "Content-Encoding")
		return body, nil
	}
	defer buffer.Put(body)
	if pool == nil {
		return nil, unknownCodingError{coding}
	}

	d := pool.Get().(decoder)
	source := bytes.NewReader(body.B)
	decoded := buffer.Get()
	err := d.open(source)
	if err == nil {
		err = decoded.ReadAll(d, limit)
	}
	if err == nil || errors.Is(err, buffer.ErrTooLarge) {
		pool.Put(d)
	}
	if err != nil {
		buffer.Put(decoded)
		return nil, err
	}
	delete(header, "Content-Encoding")
	delete(header, "Content-Length")
	return decoded, nil
}

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
	base := httpheader.MediaType(contentType)
	return httpheader.IsText(base) || httpheader.IsJSON(base)
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
