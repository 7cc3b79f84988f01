package route_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// searchTools are the tools that an endpoint lists if it searches.
const searchTools = "search_tools describe_tools call_read_tool call_write_tool"

// allTrips are the tools of trips.
const allTrips = "listTrips createTrip probeTrips getTrip deleteTrip"

// wantListed checks the names in the list of an endpoint. It ignores next_page, which other options decide.
func wantListed(s *sitetest.Site, path, want string) {
	s.T.Helper()
	names, _ := list(s, path)
	names = slices.DeleteFunc(names, func(name string) bool { return name == "next_page" })
	if got := strings.Join(names, " "); got != want {
		s.T.Errorf("%s lists %s, want %s", path, got, want)
	}
}

func TestSearch_listed(t *testing.T) {
	for _, c := range []struct {
		rule, toolset, endpoint, query, want string
	}{
		{"a short list", "", "", "", allTrips},
		{"search auto of a short list", "search auto", "", "", allTrips},
		{"search on in the toolset", "search on", "", "", searchTools},
		{"search on in the endpoint", "", "search on", "", searchTools},
		{"the endpoint wins", "search on", "search off", "", allTrips},
		{"tools that only read", "search on\nreadonly", "", "", strings.Replace(searchTools, " call_write_tool", "", 1)},
		{"pinned tools", "search on\npin getTrip listTrips", "", "", searchTools + " getTrip listTrips"},
		{"the endpoint's pins win", "search on\npin getTrip", "pin deleteTrip", "", searchTools + " deleteTrip"},
		{"pins of a list of all", "pin getTrip", "", "", allTrips},
		{"the client chooses all", "search on", "", "?tools=all", allTrips},
		{"the client chooses to search", "search off\npin getTrip", "", "?tools=search", searchTools + " getTrip"},
		{"another parameter", "search on", "", "?tool=all", searchTools},
	} {
		t.Run(c.rule, func(t *testing.T) {
			s := sitetest.NewSite(t)
			s.Start("agents {\ntoolset t {\nopenapi TRIPS\n"+c.toolset+"\n}\n}", "mcp /mcp t {\n"+c.endpoint+"\n}\nrespond ok")
			wantListed(s, "/mcp"+c.query, c.want)
		})
	}
}

func TestSearch_wrong_choice(t *testing.T) {
	s := sitetest.Run(t, "", "mcp /mcp TRIPS\nrespond ok")
	for _, query := range []string{"?tools=some", "?tools=", "?tools=all&tools=search"} {
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			if a := s.Request(method, "/mcp"+query, ""); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, "tools") {
				t.Errorf("%s %s: got %d %s, want 400 that names the parameter", method, query, a.Status, a.Body)
			}
		}
	}
}

func TestSearch_options_that_are_wrong(t *testing.T) {
	s := sitetest.NewSite(t)
	for _, c := range []struct{ rule, global, block, words string }{
		{"pin without a tool", "", "mcp /mcp TRIPS {\npin getTrips\n}\nrespond ok", "pin getTrips mean getTrip"},
		{"pin of a toolset without a tool", "agents {\ntoolset t {\nopenapi TRIPS\npin xyzzy\n}\n}", "mcp /mcp t\nrespond ok", "toolset pin xyzzy names"},
		{"embeddings without an address", "", "mcp /mcp TRIPS {\nembeddings {env.NOWHERE}\n}\nrespond ok", "embeddings URL"},
		{"pin of a built-in tool", "", "mcp /mcp TRIPS {\npin search_tools\n}\nrespond ok", "pin search_tools"},
	} {
		if err := s.Load(c.global, c.block); err == nil || !sitetest.ContainsAll(err.Error(), strings.Fields(c.words)) {
			t.Errorf("%s: got %v, want an error with %q", c.rule, err, c.words)
		}
	}
}

