package ocp

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fairwayhq/fairway/internal/testkit"
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t
}

// exampleContext has every field.
func exampleContext() *Context {
	return &Context{
		ContextID:      "ocp-debug-123",
		AgentType:      "ide_coding_assistant",
		User:           "alice",
		Workspace:      "payment-service",
		CurrentFile:    "payment_validator.py",
		CurrentGoal:    "debug_payment_validation",
		ContextSummary: "Debugging",
		ErrorContext:   "card refused",
		RecentChanges:  []string{"line 42", "a test"},
		Session:        &SessionMetadata{StartTime: at("2025-11-16T10:20:00Z"), InteractionCount: 5, AgentType: "ide_coding_assistant", Extra: jsontext.Value(`{"tab":[1]}`)},
		History: []HistoryEntry{{
			Timestamp: at("2025-11-16T10:25:00Z"), Action: ActionAPICall, APIEndpoint: "https://api.example.com/issues", Result: resultSuccess,
			Operation: "list_issues", ToolName: "github.list_issues", Metadata: jsontext.Value(`{"page":2}`),
		}, {Timestamp: at("2025-11-16T10:26:00.5Z"), Action: "note"}},
		APISpecs:    map[string]string{"github": "https://api.github.com/openapi.json", "stripe": "https://stripe.com/openapi.json"},
		CreatedAt:   at("2025-11-16T10:20:00.123456Z"),
		LastUpdated: at("2025-11-16T10:30:00.5Z"),
	}
}

