package siteroutes_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// triedGlobal has two toolsets with different paths.
const triedGlobal = "agents {\nstore bolt DIR/store.db\ntoolset trips TRIPS\ntoolset orders DIR/orders.yaml\n}"

// newTriedSite returns a site with two toolsets, agents, and models that are never called.
func newTriedSite(t *testing.T) *sitetest.Site {
	t.Helper()
	s := sitetest.NewSite(t)
	s.Write("orders.yaml", sitetest.Timetable("Orders", "orders", "invoices"))
	s.Write("desk.yaml", sitetest.AgentDocument("desk", "  get-trip: {}\n"))
	s.Write("two.yaml", sitetest.AgentDocument("desk", "  get-trip: {}\n")+"---\n"+sitetest.AgentDocument("planner", "  list-trips: {}\n"))
	return s
}

// expand replaces the abbreviations in a block: HOSTED and GUARD are oagent handlers of two agents, ONE is that of one agent.
func expand(block string) string {
	const options = " DIR/two.yaml {\ntoolset trips\nserve /agents\nengagements /engagements\n"
	return strings.NewReplacer(
		"HOSTED", options+"model openai {\nbase_url http://127.0.0.1:1\nmodel m\n}\n}", "GUARD", options, "ONE", " DIR/desk.yaml {\ntoolset trips\n}",
		"API", "reverse_proxy 127.0.0.1:1", "LOGIN", "{\nann $2a$04$K5nbTVBH6mDpcR5oqrX1SOcJCTC5uAAv9tJ2tDqDLYwTL7f0K8wpG\n}",
	).Replace(block)
}

// loadTried validates and loads a site, and returns the error of both. It is an error of the test if only one of them fails.
func loadTried(t *testing.T, s *sitetest.Site, config []byte) error {
	t.Helper()
	parsed := new(caddy.Config)
	if err := json.Unmarshal(config, parsed); err != nil {
		t.Fatal(err)
	}
	invalid := caddy.Validate(parsed)
	err := caddy.Load(config, true)
	if err == nil {
		t.Cleanup(func() { _ = caddy.Stop() })
	}
	if (invalid != nil) != (err != nil) {
		t.Errorf("validate: %v, load: %v", invalid, err)
	}
	return err
}

// tried are the messages of the log that come from tries.
func tried(log string) (messages []string) {
	for line := range strings.Lines(log) {
		for _, part := range []string{"tool calls are refused", "no handler after the endpoint", "does not see tool calls", "requires reviews"} {
			if strings.Contains(line, part) {
				messages = append(messages, line)
			}
		}
	}
	return messages
}

