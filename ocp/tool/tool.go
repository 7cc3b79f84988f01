package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/answer"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/extension"
	"github.com/fairwayhq/fairway/ocp/internal/inputschema"
	"github.com/fairwayhq/fairway/ocp/internal/openapi"
	"github.com/fairwayhq/fairway/ocp/internal/plan"
	"github.com/fairwayhq/fairway/ocp/internal/validate"
	"github.com/fairwayhq/fairway/ocp/security"
	"github.com/fairwayhq/fairway/ocp/selector"
)

// A Tool is made from one operation of a document. It holds the description for a model,
// in the form of the OCP tool schema, and how to build a request from a call. It is
// immutable and safe for concurrent use.
type Tool struct {
	Name        string // unique in its Toolset: [a-zA-Z][a-zA-Z0-9_]*, at most 64 characters
	Title       string // the operation's summary, or ""
	Description string // never empty
	Method      string // upper case
	Path        string // the operation's key in the document, "/trips/{id}" or "/trips/{id}#cancel", without the server's base path
	OperationID string // as in the document, or ""
	Tags        []string
	Deprecated  bool
	Builtin     Builtin               // "" for the tools of a document
	Security    []SecurityRequirement // alternatives; nil if the operation needs none
	Arguments   []Argument            // path, query, header, cookie, then body, each in document order; without those that the gateway fills

	// InputSchema is the JSON Schema 2020-12 of the arguments object. Its root is
	// {"type":"object"} without oneOf, anyOf or allOf. If it would be larger than
	// BuildOptions.MaxSchema, it is Simplified. It then accepts everything that the full
	// schema accepts. Arguments are always validated against the full schema.
	InputSchema jsontext.Value
	Simplified  bool

	// Response describes successful responses, as the document declares them.
	Response DeclaredResponse

	// OCP describes how the operation uses OCP context, or is nil if the document does not
	// say.
	OCP *extension.Operation

	// MCP is the operation's x-mcp extension as it is in the document, or nil if there is
	// none. The MCP server interprets it.
	MCP jsontext.Value

	// Annotations are the hints for clients that a shape sets, by the names that MCP gives them.
	// They take precedence over what the method implies. It is nil if there are none.
	Annotations map[string]bool

	MaxTokens int  // limits the response for a model, in tokens; 0 means the limit of the endpoint, less than 0 means none
	Fields    bool // the tool takes the argument "fields", with which a model selects members of the response

	// Unshaped describes the tool before shapes changed it.
	Unshaped Unshaped

	read      jsontext.Value  // the JSON that UnmarshalJSON read; nil for a tool that Build made
	all       []Argument      // Arguments, and those that the gateway fills
	index     argumentIndex   // of all
	plans     []plan.Argument // of all, by position
	path      []plan.Part
	base      string            // the escaped part of the path before Template
	template  string            // see Template
	query     string            // the escaped query that the document's path contains; "" if none
	identity  []plan.Identifier // what identifies the operation's requests, in addition to method and path
	body      *plan.Body        // nil if the operation has no body
	openBody  bool              // the body allows properties that the document does not name
	taken     map[string]bool   // properties that are read-only or are arguments under another name; nil unless openBody
	accept    string            // the Accept header
	validator validate.Schema

	full   *inputschema.Full // nil if InputSchema is the full schema
	unread bool              // the full schema is too large to be kept, so plain requests are rejected

	sendsBody bool // an optional body is always sent, because one of its arguments has a fixed value or a configured default

	selection *answer.Query // see Select

	guards *guards // the arguments that a shape fixes or hides; nil if there are none

	responseValidator validate.Schema // of Response.Schema

	planOnce sync.Once
	plan     *plan.Plan // see Plan; nil until it is needed
}

// Select returns the query that is applied to JSON responses before a model gets them. It is nil if there
// is none. It is for the handlers of this module.
func (t *Tool) Select() *answer.Query { return t.selection }

// Template returns the path template of requests, such as "/trips/{id}", without the base
// path and without the query and fragment that Path may have. Each pair of "{" and "}"
// encloses the WireName of a path argument.
func (t *Tool) Template() string { return t.template }

// ReadOnly reports whether the HTTP method is safe: GET, HEAD or OPTIONS.
func (t *Tool) ReadOnly() bool { return isSafe(t.Method) }

// isSafe reports whether a method is safe (RFC 9110, section 9.2.1).
func isSafe(method string) bool {
	switch method {
	case "GET", "HEAD", "OPTIONS":
		return true
	}
	return false
}

// Idempotent reports whether the HTTP method is idempotent.
func (t *Tool) Idempotent() bool {
	return t.ReadOnly() || t.Method == "PUT" || t.Method == "DELETE"
}

