package route_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
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
	s := sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", `
  list-trips: {}
  create-trip: {static_identity: OPS}
  get-trip: {user_identity: false, static_identity: OPS}
  delete-trip: {user_identity: false}
`))
	api := sitetest.Upstream(t, repeating)
	credentials := `{
			credential header Authorization "Bearer {env.FAIRWAY_TEST_TOKEN}"
			credential header X-Key "a/s3cret"
			credential query key "s3cret&co"
			forward_headers X-Test-User
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
			s := s.With(t)
			s.Start("agents {\n\tstore bolt DIR/"+name+".db\n\ttoolset trips TRIPS "+credentials+"\n}\norder test_user before oagent", block)
			for tool, arguments := range map[string]string{"listTrips": "{}", "getTrip": `{"id":"7"}`, "deleteTrip": `{"id":"7"}`} {
				r := s.CallRequest(tool, arguments)
				r.Header.Set("X-Test-User", "ada")
				otc := fmt.Sprintf(`{"request":{"tool_id":"Trips.%s","input":%s}}`, tool, arguments)
				for protocol, a := range map[string]sitetest.Response{
					"MCP": s.Do(r), "OTC": s.Request("POST", "/otc/call", otc, "Content-Type", "application/json", "X-Test-User", "ada"),
				} {
					if strings.Contains(a.Body, "s3cret") || tool != "deleteTrip" && !strings.Contains(a.Body, "Bearer [concealed]") {
						t.Errorf("%s %s: %s", protocol, tool, a.Body)
					}
				}
			}
			if name == "guarded" {
				a := s.Request("GET", "/engagements/e1/audit", "", "X-Test-User", "ada")
				if a.Status != 200 || strings.Contains(a.Body, "s3cret") || !strings.Contains(a.Body, "[concealed]") {
					t.Errorf("the record: %d %s", a.Status, a.Body)
				}
			}
			if a := s.Do(s.CallRequest("createTrip", `{"to":"Bern"}`)); !strings.Contains(a.Body, "s3cret") {
				t.Errorf("a success is the API's to give: %s", a.Body)
			}
		})
	}
}

// keysDocument has a key in the query, one in a header that is an argument as well, and
// an argument whose members are query parameters of any name.
const keysDocument = `openapi: 3.1.0
info: {title: Keys, version: 1.0.0}
components:
  securitySchemes:
    key: {type: apiKey, in: query, name: api_key}
    tenant: {type: apiKey, in: header, name: X-Tenant}
paths:
  /items:
    get:
      operationId: listItems
      security: [{key: []}]
      parameters: [{name: limit, in: query, schema: {type: integer}}, {name: X-Trace, in: header, schema: {type: string}}]
      responses: {"200": {description: ok}}
  /tenants:
    get:
      operationId: listTenants
      security: [{tenant: []}]
      parameters: [{name: X-Tenant, in: header, schema: {type: string}}]
      responses: {"200": {description: ok}}
  /filtered:
    get:
      operationId: listFiltered
      security: [{key: []}]
      parameters:
        - name: filter
          in: query
          explode: true
          schema: {type: object, properties: {Api_Key: {type: string}}, additionalProperties: {type: string}}
      responses: {"200": {description: ok}}
`

