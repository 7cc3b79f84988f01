package console

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/encode"
	"github.com/klauspost/compress/gzip"
)

const (
	encodingGzip  = "gzip"
	minCompressed = 1 << 10 // bytes of a body from which it is compressed
)

// mayCompress reports whether the body of a response is compressed, as far as the request and the header decide it. A
// Content-Encoding that a handler of the site has set is left alone.
//
// The size of a compressed page may tell someone who sees the traffic whether a secret on the page equals a text that
// the request has put there (BREACH). To guess, the attacker needs many requests with chosen texts and the
// credentials of the viewer. So these responses are not compressed:
//
//   - Responses to POST and DELETE, which can have the response of an API together with the arguments of the caller.
//   - Responses to requests that a page of another site has caused (Sec-Fetch-Site).
//
// Assets have no secrets and are always compressed.
func mayCompress(header http.Header, q *request) bool {
	site := q.Header.Get("Sec-Fetch-Site")
	return q.isRead() && (site == "" || site == "same-origin" || site == "none") && acceptsGzip(header, q.Request)
}

// acceptsGzip reports whether the client accepts gzip, and no handler of the site has set an encoding.
func acceptsGzip(header http.Header, r *http.Request) bool {
	return header.Get("Content-Encoding") == "" && slices.Contains(encode.AcceptedEncodings(r, nil), encodingGzip)
}

// compressors are gzip.Writers.
var compressors = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// compressed returns a body with gzip.
func compressed(body []byte) []byte {
	w := compressors.Get().(*gzip.Writer)
	defer compressors.Put(w)
	var b bytes.Buffer
	w.Reset(&b)
	_, _ = w.Write(body) // writing to a buffer never fails
	_ = w.Close()
	return b.Bytes()
}

// asset is a file of the console.
type asset struct {
	mediaType, version string
	content, gzipped   []byte
}

// assets returns the files of the console by name. They are compressed once.
var assets = sync.OnceValue(func() map[string]asset {
	files, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic(err) // embedded
	}
	all := make(map[string]asset, len(files))
	for _, file := range files {
		content, err := assetFiles.ReadFile("assets/" + file.Name())
		mediaType := assetTypes[file.Name()[strings.LastIndexByte(file.Name(), '.'):]]
		if err == nil && mediaType != "" {
			all[file.Name()] = asset{mediaType, digest(content), content, compressed(content)}
		}
	}
	return all
})
