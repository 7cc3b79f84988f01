package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/ocp/extension"
	"github.com/fairwayhq/fairway/ocp/internal/openapi"
	"github.com/fairwayhq/fairway/ocp/security"
	"github.com/fairwayhq/fairway/ocp/selector"
)

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

	// Finder finds the document's tools by what they do. Nil means that they cannot be searched.
	Finder Finder

	tools    []*Tool
	builtins []*Tool
	brief    bool     // lists show only the document's tools that shown names
	shown    []string // see Listing
	listed   []*Tool  // what lists show; nil if these are tools
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
