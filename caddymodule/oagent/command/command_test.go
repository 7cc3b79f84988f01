package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
)

const deskAgent = `kind: "openagentspec:v1/agent"
name: desk
description: Is checked.
intent: You are checked.
owner: tests
capabilities:
  list-trips:
    user_identity: False
    input_restriction: {assertion: recent.list-trips.inputs.limit < 100}
    output_restriction: {assertion: size(recent.list-trips.outputs) > 0}
`

func TestOAgentEval(t *testing.T) {
	saved := filepath.Join(t.TempDir(), "engagement.json")
	if err := os.WriteFile(saved, []byte(`{"started_at":"2026-01-01T00:00:00Z","user":{"id":"ada"},
		"recent":{"_name":"get-trip","get-trip":{"inputs":{"id":"7"},"outputs":null}},
		"history":{"_total":1,"_list":["get-trip"],"get-trip":[{"inputs":{"id":"7"},"outputs":null}]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ expression, agent, want, fails string }{
		"a hyphenated name":   {`recent.get-trip.inputs.id == "7" && history._total < 100`, "", "true", ""},
		"a value":             {`history.get-trip.map(t, t.inputs.id)`, "", `["7"]`, ""},
		"a time":              {`started_at < timestamp("2027-01-01T00:00:00Z")`, "", "true", ""},
		"a name of the agent": {`recent.get-booking.inputs.id == "7"`, "../../../testdata/agents/desk.yaml", "", `recent["get-booking"]`},
		"a fault":             {`recent.`, "", "", "expression"},
	} {
		t.Run(name, func(t *testing.T) {
			value, err := evaluate(test.expression, saved, test.agent)
			switch {
			case test.fails != "":
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Errorf("got %s, %v", value, err)
				}
			case err != nil || string(value) != test.want:
				t.Errorf("got %s, %v", value, err)
			}
		})
	}
}

func TestOAgentLint(t *testing.T) {
	var out bytes.Buffer
	if err := lintAgents(&out, []string{"../../../testdata/agents/desk.yaml"}, nil); err != nil || !strings.Contains(out.String(), "desk.yaml:2: agent travel-desk, 4 capabilities: valid") {
		t.Errorf("%v %s", err, &out)
	}
	out.Reset()
	file := filepath.Join(t.TempDir(), "agents.yaml")
	content := strings.Replace(deskAgent, "limit < 100", "limit < 100, require_review: oagent://dask", 1)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := lintAgents(&out, []string{file}, nil); err != nil || !testkit.ContainsAll(out.String(), "desk?") {
		t.Errorf("got the error %v and %s, want the suggestion desk?", err, &out)
	}
	for _, want := range []string{"agents.yaml:7: note: capabilities.list-trips.input_restriction.require_review: ", "agent desk, 1 capability: valid"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %s, want %q", &out, want)
		}
	}
	out.Reset()
	if err := lintAgents(&out, []string{"../../../testdata/agents/desk.yaml"}, []string{"../../../testdata/demo.openapi.yaml"}); err == nil ||
		!testkit.ContainsAll(out.String(), "desk.yaml:9: capabilities.search-faqs: tool agent") {
		t.Errorf("%v %s", err, &out)
	}
}
