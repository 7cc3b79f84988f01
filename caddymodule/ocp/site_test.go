package ocp_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/ocp"
)

// contextual is a document whose operations make use of OCP.
const contextual = `openapi: 3.1.0
info: {title: Trips, version: 1.0.0, x-ocp-enabled: true}
paths:
  /trips:
    get:
      operationId: listTrips
      x-ocp-enhanced-response: {next_actions: {type: array, items: {type: string}}}
      responses: {"200": {description: ok}}
    post:
      operationId: createTrip
      x-ocp-context: {updates_context: [recent_changes, error_context]}
      requestBody: {content: {application/json: {schema: {type: object, properties: {to: {type: string}}}}}}
      responses: {"201": {description: ok}}
  /trips/{id}:
    get:
      operationId: getTrip
      parameters: [{name: id, in: path, required: true, schema: {type: string}}]
      x-ocp-context: {requires_context: true}
      responses: {"200": {description: ok}}
`

// ocpSite runs a site with contextual.yaml whose block has API for the upstream's address.
func ocpSite(t *testing.T, a *sitetest.API, block string) *sitetest.Site {
	t.Helper()
	s := sitetest.NewSite(t)
	s.Write("contextual.yaml", contextual)
	s.Start("", strings.ReplaceAll(block, "API", strings.TrimPrefix(a.URL, "http://"))+"\n")
	return s
}

// agent is a request that has a valid context.
func agent(s *sitetest.Site, method, path string, more ...string) *http.Request {
	s.T.Helper()
	r, err := http.NewRequest(method, s.URL+path, nil)
	if err != nil {
		s.T.Fatal(err)
	}
	r.Header.Set("OCP-Context-ID", "ocp-debug-123")
	r.Header.Set("OCP-Agent-Type", "ide_coding_assistant")
	for i := 0; i+1 < len(more); i += 2 {
		r.Header.Set(more[i], more[i+1])
	}
	return r
}

// replyOf decodes the context of an answer, nil if it has none.
func replyOf(t *testing.T, a sitetest.Response) *ocp.Context {
	t.Helper()
	h := ocp.ReadHeaders(a.Header, ocp.ReadOptions{})
	if h.Session == nil {
		return nil
	}
	c, judgement := h.Session.Context()
	if judgement.Verdict != ocp.Conforming || c.ContextID != h.ContextID {
		t.Fatalf("the reply does not conform: %+v, %+v", judgement, c)
	}
	return c
}

