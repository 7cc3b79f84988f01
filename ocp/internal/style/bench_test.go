package style_test

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/ocp/internal/style"
)

var hotCalls = []struct {
	name  string
	param style.Param
	value string
}{
	{"path", style.Param{Name: "id", In: style.Path}, `"a8098c1a-f86e-11da-bd1a-00112444be1e"`},
	{"query", style.Param{Name: "q", In: style.Query, Explode: true}, `"light blue"`},
	{"escapes", style.Param{Name: "q", In: style.Query, Explode: true}, `"light \"blue\" \u00e9"`},
	{"array", style.Param{Name: "color", In: style.Query, Explode: true}, colors},
	{"list", style.Param{Name: "color", In: style.Query, Style: style.PipeDelimited}, colors},
	{"deepObject", style.Param{Name: "f", In: style.Query, Style: style.DeepObject}, `{"created":{"gt":1,"lt":2},"ids":["a","b"]}`},
	{"json", style.Param{Name: "f", In: style.Query, ContentType: "application/json"}, `{"a": 1, "b": [1, 2]}`},
	{"header", style.Param{Name: "X-Request-Id", In: style.Header}, `"a8098c1a"`},
	{"cookie", style.Param{Name: "theme", In: style.Cookie}, `"dark"`},
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