func TestContext_AppendJSON(t *testing.T) {
	want := `{"context_id":"ocp-debug-123","agent_type":"ide_coding_assistant","user":"alice","workspace":"payment-service",` +
		`"current_file":"payment_validator.py","current_goal":"debug_payment_validation","context_summary":"Debugging","error_context":"card refused",` +
		`"recent_changes":["line 42","a test"],"session":{"start_time":"2025-11-16T10:20:00Z","interaction_count":5,"agent_type":"ide_coding_assistant","tab":[1]},` +
		`"history":[{"timestamp":"2025-11-16T10:25:00Z","action":"api_call","api_endpoint":"https://api.example.com/issues","result":"success",` +
		`"metadata":{"operation":"list_issues","tool_name":"github.list_issues","page":2}},{"timestamp":"2025-11-16T10:26:00.500Z","action":"note"}],` +
		`"api_specs":{"github":"https://api.github.com/openapi.json","stripe":"https://stripe.com/openapi.json"},` +
		`"created_at":"2025-11-16T10:20:00.123456Z","last_updated":"2025-11-16T10:30:00.500Z"}`
	if got := string(exampleContext().AppendJSON(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestRoundTrip: decode(encode(x)) = x, for any context that conforms.
func TestRoundTrip(t *testing.T) {
	schema := contextSchema(t)
	random := rand.New(rand.NewPCG(7, 8))
	for range 2000 {
		c := randomContext(random)
		if faults := c.Validate(false); len(faults) > 0 {
			t.Fatalf("%+v: %v", c, faults)
		}
		read := readSession(t, c.encode())
		if read.judgement.Verdict != Conforming || !reflect.DeepEqual(read.context, c) {
			t.Fatalf("%s\nbecomes %+v\nwant    %+v, %v", c.AppendJSON(nil), read.context, c, read.judgement)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(c.AppendJSON(nil)))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); err != nil {
			t.Fatalf("%s: %v", c.AppendJSON(nil), err)
		}
	}
}

// contextSchema is the protocol's own schema, with formats checked.
func contextSchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(testkit.ReadDocument(t, "schemas/ocp/ocp-context.json")))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("context.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("context.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func randomContext(r *rand.Rand) *Context {
	moment := func() time.Time {
		unit := []time.Duration{time.Second, time.Millisecond, time.Microsecond}[r.IntN(3)]
		return time.Unix(r.Int64N(4e9), r.Int64N(1e9)).UTC().Truncate(unit)
	}
	text := func() string {
		letters := []rune("ab \"\\\n\t\u0000\u007f\u2028é目🚆\ufffd<>&/{}[]")
		b := make([]rune, r.IntN(30))
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		if r.IntN(20) == 0 {
			return strings.Repeat(string(b), 100)
		}
		return string(b)
	}
	c := &Context{
		ContextID: fmt.Sprintf("ocp-%08x", r.Uint32()), AgentType: "agent.v-1_" + fmt.Sprint(r.IntN(9)),
		User: text(), Workspace: text(), CurrentFile: text(), CurrentGoal: text(), ContextSummary: text(), ErrorContext: text(),
		CreatedAt: moment(), LastUpdated: moment(),
	}
	for range r.IntN(11) {
		c.RecentChanges = append(c.RecentChanges, text())
	}
	if r.IntN(2) == 0 {
		c.Session = &SessionMetadata{StartTime: moment(), InteractionCount: r.Int64(), AgentType: "x" + text()}
		if r.IntN(2) == 0 {
			c.Session.Extra = jsontext.Value(`{"a":{"b":[1e400,"c"]},"d":null}`)
		}
	}
	for range r.IntN(6) {
		e := HistoryEntry{Timestamp: moment(), Action: text(), APIEndpoint: text(), Result: text()}
		if r.IntN(2) == 0 {
			e.Operation, e.ToolName = text(), text()
		}
		if r.IntN(2) == 0 {
			e.Metadata = jsontext.Value(`{"page":2,"operationId":"x","nested":{"operation":"y"}}`)
		}
		c.History = append(c.History, e)
	}
	for i := range r.IntN(4) {
		if c.APISpecs == nil {
			c.APISpecs = make(map[string]string)
		}
		c.APISpecs[fmt.Sprintf("api_%d-X", i)] = "https://example.com/" + fmt.Sprint(r.IntN(100))
	}
	return c
}

// TestContextFaults: what does not conform is left out or put right, and reported.
func TestContextFaults(t *testing.T) {
	with := func(members string) string {
		if members == "" {
			return minimal
		}
		return minimal[:len(minimal)-1] + "," + members + "}"
	}
	schema := contextSchema(t)
	for _, test := range []struct {
		name, json string
		want       []Fault
		schemaToo  bool // the protocol's schema agrees that something is wrong
	}{
		{"minimal", with(""), nil, false},
		{"nulls for what is unset", with(`"user":null,"workspace":null,"current_file":null,"current_goal":null,"context_summary":null,"error_context":null`), nil, false},
		{"empty lists and objects", with(`"recent_changes":[],"history":[],"api_specs":{}`), nil, false},
		{"unknown field", with(`"team":"blue","x":1`), []Fault{{"team", ReasonUnknown, ""}, {"x", ReasonUnknown, ""}}, true},
		{"missing required", `{"user":"alice"}`, []Fault{
			{"context_id", ReasonMissing, ""}, {"agent_type", ReasonMissing, ""}, {"created_at", ReasonMissing, ""}, {"last_updated", ReasonMissing, ""},
		}, true},
		{"user of wrong type", with(`"user":7`), []Fault{{"user", ReasonType, ""}}, true},
		{"null list", with(`"recent_changes":null`), []Fault{{"recent_changes", ReasonType, ""}}, true},
		{"eleven changes", with(`"recent_changes":["0","1","2","3","4","5","6","7","8","9","10"]`), []Fault{{"recent_changes", ReasonTooMany, ""}}, true},
		{"change of wrong type", with(`"recent_changes":["0",1]`), []Fault{{"recent_changes", ReasonType, ""}}, true},
		{"session without its fields", with(`"session":{"start_time":"2025-11-16T10:30:00Z"}`), []Fault{{"session/interaction_count", ReasonMissing, ""}, {"session/agent_type", ReasonMissing, ""}}, true},
		{"session with more fields", with(`"session":{"start_time":"2025-11-16T10:30:00Z","interaction_count":0,"agent_type":"a","more":{}}`), nil, false},
		{"negative count", with(`"session":{"start_time":"2025-11-16T10:30:00Z","interaction_count":-1,"agent_type":"a"}`), []Fault{{"session/interaction_count", ReasonNegative, ""}}, true},
		{"count written as 2.0", with(`"session":{"start_time":"2025-11-16T10:30:00Z","interaction_count":2.0,"agent_type":"a"}`), nil, false},
		{"count of 2.5", with(`"session":{"start_time":"2025-11-16T10:30:00Z","interaction_count":2.5,"agent_type":"a"}`), []Fault{{"session/interaction_count", ReasonType, ""}}, true},
		{"entry without action", with(`"history":[{"timestamp":"2025-11-16T10:30:00Z"}]`), []Fault{{"history/0/action", ReasonMissing, ""}}, true},
		{"entry without timestamp", with(`"history":[{"action":"a"}]`), []Fault{{"history/0/timestamp", ReasonMissing, ""}}, true},
		{"entry with more fields", with(`"history":[{"timestamp":"2025-11-16T10:30:00Z","action":"a","interaction_id":1}]`), []Fault{{"history/0", ReasonUnknown, ""}}, true},
		{"entry that is text", with(`"history":["a"]`), []Fault{{"history/0", ReasonType, ""}}, true},
		{"entry with nulls", with(`"history":[{"timestamp":"2025-11-16T10:30:00Z","action":"a","api_endpoint":null,"result":null,"metadata":{}}]`), nil, false},
		{"field of metadata twice", with(`"history":[{"timestamp":"2025-11-16T10:30:00Z","action":"a","metadata":{"a":1,"a":2}}]`), []Fault{{"history/0/metadata", ReasonJSON, ""}}, false},
		{"name of an API", with(`"api_specs":{"a b":"https://example.com/"}`), []Fault{{"api_specs", ReasonPattern, ""}}, true},
		{"address of an API", with(`"api_specs":{"a":"example.com"}`), []Fault{{"api_specs/a", ReasonURI, ""}}, true},
		{"time without an offset", strings.Replace(minimal, "00Z", "00.123456", 1), []Fault{{"created_at", ReasonTimestamp, ""}}, true},
		{"time with an offset", strings.Replace(minimal, "00Z", "00+02:00", 1), nil, false},
		{"timestamp without digits", strings.Replace(minimal, "2025-11-16T10:30:00Z", "yesterday", 1), []Fault{{"created_at", ReasonTimestamp, ""}}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			read := readSession(t, encoded(test.json))
			if !slices.Equal(read.judgement.Faults, test.want) {
				t.Errorf("got %v, want %v", read.judgement.Faults, test.want)
			}
			want := map[bool]Verdict{true: Conforming, false: Usable}[test.want == nil]
			switch test.name { // which break the text of the protocol
			case "user of wrong type", "eleven changes", "timestamp without digits":
				want = Ignored
			}
			if read.judgement.Verdict != want {
				t.Errorf("%s, want %s", read.judgement.Verdict, want)
			}
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(test.json))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(value); (err != nil) != test.schemaToo {
				t.Errorf("the schema says: %v", err)
			}
			s, _ := NewSession(encoded(test.json), ReadOptions{Strict: true})
			if c, judgement := s.Context(); (c != nil) != (test.want == nil) || (judgement.Verdict == Ignored) != (test.want != nil) {
				t.Errorf("strictly: %v", judgement)
			}
		})
	}
}

