package enhance

import (
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/celenv"
)

// fieldsOf lists the fields of each variable that has a fixed set of fields.
var fieldsOf = map[string][]string{
	"ocp": {
		"context_id", "agent_type", "user", "workspace", "current_file", "current_goal", "context_summary",
		"error_context", "recent_changes", "session", "history", "api_specs", "created_at", "last_updated",
	},
	"request":  {"method", "path", "query", "headers"},
	"response": {"status", "headers", "body"},
	"tool":     {"name", "operation_id", "method", "path", "tags"},
}

// newEnvironment returns the environment of the expressions.
func newEnvironment(cost uint64) (*celenv.Environment, error) {
	return celenv.New(celenv.Limits{Cost: cost},
		celenv.Variable{Name: "ocp", Type: celenv.Fields()},
		celenv.Variable{Name: "request", Type: celenv.Fields()},
		celenv.Variable{Name: "response", Type: celenv.Fields()},
		celenv.Variable{Name: "tool", Type: celenv.Fields()},
		celenv.Variable{Name: "item", Type: cel.DynType})
}

// A program is a compiled expression.
type program struct {
	expr   *celenv.Program
	reads  []string       // context fields that the expression reads
	schema jsontext.Value // the schema of its result
}

func compile(env *celenv.Environment, expression string) (*program, error) {
	compiled, err := env.Compile(expression)
	if err != nil {
		return nil, err
	}
	p := &program{expr: compiled, schema: appendSchema(nil, compiled.Type(), 0)}
	if err := p.survey(compiled.Root()); err != nil {
		return nil, err
	}
	return p, nil
}

// survey finds the context fields that the expression reads, and rejects fields that
// do not exist.
func (p *program) survey(root ast.NavigableExpr) error {
	for _, variable := range ast.MatchDescendants(root, ast.KindMatcher(ast.IdentKind)) {
		name := variable.AsIdent()
		known := fieldsOf[name]
		if known == nil {
			continue
		}
		field, ok := celenv.FieldOf(variable)
		switch {
		case ok && !slices.Contains(known, field):
			if celenv.IsShadowed(root, name) {
				continue
			}
			return fmt.Errorf("%s has no field %.64q: it has %s", name, field, strings.Join(known, ", "))
		case name != "ocp":
		case ok:
			p.reads = append(p.reads, field)
		default:
			p.reads = append(p.reads, known...)
		}
	}
	return nil
}
