package route_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

const (
	// bothToolsets have documents with a tool of the same name, and credentials of their own.
	bothToolsets = `agents {
		toolset trains DIR/trains.yaml {
			credential header Authorization trains-key
			timeout 20s
		}
		toolset buses DIR/buses.yaml {
			credential header X-Bus-Key buses-key
		}
	}`

	// bothRouted sends the calls of each toolset to its own upstream.
	bothRouted = `@trains expression {http.tool.toolset} == "trains"
		@buses expression {http.tool.toolset} == "buses"
		handle /metrics {
			metrics
		}
		handle @trains {
			reverse_proxy TRAINS
		}
		handle @buses {
			reverse_proxy BUSES
		}
		handle {
			respond "{http.tool.toolset}" 404
		}`
)

// testEvents has the events of the handler test_event.
var testEvents = make(chan caddy.Event, 10)

type eventHandler struct{}

func init() { caddy.RegisterModule(eventHandler{}) }

func (eventHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "events.handlers.test_event", New: func() caddy.Module { return new(eventHandler) }}
}

func (*eventHandler) UnmarshalCaddyfile(*caddyfile.Dispenser) error { return nil }

func (*eventHandler) Handle(_ context.Context, e caddy.Event) error {
	testEvents <- e
	return nil
}

// severalSite is a site with two documents and two APIs with the same paths.
func severalSite(t *testing.T, mcp string) *sitetest.Site {
	t.Helper()
	s := sitetest.NewSite(t)
	s.Write("trains.yaml", sitetest.Timetable("Trains", "list", "book"))
	s.Write("buses.yaml", sitetest.Timetable("Buses", "list", "ride"))
	s.Start(bothToolsets, mcp+"\n"+routeBoth(s))
	return s
}

func routeBoth(s *sitetest.Site) string {
	api := func(name string) string {
		return sitetest.Upstream(s.T, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Api", name)
			sitetest.Echo(w, r)
		})
	}
	return strings.NewReplacer("TRAINS", api("trains"), "BUSES", api("buses")).Replace(bothRouted)
}

func TestSeveral_names_credentials_and_routes(t *testing.T) {
	s := severalSite(t, "mcp /mcp trains buses")
	if got, want := s.ToolNames(), []string{"list", "book", "buses_list", "ride"}; !slices.Equal(got, want) {
		t.Errorf("tools %q, want %q", got, want)
	}
	for name, want := range map[string]struct{ uri, authorization, busKey string }{
		"list":       {"/list", "trains-key", ""},
		"buses_list": {"/list", "", "buses-key"},
		"book":       {"/book", "trains-key", ""},
		"ride":       {"/ride", "", "buses-key"},
	} {
		e := s.Echo(s.CallRequest(name, ""))
		if e.URI != want.uri || e.Header.Get("Authorization") != want.authorization || e.Header.Get("X-Bus-Key") != want.busKey {
			t.Errorf("%s became %s with %v", name, e.URI, e.Header)
		}
	}
	for _, toolset := range []string{"trains", "buses"} {
		sitetest.Eventually(t, "the calls of "+toolset, func() bool {
			return strings.Contains(s.Get("/metrics").Body, `fairway_tool_calls_total{outcome="ok",protocol="mcp",tool="list",toolset="`+toolset+`"}`)
		})
		s.Logged("http.log.access", `"tool":"list"`, `"toolset":"`+toolset+`"`, `"outcome":"ok"`)
	}
	s.Logged("prefix", `"buses_list"`)
}

func TestSeveral_warns_of_equal_paths(t *testing.T) {
	for block, want := range map[string]bool{
		"reverse_proxy " + sitetest.Upstream(t, sitetest.Echo):                            true,
		"@trains vars {http.tool.toolset} trains\nrespond @trains train\nrespond bus":     false,
		"@trains `{http.tool.toolset} == \"trains\"`\nrespond @trains train\nrespond bus": false,
		"handle {\nrespond {http.tool.toolset}\n}":                                        false,
	} {
		s := sitetest.NewSite(t)
		s.Write("trains.yaml", sitetest.Timetable("Trains", "list"))
		s.Write("buses.yaml", sitetest.Timetable("Buses", "list"))
		s.Start(bothToolsets, "mcp /mcp trains buses\n"+block)
		if got := s.HasLogged(`"level":"warn"`, "same method and path", "GET /list"); got != want {
			t.Errorf("%s: warning %t, want %t", block, got, want)
		}
	}
}

