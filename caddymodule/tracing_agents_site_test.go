package caddymodule_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/modelserver"
	"github.com/fairwayhq/fairway/internal/otlptest"
)

// startTraced starts a site that hosts agents, with tracing before all other handlers.
func (s *hostedSite) startTraced(block string) *spanCollector {
	s.t.Helper()
	spans := collectSpans(s.t)
	s.start(jobsGlobal, tracing+block)
	return spans
}

// TestTracing_hosted wants the spans of a run, of its requests to the model and of its tool calls below the
// request that started it.
func TestTracing_hosted(t *testing.T) {
	s := newHostedSite(t, agentDocument("desk", tripAgent), play(calls("get-trip", `{"id":"secret-7"}`), modelserver.Step{Text: "secret-text"}))
	spans := s.startTraced(s.block(""))
	location := s.begin("ann", "desk", "secret-input", "Traceparent", clientParent)
	if v := s.state("ann", location); v.Status != "complete" {
		t.Fatalf("state %+v", v)
	}
	http, run := spans.span("POST /agents/desk"), spans.span("invoke_agent desk")
	if http.Trace != clientTrace || http.Parent != clientSpan {
		t.Errorf("the HTTP request is below %s of %s, want the client's span", http.Parent, http.Trace)
	}
	run.Below(t, http)
	run.Has(t, map[string]string{
		"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk",
		"gen_ai.conversation.id": strings.TrimPrefix(location, "/engagements/"), "error.type": "",
	})
	for _, chat := range spans.named("chat test", 2) {
		chat.Below(t, run)
		chat.Has(t, map[string]string{"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "test", "error.type": ""})
		if chat.Attributes["gen_ai.usage.input_tokens"] == "" || chat.Attributes["gen_ai.usage.output_tokens"] == "" {
			t.Errorf("the request to the model has no tokens: %v", chat.Attributes)
		}
	}
	call, request := spans.span("execute_tool getTrip"), spans.span("GET /trips/{id}")
	call.Below(t, run)
	request.Below(t, call)
	if e := call.Event(t, "fairway.agent.decision"); e["gen_ai.agent.name"] != "desk" || e["fairway.decision"] != "allowed" {
		t.Errorf("the decision is %v", e)
	}
	if got, want := s.api.received()[0].Header.Get("Traceparent"), "00-"+clientTrace+"-"+request.ID+"-01"; got != want {
		t.Errorf("the API got traceparent %q, want %q", got, want)
	}
	spans.Without("secret")
}

// TestTracing_hosted_after_a_reload wants a run that goes on after a reload to stay in its trace.
func TestTracing_hosted_after_a_reload(t *testing.T) {
	s := newHostedSite(t, agentDocument("desk", "  create-trip: {user_identity: false, input_restriction: {require_review: boss}}\n"),
		play(calls("create-trip", `{"to":"secret"}`), modelserver.Step{Text: "Done."}))
	block := s.block("reviews /reviews")
	spans := s.startTraced(block)
	location := s.begin("ann", "desk", "Go", "Traceparent", clientParent)
	if v := s.state("ann", location); v.Status != "awaiting-verification" {
		t.Fatalf("state %+v", v)
	}
	if err := s.load(jobsGlobal, tracing+block); err != nil {
		t.Fatal(err)
	}
	s.decideAll("approve")
	eventually(t, "the end of the run", func() bool { return s.state("ann", location).Status == "complete" })
	if err := caddy.Stop(); err != nil { // exports what is left
		t.Fatal(err)
	}
	http, allowed := spans.span("POST /agents/desk"), 0
	byID := make(map[string]otlptest.Span)
	for _, span := range spans.All() {
		byID[span.ID] = span
	}
	// A reload may make the run look once more whether the review is decided.
	parents := map[string]string{"invoke_agent desk": http.GetName(), "chat test": "invoke_agent desk", "execute_tool createTrip": "invoke_agent desk", "POST /trips": "execute_tool createTrip"}
	seen := make(map[string]int)
	for _, span := range byID {
		want, ok := parents[span.GetName()]
		if !ok {
			continue
		}
		if seen[span.GetName()]++; span.Trace != clientTrace || byID[span.Parent].GetName() != want {
			t.Errorf("%q is below %q, want %q", span.GetName(), byID[span.Parent].GetName(), want)
		}
		if span.GetName() == "execute_tool createTrip" && span.Event(t, "fairway.agent.decision")["fairway.decision"] == "allowed" {
			allowed++
		}
	}
	if seen["invoke_agent desk"] < 2 || seen["chat test"] != 2 || seen["POST /trips"] < 2 || allowed != 1 {
		t.Errorf("the spans are %v, %d calls are allowed", seen, allowed)
	}
	spans.Without("secret")
}

// TestTracing_hosted_start wants a start without requests to export no spans.
func TestTracing_hosted_start(t *testing.T) {
	s := newHostedSite(t, agentDocument("desk", tripAgent), play())
	spans := s.startTraced(s.block(""))
	if err := caddy.Stop(); err != nil { // exports what is left
		t.Fatal(err)
	}
	if all := spans.All(); len(all) != 0 {
		t.Errorf("%d spans were exported, the first is %v", len(all), all[0])
	}
}

// TestTracing_hosted_without wants a run whose request has no span to have none.
func TestTracing_hosted_without(t *testing.T) {
	s := newHostedSite(t, agentDocument("desk", tripAgent), play(calls("get-trip", `{"id":"7"}`), modelserver.Step{Text: "Done."}))
	spans := collectSpans(t)
	s.start(jobsGlobal, s.block(""))
	if v := s.state("ann", s.begin("ann", "desk", "Go", "Traceparent", clientParent)); v.Status != "complete" {
		t.Fatalf("state %+v", v)
	}
	if err := caddy.Stop(); err != nil { // exports what is left
		t.Fatal(err)
	}
	if all := spans.All(); len(all) != 0 {
		t.Errorf("%d spans were exported without tracing", len(all))
	}
}

// TestTracing_hosted_failures wants error.type of a request to the model and of the run that it ends.
func TestTracing_hosted_failures(t *testing.T) {
	s := newHostedSite(t, agentDocument("desk", tripAgent), play(modelserver.Step{Status: http.StatusTooManyRequests}))
	spans := s.startTraced(s.block(""))
	if v := s.state("ann", s.begin("ann", "desk", "Go")); v.Status != "error" {
		t.Fatalf("state %+v", v)
	}
	spans.span("chat test").Has(t, map[string]string{"error.type": "rate_limited"})
	spans.span("invoke_agent desk").Has(t, map[string]string{"error.type": "model"})
}

// TestTracing_called_agents wants the run of an agent that another one calls below the run of that one.
func TestTracing_called_agents(t *testing.T) {
	s := newManaged(t, "", "")
	spans := s.startTraced(s.block("reviews /reviews"))
	if v := s.state("ann", s.begin("ann", "manager", "Go")); v.Status != "complete" {
		t.Fatalf("state %+v", v)
	}
	first := spans.named("invoke_agent manager", 2)[0] // one until it waits for the clerk, one from then on
	clerk := spans.span("invoke_agent clerk")
	clerk.Below(t, first)
	spans.span("execute_tool createTrip").Below(t, clerk)
}

// TestTracing_remote_agents wants the HTTP request of an agent on another server below the call of it.
func TestTracing_remote_agents(t *testing.T) {
	s := newTwoSites(t, play(calls("helper", `{"input":"secret"}`), modelserver.Step{Text: "Done."}), play(modelserver.Step{Text: "On time."}))
	spans := collectSpans(t)
	s.desk.before, s.helper.before = tracing, tracing
	if err := s.start(agentDocument("desk", "\n  oagent://"+s.helperHost+"/agents/helper: {}\n"), agentDocument("helper", tripAgent), "allow_private_addresses"); err != nil {
		t.Fatal(err)
	}
	if v := s.run(t); v.Status != "complete" {
		t.Fatalf("state %+v", v)
	}
	both, http := spans.named("invoke_agent helper", 2), spans.span("POST /agents/helper")
	call, run := both[0], both[1]
	http.Below(t, call)
	run.Below(t, http)
	call.Has(t, map[string]string{"gen_ai.agent.name": "helper", "error.type": ""})
	spans.Without("secret")
}

// TestTracing_exposed_agent wants the run of an agent that a client calls as a tool below the call.
func TestTracing_exposed_agent(t *testing.T) {
	s := newHostedSite(t, agentDocument("desk", tripAgent), play(modelserver.Step{Text: "Done."}))
	spans := s.startTraced(s.exposedBlock(bothEndpoints, ""))
	if got := s.callAgent("ann", "{}", "desk", "secret"); got.IsError {
		t.Fatalf("result %+v", got)
	}
	spans.span("invoke_agent desk").Below(t, spans.span("tools/call desk"))
	spans.Without("secret")
}

// TestTracing_reviewing_agent wants the decision of an agent's program as an event of the request to the
// program, which belongs to the trace of the call.
func TestTracing_reviewing_agent(t *testing.T) {
	for name, c := range map[string]struct {
		answer           http.HandlerFunc
		decision, failed string
	}{
		"approves": {saying(200, approving), "approve", ""},
		"denies":   {saying(200, `{"decision":"deny"}`), "deny", ""},
		"later":    {saying(202, ""), "later", ""},
		"none":     {saying(500, ""), "", "none"},
	} {
		t.Run(name, func(t *testing.T) {
			spans := collectSpans(t)
			s := newAskedSiteWith(t, tracing, askedAgents, "off", c.answer)
			s.create("secret")
			http, request := spans.span("POST /trips"), firstSpan(t, spans, "invoke_agent supervisor")
			request.Below(t, http)
			request.Has(t, map[string]string{"gen_ai.agent.name": "supervisor", "gen_ai.operation.name": "invoke_agent", "error.type": c.failed})
			if got, want := s.program.asked()[0].header.Get("Traceparent"), "00-"+http.Trace+"-"+request.ID+"-01"; got != want {
				t.Errorf("the program got traceparent %q, want %q", got, want)
			}
			spans.Without("secret")
			if c.decision == "" {
				if len(request.GetEvents()) != 0 {
					t.Errorf("the events are %v, want none", request.GetEvents())
				}
				return
			}
			e := request.Event(t, "fairway.review")
			if e["gen_ai.agent.name"] != "desk" || e["fairway.decision"] != c.decision || e["fairway.rule"] != "capabilities.create-trip.input_restriction.require_review" {
				t.Errorf("the review is %v", e)
			}
		})
	}
}

// firstSpan waits for a span with the name, and returns the first one.
func firstSpan(t *testing.T, spans *spanCollector, name string) (first otlptest.Span) {
	t.Helper()
	eventually(t, "a span "+name, func() bool {
		for _, s := range spans.All() {
			if s.GetName() == name {
				first = s
				return true
			}
		}
		return false
	})
	return first
}

// wantGuardrail checks the spans of the call of a guardrail's tool.
func wantGuardrail(t *testing.T, spans *spanCollector, parent otlptest.Span, tool, request, agent, decision, rule string) {
	t.Helper()
	call, sent := spans.span("execute_tool "+tool), spans.span(request)
	call.Below(t, parent)
	sent.Below(t, call)
	call.Has(t, map[string]string{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, "error.type": ""})
	sent.Has(t, map[string]string{"http.response.status_code": "200", "error.type": ""})
	if e := call.Event(t, "fairway.agent.decision"); e["gen_ai.agent.name"] != agent || e["fairway.decision"] != decision || e["fairway.rule"] != rule {
		t.Errorf("the decision is %v, want %s by %s", e, decision, rule)
	}
}

// TestTracing_guardrails_of_model_traffic wants the calls of the tools below the request to the model, and the
// traceparent in their requests.
func TestTracing_guardrails_of_model_traffic(t *testing.T) {
	const asks, says = `{"model":"m","messages":[{"role":"user","content":"secret %s"}]}`, `{"choices":[{"index":0,"message":{"role":"assistant","content":"secret"}}]}`
	t.Run("passed", func(t *testing.T) {
		spans := collectSpans(t)
		s := chattingWith(t, tracing, guardrailed, "")
		s.saysText("application/json", says)
		if a := s.ask("/v1/chat/completions", fmt.Sprintf(asks, "")); a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
		http := spans.span("POST /v1/chat/completions")
		wantGuardrail(t, spans, http, "checkInput", "POST /in", "helper", "allowed", "")
		wantGuardrail(t, spans, http, "checkOutput", "POST /out", "helper", "allowed", "")
		for _, name := range []string{"POST /in", "POST /out"} {
			want := "00-" + http.Trace + "-" + spans.span(name).ID + "-01"
			if got := s.traceparent(strings.TrimPrefix(name, "POST ")); got != want {
				t.Errorf("the request %s has traceparent %q, want %q", name, got, want)
			}
		}
		spans.Without("secret")
		spans.Without("k1") // the credential
	})
	t.Run("refused", func(t *testing.T) {
		spans := collectSpans(t)
		s := chattingWith(t, tracing, guardrailed, "")
		if a := s.ask("/v1/chat/completions", fmt.Sprintf(asks, "forbidden")); a.status != http.StatusForbidden {
			t.Fatalf("%d %s", a.status, a.body)
		}
		wantGuardrail(t, spans, spans.span("POST /v1/chat/completions"), "checkInput", "POST /in", "helper", "guardrail", "guardrails.input.assertion")
		spans.Without("secret")
	})
	t.Run("tool fails", func(t *testing.T) {
		spans := collectSpans(t)
		s := chattingWith(t, tracing, guardrailed, "")
		s.down.Store(true)
		if a := s.ask("/v1/chat/completions", fmt.Sprintf(asks, "")); a.status != http.StatusServiceUnavailable {
			t.Fatalf("%d %s", a.status, a.body)
		}
		spans.span("execute_tool checkInput").Has(t, map[string]string{"error.type": "api_error"})
		spans.span("POST /in").Has(t, map[string]string{"error.type": "500", "http.response.status_code": "500"})
		spans.Without("secret")
	})
	t.Run("tool is away", func(t *testing.T) {
		spans := collectSpans(t)
		s := chattingWith(t, tracing, guardrailed, "")
		s.checker.Close()
		if a := s.ask("/v1/chat/completions", fmt.Sprintf(asks, "")); a.status != http.StatusServiceUnavailable {
			t.Fatalf("%d %s", a.status, a.body)
		}
		for _, name := range []string{"execute_tool checkInput", "POST /in"} {
			spans.span(name).Has(t, map[string]string{"error.type": "unreachable", "http.response.status_code": ""})
		}
		spans.Without("secret")
	})
}

// TestTracing_guardrails_of_a_hosted_agent wants the calls of the tools below the run.
func TestTracing_guardrails_of_a_hosted_agent(t *testing.T) {
	checker := newChecker(t)
	s := newHostedSite(t, agentDocument("desk", tripAgent)+"guardrails:\n  input: {tool_name: check-input, assertion: output.safe}\n  output: {tool_name: check-output, assertion: output.safe}\n",
		play(modelserver.Step{Text: "secret forbidden"}))
	s.write("checks.yaml", fmt.Sprintf(checks, checker.URL))
	spans := collectSpans(t)
	s.start("agents {\n\ttoolset checks DIR/checks.yaml\n\tstore bolt DIR/store.db\n}", tracing+s.block(""))
	if v := s.state("ann", s.begin("ann", "desk", "secret")); v.Error == nil || v.Error.Kind != "guardrail" {
		t.Fatalf("state %+v", v)
	}
	run := spans.span("invoke_agent desk")
	wantGuardrail(t, spans, run, "checkInput", "POST /in", "desk", "allowed", "")
	wantGuardrail(t, spans, run, "checkOutput", "POST /out", "desk", "guardrail", "guardrails.output.assertion")
	spans.Without("secret")
}

// TestTracing_guardrails_of_a_reviewing_agent wants the calls of the tools below the request to the agent's program.
func TestTracing_guardrails_of_a_reviewing_agent(t *testing.T) {
	checker, spans := newChecker(t), collectSpans(t)
	agents := askedAgents + "guardrails:\n  input: {tool_name: check-input, assertion: output.safe}\n  output: {tool_name: check-output, assertion: output.safe}\n"
	s := newAskedSiteWith(t, tracing, agents, "30s", saying(200, approving))
	s.write("checks.yaml", fmt.Sprintf(checks, checker.URL))
	if err := s.load(askedGlobal, tracing+s.block("31s")); err != nil {
		t.Fatal(err)
	}
	if a := s.create("secret"); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	asked := spans.span("invoke_agent supervisor")
	asked.Below(t, spans.span("POST /trips"))
	wantGuardrail(t, spans, asked, "checkInput", "POST /in", "supervisor", "allowed", "")
	wantGuardrail(t, spans, asked, "checkOutput", "POST /out", "supervisor", "allowed", "")
	spans.Without("secret")
}
