package tool

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/extension"
	"github.com/fairwayhq/fairway/ocp/internal/openapi"
	"github.com/fairwayhq/fairway/ocp/internal/validate"
)

const (
	// maxEnhancedSchemas limits the total size of the schemas of one operation, and
	// maxAllEnhanced the total size for all operations, in bytes.
	maxEnhancedSchemas = maxResponseSchema
	maxAllEnhanced     = 8 << 20

	// maxDeclared is the largest number of names in a list of an extension.
	maxDeclared = 64
)

// APIExtension describes how the whole API uses OCP, as its document declares it.
type APIExtension struct {
	Enabled      bool     // x-ocp-enabled: the API acknowledges OCP headers
	ContextAware bool     // x-ocp-context-aware: the API's responses use the context
	AgentTypes   []string // x-ocp-agent-types: the agent types the API is made for; nil for any
	Version      string   // x-ocp-version: "1.0", or ""
}

// OperationExtension describes how one operation uses OCP, as the document declares it.
type OperationExtension struct {
	// EnhancesWith and UpdatesContext are the fields of the context that the operation
	// reads and may change. Names that only the extension uses are translated: agent_goal
	// becomes current_goal.
	EnhancesWith   []string
	UpdatesContext []string

	RequiresContext bool // the operation is of little use without a context
	ContextUpdated  bool // a successful response may carry an updated context

	// Enhanced are additional properties of the responses to requests that have a context.
	Enhanced []EnhancedProperty
}

// Updates reports whether the operation declares that it may change the field.
func (x *OperationExtension) Updates(field string) bool {
	return x != nil && slices.Contains(x.UpdatesContext, field)
}

// An EnhancedProperty is a property that is added to a response if there is a context.
type EnhancedProperty struct {
	Name   string         // [a-zA-Z][a-zA-Z0-9_]*
	Schema jsontext.Value // JSON Schema 2020-12, complete

	validator *validate.Schema
}

// Check validates the value against the property's schema.
func (p *EnhancedProperty) Check(value jsontext.Value) error {
	decoded, err := wire.Decode(value)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	compiled, err := p.validator.Compile(func() jsontext.Value { return p.Schema })
	if err != nil {
		return fmt.Errorf("the schema of %s cannot be used: %w", p.Name, err)
	}
	err = compiled.Validate(decoded)
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	if problems := validate.Explain(invalid); len(problems) > 0 {
		return fmt.Errorf("%s%s: %s", p.Name, problems[0].Path, problems[0].Message)
	}
	return fmt.Errorf("%s does not fit its schema", p.Name)
}

// enhancesWith maps the extension's names to fields of the context.
var enhancesWith = map[string]string{
	"agent_goal":           "current_goal",
	"workspace_context":    "workspace",
	"conversation_history": "history",
}

// updatable are the fields that an operation can declare to update.
var updatable = []string{"current_goal", "context_summary", "error_context", "recent_changes", "history"}

// readAPIExtension returns the API's extension, or nil if the document has none. The flags
// belong into info, but are also read at the root.
func readAPIExtension(document *openapi.Document) *APIExtension {
	root := document.Root()
	info, err := root.At("info").Resolve()
	if err != nil {
		info = openapi.Place{}
	}
	found := false
	get := func(name string) *openapi.Node {
		node := info.Get(name)
		if node == nil {
			node = root.Get(name)
		}
		found = found || node != nil
		return node
	}
	x := &APIExtension{
		Enabled:      get(extension.Enabled).True(),
		ContextAware: get(extension.ContextAware).True(),
		AgentTypes:   texts(get(extension.AgentTypes)),
	}
	version := get(extension.Version)
	if x.Version = version.Text(); version.Kind() == '0' {
		x.Version = string(version.Raw()) // YAML reads an unquoted 1.0 as a number
	}
	if !found {
		return nil
	}
	return x
}

// texts returns the strings of a list.
func texts(list *openapi.Node) (all []string) {
	for _, item := range list.Items() {
		if text := item.Text(); text != "" && len(all) < maxDeclared {
			all = append(all, text)
		}
	}
	return all
}