func TestSeveral_batch(t *testing.T) {
	s := severalSite(t, "mcp /mcp trains buses")
	call := func(id int, name string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, id, name)
	}
	a := s.Post("/mcp", "["+call(1, "list")+","+call(2, "buses_list")+"]", map[string]string{"MCP-Protocol-Version": "2025-03-26"})
	if strings.Count(a.Body, "trains-key") != 1 || strings.Count(a.Body, "buses-key") != 1 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestSeveral_reload_of_one(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("trains.yaml", sitetest.Timetable("Trains", "list", "book"))
	s.Write("buses.yaml", sitetest.Timetable("Buses", "list", "ride"))
	s.Start(bothToolsets+"\nevents {\non toolset_names_withdrawn test_event\n}", "mcp /mcp trains buses\n"+routeBoth(s))
	stream := sitetest.StreamsOf(s).Open(http.MethodGet, "", sitetest.SessionsOf(s).BeginIn("2025-06-18", `{}`)...)
	s.Echo(s.CallRequest("book", ""))

	s.Write("buses.yaml", sitetest.Timetable("Buses", "list", "book"))
	want := []string{"list", "book", "buses_list", "buses_book"}
	sitetest.Eventually(t, "the prefix of the newcomer", func() bool { return slices.Equal(s.ToolNames(), want) })
	if e := s.Echo(s.CallRequest("book", "")); e.Header.Get("Authorization") != "trains-key" {
		t.Errorf("book has %v", e.Header)
	}

	s.Write("trains.yaml", sitetest.Timetable("Trains", "list", "ride"))
	want = []string{"list", "trains_ride", "buses_list", "buses_book"}
	sitetest.Eventually(t, "no tool with the name of another toolset's tool that is gone", func() bool { return slices.Equal(s.ToolNames(), want) })
	s.Logged(`"level":"warn"`, "calls of them fail", `"book"`)
	if event := <-testEvents; event.Data["path"] != "/mcp" || event.Data["toolsets"] != "trains,buses" || !slices.Contains(event.Data["names"].([]string), "book") {
		t.Errorf("event %v", event.Data)
	}
	if a := s.Do(s.CallRequest("book", "")); !testkit.ContainsAll(a.Body, "unknown book") {
		t.Errorf("book: %d %s", a.Status, a.Body)
	}

	// A reload of the configuration gives the names anew.
	if err := caddy.Load(s.Config(bothToolsets, "mcp /mcp trains buses {\n\ttitle Other\n}\n"+routeBoth(s)), true); err != nil {
		t.Fatal(err)
	}
	if got, want := s.ToolNames(), []string{"list", "ride", "buses_list", "book"}; !slices.Equal(got, want) {
		t.Errorf("after a reload: %q, want %q", got, want)
	}
	if text := sitetest.Rest(s.T, stream); !strings.Contains(text, "notifications/tools/list_changed") {
		t.Errorf("the session got %q", text)
	}
}

func TestSeveral_scopes_of_own_document(t *testing.T) {
	const login = "components: {securitySchemes: {login: {type: oauth2, flows: {}}}}\nsecurity: [{login: [ride:read]}]\n"
	i, s := sitetest.NewIssuer(t), sitetest.NewSite(t)
	s.Write("trains.yaml", sitetest.Timetable("Trains", "list", "book")+strings.Replace(login, "oauth2, flows: {}", "apiKey, in: header, name: X-Key", 1))
	s.Write("buses.yaml", sitetest.Timetable("Buses", "list", "ride")+login)
	s.Start("", "agent_auth /mcp* {\nissuer "+i.URL+"\n}\nmcp /mcp DIR/trains.yaml DIR/buses.yaml\nrespond ok")
	token := func(scope ...any) []string {
		return []string{"Authorization", "Bearer " + i.Token(t, s.URL+"/mcp", scope...), "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2025-06-18"}
	}
	for _, c := range []struct {
		header []string
		name   string
		status int
	}{
		{token("scope", "other"), "list", http.StatusOK},
		{token("scope", "other"), "buses_list", http.StatusForbidden},
		{token("scope", "ride:read"), "buses_list", http.StatusOK},
	} {
		a := s.Request(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+c.name+`","arguments":{}}}`, c.header...)
		if a.Status != c.status {
			t.Errorf("%s: %d %s, want %d", c.name, a.Status, a.Body, c.status)
		}
	}
}

