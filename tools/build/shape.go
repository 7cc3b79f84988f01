package build

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/fairwayhq/fairway/internal/text"
)

// AllTools is the Shape.Tool that selects every tool.
const AllTools = "*"

// ShapeExtension is the name of the extension that contains a Shape in an operation, or an ArgumentShape in
// a parameter or a property.
const ShapeExtension = "x-fairway"

// The annotations of a tool (MCP 2025-11-25, ToolAnnotations).
const (
	ReadOnlyHint    = "readOnlyHint"
	DestructiveHint = "destructiveHint"
	IdempotentHint  = "idempotentHint"
	OpenWorldHint   = "openWorldHint"
)

// annotations are the names that Shape.Annotations can have.
var annotations = []string{ReadOnlyHint, DestructiveHint, IdempotentHint, OpenWorldHint}

// A Shape changes the tools that it selects. A member that is absent changes nothing.
type Shape struct {
	// The tools that this changes: a tool's name as `caddy tools` lists it, an operationId, a
	// method and path such as "GET /trips/{id}", or "*" for all tools. If several shapes select a
	// tool, the one for "*" applies first, and the others replace single members of it.
	// Required.
	Tool string `json:"tool,omitempty"`

	// The name of the tool for clients and in the configuration of agents, scopes and logs.
	// include and exclude use the name without it. Default: the name made from the document.
	Rename string `json:"rename,omitempty"`

	// The title of the tool. Default: the operation's summary.
	Title string `json:"title,omitempty"`

	// The description of the tool. Default: the operation's summary and description.
	Description string `json:"description,omitempty"`

	// Hints for clients: readOnlyHint, destructiveHint, idempotentHint, openWorldHint. Default:
	// what the HTTP method implies.
	Annotations map[string]bool `json:"annotations,omitempty"`

	// The changes of arguments, by the argument's name. Default: none.
	Arguments map[string]ArgumentShape `json:"arguments,omitempty"`

	// A jq program that is applied to JSON responses before the model gets them. Default: none.
	Select string `json:"select,omitempty"`

	// The largest response for the model, in tokens of about 4 bytes. A negative value means no
	// limit. Default: the limit of the endpoint.
	MaxTokens int `json:"max_tokens,omitempty"`

	// Whether the tool gets the optional argument "fields", with which a model requests less of
	// the response. Default: false.
	Fields *bool `json:"fields,omitempty"`

	// Whether arguments are sent even if they do not fit the schema. The model gets what does not
	// fit, with the result or with the error of the API. Default: false.
	SendMismatches *bool `json:"send_mismatches,omitempty"`
}

// An ArgumentShape changes one argument of a tool. A member that is absent changes nothing.
type ArgumentShape struct {
	// The name of the argument for clients. The request to the API is the same. Default: the name
	// made from the document.
	Rename string `json:"rename,omitempty"`

	// The description of the argument. Default: that of the document.
	Description string `json:"description,omitempty"`

	// The value that is sent if the caller does not give the argument, which becomes optional. A
	// string is converted to the JSON type of the argument. Default: the default in the document.
	Default json.RawMessage `json:"default,omitempty"`

	// The value that is always sent. The argument is not listed, and a call that gives it is
	// rejected. A string is converted to the JSON type of the argument and may contain
	// placeholders, which are replaced for each call. If one is empty or unknown, the call fails.
	// Default: none.
	Fixed json.RawMessage `json:"fixed,omitempty"`

	// Whether the argument is neither listed nor sent. An argument that the API requires also
	// needs a default or a fixed value, which is sent then. Default: false.
	Hide *bool `json:"hide,omitempty"`
}

// Hidden reports whether the argument is hidden.
func (a *ArgumentShape) Hidden() bool { return a.Hide != nil && *a.Hide }

// Guards reports whether the argument must not be given by callers.
func (a *ArgumentShape) Guards() bool { return a.Fixed != nil || a.Hidden() }

// Guards reports whether the shape fixes or hides an argument.
func (s *Shape) Guards() bool {
	for _, a := range s.Arguments {
		if a.Guards() {
			return true
		}
	}
	return false
}

