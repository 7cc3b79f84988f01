package route_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// tracedSite is a site with tracing, mcp, otc and a guard before an API.
type tracedSite struct {
	*sitetest.Site
	spans *sitetest.SpanCollector
	api   *sitetest.RecordingAPI
}

func newTracedSite(t *testing.T) *tracedSite {
	t.Helper()
	s := &tracedSite{Site: sitetest.NewSite(t), spans: sitetest.CollectSpans(t), api: new(sitetest.RecordingAPI)}
	s.Write("agent.yaml", sitetest.AgentDocument("desk", `
  get-trip: {user_identity: false, input_restriction: {assertion: 'recent["get-trip"].inputs.id != "secret-no"'}}
  create-trip: {user_identity: false, input_restriction: {require_review: boss}}
`))
	s.Start(sitetest.JobsGlobal, "route {\n"+sitetest.Tracing+"test_user\nmcp /mcp TRIPS {\ntask_after 10s\n}\notc TRIPS\n"+
		"oagent DIR/agent.yaml {\nreview_wait off\nreviews /reviews\nengagements /engagements\n}\nreverse_proxy "+sitetest.Upstream(t, s.api.ServeHTTP)+"\n}")
	return s
}

// callTraced calls a tool over MCP with trace contexts in the header and in _meta, "" for none.
func (s *tracedSite) callTraced(tool, arguments, header, meta string) sitetest.Result {
	s.T.Helper()
	r := s.CallRequest(tool, arguments)
	if meta != "" {
		message := fmt.Sprintf(`{"jsonrpc":"2.0","id":"q-1","method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"traceparent":%q}}}`, tool, arguments, meta)
		r.Body, r.GetBody, r.ContentLength = io.NopCloser(strings.NewReader(message)), nil, int64(len(message))
	}
	if header != "" {
		r.Header.Set("Traceparent", header)
	}
	r.Header.Set("X-Test-User", "ann")
	return s.Result(s.Do(r))
}

// A trace context that the document declares is an argument: it is sent if the call has it.
func TestTracing_arguments_of_the_trace(t *testing.T) {
	s := sitetest.NewSite(t)
	sitetest.CollectSpans(t)
	s.Write("trips.yaml", strings.Replace(sitetest.Trips, "name: X-Trace,", "name: traceparent,", 1))
	s.Start("", "route {\n"+sitetest.Tracing+"mcp DIR/trips.yaml\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo)+"\n}")
	const given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if e := s.Echo(s.CallRequest("listTrips", `{"traceparent":"`+given+`"}`)); e.Header.Get("Traceparent") != given {
		t.Errorf("sent %q", e.Header.Get("Traceparent"))
	}
	if e := s.Echo(s.CallRequest("listTrips", `{}`)); e.Header.Get("Traceparent") == "" {
		t.Error("without the argument, the gateway's trace is not sent")
	}
}

