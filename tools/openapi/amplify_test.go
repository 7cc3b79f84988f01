package openapi

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// amplified are small documents that would cost their size squared, as many
// operations share one large part by $ref or one list is long.
func amplified() map[string]string {
	paths := func(n int, item string) string {
		b := &strings.Builder{}
		for i := range n {
			fmt.Fprintf(b, `"/p%d":%s,`, i, item)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	list := func(n int, format string) string {
		b := &strings.Builder{}
		for i := range n {
			fmt.Fprintf(b, format+",", i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	doc := func(head, paths, rest string) string {
		return `{` + head + `,"info":{},"paths":{` + paths + `}` + rest + `}`
	}
	const three, two = `"openapi":"3.0.0"`, `"swagger":"2.0"`
	item := `{"$ref":"#/x"}`
	operation := `{"get":{"$ref":"#/x"}}`
	parameters := `"parameters":[` + list(20_000, `{"name":"n%d","in":"query"}`) + `]`
	return map[string]string{
		"one-long-parameter-list": doc(three, `"/a":{"get":{`+parameters+`}}`, ``),
		"shared-parameter-list":   doc(three, paths(20_000, item), `,"x":{"get":{},"put":{},`+parameters+`}`),
		"shared-description":      doc(three, paths(20_000, operation), `,"x":{"description":"`+strings.Repeat("d", 1<<20)+`"}`),
		"shared-responses":        doc(three, paths(20_000, operation), `,"x":{"responses":{"200":{"content":{`+list(20_000, `"a/b%d":{}`)+`}}}}`),
		"shared-security":         doc(three, paths(20_000, operation), `,"x":{"security":[`+list(20_000, `{"s%d":[]}`)+`]}`),
		"shared-members":          doc(three, paths(100_000, item), `,"x":{`+list(100_000, `"x-%d":1`)+`}`),
		"shared-long-ref":         doc(three, paths(20_000, operation), `,"x":{"parameters":[{"$ref":"#/`+strings.Repeat("r", 1<<20)+`"}]}`),
		"shared-server":           doc(three, paths(20_000, operation), `,"x":{"servers":[{"url":"/`+strings.Repeat("{v}", 300_000)+`","variables":{"v":{"default":"`+strings.Repeat("v", 1<<20)+`"}}}]}`),
		"swagger-produces":        doc(two, `"/a":{"get":{"responses":{`+list(400, `"%d":{"schema":{}}`)+`}}},`+paths(2_000, `{"get":{"$ref":"#/x"}}`), `,"produces":[`+list(20_000, `"a/b%d"`)+`],"x":{"responses":{"200":{"schema":{}},"201":{"schema":{}}}}`),
		"many-names-in-a-path":    doc(three, `"/`+list(300_000, `{n%d}`)+`":{"get":{}}`, ``),
	}
}

func TestAmplification_is_bounded(t *testing.T) {
	for rule, source := range amplified() {
		t.Run(rule, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			operations := readText(t, source).Operations()
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			allocated := (after.TotalAlloc - before.TotalAlloc) >> 20
			t.Logf("%d KB: %d operations in %v, %d MB", len(source)>>10, len(operations), took, allocated)
			if last := operations[len(operations)-1]; strings.HasPrefix(rule, "shared-desc") && !errors.Is(last.Err, errTooMuch) {
				t.Errorf("the last operation does not represent the rest: %v", last.Err)
			}
			// Squared it would be hours, or many times the memory.
			if took > testkit.Patience || allocated > 1500 {
				t.Errorf("took %v and %d MB", took, allocated)
			}
		})
	}
}
