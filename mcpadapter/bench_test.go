package mcpadapter

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

// A sink is a ResponseWriter that costs nothing.
type sink struct {
	header http.Header
	status int
	size   int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(p []byte) (int, error) { s.size += len(p); return len(p), nil }

type rewound struct{ *bytes.Reader }

func (rewound) Close() error { return nil }

// serve measures the adapter alone: the request is ready, the answer is
// thrown away.
func serve(b *testing.B, r testRequest, toolset *tools.Toolset) {
	server := New(Options{})
	post := httptest.NewRequest(http.MethodPost, "http://api.example.com/mcp", nil)
	post.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		versionHeader: {r.version.String()},
	}
	for name, value := range r.header {
		post.Header[name] = []string{value}
	}
	body := []byte(r.body)
	reader := rewound{bytes.NewReader(body)}
	post.Body, post.ContentLength = io.NopCloser(reader), int64(len(body))
	w := &sink{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		reader.Reset(body)
		clear(w.header)
		w.size = 0
		server.ServeHTTP(w, post, siteOf(toolset, r.caller))
	}
	if w.status != http.StatusOK {
		b.Fatalf("status %d", w.status)
	}
	b.SetBytes(int64(w.size))
	b.ReportMetric(float64(w.size), "response-bytes")
}

// BenchmarkToolsCall is a call that costs nothing itself, answered with a few
// bytes of JSON and with 1.5 KB.
func BenchmarkToolsCall(b *testing.B) {
	train := `{"id":"b4e2","origin":"Zürich","price":42.5}`
	for size, body := range map[string]string{
		"small": train,
		"1.5KB": `{"data":[` + strings.Repeat(train+",", 31) + train + `]}`,
	} {
		for _, v := range []protocol.Revision{protocol.V20250326, protocol.V20251125, protocol.V20260728} {
			b.Run(size+"/"+v.String(), func(b *testing.B) {
				r := conformant(v, "tools/call", `"name":"get_trip","arguments":{"id":"b4e2b1a0-8f14-4d2c-9a43-111111111111","limit":10}`)
				r.caller = returning(answered(http.StatusOK, "application/json", body))
				serve(b, r, trains())
			})
		}
	}
}

// BenchmarkToolsList is the list of 1,000 tools.
func BenchmarkToolsList(b *testing.B) {
	for _, v := range []protocol.Revision{protocol.V20251125, protocol.V20260728} {
		b.Run(v.String(), func(b *testing.B) {
			serve(b, conformant(v, "tools/list", ""), many(1000, "h"))
		})
	}
}

// BenchmarkToolsListOverHTTP puts the list beside a handler that does nothing
// but write the same bytes.
func BenchmarkToolsListOverHTTP(b *testing.B) {
	toolset, server := many(1000, "h"), New(Options{})
	r := conformant(protocol.V20260728, "tools/list", "")
	r.server, r.tools = server, toolset
	same := r.Send(b).Body.Bytes()
	for name, handler := range map[string]http.HandlerFunc{
		"mcp": func(w http.ResponseWriter, r *http.Request) { server.ServeHTTP(w, r, siteOf(toolset, echo)) },
		"bytes": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", strconv.Itoa(len(same)))
			_, _ = w.Write(same)
		},
	} {
		b.Run(name, func(b *testing.B) {
			site := httptest.NewServer(handler)
			defer site.Close()
			b.SetBytes(int64(len(same)))
			for b.Loop() {
				post, _ := http.NewRequest(http.MethodPost, site.URL, strings.NewReader(r.body))
				post.Header = http.Header{"Content-Type": {"application/json"}, versionHeader: {r.version.String()}, methodHeader: {"tools/list"}}
				answer, err := site.Client().Do(post)
				if err != nil {
					b.Fatal(err)
				}
				if n, _ := io.Copy(io.Discard, answer.Body); n != int64(len(same)) {
					b.Fatalf("%d bytes, want %d", n, len(same))
				}
				_ = answer.Body.Close()
			}
		})
	}
}