func TestSeveral_search_and_pins(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("trains.yaml", sitetest.Timetable("Trains", "list", "book"))
	s.Write("buses.yaml", sitetest.Timetable("Buses", "list", "ride"))
	pinned := strings.Replace(bothToolsets, "timeout 20s", "pin list\nsearch on", 1)
	s.Start(pinned, "mcp /mcp trains buses\n"+routeBoth(s))
	if got, want := s.ToolNames(), []string{"search_tools", "describe_tools", "call_read_tool", "list"}; !slices.Equal(got, want) {
		t.Errorf("tools %q, want %q", got, want)
	}
	if text := s.Succeed("search_tools", `{"queries":["list of buses"]}`); !strings.Contains(text, `"name":"buses_list"`) {
		t.Errorf("found %s", text)
	}
	e := s.Echo(s.CallRequest("call_read_tool", `{"name":"buses_list","arguments":{}}`))
	if e.Header.Get("X-Bus-Key") != "buses-key" || e.Header.Get("Authorization") != "" {
		t.Errorf("the call has %v", e.Header)
	}
	s.Logged("http.log.access", `"tool":"list"`, `"toolset":"buses"`)
	s.Logged("http.log.access", `"tool":"search_tools"`, `"toolset":"trains,buses"`)

	s.Start(bothToolsets, "mcp /mcp trains buses {\nsearch on\npin ride\n}\n"+routeBoth(s))
	if got := s.ToolNames(); len(got) < 4 || got[3] != "ride" {
		t.Errorf("tools %q, want ride as the fourth", got)
	}
}

func TestSeveral_not_loaded(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("trains.yaml", sitetest.Timetable("Trains", "list"))
	api := http.NewServeMux()
	address := sitetest.Upstream(t, api.ServeHTTP)
	toolsets := func(first string) string {
		return "agents {\ntoolset trains " + first + "\ntoolset buses http://" + address + "/buses.yaml {\nrefresh 1s\n}\n}"
	}
	s.Start(toolsets("http://"+address+"/trains.yaml"), "mcp /mcp trains buses\nrespond ok")
	if a := s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, nil); a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
		t.Errorf("no document is loaded: %d %s", a.Status, a.Body)
	}
	s.Start(toolsets("DIR/trains.yaml"), "mcp /mcp trains buses\nrespond ok")
	if got := s.ToolNames(); !slices.Equal(got, []string{"list"}) {
		t.Errorf("tools %q, want those of trains", got)
	}
	s.Logged(`"level":"warn"`, `"missing":["buses"]`)
}

func TestSeveral_agent(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("trains.yaml", sitetest.Timetable("Trains", "list", "book"))
	s.Write("buses.yaml", sitetest.Timetable("Buses", "list", "ride"))
	s.Write("agent.yaml", sitetest.AgentDocument("desk", "  trains.list: {user_identity: false}\n  ride: {user_identity: false}\n"))
	s.Start(strings.Replace(bothToolsets, "agents {", "agents {\nstore bolt DIR/store.db", 1),
		"mcp /mcp trains buses {\nagent desk\n}\noagent DIR/agent.yaml\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
	if got, want := s.ToolNames(), []string{"list", "ride"}; !slices.Equal(got, want) {
		t.Errorf("tools %q, want %q", got, want)
	}
	if e := s.Echo(s.CallRequest("list", "")); e.Header.Get("Authorization") != "trains-key" {
		t.Errorf("list has %v", e.Header)
	}
	s.Echo(s.CallRequest("ride", ""))
}

func TestSeveral_describes_server(t *testing.T) {
	s := severalSite(t, "mcp /mcp trains buses {\ndiscovery\n}")
	a := s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`, nil)
	var initialized struct {
		Result struct {
			ServerInfo   struct{ Name, Title, Version string }
			Instructions string
		}
	}
	if err := json.Unmarshal([]byte(a.Body), &initialized); err != nil {
		t.Fatal(err)
	}
	info := initialized.Result.ServerInfo
	if info.Name != "trains-buses" || info.Title != "Trains, Buses" || info.Version != "1.0.0" {
		t.Errorf("serverInfo %+v", info)
	}
	if text := initialized.Result.Instructions; !testkit.ContainsAll(text, "Trains: About Buses:") {
		t.Errorf("instructions %q", text)
	}
	var card struct{ Name, Title string }
	if err := json.Unmarshal([]byte(s.Get("/mcp/server-card").Body), &card); err != nil || card.Title != "Trains, Buses" || !strings.HasSuffix(card.Name, "/trains-buses") {
		t.Errorf("card %+v: %v", card, err)
	}
}

func TestSeveral_resources_and_warnings(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("trains.yaml", sitetest.Timetable("Trains", "list", "book"))
	s.Write("buses.yaml", sitetest.Timetable("Buses", "list", "ride")+"x-mcp: {icon: [], icons: []}\n")
	s.Start(bothToolsets, "mcp /mcp trains buses {\nresources get all\n}\n"+routeBoth(s))
	s.Logged(`"level":"warn"`, "unknown key", "icon")
	for uri, want := range map[string]string{"trains:///list": "trains-key", "buses:///list": "buses-key"} {
		a := s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"`+uri+`"}}`, map[string]string{"MCP-Protocol-Version": "2025-06-18"})
		if a.Status != http.StatusOK || strings.Count(a.Body, "-key") != 1 || !strings.Contains(a.Body, want) {
			t.Errorf("%s: %d %s", uri, a.Status, a.Body)
		}
	}
}

