package ocp

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/openapi"
)

const (
	// maxEnhanced is how many properties one operation may add to its answers.
	maxEnhanced = 64

	// maxEnhancedSchemas bounds the schemas of one operation's together, and
	// maxAllEnhanced those of all operations, in bytes.
	maxEnhancedSchemas = maxResponseSchema
	maxAllEnhanced     = 8 << 20

	// maxDeclared is how many names one list of an extension may have.
	maxDeclared = 64
)

// The names of the extensions (OCP 1.0, Level 2, OpenAPI Extensions).
const (
	extensionEnabled          = "x-ocp-enabled"
	extensionContextAware     = "x-ocp-context-aware"
	extensionAgentTypes       = "x-ocp-agent-types"
	extensionVersion          = "x-ocp-version"
	extensionContext          = "x-ocp-context"
	extensionEnhancedResponse = "x-ocp-enhanced-response"
	extensionContextUpdated   = "x-ocp-context-updated"
)

// APIExtension is what a document says of the whole API's use of OCP.
type APIExtension struct {
	Enabled      bool     // x-ocp-enabled: it acknowledges OCP headers
	ContextAware bool     // x-ocp-context-aware: its answers make use of the context
	AgentTypes   []string // x-ocp-agent-types: which it is made for; nil for any
	Version      string   // x-ocp-version: "1.0", or ""
}

// OperationExtension is what a document says of one operation's use of OCP.
type OperationExtension struct {
	// EnhancesWith and UpdatesContext are fields of the context that the
	// operation reads and may change. The names that the extension has of its
	// own are translated: agent_goal is current_goal here.
	EnhancesWith   []string
	UpdatesContext []string

	RequiresContext bool // it is of little use without a context
	ContextUpdated  bool // a successful answer may carry an updated context

	// Enhanced are the properties that answers have besides what the operation
	// declares, where there is a context.
	Enhanced []EnhancedProperty
}

// Updates reports whether the operation declares that it may change the field.
func (x *OperationExtension) Updates(field string) bool {
	return x != nil && slices.Contains(x.UpdatesContext, field)
}

// An EnhancedProperty is a property that a context adds to an answer.
type EnhancedProperty struct {
	Name   string         // [a-zA-Z][a-zA-Z0-9_]*
	Schema jsontext.Value // JSON Schema 2020-12, complete

	validator *validator
}

// Check returns an error that says why the value does not fit the property's
// schema.
func (p *EnhancedProperty) Check(value jsontext.Value) error {
	decoded, err := wire.Decode(value)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	compiled, err := p.validator.compile(func() jsontext.Value { return p.Schema })
	if err != nil {
		return fmt.Errorf("the schema of %s cannot be used: %w", p.Name, err)
	}
	err = compiled.Validate(decoded)
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	if problems := explain(invalid); len(problems) > 0 {
		return fmt.Errorf("%s%s: %s", p.Name, problems[0].Path, problems[0].Message)
	}
	return fmt.Errorf("%s does not fit its schema", p.Name)
}

// enhancesWith translates the extension's names for fields of the context.
var enhancesWith = map[string]string{
	"agent_goal":           "current_goal",
	"workspace_context":    "workspace",
	"conversation_history": "history",
}

// updatable are the fields that an operation may declare to update.
var updatable = []string{"current_goal", "context_summary", "error_context", "recent_changes", "history"}

// readAPIExtension returns what the document says, nil if that is nothing. The
// flags belong into info; at the root they are read too.
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
		Enabled:      get(extensionEnabled).True(),
		ContextAware: get(extensionContextAware).True(),
		AgentTypes:   texts(get(extensionAgentTypes)),
	}
	version := get(extensionVersion)
	if x.Version = version.Text(); version.Kind() == '0' {
		x.Version = string(version.Raw()) // YAML makes a number of 1.0
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
		if !isSuccess(response.Status, t.operation.Responses) {
			continue
		}
		found = t.readEnhanced(x, response.Place, &room) || found
		if updated := response.Get(extensionContextUpdated); updated != nil {
			x.ContextUpdated = x.ContextUpdated || updated.True()
			found = true
		}
	}
	if found {
		t.tool.OCP = x
	}
}

func (t *toolBuilder) readContext(x *OperationExtension) (found bool) {
	context, ok := t.extension(t.operation.Place, extensionContext)
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
			t.bend("%s: updates_context names %.64q, which no operation may update; it is left out", extensionContext, name)
		} else if !slices.Contains(x.UpdatesContext, name) {
			x.UpdatesContext = append(x.UpdatesContext, name)
		}
	}
	return true
}

// readEnhanced reads the extension from an operation or a response: an object of
// schemas by property, or a schema whose properties they are, as some documents
// have it.
func (t *toolBuilder) readEnhanced(x *OperationExtension, holder openapi.Place, room *int) (found bool) {
	enhanced, ok := t.extension(holder, extensionEnhancedResponse)
	if !ok {
		return false
	}
	if isObjectSchema(enhanced) {
		enhanced = enhanced.At("properties")
	}
	for i, m := range enhanced.Members() {
		known := slices.ContainsFunc(x.Enhanced, func(p EnhancedProperty) bool { return p.Name == m.Name })
		switch {
		case i == maxEnhanced || len(x.Enhanced) == maxEnhanced || *room <= 0:
			t.bend("%s has more properties than are read; %.64q and what follows is left out", extensionEnhancedResponse, m.Name)
			return true
		case known:
		case !isPropertyName(m.Name):
			t.bend("%s: the property %.64q does not have the form [a-zA-Z][a-zA-Z0-9_]*; it is left out", extensionEnhancedResponse, m.Name)
		case m.Value.Kind() != '{':
			t.bend("%s: the schema of %s is not an object; the property is left out", extensionEnhancedResponse, m.Name)
		default:
			text := t.output.AppendBounded(nil, enhanced.At(m.Name), *room)
			*room -= len(text)
			t.enhanced += len(text)
			x.Enhanced = append(x.Enhanced, EnhancedProperty{Name: m.Name, Schema: text, validator: new(validator)})
		}
	}
	return true
}

// isObjectSchema reports whether an extension that should be an object of
// schemas is one schema, with the others under properties.
func isObjectSchema(p openapi.Place) bool {
	properties := p.Get("properties")
	if properties.Kind() != '{' {
		return false
	}
	// A property may be named properties; then this is its schema.
	return p.Get("type").Kind() == '"' || len(p.Members()) == 1 && properties.Get("type").Kind() != '"'
}

func isPropertyName(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return name != "" && len(name) <= 2*maxName
}

// extension returns the object of that name, wherever its $ref leads.
func (t *toolBuilder) extension(holder openapi.Place, name string) (x openapi.Place, ok bool) {
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

// bend notes what was left out of an extension, which costs no operation.
func (t *toolBuilder) bend(format string, arguments ...any) {
	t.warn(Warning{Operation: t.tool.where(), Reason: fmt.Sprintf(format, arguments...)})
}