// TestSearch_missing_scope checks that a call of a tool whose scope the token lacks is refused with the scope,
// whichever built-in tool calls it.
func TestSearch_missing_scope(t *testing.T) {
	i, s := sitetest.NewIssuer(t), sitetest.NewSite(t)
	s.Write("trips.yaml", strings.Replace(sitetest.Trips, "operationId: createTrip\n", "operationId: createTrip\n      security: [{login: [write]}]\n", 1)+
		"components: {securitySchemes: {login: {type: oauth2, flows: {}}}}\n")
	s.Start("", "agent_auth /mcp* {\nissuer "+i.URL+"\n}\nmcp /mcp TRIPS {\nsearch on\n}\nrespond ok")
	call := func(tool, arguments string) sitetest.Response {
		return s.Request(http.MethodPost, "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments),
			"Authorization", "Bearer "+i.Token(t, s.URL+"/mcp", "scope", "read"), "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2025-06-18")
	}
	for tool, arguments := range map[string]string{
		"call_read_tool": `{"name":"createTrip"}`, "call_write_tool": `{"name":"createTrip"}`, "createTrip": `{}`,
	} {
		if a := call(tool, arguments); a.Status != http.StatusForbidden || !strings.Contains(a.Body, "write") {
			t.Errorf("%s: got %d %s, want 403 that names the scope", tool, a.Status, a.Body)
		}
	}
	if a := call("describe_tools", `{"names":["createTrip"]}`); a.Status != http.StatusOK || !sitetest.ContainsAll(a.Body, []string{"missingScopes", "write"}) || strings.Contains(a.Body, "inputSchema") {
		t.Errorf("describe_tools: got %d %s, want the missing scope and no schema", a.Status, a.Body)
	}
}

// TestSearch_pin_that_is_no_tool checks the warning about a pinned operation with x-mcp: {tool: false}.
func TestSearch_pin_that_is_no_tool(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("trips.yaml", strings.Replace(sitetest.Trips, "operationId: getTrip\n", "operationId: getTrip\n      x-mcp: {tool: false}\n", 1))
	s.Start("", "mcp /mcp TRIPS {\nsearch on\npin getTrip listTrips\n}\nrespond ok")
	wantListed(s, "/mcp", searchTools+" listTrips")
	s.Logged(`"level":"warn"`, "pinned", "pin getTrip", "tool: false")
}

