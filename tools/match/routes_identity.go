package match

import (
	"slices"

	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/request"
)

// knows reports whether a request of the tool can have the identifier.
func knows(t *tools.Tool, id *request.Identifier) bool {
	return slices.ContainsFunc(t.Plan.Identity, func(own request.Identifier) bool { return own.In == id.In && own.Name == id.Name }) ||
		slices.ContainsFunc(t.Plan.Arguments, func(a tools.Argument) bool {
			return a.In == id.In && (a.WireName == id.Name || a.In == tools.InQuery && (len(a.Types()) == 0 || slices.Contains(a.Types(), "object")))
		})
}

// fixes returns the value that the tool's requests must have for a query parameter or
// header, or nil if any value is allowed.
func fixes(t *tools.Tool, in request.In, name string) []string {
	identity := t.Plan.Identity
	for i := range identity {
		if id := &identity[i]; id.In == in && id.Name == name {
			return id.Values
		}
	}
	return nil
}
