package detect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/inspect"
	"github.com/fairwayhq/fairway/tools/inspect/detect"
)

// largeResult returns a JSON result of about 141 KB: 600 records. One of hundred has an e-mail address, if hits is set.
func largeResult(hits bool) []byte {
	var b strings.Builder
	b.WriteString(`{"items":[`)
	for i := range 600 {
		if i > 0 {
			b.WriteByte(',')
		}
		contact := "see the account manager of the region"
		if hits && i%100 == 0 {
			contact = "mail ada@example.com about the region"
		}
		fmt.Fprintf(&b, `{"id":"550e8400-e29b-41d4-a716-4466%08d","number":%d,"status":"open","created_at":"2026-11-%02dT10:30:00Z","amount":%d.50,`+
			`"note":"The parcel waits at the depot; %s","tags":["freight","north"]}`, i, 100000+i, i%28+1, i*7, contact)
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

// BenchmarkChain measures secrets and pii on a large result. The first case is the check and copy of JSON that passing it on costs.
func BenchmarkChain(b *testing.B) {
	pii, err := detect.PII(nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	chain := inspect.Chain{
		{Name: "secrets", Inspector: detect.Detect(detect.Secrets(), false), Phases: inspect.Phases[:]},
		{Name: "pii", Inspector: detect.Detect(pii, false), Phases: inspect.Phases[:]},
	}
	for _, c := range []struct {
		name  string
		body  []byte
		chain inspect.Chain
	}{
		{"none", largeResult(false), nil},
		{"secrets", largeResult(false), chain[:1]},
		{"pii", largeResult(false), chain[1:]},
		{"both", largeResult(false), chain},
		{"both_with_hits", largeResult(true), chain},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.body)))
			b.ReportAllocs()
			var out []byte
			for b.Loop() {
				passed, _, err := c.chain.Inspect(b.Context(), inspect.Message{Phase: inspect.Result, Body: c.body, JSON: true})
				if err != nil {
					b.Fatal(err)
				}
				out, _ = strictjson.AppendChecked(out[:0], passed)
			}
		})
	}
}