func session(t *testing.T, change func(*ocp.Context)) string {
	t.Helper()
	c := ocp.NewContext("ide_coding_assistant")
	c.ContextID = "ocp-debug-123"
	if change != nil {
		change(c)
	}
	encoded, err := c.EncodeSession()
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// TestOCPSite drives a whole site: matcher, log field, enhanced answer and reply.
func TestOCPSite(t *testing.T) {
	a := sitetest.NewAPI(t, nil)
	s := ocpSite(t, a, `
	ocp {
		toolset DIR/contextual.yaml
		enhance next_actions "['look at ' + ocp.?current_goal.orValue('nothing'), request.path, tool.?name.orValue('-')]"
		log current_goal session.current_file valid
	}
	@debuggers ocp agent_type ide_* valid
	header @debuggers X-Debugger yes
	log_append goal {http.ocp.current_goal}
	reverse_proxy API`)

	plain := s.Get("/trips")
	if plain.Body != `{"path":"/trips"}` {
		t.Errorf("without context: got %s", plain.Body)
	}
	if h := plain.Header; h.Get("X-Debugger") != "" || h.Get("OCP-Context-ID") != "" || h.Get("Vary") == "" {
		t.Errorf("without context: got the headers %v, want only Vary", h)
	}
	sent := session(t, func(c *ocp.Context) { c.CurrentFile = "a.go"; c.CurrentGoal = "debug" })
	got := s.Do(agent(s, "GET", "/trips?q=secret", "OCP-Current-Goal", "debug_payment", "OCP-Session", sent))
	if want := `{"path":"/trips","next_actions":["look at debug_payment","/trips","listTrips"]}`; got.Body != want {
		t.Errorf("got %s, want %s", got.Body, want)
	}
	if got.Header.Get("X-Debugger") != "yes" {
		t.Error("the matcher did not match")
	}
	reply := replyOf(t, got)
	if reply == nil || len(reply.History) != 1 {
		t.Fatalf("got the reply %+v", reply)
	}
	entry := reply.History[0]
	about := [...]string{entry.Action, entry.APIEndpoint, entry.Result, entry.Operation, entry.ToolName, string(entry.Metadata)}
	if want := [...]string{ocp.ActionAPICall, s.URL + "/trips", "success", "listTrips", "listTrips", `{"method":"GET","status":200}`}; about != want {
		t.Errorf("got the entry %q, want %q", about, want)
	}
	if reply.CurrentGoal != "" {
		t.Errorf("the goal is echoed: %q", reply.CurrentGoal)
	}
	s.Logged(`"status":200`, `"ocp_current_goal":"debug_payment"`, `"ocp_session_current_file":"a.go"`, `"ocp_valid":true`, `"goal":"debug_payment"`)
	if upstream := a.Last(t); upstream.Header.Get("OCP-Session") != sent {
		t.Error("the session did not reach the upstream as it came")
	}
}

// TestOCPForward wants the upstream to see what the option says.
func TestOCPForward(t *testing.T) {
	a := sitetest.NewAPI(t, nil)
	notJSON := compressedSessionJSON(t, "this is text and not JSON, which only decompression shows")
	for rule, c := range map[string]struct {
		option string
		send   []string
		want   map[string]string // all that begins with OCP-
	}{
		"headers": {"", []string{"OCP-User", "ada", "OCP-Version", "1.0"}, map[string]string{
			"Ocp-Context-Id": "ocp-debug-123", "Ocp-Agent-Type": "ide_coding_assistant", "Ocp-User": "ada", "Ocp-Version": "1.0",
		}},
		"headers/invalid are removed": {"forward headers", []string{"OCP-Context-ID", "not good", "OCP-User", strings.Repeat("x", 65), "OCP-Workspace", "w"}, map[string]string{
			"Ocp-Agent-Type": "ide_coding_assistant", "Ocp-Workspace": "w",
		}},
		"headers/session that turns out bad": {"", []string{"OCP-Session", "eyJicm9rZW4="}, map[string]string{
			"Ocp-Context-Id": "ocp-debug-123", "Ocp-Agent-Type": "ide_coding_assistant",
		}},
		"headers/session that is never read": {"reply off", []string{"OCP-Session", "eyJicm9rZW4="}, map[string]string{
			"Ocp-Context-Id": "ocp-debug-123", "Ocp-Agent-Type": "ide_coding_assistant",
		}},
		"headers/compressed session": {"", []string{"OCP-Session", notJSON}, map[string]string{
			"Ocp-Context-Id": "ocp-debug-123", "Ocp-Agent-Type": "ide_coding_assistant", "Ocp-Session": notJSON,
		}},
		"headers/compressed session that is read": {"strict", []string{"OCP-Session", notJSON, "OCP-Context-ID", "ocp-a1b2c3d4"}, map[string]string{
			"Ocp-Context-Id": "ocp-a1b2c3d4", "Ocp-Agent-Type": "ide_coding_assistant",
		}},
		"headers/compressed session with characters that are not Base64": {"", []string{"OCP-Session", notJSON[:40] + "§" + notJSON[41:]}, map[string]string{
			"Ocp-Context-Id": "ocp-debug-123", "Ocp-Agent-Type": "ide_coding_assistant",
		}},
		"headers/compressed session that is cut off": {"", []string{"OCP-Session", notJSON[:24]}, map[string]string{
			"Ocp-Context-Id": "ocp-debug-123", "Ocp-Agent-Type": "ide_coding_assistant",
		}},
		"headers/compressed session that is too large": {"", []string{"OCP-Session", compressedSessionJSON(t, strings.Repeat(" ", 2<<20))}, map[string]string{
			"Ocp-Context-Id": "ocp-debug-123", "Ocp-Agent-Type": "ide_coding_assistant",
		}},
		"headers/strict": {"strict", []string{"OCP-User", "ada"}, map[string]string{
			"Ocp-Agent-Type": "ide_coding_assistant", "Ocp-User": "ada",
		}},
		"strip": {"forward strip", []string{"OCP-User", "ada", "OCP-Version", "nonsense"}, map[string]string{}},
		"json": {"forward json", []string{"OCP-User", "Zoë", "OCP-Context", "forged"}, map[string]string{
			"Ocp-Context": `{"context_id":"ocp-debug-123","agent_type":"ide_coding_assistant","user":"Zo\u00eb"}`,
		}},
		"json/without context": {"forward json", []string{"OCP-Context-ID", "", "OCP-Agent-Type", "", "OCP-Context", "forged"}, map[string]string{}},
	} {
		t.Run(rule, func(t *testing.T) {
			s := ocpSite(t, a, "ocp {\n"+c.option+"\n}\nreverse_proxy API")
			s.Do(agent(s, "GET", "/trips", c.send...))
			got := map[string]string{}
			for key, values := range a.Last(t).Header {
				if strings.HasPrefix(key, "Ocp-") {
					got[key] = strings.Join(values, "|")
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// TestOCP_without_context wants the answer to be the upstream's, byte for byte but for Vary,
// where there is no valid context.
func TestOCP_without_context(t *testing.T) {
	a := sitetest.NewAPI(t, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("ETag", `"v1"`)
		h.Set("OCP-Session", "whatever")
		h.Set("Digest", "sha-256=abc")
		h.Set("Date", "Sat, 21 Nov 2026 00:00:00 GMT")
		io.WriteString(w, `{ "a" : 1 }`)
	})
	direct := ocpSite(t, a, "reverse_proxy API")
	want := direct.Get("/trips")
	s := ocpSite(t, a, "ocp {\nenhance x \"1\"\ntoolset DIR/contextual.yaml\n}\nreverse_proxy API")
	for rule, headers := range map[string][]string{
		"no headers":        {"OCP-Context-ID", "", "OCP-Agent-Type", ""},
		"no agent type":     {"OCP-Agent-Type", ""},
		"bad context id":    {"OCP-Context-ID", "a b"},
		"only other ones":   {"OCP-Context-ID", "", "OCP-Agent-Type", "", "OCP-User", "ada", "OCP-Session", session(t, nil)},
		"all of them wrong": {"OCP-Context-ID", "_", "OCP-Agent-Type", "/", "OCP-User", "\x01", "OCP-Session", "?", "OCP-Version", "one"},
	} {
		t.Run(rule, func(t *testing.T) {
			r := agent(s, "GET", "/trips")
			for i := 0; i < len(headers); i += 2 {
				if headers[i+1] == "" {
					r.Header.Del(headers[i])
				} else if headers[i+1] != "\x01" {
					r.Header.Set(headers[i], headers[i+1])
				}
			}
			got := s.With(t).Do(r)
			if vary := got.Header["Vary"]; len(vary) != 1 || !strings.HasPrefix(vary[0], "OCP-Context-ID, ") {
				t.Errorf("Vary: %v", vary)
			}
			delete(got.Header, "Vary")
			if got.Status != want.Status || got.Body != want.Body || fmt.Sprint(got.Header) != fmt.Sprint(want.Header) {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
		})
	}
}

// TestOCPReply checks the headers of answers to requests with a valid context.
func TestOCPReply(t *testing.T) {
	status := http.StatusOK
	header := http.Header{}
	a := sitetest.NewAPI(t, func(w http.ResponseWriter, r *http.Request) {
		maps.Copy(w.Header(), header)
		w.WriteHeader(status)
	})
	s := ocpSite(t, a, "ocp {\ntoolset DIR/contextual.yaml\n}\nhandle /down {\nreverse_proxy 127.0.0.1:1\n}\nhandle {\nreverse_proxy API\n}")
	ask := func(t *testing.T, r *http.Request) (sitetest.Response, *ocp.Context) {
		got := s.With(t).Do(r)
		reply := replyOf(t, got)
		if reply == nil || got.Header.Get("OCP-Version") != "1.0" || got.Header.Get("OCP-Context-ID") != "ocp-debug-123" {
			t.Fatalf("no reply: %+v", got)
		}
		return got, reply
	}
	t.Run("headers", func(t *testing.T) {
		header = http.Header{"Vary": {"Accept-Encoding"}, "Access-Control-Expose-Headers": {"X-Total"}}
		got, _ := ask(t, agent(s, "GET", "/trips"))
		if vary := strings.Join(got.Header["Vary"], ", "); vary != "Accept-Encoding, OCP-Context-ID, OCP-Agent-Type, OCP-Session" {
			t.Errorf("Vary: %s", vary)
		}
		if exposed := strings.Join(got.Header["Access-Control-Expose-Headers"], ", "); exposed != "X-Total, OCP-Context-ID, OCP-Session, OCP-Version" {
			t.Errorf("Access-Control-Expose-Headers: %s", exposed)
		}
	})
	t.Run("no content", func(t *testing.T) {
		status, header = http.StatusNoContent, nil
		if _, reply := ask(t, agent(s, "GET", "/other")); reply.History[0].Result != "success" || reply.History[0].Operation != "" {
			t.Errorf("got %+v", reply.History)
		}
	})
	t.Run("refusal with error_context declared", func(t *testing.T) {
		status = http.StatusConflict
		_, reply := ask(t, agent(s, "POST", "/trips"))
		if reply.ErrorContext != "POST /trips answered 409 Conflict" || reply.RecentChanges != nil || reply.History[0].Result != "error: 409 Conflict" {
			t.Errorf("got %+v", reply)
		}
	})
	t.Run("change with recent_changes declared", func(t *testing.T) {
		status = http.StatusCreated
		_, reply := ask(t, agent(s, "POST", "/trips"))
		if !slices.Equal(reply.RecentChanges, []string{"createTrip: POST /trips answered 201 Created"}) || reply.ErrorContext != "" {
			t.Errorf("got %+v", reply)
		}
	})
	t.Run("refusal without a declaration", func(t *testing.T) {
		status = http.StatusNotFound
		if _, reply := ask(t, agent(s, "GET", "/trips/7")); reply.ErrorContext != "" || reply.History[0].Operation != "getTrip" {
			t.Errorf("got %+v", reply)
		}
	})
	t.Run("an upstream that is down", func(t *testing.T) {
		if got, reply := ask(t, agent(s, "GET", "/down")); got.Status != http.StatusBadGateway || reply.History[0].Result != "error: 502 Bad Gateway" {
			t.Errorf("got %d, %+v", got.Status, reply)
		}
	})
	t.Run("created_at stays", func(t *testing.T) {
		status = http.StatusOK
		var sent *ocp.Context
		encoded := session(t, func(c *ocp.Context) { sent = c })
		if _, reply := ask(t, agent(s, "GET", "/trips", "OCP-Session", encoded)); !reply.CreatedAt.Equal(sent.CreatedAt) || !reply.LastUpdated.After(sent.LastUpdated) {
			t.Errorf("got %+v", reply)
		}
	})
	t.Run("an upstream that speaks OCP itself", func(t *testing.T) {
		own := ocp.NewContext("ide_coding_assistant")
		own.ContextID, own.ContextSummary = "ocp-debug-123", "found it"
		own.Record(ocp.CallEntry(own.CreatedAt, "http://inner/", "inner", "", 200))
		header = http.Header{}
		own.SetReplyHeaders(header)
		if _, reply := ask(t, agent(s, "GET", "/other")); reply.ContextSummary != "found it" || len(reply.History) != 1 || reply.History[0].Operation != "inner" {
			t.Errorf("got %+v", reply)
		}
	})
	t.Run("an upstream that only echoes", func(t *testing.T) {
		encoded := session(t, func(c *ocp.Context) {
			c.CurrentGoal = "debug"
			c.Record(ocp.CallEntry(c.CreatedAt, "http://inner/", "before", "", 200))
		})
		header = http.Header{"Ocp-Context-Id": {"ocp-debug-123"}, "Ocp-Session": {encoded}}
		if _, reply := ask(t, agent(s, "GET", "/trips", "OCP-Session", encoded)); reply.CurrentGoal != "" || len(reply.History) != 1 || reply.History[0].Operation != "listTrips" {
			t.Errorf("got %+v", reply)
		}
	})
	t.Run("an upstream that speaks of another context", func(t *testing.T) {
		header = http.Header{"Ocp-Context-Id": {"ocp-other"}, "Ocp-Session": {"e30="}}
		ask(t, agent(s, "GET", "/trips"))
	})
}

// TestOCPRequire wants 428 for operations that require a context, and nothing else.
func TestOCPRequire(t *testing.T) {
	a := sitetest.NewAPI(t, nil)
	s := ocpSite(t, a, "ocp {\ntoolset DIR/contextual.yaml\nrequire\n}\nmcp DIR/contextual.yaml\nreverse_proxy API")
	for rule, c := range map[string]struct {
		path   string
		header []string
		want   int
	}{
		"without":          {"/trips/7", nil, 428},
		"invalid":          {"/trips/7", []string{"OCP-Context-ID", "a b", "OCP-Agent-Type", "x"}, 428},
		"valid":            {"/trips/7", []string{"OCP-Context-ID", "a", "OCP-Agent-Type", "x"}, 200},
		"not required":     {"/trips", nil, 200},
		"not an operation": {"/else", nil, 200},
	} {
		t.Run(rule, func(t *testing.T) {
			r, _ := http.NewRequest("GET", s.URL+c.path, nil)
			for i := 0; i < len(c.header); i += 2 {
				r.Header.Set(c.header[i], c.header[i+1])
			}
			got := s.With(t).Do(r)
			if got.Status != c.want {
				t.Fatalf("got %d %s", got.Status, got.Body)
			}
			if c.want == 428 && (got.Header.Get("Content-Type") != "application/problem+json" || !json.Valid([]byte(got.Body)) || !strings.Contains(got.Body, "GET /trips/{id}")) {
				t.Errorf("got %+v", got)
			}
			if rule == "invalid" && !testkit.ContainsAll(got.Body, "OCP-Context-ID form") {
				t.Errorf("got %s", got.Body)
			}
		})
	}
	s.Fail("getTrip", `{"id":"7"}`, "428", "OCP-Context-ID")
	s.Succeed("listTrips", "")
}

// TestOCP_tool_calls wants a context to reach the API through the tool protocols,
// and the response to contain the call.
func TestOCP_tool_calls(t *testing.T) {
	a := sitetest.NewAPI(t, nil)
	s := ocpSite(t, a, `ocp {
		toolset DIR/contextual.yaml
		enhance goal "ocp.current_goal"
		require
	}
	mcp DIR/contextual.yaml
	otc DIR/contextual.yaml
	reverse_proxy API {
		header_up X-Goal "{http.ocp.current_goal}/{http.ocp.valid}"
	}`)
	const otcCall = `{"tool_id":"Trips.listTrips@1.0.0","input":{}}`

	t.Run("mcp with headers", func(t *testing.T) {
		r := s.CallRequest("getTrip", `{"id":"7"}`)
		r.Header.Set("OCP-Context-ID", "ocp-1")
		r.Header.Set("OCP-Agent-Type", "cli")
		r.Header.Set("OCP-Current-Goal", "g")
		got := s.With(t).Do(r)
		if text := s.With(t).Result(got).Text(); text != `{"path":"/trips/7","goal":"g"}` {
			t.Errorf("got %s", text)
		}
		reply := replyOf(t, got)
		if len(reply.History) != 1 || reply.History[0].ToolName != "getTrip" || reply.History[0].APIEndpoint != s.URL+"/trips/7" {
			t.Errorf("got %+v", reply)
		}
		if upstream := a.Last(t); upstream.Header.Get("OCP-Context-ID") != "ocp-1" || upstream.Header.Get("X-Goal") != "g/true" {
			t.Errorf("the API got %v", upstream.Header)
		}
		if strings.Contains(got.Body, contextKey) {
			t.Errorf("the context came in headers: %s", got.Body)
		}
	})
	t.Run("mcp batch with headers", func(t *testing.T) {
		const batch = `[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"listTrips"}},` +
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"createTrip","arguments":{"to":"Bern"}}}]`
		r := s.CallRequest("", "")
		r.Header.Set("MCP-Protocol-Version", "2025-03-26")
		r.Header.Set("OCP-Context-ID", "ocp-1")
		r.Header.Set("OCP-Agent-Type", "cli")
		r.Header.Set("OCP-Current-Goal", "g")
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(batch)), int64(len(batch))
		reply := replyOf(t, s.With(t).Do(r))
		if len(reply.History) != 2 || len(reply.RecentChanges) != 1 {
			t.Fatalf("got %d calls and %d changes, want 2 and 1: %+v", len(reply.History), len(reply.RecentChanges), reply)
		}
		if first, second := reply.History[0].ToolName, reply.History[1].ToolName; first != "listTrips" || second != "createTrip" {
			t.Errorf("got the calls %s and %s, want listTrips and createTrip", first, second)
		}
	})
	t.Run("mcp list with headers", func(t *testing.T) {
		r := s.CallRequest("", "")
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)), -1
		r.Header.Set("OCP-Context-ID", "ocp-1")
		r.Header.Set("OCP-Agent-Type", "cli")
		r.Header.Set("OCP-Current-Goal", "g")
		got := s.With(t).Do(r)
		if reply := replyOf(t, got); reply == nil || len(reply.History) != 0 || strings.Contains(got.Body, `"goal"`) {
			t.Errorf("got %+v, %s", reply, got.Body)
		}
	})
	t.Run("mcp with meta", func(t *testing.T) {
		message := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"getTrip","arguments":{"id":"7"},"_meta":{` +
			`"org.opencontextprotocol/context-id":"ocp-2","org.opencontextprotocol/agent-type":"ide","org.opencontextprotocol/current-goal":"h"}}}`
		r := s.CallRequest("", "")
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(message)), int64(len(message))
		got := s.With(t).Do(r)
		if text := s.With(t).Result(got).Text(); text != `{"path":"/trips/7","goal":"h"}` {
			t.Errorf("got %s", text)
		}
		var body struct {
			Result struct {
				Meta map[string]string `json:"_meta"`
			} `json:"result"`
		}
		if err := json.Unmarshal([]byte(got.Body), &body); err != nil {
			t.Fatal(err)
		}
		header := http.Header{"Ocp-Context-Id": {body.Result.Meta[contextKey+"context-id"]}, "Ocp-Session": {body.Result.Meta[contextKey+"session"]}}
		reply := replyOf(t, sitetest.Response{Header: header})
		if reply == nil || len(reply.History) != 1 {
			t.Fatalf("got %s, want a reply with one call", got.Body)
		}
		if id, name := reply.ContextID, reply.History[0].ToolName; id != "ocp-2" || name != "getTrip" {
			t.Errorf("got the context %s with the call %s, want ocp-2 with getTrip", id, name)
		}
		if got.Header.Get("OCP-Session") != "" {
			t.Errorf("got %v", got.Header)
		}
		if upstream := a.Last(t); upstream.Header.Get("OCP-Context-ID") != "ocp-2" || upstream.Header.Get("X-Goal") != "h/true" {
			t.Errorf("the API got %v", upstream.Header)
		}
	})
	t.Run("mcp with a bad context in meta", func(t *testing.T) {
		message := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"listTrips","_meta":{"org.opencontextprotocol/context-id":"no good"}}}`
		r := s.CallRequest("", "")
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(message)), int64(len(message))
		got := s.With(t).Do(r)
		if text := s.With(t).Result(got).Text(); text != `{"path":"/trips"}` || a.Last(t).Header.Get("OCP-Context-ID") != "" {
			t.Errorf("got %s, %v", text, a.Last(t).Header)
		}
	})
	t.Run("otc with headers", func(t *testing.T) {
		r := agent(s, "POST", "/otc/call", "Content-Type", "application/json", "OCP-Current-Goal", "g")
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(otcCall)), int64(len(otcCall))
		got := s.With(t).Do(r)
		if !strings.Contains(got.Body, `"goal":"g"`) || strings.Count(got.Body, `"goal"`) != 1 {
			t.Errorf("got %s", got.Body)
		}
		if reply := replyOf(t, got); reply == nil || len(reply.History) != 1 || reply.History[0].ToolName != "listTrips" {
			t.Errorf("got %+v", reply)
		}
	})
	t.Run("without context", func(t *testing.T) {
		r := s.CallRequest("listTrips", "")
		got := s.With(t).Do(r)
		if got.Header.Get("OCP-Version") != "" || got.Header.Get("Vary") != "" || a.Last(t).Header.Get("X-Goal") != "/false" {
			t.Errorf("got %v, the API %v", got.Header, a.Last(t).Header)
		}
	})
}

// contextKey begins the keys of _meta.
const contextKey = "org.opencontextprotocol/"
