package oagent_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent"
)

// head is a document up to its capabilities.
const head = `kind: "openagentspec:v1/agent"
name: desk
description: Answers questions.
intent: You answer questions.
owner: team
`

// whole is a document with these capabilities, a line each, and more after them.
func whole(capabilities string, more ...string) string {
	text := head + "capabilities:\n"
	for line := range strings.SplitSeq(capabilities, "\n") {
		text += "  " + line + "\n"
	}
	return text + strings.Join(more, "\n")
}

// without is the smallest document without one of its lines.
func without(key string) string {
	var kept []string
	for line := range strings.SplitSeq(whole("get-trip: {}"), "\n") {
		if !strings.HasPrefix(line, key+":") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// TestOAgent has a case for each rule of OpenAgentSpec v1 about names and
// documents. A case with no want is read.
func TestOAgent(t *testing.T) {
	replace := func(old, by string) string {
		text := strings.Replace(whole("get-trip: {}"), old, by, 1)
		if text == whole("get-trip: {}") {
			t.Fatalf("%q is not in the document", old)
		}
		return text
	}
	long := strings.Repeat(strings.Repeat("a", 62)+".", 4) + "a"
	guardrail := "guardrails:\n  input:\n    "
	for _, test := range []struct {
		rule, document string
		want           string
	}{
		{"names/253-characters", replace("name: desk", "name: "+long), ""},
		{"names/254-characters", replace("name: desk", "name: a"+long), "agent.yaml:2:7: name: 254 253"},
		{"names/lowercase", replace("name: desk", "name: frontDesk"), "name: frontDesk 'D' front-desk"},
		{"names/underscore", whole("get_trip: {}"), "agent.yaml:7:3: capabilities.get_trip: '_' get-trip"},
		{"names/digits-dash-dot", replace("name: desk", "name: 1.front-desk.2"), ""},
		{"names/start", replace("name: desk", "name: .desk"), "name: .desk empty"},
		{"names/start-dash", replace("name: desk", "name: -desk"), "name: start end"},
		{"names/end", replace("name: desk", "name: desk-"), "name: start end"},
		{"names/label", replace("name: desk", "name: desk.-a"), "name: desk.-a start end part"},
		{"names/space", replace("name: desk", `name: "de sk"`), "name: ' ' de-sk"},

		{"references/tool", whole("get-trip: {}"), ""},
		{"references/toolset", whole("trains.get-trip: {}"), ""},
		{"references/agent", whole("oagent://planner: {}"), ""},
		{"references/remote", whole("oagent://agents.example.com/planner: {}"), ""},
		{"references/remote-path", whole("oagent://agents.example.com:8443/a/b/planner: {}"), ""},
		{"references/remote-name", whole("oagent://agents.example.com/Planner: {}"), "Planner planner"},
		{"references/remote-host", whole("oagent://a_b/planner: {}"), "invalid host"},
		{"references/remote-port", whole("oagent://a:x/planner: {}"), "port"},
		{"references/remote-segment", whole("oagent://a/../planner: {}"), "path relative segment"},
		{"references/remote-query", whole("\"oagent://a/b?c/planner\": {}"), "path '?'"},
		{"references/agent-name", whole("oagent://: {}"), "name empty"},
		{"references/scheme", whole("https://a/planner: {}"), "reference oagent:// https://"},
		{"references/same-name", whole("planner: {}\noagent://planner: {}"), "agent.yaml:8:3: capabilities.oagent://planner: line 7 one entry"},

		{"agent/1-kind", whole("get-trip: {}"), ""},
		{"agent/1-kind-missing", without("kind"), "agent.yaml:1:1: kind: missing openagentspec:v1/agent"},
		{"agent/1-kind-version", replace("v1/agent", "v2/agent"), "agent.yaml:1:7: kind: unsupported openagentspec:v2/agent openagentspec:v1/agent"},
		{"agent/1-kind-tool", replace("v1/agent", "v1/tool"), "kind: unsupported openagentspec:v1/tool"},
		{"agent/1-kind-case", replace("v1/agent", "v1/Agent"), "kind: unsupported openagentspec:v1/Agent"},
		{"agent/1-kind-only", "openapi: 3.1.0\nkind: x\n", "agent.yaml:2:7: kind: unsupported x"},
		{"agent/2-name-missing", without("name"), "name: missing"},
		{"agent/2-name-empty", replace("name: desk", `name: ""`), "name: empty"},
		{"agent/2-name-number", replace("name: desk", "name: 12"), "name: string number 12 quotes"},
		{"agent/2-name-unique", whole("get-trip: {}") + "---\n" + whole("get-trip: {}"), "agent.yaml:9: name: line 1 desk"},
		{"agent/3-description-missing", without("description"), "description: missing"},
		{"agent/3-description-null", replace("description: Answers questions.", "description: null"), "description: missing"},
		{"agent/3-description-list", replace("description: Answers questions.", "description: [a]"), "description: string list"},
		{"agent/3-description-long", replace("Answers questions.", strings.Repeat("a", 70_000)), "description: 70000 65536"},
		{"agent/4-intent-missing", without("intent"), "intent: missing goal"},
		{"agent/4-intent-blank", replace("intent: You answer questions.", "intent: '  '"), "intent: empty"},
		{"agent/5-owner-missing", without("owner"), "owner: missing"},
		{"agent/5-owner-unprinted", replace("owner: team", `owner: "a\x07"`), `owner: a\a printable`},

		{"agent/6-capabilities-missing", head, "capabilities: missing {}"},
		{"agent/6-capabilities-none", head + "capabilities: {}", ""},
		{"agent/6-capabilities-list", head + "capabilities: [get-trip]", "agent.yaml:6:15: capabilities: mapping list"},
		{"agent/6-capability-null", whole("get-trip:"), ""},
		{"agent/6-capability-text", whole("get-trip: yes"), "capabilities.get-trip: mapping string yes"},
		{"agent/6-capability-twice", whole("get-trip: {}\nget-trip: {}"), "agent.yaml:8:3: capabilities.get-trip: duplicate 7"},
		{"agent/6-capability-unknown-key", whole("get-trip:\n  collectResults: true"), "agent.yaml:8:5: capabilities.get-trip.collectResults: unknown collect_results? collect_results, user_identity,"},
		{"agent/6-capability-number", whole("12: {}"), "key string number 12 quotes"},
		{"agent/7-collect_results", whole("get-trip: {collect_results: False}"), ""},
		{"agent/7-collect_results-yes", whole("get-trip: {collect_results: yes}"), "collect_results: true false string yes"},
		{"agent/7-collect_results-number", whole("get-trip: {collect_results: 1}"), "collect_results: true false number 1"},
		{"agent/8-user_identity", whole("get-trip: {user_identity: TRUE}"), ""},
		{"agent/8-user_identity-text", whole(`get-trip: {user_identity: "True"}`), "user_identity: true false string True"},
		{"agent/9-static_identity", whole("get-trip: {static_identity: ops}"), ""},
		{"agent/9-static_identity-null", whole("get-trip: {static_identity: null}"), ""},
		{"agent/9-static_identity-None", whole("get-trip: {static_identity: None}"), "static_identity: None omit"},
		{"agent/9-static_identity-boolean", whole("get-trip: {static_identity: true}"), "static_identity: string boolean true"},
		{"agent/10-input_restriction", whole("get-trip: {input_restriction: {assertion: history._total < 3}}"), ""},
		{"agent/10-input_restriction-null", whole("get-trip: {input_restriction: null}"), ""},
		{"agent/10-input_restriction-text", whole("get-trip: {input_restriction: 'history._total < 3'}"), "input_restriction: mapping"},
		{"agent/10-input_restriction-key", whole("get-trip: {input_restriction: {assert: 'true'}}"), "input_restriction.assert: unknown assertion?"},
		{"agent/11-output_restriction", whole("get-trip: {output_restriction: {assertion: recent.get-trip.outputs.ok}}"), ""},
		{"agent/11-output_restriction-list", whole("get-trip: {output_restriction: []}"), "output_restriction: mapping list"},
		{"agent/12-require_review", whole("get-trip: {input_restriction: {require_review: ann@example.com}}"), ""},
		{"agent/12-require_review-empty", whole(`get-trip: {input_restriction: {require_review: ""}}`), "require_review: empty"},
		{"agent/12-require_review-mapping", whole("get-trip: {input_restriction: {require_review: {}}}"), "require_review: string mapping"},
		{"agent/13-assertion-cel", whole("get-trip: {input_restriction: {assertion: 1 +}}"), "agent.yaml:7:48: capabilities.get-trip.input_restriction.assertion: Syntax"},
		{"agent/13-assertion-empty", whole("get-trip: {input_restriction: {assertion: ''}}"), "assertion: empty"},
		{"agent/13-assertion-type", whole("get-trip: {input_restriction: {assertion: 1 + 1}}"), "assertion: true false int"},
		{"agent/13-assertion-boolean", whole("get-trip: {input_restriction: {assertion: True}}"), ""},
		{"agent/13-assertion-only-the-engagement", whole("get-trip: {input_restriction: {assertion: inputs.id == 1}}"), "variable inputs recent.<tool>.inputs"},
		{"agent/13-assertion-unknown-name", whole("get-trip: {input_restriction: {assertion: recent.get-trap.inputs.id == 1}}"), "agent.yaml:7:52: capabilities.get-trip.input_restriction.assertion: recent get-trap capability get-trip?"},
		{"agent/14-guardrails-null", whole("get-trip: {}", "guardrails: null"), ""},
		{"agent/14-guardrails-one", whole("get-trip: {}", guardrail+"{tool_name: check, assertion: output.ok}"), ""},
		{"agent/14-guardrails-key", whole("get-trip: {}", "guardrails: {inputs: null}"), "guardrails.inputs: unknown input?"},
		{"agent/15-tool_name-missing", whole("get-trip: {}", guardrail+"{assertion: output.ok}"), "agent.yaml:10:5: guardrails.input.tool_name: missing"},
		{"agent/15-assertion-missing", whole("get-trip: {}", guardrail+"{tool_name: check}"), "guardrails.input.assertion: missing"},
		{"agent/15-assertion-null", whole("get-trip: {}", guardrail+"{tool_name: check, assertion: null}"), "guardrails.input.assertion: missing"},
		{"agent/15.1-tool_name-agent", whole("get-trip: {}", guardrail+"{tool_name: 'oagent://check', assertion: output.ok}"), "guardrails.input.tool_name: oagent://check ':'"},
		{"agent/15.2-assertion-cel", whole("get-trip: {}", guardrail+"{tool_name: check, assertion: '&& ok'}"), "guardrails.input.assertion: Syntax"},
		{"agent/15.2-assertion-type", whole("get-trip: {}", guardrail+"{tool_name: check, assertion: '1'}"), "guardrails.input.assertion: true false int"},
		{"agent/16-exposes-null", whole("get-trip: {}", "exposes: null"), ""},
		{"agent/16-exposes", whole("get-trip: {}", "exposes:\n  trip id: recent.get-trip.outputs[\"id\"]\n  n: history._total"), ""},
		{"agent/16-exposes-cel", whole("get-trip: {}", `exposes: {n: history.}`), "agent.yaml:8:22: exposes.n: Syntax"},
		{"agent/16-exposes-elsewhere", whole("get-trip: {}", `exposes: {n: agent.name}`), "variable agent started_at user recent history"},
		{"agent/16-exposes-null-value", whole("get-trip: {}", `exposes: {n: null}`), "exposes.n: string null"},
		{"agent/17-lifespan-null", whole("get-trip: {}", "lifespan: null"), ""},
		{"agent/17-lifespan-key", whole("get-trip: {}", "lifespan: {ttl: 1}"), "lifespan.ttl: unknown retain_memory short_circuit"},
		{"agent/17.1-retain_memory", whole("get-trip: {}", "lifespan: {retain_memory: False}"), ""},
		{"agent/17.1-retain_memory-text", whole("get-trip: {}", "lifespan: {retain_memory: no}"), "retain_memory: true false string no"},
		{"agent/17.2-short_circuit", whole("get-trip: {}", "lifespan: {short_circuit: 2}"), ""},
		{"agent/17.2-short_circuit-null", whole("get-trip: {}", "lifespan: {short_circuit: null}"), ""},
		{"agent/17.2-short_circuit-1", whole("get-trip: {}", "lifespan: {short_circuit: 1}"), "short_circuit: 1 2 refuse"},
		{"agent/17.2-short_circuit-negative", whole("get-trip: {}", "lifespan: {short_circuit: -3}"), "short_circuit: -3 2 refuse"},
		{"agent/17.2-short_circuit-fraction", whole("get-trip: {}", "lifespan: {short_circuit: 2.5}"), "short_circuit: whole 2.5"},
		{"agent/17.2-short_circuit-text", whole("get-trip: {}", `lifespan: {short_circuit: "3"}`), "short_circuit: whole string 3"},
		{"agent/17.2-short_circuit-huge", whole("get-trip: {}", "lifespan: {short_circuit: 99999999999999999999}"), "short_circuit: whole 99999999999999999999"},
		{"agent/unknown-key", whole("get-trip: {}", "guardrail: {}"), "agent.yaml:8:1: guardrail: unknown guardrails? kind, name, description, intent, owner, capabilities, guardrails, exposes, lifespan"},
	} {
		t.Run(test.rule, func(t *testing.T) {
			agents, err := oagent.ReadAgents([]byte(test.document), "agent.yaml")
			switch {
			case test.want == "" && err != nil:
				t.Errorf("%v", err)
			case test.want != "" && (err == nil || !testkit.ContainsAll(err.Error(), test.want)):
				t.Errorf("got %v\nwant %s", err, test.want)
			case err != nil && agents != nil:
				t.Error("a part of the file was read")
			}
		})
	}
}

func TestReadAgent_values(t *testing.T) {
	file := filepath.Join("..", "testdata", "agents", "desk.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	a, err := oagent.ReadAgent(data, file)
	if err != nil {
		t.Fatal(err)
	}
	if a.Name != "travel-desk" || a.Owner != "team-travel" {
		t.Errorf("got the agent %q of %q, want travel-desk of team-travel", a.Name, a.Owner)
	}
	if !strings.HasPrefix(a.Intent, "You ") || !strings.HasPrefix(a.Description, "Answers ") {
		t.Errorf("got the intent %q, want You …; got the description %q, want Answers …", a.Intent, a.Description)
	}
	about := [...]any{a.RetainMemory, a.ShortCircuit, string(a.Source), len(a.Hash), a.Location, a.Line}
	if want := [...]any{false, 3, string(data), 64, file, 2}; about != want {
		t.Errorf("got  %v\nwant %v", about, want)
	}
	type capability struct {
		reference       string
		collect, asUser bool
		static          string
		review          string
	}
	var got []capability
	for _, c := range a.Capabilities {
		review := ""
		if c.Input != nil {
			review = c.Input.RequireReview
		}
		got = append(got, capability{c.Reference.String(), c.CollectResults, c.UserIdentity, c.StaticIdentity, review})
	}
	want := []capability{
		{"search-faqs", true, false, "faq-reader", ""},
		{"get-booking", true, true, "", ""},
		{"refund-booking", true, true, "", "supervisor@example.com"},
		{"oagent://route-planner", true, true, "", ""},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	planner, ok := a.Capability("route-planner")
	if !ok || !planner.Reference.Agent || planner.Rule() != "capabilities.oagent://route-planner" {
		t.Errorf("%+v", planner)
	}
	if _, ok := a.Capability("check-text"); ok {
		t.Error("a guardrail's tool is a capability")
	}
	if a.Input.Tool != "check-text" || a.Output.Assertion.Rule != "guardrails.output.assertion" || a.Output.Assertion.Line != 32 {
		t.Errorf("%+v, %+v", a.Input, a.Output.Assertion)
	}
	if len(a.Exposes) != 3 || a.Exposes[0].Name != "booking" || a.Exposes[2].Value.Expression != "history._total" {
		t.Errorf("%+v", a.Exposes)
	}
}

// Every document that is there for others to try is good.
func TestReadAgent_testdata(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "testdata", "agents", "*.yaml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if faults := oagent.Lint(data, file, nil); len(faults) > 0 {
			t.Error(faults)
		}
	}
}

// What a document does not say is what the rules have for absent.
func TestReadAgent_defaults(t *testing.T) {
	a, err := oagent.ReadAgent([]byte(whole("get-trip:")), "")
	if err != nil {
		t.Fatal(err)
	}
	c := a.Capabilities[0]
	if want := (oagent.Capability{Reference: c.Reference, CollectResults: true, UserIdentity: true, Line: c.Line}); c != want {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
	if !a.RetainMemory || a.ShortCircuit != 0 {
		t.Errorf("retain memory: got %t, want true; short circuit: got %d, want 0", a.RetainMemory, a.ShortCircuit)
	}
	if a.Input != nil || a.Output != nil || a.Exposes != nil {
		t.Errorf("got the guardrails %+v and %+v, and exposes %+v; want none", a.Input, a.Output, a.Exposes)
	}
}

func TestReadAgents_file(t *testing.T) {
	second := strings.Replace(whole("get-trip: {}"), "name: desk", "name: other", 1)
	for name, test := range map[string]struct {
		data string
		want []string // names and lines, or the error
	}{
		"one":            {whole("a: {}"), []string{"desk 1"}},
		"two":            {whole("a: {}") + "---\n" + second, []string{"desk 1", "other 9"}},
		"marker first":   {"---\n" + whole("a: {}") + "\n--- # next\n" + second + "...\n", []string{"desk 2", "other 11"}},
		"directive":      {"%YAML 1.1\n# agents\n---\n" + whole("a: {}"), []string{"desk 4"}},
		"empty between":  {whole("a: {}") + "---\n---\n# nothing\n---\n" + second, []string{"desk 1", "other 12"}},
		"byte order":     {"\ufeff" + whole("a: {}"), []string{"desk 1"}},
		"crlf":           {strings.ReplaceAll(whole("a: {}")+"---\n"+second, "\n", "\r\n"), []string{"desk 1", "other 9"}},
		"cr":             {strings.ReplaceAll(whole("a: {}")+"---\n"+second, "\n", "\r"), []string{"agents.yaml:1: second LF"}},
		"next line":      {whole("a: {}") + "# more\u0085---\u0085" + strings.ReplaceAll(second, "\n", "\u0085"), []string{"second LF"}},
		"json":           {`{"kind":"openagentspec:v1/agent","name":"desk","description":"d","intent":"i","owner":"o","capabilities":{"a":null}}`, []string{"desk 1"}},
		"anchors":        {whole("a: &x {input_restriction: &r {assertion: 'true'}}\nb: *x\nc: {output_restriction: *r}"), []string{"desk 1"}},
		"nothing":        {"", []string{"agents.yaml: no openagentspec:v1/agent"}},
		"comment":        {"# nothing\n", []string{"agents.yaml: no openagentspec:v1/agent"}},
		"null":           {"null\n", []string{"agents.yaml: no openagentspec:v1/agent"}},
		"list":           {"- a\n", []string{"agents.yaml:1:1: mapping list"}},
		"syntax":         {head + "capabilities: {\n---\n" + second, []string{"agents.yaml: YAML"}},
		"syntax later":   {whole("a: {}") + "---\nkind: [\n", []string{"agents.yaml:9: YAML"}},
		"itself":         {head + "capabilities: &a {b: *a}", []string{"capabilities.b.b: unknown key"}},
		"itself as key":  {head + "capabilities: &a {*a : 1}", []string{"key string"}},
		"merge":          {head + "capabilities: {a: &x {}, b: {<<: *x}}", []string{"key string"}},
		"unknown anchor": {head + "capabilities: {a: *x}", []string{"unknown anchor"}},
		"not utf-8":      {"\xff", []string{"agents.yaml: UTF-8"}},
		"too large":      {strings.Repeat("#", oagent.MaxDocument+1), []string{"1048577 1048576"}},
		"control":        {head + "capabilities: {\"a\\nb\": {}}", []string{`agents.yaml:6:16: capabilities."a\nb": '\n'`}},
		"deep":           {head + "capabilities: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000), []string{"capabilities: mapping list"}},
		"too deep":       {head + "capabilities: " + strings.Repeat("[", 100_000), []string{"invalid YAML"}},
		"capabilities":   {head + "capabilities: {" + manyKeys(oagent.MaxCapabilities+1) + "}", []string{"capabilities: 1000"}},
		"expressions":    {head + "capabilities: {" + strings.ReplaceAll(manyKeys(300), "{}", "{input_restriction: *r}") + ", z: {input_restriction: &r {assertion: 'true'}}}", []string{"unknown anchor"}},
		"expression sum": {head + "capabilities: {z: {input_restriction: &r {assertion: '" + strings.Repeat(" ", 1000) + "true'}}, " + strings.ReplaceAll(manyKeys(300), "{}", "{input_restriction: *r}") + "}", []string{"expressions 262144"}},
	} {
		t.Run(name, func(t *testing.T) {
			agents, err := oagent.ReadAgents([]byte(test.data), "agents.yaml")
			if err != nil {
				for _, want := range test.want {
					if !testkit.ContainsAll(err.Error(), want) {
						t.Errorf("got %v\nwant %s", err, want)
					}
				}
				return
			}
			var got []string
			for _, a := range agents {
				got = append(got, fmt.Sprintf("%s %d", a.Name, a.Line))
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// Each agent of a file has its own part of it as source.
func TestReadAgents_source(t *testing.T) {
	first := "# the desk\n" + whole("a: {}")
	second := "---\n" + strings.Replace(whole("a: {}"), "name: desk", "name: other", 1)
	agents, err := oagent.ReadAgents([]byte(first+second), "")
	if err != nil {
		t.Fatal(err)
	}
	if got := string(agents[0].Source); got != first {
		t.Errorf("got %q", got)
	}
	again, err := oagent.ReadAgent(agents[1].Source, "")
	if err != nil || again.Name != "other" || again.Hash != agents[1].Hash {
		t.Errorf("%+v, %v", again, err)
	}
	if _, err := oagent.ReadAgent([]byte(first+second), "a.yaml"); err == nil || !testkit.ContainsAll(err.Error(), "a.yaml:10: second agent") {
		t.Errorf("got %v", err)
	}
}

// All errors are reported at once, in the order of the document.
func TestReadAgent_all(t *testing.T) {
	_, err := oagent.ReadAgent([]byte("kind: openagentspec:v1/agent\nname: A\nowner: x\ncapabilities:\n  a_b: {}\n  c: {user_identity: 3}\nlifespan: {short_circuit: 0}\n"), "a.yaml")
	faults, ok := errors.AsType[oagent.LintErrors](err)
	if !ok {
		t.Fatalf("%T: %v", err, err)
	}
	var rules []string
	for _, f := range faults {
		rules = append(rules, fmt.Sprintf("%d %s", f.Line, f.Rule))
	}
	want := []string{"1 description", "1 intent", "2 name", "5 capabilities.a_b", "6 capabilities.c.user_identity", "7 lifespan.short_circuit"}
	if !reflect.DeepEqual(rules, want) {
		t.Errorf("got %q, want %q", rules, want)
	}
	if one, ok := errors.AsType[*oagent.LintError](err); !ok || one.Location != "a.yaml" {
		t.Errorf("%+v", one)
	}
}

func manyKeys(n int) string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%d: {}", i)
	}
	return strings.Join(keys, ", ")
}

func FuzzReadAgent(f *testing.F) {
	f.Add([]byte(whole("get-trip: {}")))
	f.Add([]byte(head + "capabilities: &a {b: *a}\n---\n" + head))
	f.Add([]byte("%YAML 1.1\n---\n" + whole("a-b: {input_restriction: {assertion: |\n      recent.a-b.inputs.x\n      == 1}}")))
	if data, err := os.ReadFile(filepath.Join("..", "testdata", "agents", "desk.yaml")); err == nil {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		agents, err := oagent.ReadAgents(data, "a.yaml")
		if err != nil {
			if agents != nil || err.Error() == "" {
				t.Errorf("%v, %v", agents, err)
			}
			return
		}
		for _, a := range agents {
			if oagent.CheckName(a.Name) != nil || a.Intent == "" || a.Owner == "" {
				t.Errorf("%+v", a)
			}
			again, err := oagent.ReadAgent(a.Source, "a.yaml")
			if err != nil || again.Name != a.Name {
				t.Errorf("its own source is not read: %v", err)
			}
		}
	})
}

func BenchmarkReadAgent(b *testing.B) {
	document := []byte(whole("get-trip: {input_restriction: {assertion: history._total < 3}}"))
	for b.Loop() {
		if _, err := oagent.ReadAgent(document, "a.yaml"); err != nil {
			b.Fatal(err)
		}
	}
}
