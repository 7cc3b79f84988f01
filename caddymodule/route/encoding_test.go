package route

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/fairwayhq/fairway/internal/buffer"
)

func encoded(t *testing.T, text string, newWriter func(io.Writer) io.WriteCloser) []byte {
	t.Helper()
	var b bytes.Buffer
	w := newWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func asBuffer(content []byte) *buffer.Buffer {
	b := buffer.Get()
	b.B = append(b.B, content...)
	return b
}

var codings = map[string]func(io.Writer) io.WriteCloser{
	"gzip":     func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"x-gzip":   func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	" GZip ":   func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"deflate":  func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
	"deflate ": func(w io.Writer) io.WriteCloser { f, _ := flate.NewWriter(w, 5); return f },
	"zstd":     func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z },
}

func TestDecodeBody(t *testing.T) {
	const limit = 1 << 20
	text := strings.Repeat("the same again and again; ", 1000)
	for coding, writer := range codings {
		t.Run(coding, func(t *testing.T) {
			for range 3 { // pooled decoders are used again
				header := http.Header{"Content-Encoding": {coding}, "Content-Length": {"9"}, "X-Kept": {"1"}}
				body, err := DecodeBody(header, asBuffer(encoded(t, text, writer)), limit)
				if err != nil {
					t.Fatal(err)
				}
				if string(body.B) != text {
					t.Errorf("got %d bytes", len(body.B))
				}
				if len(header) != 1 {
					t.Errorf("header %v", header)
				}
				buffer.Put(body)
			}
		})
		t.Run(coding+"/bomb", func(t *testing.T) {
			bomb := encoded(t, strings.Repeat("\x00", 8<<20), writer)
			if _, err := DecodeBody(http.Header{"Content-Encoding": {coding}}, asBuffer(bomb), limit); !errors.Is(err, buffer.ErrTooLarge) {
				t.Errorf("got %v", err)
			}
		})
		t.Run(coding+"/cut off", func(t *testing.T) {
			whole := encoded(t, text, writer)
			if _, err := DecodeBody(http.Header{"Content-Encoding": {coding}}, asBuffer(whole[:len(whole)/2]), limit); err == nil {
				t.Error("no error")
			}
		})
	}
	t.Run("unknown", func(t *testing.T) {
		for _, coding := range []string{"br", "gzip, gzip", "compress"} {
			_, err := DecodeBody(http.Header{"Content-Encoding": {coding}}, asBuffer([]byte("x")), limit)
			if unknown, ok := errors.AsType[unknownCodingError](err); !ok || unknown.coding != coding {
				t.Errorf("%s: %v", coding, err)
			}
		}
	})
	t.Run("identity", func(t *testing.T) {
		body, err := DecodeBody(http.Header{"Content-Encoding": {"identity"}}, asBuffer([]byte("x")), limit)
		if err != nil || string(body.B) != "x" {
			t.Errorf("got %v, %v", body, err)
		}
	})
	t.Run("empty", func(t *testing.T) {
		if _, err := DecodeBody(http.Header{"Content-Encoding": {"gzip"}}, asBuffer(nil), limit); err != nil {
			t.Errorf("an answer to HEAD: %v", err)
		}
	})
}
