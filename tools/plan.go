package tools

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/tools/request"
)

// A Plan says how the request of a call is made. Package match uses it to read requests.
type Plan struct {
	Method   string                // upper case
	Path     string                // the operation's key in the document, "/trips/{id}" or "/trips/{id}#cancel", without the server's base path
	Security []SecurityRequirement // alternatives; nil if the operation needs none

	// Template is the path template of requests, such as "/trips/{id}", without the base path and without
	// the query and fragment that Path may have. Each pair of "{" and "}" encloses the WireName of a path argument.
	Template string

	Base     string               // the escaped part of the path before Template, without a final slash; "" if there is none
	Parts    []request.Part       // of the escaped path, with Base
	Query    string               // the escaped query that the document's path contains; "" if none
	Accept   string               // the Accept header
	Identity []request.Identifier // what identifies the operation's requests, in addition to method and path

	// Arguments are the arguments that callers give (see Definition) and those that the gateway fills.
	Arguments []Argument
	Encodings []request.Argument // how Arguments are sent, by position
	index     argumentIndex      // of Arguments

	Undeclared Undeclared
	Leniency   Leniency

	Body      *request.BodyPlan // nil if the operation has no body
	sendsBody bool              // an optional body is always sent, because one of its arguments has a fixed value or a configured default

	changes bool    // the method is safe, but the operation's own verb changes something
	reads   bool    // a trusted MCP server says that the tool only reads
	rivals  *rivals // the other operations that have some of the paths; nil if there are none
	guards  *guards // the arguments that a shape fixes or hides; nil if there are none
}

// Leniency says what Read does with arguments that are not as the document has them. Plain requests are not changed.
type Leniency struct {
	Strict          bool // values are not converted to other JSON forms (BuildOptions.StrictArguments)
	SendsMismatches bool // values are sent even if they do not fit the schema (Shape.SendMismatches)
}

// Undeclared says what becomes of properties of the body that the document does not name.
type Undeclared struct {
	Open  bool            // the document allows them
	Sent  bool            // tool calls send them, because the document does not say whether the body allows them
	Taken map[string]bool // names that are no such properties: they are read-only, or are arguments under another name
}

// allows reports whether a tool call can have a property of that name.
func (u *Undeclared) allows(name string) bool { return (u.Open || u.Sent) && !u.Taken[name] }

// take makes a name one that is no undeclared property.
func (u *Undeclared) take(name string) {
	if !u.Open && !u.Sent {
		return
	}
	if u.Taken == nil {
		u.Taken = make(map[string]bool)
	}
	u.Taken[name] = true
}

// SecurityRequirement is one alternative: the names of the required security schemes, each
// with its scopes.
type SecurityRequirement map[string][]string

// Location is where an argument goes in the request.
type Location = request.In

// The locations of arguments.
const (
	InPath   = request.Path
	InQuery  = request.Query
	InHeader = request.Header
	InCookie = request.Cookie
	InBody   = request.InBody

	// InGateway is the location of an argument that is not sent, because the gateway uses it itself.
	// Definition.Arguments does not have it.
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

// Types returns the JSON types that the argument allows. It is nil if they are unknown.
func (a *Argument) Types() []string { return a.types }
