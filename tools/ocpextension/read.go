package ocpextension

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/schema"
)

const (
	// MaxEnhancedSchemas limits the total size of the schemas of one operation, and
	// MaxAllEnhanced the total size for all operations, in bytes.
	MaxEnhancedSchemas = 32 << 10
	MaxAllEnhanced     = 8 << 20

	// maxDeclared is the largest number of names in a list of an extension.
	maxDeclared = 64
)

// Operation describes how one operation uses OCP, as the document declares it.
type Operation struct {
	// EnhancesWith and UpdatesContext are the fields of the context that the operation
	// reads and may change. Names that only the extension uses are translated: agent_goal
	// becomes current_goal.
	EnhancesWith   []string
	UpdatesContext []string

	RequiresContext bool // the operation is of little use without a context
	ContextUpdated  bool // a successful response may carry an updated context

	// Enhanced are additional properties of the responses to requests that have a context.
	Enhanced []Property
}

// Describe returns the declaration as text, so that declarations can be compared. It is empty for nil.
func (x *Operation) Describe() string {
	if x == nil {
		return ""
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%q %q %t %t", x.EnhancesWith, x.UpdatesContext, x.RequiresContext, x.ContextUpdated)
	for _, p := range x.Enhanced {
		fmt.Fprintf(&text, " %s %s", p.Name, p.Schema)
	}
	return text.String()
}

// A Property is a property that is added to a response if there is a context.
type Property struct {
	Name   string         // [a-zA-Z][a-zA-Z0-9_]*
	Schema jsontext.Value // JSON Schema 2020-12, complete

	validator *schema.Validator
}

// Check validates the value against the property's schema.
func (p *Property) Check(value jsontext.Value) error {
	decoded, err := strictjson.Decode(value)
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
	if problems := schema.Explain(invalid, decoded); len(problems) > 0 {
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

// texts returns the strings of a list.
func texts(list *openapi.Node) (all []string) {
	for _, item := range list.Items() {
		if text := item.Text(); text != "" && len(all) < maxDeclared {
			all = append(all, text)
		}
	}
	return all
}

// A Reader reads the extensions of the operations of one document.
type Reader struct {
	Responses *schema.Translator             // for the schemas of enhanced properties
	Warn      func(operation, reason string) // reports a part that is left out

	enhanced int // bytes of the schemas of all operations so far
}

// Operation returns what the extensions of an operation declare, or nil if it has none.
func (r *Reader) Operation(operation *openapi.Operation) *Operation {
	o := &operationReader{Reader: r, operation: operation, read: new(Operation), room: min(MaxEnhancedSchemas, MaxAllEnhanced-r.enhanced)}
	found := o.readContext()
	found = o.readEnhanced(operation.Place) || found
	for i := range operation.Responses {
		response := &operation.Responses[i]
		if !IsSuccess(response.Status, operation.Responses) {
			continue
		}
		found = o.readEnhanced(response.Place) || found
		if updated := response.Get(ContextUpdated); updated != nil {
			o.read.ContextUpdated = o.read.ContextUpdated || updated.True()
			found = true
		}
	}
	if !found {
		return nil
	}
	return o.read
}

// An operationReader reads the extensions of one operation.
type operationReader struct {
	*Reader
	operation *openapi.Operation
	read      *Operation
	room      int // for the schemas of enhanced properties, in bytes
}

// readContext reads x-ocp-context.
func (r *operationReader) readContext() (found bool) {
	context, ok := r.extensionOf(r.operation.Place, Context)
	if !ok {
		return false
	}
	r.read.RequiresContext = context.Get("requires_context").True()
	for _, name := range texts(context.Get("enhances_with")) {
		if field, ok := enhancesWith[name]; ok {
			name = field
		}
		if !slices.Contains(r.read.EnhancesWith, name) {
			r.read.EnhancesWith = append(r.read.EnhancesWith, name)
		}
	}
	for _, name := range texts(context.Get("updates_context")) {
		if !slices.Contains(updatable, name) {
			r.leaveOut("%s: updates_context names %.64q, which no operation may update; it is left out", Context, name)
		} else if !slices.Contains(r.read.UpdatesContext, name) {
			r.read.UpdatesContext = append(r.read.UpdatesContext, name)
		}
	}
	return true
}

// readEnhanced reads the extension from an operation or a response. Its value is an object
// with a schema for each property. Some documents have one object schema with properties
// instead, which is also accepted.
func (r *operationReader) readEnhanced(holder openapi.Place) (found bool) {
	enhanced, ok := r.extensionOf(holder, EnhancedResponse)
	if !ok {
		return false
	}
	if isObjectSchema(enhanced) {
		enhanced = enhanced.At("properties")
	}
	for i, m := range enhanced.Members() {
		known := slices.ContainsFunc(r.read.Enhanced, func(p Property) bool { return p.Name == m.Name })
		switch {
		case i == MaxEnhanced || len(r.read.Enhanced) == MaxEnhanced || r.room <= 0:
			r.leaveOut("%s has more properties than are read; %.64q and what follows is left out", EnhancedResponse, m.Name)
			return true
		case known:
		case !IsPropertyName(m.Name):
			r.leaveOut("%s: the property %.64q does not have the form [a-zA-Z][a-zA-Z0-9_]*; it is left out", EnhancedResponse, m.Name)
		case m.Value.Kind() != '{':
			r.leaveOut("%s: the schema of %s is not an object; the property is left out", EnhancedResponse, m.Name)
		default:
			text := r.Responses.AppendBounded(nil, enhanced.At(m.Name), r.room)
			r.room -= len(text)
			r.enhanced += len(text)
			r.read.Enhanced = append(r.read.Enhanced, Property{Name: m.Name, Schema: text, validator: new(schema.Validator)})
		}
	}
	return true
}

// extensionOf returns the extension of that name as an object. It resolves a $ref.
func (r *operationReader) extensionOf(holder openapi.Place, name string) (x openapi.Place, ok bool) {
	at := holder.At(name)
	if at.Node == nil || at.Kind() == 'n' {
		return x, false
	}
	x, err := at.Resolve()
	if err != nil {
		r.leaveOut("%s: %v; it is left out", name, err)
		return x, false
	}
	if x.Kind() != '{' {
		r.leaveOut("%s must be an object and is %s; it is left out", name, x.Kind())
		return x, false
	}
	return x, true
}

// bend adds a warning about an omitted part of an  The operation remains a tool.
func (r *operationReader) leaveOut(format string, arguments ...any) {
	r.Warn(r.operation.Method+" "+r.operation.Path, fmt.Sprintf(format, arguments...))
}