// readExtension sets Tool.OCP if the operation has one of the extensions.
func (t *toolBuilder) readExtension() {
	x := &OperationExtension{}
	found := t.readContext(x)
	room := min(maxEnhancedSchemas, maxAllEnhanced-t.enhanced)
	found = t.readEnhanced(x, t.operation.Place, &room) || found
	for i := range t.operation.Responses {
		response := &t.operation.Responses[i]
		if !extension.IsSuccess(response.Status, t.operation.Responses) {
			continue
		}
		found = t.readEnhanced(x, response.Place, &room) || found
		if updated := response.Get(extension.ContextUpdated); updated != nil {
			x.ContextUpdated = x.ContextUpdated || updated.True()
			found = true
		}
	}
	if found {
		t.tool.OCP = x
	}
}

func (t *toolBuilder) readContext(x *OperationExtension) (found bool) {
	context, ok := t.extensionOf(t.operation.Place, extension.Context)
	if !ok {
		return false
	}
	x.RequiresContext = context.Get("requires_context").True()
	for _, name := range texts(context.Get("enhances_with")) {
		if field, ok := enhancesWith[name]; ok {
			name = field
		}
		if !slices.Contains(x.EnhancesWith, name) {
			x.EnhancesWith = append(x.EnhancesWith, name)
		}
	}
	for _, name := range texts(context.Get("updates_context")) {
		if !slices.Contains(updatable, name) {
			t.bend("%s: updates_context names %.64q, which no operation may update; it is left out", extension.Context, name)
		} else if !slices.Contains(x.UpdatesContext, name) {
			x.UpdatesContext = append(x.UpdatesContext, name)
		}
	}
	return true
}

// readEnhanced reads the extension from an operation or a response. Its value is an object
// with a schema for each property. Some documents have one object schema with properties
// instead, which is also accepted.
func (t *toolBuilder) readEnhanced(x *OperationExtension, holder openapi.Place, room *int) (found bool) {
	enhanced, ok := t.extensionOf(holder, extension.EnhancedResponse)
	if !ok {
		return false
	}
	if extension.IsObjectSchema(enhanced) {
		enhanced = enhanced.At("properties")
	}
	for i, m := range enhanced.Members() {
		known := slices.ContainsFunc(x.Enhanced, func(p EnhancedProperty) bool { return p.Name == m.Name })
		switch {
		case i == extension.MaxEnhanced || len(x.Enhanced) == extension.MaxEnhanced || *room <= 0:
			t.bend("%s has more properties than are read; %.64q and what follows is left out", extension.EnhancedResponse, m.Name)
			return true
		case known:
		case !extension.IsPropertyName(m.Name):
			t.bend("%s: the property %.64q does not have the form [a-zA-Z][a-zA-Z0-9_]*; it is left out", extension.EnhancedResponse, m.Name)
		case m.Value.Kind() != '{':
			t.bend("%s: the schema of %s is not an object; the property is left out", extension.EnhancedResponse, m.Name)
		default:
			text := t.output.AppendBounded(nil, enhanced.At(m.Name), *room)
			*room -= len(text)
			t.enhanced += len(text)
			x.Enhanced = append(x.Enhanced, EnhancedProperty{Name: m.Name, Schema: text, validator: new(validate.Schema)})
		}
	}
	return true
}

// extensionOf returns the extension of that name as an object. It resolves a $ref.
func (t *toolBuilder) extensionOf(holder openapi.Place, name string) (x openapi.Place, ok bool) {
	at := holder.At(name)
	if at.Node == nil || at.Kind() == 'n' {
		return x, false
	}
	x, err := at.Resolve()
	if err != nil {
		t.bend("%s: %v; it is left out", name, err)
		return x, false
	}
	if x.Kind() != '{' {
		t.bend("%s must be an object and is %s; it is left out", name, x.Kind())
		return x, false
	}
	return x, true
}

// bend adds a warning about an omitted part of an extension. The operation remains a tool.
func (t *toolBuilder) bend(format string, arguments ...any) {
	t.warn(Warning{Operation: t.tool.Operation(), Reason: fmt.Sprintf(format, arguments...)})
}
