package tools

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"net/textproto"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/tools/build"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/security"
)

// A Toolset is the immutable set of tools of one document. If the document changes, a new
// Toolset is built.
type Toolset struct {
	Name        string // the name in the configuration
	Title       string // info.title of the document
	Description string // info.description
	Version     string // info.version
	Hash        string // identifies the content: equal documents and options give equal hashes
	Report      Report

	Withheld map[string]bool // names of tools that are left out because no operator has approved them; nil if there are none

	ResponseSchemas bool // built with BuildOptions.ResponseSchemas
	Foreign         bool // built with BuildOptions.Foreign: Title and Description are those of the MCP server

	Origin string // "https://api.example.com", of the document's first server; "" if it names no host

	// SecuritySchemes are the authentication methods that Plan.Security names.
	SecuritySchemes map[string]*security.Scheme

	// MCP is the document's x-mcp extension as it is in the document, or nil if there is
	// none.
	MCP jsontext.Value

	// Finder searches the document's tools. Nil means that they cannot be searched.
	Finder Finder

	tools    []*Tool
	builtins []*Tool
	shown    []string // the names of the document's tools that lists show; nil for all of them. See Listing
	listed   []*Tool  // the tools that lists show; nil if these are all tools
	byName   map[string]*Tool
	joined   *joined  // nil unless Join made the Toolset
	whole    *Toolset // what OnlyFor was called for; nil if it was not
}

// A Report says what Build found in a document.
type Report struct {
	Operations int // in the document: each is a tool, a Warning with Lost, or excluded
	Excluded   int // operations that include, exclude and readonly removed
	Warnings   []Warning
	Guesses    []Warning               // decisions of Fairway that the document leaves open, such as the format of a */* body
	Unmatched  []*build.UnmatchedError // selectors that stopped matching; see BuildOptions.Reloaded
	Events     []string                // the names of the events, for `caddy tools` only
	Files      []string                // the files of the document, if it was read from files
}

func (r *Report) warn(w Warning) { r.Warnings = append(r.Warnings, w) }

// NewToolset returns the Toolset of these tools, whose names must be unique.
func NewToolset(name string, tools []*Tool) *Toolset {
	s := &Toolset{Name: name, Report: Report{Operations: len(tools)}, tools: tools}
	s.index()
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

	// Suspect is the name of the tool in whose texts something is suspicious, "" for other warnings.
	Suspect string
}

// Only returns a Toolset with the document's tools for which keep returns true, in the same
// order, and with all built-in tools. The tools and the information about the document are shared; the Hash is different.
func (s *Toolset) Only(keep func(*Tool) bool) *Toolset {
	narrow := *s
	narrow.tools = nil
	var names []string
	for _, t := range s.tools {
		if keep(t) {
			narrow.tools = append(narrow.tools, t)
			names = append(names, t.Name)
		}
	}
	narrow.rehash("only", names)
	narrow.SecuritySchemes = maps.Clone(s.SecuritySchemes)
	narrow.index()
	return &narrow
}

// OnlyFor is Only for the tools that some users may call, of whom there may be many. Whole returns s for
// the new Toolset and those that are made of it.
func (s *Toolset) OnlyFor(keep func(*Tool) bool) *Toolset {
	narrow := s.Only(keep)
	narrow.whole = s
	return narrow
}

// Whole returns the Toolset that OnlyFor was called for, or the Toolset itself. Narrowed reports whether
// OnlyFor was called, so that users have different lists.
func (s *Toolset) Whole() (whole *Toolset, narrowed bool) {
	if s.whole == nil {
		return s, false
	}
	return s.whole, true
}

// Candidate returns the operation of the tool as selectors see it.
func (t *Tool) Candidate() build.Candidate {
	operation := openapi.Operation{ID: t.Definition.OperationID, Method: t.Plan.Method, Path: t.Plan.Path, Template: t.Plan.Template, Tags: t.Definition.Tags}
	return build.Candidate{Operation: &operation, Tool: t.Name, Former: t.Unshaped.Former}
}

// Brief reports whether lists show only some of the tools (see Listing).
func (s *Toolset) Brief() bool { return s.shown != nil }

