package match

import (
	"slices"

	"github.com/fairwayhq/fairway/ocp/internal/plan"
	"github.com/fairwayhq/fairway/ocp/internal/style"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// knows reports whether a request of the tool can have the identifier.
func knows(t *tool.Tool, id *plan.Identifier) bool {
	return slices.ContainsFunc(t.Plan().Identity, func(own plan.Identifier) bool { return own.In == id.In && own.Name == id.Name }) ||
		slices.ContainsFunc(t.All(), func(a tool.Argument) bool {
			return style.In(a.In) == id.In && (a.WireName == id.Name || a.In == tool.InQuery && (len(a.Types()) == 0 || slices.Contains(a.Types(), "object")))
		})
}

// fixes returns the value that the tool's requests must have for a query parameter or
// header, or nil if any value is allowed.
func fixes(t *tool.Tool, in style.In, name string) []string {
	identity := t.Plan().Identity
	for i := range identity {
		if id := &identity[i]; id.In == in && id.Name == name {
			return id.Values
		}
	}
	return nil
}
