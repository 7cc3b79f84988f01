package ocp

import "github.com/go-json-experiment/json/jsontext"

// A Toolset is the immutable tools of one document. A document that changes
// becomes a new Toolset.
type Toolset struct {
	Name        string // what the configuration calls it
	Title       string // info.title of the document
	Description string // info.description
	Version     string // info.version
	Hash        string // identifies the content: equal documents and options give equal hashes
	Operations  int    // of the document: each is a tool, a Warning that it was lost, or excluded
	Excluded    int    // operations that include and exclude left out
	Warnings    []Warning
	Guesses     []Warning         // what the document leaves open and Fairway decided, such as the format of a */* body
	Unmatched   []*UnmatchedError // selectors that stopped matching; see BuildOptions.Reloaded
	Files       []string          // the files that the document was read from, if it came from files

	Origin string // "https://api.example.com", of the document's first server; "" if it names no host

	// SecuritySchemes are the ways to be authorized that Tool.Security names.
	SecuritySchemes map[string]*SecurityScheme

	// MCP is the document's x-mcp extension as it stands there; nil if there is
	// none.
	MCP jsontext.Value

	OCP *APIExtension // what the document says of the API's use of OCP context; nil if nothing

	tools  []*Tool
	byName map[string]*Tool
}

// NewToolset returns the Toolset of these tools, whose names must be unique.
func NewToolset(name string, tools []*Tool) *Toolset {
	s := &Toolset{Name: name, Operations: len(tools), tools: tools, byName: make(map[string]*Tool, len(tools))}
	for _, t := range tools {
		s.byName[t.Name] = t
	}
	return s
}

// Tools returns the tools in document order. The slice must not be changed.
func (s *Toolset) Tools() []*Tool {
	return s.tools
}

// Tool returns the tool of that name.
func (s *Toolset) Tool(name string) (*Tool, bool) {
	t, ok := s.byName[name]
	return t, ok
}

// A Warning is something in the document that could not be used as it stands.
type Warning struct {
	Operation string // "GET /trips/{id}", or "" if it concerns the document
	Reason    string
	Lost      bool // the operation did not become a tool
}