// Location is where an argument goes in the request.
type Location string

// The locations of arguments.
const (
	InPath   Location = "path"
	InQuery  Location = "query"
	InHeader Location = "header"
	InCookie Location = "cookie"
	InBody   Location = "body"

	// InGateway is the location of an argument that is not sent, because the gateway uses it itself.
	// Tool.Arguments does not have it.
	InGateway Location = "gateway"
)

// An Argument is one member of a tool's flat arguments object.
type Argument struct {
	Name        string // the name that callers use: [a-zA-Z][a-zA-Z0-9_]*
	WireName    string // the name that the API uses; "" if the argument is the whole body
	In          Location
	Required    bool
	Description string
	Schema      jsontext.Value // JSON Schema 2020-12; the $defs it refers to are in the tool's InputSchema
	Default     jsontext.Value // nil if there is none

	// NonInferrable means that a model must not invent the value (x-otc-non-inferrable;
	// OTC 1.0, Input Schema).
	NonInferrable bool

	// MCPHeader is the header name under which MCP clients repeat the value, as
	// Mcp-Param-{name} (x-mcp-header; MCP 2026-07-28, Streamable HTTP). "" means none.
	MCPHeader string

	types []string // the JSON types it allows, nil if unknown
}

// A DeclaredResponse describes a tool's successful responses, as the document declares them.
type DeclaredResponse struct {
	Description string
	MediaTypes  []string       // of all 2xx responses, lower case, without parameters
	Types       []string       // the JSON types of the body, nil if unknown
	Empty       bool           // some 2xx response has no body
	Unstated    bool           // one of these has a status that permits a body
	Schema      jsontext.Value // full JSON Schema 2020-12; nil unless built with ResponseSchemas
}

// SecurityRequirement is one alternative: the names of the required security schemes, each
// with its scopes.
type SecurityRequirement map[string][]string

// Types returns the JSON types that the argument allows. It is nil if they are unknown.
func (a *Argument) Types() []string { return a.types }

// Operation names the operation as the document does: "GET /trips/{id}".
func (t *Tool) Operation() string {
	return t.Method + " " + t.Path
}

// All returns the arguments of the tool, and those that the gateway fills.
func (t *Tool) All() []Argument { return t.all }

// Plan returns how the tool's requests are made. It is for package match, which reads
// requests that a tool could have made.
func (t *Tool) Plan() *plan.Plan {
	t.planOnce.Do(func() {
		t.plan = &plan.Plan{
			Arguments: t.plans, Parts: t.path, Base: t.base, Identity: t.identity,
			Body: t.body, OpenBody: t.openBody, Taken: t.taken,
			Schema: t.checkedSchema, Validator: &t.validator, Simplified: t.full != nil, Unchecked: t.unread,
		}
		t.guards.unguard(t.plan, t.all)
	})
	return t.plan
}

// Takes reports whether a call can have an argument with that name: one of Arguments, or
// an additional property of a body that allows any.
func (t *Tool) Takes(argument string) bool {
	_, known := t.index.position(t.all, argument)
	return known || t.openBody && !t.taken[argument]
}

// BasePath returns the part of the tool's request path before Path, escaped and without a
// final slash; "" if there is none.
func (t *Tool) BasePath() string {
	return t.base
}

// errToolRead is the error of calling a Tool that was read from JSON.
var errToolRead = errors.New("ocp: this tool was read from the JSON of the OCP tool schema, which does not say how arguments are named and encoded " +
	"in the request, so it cannot be called: build it from its document (Build, Discovery)")

// MarshalJSON implements json.Marshaler: it returns the tool in the shape of the OCP tool
// schema, as AppendOCP does.
func (t *Tool) MarshalJSON() ([]byte, error) {
	if t == nil {
		return []byte("null"), nil
	}
	text := t.AppendOCP(nil)
	if err := wire.Check(text); err != nil {
		return nil, fmt.Errorf("tool %s cannot be written as JSON: %w", t.Name, err)
	}
	return text, nil
}