// TestTracing_one_tree calls a tool of a traced site, and wants the exported spans to be one tree below the
// span of the client.
func TestTracing_one_tree(t *testing.T) {
	for name, c := range map[string]struct {
		header, meta string
		below        bool // the HTTP request: the call is its child
	}{
		"header":          {sitetest.ClientParent, "", true},
		"meta":            {"", sitetest.ClientParent, false},
		"header and meta": {sitetest.ClientParent, sitetest.ClientParent, false},
		"neither":         {"", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTracedSite(t)
			got := s.callTraced("getTrip", `{"id":"secret-7"}`, c.header, c.meta)
			if got.IsError {
				t.Fatalf("the call failed: %s", got.Text())
			}
			client, call, request := s.spans.Span("POST /mcp"), s.spans.Span("tools/call getTrip"), s.spans.Span("GET /trips/{id}")
			if c.header != "" && (client.Trace != sitetest.ClientTrace || client.Parent != sitetest.ClientSpan) {
				t.Errorf("the HTTP request is below %s of %s, want the client's span", client.Parent, client.Trace)
			}
			if c.below {
				call.Below(t, client)
			} else if call.Trace != sitetest.ClientTrace || call.Parent != sitetest.ClientSpan {
				t.Errorf("the call is below %s of %s, want the client's span", call.Parent, call.Trace)
			}
			if linked := len(call.GetLinks()) == 1 && hex.EncodeToString(call.GetLinks()[0].GetSpanId()) == client.ID; linked == c.below {
				t.Errorf("the call links to the HTTP request: %v, want %v", linked, !c.below)
			}
			request.Below(t, call)
			if got, want := s.api.Received()[0].Header.Get("Traceparent"), "00-"+call.Trace+"-"+request.ID+"-01"; got != want {
				t.Errorf("the API got traceparent %q, want %q", got, want)
			}
			if call.GetKind() != tracepb.Span_SPAN_KIND_SERVER || request.GetKind() != tracepb.Span_SPAN_KIND_CLIENT {
				t.Errorf("the spans have the kinds %v and %v", call.GetKind(), request.GetKind())
			}
			call.Has(t, map[string]string{
				"mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "getTrip", "mcp.protocol.version": "2025-06-18", "error.type": "",
				"fairway.call.id": got.Meta.Call,
			})
			request.Has(t, map[string]string{"http.request.method": "GET", "url.template": "/trips/{id}", "http.response.status_code": "200", "error.type": ""})
			if e := call.Event(t, "fairway.agent.decision"); e["gen_ai.agent.name"] != "desk" || e["fairway.decision"] != "allowed" {
				t.Errorf("the decision is %v", e)
			}
			s.spans.Without("secret")
		})
	}
}

