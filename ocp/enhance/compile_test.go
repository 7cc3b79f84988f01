package enhance_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/ocp/enhance"
)

func TestCompileErrors(t *testing.T) {
	good := enhance.Property{Name: "p", Expression: "1"}
	many := make([]enhance.Property, enhance.MaxProperties+1)
	for i := range many {
		many[i] = enhance.Property{Name: fmt.Sprintf("p%d", i), Expression: "1"}
	}
	for name, test := range map[string]struct {
		options    enhance.Options
		properties []enhance.Property
		want       string
	}{
		"empty":              {properties: []enhance.Property{{Name: "p", Expression: " "}}, want: "p: empty"},
		"syntax":             {properties: []enhance.Property{{Name: "p", Expression: "1 +"}}, want: "p: 1, 4"},
		"unknown variable":   {properties: []enhance.Property{{Name: "p", Expression: "context.user"}}, want: "p: undeclared context"},
		"unknown field":      {properties: []enhance.Property{{Name: "p", Expression: "ocp.goal"}}, want: "ocp goal context_id,"},
		"unknown index":      {properties: []enhance.Property{{Name: "p", Expression: `request["body"]`}}, want: "request body"},
		"unknown optional":   {properties: []enhance.Property{{Name: "p", Expression: `tool.?id`}}, want: "tool id"},
		"unknown presence":   {properties: []enhance.Property{{Name: "p", Expression: `has(response.code)`}}, want: "response code"},
		"type":               {properties: []enhance.Property{{Name: "p", Expression: `1 + "a"`}}, want: "overload"},
		"too long":           {properties: []enhance.Property{{Name: "p", Expression: strings.Repeat("1 + ", 5000) + "1"}}, want: "size"},
		"too deep":           {properties: []enhance.Property{{Name: "p", Expression: strings.Repeat("[", 100) + strings.Repeat("]", 100)}}, want: "recursion"},
		"regular expression": {properties: []enhance.Property{{Name: "p", Expression: `ocp.user.matches("(")`}}, want: "closing )"},
		"name":               {properties: []enhance.Property{{Name: "a b", Expression: "1"}}, want: `property "a b"`},
		"quote in a name":    {properties: []enhance.Property{{Name: `a"`, Expression: "1"}}, want: "[a-zA-Z]"},
		"twice":              {properties: []enhance.Property{good, good}, want: "twice"},
		"too many":           {properties: many, want: "65 properties"},
		"lists":              {options: enhance.Options{Lists: "some"}, want: "lists some each wrap leave"},
		"wrap":               {options: enhance.Options{Wrap: "a b"}, want: `wrap "a b"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := enhance.Compile(test.properties, test.options)
			if err == nil || !testkit.ContainsAll(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestShadowedVariable(t *testing.T) {
	one(t, `[{"id": 1}].map(tool, tool.id)`)
}

func TestReads(t *testing.T) {
	for expression, want := range map[string][]string{
		`1`:                              nil,
		`ocp.current_goal + ocp["user"]`: {"current_goal", "user"},
		`has(ocp.workspace) ? ocp.?user : ocp[?"session"].orValue({}).?agent_type`: {"session", "user", "workspace"},
		`ocp.history.exists(h, h.action == ocp.current_goal)`:                      {"current_goal", "history"},
		`size(ocp)`: {
			"agent_type", "api_specs", "context_id", "context_summary", "created_at", "current_file", "current_goal",
			"error_context", "history", "last_updated", "recent_changes", "session", "user", "workspace",
		},
	} {
		t.Run(expression, func(t *testing.T) {
			if got := one(t, expression).Reads(nil); !reflect.DeepEqual(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestSchema(t *testing.T) {
	for expression, want := range map[string]string{
		`true`:                              `{"type":"boolean"}`,
		`1`:                                 `{"type":"integer"}`,
		`1.5`:                               `{"type":"number"}`,
		`"a"`:                               `{"type":"string"}`,
		`b"a"`:                              `{"type":"string"}`,
		`timestamp("2026-01-01T00:00:00Z")`: `{"type":"string","format":"date-time"}`,
		`["a"]`:                             `{"type":"array","items":{"type":"string"}}`,
		`[]`:                                `{"type":"array","items":{}}`,
		`{"a": [1]}`:                        `{"type":"object","additionalProperties":{"type":"array","items":{"type":"integer"}}}`,
		`optional.of("a")`:                  `{"type":"string"}`,
		`ocp.user`:                          `{}`,
		`null`:                              `{}`,
	} {
		t.Run(expression, func(t *testing.T) {
			if got := string(one(t, expression).Schema("p")); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
	if got := one(t, `1`).Schema("q"); got != nil {
		t.Errorf("an unknown property has the schema %s", got)
	}
}
