package caddymodule_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// repeating is an API that repeats what it is shown in what it refuses, and where
// it redirects to.
func repeating(w http.ResponseWriter, r *http.Request) {
	said, _ := json.Marshal(fmt.Sprint(r.Header["Authorization"], r.Header["X-Key"], r.URL.RawQuery))
	w.Header().Set("Content-Type", "application/problem+json")
	status := http.StatusUnauthorized
	switch r.Method {
	case http.MethodDelete:
		w.Header().Set("Location", "https://login.example.com/?"+r.URL.RawQuery)
		status = http.StatusSeeOther
	case http.MethodPost:
		status = http.StatusOK
	}
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"title":"Refused","detail":%s}`, said)
}

// TestCredentialConcealed wants the gateway's credentials taken out of what the API
// refuses, in each protocol and in the record, and nothing else.
func TestCredentialConcealed(t *testing.T) {
	t.Setenv("FAIRWAY_TEST_TOKEN", "env-s3cret")
	s := newSite(t)
	s.write("agent.yaml", agentDocument("desk", `
  list-trips: {}
  create-trip: {static_identity: OPS}
  get-trip: {user_identity: false, static_identity: OPS}
  delete-trip: {user_identity: false}
`))
	api := upstream(t, repeating)
	credentials := `{
			credential header Authorization "Bearer {env.FAIRWAY_TEST_TOKEN}"
			credential header X-Key "a/s3cret"
			credential query key "s3cret&co"
		}`
	for name, block := range map[string]string{
		"alone": "mcp trips\notc /otc trips\nreverse_proxy " + api,
		"guarded": `test_user
mcp trips
otc /otc trips
oagent DIR/agent.yaml {
	identity OPS {
		header_up Authorization "Bearer ops-s3cret"
	}
	engagement e1
	engagements /engagements
}
reverse_proxy ` + api,
	} {
		t.Run(name, func(t *testing.T) {
			s := s.with(t)
			s.start("agents {\n\tstore bolt DIR/"+name+".db\n\ttoolset trips TRIPS "+credentials+"\n}\norder test_user before oagent", block)
			for tool, arguments := range map[string]string{"listTrips": "{}", "getTrip": `{"id":"7"}`, "deleteTrip": `{"id":"7"}`} {
				r := s.callRequest(tool, arguments)
				r.Header.Set("X-Test-User", "ada")
				otc := fmt.Sprintf(`{"request":{"tool_id":"Trips.%s","input":%s}}`, tool, arguments)
				for protocol, a := range map[string]answer{
					"MCP": s.do(r), "OTC": s.request("POST", "/otc/call", otc, "Content-Type", "application/json", "X-Test-User", "ada"),
				} {
					if strings.Contains(a.body, "s3cret") || tool != "deleteTrip" && !strings.Contains(a.body, "Bearer [concealed]") {
						t.Errorf("%s %s: %s", protocol, tool, a.body)
					}
				}
			}
			if name == "guarded" {
				a := s.request("GET", "/engagements/e1/audit", "", "X-Test-User", "ada")
				if a.status != 200 || strings.Contains(a.body, "s3cret") || !strings.Contains(a.body, "[concealed]") {
					t.Errorf("the record: %d %s", a.status, a.body)
				}
			}
			if a := s.do(s.callRequest("createTrip", `{"to":"Bern"}`)); !strings.Contains(a.body, "s3cret") {
				t.Errorf("a success is the API's to give: %s", a.body)
			}
		})
	}
}

// TestKeysAreNoInputs wants the keys for the API that a request brings to be neither
// judged nor recorded, by whatever protocol it comes, and to reach the API.
func TestKeysAreNoInputs(t *testing.T) {
	s := newSite(t)
	s.write("keys.yaml", `openapi: 3.1.0
info: {title: Keys, version: 1.0.0}
components: {securitySchemes: {key: {type: apiKey, in: query, name: api_key}}}
security: [{key: []}]
paths:
  /items:
    get:
      operationId: listItems
      parameters: [{name: limit, in: query, schema: {type: integer}}, {name: X-Trace, in: header, schema: {type: string}}]
      responses: {"200": {description: ok}}
`)
	s.write("agent.yaml", agentDocument("desk", "  list-items: {}\n"))
	s.start("agents {\n\tstore bolt DIR/store.db\n}", `route {
	test_user
	otc /otc DIR/keys.yaml
	oagent DIR/agent.yaml {
		toolset DIR/keys.yaml
		engagement e1
		engagements /engagements
	}
	reverse_proxy `+upstream(t, echo)+`
}`)
	call := `{"request":{"tool_id":"Keys.listItems","input":{"limit":3},"context":{"secrets":[{"id":"key","value":"otc-s3cret"}]}}}`
	for name, a := range map[string]answer{
		"REST": s.request("GET", "/items?limit=3&api_key=rest-s3cret&further=1", "", "X-Test-User", "ada"),
		"OTC":  s.request("POST", "/otc/call", call, "Content-Type", "application/json", "X-Test-User", "ada"),
	} {
		if a.status != 200 || !strings.Contains(a.body, "api_key="+strings.ToLower(name)+"-s3cret") {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	a := s.request("GET", "/engagements/e1/audit", "", "X-Test-User", "ada")
	for _, want := range []string{`"inputs":{"limit":3}`, `"inputs":{"limit":3,"_query":{"further":["1"]}}`} {
		if !strings.Contains(a.body, want) {
			t.Errorf("no %s", want)
		}
	}
	for line := range strings.SplitSeq(a.body, `{"what":`) {
		if strings.HasPrefix(line, `"begun"`) && strings.Contains(line, "s3cret") {
			t.Errorf("recorded: %s", line)
		}
	}
}