// TestTracing_session wants the session of a call in its span.
func TestTracing_session(t *testing.T) {
	s := newTracedSite(t)
	a := s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`, nil)
	session := a.Header.Get("Mcp-Session-Id")
	r := s.CallRequest("getTrip", `{"id":"7"}`)
	r.Header.Set("Mcp-Session-Id", session)
	s.Result(s.Do(r))
	if call := s.spans.Span("tools/call getTrip"); session == "" || call.Attributes["mcp.session.id"] != session {
		t.Errorf("the span has the session %q, want %q", call.Attributes["mcp.session.id"], session)
	}
}

// TestTracing_failures wants error.type and the status of failed calls.
func TestTracing_failures(t *testing.T) {
	for name, c := range map[string]struct {
		tool, arguments string
		status          int
		span, failed    string
		request         string // its error.type; "-" for no request
	}{
		"API":       {"getTrip", `{"id":"secret-7"}`, 503, "tools/call getTrip", "api_error", "503"},
		"arguments": {"listTrips", `{"limit":"secret"}`, 0, "tools/call listTrips", "invalid", "-"},
		"unknown":   {"secretTool", `{}`, 0, "tools/call", "unknown_tool", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTracedSite(t)
			if c.status != 0 {
				s.api.Respond = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.status) }
			}
			s.Do(s.CallRequest(c.tool, c.arguments))
			call := s.spans.Span(c.span)
			call.Has(t, map[string]string{"error.type": c.failed})
			if call.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_ERROR {
				t.Errorf("the status of the span is %v", call.GetStatus())
			}
			if c.request != "-" {
				s.spans.Span("GET /trips/{id}").Has(t, map[string]string{"error.type": c.request})
			}
			s.spans.Without("secret")
		})
	}
}

// TestTracing_guard wants the rule by which an agent's document refuses a call.
func TestTracing_guard(t *testing.T) {
	s := newTracedSite(t)
	if got := s.callTraced("getTrip", `{"id":"secret-no"}`, sitetest.ClientParent, ""); !got.IsError {
		t.Fatalf("the call succeeded: %s", got.Text())
	}
	call := s.spans.Span("tools/call getTrip")
	call.Has(t, map[string]string{"error.type": "restricted"})
	e := call.Event(t, "fairway.agent.decision")
	if e["fairway.decision"] != "input_restriction" || !strings.HasPrefix(e["fairway.rule"], "capabilities.get-trip.input_restriction") {
		t.Errorf("the decision is %v", e)
	}
	s.spans.Without("secret")
}

// TestTracing_reviewer wants the decision of a reviewer as an event of the reviewer's request.
func TestTracing_reviewer(t *testing.T) {
	s := newTracedSite(t)
	if got := s.callTraced("createTrip", `{"to":"secret"}`, "", ""); !got.IsError {
		t.Fatalf("the call succeeded: %s", got.Text())
	}
	if e := s.spans.Span("tools/call createTrip").Event(t, "fairway.agent.decision"); e["fairway.decision"] != "review_pending" {
		t.Errorf("the decision is %v", e)
	}
	sitetest.ReviewsOf(s.Site).DecideAll("approve")
	rule := "capabilities.create-trip.input_restriction.require_review"
	var decided testkit.Span
	sitetest.Eventually(t, "the reviewer's request", func() bool {
		for _, span := range s.spans.All() {
			if strings.HasPrefix(span.GetName(), "POST /reviews/") {
				decided = span
				return true
			}
		}
		return false
	})
	if e := decided.Event(t, "fairway.review"); e["gen_ai.agent.name"] != "desk" || e["fairway.decision"] != "approve" || e["fairway.rule"] != rule {
		t.Errorf("the review is %v", e)
	}
	s.spans.Without("secret")
}

// TestTracing_OTC wants the span of a call over OTC below the HTTP request.
func TestTracing_OTC(t *testing.T) {
	s := newTracedSite(t)
	body := `{"request":{"tool_id":"Trips.getTrip","input":{"id":"secret-7"}}}`
	if a := s.Request(http.MethodPost, "/otc/call", body, "Traceparent", sitetest.ClientParent); a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	client, call, request := s.spans.Span("POST /otc/call"), s.spans.Span("execute_tool getTrip"), s.spans.Span("GET /trips/{id}")
	if client.Trace != sitetest.ClientTrace || client.Parent != sitetest.ClientSpan {
		t.Errorf("the HTTP request is below %s of %s, want the client's span", client.Parent, client.Trace)
	}
	call.Below(t, client)
	request.Below(t, call)
	call.Has(t, map[string]string{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "getTrip", "mcp.method.name": ""})
	call.Event(t, "fairway.agent.decision")
	s.spans.Without("secret")
}

// TestTracing_task wants the request of a call that became a task below the span of the call.
func TestTracing_task(t *testing.T) {
	spans, api, s := sitetest.CollectSpans(t), sitetest.NewJobsAPI(), sitetest.NewSite(t)
	s.Write("jobs.yaml", sitetest.JobsDocument)
	s.Start(sitetest.JobsGlobal, strings.Replace(sitetest.JobsBlock(sitetest.Upstream(t, api.ServeHTTP), "task_after 10ms"), "route {\n", "route {\n"+sitetest.Tracing, 1))
	id := sitetest.TasksOf(s).Begin("ann", "slow")
	client, call := spans.Span("POST /mcp"), spans.Span("tools/call slow")
	call.Below(t, client)
	call.Has(t, map[string]string{"error.type": "", "mcp.protocol.version": "2026-07-28"})
	close(api.Release)
	if end := sitetest.TasksOf(s).EndOf("ann", id); end.Status != "completed" {
		t.Fatalf("the task ended as %+v", end)
	}
	request := spans.Span("POST /slow")
	request.Below(t, call)
	if request.GetEndTimeUnixNano() < call.GetEndTimeUnixNano() {
		t.Error("the request ended before the client got the task")
	}
}

// tracedJobs starts a site with tracing whose API accepts jobs.
func tracedJobs(t *testing.T, location string) (*sitetest.SpanCollector, *sitetest.JobsAPI, *sitetest.Site) {
	t.Helper()
	spans, api, s := sitetest.CollectSpans(t), sitetest.NewJobsAPI(), sitetest.NewSite(t)
	api.Location = location
	s.Write("jobs.yaml", sitetest.JobsDocument)
	s.Start(sitetest.JobsGlobal, strings.Replace(sitetest.JobsBlock(sitetest.Upstream(t, api.ServeHTTP), "task_after 10s"), "route {\n", "route {\n"+sitetest.Tracing, 1))
	return spans, api, s
}

// TestTracing_polls_of_a_task wants the polls of a task in the traces of the requests that make them, with links to
// the call. The poll is an operation of the document, or another path.
func TestTracing_polls_of_a_task(t *testing.T) {
	for name, c := range map[string]struct{ location, request string }{
		"operation": {"/jobs/secret", "GET /jobs/{id}"},
		"other":     {"/elsewhere/secret", "GET"},
	} {
		t.Run(name, func(t *testing.T) {
			spans, api, s := tracedJobs(t, c.location)
			id := sitetest.TasksOf(s).Begin("ann", "startJob")
			call := spans.Span("tools/call startJob")
			spans.Span("POST /jobs").Below(t, call)
			close(api.Release)
			var asked testkit.Span // the request whose poll ends the job
			if end := sitetest.TasksOf(s).EndOf("ann", id); end.Status != "completed" {
				t.Fatalf("the task ended as %+v", end)
			}
			poll, get := spans.Span("execute_tool startJob"), spans.Span(c.request)
			get.Below(t, poll)
			sitetest.Eventually(t, "the span of the request that polls", func() bool {
				for _, span := range spans.All() {
					if span.ID == poll.Parent {
						asked = span
					}
				}
				return asked.Span != nil
			})
			if asked.GetName() != "POST /mcp" || asked.Trace == call.Trace {
				t.Errorf("the poll is below %q in the trace %s, want a request of its own; that of the call is %s", asked.GetName(), asked.Trace, call.Trace)
			}
			for _, span := range []testkit.Span{poll, asked} {
				if !span.LinksTo(call) || len(span.GetLinks()) != 1 {
					t.Errorf("%q has the links %v, want one to the call", span.GetName(), span.GetLinks())
				}
			}
			spans.Without("secret")
		})
	}
}

// TestTracing_cancel_of_a_task wants the request that cancels a task to link to the call.
func TestTracing_cancel_of_a_task(t *testing.T) {
	spans, _, s := tracedJobs(t, "/jobs/1")
	id := sitetest.TasksOf(s).Begin("ann", "startJob")
	call := spans.Span("tools/call startJob")
	sitetest.TasksOf(s).Ask("bob", "tasks/cancel", id) // finds no such task
	sitetest.TasksOf(s).Ask("ann", "tasks/cancel", id)
	linked := 0
	for _, request := range spans.Named("POST /mcp", 3) {
		if request.LinksTo(call) {
			linked++
		}
	}
	if linked != 1 {
		t.Errorf("%d requests link to the call, want the one of its user", linked)
	}
}

// TestTracing_task_by_parameter wants the work of a call that is a task from its start below the call.
func TestTracing_task_by_parameter(t *testing.T) {
	spans, api, s := tracedJobs(t, "")
	a := s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{},"task":{}}}`, map[string]string{"Mcp-Protocol-Version": "2025-11-25"})
	if !strings.Contains(a.Body, `"taskId"`) {
		t.Fatalf("no task: %d %s", a.Status, a.Body)
	}
	call := spans.Span("tools/call slow")
	close(api.Release)
	work := spans.Span("execute_tool slow")
	work.Below(t, call)
	work.Has(t, map[string]string{"error.type": ""})
	spans.Span("POST /slow").Below(t, work)
}

// TestTracing_polls_of_OTC wants the polls of a call over OTC below the call, which waits for them.
func TestTracing_polls_of_OTC(t *testing.T) {
	spans, api, s := tracedJobs(t, "/elsewhere/secret")
	close(api.Release)
	if a := s.Request(http.MethodPost, "/otc/call", `{"request":{"tool_id":"Jobs.startJob","input":{}}}`); a.Status != http.StatusOK || !strings.Contains(a.Body, "done") {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	call := spans.Span("execute_tool startJob")
	spans.Span("POST /jobs").Below(t, call)
	poll := spans.Span("GET")
	poll.Below(t, call)
	poll.Has(t, map[string]string{"http.request.method": "GET", "http.response.status_code": "200", "url.template": ""})
	spans.Without("secret")
}
