package tools

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools/build"
)

// Builtin is the kind of a tool that the gateway provides itself, in addition to those of the
// document. It is "" for the tools of a document.
type Builtin string

// The kinds of built-in tools. CallReadTool and CallWriteTool call other tools (see
// Toolset.Resolve). The Caller runs the others.
const (
	SearchTools   Builtin = "search_tools"    // searches tools by a description of their purpose
	DescribeTools Builtin = "describe_tools"  // returns the schemas of tools
	CallReadTool  Builtin = "call_read_tool"  // calls a tool that only reads
	CallWriteTool Builtin = "call_write_tool" // calls any tool
	NextPage      Builtin = "next_page"       // returns the next part of a response that was cut
	CreateUpload  Builtin = "create_upload"   // returns the URL where a file for a call can be uploaded
)

// BuiltinPrefix precedes the names of all built-in tools if a document has a tool with one of their names.
const BuiltinPrefix = "gateway_"

// IsReserved reports whether a name is that of a built-in tool, so that no tool of an MCP server has it. Such a server can
// change its list at any time, and must not get the calls of the gateway's own tools.
func IsReserved(name string) bool {
	switch Builtin(strings.TrimPrefix(name, BuiltinPrefix)) {
	case SearchTools, DescribeTools, CallReadTool, CallWriteTool, NextPage, CreateUpload:
		return true
	}
	return false
}

// IsCall reports whether a call of such a tool calls another tool.
func (b Builtin) IsCall() bool { return b == CallReadTool || b == CallWriteTool }

// Names of the arguments of CallReadTool and CallWriteTool.
const (
	calledTool      = "name"
	calledArguments = "arguments"
)

// With returns a Toolset that also has these built-in tools, which replace tools of the same names.
// Tools does not include them. Listed does: NextPage after the document's tools, the others before
// them.
func (s *Toolset) With(builtins ...*Tool) *Toolset {
	if len(builtins) == 0 {
		return s
	}
	wide := *s
	wide.builtins = slices.Concat(s.builtins, builtins)
	names := make([]string, len(builtins))
	for i, t := range builtins {
		names[i] = t.Name
	}
	wide.rehash("with", names)
	wide.index()
	return &wide
}

// Listing returns a Toolset whose lists show, of the document's tools, only those with these names,
// in this order. All tools can still be called. Names without a tool are ignored.
func (s *Toolset) Listing(names ...string) *Toolset {
	brief := *s
	brief.shown = append([]string{}, names...) // not nil, which would be all
	brief.rehash("listing", names)
	brief.index()
	return &brief
}

// Builtins returns the built-in tools. The slice must not be changed.
func (s *Toolset) Builtins() []*Tool { return s.builtins }

// Listed returns the tools that lists show: the built-in tools, and the document's tools unless
// Listing has left them out. The slice must not be changed.
func (s *Toolset) Listed() []*Tool {
	if s.listed == nil {
		return s.tools
	}
	return s.listed
}

// A Finder searches tools by a description of their purpose.
type Finder interface {
	// Find returns the names of up to limit tools that fit the requests: the best one of each request,
	// then the second of each, and so on, without repetition. It returns only names for which keep
	// returns true.
	Find(requests []string, limit int, keep func(name string) bool) []Match
}

// Match is a tool that a Finder has found.
type Match struct {
	Name    string
	Request int  // position of the request that it fits
	Best    bool // no tool fits the request better
}

// Find returns up to limit of the document's tools that fit the request, best first, and only those
// for which allowed returns true. It returns none if the Toolset has no Finder.
func (s *Toolset) Find(request string, limit int, allowed func(*Tool) bool) []*Tool {
	matches := s.FindEach([]string{request}, limit, allowed)
	found := make([]*Tool, len(matches))
	for i := range matches {
		found[i] = s.byName[matches[i].Name]
	}
	return found
}

// FindEach is like Find for several requests, as Finder describes it.
func (s *Toolset) FindEach(requests []string, limit int, allowed func(*Tool) bool) []Match {
	if s.Finder == nil {
		return nil
	}
	return s.Finder.Find(requests, limit, func(name string) bool {
		t, ok := s.byName[name]
		return ok && t.Builtin == "" && allowed(t)
	})
}

// maxSimilar is the number of names that an error suggests for an unknown one.
const maxSimilar = 3