func TestSeveral_list_changes_when_a_document_loads(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("trains.yaml", sitetest.Timetable("Trains", "list"))
	var loads atomic.Bool
	address := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if !loads.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, sitetest.Timetable("Buses", "ride"))
	})
	s.Start("agents {\ntoolset trains DIR/trains.yaml\ntoolset buses http://"+address+"/buses.yaml {\nrefresh 1s\n}\n}", "mcp /mcp trains buses\nrespond ok")
	if got := s.ToolNames(); !slices.Equal(got, []string{"list"}) {
		t.Errorf("tools %q, want those of trains", got)
	}
	stream := sitetest.StreamsOf(s).Open(http.MethodGet, "", sitetest.SessionsOf(s).BeginIn("2025-06-18", `{}`)...)
	loads.Store(true)
	if text := sitetest.Message(s.T, bufio.NewReader(stream.Body)); !strings.Contains(text, "list_changed") {
		t.Errorf("the session got %q", text)
	}
	if got := s.ToolNames(); !slices.Equal(got, []string{"list", "ride"}) {
		t.Errorf("tools %q, want those of both", got)
	}
}

func TestSeveral_config_errors(t *testing.T) {
	s := sitetest.NewSite(t)
	for _, name := range []string{"trains.yaml", "my-api.yaml", "my_api.yaml", "日本.yaml"} {
		s.Write(name, sitetest.Timetable("T", "list"))
	}
	for rule, c := range map[string]struct{ block, want string }{
		"unknown":         {"mcp /mcp trains busses", "unknown busses mean buses"},
		"pin":             {"mcp /mcp trains buses {\nsearch on\npin buses_lst\n}", "pin buses_lst mean buses_list"},
		"the same prefix": {"mcp /mcp DIR/my-api.yaml DIR/my_api.yaml", "prefix my_api_"},
		"no prefix":       {"mcp /mcp DIR/trains.yaml DIR/日本.yaml", "prefix letter"},
		"two at one path": {"mcp /mcp trains buses\nmcp /mcp buses", "never reached trains,buses"},
		"too many":        {"mcp /mcp trains" + tooManyDocuments(), "32"},
	} {
		s.Write("buses.yaml", sitetest.Timetable("Buses", "list"))
		if err := s.Load(bothToolsets, c.block+"\nrespond ok"); err == nil || !testkit.ContainsAll(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", rule, err, c.want)
		}
	}
}

// tooManyDocuments are more arguments than an endpoint can have toolsets.
func tooManyDocuments() (arguments string) {
	for i := range 40 {
		arguments += fmt.Sprintf(" DIR/%d.yaml", i)
	}
	return arguments
}

func TestSeveral_adapt(t *testing.T) {
	for block, want := range map[string]string{
		"mcp /mcp a b {\ninclude tag x\n}":      "several document",
		"mcp /mcp a a":                          "a twice",
		"mcp a /mcp":                            "/mcp first",
		`mcp /mcp a ""`:                         "empty",
		"mcp /mcp {\ntoolset a b\ntoolset c\n}": "toolset twice",
		"mcp /mcp a.json {\nopenapi b.json\n}":  "two a.json b.json",
	} {
		if _, _, err := sitetest.Adapt("http://a.test {\n" + block + "\n}"); err == nil || !testkit.ContainsAll(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", block, err, want)
		}
	}
	config, _, err := sitetest.Adapt("http://a.test {\nmcp /mcp {\ntoolset a b c\n}\n}")
	if plain := strings.Join(strings.Fields(config), ""); err != nil || !strings.Contains(plain, `"toolset":"a","toolsets":["b","c"]`) {
		t.Errorf("%v: %s", err, plain)
	}
}