// TestText_of_the_protocol: a session that breaks the text is as if it were absent, for everything that reads it. What
// the text does not say leaves a session usable.
func TestText_of_the_protocol(t *testing.T) {
	with := func(members string) string { return `{"current_goal":"other","user":"eve",` + members + `}` }
	changes := func(n int) string { return `"recent_changes":[` + strings.Repeat(`"x",`, n-1) + `"x"]` }
	for session, ignored := range map[string]bool{
		`{}`: false,
		with(`"context_id":"ocp-7","agent_type":"bot"`):                                   false,
		with(`"context_id":null,"history":null,"created_at":null`):                        false,
		with(`"team":"blue","error_context":{"code":7},"history":[{"action":"look"}]`):    false,
		with(`"created_at":"2026-02-03","last_updated":"20260203T101112,5+0130"`):         false,
		with(`"created_at":"2026-02-03t10:11z","last_updated":"0001-01-01T00:00:00Z"`):    false,
		with(`"created_at":"2026-034","last_updated":"2026-02-03 10:11:12.000001+00:00"`): false,
		with(changes(10)):                    false,
		with(changes(11)):                    true,
		with(`"recent_changes":"x"`):         true,
		with(`"history":{"0":{}}`):           true,
		with(`"session":[]`):                 true,
		with(`"api_specs":["https://a.b"]`):  true,
		with(`"api_specs":{"a":{"url":""}}`): true,
		with(`"workspace":["a"]`):            true,
		with(`"created_at":1700000000`):      true,
		with(`"last_updated":"3 May"`):       true,
		with(`"created_at":"2026-13-01"`):    true,
		with(`"context_id":"ocp-8"`):         true,
		with(`"agent_type":"robot"`):         true,
		with(`"agent_type":7`):               true,
	} {
		plain := encoded(session)
		for _, form := range []string{plain, "gzip:" + encodedBytes(zip(session))} {
			header := http.Header{HeaderContextID: {"ocp-7"}, HeaderAgentType: {"bot"}, HeaderSession: {form}}
			in := ReadIncoming(header, ReadOptions{Cache: new(SessionCache)})
			if err := in.Session.Screen(); form == plain && (err != nil) != ignored {
				t.Errorf("%s: the screening says %v", session, err)
			}
			read := in.Brief().User != "" || in.Session.Text("user") != "" || in.Context().CurrentGoal != ""
			if verdict := in.Judge().Verdict; (verdict == Ignored) != ignored || read == ignored && session != "{}" {
				t.Errorf("%s: verdict %s, read: %v", session, verdict, read)
			}
			if in.Context().ContextID != "ocp-7" {
				t.Errorf("%s: the headers do not count", session)
			}
		}
	}
}

