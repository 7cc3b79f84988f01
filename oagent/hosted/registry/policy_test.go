package registry

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/tools"
)

// names are an oagent.Names.
type names struct {
	tools  map[string]*tools.Tool
	agents []string
}

func (n names) Tool(name string) (string, *tools.Tool, bool) {
	tool, ok := n.tools[name]
	return "trains", tool, ok
}

func (n names) Agent(name string) bool { return slices.Contains(n.agents, name) }

func (n names) All() []string       { return n.agents }
func (names) Renamed(string) string { return "" }

// CheckRemote permits the agents of one host.
func (n names) CheckRemote(r oagent.Reference) error {
	if r.Host != "a.example" {
		return fmt.Errorf("agents of %s must not be called", r.Host)
	}
	return nil
}

func known() names {
	trip, book, admin := &tools.Tool{Name: "get_trip"}, &tools.Tool{Name: "book_trip"}, &tools.Tool{Name: "get_admin"}
	return names{
		tools: map[string]*tools.Tool{
			"get-trip": trip, "trains.get-trip": trip, "book-trip": book, "trains.book-trip": book, "get-admin": admin, "staff.get-admin": admin,
			"planner": {Name: "planner"},
		},
		agents: []string{"planner", "helper", "get-helper"},
	}
}

// document returns a document of the agent mine with these capabilities, one a line, and more keys.
func document(capabilities string, more ...string) string {
	lines := "kind: openagentspec:v1/agent\nname: mine\ndescription: Helps.\nintent: You help.\nowner: team\ncapabilities:\n"
	for line := range strings.Lines(capabilities) {
		lines += "  " + strings.TrimRight(line, "\n") + "\n"
	}
	return lines + strings.Join(more, "\n") + "\n"
}

