package mcpadapter

import (
	"context"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

// streaming answers after it has reported the events.
func streaming(events ...tools.Event) callerFunc {
	return func(ctx context.Context, _ string, _ []byte) tools.Outcome {
		if listener := tools.ListenerFromContext(ctx); listener != nil {
			for _, e := range events {
				listener(e)
			}
		}
		return answered(200, "text/plain", "done")
	}
}

func progress(value, total, message string) tools.Event {
	return tools.Event{Kind: tools.EventProgress, Progress: jsontext.Value(value), Total: jsontext.Value(total), Message: message}
}

func TestProgress(t *testing.T) {
	words := regexp.MustCompile(`"progress":[0-9]+\.0000.*"half"`)
	for _, c := range []struct {
		rule   string
		token  string
		events []tools.Event
		want   []string // the notifications' params, with T for the token
	}{
		{
			"string-token", `"a\u0062\"c"`,
			[]tools.Event{progress("0", "", ""), progress("0.5", "1.0", "half"), progress("1", "1", "")},
			[]string{`{"progressToken":T,"progress":0}`, `{"progressToken":T,"progress":0.5,"total":1.0,"message":"half"}`, `{"progressToken":T,"progress":1,"total":1}`},
		},
		{"big-number-token", `12345678901234567890123`, []tools.Event{progress("1", "", "")}, []string{`{"progressToken":T,"progress":1}`}},
		{
			"increases", `1`,
			[]tools.Event{progress("5", "", ""), progress("5", "", ""), progress("4", "", ""), progress("6", "", "")},
			[]string{`{"progressToken":T,"progress":5}`, `{"progressToken":T,"progress":6}`},
		},
		{"not-a-number", `1`, []tools.Event{progress("", "", "x"), progress("1e999", "", "")}, nil},
		{
			"words-between-numbers", `1`,
			[]tools.Event{
				{Kind: tools.EventProgress, Message: "nothing is counted yet"},
				progress("10", "20", ""),
				{Kind: tools.EventProgress, Message: "half"},
				progress("11", "20", ""),
			},
			[]string{`{"progressToken":T,"progress":10,"total":20}`, `{"progressToken":T,"progress":10.000001,"total":20,"message":"half"}`, `{"progressToken":T,"progress":11,"total":20}`},
		},
		{
			"words-after-nothing", `1`,
			[]tools.Event{progress("0", "2", ""), {Kind: tools.EventProgress, Message: "half"}, {Kind: tools.EventProgress, Message: "half"}},
			[]string{`{"progressToken":T,"progress":0,"total":2}`, `{"progressToken":T,"progress":0.000001,"total":2,"message":"half"}`, `{"progressToken":T,"progress":0.000002,"total":2,"message":"half"}`},
		},
		{
			"words-after-all", `1`,
			[]tools.Event{progress("10", "10", ""), {Kind: tools.EventProgress, Message: "half"}, {Kind: tools.EventProgress, Message: "half"}},
			[]string{`{"progressToken":T,"progress":10,"total":10}`, `{"progressToken":T,"progress":10.000001,"message":"half"}`, `{"progressToken":T,"progress":10.000002,"message":"half"}`},
		},
		{
			"words-with-a-total", `1`,
			[]tools.Event{progress("10", "", ""), {Kind: tools.EventProgress, Total: jsontext.Value("10"), Message: "half"}, {Kind: tools.EventProgress, Total: jsontext.Value("20"), Message: "half"}},
			[]string{`{"progressToken":T,"progress":10}`, `{"progressToken":T,"progress":10.000001,"message":"half"}`, `{"progressToken":T,"progress":10.000002,"total":20,"message":"half"}`},
		},
		{
			"words-after-a-large-number", `1`,
			[]tools.Event{progress("1e300", "", ""), {Kind: tools.EventProgress, Message: "half"}},
			[]string{`{"progressToken":T,"progress":1e300}`, `{"progressToken":T,"progress":1.0000000000000002e+300,"message":"half"}`},
		},
		{
			"words-after-the-largest-number", `1`,
			[]tools.Event{progress("1.7976931348623157e308", "", ""), {Kind: tools.EventProgress, Message: "half"}},
			[]string{`{"progressToken":T,"progress":1.7976931348623157e308}`},
		},
		{"object-token", `{}`, []tools.Event{progress("1", "", "")}, nil},
		{"endless-token", `"` + strings.Repeat("x", protocol.MaxProgressToken) + `"`, []tools.Event{progress("1", "", "")}, nil},
	} {
		for _, v := range []protocol.Revision{protocol.V20241105, protocol.V20250326, protocol.V20250618, protocol.V20251125, protocol.V20260728} {
			t.Run(c.rule+"/"+v.String(), func(t *testing.T) {
				e := serveEndpoint(t, Options{}, streaming(c.events...))
				client := newClient(t, e, v, `{}`)
				r := conformant(v, "tools/call", `"name":"get_trip"`)
				if v.Stateless() {
					r.body = strings.Replace(r.body, `"_meta":{`, `"_meta":{"progressToken":`+c.token+`,`, 1)
				} else {
					r.body = strings.Replace(r.body, `"params":{`, `"params":{"_meta":{"progressToken":`+c.token+`},`, 1)
					r.header[sessionHeader] = client.session
				}
				r.header[versionHeader] = v.String()
				got := toldOf(t, e, r, v, "notifications/progress", "ProgressNotification")
				var want []string
				for _, params := range c.want {
					if v == protocol.V20241105 && words.MatchString(params) {
						continue // without its message the notification would be empty
					}
					if v == protocol.V20241105 {
						params = strings.Replace(params, `,"message":"half"`, "", 1)
					}
					want = append(want, strings.Replace(params, ":T,", ":"+c.token+",", 1))
				}
				if strings.Join(got, "\n") != strings.Join(want, "\n") {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		}
	}
}

// manyEvents are more events than a call may send notifications for.
const manyEvents = 30_000

// TestProgress_is_rate_limited wants few notifications of many events: the first, the
// last, and growing ones between.
func TestProgress_is_rate_limited(t *testing.T) {
	for kind, name := range map[tools.EventKind]string{tools.EventProgress: "progress", tools.EventContent: "content"} {
		t.Run(name, func(t *testing.T) {
			var events []tools.Event
			for i := range manyEvents {
				events = append(events, tools.Event{Kind: kind, Progress: jsontext.Value(strconv.Itoa(i + 1))})
			}
			e := serveEndpoint(t, Options{}, streaming(events...))
			r := conformant(protocol.V20250618, "tools/call", `"name":"get_trip","_meta":{"progressToken":1}`)
			r.header[versionHeader] = "2025-06-18"
			begun := time.Now()
			got := toldOf(t, e, r, protocol.V20250618, "notifications/progress", "ProgressNotification")
			if most := protocol.MaxProgressBurst + int(time.Since(begun)/protocol.ProgressInterval) + 2; len(got) < 2 || len(got) > most {
				t.Fatalf("got %d notifications, want 2 to %d", len(got), most)
			}
			if first, last := `"progress":1}`, `"progress":`+strconv.Itoa(manyEvents)+`}`; !strings.Contains(got[0], first) || !strings.Contains(got[len(got)-1], last) {
				t.Errorf("got %s to %s, want the first and the last", got[0], got[len(got)-1])
			}
		})
	}
}

// A notification that waits is sent although no other event follows.
func TestProgress_that_waits_is_sent(t *testing.T) {
	received := make(chan struct{})
	caller := callerFunc(func(ctx context.Context, _ string, _ []byte) tools.Outcome {
		for i := range protocol.MaxProgressBurst + 5 {
			tools.ListenerFromContext(ctx)(progress(strconv.Itoa(i+1), "", ""))
		}
		<-received // the call does not end before the client has the last notification
		return answered(200, "text/plain", "done")
	})
	e := serveEndpoint(t, Options{}, caller)
	events := e.open(t, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_trip","_meta":{"progressToken":1}}}`, nil)
	last := `"progress":` + strconv.Itoa(protocol.MaxProgressBurst+5) + `}`
	for data := ""; !strings.Contains(data, last); {
		_, _, data = events.event()
	}
	close(received)
}

func TestLogs_are_rate_limited(t *testing.T) {
	var events []tools.Event
	for range manyEvents {
		events = append(events, tools.Event{Kind: tools.EventLog, Data: jsontext.Value(`"x"`)})
	}
	e := serveEndpoint(t, Options{}, streaming(events...))
	r := conformant(protocol.V20250618, "tools/call", `"name":"get_trip"`)
	r.header[versionHeader] = "2025-06-18"
	begun := time.Now()
	got := toldOf(t, e, r, protocol.V20250618, "notifications/message", "LoggingMessageNotification")
	if most := protocol.MaxLogBurst + int(time.Since(begun)/protocol.LogInterval) + 2; len(got) < protocol.MaxLogBurst || len(got) > most {
		t.Fatalf("got %d log messages, want %d to %d", len(got), protocol.MaxLogBurst, most)
	}
	if last := got[len(got)-1]; !strings.Contains(last, "omitted") || !strings.Contains(last, `"warning"`) {
		t.Errorf("the last is %s, want the number of those omitted", last)
	}
}

// toldOf sends a request and returns the parameters of what comes before the
// answer.
func toldOf(t *testing.T, e *endpoint, r testRequest, v protocol.Revision, method, definition string) (params []string) {
	t.Helper()
	response := e.do(t, "POST", "/mcp", r.body, r.header)
	if response.Header.Get("Content-Type") != "text/event-stream" {
		return nil
	}
	stream := feedOf(t, response)
	for {
		_, _, data := stream.event()
		var m struct {
			Method string
			Params json.RawMessage
		}
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		if m.Method == "" {
			validate(t, v, "CallToolResult", []byte(data))
			stream.ends()
			return params
		}
		if m.Method == method {
			validateMessage(t, v, definition, []byte(data))
			params = append(params, string(m.Params))
		}
	}
}

func TestLogs_of_the_API(t *testing.T) {
	e := serveEndpoint(t, Options{}, streaming(
		tools.Event{Kind: tools.EventLog, Level: "debug", Data: jsontext.Value(`"too much"`)},
		tools.Event{Kind: tools.EventLog, Level: "warning", Logger: "db", Data: jsontext.Value(`{"a":1}`)},
		tools.Event{Kind: tools.EventLog, Data: jsontext.Value(`"plain"`)},
		tools.Event{Kind: tools.EventLog, Data: jsontext.Value(`{"a":1,"a":2}`)},
	))
	for _, v := range revisions {
		t.Run(v.String(), func(t *testing.T) {
			r := conformant(v, "tools/call", `"name":"get_trip"`)
			r.body = strings.Replace(r.body, `"_meta":{`, `"_meta":{"`+metaLogLevel+`":"info",`, 1)
			r.header[sessionHeader] = newClient(t, e, v, `{}`).session
			r.header[versionHeader] = v.String()
			got := toldOf(t, e, r, v, "notifications/message", "LoggingMessageNotification")
			if want := `{"level":"warning","logger":"db","data":{"a":1}} {"level":"info","data":"plain"} {"level":"info","data":"{\"a\":1,\"a\":2}"}`; strings.Join(got, " ") != want {
				t.Errorf("got %s", got)
			}
		})
	}
	t.Run("not-asked-for", func(t *testing.T) {
		r := conformant(protocol.V20260728, "tools/call", `"name":"get_trip"`)
		r.header[versionHeader] = "2026-07-28"
		if got := e.do(t, "POST", "/mcp", r.body, r.header).Header.Get("Content-Type"); got != "application/json" {
			t.Errorf("answered with %s", got)
		}
	})
}

// No progress is sent to a client that takes no stream.
func TestNo_progress_without_stream(t *testing.T) {
	r := conformant(protocol.V20250618, "tools/call", `"name":"get_trip","_meta":{"progressToken":1}`)
	r.header["Accept"] = "application/json"
	r.caller = callerFunc(func(ctx context.Context, _ string, _ []byte) tools.Outcome {
		if tools.ListenerFromContext(ctx) != nil {
			t.Error("a client listens")
		}
		return answered(200, "", "x")
	})
	r.fault(t, 200, 0)
}