// TestContextValues: what is put right keeps what can be kept.
func TestContextValues(t *testing.T) {
	c := readSession(t, encoded(`{"context_id":"ocp-1","recent_changes":["3","4","5","6","7","8","9",10,"10","11"],`+
		`"created_at":"2025-11-16 10:30:00.123456789","last_updated":"2025-11-16t12:30:00+02:00","history":[7,{"action":"a","metadata":{"tool_name":1}}]}`)).context
	if want := []string{"3", "4", "5", "6", "7", "8", "9", "10", "11"}; !slices.Equal(c.RecentChanges, want) {
		t.Errorf("changes %q", c.RecentChanges)
	}
	if want := at("2025-11-16T10:30:00.123456Z"); !c.CreatedAt.Equal(want) {
		t.Errorf("created %v", c.CreatedAt)
	}
	if want := at("2025-11-16T10:30:00Z"); c.LastUpdated != want {
		t.Errorf("updated %v", c.LastUpdated)
	}
	if len(c.History) != 1 || string(c.History[0].Metadata) != `{"tool_name":1}` {
		t.Errorf("history %+v", c.History)
	}
}

func TestIncoming(t *testing.T) {
	required := func(more ...string) http.Header {
		header := http.Header{HeaderContextID: {"ocp-a1b2c3d4"}, HeaderAgentType: {"cli_tool"}}
		for i := 0; i < len(more); i += 2 {
			header[more[i]] = []string{more[i+1]}
		}
		return header
	}
	for _, test := range []struct {
		name    string
		header  http.Header
		strict  bool
		valid   bool
		verdict Verdict
		faults  []Fault
	}{
		{name: "headers alone", header: required(), valid: true},
		{name: "session", header: required(HeaderSession, encoded(minimal)), valid: true, verdict: Conforming},
		{
			name: "session of the text's example", header: required(HeaderSession, "eyJjb250ZXh0X2lkIjoib2NwLWExYjJjM2Q0In0="), valid: true, verdict: Usable,
			faults: []Fault{{"agent_type", ReasonMissing, ""}, {"created_at", ReasonMissing, ""}, {"last_updated", ReasonMissing, ""}},
		},
		{
			name: "other context", header: required(HeaderSession, encoded(strings.Replace(minimal, "ocp-a1b2c3d4", "ocp-ffffffff", 1))), valid: true, verdict: Ignored,
			faults: []Fault{{"context_id", ReasonDisagrees, ""}},
		},
		{
			name: "other context, strictly", strict: true, header: required(HeaderSession, encoded(strings.Replace(minimal, "ocp-a1b2c3d4", "ocp-ffffffff", 1))), valid: true, verdict: Ignored,
			faults: []Fault{{"context_id", ReasonDisagrees, ""}},
		},
		{
			name: "other agent", header: required(HeaderSession, encoded(strings.Replace(minimal, "cli_tool", "ide", 1))), valid: true, verdict: Ignored,
			faults: []Fault{{"agent_type", ReasonDisagrees, ""}},
		},
		{name: "session too long", header: required(HeaderSession, strings.Repeat("e", MaxSession+1)), valid: true, verdict: Ignored, faults: []Fault{{"OCP-Session", ReasonTooLong, ""}}},
		{name: "no agent type", header: http.Header{HeaderContextID: {"ocp-a1b2c3d4"}, HeaderSession: {encoded(minimal)}}, verdict: Conforming},
		{name: "bad context id", header: required(HeaderContextID, "no id")},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := ReadIncoming(test.header, ReadOptions{Strict: test.strict})
			c := in.Context()
			if (c != nil) != test.valid || in.Valid() != test.valid {
				t.Fatalf("context %+v", c)
			}
			if got := in.Judge(); got.Verdict != test.verdict || !slices.Equal(got.Faults, test.faults) {
				t.Errorf("got %v, want %s %v", got, test.verdict, test.faults)
			}
			if c != nil && (c.ContextID != "ocp-a1b2c3d4" || c.AgentType != "cli_tool") {
				t.Errorf("the headers do not count: %+v", c)
			}
			if got := FromContext(ContextWithIncoming(context.Background(), in)); got != c {
				t.Errorf("FromContext gives %+v", got)
			}
		})
	}
	if ReadIncoming(http.Header{"Accept": {"*/*"}}, ReadOptions{}) != nil || FromContext(context.Background()) != nil {
		t.Error("a context without OCP headers")
	}
	in := ReadIncoming(required(HeaderCurrentGoal, "new goal", HeaderSession, encoded(minimal[:len(minimal)-1]+`,"current_goal":"old","user":"alice"}`)), ReadOptions{})
	if c := in.Context(); c.CurrentGoal != "new goal" || c.User != "alice" {
		t.Errorf("the header does not take precedence over the session: %+v", c)
	}
}

