package hosted_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestHosting_calls_reach_the_guard checks that each tool call of a hosted agent passes oagent before it
// reaches the API, whatever the routes around oagent are.
func TestHosting_calls_reach_the_guard(t *testing.T) {
	const matcher = "@agents path /agents/* /engagements/*\n"
	for name, test := range map[string]struct {
		block   string // with USER, OAGENT and API; OAGENT has MATCH after the directive
		reached []string
	}{
		"no matcher":                       {"route {\nUSER\nOAGENT\nAPI\n}", []string{"/trips/7"}},
		"handle for the agent's endpoints": {matcher + "route {\nUSER\nhandle @agents {\nOAGENT\n}\nAPI\n}", []string{"/trips/7"}},
		"route for the agent's endpoints":  {matcher + "route {\nUSER\nroute @agents {\nOAGENT\n}\nAPI\n}", []string{"/trips/7"}},
		"nested routes":                    {matcher + "route {\nUSER\nroute @agents {\nroute @agents {\nOAGENT\n}\n}\nAPI\n}", []string{"/trips/7"}},
		"a matcher of oagent":              {matcher + "route {\nUSER\nMATCH @agents\nAPI\n}", []string{"/trips/7"}},
		"no authentication before":         {matcher + "route {\ntest_user\nMATCH @agents\nAPI\n}", []string{"/trips/7"}},
		"another handle for the API":       {matcher + "route {\nUSER\nhandle @agents {\nOAGENT\n}\nhandle {\nAPI\n}\n}", nil},
		"the API first":                    {matcher + "route {\nUSER\nhandle /trips/* {\nAPI\n}\nOAGENT\nAPI\n}", nil},
		"the API first in a group":         {matcher + "route {\nUSER\nhandle /trips/* {\nAPI\n}\nhandle {\nOAGENT\nAPI\n}\n}", nil},
		"the API first, with a matcher":    {"route {\nUSER\n@trips path /trips/*\nAPI @trips\nOAGENT\nAPI\n}", nil},
		"the API of other paths first":     {"route {\nUSER\nhandle /other/* {\nAPI\n}\nOAGENT\nAPI\n}", []string{"/trips/7"}},
		"no authentication, in a group":    {matcher + "route {\ntest_user\nhandle /trips/* {\nAPI\n}\nhandle {\nOAGENT\nAPI\n}\n}", []string{"/trips/7"}},
		"a path that is rewritten":         {matcher + "route {\nUSER\nhandle @agents {\nOAGENT\n}\nuri replace /trips/ /journeys/\nAPI\n}", []string{"/journeys/7"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", "  get-trip: {user_identity: false, input_restriction: {assertion: 'recent.get-trip.inputs.id == \"7\"'}}\n"), sitetest.Play(
				modelserver.Step{Calls: []modelserver.Call{
					{ID: "1", Name: "get-trip", Arguments: `{"id":"7"}`},
					{ID: "2", Name: "get-trip", Arguments: `{"id":"8"}`},
				}}, modelserver.Step{Text: "Done."}))
			whole := s.Block("")
			oagent := whole[strings.Index(whole, "oagent"):strings.LastIndex(whole, "reverse_proxy")]
			api := strings.TrimSuffix(whole[strings.LastIndex(whole, "reverse_proxy"):], "\n}")
			s.Start(storeInDir, strings.NewReplacer(
				"USER", "forward_auth "+sitetest.Upstream(t, func(http.ResponseWriter, *http.Request) {})+" {\nuri /\n}\ntest_user", "OAGENT", oagent, "API @trips", strings.Replace(api, " ", " @trips ", 1), "API", api,
				"MATCH @agents", strings.Replace(oagent, " ", " @agents ", 1)).Replace(test.block))
			location := s.Begin("ann", "desk", "Go")
			if v := s.State("ann", location); v.Status != "complete" || v.Text != "Done." {
				t.Errorf("state %+v", v)
			}
			var reached []string
			for _, r := range s.API.Received() {
				reached = append(reached, r.URL.Path)
			}
			if !slices.Equal(reached, test.reached) {
				t.Errorf("the API received %q, want %q", reached, test.reached)
			}
			if test.reached != nil {
				if a := s.As("ann", "GET", location+"/audit", ""); strings.Count(a.Body, `"kind":"input_restriction"`) != 1 {
					t.Errorf("record: status %d, %s", a.Status, a.Body)
				}
			}
		})
	}
}
