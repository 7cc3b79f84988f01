package integration

import (
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/store/storetest"
)

// TestHosted_trace_over_nodes ends the node that began a run, and lets another one finish it: one that was
// idle until then, so that no request has reached its agents. The spans of both belong to the request that
// started the run.
func TestHosted_trace_over_nodes(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*brittleNode, *testing.T){
		"stopped": (*brittleNode).stop,
		"killed":  func(n *brittleNode, _ *testing.T) { n.kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
			s := newKillSite(t)
			spans := [2]*testkit.SpanCollector{testkit.CollectSpans(t), testkit.CollectSpans(t)} // of each node
			redis, _ := storetest.Redis(t)
			s.before = "tracing {\n\t\t\tspan request\n\t\t}"
			const input = "before-model/trace"
			var nodes [2]*brittleNode
			start := func(i int) {
				s.environment = spans[i].Environment()
				nodes[i] = s.start(t.TempDir(), freeAddress(t), "redis "+redis)
			}
			start(0)
			location := nodes[0].begin(t, "buyer", input, "Traceparent", "00-"+trace+"-"+parent+"-01")
			waitFor(t, waitTimeout, "the request to the model", func() bool { return s.gates.count(input) > 0 })
			request := awaitSpan(t, spans[0], "request", trace)
			start(1) // and send nothing to its agents
			end(nodes[0], t)
			s.gates.release(input)

			run := awaitSpan(t, spans[1], "invoke_agent buyer", trace)
			run.Below(t, request)
			run.Has(t, map[string]string{"gen_ai.agent.name": "buyer", "gen_ai.conversation.id": strings.TrimPrefix(location, "/engagements/"), "error.type": ""})
			call := awaitSpan(t, spans[1], "execute_tool order", trace)
			call.Below(t, run)
			awaitSpan(t, spans[1], "chat test", trace).Below(t, run)
			awaitSpan(t, spans[1], "POST /orders", trace).Below(t, call)
			if v := nodes[1].reaches(t, location, "complete"); v.Text != "Ordered." {
				t.Errorf("state %+v", v)
			}
			for _, c := range spans {
				c.Without(input)
			}
		})
	}
}

// awaitSpan waits for a span of a trace, and returns the first one with the name.
func awaitSpan(t *testing.T, c *testkit.SpanCollector, name, trace string) (found testkit.Span) {
	t.Helper()
	waitFor(t, 3*waitTimeout, "the span "+name, func() bool {
		all := c.All()
		i := slices.IndexFunc(all, func(s testkit.Span) bool { return s.GetName() == name && s.Trace == trace })
		if i >= 0 {
			found = all[i]
		}
		return i >= 0
	})
	return found
}
