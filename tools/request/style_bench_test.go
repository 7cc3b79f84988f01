package request_test

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/tools/request"
)

var hotCalls = []struct {
	name  string
	param request.Param
	value string
}{
	{"path", request.Param{Name: "id", In: request.Path}, `"a8098c1a-f86e-11da-bd1a-00112444be1e"`},
	{"query", request.Param{Name: "q", In: request.Query, Explode: true}, `"light blue"`},
	{"escapes", request.Param{Name: "q", In: request.Query, Explode: true}, `"light \"blue\" \u00e9"`},
	{"array", request.Param{Name: "color", In: request.Query, Explode: true}, colors},
	{"list", request.Param{Name: "color", In: request.Query, Style: request.PipeDelimited}, colors},
	{"deepObject", request.Param{Name: "f", In: request.Query, Style: request.DeepObject}, `{"created":{"gt":1,"lt":2},"ids":["a","b"]}`},
	{"json", request.Param{Name: "f", In: request.Query, ContentType: "application/json"}, `{"a": 1, "b": [1, 2]}`},
	{"header", request.Param{Name: "X-Request-Id", In: request.Header}, `"a8098c1a"`},
	{"cookie", request.Param{Name: "theme", In: request.Cookie}, `"dark"`},
}

// TestAppendAllocates: a parameter costs no allocation where dst has room.
func TestAppendAllocates(t *testing.T) {
	dst := make([]byte, 0, 1024)
	for _, c := range hotCalls {
		s, value := must(t, c.param), jsontext.Value(c.value)
		allocs := testing.AllocsPerRun(100, func() {
			if _, err := s.Append(dst, value); err != nil {
				t.Fatal(err)
			}
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations", c.name, allocs)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	dst := make([]byte, 0, 1024)
	for _, c := range hotCalls {
		b.Run(c.name, func(b *testing.B) {
			s, value := must(b, c.param), jsontext.Value(c.value)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Append(dst, value); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