// Scopes returns the scopes that an access token needs for all tools of the document, sorted. If a tool has alternatives, they are those of the
// alternative with the fewest.
func (s *Toolset) Scopes() (scopes []string) {
	for _, t := range s.tools {
		scopes = append(scopes, security.Needed(t.Plan.Security, s.PartOf(t).SecuritySchemes, nil)...)
	}
	slices.Sort(scopes)
	return slices.Compact(scopes)
}

// index sets byName and listed.
func (s *Toolset) index() {
	s.byName = make(map[string]*Tool, len(s.tools)+len(s.builtins))
	for _, t := range s.tools {
		s.byName[t.Name] = t
	}
	s.indexForeign()
	shown := s.tools
	if s.Brief() {
		shown = nil
		for _, name := range s.shown {
			if t := s.byName[name]; t != nil {
				shown = append(shown, t)
			}
		}
	}
	withoutRequests := slices.DeleteFunc(slices.Clone(shown), (*Tool).IsRequest)
	s.listed = nil
	if len(s.builtins) == 0 && len(withoutRequests) == len(s.tools) {
		return
	}
	shown = withoutRequests
	var before, after []*Tool
	for _, t := range s.builtins {
		s.byName[t.Name] = t
		if t.Builtin == NextPage {
			after = append(after, t)
		} else {
			before = append(before, t)
		}
	}
	s.listed = append(append(append(make([]*Tool, 0, len(before)+len(shown)+len(after)), before...), shown...), after...)
}

// indexForeign lets clients call the tools of MCP servers by the server's own names, as its apps do. A name that two
// tools have is left out, and so is that of a tool with a prefix.
func (s *Toolset) indexForeign() {
	named := make(map[string]*Tool)
	if s.joined != nil { // the name of another document's tool never means the tool of a server, whatever its prefix is now
		for _, home := range s.joined.originals {
			if home.tool.Foreign == nil {
				named[home.tool.Name] = nil
			}
		}
	}
	for _, t := range s.tools {
		if t.Foreign == nil || t.IsRequest() || s.byName[t.Foreign.Name] != nil || IsReserved(t.Foreign.Name) {
			continue
		}
		if _, own := s.Original(t); own.Name != t.Name {
			continue
		}
		if _, twice := named[t.Foreign.Name]; twice {
			named[t.Foreign.Name] = nil
			continue
		}
		named[t.Foreign.Name] = t
	}
	for name, t := range named {
		if t != nil {
			s.byName[name] = t
		}
	}
}

// KeyHeaders returns the canonical names of the headers in which the APIs of the tools take keys, sorted.
func (s *Toolset) KeyHeaders() (names []string) {
	for _, part := range s.Parts() {
		for _, scheme := range part.SecuritySchemes {
			if scheme.Type == "apiKey" && scheme.In == "header" {
				names = append(names, textproto.CanonicalMIMEHeaderKey(scheme.ParameterName))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// rehash makes the Hash depend on a change and the names of its tools.
func (s *Toolset) rehash(change string, names []string) {
	s.Hash = fmt.Sprintf("%x", sha256.Sum256([]byte(s.Hash+"\x00"+change+"\x00"+strings.Join(names, "\x00"))))
}

// DropResponseSchemas removes the schemas of responses, which take memory. The toolset must not be in use
// yet.
func (s *Toolset) DropResponseSchemas() {
	s.ResponseSchemas = false
	s.rehash("no response schemas", nil)
	for _, t := range s.tools {
		t.Output.Schema = nil
	}
}

// WithTexts returns a Toolset with other titles and descriptions of tools. Change returns those of a tool, and whether the
// tool is kept. If nothing changes, WithTexts returns the original.
func (s *Toolset) WithTexts(change func(t *Tool) (title, description string, keep bool)) *Toolset {
	changed := *s
	changed.tools = make([]*Tool, 0, len(s.tools))
	var changes []string
	for _, t := range s.tools {
		title, description, keep := change(t)
		switch {
		case !keep:
			changes = append(changes, t.Name)
			continue
		case title != t.Definition.Title || description != t.Definition.Description:
			t = t.clone()
			t.Definition.Title, t.Definition.Description = title, description
			t.list()
			changes = append(changes, t.Name+"\x00"+title+"\x00"+description)
		}
		changed.tools = append(changed.tools, t)
	}
	if changes == nil {
		return s
	}
	changed.rehash("texts", changes)
	changed.index()
	return &changed
}
