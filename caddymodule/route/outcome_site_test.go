package route_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/tools/callid"
)

const outcomeHandlers = `
	log_append result {http.tool.outcome}
	handle /trips/forbidden {
		error "only grace cancels trips" 403
	}
	handle /trips/limited {
		error 429
	}
	handle /trips/broken {
		respond 500
	}
	handle /trips/moved {
		redir * /elsewhere
	}
	handle /trips/down {
		reverse_proxy 127.0.0.1:1
	}
	handle /trips/* {
		respond OK
	}
`

// tripOutcomes are arguments of getTrip and the outcome of the call.
var tripOutcomes = [][2]string{
	{`{"id":"1"}`, "ok"},
	{`{"id":"forbidden"}`, "refused"},
	{`{"id":"limited"}`, "rate_limited"},
	{`{"id":"broken"}`, "api_error"},
	{`{"id":"moved"}`, "redirected"},
	{`{"id":"down"}`, "unreachable"},
	{`{"number":"1"}`, "invalid"},
}

func TestOutcome_of_each_call_is_in_the_access_log(t *testing.T) {
	s := sitetest.Run(t, "metrics\nagents {\ntoolset outcomes TRIPS\n}", "mcp\notc\nhandle /metrics {\nmetrics\n}"+outcomeHandlers)
	for i, test := range tripOutcomes {
		counter := func(protocol string) func(int) {
			return sitetest.MetricsOf(s).Counter(`fairway_tool_calls_total{outcome="` + test[1] + `",protocol="` + protocol + `",tool="getTrip",toolset="outcomes"}`)
		}
		ofMCP, ofOTC := counter("mcp"), counter("otc")
		byMCP := s.Call("getTrip", test[0])
		ids := map[string]string{"mcp": byMCP.Meta.Call, "otc": s.OTCCall("getTrip", test[0]).Header.Get("Fairway-Call")}
		isOperators := slices.Contains([]string{"api_error", "unreachable"}, test[1])
		if tells := strings.HasSuffix(byMCP.Content[0].Text, "the operator finds this call as "+byMCP.Meta.Call); tells != isOperators {
			t.Errorf("%s: the message %q ends with the id: %t, want %t", test[1], byMCP.Content[0].Text, tells, isOperators)
		}
		for path, protocol := range map[string]string{"/mcp": "mcp", "/otc/call": "otc"} {
			entry := s.AccessLogEntry(path, i+1)
			if _, ok := callid.Time(ids[protocol]); !ok || entry["call"] != ids[protocol] {
				t.Errorf("%s %s: the client got the id %q, the access log has %v", path, test[0], ids[protocol], entry["call"])
			}
			got := [...]any{entry["outcome"], entry["result"], entry["tool"], entry["protocol"]}
			if want := [...]any{test[1], test[1], "getTrip", protocol}; got != want {
				t.Errorf("%s %s: outcome, placeholder, tool, protocol: got %v, want %v", path, test[0], got, want)
			}
			if entry["tool_calls"] != nil {
				t.Errorf("%s: a single call has the list %v", path, entry["tool_calls"])
			}
		}
		ofMCP(1)
		ofOTC(1)
	}
	s.Do(s.CallRequest("noSuchTool", ""))
	entry := s.AccessLogEntry("/mcp", len(tripOutcomes)+1)
	if entry["outcome"] != "unknown_tool" || entry["tool"] != nil {
		t.Errorf("outcome %v, tool %v", entry["outcome"], entry["tool"])
	}
}

// TestOutcome_batch_ending_in_an_unknown_tool checks that the log entry does not combine the
// tool of one call with the outcome of the next.
func TestOutcome_batch_ending_in_an_unknown_tool(t *testing.T) {
	s := sitetest.Run(t, "", "mcp /mcp TRIPS"+outcomeHandlers)
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s","arguments":{"id":"1"}}}`
	s.Post("/mcp", "["+fmt.Sprintf(call, "getTrip")+","+fmt.Sprintf(call, "nosuch")+"]", map[string]string{"MCP-Protocol-Version": "2025-03-26"})
	if entry := s.AccessLogEntry("/mcp", 1); entry["tool"] != "" || entry["outcome"] != "unknown_tool" || entry["tool_call_count"] != 2.0 {
		t.Errorf("tool %v, outcome %v, tool_call_count %v", entry["tool"], entry["outcome"], entry["tool_call_count"])
	}
}