// Check returns an error if the shape is invalid for every document. Its message begins with the
// member, as the Caddyfile names it.
func (s *Shape) Check() error {
	if s.Tool == "" {
		return fmt.Errorf("tool needs the name of a tool, an operationId, a method and path, or %q", AllTools)
	}
	if s.Tool == AllTools {
		for _, m := range [...]struct{ name, value string }{{"rename", s.Rename}, {"title", s.Title}, {"description", s.Description}} {
			if m.value != "" {
				return fmt.Errorf("%s cannot be the same for all tools; write it in the block of one tool", m.name)
			}
		}
	}
	return s.check()
}

// check checks the members except Tool.
func (s *Shape) check() error {
	if err := checkName(s.Rename); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.Annotations)) {
		if err := CheckAnnotation(name); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Arguments)) {
		a := s.Arguments[name]
		if err := a.check(); err != nil {
			return fmt.Errorf("argument %s: %w", name, err)
		}
	}
	return nil
}

// CheckAnnotation returns an error if there is no annotation with that name.
func CheckAnnotation(name string) error {
	if slices.Contains(annotations, name) {
		return nil
	}
	if near := text.Nearest(name, slices.Values(annotations)); near != "" {
		return fmt.Errorf("annotation %q is unknown; did you mean %s?", name, near)
	}
	return fmt.Errorf("annotation %q is unknown; known are %s, %s, %s and %s", name, ReadOnlyHint, DestructiveHint, IdempotentHint, OpenWorldHint)
}

func (a *ArgumentShape) check() error {
	if a.Default != nil && a.Fixed != nil {
		return errors.New("default and fixed exclude each other; a fixed value is always sent, so remove default")
	}
	return checkName(a.Rename)
}

// checkName returns an error if a new name is not one that clients accept.
func checkName(name string) error {
	switch {
	case name == "":
	case !IsName(name):
		return fmt.Errorf("rename %q: a name begins with a letter and has only letters, digits and underscores", name)
	case len(name) > MaxName:
		return fmt.Errorf("rename %q: a name has at most %d characters", name, MaxName)
	}
	return nil
}

// Over returns a shape with the members of s, and those of below where s has none. Both have
// arguments with the same kind of name.
func (s Shape) Over(below Shape) Shape {
	merged := s
	merged.Rename = cmp.Or(merged.Rename, below.Rename)
	merged.Title = cmp.Or(merged.Title, below.Title)
	merged.Description = cmp.Or(merged.Description, below.Description)
	merged.Select = cmp.Or(merged.Select, below.Select)
	merged.MaxTokens = cmp.Or(merged.MaxTokens, below.MaxTokens)
	if merged.Fields == nil {
		merged.Fields = below.Fields
	}
	if merged.SendMismatches == nil {
		merged.SendMismatches = below.SendMismatches
	}
	merged.Annotations = over(s.Annotations, below.Annotations, func(a, _ bool) bool { return a })
	merged.Arguments = over(s.Arguments, below.Arguments, ArgumentShape.over)
	return merged
}

// over merges two maps. Both is called for keys that both have.
func over[V any](top, below map[string]V, both func(top, below V) V) map[string]V {
	if len(top) == 0 {
		return below
	}
	merged := maps.Clone(below)
	if merged == nil {
		merged = make(map[string]V, len(top))
	}
	for name, value := range top {
		if other, known := below[name]; known {
			value = both(value, other)
		}
		merged[name] = value
	}
	return merged
}

// over returns an argument with the members of a, and those of below where a has none. A default
// replaces a fixed value below, and the other way round.
func (a ArgumentShape) over(below ArgumentShape) ArgumentShape {
	a.Rename = cmp.Or(a.Rename, below.Rename)
	a.Description = cmp.Or(a.Description, below.Description)
	if a.Default == nil && a.Fixed == nil {
		a.Default, a.Fixed = below.Default, below.Fixed
	}
	if a.Hide == nil {
		a.Hide = below.Hide
	}
	return a
}
