package ocp

import (
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// A Tool is one operation of a document, in the shape of the OCP tool schema:
// what a model is told about it, and how a call of it becomes a request. It is
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
	Security    []SecurityRequirement // alternatives; nil if the operation needs none
	Arguments   []Argument            // path, query, header, cookie, then body, each in document order; without those that the gateway fills

	// InputSchema is the JSON Schema 2020-12 of the arguments object. Its root
	// is {"type":"object"} with no oneOf, anyOf or allOf. If it would be larger than
	// BuildOptions.MaxSchema, it is Simplified. It then accepts all that the full
	// schema accepts, which the arguments are checked against.
	InputSchema jsontext.Value
	Simplified  bool

	// Answer is what the document says about successful answers.
	Answer Answer

	// OCP is what the document says of the operation's use of OCP context; nil
	// if it says nothing.
	OCP *OperationExtension

	// MCP is the operation's x-mcp extension as it stands in the document; nil
	// if there is none. What it says is the business of the MCP server.
	MCP jsontext.Value

	read      jsontext.Value // the JSON that UnmarshalJSON read; nil for a tool that Build made
	all       []Argument     // Arguments and those that the gateway fills
	index     argumentIndex  // of all
	plans     []argumentPlan // of all, by position
	path      []pathPart
	base      string          // escaped, what path has before Template
	template  string          // see Template
	query     string          // escaped, what the document says of the query; "" for nothing
	identity  []identifier    // what requests must have to be of this operation, beside method and path
	body      *bodyPlan       // nil if the operation takes none
	openBody  bool            // the body takes properties that the document does not name
	taken     map[string]bool // properties that are read-only, or arguments of another name; nil unless openBody
	accept    string          // the Accept header
	validator validator

	full   *fullSchema // nil if InputSchema is the full schema
	unread bool        // the full schema is too large to be kept: plain requests are refused

	answerValidator validator // of Answer.Schema

	requestOnce sync.Once
	requests    *requestPlan // how plain requests are read back; nil until the first one
}

// Template returns the path template that requests are sent to, "/trips/{id}",
// without the base path and without the query and fragment that Path may have.
// Each "{" and "}" encloses the WireName of a path argument.
func (t *Tool) Template() string { return t.template }

// ReadOnly reports whether the method is safe in the sense of HTTP: GET, HEAD
// or OPTIONS.
func (t *Tool) ReadOnly() bool {
	switch t.Method {
	case "GET", "HEAD", "OPTIONS":
		return true
	}
	return false
}

// Idempotent reports whether the method is idempotent in the sense of HTTP.
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
)

// An Argument is one name of a tool's flat arguments object.
type Argument struct {
	Name        string // what the caller writes: [a-zA-Z][a-zA-Z0-9_]*
	WireName    string // what the API reads; "" if the argument is the whole body
	In          Location
	Required    bool
	Description string
	Schema      jsontext.Value // JSON Schema 2020-12; $defs it refers to are in the tool's InputSchema
	Default     jsontext.Value // nil if there is none

	// NonInferrable says that a model must not make the value up
	// (x-otc-non-inferrable; OTC 1.0, Input Schema).
	NonInferrable bool

	// MCPHeader is the name for which MCP clients repeat the value in a header
	// Mcp-Param-{name} (x-mcp-header; MCP 2026-07-28, Streamable HTTP); "" for
	// none.
	MCPHeader string

	types []string // the JSON types it allows, nil if unknown
}

// An Answer is what the document declares of a tool's successful answers.
type Answer struct {
	Description string
	MediaTypes  []string       // of all 2xx answers, lower case, without parameters
	Types       []string       // the JSON types of the body, nil if unknown
	Empty       bool           // some 2xx answer has no body
	Unstated    bool           // of these, one has a status that may have a body all the same
	Schema      jsontext.Value // full JSON Schema 2020-12; nil unless built WithResponseSchemas
}

// SecurityRequirement names the security schemes that one alternative needs,
// each with its scopes.
type SecurityRequirement map[string][]string

// Takes reports whether a call may have an argument of that name: one of Arguments,
// or a further property of a body that allows any.
func (t *Tool) Takes(argument string) bool {
	_, known := t.index.position(t.all, argument)
	return known || t.openBody && !t.taken[argument]
}