func TestContext_updates(t *testing.T) {
	c := NewContext("cli_tool")
	if faults := c.Validate(true); len(faults) > 0 {
		t.Fatal(faults)
	}
	if other := NewContext("cli_tool"); other.ContextID == c.ContextID {
		t.Error("two contexts have one id")
	}
	clone := c.Clone()
	c.SetGoal("find the bug", "it hides")
	c.SetError("out of cheese", "oven.go")
	for i := range 12 {
		c.AddChange(fmt.Sprint("change ", i))
	}
	c.AddAPISpec("oven", "https://oven.example/openapi.json")
	for i := range MaxHistory + 3 {
		c.Record(HistoryEntry{Timestamp: c.CreatedAt, Action: fmt.Sprint(i)})
	}
	if faults := c.Validate(true); len(faults) > 0 {
		t.Error(faults)
	}
	if got, want := [...]int{len(c.RecentChanges), len(c.History), int(c.Session.InteractionCount)}, [...]int{maxRecentChanges, MaxHistory, 1 + MaxHistory + 3}; got != want {
		t.Fatalf("changes, entries and interactions: got %d, want %d", got, want)
	}
	if got, want := [...]string{c.RecentChanges[9], c.History[0].Action}, [...]string{"change 11", "3"}; got != want {
		t.Errorf("the last change and the first entry: got %q, want %q", got, want)
	}
	if texts := []string{c.CurrentGoal, c.ContextSummary, c.CurrentFile, c.ErrorContext}; slices.Contains(texts, "") {
		t.Errorf("got the goal, summary, file and error %q, want no empty text", texts)
	}
	if clone.CurrentGoal != "" || clone.Session.InteractionCount != 0 {
		t.Errorf("the clone has the goal %q and %d interactions, want none", clone.CurrentGoal, clone.Session.InteractionCount)
	}
	if clone.RecentChanges != nil || clone.APISpecs != nil {
		t.Errorf("the clone has the changes %q and the documents %v, want none", clone.RecentChanges, clone.APISpecs)
	}
	c.ContextID, c.RecentChanges, c.User, c.CreatedAt = "no id", make([]string, 11), "\xff", time.Time{}
	c.APISpecs = map[string]string{"a b": "", "c": "d"}
	want := []Fault{
		{"context_id", ReasonPattern, ""},
		{"recent_changes", ReasonTooMany, ""},
		{"api_specs", ReasonPattern, ""},
		{"api_specs/c", ReasonURI, ""},
		{"created_at", ReasonMissing, ""},
		{"user", ReasonUTF8, ""},
	}
	if got := c.Validate(false); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Brief is Context but for what takes long to decode, and decodes none of that.
func TestIncoming_Brief(t *testing.T) {
	const fields = `,"user":"eve","current_file":"a.go","recent_changes":["x"],"history":[{"timestamp":"2025-11-16T10:30:00Z","action":"a"}],` +
		`"session":{"start_time":"2025-11-16T10:30:00Z","interaction_count":1,"agent_type":"cli_tool"},"api_specs":{"a":"https://a.example/"}}`
	for name, session := range map[string]string{
		"conforming": minimal[:len(minimal)-1] + fields,
		"usable":     `{"current_goal":7` + fields,
		"minimal":    minimal,
		"broken":     `{"user":`,
		"none":       "",
	} {
		for _, strict := range []bool{false, true} {
			header := http.Header{HeaderContextID: {"ocp-a1b2c3d4"}, HeaderAgentType: {"cli_tool"}, HeaderCurrentGoal: {"g"}}
			if session != "" {
				header.Set(HeaderSession, encoded(session))
			}
			in := ReadIncoming(header, ReadOptions{Strict: strict})
			brief := in.Brief()
			want := in.Context().Clone()
			want.History, want.Session, want.APISpecs = nil, nil, nil
			if !reflect.DeepEqual(brief, want) {
				t.Errorf("%s, strict %v: got %+v, want %+v", name, strict, brief, want)
			}
		}
	}
	if (&Incoming{}).Brief() != nil {
		t.Error("a context of a message that is not valid")
	}
}