// Similar returns the names of tools that a caller may mean by an unknown name: the one with the most
// similar spelling and, if lists omit tools, those that Find finds. It returns only tools for which
// allowed returns true.
func (s *Toolset) Similar(name string, allowed func(*Tool) bool) (similar []string) {
	near := s.Nearest(name, allowed)
	if near != "" {
		similar = append(similar, near)
	}
	if !s.Brief() {
		return similar
	}
	words := strings.NewReplacer("_", " ", "-", " ", ".", " ", "/", " ").Replace(text.Cut(name, 2*build.MaxName))
	for _, t := range s.Find(words, maxSimilar, allowed) {
		if t.Name != near && len(similar) < maxSimilar {
			similar = append(similar, t.Name)
		}
	}
	return similar
}

// Nearest returns the name of the tool that had an unknown name in earlier versions, or else of the one with the most
// similar name, or "". It returns only tools for which allowed returns true.
func (s *Toolset) Nearest(name string, allowed func(*Tool) bool) string {
	if i := slices.IndexFunc(s.tools, func(t *Tool) bool { return t.Unshaped.Former == name && allowed(t) }); i >= 0 {
		return s.tools[i].Name
	}
	return text.Nearest(name, func(yield func(string) bool) {
		for _, t := range s.tools {
			if allowed(t) && !yield(t.Name) {
				return
			}
		}
	})
}

// Resolve returns the tool that a call of t runs, and its arguments. For CallReadTool and
// CallWriteTool these are in arguments. For all other tools they are t and arguments. Errors suggest
// only tools for which allowed returns true. Resolve returns a tool for which allowed returns false
// whatever its kind is: the caller must refuse the call. The result refers to the bytes of arguments.
func (s *Toolset) Resolve(t *Tool, arguments []byte, allowed func(*Tool) bool) (called *Tool, own []byte, failure *Failure) {
	if !t.Builtin.IsCall() {
		return t, arguments, nil
	}
	name, own, ok := readCalled(arguments)
	if !ok {
		call, _, err := t.Read(arguments)
		if err != nil {
			return nil, nil, asFailure(err)
		}
		name, own = call.argument(calledTool), call.argument(calledArguments)
	}
	if called = s.byName[string(name[1:len(name)-1])]; called == nil { // without an allocation; it may have escapes
		called = s.byName[strictjson.Text(name)]
	}
	switch {
	case called == nil:
		return nil, nil, s.Unknown(strictjson.Text(name), allowed)
	case called.Builtin.IsCall():
		return nil, nil, &Failure{Kind: InvalidArguments, Message: fmt.Sprintf("%s cannot call %s: give %s the name and the arguments of the tool to call",
			t.Name, called.Name, t.Name)}
	case t.Builtin == CallReadTool && !called.Hint(build.ReadOnlyHint) && (called.Builtin != "" || allowed(called)):
		return nil, nil, &Failure{Kind: InvalidArguments, Message: fmt.Sprintf("%s can change something, and %s only calls tools of the kind read: call it with %s",
			called.Name, t.Name, s.NameOf(CallWriteTool))}
	}
	return called, own, nil
}

// argument returns the value of an argument, nil if it is absent.
func (c *Call) argument(name string) jsontext.Value {
	if i, ok := c.Tool.Plan.index.position(c.Tool.Plan.Arguments, name); ok {
		return c.values[i]
	}
	return nil
}

// readCalled reads the arguments of CallReadTool and CallWriteTool, which are a JSON object without
// repeated names. If ok is false, they do not fit the schema. name is a JSON string.
func readCalled(arguments []byte) (name, own jsontext.Value, ok bool) {
	walk := strictjson.Into(arguments)
	for walk.Next() {
		switch {
		case walk.Is(calledTool) && walk.Value.Kind() == '"':
			name = walk.Value
		case walk.Is(calledArguments) && walk.Value.Kind() == '{':
			own = walk.Value
		case walk.Is(calledArguments) && walk.Value.Kind() == 'n':
		default:
			return nil, nil, false
		}
	}
	return name, own, name != nil && walk.Err() == nil
}

// Unknown returns the failure of a call of an unknown tool. It suggests tools for which allowed returns
// true. If lists leave tools out, it names the built-in tool that finds them.
func (s *Toolset) Unknown(name string, allowed func(*Tool) bool) *Failure {
	message := fmt.Sprintf("unknown tool %q", text.Cut(name, 2*build.MaxName))
	if similar := s.Similar(name, allowed); len(similar) > 0 {
		message += "; similar tools: " + strings.Join(similar, ", ")
	}
	if s.Brief() {
		message += "; find others with " + s.NameOf(SearchTools)
	}
	return &Failure{Kind: UnknownTool, Message: message}
}

// NameOf returns the name of the built-in tool of that kind.
func (s *Toolset) NameOf(kind Builtin) string {
	for _, t := range s.builtins {
		if t.Builtin == kind {
			return t.Name
		}
	}
	return string(kind)
}
