package enhance

import (
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types/ref"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/celenv"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/tools"
)

// variables provide the values that the expressions for one response can use. They
// implement cel.Activation. A value is built only when an expression reads it.
type variables struct {
	exchange *Exchange
	body     celenv.Node
	item     *celenv.Node
	reads    []string // the context fields that the expressions read, sorted

	ocp, request, response, tool map[string]any
}

// setItem sets the object that gets the properties: the whole body, or one item of a
// list.
func (v *variables) setItem(value jsontext.Value) ref.Val {
	v.item = &v.body
	if len(value) < len(v.body.Raw) {
		v.item = &celenv.Node{Raw: value}
	}
	return v.item.Force()
}

// ResolveName implements cel.Activation.
func (v *variables) ResolveName(name string) (any, bool) {
	switch name {
	case "ocp":
		if v.ocp == nil {
			v.ocp = v.contextFields()
		}
		return v.ocp, true
	case "request":
		if v.request == nil {
			v.request = v.requestFields()
		}
		return v.request, true
	case "response":
		if v.response == nil {
			v.response = map[string]any{
				"status":  v.exchange.Status,
				"headers": &celenv.Deferred{Build: func() any { return headers(v.exchange.Header) }},
				"body":    &v.body,
			}
		}
		return v.response, true
	case "tool":
		if v.tool == nil {
			v.tool = toolFields(v.exchange.Tool)
		}
		return v.tool, true
	case "item":
		return v.item, true
	}
	return nil, false
}

// contextFields returns the fields of the context. The session is decoded only as far
// as the expressions need it.
func (v *variables) contextFields() map[string]any {
	in := v.exchange.Incoming
	if c := in.FromHeaders(v.reads); c != nil {
		return contextFields(c)
	}
	if v.read("session") || v.read("api_specs") {
		return contextFields(in.Context())
	}
	fields := contextFields(in.Brief())
	if v.read("history") {
		fields["history"] = &celenv.Deferred{Build: func() any { return historyItems(in.History()) }}
	}
	return fields
}

// read reports whether an expression reads that context field.
func (v *variables) read(field string) bool {
	_, found := slices.BinarySearch(v.reads, field)
	return found
}

// Parent implements cel.Activation.
func (v *variables) Parent() cel.Activation {
	return nil
}

func (v *variables) requestFields() map[string]any {
	r := v.exchange.Request
	return map[string]any{
		"method": r.Method,
		"path":   r.URL.Path,
		"query": &celenv.Deferred{Build: func() any {
			query := make(map[string]any)
			for name, values := range r.URL.Query() {
				query[name] = values
			}
			return query
		}},
		"headers": &celenv.Deferred{Build: func() any { return headers(r.Header) }},
	}
}

// headers returns the header values by lower-case name. Repeated values are joined.
func headers(header map[string][]string) map[string]any {
	lower := make(map[string]any, len(header))
	for name, values := range header {
		lower[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	return lower
}

func toolFields(tool *tools.Tool) map[string]any {
	if tool == nil {
		return map[string]any{}
	}
	return map[string]any{
		"name":         tool.Name,
		"operation_id": tool.Definition.OperationID,
		"method":       tool.Plan.Method,
		"path":         tool.Plan.Path,
		"tags":         tool.Definition.Tags,
	}
}

func contextFields(c *ocp.Context) map[string]any {
	fields := map[string]any{
		"context_id":     c.ContextID,
		"agent_type":     c.AgentType,
		"recent_changes": c.RecentChanges,
		"history":        &celenv.Deferred{Build: func() any { return historyEntries(c.History) }},
		"api_specs":      &celenv.Deferred{Build: func() any { return apiSpecs(c.APISpecs) }},
	}
	setText(fields, "user", c.User)
	setText(fields, "workspace", c.Workspace)
	setText(fields, "current_file", c.CurrentFile)
	setText(fields, "current_goal", c.CurrentGoal)
	setText(fields, "context_summary", c.ContextSummary)
	setText(fields, "error_context", c.ErrorContext)
	if c.Session != nil {
		fields["session"] = &celenv.Deferred{Build: func() any { return sessionFields(c.Session) }}
	}
	if !c.CreatedAt.IsZero() {
		fields["created_at"] = c.CreatedAt
	}
	if !c.LastUpdated.IsZero() {
		fields["last_updated"] = c.LastUpdated
	}
	return fields
}

func apiSpecs(specs map[string]string) map[string]any {
	addresses := make(map[string]any, len(specs))
	for name, address := range specs {
		addresses[name] = address
	}
	return addresses
}

func setText(fields map[string]any, name, text string) {
	if text != "" {
		fields[name] = text
	}
}

func sessionFields(s *ocp.SessionMetadata) map[string]any {
	fields := extraFields(s.Extra)
	fields["interaction_count"] = s.InteractionCount
	setText(fields, "agent_type", s.AgentType)
	if !s.StartTime.IsZero() {
		fields["start_time"] = s.StartTime
	}
	return fields
}

func historyItems(history ocp.History) []any {
	items := make([]any, history.Len())
	for i := range items {
		items[i] = &celenv.Deferred{Build: func() any {
			entry := history.At(i)
			return entryFields(&entry)
		}}
	}
	return items
}

func historyEntries(history []ocp.HistoryEntry) []any {
	items := make([]any, len(history))
	for i := range history {
		items[i] = &celenv.Deferred{Build: func() any { return entryFields(&history[i]) }}
	}
	return items
}

func entryFields(e *ocp.HistoryEntry) map[string]any {
	metadata := extraFields(e.Metadata)
	setText(metadata, "operation", e.Operation)
	setText(metadata, "tool_name", e.ToolName)
	fields := map[string]any{"action": e.Action, "metadata": metadata}
	setText(fields, "api_endpoint", e.APIEndpoint)
	setText(fields, "result", e.Result)
	if !e.Timestamp.IsZero() {
		fields["timestamp"] = e.Timestamp
	}
	return fields
}

// extraFields returns the members of an object that the context stores as raw JSON.
func extraFields(object jsontext.Value) map[string]any {
	fields := make(map[string]any)
	for walk := strictjson.Into(object); walk.Next() && walk.Name != nil; {
		if name, err := jsontext.AppendUnquote(nil, walk.Name); err == nil {
			fields[string(name)] = &celenv.Node{Raw: walk.Value}
		}
	}
	return fields
}
