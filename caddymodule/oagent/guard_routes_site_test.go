package oagent_test

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestOAgent_guards_endpoints_of_its_agents checks that a tool call at an endpoint with the option agent
// passes the oagent handler of the agent, or does not reach the API.
func TestOAgent_guards_endpoints_of_its_agents(t *testing.T) {
	const mcp, oagent, notTrips = "mcp /mcp TRIPS {\nagent desk\n}\n", "oagent DIR/agent.yaml {\ntoolset TRIPS\nengagement {http.request.header.X-Engagement}\n}\n", "@agents path /agent/*\n"
	guarded := func(matcher string) string { return strings.Replace(oagent, " ", " "+matcher+" ", 1) }
	for name, test := range map[string]struct {
		block  string
		passes bool
	}{
		"no matcher":                    {mcp + oagent + "API", true},
		"the tools' paths":              {mcp + "handle /trips* {\n" + oagent + "API\n}", true},
		"a matcher of oagent":           {mcp + guarded("/trips*") + "API", true},
		"a method":                      {"@get method GET\n" + mcp + guarded("@get") + "API", true},
		"nested routes":                 {"route {\nroute {\n" + mcp + "header X-A b\n}\nroute /trips* {\n" + oagent + "}\nAPI\n}", true},
		"an API of other paths first":   {"route {\n" + mcp + "handle /other/* {\nAPI\n}\n" + oagent + "API\n}", true},
		"a rewrite before":              {"route {\n" + mcp + "uri replace /x /y\n" + oagent + "API\n}", true},
		"handle for other paths":        {mcp + "handle /agent/* {\n" + oagent + "}\nAPI", false},
		"other paths":                   {notTrips + mcp + guarded("@agents") + "API", false},
		"another method":                {"@post method POST\n" + mcp + guarded("@post") + "API", false},
		"before the endpoint":           {"route {\n" + guarded("/agent/*") + mcp + "API\n}", false},
		"the API first":                 {"route {\n" + mcp + "handle /trips* {\nAPI\n}\n" + oagent + "API\n}", false},
		"the API first in the group":    {mcp + "handle /trips* {\nAPI\n}\nhandle {\n" + oagent + "API\n}", false},
		"the API in the block before":   {"route {\nroute {\n" + mcp + "handle /trips* {\nAPI\n}\n}\n" + oagent + "API\n}", false},
		"another handle":                {"handle /mcp* {\n" + mcp + "API\n}\nhandle {\n" + oagent + "API\n}", false},
		"a matcher after a rewrite":     {"route {\n" + mcp + "uri replace /trips /other\nroute /trips* {\n" + oagent + "}\nAPI\n}", false},
		"an API before in nested route": {"route {\n" + mcp + "route {\nroute {\nAPI\n}\n}\n" + oagent + "API\n}", false},
	} {
		t.Run(name, func(t *testing.T) {
			s, api := sitetest.NewSite(t), new(sitetest.RulesAPI)
			s.Write("agent.yaml", sitetest.AgentDocument("desk", "  get-trip: {user_identity: false, input_restriction: {assertion: 'recent.get-trip.inputs.id == \"7\"'}}\n"))
			s.Start("agents {\n\tstore bolt DIR/store.db\n}", strings.ReplaceAll(test.block, "API", "reverse_proxy "+sitetest.Upstream(t, api.ServeHTTP)))
			call := func(id string) sitetest.Result {
				r := s.CallRequest("getTrip", `{"id":"`+id+`"}`)
				r.Header.Set("X-Engagement", "one")
				return s.Result(s.Do(r))
			}
			if refused := call("8"); !refused.IsError {
				t.Errorf("result %s of a call that the agent may not make", refused.Text())
			}
			want := 0
			if test.passes {
				want = 1
			}
			if allowed := call("7"); allowed.IsError == test.passes {
				t.Errorf("result of the other call: %s", allowed.Text())
			}
			if api.Mu.Lock(); api.Reached != want {
				t.Errorf("the API received %d requests, want %d", api.Reached, want)
			}
			api.Mu.Unlock()
			if !test.passes {
				s.Logged("would not pass the oagent handler", `"agent":"desk"`, `"tool":"getTrip"`)
			}
		})
	}
}