func TestTry_finds_calls_that_are_refused(t *testing.T) {
	const silent, fails, warns = "", "fails ", "warns "
	for name, test := range map[string]struct{ block, want string }{
		"several hosted agents":                   {"mcp /mcp trips\noagent HOSTED\nAPI", fails + "desk planner mcp"},
		"several hosted agents, otc":              {"otc /otc trips\noagent HOSTED\nAPI", fails + "desk planner otc"},
		"the second endpoint":                     {"mcp /desk trips {\nagent desk\n}\nmcp /all trips\noagent HOSTED\nAPI", fails + "/all several"},
		"agent":                                   {"mcp /mcp trips {\nagent desk\n}\noagent HOSTED\nAPI", silent},
		"agent, no model":                         {"mcp /desk trips {\nagent desk\n}\notc /otc trips {\nagent planner\n}\noagent GUARD}\nAPI", silent},
		"an agent that is misspelt":               {"mcp /mcp trips {\nagent deks\n}\noagent HOSTED\nAPI", fails + "deks desk?"},
		"agent and another guard":                 {"mcp /mcp trips {\nagent desk\n}\noagent GUARD guard planner\n}\nAPI", fails + "desk planner guard"},
		"agent and the same guard":                {"mcp /mcp trips {\nagent desk\n}\noagent GUARD guard desk\n}\nAPI", silent},
		"a guard that the caller chooses":         {"mcp /mcp trips\noagent GUARD guard {http.request.header.X-Agent}\n}\nAPI", silent},
		"a guard of the context":                  {"ocp\nmcp /mcp trips\noagent GUARD guard {http.ocp.agent_type}\n}\nAPI", silent},
		"a guard whose variable is not set":       {"mcp /mcp trips\noagent GUARD guard {env.NO_SUCH_AGENT}\n}\nAPI", fails + "several agent"},
		"a guard of the toolset":                  {"mcp /mcp trips\noagent GUARD guard {http.tool.toolset}\n}\nAPI", fails + "trips desk"},
		"a toolset that is not governed":          {"mcp /mcp orders\noagent ONE\nAPI", fails + "orders desk"},
		"a document that is not governed":         {"mcp /mcp DIR/orders.yaml\noagent ONE\nAPI", fails + "orders.yaml toolset"},
		"one of the toolsets is not governed":     {"mcp /mcp trips orders\noagent ONE\nAPI", warns + "orders"},
		"a matcher for the toolset":               {"@trips expression `{http.tool.toolset} == \"trips\"`\nmcp /mcp trips orders\noagent @trips ONE\nAPI", silent},
		"a matcher for the other toolset":         {"@orders expression `{http.tool.toolset} in [\"orders\"]`\nmcp /mcp trips orders\noagent @orders ONE\nAPI", warns + "orders"},
		"a path of the agents":                    {"mcp /mcp trips\noagent /agents* HOSTED\nAPI", silent},
		"a path of the tools":                     {"mcp /mcp trips\noagent /trips* HOSTED\nAPI", fails + "several"},
		"a path of some tools":                    {"mcp /mcp trips\noagent /trips HOSTED\nAPI", warns + "several listTrips"},
		"a path of some arguments":                {"mcp /mcp trips\noagent /trips/7 HOSTED\nAPI", silent},
		"a method":                                {"@post method POST\nmcp /mcp orders\noagent @post HOSTED\nAPI", silent},
		"not a path":                              {"@agents not path /orders* /invoices*\nmcp /mcp orders\noagent @agents HOSTED\nAPI", silent},
		"a header":                                {"@agents header X-Agents yes\nmcp /mcp trips\noagent @agents HOSTED\nAPI", silent},
		"an expression of the caller":             {"@agents expression `{http.request.header.X-A} == \"\"`\nmcp /mcp trips\noagent @agents HOSTED\nAPI", silent},
		"an address":                              {"@agents remote_ip 10.0.0.0/8\nmcp /mcp trips\noagent @agents HOSTED\nAPI", silent},
		"after a rewrite":                         {"route {\nmcp /mcp trips\nuri strip_prefix /trips\noagent /trips* HOSTED\nAPI\n}", silent},
		"behind the API":                          {"route {\nmcp /mcp trips\nAPI\noagent HOSTED\n}", silent},
		"behind the API of other paths":           {"route {\nmcp /mcp trips\nreverse_proxy /orders 127.0.0.1:1\noagent HOSTED\nAPI\n}", fails + "several"},
		"behind an answer":                        {"route {\nmcp /mcp trips\nrespond ok\noagent HOSTED\n}", silent},
		"behind foreign handlers":                 {"route {\nmcp /mcp trips\ntest_user\nencode gzip\nheader X-A b\noagent HOSTED\nAPI\n}", fails + "several"},
		"in a handle block":                       {"mcp /mcp trips\nhandle /trips* {\noagent HOSTED\nAPI\n}\nhandle {\nAPI\n}", fails + "several"},
		"in another handle block":                 {"mcp /mcp trips\nhandle /agents* {\noagent HOSTED\n}\nhandle {\nAPI\n}", silent},
		"beside the endpoint's handle block":      {"handle /mcp* {\nmcp /mcp trips\n}\nhandle {\noagent HOSTED\nAPI\n}", fails + "several"},
		"answered in the endpoint's handle block": {"handle /mcp* {\nmcp /mcp trips\nAPI\n}\nhandle {\noagent HOSTED\nAPI\n}", silent},
		"in nested blocks":                        {"route {\nroute {\nmcp /mcp trips\n}\nroute /trips* {\nroute {\noagent HOSTED\n}\n}\nAPI\n}", fails + "several"},
		"before the endpoint":                     {"route {\noagent HOSTED\nmcp /mcp trips\nAPI\n}", silent},
		"an agent without any of the tools":       {"mcp /mcp orders\noagent DIR/desk.yaml {\ntoolset trips\ntoolset orders\n}\nAPI", warns + "desk capabilities"},
		"an agent with some of the tools":         {"mcp /mcp trips\noagent ONE\nAPI", silent},
		"the agent's check is elsewhere":          {"mcp /mcp trips {\nagent desk\n}\noagent /agents* ONE\nAPI", fails + "pass desk"},
		"the agent's check is for other methods":  {"mcp /mcp trips {\nagent desk\n}\n@post method POST\noagent @post DIR/desk.yaml {\ntoolset trips\n}\nAPI", fails + "pass desk"},
		"two checks":                              {"mcp /mcp trips {\nagent desk\n}\nroute {\noagent HOSTED\noagent DIR/desk.yaml {\ntoolset trips\nguard desk\n}\n}\nAPI", silent},
		"a document that is not loaded":           {"mcp /mcp http://127.0.0.1:1/openapi.yaml\noagent HOSTED\nAPI", silent},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTriedSite(t)
			err := loadTried(t, s, s.Config(triedGlobal, expand(test.block)))
			messages := tried(s.Log())
			if words, ok := strings.CutPrefix(test.want, fails); ok != (err != nil) || ok && !testkit.ContainsAll(err.Error(), words) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if words, ok := strings.CutPrefix(test.want, warns); ok != (len(messages) > 0) || ok && !testkit.ContainsAll(messages[0], words) {
				t.Errorf("logged %q, want %q", messages, test.want)
			}
		})
	}
}

