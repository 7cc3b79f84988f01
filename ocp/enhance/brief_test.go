package enhance

import (
	"slices"
	"testing"
)

// An expression decides how far the context is decoded, however it names a field.
func TestBrief(t *testing.T) {
	for expression, brief := range map[string]bool{
		"ocp.current_goal":                      true,
		"ocp.recent_changes":                    true,
		"ocp.?current_file":                     true,
		"response.body.history":                 true,
		"ocp.history.size()":                    false,
		`ocp["history"].size()`:                 false,
		"has(ocp.session)":                      false,
		"ocp.?session.interaction_count":        false,
		`ocp[?"api_specs"]`:                     false,
		"ocp":                                   false,
		"ocp[tool.name]":                        false,
		"[ocp].map(o, o.history)":               false,
		"ocp.current_goal in ocp":               false,
		"ocp.history.exists(e, e.action == '')": false,
	} {
		e, err := Compile([]Property{{Name: "a", Expression: "1"}, {Name: "b", Expression: expression}}, Options{})
		if err != nil {
			t.Errorf("%s: %v", expression, err)
		} else if long := slices.ContainsFunc(e.reads, func(field string) bool {
			return field == "history" || field == "session" || field == "api_specs"
		}); long == brief {
			t.Errorf("%s: reads %v", expression, e.reads)
		}
	}
}