// keysSite is a site in front of that API whose agent may do what capabilities say.
func keysSite(t *testing.T, capabilities string, api http.HandlerFunc) *sitetest.Site {
	t.Helper()
	s := sitetest.NewSite(t)
	s.Write("keys.yaml", keysDocument)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", capabilities))
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", `route {
	test_user
	otc /otc DIR/keys.yaml
	oagent DIR/agent.yaml {
		toolset DIR/keys.yaml
		engagement e1
		engagements /engagements
		undeclared allow
		identity OPS {
			header_up Authorization "Bearer ops-s3cret"
		}
	}
	reverse_proxy `+sitetest.Upstream(t, api)+`
}`)
	return s
}

// TestKeys_are_no_inputs wants the keys for the API that a request brings to be neither
// judged nor recorded, by whatever protocol it comes, and to reach the API.
func TestKeys_are_no_inputs(t *testing.T) {
	for name, test := range map[string]struct {
		api    http.HandlerFunc
		status int
	}{"answered": {sitetest.Echo, 200}, "refused": {repeating, 401}} {
		t.Run(name, func(t *testing.T) {
			s := keysSite(t, "  list-items: {}\n", test.api)
			call := `{"request":{"tool_id":"Keys.listItems","input":{"limit":3},"context":{"secrets":[{"id":"key","value":"otc-s3cret"}]}}}`
			rest := s.Request("GET", "/items?limit=3&api_key=rest-key&further=1", "", "X-Test-User", "ada")
			otc := s.Request("POST", "/otc/call", call, "Content-Type", "application/json", "X-Test-User", "ada")
			if rest.Status != test.status || !strings.Contains(rest.Body, "api_key=rest-key") {
				t.Errorf("REST: %d %s", rest.Status, rest.Body)
			}
			if otc.Status != test.status || strings.Contains(otc.Body, "otc-s3cret") != (test.status == 200) {
				t.Errorf("OTC: %d %s", otc.Status, otc.Body)
			}
			a := s.Request("GET", "/engagements/e1/audit", "", "X-Test-User", "ada")
			for _, want := range []string{`"inputs":{"limit":3}`, `"inputs":{"limit":3,"_query":{"further":["1"]}}`} {
				if !strings.Contains(a.Body, want) {
					t.Errorf("no %s", want)
				}
			}
			for line := range strings.SplitSeq(a.Body, `{"what":`) {
				if (strings.HasPrefix(line, `"begun"`) || test.status != 200) && strings.Contains(line, "s3cret") {
					t.Errorf("recorded: %s", line)
				}
			}
		})
	}
}

// TestKeys_hide_no_arguments wants what an operation declares to be judged, though a
// credential has the same name.
func TestKeys_hide_no_arguments(t *testing.T) {
	s := keysSite(t, `
  list-items:
    input_restriction: {assertion: "!has(recent.list-items.inputs._query)"}
  list-tenants:
    input_restriction: {assertion: "!has(recent.list-tenants.inputs.X_Tenant) || recent.list-tenants.inputs.X_Tenant == 'mine'"}
  list-filtered:
    input_restriction: {assertion: "!has(recent.list-filtered.inputs.filter) || recent.list-filtered.inputs.filter.size() == 0"}
`, sitetest.Echo)
	tenant := func(secret string) sitetest.Response {
		return s.Request("POST", "/otc/call", `{"request":{"tool_id":"Keys.listTenants","input":{},"context":{"secrets":[{"id":"tenant","value":"`+secret+`"}]}}}`,
			"Content-Type", "application/json", "X-Test-User", "ada")
	}
	get := func(path string, header ...string) sitetest.Response {
		return s.Request("GET", path, "", append(header, "X-Test-User", "ada")...)
	}
	for name, test := range map[string]struct {
		got    sitetest.Response
		passes bool
	}{
		"a key":                     {get("/items?api_key=k"), true},
		"its name in other case":    {get("/items?API_KEY=k"), false},
		"its name in brackets":      {get("/items?api_key[]=k"), false},
		"encoded":                   {get("/items?%61pi_key=k"), true},
		"its name and more":         {get("/items?api_key=k&api_keys=k"), false},
		"a member":                  {get("/filtered?Api_Key=drop"), false},
		"a member, encoded":         {get("/filtered?Api%5fKey=drop"), false},
		"a member of its name":      {get("/filtered?api_key=drop"), false},
		"a header":                  {get("/tenants", "X-Tenant", "mine"), true},
		"another header":            {get("/tenants", "X-Tenant", "other"), false},
		"a header by the context":   {tenant("mine"), true},
		"another, by the context":   {tenant("other"), false},
		"nothing":                   {get("/filtered"), true},
		"access_token, no OAuth":    {get("/items?access_token=k"), false},
		"access_token for a filter": {get("/filtered?access_token=k"), false},
	} {
		if passed := test.got.Status == 200 && !strings.Contains(test.got.Body, `"success":false`); passed != test.passes {
			t.Errorf("%s: %d %s", name, test.got.Status, test.got.Body)
		}
	}
}

// TestConcealed_is_judged wants what is judged, given and recorded to be the same where
// the API repeats the gateway's own credentials to a plain request, coded or not.
func TestConcealed_is_judged(t *testing.T) {
	for _, coding := range []string{"", "gzip"} {
		s := keysSite(t, `
  list-items: {static_identity: OPS, user_identity: false}
  list-tenants:
    static_identity: OPS
    user_identity: false
    output_restriction: {assertion: "!recent.list-tenants.outputs.detail.contains('concealed')"}
`, func(w http.ResponseWriter, r *http.Request) {
			if coding == "" {
				repeating(w, r)
				return
			}
			w.Header().Set("Content-Encoding", coding)
			z := gzip.NewWriter(w)
			defer z.Close()
			repeating(coded{w, z}, r)
		})
		a := s.Request("GET", "/items", "", "X-Test-User", "ada")
		if a.Status != 401 || strings.Contains(a.Body, "s3cret") || !strings.Contains(a.Body, "Bearer [concealed]") {
			t.Errorf("%s: %d %s", coding, a.Status, a.Body)
		}
		if a := s.Request("GET", "/tenants", "", "X-Test-User", "ada"); a.Status != 403 {
			t.Errorf("%s: %d %s", coding, a.Status, a.Body)
		}
		if a := s.Request("GET", "/engagements/e1/audit", "", "X-Test-User", "ada"); strings.Contains(a.Body, "s3cret") {
			t.Errorf("%s: recorded: %s", coding, a.Body)
		}
	}
}

// coded writes into something else.
type coded struct {
	http.ResponseWriter
	io.Writer
}

func (c coded) Write(p []byte) (int, error) { return c.Writer.Write(p) }

// TestGuardrailConcealed wants the credentials that a guardrail's tool is asked with
// neither logged nor sent to the client if the tool repeats them.
func TestGuardrailConcealed(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "not with "+r.Header.Get("X-Checker-Key"), http.StatusUnauthorized)
	}))
	t.Cleanup(refusing.Close)
	s := sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.Guardrailed)
	s.Write("checks.yaml", fmt.Sprintf(sitetest.Checks, refusing.URL))
	s.Start("agents {\n\tstore bolt DIR/store.db\n\ttoolset checks {\n\t\topenapi DIR/checks.yaml\n\t\tcredential header X-Checker-Key guard-s3cret\n\t}\n}",
		"oagent DIR/agent.yaml {\n\tengagement e1\n\tengagements /engagements\n\tauditors ada\n\tchat {\n\t}\n}\nrespond unreached")
	a := s.Request("POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hello"}]}`, "Content-Type", "application/json")
	if a.Status < 400 || strings.Contains(a.Body, "s3cret") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	s.Logged("guardrail", "not with [concealed]")
	if strings.Contains(s.Log(), "s3cret") {
		t.Error("it is in the log")
	}
}
