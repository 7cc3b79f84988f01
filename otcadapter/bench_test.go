package otcadapter

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/tools"
)

func pooledResult(body string) *tools.Result {
	b := buffer.Get()
	b.B = append(b.B, body...)
	result := jsonResult("")
	result.Memory, result.Body = b, b.B
	return result
}

// discard is a ResponseWriter that keeps nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

func BenchmarkCall(b *testing.B) {
	for _, size := range []struct {
		name string
		body string
	}{
		{"answer=200B", `{"text":"` + strings.Repeat("x", 188) + `"}`},
		{"answer=20KB", `{"text":"` + strings.Repeat("x", 20_000) + `"}`},
	} {
		b.Run(size.name, func(b *testing.B) {
			s, toolset := New(Options{}), calculator()
			result := jsonResult(size.body)
			caller := callerFunc(func(context.Context, string, []byte) tools.Outcome { return tools.Outcome{Result: result} })
			body := []byte(`{"request":{"call_id":"123e4567-e89b-12d3-a456-426614174000","tool_id":"Calculator.Add@1.0.0","input":{"a":1,"b":2}}}`)
			reader := bytes.NewReader(body)
			request := httptest.NewRequest("POST", "/call", nil)
			request.Header.Set("Content-Type", "application/json")
			request.Body = io.NopCloser(reader)
			w := discard{http.Header{}}
			site := siteOf(toolset, caller)
			b.ReportAllocs()
			for b.Loop() {
				reader.Reset(body)
				s.ServeHTTP(w, request, "/call", site)
			}
		})
	}
}

func BenchmarkTools(b *testing.B) {
	s, toolset := New(Options{}), calculator()
	request := httptest.NewRequest("GET", "/tools", nil)
	w := discard{http.Header{}}
	site := siteOf(toolset, nil)
	b.ReportAllocs()
	for b.Loop() {
		s.ServeHTTP(w, request, "/tools", site)
	}
}

// BenchmarkIdempotency is a call with a call_id of its own, kept in the embedded store.
func BenchmarkIdempotency(b *testing.B) {
	for _, t := range []string{"guess", "Add"} { // idempotent by its method, and not
		b.Run(t, func(b *testing.B) {
			s, toolset := New(Options{Idempotency: recordIn(openBolt(b, filepath.Join(b.TempDir(), "s")))}), calculator()
			result := jsonResult(`{"text":"` + strings.Repeat("x", 188) + `"}`)
			site := siteOf(toolset, callerFunc(func(context.Context, string, []byte) tools.Outcome { return tools.Outcome{Result: result} }))
			b.SetParallelism(16)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				w := discard{http.Header{}}
				for pb.Next() {
					body := `{"request":{"call_id":"` + rand.Text() + `","tool_id":"Calculator.` + t + `@1.0.0","input":{"a":1,"b":2}}}`
					request := httptest.NewRequest("POST", "/call", strings.NewReader(body))
					request.Header.Set("Content-Type", "application/json")
					s.ServeHTTP(w, request, "/call", site)
				}
			})
		})
	}
}
