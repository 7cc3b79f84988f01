package inspectors_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// TestInspect_hosted_agents plants values in what a model sends to a tool, and in what the tool returns.
func TestInspect_hosted_agents(t *testing.T) {
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", "\n  create-trip: {user_identity: false, collect_results: true}\n"),
		sitetest.Play(sitetest.Calls("create-trip", `{"to":`+quoted("Bern for "+all)+`}`), modelserver.Step{Text: "Created."}))
	var received string
	s.API.Respond = func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		received = string(body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"note":%s}`, quoted(all))
	}
	s.Start("agents {\n\tstore bolt DIR/store.db\ntoolset trips {\nopenapi TRIPS\n"+both+"}\n}", strings.ReplaceAll(s.Block(""), "toolset TRIPS", "toolset trips"))
	location := s.Begin("ann", "desk", "Create it")
	v := s.State("ann", location)
	if v.Status != "complete" || received != `{"to":"Bern for `+masked+`"}` {
		t.Errorf("the API received %s; state %+v", received, v)
	}
	requests := s.Models.Requests()
	messages := requests[len(requests)-1].Messages
	if last := messages[len(messages)-1]; last.Role != "tool" || !strings.Contains(last.Text, masked) {
		t.Errorf("the model got %+v", last)
	}
	for _, request := range requests {
		without(t, "the model", string(request.Body))
	}
	without(t, "the record", s.As("ann", "GET", v.Audit, "").Body)
	without(t, "the run", s.As("ann", "GET", location, "").Body)
	filesWithout(t, s.Site)
}

// TestInspect_MCP_servers plants values in the tools of an MCP server: a description, arguments, a result, an error.
func TestInspect_MCP_servers(t *testing.T) {
	type note struct {
		Text string `json:"text"`
	}
	var received string
	server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "keep", Description: "Keeps a note."}, func(_ context.Context, _ *mcp.CallToolRequest, in note) (*mcp.CallToolResult, note, error) {
		received = in.Text
		return nil, note{"kept for " + all}, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "fail", Description: "Fails."}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return nil, nil, fmt.Errorf("no disk for %s", all)
	})
	mcp.AddTool(server, &mcp.Tool{Name: "leaky", Description: "Ask " + planted[0] + "."}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return nil, nil, nil
	})
	h := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(h.Close)
	s := sitetest.Run(t, "agents {\n\tstore bolt DIR/store.db\ncalls {\narguments text\nresults\n}\ntoolset notes {\nmcp_server "+h.URL+"\n"+both+"}\n}", "mcp\nmcp_servers\nrespond 418")
	sitetest.Eventually(t, "the tools are loaded", func() bool {
		return s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, map[string]string{"MCP-Protocol-Version": "2025-11-25"}).Status == http.StatusOK
	})
	call := func(method, params string) string {
		return s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`, map[string]string{"MCP-Protocol-Version": "2025-11-25"}).Body
	}
	list := call("tools/list", "{}")
	without(t, "the list", list)
	if !strings.Contains(list, `"keep"`) || strings.Contains(list, `"leaky"`) {
		t.Errorf("the list is %s", list)
	}
	kept := call("tools/call", `{"name":"keep","arguments":{"text":`+quoted(all)+`}}`)
	if received != masked {
		t.Errorf("the server received %q", received)
	}
	var a struct {
		Result struct {
			Content           []struct{ Text string }
			StructuredContent json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(kept), &a); err != nil || len(a.Result.Content) != 1 {
		t.Fatalf("got %s, want one content; error %v", kept, err)
	}
	want := `{"text":"kept for ` + masked + `"}`
	if text, object := a.Result.Content[0].Text, string(a.Result.StructuredContent); text != want || object != want {
		t.Errorf("got the text %s and the structured content %s, want %s", text, object, want)
	}
	without(t, "the result", kept)
	failed := call("tools/call", `{"name":"fail","arguments":{}}`)
	if !strings.Contains(failed, masked) || !strings.Contains(failed, `"isError":true`) {
		t.Errorf("the error is %s", failed)
	}
	without(t, "the error", failed)
	filesWithout(t, s)
}

// TestInspect_results_of_polls plants values in what is fetched after a 202, over MCP and OTC.
func TestInspect_results_of_polls(t *testing.T) {
	api := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost {
			w.Header().Set("Location", "/jobs/1")
			w.WriteHeader(http.StatusAccepted)
			return
		}
		_, _ = fmt.Fprintf(w, `{"job":%s}`, quoted(all))
	}
	s := sitetest.NewSite(t)
	s.Write("jobs.yaml", sitetest.JobsDocument)
	s.Start("agents {\n\tstore bolt DIR/store.db\ncalls {\nresults\n}\ntoolset jobs {\nopenapi DIR/jobs.yaml\n"+both+"}\n}",
		strings.ReplaceAll(sitetest.JobsBlock(sitetest.Upstream(t, api), "task_after 10s"), "DIR/jobs.yaml", "jobs"))
	task := sitetest.TasksOf(s).EndOf("ann", sitetest.TasksOf(s).Begin("ann", "startJob"))
	if task.Status != "completed" || task.Result == nil || !strings.Contains(task.Result.Text(), masked) {
		t.Errorf("the task is %+v", task)
	}
	otc := s.Request(http.MethodPost, "/otc/call", `{"request":{"call_id":"c1","tool_id":"Jobs.startJob","input":{}}}`).Body
	if !strings.Contains(otc, masked) {
		t.Errorf("OTC: %s", otc)
	}
	without(t, "OTC", otc)
	filesWithout(t, s)
}

// TestInspect_stored_arguments plants values in the arguments of a task and of an OTC call that is recorded by its id.
func TestInspect_stored_arguments(t *testing.T) {
	received := make(chan string, 2)
	api := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		received <- string(body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	})
	s := sitetest.Run(t, "agents {\n\tstore bolt DIR/store.db\ncalls {\narguments to\nresults\n}\ntoolset trips {\nopenapi TRIPS\n"+both+"}\n}",
		"route {\ntest_user\nmcp trips {\ntask_after 10s\n}\notc /otc trips\nreverse_proxy "+api+"\n}")
	task := s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"createTrip","task":{},"arguments":{"to":`+quoted(all)+`}}}`,
		map[string]string{"Mcp-Protocol-Version": "2025-11-25", "X-Test-User": "ann"}).Body
	if !strings.Contains(task, `"taskId"`) {
		t.Fatalf("no task: %s", task)
	}
	otc := s.Request(http.MethodPost, "/otc/call", `{"request":{"call_id":"c1","tool_id":"Trips.createTrip","input":{"to":`+quoted(all)+`}}}`, "X-Test-User", "ann").Body
	if !strings.Contains(otc, masked) {
		t.Errorf("OTC: %s", otc)
	}
	for range 2 {
		if body := <-received; body != `{"to":"`+masked+`"}` {
			t.Errorf("the API received %s", body)
		}
	}
	without(t, "OTC", otc)
	filesWithout(t, s)
}
