package oagent_test

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestOAgent_guards_endpoints_of_its_agents checks that a tool call at an endpoint with the option agent
// passes the oagent handler of the agent, or does not reach the API. If no call can pass it, the site is not loaded.
func TestOAgent_guards_endpoints_of_its_agents(t *testing.T) {
	const mcp, oagent, notTrips = "mcp /mcp TRIPS {\nagent desk\n}\n", "oagent DIR/agent.yaml {\ntoolset TRIPS\nengagement {http.request.header.X-Engagement}\n}\n", "@agents path /agent/*\n"
	guarded := func(matcher string) string { return strings.Replace(oagent, " ", " "+matcher+" ", 1) }
	type outcome int
	const (
		invalid outcome = iota
		refused
		passes
	)
	for name, test := range map[string]struct {
		block string
		want  outcome
	}{
		"no matcher":                    {mcp + oagent + "API", passes},
		"the tools' paths":              {mcp + "handle /trips* {\n" + oagent + "API\n}", passes},
		"a matcher of oagent":           {mcp + guarded("/trips*") + "API", passes},
		"a method":                      {"@get method GET\n" + mcp + guarded("@get") + "API", passes},
		"nested routes":                 {"route {\nroute {\n" + mcp + "header X-A b\n}\nroute /trips* {\n" + oagent + "}\nAPI\n}", passes},
		"an API of other paths first":   {"route {\n" + mcp + "handle /other/* {\nAPI\n}\n" + oagent + "API\n}", passes},
		"a rewrite before":              {"route {\n" + mcp + "uri replace /x /y\n" + oagent + "API\n}", passes},
		"handle for other paths":        {mcp + "handle /agent/* {\n" + oagent + "}\nAPI", invalid},
		"other paths":                   {notTrips + mcp + guarded("@agents") + "API", invalid},
		"another method":                {"@post method POST\n" + mcp + guarded("@post") + "API", invalid},
		"before the endpoint":           {"route {\n" + guarded("/agent/*") + mcp + "API\n}", invalid},
		"the API first":                 {"route {\n" + mcp + "handle /trips* {\nAPI\n}\n" + oagent + "API\n}", invalid},
		"the API first in the group":    {mcp + "handle /trips* {\nAPI\n}\nhandle {\n" + oagent + "API\n}", invalid},
		"the API in the block before":   {"route {\nroute {\n" + mcp + "handle /trips* {\nAPI\n}\n}\n" + oagent + "API\n}", invalid},
		"another handle":                {"handle /mcp* {\n" + mcp + "API\n}\nhandle {\n" + oagent + "API\n}", invalid},
		"a matcher after a rewrite":     {"route {\n" + mcp + "uri replace /trips /other\nroute /trips* {\n" + oagent + "}\nAPI\n}", refused},
		"an API before in nested route": {"route {\n" + mcp + "route {\nroute {\nAPI\n}\n}\n" + oagent + "API\n}", invalid},
		"a matcher of other callers":    {"@agents header X-Agents yes\n" + mcp + guarded("@agents") + "API", refused},
		"an API of some callers first":  {"route {\n@some header X-Engagement *\n" + mcp + "reverse_proxy @some API_ADDRESS\n" + oagent + "API\n}", refused},
		"another block of the endpoint": {"handle /mcp* {\n" + mcp + "}\nhandle {\n" + oagent + "API\n}", passes},
	} {
		t.Run(name, func(t *testing.T) {
			s, api := sitetest.NewSite(t), new(sitetest.RulesAPI)
			s.Write("agent.yaml", sitetest.AgentDocument("desk", "  get-trip: {user_identity: false, input_restriction: {assertion: 'recent.get-trip.inputs.id == \"7\"'}}\n"))
			upstream := sitetest.Upstream(t, api.ServeHTTP)
			block := strings.NewReplacer("API_ADDRESS", upstream, "API", "reverse_proxy "+upstream).Replace(test.block)
			const global = "agents {\n\tstore bolt DIR/store.db\n}"
			if test.want == invalid {
				if err := s.Load(global, block); err == nil || !testkit.ContainsAll(err.Error(), "pass oagent desk") {
					t.Errorf("loading: %v", err)
				}
				return
			}
			s.Start(global, block)
			call := func(id string) sitetest.Result {
				r := s.CallRequest("getTrip", `{"id":"`+id+`"}`)
				r.Header.Set("X-Engagement", "one")
				return s.Result(s.Do(r))
			}
			if refused := call("8"); !refused.IsError {
				t.Errorf("result %s of a call that the agent may not make", refused.Text())
			}
			want := 0
			if test.want == passes {
				want = 1
			}
			if allowed := call("7"); allowed.IsError == (test.want == passes) {
				t.Errorf("result of the other call: %s", allowed.Text())
			}
			if api.Mu.Lock(); api.Reached != want {
				t.Errorf("the API received %d requests, want %d", api.Reached, want)
			}
			api.Mu.Unlock()
			if test.want == refused {
				s.Logged("would not pass the oagent handler", `"agent":"desk"`, `"tool":"getTrip"`)
			}
		})
	}
}