func TestOutcome_batch_lists_its_calls(t *testing.T) {
	s := sitetest.Run(t, "", "mcp /mcp TRIPS"+outcomeHandlers)
	var calls []string
	for _, id := range []string{"1", "limited", "broken"} {
		calls = append(calls, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"getTrip","arguments":{"id":"`+id+`"}}}`)
	}
	s.Post("/mcp", "["+strings.Join(calls, ",")+"]", map[string]string{"MCP-Protocol-Version": "2025-03-26"})
	entry := s.AccessLogEntry("/mcp", 1)
	list, _ := json.Marshal(entry["tool_calls"])
	if string(list) != `["getTrip ok","getTrip rate_limited","getTrip api_error"]` || entry["tool_call_count"] != 3.0 || entry["outcome"] != "api_error" {
		t.Errorf("tool_calls %s, tool_call_count %v, outcome %v", list, entry["tool_call_count"], entry["outcome"])
	}
}

func TestOperatorError_message_reaches_the_model(t *testing.T) {
	s := sitetest.Run(t, "", `mcp /mcp TRIPS {
		credential query key topsecretkey
	}
	otc /otc TRIPS
	handle /trips/forbidden {
		header Retry-After 7
		error "only grace cancels trips" 403
	}
	handle /trips/maintenance {
		error "closed until ten" 503
	}
	handle /trips/quoted {
		error "no access to {http.request.uri}" 403
	}
	handle /trips/down {
		reverse_proxy 127.0.0.1:1
	}
	handle /trips {
		error "no probing" 403
	}`)
	for arguments, want := range map[string]string{
		`{"id":"forbidden"}`:   "only grace cancels trips",
		`{"id":"maintenance"}`: "closed until ten",
	} {
		s.Fail("getTrip", arguments, want)
		if body := s.OTC("getTrip", arguments); !strings.Contains(body, want) {
			t.Errorf("OTC: %s", body)
		}
	}
	s.Fail("probeTrips", "", "no probing")
	s.Fail("getTrip", `{"id":"forbidden"}`, "7s")
	if text := s.Call("getTrip", `{"id":"quoted"}`).Text(); strings.Contains(text, "topsecretkey") || !strings.Contains(text, "access") {
		t.Errorf("a credential of the gateway is in %q", text)
	}
	if text := s.Call("getTrip", `{"id":"down"}`).Text(); strings.Contains(text, "127.0.0.1") || strings.Contains(text, "dial") {
		t.Errorf("an error of another handler is passed on: %q", text)
	}
}

func TestOutcome_plain_request_that_oagent_judges(t *testing.T) {
	s := sitetest.Guarded(t, sitetest.AgentDocument("desk", "  get-trip: {user_identity: false}\n"), "", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "limited") {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	for path, want := range map[string][2]any{
		"/trips/1":       {"ok", "getTrip"},
		"/trips/limited": {"rate_limited", "getTrip"},
		"/nowhere":       {"restricted", nil},
	} {
		s.Get(path)
		entry := s.AccessLogEntry(path, 1)
		if entry["outcome"] != want[0] || entry["tool"] != want[1] || entry["protocol"] != "http" {
			t.Errorf("%s: outcome %v, tool %v, protocol %v, want %v", path, entry["outcome"], entry["tool"], entry["protocol"], want)
		}
	}
	s.Call("getTrip", `{"id":"limited"}`)
	if entry := s.AccessLogEntry("/mcp", 1); entry["outcome"] != "rate_limited" || entry["protocol"] != "mcp" {
		t.Errorf("a tool call behind oagent: outcome %v, protocol %v", entry["outcome"], entry["protocol"])
	}
}

func TestOutcome_replayed_call(t *testing.T) {
	s := sitetest.Run(t, "agents {\n\tstore bolt DIR/store.db\n}", "otc TRIPS\nrespond OK")
	for range 2 {
		s.Post("/otc/call", `{"request":{"call_id":"one","tool_id":"Trips.createTrip","input":{"to":"Bern"}}}`, nil)
	}
	for i, want := range []string{"ok", "replayed"} {
		if entry := s.AccessLogEntry("/otc/call", i+1); entry["outcome"] != want || entry["tool"] != "createTrip" {
			t.Errorf("call %d: outcome %v, tool %v, want %s", i+1, entry["outcome"], entry["tool"], want)
		}
	}
}

// TestOperatorError_rule_for_one_tool runs the recipe of docs/choose-tools.md.
func TestOperatorError_rule_for_one_tool(t *testing.T) {
	s := sitetest.Run(t, "order test_user first", "test_user\nmcp TRIPS\nroute {\n"+
		"@forbidden expression `{http.tool.name} == \"deleteTrip\" && {http.auth.user.id} != \"grace\"`\n"+
		"error @forbidden \"only grace deletes trips\" 403\nrespond OK\n}")
	s.Fail("deleteTrip", `{"id":"1"}`, "only grace deletes trips")
	s.Succeed("getTrip", `{"id":"1"}`)
	r := s.CallRequest("deleteTrip", `{"id":"1"}`)
	r.Header.Set("X-Test-User", "grace")
	if got := s.Result(s.Do(r)); got.IsError {
		t.Error(got.Text())
	}
}

func TestOutcome_stream_lists_its_calls(t *testing.T) {
	s := sitetest.Run(t, "", "mcp /mcp TRIPS"+outcomeHandlers)
	r, err := http.NewRequest(http.MethodGet, s.URL+"/mcp/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	stream, err := sitetest.Client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stream.Body)
	next := func() string { // the data of the next event
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return data
			}
		}
		t.Fatalf("the stream ended: %v", lines.Err())
		return ""
	}
	endpoint := next()
	headers := map[string]string{"Content-Type": "application/json"}
	s.Post(endpoint, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, headers)
	next()
	for _, id := range []string{"1", "limited"} {
		s.Post(endpoint, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"getTrip","arguments":{"id":"`+id+`"}}}`, headers)
		next()
	}
	stream.Body.Close()
	entry := s.AccessLogEntry("/mcp/sse", 1)
	list, _ := json.Marshal(entry["tool_calls"])
	if string(list) != `["getTrip ok","getTrip rate_limited"]` || entry["outcome"] != "rate_limited" || entry["toolset"] == nil {
		t.Errorf("tool_calls %s, outcome %v, toolset %v", list, entry["outcome"], entry["toolset"])
	}
}