func TestPolicy(t *testing.T) {
	guardrail := "guardrails: {input: {tool_name: %s, assertion: output.ok}}"
	for name, test := range map[string]struct {
		capabilities []string
		document     string
		want         string // of the error; "" if it is accepted
	}{
		"listed":              {[]string{"get-trip", "book-trip"}, document("get-trip: {}\nbook-trip: {}"), ""},
		"not listed":          {[]string{"get-trip"}, document("get-trip: {}\nbook-trip: {}"), "accepted document mine:8: capabilities.book-trip: book-trip allow-list get-trip"},
		"nothing listed":      {nil, document("get-trip: {}"), "capabilities.get-trip allow-list nothing"},
		"none used":           {nil, strings.Replace(document(""), "capabilities:", "capabilities: {}", 1), ""},
		"qualified":           {[]string{"get-trip"}, document("trains.get-trip: {}"), ""},
		"listed as qualified": {[]string{"trains.get-trip"}, document("get-trip: {}"), ""},
		"all":                 {[]string{"*"}, document("get-trip: {}\nbook-trip: {}"), ""},
		"wildcard":            {[]string{"get-*"}, document("get-trip: {}"), ""},
		"wildcard, other":     {[]string{"get-*"}, document("book-trip: {}"), "book-trip allow-list"},
		"wildcard, toolset":   {[]string{"trains.*"}, document("trains.book-trip: {}"), ""},
		"wildcard, dot":       {[]string{"st*"}, document("staff.get-admin: {}"), "staff.get-admin allow-list"},
		"wildcard, agent":     {[]string{"*"}, document("helper: {}"), "helper allow-list"},
		"wildcard, scheme":    {[]string{"get-*"}, document("oagent://get-helper: {}"), "oagent://get-helper allow-list"},
		"agent":               {[]string{"helper"}, document("oagent://helper: {}"), ""},
		"agent, no scheme":    {[]string{"oagent://helper"}, document("helper: {}"), ""},
		"agent, not the tool": {[]string{"planner"}, document("oagent://planner: {}"), "oagent://planner allow-list"},
		"tool, not the agent": {[]string{"oagent://planner"}, document("planner: {}"), "planner allow-list"},
		"remote":              {[]string{"oagent://a.example/agents/x"}, document("oagent://a.example/agents/x: {}"), ""},
		"remote, wildcard":    {[]string{"oagent://a.example/agents/*"}, document("oagent://a.example/agents/x: {}"), ""},
		"remote, other path":  {[]string{"oagent://a.example/*"}, document("oagent://a.example/agents/x: {}"), "oagent://a.example/agents/x allow-list"},
		"remote, all":         {[]string{"*"}, document("oagent://a.example/agents/x: {}"), "oagent://a.example/agents/x allow-list"},
		"remote, other host":  {[]string{"oagent://b.example/agents/x"}, document("oagent://b.example/agents/x: {}"), "b.example must not"},
		"remote, not local":   {[]string{"helper"}, document("oagent://a.example/helper: {}"), "oagent://a.example/helper allow-list"},
		"guardrail":           {[]string{"get-trip"}, document("get-trip: {}", fmt.Sprintf(guardrail, "get-trip")), ""},
		"guardrail, other":    {[]string{"get-trip"}, document("get-trip: {}", fmt.Sprintf(guardrail, "book-trip")), "guardrails.input.tool_name book-trip allow-list"},
		"identity":            {[]string{"get-trip"}, document("get-trip: {static_identity: partner}"), ""},
		"identity, other":     {[]string{"get-trip"}, document("get-trip: {static_identity: admin}"), "capabilities.get-trip.static_identity admin allow-list partner"},
		"unknown tool":        {[]string{"*"}, document("get-trips: {}"), "get-trips unknown"},
		"another name":        {[]string{"*"}, strings.Replace(document("get-trip: {}"), "name: mine", "name: yours", 1), "name: yours mine"},
		"two agents":          {[]string{"*"}, document("get-trip: {}") + "---\n" + strings.Replace(document("get-trip: {}"), "mine", "yours", 1), "second"},
		"wrong kind":          {[]string{"*"}, strings.Replace(document("get-trip: {}"), "v1", "v2", 1), "kind"},
		"not YAML":            {[]string{"*"}, "kind: [", "YAML"},
		"empty":               {[]string{"*"}, "", "no agent"},
		"binary":              {[]string{"*"}, "\xff\xfe\x00", "UTF-8"},
		"bad expression":      {[]string{"*"}, document("get-trip: {input_restriction: {assertion: 'inputs.('}}"), "assertion"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Policy{test.capabilities, []string{"partner"}}
			a, err := p.Read([]byte(test.document), "mine", known())
			if test.want == "" {
				if err != nil || a.Name != "mine" {
					t.Fatalf("%v", err)
				}
				if err := p.Check(a, known()); err != nil {
					t.Errorf("check: %v", err)
				}
				return
			}
			if _, ok := errors.AsType[oagent.LintErrors](err); !ok || !testkit.ContainsAll(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// TestPolicy_limits checks documents that are too large, and that they are rejected soon.
func TestPolicy_limits(t *testing.T) {
	p := &Policy{Capabilities: []string{"*"}}
	var capabilities strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&capabilities, "tool-%d:\n", i)
	}
	if _, err := p.Read([]byte(document(capabilities.String())), "mine", known()); err == nil || !testkit.ContainsAll(err.Error(), "capabilities 1000") || len(err.Error()) > 10_000 {
		t.Errorf("10,000 capabilities: %.1000v", err)
	}
	if _, err := p.Read(make([]byte, MaxDocument+1), "mine", known()); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	bomb := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'z'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s*%c]\n", c, c, strings.Repeat(fmt.Sprintf("*%c, ", c-1), 8), c-1)
	}
	if _, err := p.Read([]byte(document("get-trip: {}")+bomb), "mine", known()); err == nil {
		t.Error("a document with aliases that expand to billions of values was accepted")
	}
}

// TestPolicy_withdrawn checks that a document of before is no longer permitted when the operator
// has shortened the allow-list, or when a name now belongs to something else.
func TestPolicy_withdrawn(t *testing.T) {
	before := &Policy{Capabilities: []string{"get-*"}}
	a, err := before.Read([]byte(document("get-trip: {}")), "mine", known())
	if err != nil {
		t.Fatal(err)
	}
	if err := (&Policy{Capabilities: []string{"book-trip"}}).Check(a, known()); err == nil || !testkit.ContainsAll(err.Error(), "get-trip") {
		t.Errorf("shorter list: %v", err)
	}
	agents := known()
	delete(agents.tools, "get-trip")
	agents.agents = append(agents.agents, "get-trip")
	if err := before.Check(a, agents); err == nil {
		t.Error("the wildcard permits an agent")
	}
}

func TestCheckPattern(t *testing.T) {
	for pattern, want := range map[string]bool{
		"get-trip": true, "get-*": true, "*": true, "trains.*": true, "oagent://helper": true,
		"oagent://a.example/agents/*": true, "oagent://a.example/*": true, "oagent://a.example/agents/helper": true,
		"": false, "get-*-trip": false, "**": false, "oagent://*": false, "oagent://help*": false, "oagent://a.exam*": false,
		"Get": false, "https://a.example/x": false,
	} {
		if err := CheckPattern(pattern); (err == nil) != want {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}
