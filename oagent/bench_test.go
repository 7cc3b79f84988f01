package oagent_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent"
)

// BenchmarkGuardedCall measures one call with two assertions, recorded in the embedded store.
// 32 callers alternate between 32 Engagements, as in benchmarks/guarded.go.
func BenchmarkGuardedCall(b *testing.B) {
	const engagements = 32
	a := agent(b, `
capabilities:
  read-item:
    input_restriction: {assertion: history._total < 1000000 && recent.read-item.inputs.item_id != "13"}
    output_restriction: {assertion: recent.read-item.outputs.stock > 0}
`)
	g, err := oagent.NewGuard(oagent.GuardOptions{Store: openBolt(b)})
	if err != nil {
		b.Fatal(err)
	}
	var calls atomic.Int64
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		inputs := jsontext.Value(`{"item_id":"42","currency":"CHF"}`)
		outputs := jsontext.Value(`{"id":"sku-42","name":"A thing to be sold","price":{"amount":1290,"currency":"CHF"},"tags":["a","b","c"],"stock":17}`)
		for pb.Next() {
			c := oagent.Call{Binding: oagent.Binding{Agent: a, Engagement: fmt.Sprint("e", calls.Add(1)%engagements)}, Name: "read-item", Inputs: inputs}
			ticket, err := g.Begin(b.Context(), c)
			if err != nil {
				b.Fatal(err)
			}
			if err := ticket.Finish(b.Context(), outputs, 200); err != nil {
				b.Fatal(err)
			}
		}
	})
}