func TestSearch_calls(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Start("", "mcp /mcp TRIPS {\nsearch on\n}\nlog_append called {http.tool.name}\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
	for _, c := range []struct{ rule, tool, arguments, sent string }{
		{"reading", "call_read_tool", `{"name":"getTrip","arguments":{"id":"7"}}`, "GET /trips/7"},
		{"writing", "call_write_tool", `{"name":"createTrip","arguments":{"to":"Oslo"}}`, "POST /trips"},
		{"no arguments", "call_read_tool", `{"name":"listTrips"}`, "GET /trips"},
		{"by its own name", "getTrip", `{"id":"8"}`, "GET /trips/8"},
	} {
		if e := s.Echo(s.CallRequest(c.tool, c.arguments)); e.Method+" "+e.URI != c.sent {
			t.Errorf("%s: sends %s %s, want %s", c.rule, e.Method, e.URI, c.sent)
		}
	}
	s.Logged(`"tool":"createTrip"`, `"called":"createTrip"`, `"outcome":"ok"`)
	s.Fail("call_read_tool", `{"name":"deleteTrip","arguments":{"id":"7"}}`, "call_write_tool")
	s.Fail("call_read_tool", `{"name":"gettrip"}`, "getTrip", "search_tools")
	s.Fail("call_read_tool", `{"name":"getTrip","arguments":{"trip":"7"}}`, "id", `"properties":{"id"`)
	s.Fail("call_read_tool", `{"arguments":{}}`, "name")
	s.Fail("getTrip", `{}`, "id", `"properties":{"id"`)
	s.Logged(`"tool":"call_read_tool"`, `"outcome":"invalid"`)
	if s.HasLogged(`"tool":"search_tools"`) {
		t.Error("a call of a found tool is logged as a search")
	}
	s.Succeed("search_tools", `{"queries":["cancel a trip"]}`)
	s.Logged(`"tool":"search_tools"`, `"outcome":"ok"`)
}

// TestSearch_whole_list checks that the tools that search exist only where they are listed.
func TestSearch_whole_list(t *testing.T) {
	s := sitetest.Run(t, "", "mcp /mcp TRIPS\nrespond ok")
	if a := s.Do(s.CallRequest("search_tools", `{"queries":"trips"}`)); !strings.Contains(a.Body, `"error"`) || !strings.Contains(a.Body, "unknown") {
		t.Errorf("got %d %s, want an error for an unknown tool", a.Status, a.Body)
	}
}

// scopedTrips is trips with scopes for reading and writing.
var scopedTrips = strings.NewReplacer(
	"operationId: getTrip\n", "operationId: getTrip\n      security: [{login: [trips:read]}]\n",
	"operationId: deleteTrip\n", "operationId: deleteTrip\n      security: [{login: [trips:write]}]\n",
).Replace(sitetest.Trips) + "components: {securitySchemes: {login: {type: oauth2, flows: {}}}}\n"

func TestSearch_finds_what_the_token_allows(t *testing.T) {
	i := sitetest.NewIssuer(t)
	s := sitetest.NewSite(t)
	s.Write("trips.yaml", scopedTrips)
	for _, c := range []struct {
		option string
		finds  bool // deleteTrip
		status int  // of its call
	}{
		{"", false, http.StatusForbidden},
		{"tool_scopes off", true, http.StatusOK},
	} {
		s.Start("", "agent_auth /mcp* {\nissuer "+i.URL+"\n}\nmcp /mcp TRIPS {\nsearch on\n"+c.option+"\n}\nrespond ok")
		header := []string{"Authorization", "Bearer " + i.Token(t, s.URL+"/mcp"), "Accept", "application/json, text/event-stream", "MCP-Protocol-Version", "2025-06-18"}
		call := func(tool, arguments string) sitetest.Response {
			return s.Request(http.MethodPost, "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments), slices.Concat(header[:4], []string{"Mcp-Protocol-Version", "2025-06-18"})...)
		}
		for tool, arguments := range map[string]string{"search_tools": `{"queries":"delete a trip"}`, "describe_tools": `{"names":["deleteTrip"]}`} {
			if found := strings.Contains(call(tool, arguments).Body, `\"name\":\"deleteTrip\",\"kind\"`); found != c.finds {
				t.Errorf("%s: %s finds deleteTrip: %t, want %t", c.option, tool, found, c.finds)
			}
		}
		if a := call("call_write_tool", `{"name":"deleteTrip","arguments":{"id":"1"}}`); a.Status != c.status || c.status == http.StatusForbidden && !strings.Contains(a.Header.Get("WWW-Authenticate"), "trips:write") {
			t.Errorf("%s: calling deleteTrip gives %d %v, want %d", c.option, a.Status, a.Header, c.status)
		}
		if a := call("call_write_tool", `{"name":"deleteTrips"}`); c.status == http.StatusForbidden && strings.Contains(a.Body, "deleteTrip,") {
			t.Errorf("a tool that the token does not allow is suggested: %s", a.Body)
		}
		if a := call("call_read_tool", `{"name":"getTrip","arguments":{"id":"1"}}`); a.Status != http.StatusOK || strings.Contains(a.Body, `"isError":true`) {
			t.Errorf("%s: calling getTrip gives %d %s", c.option, a.Status, a.Body)
		}
	}
}

func TestSearch_finds_tools_of_the_agent(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", "  list-trips: {user_identity: false}\n  get-trip: {user_identity: false}\n"))
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", "mcp /mcp TRIPS {\nagent desk\nsearch on\npin getTrip deleteTrip\n}\noagent DIR/agent.yaml\nrespond ok")
	wantListed(s, "/mcp", strings.Replace(searchTools, " call_write_tool", "", 1)+" getTrip") // the agent only reads
	if found := s.Succeed("search_tools", `{"queries":["trip","delete a trip","create a trip"]}`); !strings.Contains(found, "listTrips") || strings.Contains(found, "deleteTrip") || strings.Contains(found, "createTrip") {
		t.Errorf("got %s, want the agent's tools only", found)
	}
	s.Fail("call_read_tool", `{"name":"deleteTrip","arguments":{"id":"1"}}`, "unknown")
	s.Succeed("call_read_tool", `{"name":"getTrip","arguments":{"id":"1"}}`)
}

// stateless sends a tools/call of 2026-07-28 from a client that can show forms.
func stateless(s *sitetest.Site, tool, params string, header ...string) sitetest.Response {
	s.T.Helper()
	message := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"}}}}`, tool, params)
	return s.Request(http.MethodPost, "/mcp", message, append([]string{"Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool}, header...)...)
}

// TestSearch_non_inferrable calls a tool through a built-in one whose argument the user must give.
func TestSearch_non_inferrable(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Start("", "mcp /mcp TRIPS {\nsearch on\nnon_inferrable getTrip.id\n}\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
	if described := s.Succeed("describe_tools", `{"names":["getTrip"]}`); strings.Contains(described, `"id"`) {
		t.Errorf("the schema shows an argument that the model must not give: %s", described)
	}
	s.Fail("call_read_tool", `{"name":"getTrip"}`, "user")

	const call = `"arguments":{"name":"getTrip"}`
	var asked struct {
		Result struct {
			ResultType    string
			InputRequests map[string]any
			RequestState  string
		}
	}
	first := stateless(s, "call_read_tool", call)
	if err := json.Unmarshal([]byte(first.Body), &asked); err != nil || asked.Result.ResultType != "input_required" || len(asked.Result.InputRequests) != 1 {
		t.Fatalf("got %s, want one question", first.Body)
	}
	for key := range asked.Result.InputRequests {
		second := stateless(s, "call_read_tool", fmt.Sprintf(`%s,"requestState":%q,"inputResponses":{%q:{"action":"accept","content":{"id":"42"}}}`, call, asked.Result.RequestState, key))
		if !strings.Contains(second.Body, "/trips/42") {
			t.Errorf("got %d %s, want the result for the user's trip", second.Status, second.Body)
		}
	}
}

// TestSearch_argument_headers: a client that calls a tool through a built-in one need not repeat its
// arguments in headers, since it does not see in the list which. What it repeats must be the same.
func TestSearch_argument_headers(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("trips.yaml", strings.Replace(sitetest.Trips, "{name: limit, in: query, schema: {type: integer}}", "{name: limit, in: query, schema: {type: integer, x-mcp-header: Limit}}", 1))
	s.Start("", "mcp /mcp TRIPS {\nsearch on\n}\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
	const arguments = `"arguments":{"name":"listTrips","arguments":{"limit":3}}`
	for _, c := range []struct {
		rule   string
		header []string
		status int
	}{
		{"no header", nil, http.StatusOK},
		{"the same value", []string{"Mcp-Param-Limit", "3"}, http.StatusOK},
		{"another value", []string{"Mcp-Param-Limit", "4"}, http.StatusBadRequest},
	} {
		if a := stateless(s, "call_read_tool", arguments, c.header...); a.Status != c.status {
			t.Errorf("%s: got %d %s, want %d", c.rule, a.Status, a.Body, c.status)
		}
	}
	if a := stateless(s, "listTrips", `"arguments":{"limit":3}`); a.Status != http.StatusBadRequest {
		t.Errorf("by its own name, without the header: got %d, want 400", a.Status)
	}
}

// TestSearch_reload checks that clients with any list learn of changed tools, that their lists stay what
// they have chosen, and that a pinned tool which is gone is logged.
func TestSearch_reload(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Start("", "mcp /mcp TRIPS {\nsearch on\npin deleteTrip\n}\nrespond ok")
	wantListed(s, "/mcp", searchTools+" deleteTrip")
	stream := sitetest.StreamsOf(s).Open(http.MethodGet, "", sitetest.SessionsOf(s).BeginIn("2025-11-25", `{}`)...)
	s.Write("trips.yaml", sitetest.Renamed)
	sitetest.Eventually(t, "the list without the tool that is gone", func() bool {
		names, _ := list(s, "/mcp")
		return !slices.Contains(names, "deleteTrip")
	})
	s.Logged(`"level":"warn"`, "pin", "deleteTrip")
	wantListed(s, "/mcp?tools=all", strings.Replace(allTrips, "deleteTrip", "removeTrip", 1))
	if found := s.Succeed("search_tools", `{"queries":"remove a trip"}`); !strings.Contains(found, "removeTrip") {
		t.Errorf("the new tool is not found: %s", found)
	}
	read := make([]byte, 1<<12)
	var text strings.Builder
	for !strings.Contains(text.String(), "notifications/tools/list_changed") {
		n, err := stream.Body.Read(read)
		text.Write(read[:n])
		if err != nil {
			t.Fatalf("the stream ends after %q: %v", text.String(), err)
		}
	}
}

// TestSearch_pages checks that cursors belong to the list that the client has chosen.
func TestSearch_pages(t *testing.T) {
	s := sitetest.Run(t, "", "mcp /mcp TRIPS {\nsearch on\npage_size 2\n}\nrespond ok")
	page := func(path, cursor string) (names []string, next string) {
		a := s.Post(path, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+cursor+`}}`, map[string]string{"MCP-Protocol-Version": "2025-11-25"})
		message := decodeJSON[struct {
			Result struct {
				Tools      []struct{ Name string }
				NextCursor string
			}
			Error any
		}](t, a.Body)
		if message.Error != nil {
			return nil, ""
		}
		for _, tool := range message.Result.Tools {
			names = append(names, tool.Name)
		}
		return names, message.Result.NextCursor
	}
	for path, want := range map[string]string{"/mcp": searchTools, "/mcp?tools=all": allTrips} {
		var all []string
		for cursor := ""; ; {
			names, next := page(path, cursor)
			all = append(all, names...)
			if next == "" {
				break
			}
			cursor = fmt.Sprintf(`"cursor":%q`, next)
		}
		all = slices.DeleteFunc(all, func(name string) bool { return name == "next_page" })
		if got := strings.Join(all, " "); got != want {
			t.Errorf("%s: the pages list %s, want %s", path, got, want)
		}
	}
	_, next := page("/mcp", "")
	if names, _ := page("/mcp?tools=all", fmt.Sprintf(`"cursor":%q`, next)); names != nil {
		t.Errorf("a cursor of the other list is accepted: %v", names)
	}
}

// TestSearch_embeddings finds a tool whose words are not those of the query, with a server that knows
// what they mean, and by words after the server has failed.
func TestSearch_embeddings(t *testing.T) {
	var down atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct{ Input []string }
		_ = json.NewDecoder(r.Body).Decode(&request)
		if down.Load() || r.Header.Get("Authorization") != "Bearer s3cret" {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		type vector struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		}
		var data []vector
		for i, text := range request.Input {
			v := vector{i, []float32{1, 0}}
			if strings.Contains(text, "deleteTrip") || strings.Contains(text, "vaporize") {
				v.Embedding = []float32{0, 1}
			}
			data = append(data, v)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
	}))
	t.Cleanup(server.Close)
	t.Setenv("EMBEDDINGS_KEY", "s3cret")
	s := sitetest.Run(t, "", "mcp /mcp TRIPS {\nsearch on\nembeddings "+server.URL+"/v1 {\nmodel small\napi_key {env.EMBEDDINGS_KEY}\n}\n}\nrespond ok")
	sitetest.Eventually(t, "the tool that the server finds", func() bool {
		return strings.Contains(s.Succeed("search_tools", `{"queries":"vaporize","limit":1}`), "deleteTrip")
	})
	down.Store(true)
	if found := s.Succeed("search_tools", `{"queries":"get a trip","limit":1}`); !strings.Contains(found, "getTrip") {
		t.Errorf("while the server is down: got %s, want getTrip", found)
	}
	s.Logged(`"level":"warn"`, "embeddings", "500")
	if strings.Contains(s.Log(), "s3cret") {
		t.Error("the API key is logged")
	}
}
