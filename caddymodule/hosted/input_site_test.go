package hosted_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestHosting_withholds_what_the_guard_has_not_seen puts handlers that respond before oagent: the model
// must not get their responses as the results of governed calls.
func TestHosting_withholds_what_the_guard_has_not_seen(t *testing.T) {
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", "  get-trip: {user_identity: false, output_restriction: {assertion: 'false'}}\n"), sitetest.Play(
		modelserver.Step{Calls: []modelserver.Call{
			{ID: "1", Name: "get-trip", Arguments: `{"id":"early"}`},
			{ID: "2", Name: "get-trip", Arguments: `{"id":"proxied"}`},
			{ID: "3", Name: "get-trip", Arguments: `{"id":"limited"}`},
			{ID: "4", Name: "get-trip", Arguments: `{"id":"failing"}`},
		}}, modelserver.Step{Text: "Done."}))
	block := s.Block("")
	api := block[strings.LastIndex(block, "reverse_proxy"):strings.LastIndex(block, "}")]
	block = strings.Replace(block, "test_user\n", "test_user\nrespond /trips/early `{\"secret\":1}` 200\nheader /trips/limited Retry-After 7\nrespond /trips/limited \"slow down\" 429\nrespond /trips/failing `{\"secret\":2}` 500\nhandle /trips/proxied {\n"+api+"}\n", 1)
	s.Start(storeInDir, block)
	location := s.Begin("ann", "desk", "Go")
	if v := s.State("ann", location); v.Status != "complete" || v.Text != "Done." {
		t.Errorf("state %+v", v)
	}
	requests := s.Models.Requests()
	var results []string
	for _, m := range requests[len(requests)-1].Messages {
		if m.Role == "tool" {
			results = append(results, m.Text)
		}
	}
	if len(results) != 4 {
		t.Fatalf("the model got %q, want 4 results", results)
	}
	for i, want := range []string{"withheld", "500", "429", "500"} {
		if !strings.Contains(results[i], want) {
			t.Errorf("result %d: the model got %q, want %q", i, results[i], want)
		}
	}
	if !strings.Contains(results[2], "7s") {
		t.Errorf("the model got %q, want the time to wait, 7s", results[2])
	}
	if all := strings.Join(results, ""); strings.Contains(all, "secret") || strings.Contains(all, "path") {
		t.Errorf("the model got %s", all)
	}
	s.Logged("withheld", "get-trip", "error")
	s.Logged("move oagent before that handler", "get-trip", "error")
	if received := s.API.Received(); len(received) != 0 {
		t.Errorf("the API received %v", received)
	}
	if a := s.As("ann", "GET", location+"/audit", ""); strings.Count(a.Body, "not_allowed") != 1 {
		t.Errorf("record: status %d, %s", a.Status, a.Body)
	}
}

// TestHosting_foreign_Engagements are as unknown as those that do not exist: the responses have the
// same bytes.
func TestHosting_foreign_Engagements(t *testing.T) {
	s := hosted(t, sitetest.AgentDocument("desk", tripAgent), "reviews /reviews", sitetest.Play(modelserver.Step{Text: "Done."}))
	location := s.Begin("ann", "desk", "Hello")
	s.State("ann", location)
	for _, c := range []struct{ method, path, body string }{
		{"GET", "", ""}, {"GET", "/audit", ""}, {"POST", "", `{"input":"x"}`}, {"POST", "", `{"input"`}, {"DELETE", "", ""}, {"PUT", "", "{}"},
	} {
		foreign := s.As("bob", c.method, location+c.path, c.body)
		unknown := s.As("bob", c.method, "/engagements/AAAAAAAAAAAAAAAAAAAAAAAAAA"+c.path, c.body)
		for _, a := range []*sitetest.Response{&foreign, &unknown} {
			a.Header.Del("Date")
		}
		got := [...]any{foreign.Status, fmt.Sprint(foreign.Header), foreign.Body}
		if want := [...]any{unknown.Status, fmt.Sprint(unknown.Header), unknown.Body}; got != want || foreign.Status < 400 {
			t.Errorf("%s %s: a foreign Engagement has %v, an unknown one %v; want the same refusal", c.method, c.path, got, want)
		}
	}
}

// TestHosting_hostile_bodies sends what is not an input. Nothing may reach the model, and the server
// goes on.
func TestHosting_hostile_bodies(t *testing.T) {
	s := hosted(t, sitetest.AgentDocument("desk", tripAgent), "", sitetest.Play(modelserver.Step{Text: "Done."}))
	for name, body := range map[string]string{
		"deep":              `{"input":` + strings.Repeat("[", 60_000) + strings.Repeat("]", 60_000) + `}`,
		"member twice":      `{"input":"a","input":"b"}`,
		"invalid UTF-8":     "{\"input\":\"a\xff\"}",
		"half a surrogate":  `{"input":"\ud800"}`,
		"text after it":     `{"input":"a"} {"input":"b"}`,
		"zero bytes":        "\x00\x00",
		"NaN":               `{"input":NaN}`,
		"comment":           `{"input":"a"/**/}`,
		"byte order mark":   "\ufeff{\"input\":\"a\"}",
		"many members":      "{" + strings.Repeat(`"a":1,`, 10_000) + `"input":"a"}`,
		"member in capital": `{"Input":"a"}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := &sitetest.HostedSite{Site: s.With(t)}
			if a := s.As("ann", "POST", "/agents/desk", body); a.Status != http.StatusBadRequest {
				t.Errorf("status %d, %.300s", a.Status, a.Body)
			}
		})
	}
	if n := len(s.Models.Requests()); n != 0 {
		t.Errorf("the model received %d requests", n)
	}
	if v := s.State("ann", s.Begin("ann", "desk", "Hello")); v.Text != "Done." {
		t.Errorf("state %+v", v)
	}
}

// TestHosting_many_capabilities rejects an agent with 10,000 capabilities, and runs one with as many as
// are allowed.
func TestHosting_many_capabilities(t *testing.T) {
	const allowed, all = 1000, 10_000
	var document, capabilities strings.Builder
	document.WriteString("openapi: 3.1.0\ninfo: {title: Many, version: '1'}\npaths:\n")
	for i := range allowed {
		fmt.Fprintf(&document, "  /t%d:\n    get: {operationId: tool%d, responses: {'200': {description: ok}}}\n", i, i)
	}
	for i := range all {
		fmt.Fprintf(&capabilities, "  tool%d: {user_identity: false}\n", i)
	}
	few, _, _ := strings.Cut(capabilities.String(), "  tool1000:")
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", capabilities.String()), sitetest.Play(sitetest.Calls("tool999", "{}"), modelserver.Step{Text: "Done."}))
	s.Write("trips.yaml", document.String())
	block := s.Block("")
	if err := s.Load(storeInDir, block); err == nil || !testkit.ContainsAll(err.Error(), "agent.yaml: capabilities limit 1000") {
		t.Errorf("got %v, want an error about the limit of capabilities", err)
	}
	s.Write("agent.yaml", sitetest.AgentDocument("desk", few))
	s.Start(storeInDir, block)
	if v := s.State("ann", s.Begin("ann", "desk", "Go")); v.Status != "complete" || v.Text != "Done." || v.Usage.ToolCalls != 1 {
		t.Errorf("state %+v", v)
	}
}
