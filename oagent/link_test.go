package oagent_test

import (
	"errors"
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

func (n names) Agent(name string) bool {
	return slices.Contains(n.agents, name)
}

// CheckRemote permits the agents of one host.
func (n names) CheckRemote(r oagent.Reference) error {
	if r.Host != "b.example" {
		return errors.New(r.String() + " is an agent of another server, which must not be called")
	}
	return nil
}

// Renamed knows one tool by its old name.
func (n names) Renamed(name string) string {
	if name == "read-trip" {
		return "get-trip"
	}
	return ""
}

func (n names) All() []string {
	all := append([]string(nil), n.agents...)
	for name := range n.tools {
		all = append(all, name)
	}
	return all
}

func TestLink(t *testing.T) {
	trip, plan := &tools.Tool{Name: "get_trip"}, &tools.Tool{Name: "plan"}
	known := names{
		tools:  map[string]*tools.Tool{"get-trip": trip, "trains.get-trip": trip, "planner": plan},
		agents: []string{"planner", "helper"},
	}
	guardrail := "guardrails: {output: {assertion: output.ok, tool_name: "
	for name, test := range map[string]struct{ document, want string }{
		"tool":            {whole("get-trip: {}"), ""},
		"qualified":       {whole("trains.get-trip: {}"), ""},
		"agent":           {whole("helper: {}"), ""},
		"agent form":      {whole("oagent://helper: {}"), ""},
		"both":            {whole("planner: {}"), ""},
		"unknown":         {whole("get-trips: {}"), "a.yaml:7: capabilities.get-trips: tool agent get-trip?"},
		"renamed":         {whole("read-trip: {}"), "a.yaml:7: capabilities.read-trip: renamed get-trip"},
		"unknown agent":   {whole("oagent://helpr: {}"), "a.yaml:7: capabilities.oagent://helpr: agent helper?"},
		"tool as agent":   {whole("oagent://get-trip: {}"), "capabilities.oagent://get-trip: tool write get-trip"},
		"remote":          {whole("oagent://a.example/helper: {}"), "oagent://a.example/helper another server"},
		"remote, allowed": {whole("oagent://b.example/helper: {}"), ""},
		"same tool twice": {whole("get-trip: {}\ntrains.get-trip: {}"), "a.yaml:8: capabilities.trains.get-trip: same get-trip"},
		"guardrail":       {whole("get-trip: {}", guardrail+"planner}}"), ""},
		"guardrail typo":  {whole("get-trip: {}", guardrail+"get-tripp}}"), "a.yaml:8: guardrails.output.tool_name: get-tripp get-trip?"},
		"guardrail agent": {whole("get-trip: {}", guardrail+"helper}}"), "guardrails.output.tool_name: helper agent tool"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := oagent.ReadAgent([]byte(test.document), "a.yaml")
			if err != nil {
				t.Fatal(err)
			}
			err = a.Link(known)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !testkit.ContainsAll(err.Error(), test.want)) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
	t.Run("references/tool-before-agent", func(t *testing.T) {
		for text, want := range map[string]*tools.Tool{"planner": plan, "oagent://planner": nil, "helper": nil, "get-trip": trip} {
			reference, err := oagent.ParseReference(text)
			if err != nil {
				t.Fatal(err)
			}
			if target, err := reference.Resolve(known); err != nil || target.Tool != want {
				t.Errorf("%s: %+v, %v", text, target, err)
			}
		}
	})
	t.Run("lint", func(t *testing.T) {
		file := whole("get-trip: {}") + "---\n" + strings.Replace(whole("desk: {}\nghost: {}"), "name: desk", "name: other", 1)
		faults := oagent.Lint([]byte(file), "a.yaml", known)
		if len(faults) != 1 || !testkit.ContainsAll(faults[0].Message, "tool agent ghost") {
			t.Errorf("got %v", faults)
		}
		if faults := oagent.Lint([]byte(file), "a.yaml", nil); len(faults) != 0 {
			t.Errorf("got %v", faults)
		}
		if faults := oagent.Lint([]byte("a: 1"), "a.yaml", known); len(faults) == 0 {
			t.Error("nothing is wrong")
		}
	})
}
