package oagent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/internal/nearest"
	"github.com/fairwayhq/fairway/oagent"
)

// checkGoverning rejects a guard option with which none of the agents can govern a request.
func (o *Handler) checkGoverning(agents []*oagent.Agent) error {
	names := make([]string, len(agents))
	for i, a := range agents {
		if names[i] = a.Name; a.Name == o.Guard {
			return nil
		}
	}
	switch {
	case o.Guard == "" && len(agents) > 1:
		return fmt.Errorf("there are several agents (%s), and nothing says which one governs a request: name it by guard, "+
			"as in: guard {http.ocp.agent_type}", strings.Join(names, ", "))
	case o.Guard == "" || strings.Contains(o.Guard, "{"):
		return nil
	}
	if near := nearest.Name(o.Guard, slices.Values(names)); near != "" {
		return fmt.Errorf("guard: there is no agent %q; did you mean %s?", o.Guard, near)
	}
	return fmt.Errorf("guard: there is no agent %q; there are: %s", o.Guard, strings.Join(names, ", "))
}
