package hosted_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// startTraced starts a site that hosts agents, with tracing before all other handlers.
func startTraced(s *sitetest.HostedSite, block string) *sitetest.SpanCollector {
	s.T.Helper()
	spans := sitetest.CollectSpans(s.T)
	s.Start(sitetest.JobsGlobal, sitetest.Tracing+block)
	return spans
}

// TestTracing_hosted wants the spans of a run, of its requests to the model and of its tool calls below the
// request that started it.
func TestTracing_hosted(t *testing.T) {
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", tripAgent), sitetest.Play(sitetest.Calls("get-trip", `{"id":"secret-7"}`), modelserver.Step{Text: "secret-text"}))
	spans := startTraced(s, s.Block(""))
	location := s.Begin("ann", "desk", "secret-input", "Traceparent", sitetest.ClientParent)
	if v := s.State("ann", location); v.Status != "complete" {
		t.Fatalf("state %+v", v)
	}
	client, run := spans.Span("POST /agents/desk"), spans.Span("invoke_agent desk")
	if client.Trace != sitetest.ClientTrace || client.Parent != sitetest.ClientSpan {
		t.Errorf("the HTTP request is below %s of %s, want the client's span", client.Parent, client.Trace)
	}
	run.Below(t, client)
	run.Has(t, map[string]string{
		"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk",
		"gen_ai.conversation.id": strings.TrimPrefix(location, "/engagements/"), "error.type": "",
	})
	for _, chat := range spans.Named("chat test", 2) {
		chat.Below(t, run)
		chat.Has(t, map[string]string{"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "test", "error.type": ""})
		if chat.Attributes["gen_ai.usage.input_tokens"] == "" || chat.Attributes["gen_ai.usage.output_tokens"] == "" {
			t.Errorf("the request to the model has no tokens: %v", chat.Attributes)
		}
	}
	call, request := spans.Span("execute_tool getTrip"), spans.Span("GET /trips/{id}")
	call.Below(t, run)
	request.Below(t, call)
	if e := call.Event(t, "fairway.agent.decision"); e["gen_ai.agent.name"] != "desk" || e["fairway.decision"] != "allowed" {
		t.Errorf("the decision is %v", e)
	}
	if got, want := s.API.Received()[0].Header.Get("Traceparent"), "00-"+sitetest.ClientTrace+"-"+request.ID+"-01"; got != want {
		t.Errorf("the API got traceparent %q, want %q", got, want)
	}
	spans.Without("secret")
}

// TestTracing_hosted_after_a_reload wants a run that goes on after a reload to stay in its trace.
func TestTracing_hosted_after_a_reload(t *testing.T) {
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", "  create-trip: {user_identity: false, input_restriction: {require_review: boss}}\n"),
		sitetest.Play(sitetest.Calls("create-trip", `{"to":"secret"}`), modelserver.Step{Text: "Done."}))
	block := s.Block("reviews /reviews")
	spans := startTraced(s, block)
	location := s.Begin("ann", "desk", "Go", "Traceparent", sitetest.ClientParent)
	if v := s.State("ann", location); v.Status != "awaiting-verification" {
		t.Fatalf("state %+v", v)
	}
	if err := s.Load(sitetest.JobsGlobal, sitetest.Tracing+block); err != nil {
		t.Fatal(err)
	}
	sitetest.ReviewsOf(s.Site).DecideAll("approve")
	sitetest.Eventually(t, "the end of the run", func() bool { return s.State("ann", location).Status == "complete" })
	if err := caddy.Stop(); err != nil { // exports what is left
		t.Fatal(err)
	}
	client, allowed := spans.Span("POST /agents/desk"), 0
	byID := make(map[string]testkit.Span)
	for _, span := range spans.All() {
		byID[span.ID] = span
	}
	// A reload may make the run look once more whether the review is decided.
	parents := map[string]string{"invoke_agent desk": client.GetName(), "chat test": "invoke_agent desk", "execute_tool createTrip": "invoke_agent desk", "POST /trips": "execute_tool createTrip"}
	seen := make(map[string]int)
	for _, span := range byID {
		want, ok := parents[span.GetName()]
		if !ok {
			continue
		}
		if seen[span.GetName()]++; span.Trace != sitetest.ClientTrace || byID[span.Parent].GetName() != want {
			t.Errorf("%q is below %q, want %q", span.GetName(), byID[span.Parent].GetName(), want)
		}
		if span.GetName() == "execute_tool createTrip" && span.Event(t, "fairway.agent.decision")["fairway.decision"] == "allowed" {
			allowed++
		}
	}
	if seen["chat test"] != 2 || allowed != 1 {
		t.Errorf("got %d requests of the model and %d allowed calls, want 2 and 1: %v", seen["chat test"], allowed, seen)
	}
	if seen["invoke_agent desk"] < 2 || seen["POST /trips"] < 2 {
		t.Errorf("got %d spans of the agent and %d of requests to the API, want 2 or more: %v", seen["invoke_agent desk"], seen["POST /trips"], seen)
	}
	spans.Without("secret")
}

// TestTracing_hosted_start wants a start without requests to export no spans.
func TestTracing_hosted_start(t *testing.T) {
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", tripAgent), sitetest.Play())
	spans := startTraced(s, s.Block(""))
	if err := caddy.Stop(); err != nil { // exports what is left
		t.Fatal(err)
	}
	if all := spans.All(); len(all) != 0 {
		t.Errorf("%d spans were exported, the first is %v", len(all), all[0])
	}
}

// TestTracing_hosted_without wants a run whose request has no span to have none.
func TestTracing_hosted_without(t *testing.T) {
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", tripAgent), sitetest.Play(sitetest.Calls("get-trip", `{"id":"7"}`), modelserver.Step{Text: "Done."}))
	spans := sitetest.CollectSpans(t)
	s.Start(sitetest.JobsGlobal, s.Block(""))
	if v := s.State("ann", s.Begin("ann", "desk", "Go", "Traceparent", sitetest.ClientParent)); v.Status != "complete" {
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
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", tripAgent), sitetest.Play(modelserver.Step{Status: http.StatusTooManyRequests}))
	spans := startTraced(s, s.Block(""))
	if v := s.State("ann", s.Begin("ann", "desk", "Go")); v.Status != "error" {
		t.Fatalf("state %+v", v)
	}
	spans.Span("chat test").Has(t, map[string]string{"error.type": "rate_limited"})
	spans.Span("invoke_agent desk").Has(t, map[string]string{"error.type": "model"})
}

// TestTracing_called_agents wants the run of an agent that another one calls below the run of that one.
func TestTracing_called_agents(t *testing.T) {
	s := sitetest.NewManaged(t, "", "")
	spans := startTraced(s, s.Block("reviews /reviews"))
	if v := s.State("ann", s.Begin("ann", "manager", "Go")); v.Status != "complete" {
		t.Fatalf("state %+v", v)
	}
	first := spans.Named("invoke_agent manager", 2)[0] // one until it waits for the clerk, one from then on
	clerk := spans.Span("invoke_agent clerk")
	clerk.Below(t, first)
	spans.Span("execute_tool createTrip").Below(t, clerk)
}

// TestTracing_remote_agents wants the HTTP request of an agent on another server below the call of it.
func TestTracing_remote_agents(t *testing.T) {
	s := newTwoSites(t, sitetest.Play(sitetest.Calls("helper", `{"input":"secret"}`), modelserver.Step{Text: "Done."}), sitetest.Play(modelserver.Step{Text: "On time."}))
	spans := sitetest.CollectSpans(t)
	s.desk.Before, s.helper.Before = sitetest.Tracing, sitetest.Tracing
	if err := s.start(sitetest.AgentDocument("desk", "\n  oagent://"+s.helperHost+"/agents/helper: {}\n"), sitetest.AgentDocument("helper", tripAgent), "allow_private_addresses"); err != nil {
		t.Fatal(err)
	}
	if v := s.run(t); v.Status != "complete" {
		t.Fatalf("state %+v", v)
	}
	both, client := spans.Named("invoke_agent helper", 2), spans.Span("POST /agents/helper")
	call, run := both[0], both[1]
	client.Below(t, call)
	run.Below(t, client)
	call.Has(t, map[string]string{"gen_ai.agent.name": "helper", "error.type": ""})
	spans.Without("secret")
}

// TestTracing_exposed_agent wants the run of an agent that a client calls as a tool below the call.
func TestTracing_exposed_agent(t *testing.T) {
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", tripAgent), sitetest.Play(modelserver.Step{Text: "Done."}))
	spans := startTraced(s, exposedBlock(s, bothEndpoints, ""))
	if got := callAgent(s.Site, "ann", "{}", "desk", "secret"); got.IsError {
		t.Fatalf("result %+v", got)
	}
	spans.Span("invoke_agent desk").Below(t, spans.Span("tools/call desk"))
	spans.Without("secret")
}

// TestTracing_reviewing_agent wants the decision of an agent's program as an event of the request to the
// program, which belongs to the trace of the call.
func TestTracing_reviewing_agent(t *testing.T) {
	for name, c := range map[string]struct {
		answer           http.HandlerFunc
		decision, failed string
	}{
		"approves": {sitetest.Saying(200, sitetest.Approving), "approve", ""},
		"denies":   {sitetest.Saying(200, `{"decision":"deny"}`), "deny", ""},
		"later":    {sitetest.Saying(202, ""), "later", ""},
		"none":     {sitetest.Saying(500, ""), "", "none"},
	} {
		t.Run(name, func(t *testing.T) {
			spans := sitetest.CollectSpans(t)
			s := sitetest.NewAskedSiteWith(t, sitetest.Tracing, sitetest.AskedAgents, "off", c.answer)
			s.Create("secret")
			client, request := spans.Span("POST /trips"), firstSpan(t, spans, "invoke_agent supervisor")
			request.Below(t, client)
			request.Has(t, map[string]string{"gen_ai.agent.name": "supervisor", "gen_ai.operation.name": "invoke_agent", "error.type": c.failed})
			if got, want := s.Program.Asked()[0].Header.Get("Traceparent"), "00-"+client.Trace+"-"+request.ID+"-01"; got != want {
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
func firstSpan(t *testing.T, spans *sitetest.SpanCollector, name string) (first testkit.Span) {
	t.Helper()
	sitetest.Eventually(t, "a span "+name, func() bool {
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
func wantGuardrail(t *testing.T, spans *sitetest.SpanCollector, parent testkit.Span, tool, request, agent, decision, rule string) {
	t.Helper()
	call, sent := spans.Span("execute_tool "+tool), spans.Span(request)
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
		spans := sitetest.CollectSpans(t)
		s := sitetest.ChattingWith(t, sitetest.Tracing, sitetest.Guardrailed, "")
		s.SaysText("application/json", says)
		if a := s.Ask("/v1/chat/completions", fmt.Sprintf(asks, "")); a.Status != http.StatusOK {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		client := spans.Span("POST /v1/chat/completions")
		wantGuardrail(t, spans, client, "checkInput", "POST /in", "helper", "allowed", "")
		wantGuardrail(t, spans, client, "checkOutput", "POST /out", "helper", "allowed", "")
		for _, name := range []string{"POST /in", "POST /out"} {
			want := "00-" + client.Trace + "-" + spans.Span(name).ID + "-01"
			if got := traceparent(s.Checker, strings.TrimPrefix(name, "POST ")); got != want {
				t.Errorf("the request %s has traceparent %q, want %q", name, got, want)
			}
		}
		spans.Without("secret")
		spans.Without("k1") // the credential
	})
	t.Run("refused", func(t *testing.T) {
		spans := sitetest.CollectSpans(t)
		s := sitetest.ChattingWith(t, sitetest.Tracing, sitetest.Guardrailed, "")
		if a := s.Ask("/v1/chat/completions", fmt.Sprintf(asks, "forbidden")); a.Status != http.StatusForbidden {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		wantGuardrail(t, spans, spans.Span("POST /v1/chat/completions"), "checkInput", "POST /in", "helper", "guardrail", "guardrails.input.assertion")
		spans.Without("secret")
	})
	t.Run("tool fails", func(t *testing.T) {
		spans := sitetest.CollectSpans(t)
		s := sitetest.ChattingWith(t, sitetest.Tracing, sitetest.Guardrailed, "")
		s.Down.Store(true)
		if a := s.Ask("/v1/chat/completions", fmt.Sprintf(asks, "")); a.Status != http.StatusServiceUnavailable {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		spans.Span("execute_tool checkInput").Has(t, map[string]string{"error.type": "api_error"})
		spans.Span("POST /in").Has(t, map[string]string{"error.type": "500", "http.response.status_code": "500"})
		spans.Without("secret")
	})
	t.Run("tool is away", func(t *testing.T) {
		spans := sitetest.CollectSpans(t)
		s := sitetest.ChattingWith(t, sitetest.Tracing, sitetest.Guardrailed, "")
		s.Checker.Close()
		if a := s.Ask("/v1/chat/completions", fmt.Sprintf(asks, "")); a.Status != http.StatusServiceUnavailable {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		for _, name := range []string{"execute_tool checkInput", "POST /in"} {
			spans.Span(name).Has(t, map[string]string{"error.type": "unreachable", "http.response.status_code": ""})
		}
		spans.Without("secret")
	})
}

// TestTracing_guardrails_of_a_hosted_agent wants the calls of the tools below the run.
func TestTracing_guardrails_of_a_hosted_agent(t *testing.T) {
	checker := sitetest.NewChecker(t)
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", tripAgent)+"guardrails:\n  input: {tool_name: check-input, assertion: output.safe}\n  output: {tool_name: check-output, assertion: output.safe}\n",
		sitetest.Play(modelserver.Step{Text: "secret forbidden"}))
	s.Write("checks.yaml", fmt.Sprintf(sitetest.Checks, checker.URL))
	spans := sitetest.CollectSpans(t)
	s.Start("agents {\n\ttoolset checks DIR/checks.yaml\n\tstore bolt DIR/store.db\n}", sitetest.Tracing+s.Block(""))
	if v := s.State("ann", s.Begin("ann", "desk", "secret")); v.Error == nil || v.Error.Kind != "guardrail" {
		t.Fatalf("state %+v", v)
	}
	run := spans.Span("invoke_agent desk")
	wantGuardrail(t, spans, run, "checkInput", "POST /in", "desk", "allowed", "")
	wantGuardrail(t, spans, run, "checkOutput", "POST /out", "desk", "guardrail", "guardrails.output.assertion")
	spans.Without("secret")
}

// TestTracing_guardrails_of_a_reviewing_agent wants the calls of the tools below the request to the agent's program.
func TestTracing_guardrails_of_a_reviewing_agent(t *testing.T) {
	checker, spans := sitetest.NewChecker(t), sitetest.CollectSpans(t)
	agents := sitetest.AskedAgents + "guardrails:\n  input: {tool_name: check-input, assertion: output.safe}\n  output: {tool_name: check-output, assertion: output.safe}\n"
	s := sitetest.NewAskedSiteWith(t, sitetest.Tracing, agents, "30s", sitetest.Saying(200, sitetest.Approving))
	s.Write("checks.yaml", fmt.Sprintf(sitetest.Checks, checker.URL))
	if err := s.Load(sitetest.AskedGlobal, sitetest.Tracing+s.Block("31s")); err != nil {
		t.Fatal(err)
	}
	if a := s.Create("secret"); a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	asked := spans.Span("invoke_agent supervisor")
	asked.Below(t, spans.Span("POST /trips"))
	wantGuardrail(t, spans, asked, "checkInput", "POST /in", "supervisor", "allowed", "")
	wantGuardrail(t, spans, asked, "checkOutput", "POST /out", "supervisor", "allowed", "")
	spans.Without("secret")
}

// traceparent returns that of the latest request to a tool.
func traceparent(c *sitetest.Checker, path string) string {
	parent, _ := c.Parents.Load(path)
	text, _ := parent.(string)
	return text
}
