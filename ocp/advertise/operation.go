package advertise

import (
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/ocpextension"
	"github.com/fairwayhq/fairway/tools/openapi"
)

// enhancing maps context fields to the values of enhances_with. The extension has no
// value for fields that are not listed here.
var enhancing = map[string]string{
	"current_goal":   "agent_goal",
	"workspace":      "workspace_context",
	"history":        "conversation_history",
	"current_file":   "current_file",
	"recent_changes": "recent_changes",
	"error_context":  "error_context",
	"session":        "session",
}

// updatable lists the values of updates_context. The value is true if a gateway with
// Replies updates that part of the context itself. Only the API can change the goal
// and the summary.
var updatable = map[string]bool{
	"current_goal":    false,
	"context_summary": false,
	"error_context":   true,
	"recent_changes":  true,
	"history":         true,
}

// path returns a path item with the flags of its operations.
func (f *flags) path(path string, item *openapi.Node) *openapi.Node {
	if strings.HasPrefix(path, "x-") {
		return item
	}
	item = f.inline(f.here(item))
	return item.Map(func(name string, value *openapi.Node) *openapi.Node {
		where := strings.ToUpper(name) + " " + path
		operation := f.operations[where]
		if operation == nil || operation.File != f.document.File || value.Kind() != '{' {
			return value
		}
		return f.operation(value, operation, f.tools[where])
	})
}

// here returns the openapi.Place of a value in the document.
func (f *flags) here(n *openapi.Node) openapi.Place {
	return openapi.Place{Node: n, File: f.document.File}
}

// operation returns an operation with its flags.
func (f *flags) operation(node *openapi.Node, operation *openapi.Operation, tool *tools.Tool) *openapi.Node {
	node = set(node, ocpextension.Context, f.context(node, tool))
	node = set(node, ocpextension.EnhancedResponse, f.enhanced(operation, tool))
	return node.Map(func(name string, value *openapi.Node) *openapi.Node {
		if name != "responses" {
			return value
		}
		return value.Map(f.response)
	})
}

// set sets a member whose value is an object, or removes the member if the object is
// empty.
func set(node *openapi.Node, name string, value *openapi.Node) *openapi.Node {
	if len(value.Members()) == 0 {
		return node.Without(name)
	}
	return node.With(name, value)
}

// context returns the x-ocp-context of an operation.
func (f *flags) context(node *openapi.Node, tool *tools.Tool) *openapi.Node {
	declared := f.inline(f.here(node.Get(ocpextension.Context)))
	if declared.Kind() != '{' || declared.Get("$ref") != nil {
		declared = openapi.Object()
	}
	requires := declared.Get("requires_context").True() && (f.site.Forwards || f.site.Requires)
	enhances, updates := f.enhancesWith(declared, tool), f.updatesContext(declared)
	declared = list(declared, "enhances_with", enhances)
	declared = list(declared, "updates_context", updates)
	if !requires {
		return declared.Without("requires_context")
	}
	return declared.With("requires_context", openapi.Boolean(true))
}

// list sets a member whose value is a list, or removes the member if the list is empty.
func list(node *openapi.Node, name string, values []string) *openapi.Node {
	if len(values) == 0 {
		return node.Without(name)
	}
	return node.With(name, texts(values))
}

// enhancesWith returns the values that the API declares, if the context is forwarded,
// and those for the fields that the Enhancer's expressions read.
func (f *flags) enhancesWith(declared *openapi.Node, tool *tools.Tool) []string {
	var names []string
	for _, item := range declared.Get("enhances_with").Items() {
		if name := item.Text(); f.site.Forwards && isEnhancing(name) {
			names = append(names, name)
		}
	}
	if f.site.Enhancer == nil {
		return names
	}
	for _, field := range f.site.Enhancer.Reads(tool) {
		if name, ok := enhancing[field]; ok {
			names = append(names, name)
		}
	}
	return names
}

func isEnhancing(name string) bool {
	for _, known := range enhancing {
		if known == name {
			return true
		}
	}
	return false
}

// updatesContext returns the parts of the context that a response may update.
func (f *flags) updatesContext(declared *openapi.Node) []string {
	var names []string
	for _, item := range declared.Get("updates_context").Items() {
		bySite, known := updatable[item.Text()]
		if known && (f.site.Forwards || f.site.Replies && bySite) {
			names = append(names, item.Text())
		}
	}
	if f.site.Replies {
		names = append(names, "history")
	}
	return names
}

// enhanced returns the x-ocp-enhanced-response of an operation in the form that the
// extension defines, an object of schemas. Schemas that the document declares, in
// any place, are kept unchanged.
func (f *flags) enhanced(operation *openapi.Operation, tool *tools.Tool) *openapi.Node {
	var computed []string
	if f.site.Enhancer != nil {
		computed = f.site.Enhancer.Properties(tool)
	}
	var properties []openapi.Member
	for _, m := range ocpextension.Enhanced(operation) {
		if f.site.Forwards || slices.Contains(computed, m.Name) {
			properties = append(properties, m)
		}
	}
	for _, name := range computed {
		if !slices.ContainsFunc(properties, func(m openapi.Member) bool { return m.Name == name }) {
			properties = append(properties, openapi.Member{Name: name, Value: f.computed(name)})
		}
	}
	return openapi.Object(properties...)
}

// computed returns the schema of a property that the document does not declare. It is
// derived from the type of the expression.
func (f *flags) computed(name string) *openapi.Node {
	node, err := openapi.Parse(f.site.Enhancer.Schema(name), openapi.Limits{})
	if err != nil {
		return openapi.Object()
	}
	return node
}

// response returns a response with its flag. The response may belong to an operation
// or be shared.
func (f *flags) response(name string, response *openapi.Node) *openapi.Node {
	if strings.HasPrefix(name, "x-") || response.Kind() != '{' || response.Get("$ref") != nil {
		return response
	}
	if !f.site.Forwards {
		// The flags that are still true are now set on the operation.
		response = response.Without(ocpextension.EnhancedResponse).Without(ocpextension.ContextUpdated)
	}
	if f.site.Replies {
		response = response.With(ocpextension.ContextUpdated, openapi.Boolean(true))
	}
	return response
}
