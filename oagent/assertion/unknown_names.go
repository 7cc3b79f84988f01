package assertion

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/internal/expr"
	"github.com/fairwayhq/fairway/internal/nearest"
)

// engagementVariables are the top-level names of an expression, apart from the variables of
// its own loops.
var engagementVariables = [...]string{"started_at", "user", "recent", "history"}

// undeclared is the beginning of CEL's message about an unknown name.
const undeclared = "undeclared reference to '"

// explainUnknown replaces CEL's messages about unknown names by messages that list the available
// names. unknown contains those names that are variables; the others are functions. names are
// the tools and agents that may be called.
func explainUnknown(err error, unknown []string, names *Names) error {
	fault, ok := errors.AsType[*expr.CompileError](err)
	if !ok {
		return err
	}
	explained := &expr.CompileError{Positions: slices.Clone(fault.Positions)}
	for i := range explained.Positions {
		place := &explained.Positions[i]
		rest, ok := strings.CutPrefix(place.Message, undeclared)
		name, _, _ := strings.Cut(rest, "'")
		switch {
		case !ok:
		case slices.Contains(unknown, name):
			place.Message = noVariable(name, names)
		default:
			place.Message = fmt.Sprintf("unknown function %.64s; check its name and how it is called", name)
		}
	}
	return explained
}

func noVariable(name string, names *Names) string {
	text := fmt.Sprintf("unknown variable %.64s", name)
	tool := strings.ReplaceAll(name, "_", "-")
	switch near := nearest.Name(name, slices.Values(engagementVariables[:])); {
	case name == "inputs" || name == "outputs":
		return fmt.Sprintf("%s; write recent.<tool>.%s for the current or the latest call of a tool", text, name)
	case name == outputVariable:
		return text + "; only the assertion of a guardrail has it; elsewhere write recent.<tool>.outputs"
	case names != nil && names.known[tool]:
		return fmt.Sprintf("%s; write recent.%[2]s for the latest call of %[2]s, or history.%[2]s for all of them", text, tool)
	case near != "":
		text += fmt.Sprintf("; did you mean %s?", near)
	}
	return text + "; known variables: " + strings.Join(engagementVariables[:], ", ")
}
