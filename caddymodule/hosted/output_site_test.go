package hosted_test

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

const daySchema = `x-fairway:
  output_schema:
    type: object
    required: [day]
    properties:
      day: {$ref: "#/$defs/Day"}
    $defs:
      Day: {type: string, enum: [Mon, Tue]}
`

// An answer that is valid for the output schema is a value everywhere: over REST, in MCP with its schema in the list,
// in OTC, and for an agent that calls the agent.
func TestOutput_schema_through_all_protocols(t *testing.T) {
	s := exposed(t, sitetest.AgentDocument("desk", "  {}\n")+daySchema+"---\n"+strings.Replace(sitetest.AgentDocument("boss", "\n  oagent://desk: {}\n"), "You test", "boss", 1)+
		"exposes: {day: recent.desk.outputs.value.day}\n", bothEndpoints, "", func(r *modelserver.Request) modelserver.Step {
		last := r.Messages[len(r.Messages)-1]
		switch {
		case strings.HasPrefix(r.System, "boss") && len(r.Messages) == 1:
			return sitetest.Calls("desk", `{"input":"When?"}`)
		case strings.HasPrefix(r.System, "boss"):
			return modelserver.Step{Text: "Done."}
		case strings.Contains(last.Text, "not JSON"):
			return modelserver.Step{Text: `{"day":"Mon"}`}
		}
		return modelserver.Step{Text: "On Monday."}
	})
	const value = `"value":{"day":"Mon"}`
	if a := s.As("ann", "GET", s.Begin("ann", "desk", "When?"), "", "Prefer", "wait=60"); !strings.Contains(a.Body, value) {
		t.Errorf("REST: %d %s", a.Status, a.Body)
	}
	list := mcp2026(s.Site, "ann", "{}", "tools/list", "", "")
	if !strings.Contains(list.Body, `"value":{"type":"object","required":["day"],"properties":{"day":`) || !strings.Contains(list.Body, `"enum":["Mon","Tue"]`) {
		t.Errorf("the list of MCP has no schema of the value: %s", list.Body)
	}
	a := mcp2026(s.Site, "ann", "{}", "tools/call", "desk", `"name":"desk","arguments":{"input":"When?"}`)
	if !strings.Contains(a.Body, `"structuredContent":{"status":"complete"`) || !strings.Contains(a.Body, value) {
		t.Errorf("MCP: %d %s", a.Status, a.Body)
	}
	if a := s.As("ann", "POST", "/otc/call", `{"tool_id":"Agents.desk","input":{"input":"When?"}}`); !strings.Contains(a.Body, value) {
		t.Errorf("OTC: %d %s", a.Status, a.Body)
	}
	if v := s.State("ann", s.Begin("ann", "boss", "Ask")); string(v.Exposes) != `{"day":"Mon"}` {
		t.Errorf("the calling agent: %+v", v)
	}
	if log := s.Log(); strings.Contains(log, "leads nowhere") {
		t.Errorf("the log has %s", log)
	}
}