// UnmarshalJSON implements json.Unmarshaler. It sets the Name, Description, Method, Path,
// OperationID, Tags and Deprecated of the tool, and keeps the whole text for MarshalJSON.
// Such a tool can be shown and stored, but not called: its JSON lacks the names of the
// arguments in the request, their serialization and the media type of the body. Bind
// returns an error for it.
func (t *Tool) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil // as package encoding/json does
	}
	var known struct {
		Name        string   `json:"name"`
		Description string   `json:"description"`
		Method      string   `json:"method"`
		Path        string   `json:"path"`
		OperationID string   `json:"operation_id"`
		Tags        []string `json:"tags"`
		Deprecated  bool     `json:"deprecated"`
	}
	read := jsontext.Value(text).Clone()
	if err := wire.Check(read); err != nil {
		return fmt.Errorf("ocp: this is not the JSON of a tool: %w", err)
	}
	if err := json.Unmarshal(read, &known); err != nil {
		return fmt.Errorf("ocp: this is not the JSON of a tool: %w", err)
	}
	if known.Name == "" || known.Method == "" || known.Path == "" {
		return errors.New("ocp: this is not the JSON of a tool: it needs a name, a method and a path")
	}
	*t = Tool{
		Name: known.Name, Description: known.Description, Method: known.Method, Path: known.Path,
		OperationID: known.OperationID, Tags: known.Tags, Deprecated: known.Deprecated, read: read,
	}
	return nil
}

// A Toolset is the immutable set of tools of one document. If the document changes, a new
// Toolset is built.
type Toolset struct {
	Name        string // the name in the configuration
	Title       string // info.title of the document
	Description string // info.description
	Version     string // info.version
	Hash        string // identifies the content: equal documents and options give equal hashes
	Operations  int    // operations in the document: each is a tool, a Warning with Lost, or excluded
	Excluded    int    // operations that include and exclude removed
	Warnings    []Warning
	Guesses     []Warning                  // decisions of Fairway that the document leaves open, such as the format of a */* body
	Unmatched   []*selector.UnmatchedError // selectors that stopped matching; see BuildOptions.Reloaded
	Files       []string                   // the files of the document, if it was read from files

	Withheld map[string]bool // names of tools that are left out because no operator has approved them; nil if there are none

	ResponseSchemas bool // built with BuildOptions.ResponseSchemas

	Origin string // "https://api.example.com", of the document's first server; "" if it names no host

	// SecuritySchemes are the authentication methods that Tool.Security names.
	SecuritySchemes map[string]*security.Scheme

	// MCP is the document's x-mcp extension as it is in the document, or nil if there is
	// none.
	MCP jsontext.Value

	OCP *extension.API // how the API uses OCP context; nil if the document does not say

	// Finder searches the document's tools. Nil means that they cannot be searched.
	Finder Finder

	tools    []*Tool
	builtins []*Tool
	brief    bool     // lists show only the document's tools in shown
	shown    []string // see Listing
	listed   []*Tool  // the tools that lists show; nil if these are all tools
	byName   map[string]*Tool
	joined   *joined // nil unless Join made the Toolset
}

// NewToolset returns the Toolset of these tools, whose names must be unique.
func NewToolset(name string, tools []*Tool) *Toolset {
	s := &Toolset{Name: name, Operations: len(tools), tools: tools, byName: make(map[string]*Tool, len(tools))}
	for _, t := range tools {
		s.byName[t.Name] = t
	}
	return s
}

// Tools returns the tools of the document, in its order. The slice must not be changed.
func (s *Toolset) Tools() []*Tool {
	return s.tools
}

// Tool returns the tool with that name, which may be a built-in one.
func (s *Toolset) Tool(name string) (*Tool, bool) {
	t, ok := s.byName[name]
	return t, ok
}

// A Warning is a part of the document that could not be used as written.
type Warning struct {
	Operation string // "GET /trips/{id}", or "" for the whole document
	Reason    string
	Lost      bool // the operation did not become a tool
}

// Only returns a Toolset with the document's tools for which keep returns true, in the same
// order, and with all built-in tools. The tools and the information about the document are shared; the Hash is different.
func (s *Toolset) Only(keep func(*Tool) bool) *Toolset {
	narrow := *s
	narrow.tools = nil
	sum := sha256.New()
	sum.Write([]byte(s.Hash))
	for _, t := range s.tools {
		if !keep(t) {
			continue
		}
		narrow.tools = append(narrow.tools, t)
		sum.Write([]byte("\x00" + t.Name))
	}
	narrow.Hash = hex.EncodeToString(sum.Sum(nil))
	narrow.SecuritySchemes = maps.Clone(s.SecuritySchemes)
	narrow.index()
	return &narrow
}

// SelectTools returns a function that reports whether one of the selectors chooses a
// tool.
func SelectTools(selectors []selector.Selector) (func(*Tool) bool, error) {
	chosen, err := selector.Compile(selectors)
	if err != nil {
		return nil, err
	}
	return func(t *Tool) bool {
		operation := openapi.Operation{ID: t.OperationID, Method: t.Method, Path: t.Path, Template: t.Template(), Tags: t.Tags}
		return chosen.Matches(selector.Candidate{Operation: &operation, Tool: t.Name})
	}, nil
}

// Brief reports whether lists show only some of the tools (see Listing).
func (s *Toolset) Brief() bool { return s.brief }