// TestTry_warns_of_calls_without_an_answer follows calls to the end of the site.
func TestTry_warns_of_calls_without_an_answer(t *testing.T) {
	for name, test := range map[string]struct{ block, tools string }{
		"no handler":               {"mcp /mcp trips", "listTrips getTrip"},
		"handlers that pass on":    {"mcp /mcp trips\notc /otc trips\nencode gzip\nheader X-A b", "listTrips"},
		"before the endpoint":      {"route {\nrespond /x ok\nmcp /mcp trips\n}", "listTrips"},
		"other paths":              {"mcp /mcp trips\nreverse_proxy /api/* 127.0.0.1:1", "listTrips deleteTrip"},
		"the path of one tool":     {"mcp /mcp orders\nreverse_proxy /orders 127.0.0.1:1", "invoices"},
		"only the login":           {"route {\nmcp /mcp orders\nforward_auth 127.0.0.1:1 {\nuri /auth\n}\n}", "orders invoices"},
		"other methods":            {"@post method POST\nmcp /mcp orders\nreverse_proxy @post 127.0.0.1:1", "orders"},
		"a document not loaded":    {"mcp /mcp http://127.0.0.1:1/openapi.yaml", "all"},
		"an API":                   {"mcp /mcp trips\nAPI", ""},
		"an API for all":           {"mcp /mcp trips\nhandle /trips* {\nAPI\n}", ""},
		"a later block":            {"handle /mcp {\nmcp /mcp trips\n}\nhandle {\nrespond ok\n}", ""},
		"an unknown handler":       {"mcp /mcp trips\ntest_user", ""},
		"a matcher of the caller":  {"@a header X-A b\nmcp /mcp trips\nreverse_proxy @a 127.0.0.1:1", ""},
		"a pattern of an argument": {"mcp /mcp trips\n@trips path /trips /trips/1*\nreverse_proxy @trips 127.0.0.1:1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTriedSite(t)
			if err := loadTried(t, s, s.Config(triedGlobal, expand(test.block))); err != nil {
				t.Fatal(err)
			}
			messages := strings.Join(tried(s.Log()), "")
			if warned := strings.Contains(messages, "no handler after the endpoint"); warned != (test.tools != "") {
				t.Errorf("logged %q", messages)
			}
			if !testkit.ContainsAll(messages, test.tools) {
				t.Errorf("logged %q, want %s", messages, test.tools)
			}
		})
	}
}

