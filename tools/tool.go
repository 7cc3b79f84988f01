package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/ocpextension"
	"github.com/fairwayhq/fairway/tools/schema"
)

// A Tool is made from one operation of a document. It is immutable and safe for concurrent use.
//
// Its parts are for the phases of a call: the Definition is listed, the Plan makes the request of a call,
// and the Output describes what the caller gets of the response.
type Tool struct {
	Name       string  // unique in its Toolset: [a-zA-Z][a-zA-Z0-9_]*, at most 64 characters
	Builtin    Builtin // "" for the tools of a document
	Definition Definition
	Plan       Plan
	Output     Output

	// OCP describes how the operation uses OCP context, or is nil if the document does not
	// say.
	OCP *ocpextension.Operation

	// Foreign is the tool of the MCP server that this tool calls, or nil if it calls an API.
	Foreign *Foreign

	// MCP is the operation's x-mcp extension as it is in the document, or nil if there is
	// none. The MCP server interprets it.
	MCP jsontext.Value

	// Unshaped describes the tool before shapes changed it.
	Unshaped Unshaped

	read jsontext.Value // the JSON that UnmarshalJSON read; nil for a tool that Build made
}

// clone returns a copy of the tool whose arguments can be changed before it is used.
func (t *Tool) clone() *Tool {
	c := *t
	c.Definition.Validator, c.Output.validator = new(schema.Validator), new(schema.Validator)
	c.Plan.Arguments, c.Plan.Encodings = slices.Clone(t.Plan.Arguments), slices.Clone(t.Plan.Encodings)
	return &c
}

// ReadOnly reports whether the HTTP method is safe (GET, HEAD or OPTIONS) and the operation's own verb does not
// change anything: "revoke a token" does, "list revoked tokens" does not. See build.OperationActions. A tool of an MCP
// server is read-only if the server says so and the operator trusts it.
func (t *Tool) ReadOnly() bool { return (isSafe(t.Plan.Method) || t.Plan.reads) && !t.Plan.changes }

// isSafe reports whether a method is safe (RFC 9110, section 9.2.1).
func isSafe(method string) bool {
	switch method {
	case "GET", "HEAD", "OPTIONS":
		return true
	}
	return false
}

// Idempotent reports whether the HTTP method is idempotent. A safe method is not if the operation changes something.
func (t *Tool) Idempotent() bool {
	return t.ReadOnly() || t.Plan.Method == "PUT" || t.Plan.Method == "DELETE"
}

// Operation names the operation as the document does: "GET /trips/{id}".
func (t *Tool) Operation() string {
	return t.Plan.Method + " " + t.Plan.Path
}

// Takes reports whether a call can have an argument with that name: one of Arguments, or
// an additional property of a body that allows any.
func (t *Tool) Takes(argument string) bool {
	_, known := t.Plan.index.position(t.Plan.Arguments, argument)
	return known || t.Plan.Undeclared.Open && !t.Plan.Undeclared.Taken[argument]
}

// errToolRead is the error of calling a Tool that was read from JSON.
var errToolRead = errors.New("this tool was read from the JSON of the OCP tool schema, which does not say how arguments are named and encoded " +
	"in the request, so it cannot be called: build it from its document (Build, Discovery)")

// MarshalJSON implements json.Marshaler: it returns the tool in the shape of the OCP tool
// schema, as AppendOCP does.
func (t *Tool) MarshalJSON() ([]byte, error) {
	if t == nil {
		return []byte("null"), nil
	}
	text := t.AppendOCP(nil)
	if err := strictjson.Check(text); err != nil {
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
	if err := strictjson.Check(read); err != nil {
		return fmt.Errorf("this is not the JSON of a tool: %w", err)
	}
	if err := json.Unmarshal(read, &known); err != nil {
		return fmt.Errorf("this is not the JSON of a tool: %w", err)
	}
	if known.Name == "" || known.Method == "" || known.Path == "" {
		return errors.New("this is not the JSON of a tool: it needs a name, a method and a path")
	}
	*t = Tool{
		Name: known.Name,
		Definition: Definition{
			Description: known.Description, OperationID: known.OperationID, Tags: known.Tags, Deprecated: known.Deprecated,
		},
		Plan: Plan{Method: known.Method, Path: known.Path},
		read: read,
	}
	return nil
}