// TestTry_warns_of_bypassed_handlers follows plain requests for the operations up to the endpoint.
func TestTry_warns_of_bypassed_handlers(t *testing.T) {
	for name, test := range map[string]struct {
		block string
		want  []string // a part of each warning of a load
	}{
		"the login of the console":      {"basic_auth /console* LOGIN\nagents_console\nmcp /mcp trips\notc /otc trips\nAPI", nil},
		"no operation":                  {"basic_auth /private* LOGIN\nmcp /mcp trips\nAPI", nil},
		"an operation":                  {"basic_auth /trips* LOGIN\nmcp /mcp trips\nAPI", []string{"authentication"}},
		"one warning for each handler":  {"basic_auth /trips* LOGIN\nmcp /mcp trips\notc /otc trips\nmcp /more trips orders\nAPI", []string{"authentication"}},
		"two handlers":                  {"basic_auth /trips* LOGIN\nrequest_body /trips* {\nmax_size 1KB\n}\nmcp /mcp trips\nAPI", []string{"authentication", "request_body"}},
		"the operation of one endpoint": {"basic_auth /orders LOGIN\nmcp /mcp trips\nmcp /orders-mcp orders\nAPI", []string{"/orders-mcp"}},
		"in a block":                    {"route {\nroute /trips* {\nbasic_auth LOGIN\n}\nmcp /mcp trips\nAPI\n}", []string{"authentication"}},
		"a refusal":                     {"route {\nrespond /trips/* 403\nmcp /mcp trips\nAPI\n}", []string{"static_response"}},
		"an argument":                   {"basic_auth /trips/7 LOGIN\nmcp /mcp trips\nAPI", nil},
		"for the endpoint too":          {"@all path /trips* /mcp*\nbasic_auth @all LOGIN\nmcp /mcp trips\nAPI", nil},
		"for all but the console":       {"@programs not path /console*\nbasic_auth @programs LOGIN\nmcp /mcp trips\nAPI", nil},
		"behind the endpoint":           {"mcp /mcp trips\nhandle /trips* {\nbasic_auth LOGIN\nAPI\n}\nhandle {\nAPI\n}", nil},
		"another block":                 {"handle /trips* {\nbasic_auth LOGIN\nAPI\n}\nhandle {\nmcp /mcp trips\nAPI\n}", nil},
		"a header":                      {"@a header X-A b\nbasic_auth @a LOGIN\nmcp /mcp trips\nAPI", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTriedSite(t)
			if err := s.Load(triedGlobal, expand(test.block)); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = caddy.Stop() })
			messages := tried(s.Log())
			if len(messages) != len(test.want) {
				t.Fatalf("logged %q, want %q", messages, test.want)
			}
			for _, want := range test.want {
				if !testkit.ContainsAll(strings.Join(messages, ""), want+" does not see tool calls") {
					t.Errorf("logged %q, want %q", messages, want)
				}
			}
		})
	}
}

// TestTry_reads_all_servers finds the agents of servers that Caddy provisions later, and refusals in each of them.
func TestTry_reads_all_servers(t *testing.T) {
	server := func(port int, handlers string) string {
		return fmt.Sprintf(`{"listen":["127.0.0.1:%d"],"routes":[{"handle":[%s]}]}`, port, handlers)
	}
	const guard = `{"handler":"oagent","files":["DIR/two.yaml"],"toolsets":["trips"],"guard":"%s"}`
	for name, test := range map[string]struct{ first, second, want string }{
		"the agent is on the other server": {`{"handler":"mcp","toolset":"trips","agent":"desk"},{"handler":"static_response"}`, fmt.Sprintf(guard, "desk"), ""},
		"the agent is on no server":        {`{"handler":"mcp","toolset":"trips","agent":"deks"},{"handler":"static_response"}`, fmt.Sprintf(guard, "desk"), "deks desk?"},
		"several handlers in one route": {
			`{"handler":"mcp","toolset":"orders"},{"handler":"headers"},` + fmt.Sprintf(guard, "desk") + `,{"handler":"static_response"}`,
			`{"handler":"static_response"}`, "orders desk",
		},
		"a named route": {`{"handler":"mcp","toolset":"trips","agent":"desk"},{"handler":"invoke","name":"guarded"}`, `{"handler":"static_response"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTriedSite(t)
			config := fmt.Sprintf(`{"admin":{"disabled":true,"config":{"persist":false}},"storage":{"module":"file_system","root":"DIR/storage"},
				"apps":{"agents":{"toolsets":{"trips":{"openapi":"DIR/trips.yaml"},"orders":{"openapi":"DIR/orders.yaml"}}},
				"http":{"servers":{"a":%s,"b":%s}}}}`, server(s.Port, test.first), server(testkit.FreePort(t), test.second))
			if strings.Contains(test.first, "invoke") {
				config = strings.Replace(config, `"routes"`, `"named_routes":{"guarded":{"handle":[`+fmt.Sprintf(guard, "desk")+`,{"handler":"static_response"}]}},"routes"`, 1)
			}
			err := loadTried(t, s, []byte(strings.ReplaceAll(config, "DIR", s.Dir)))
			if (err != nil) != (test.want != "") || err != nil && !testkit.ContainsAll(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
