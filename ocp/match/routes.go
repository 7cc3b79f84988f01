package match

import (
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/fairwayhq/fairway/ocp/tool"
)

// Routes finds the tool for a plain request: it is the inverse of building a request for a
// tool. It is immutable and safe for concurrent use. Use Match to decide whether a request
// may pass, and ToolOf or Tool only to describe a request.
//
// A template matches a path with the same number of segments. Each parameter matches one
// or more characters of its segment (OpenAPI, Paths Object). If several templates match,
// the first segment that differs decides, and the more concrete one wins, as OpenAPI
// requires: literal text, then text with a parameter, then a parameter alone.
type Routes struct {
	methods map[string]*routeNode

	once    sync.Once
	lenient map[string]*lenientNode // by method; built on the first Match
	tools   []*tool.Tool
}

// routeNode is a node of the path tree: the beginning of a path, up to a slash.
type routeNode struct {
	siblings *siblings // the operations of the path that ends here; nil if there are none
	literals map[string]*routeNode
	mixed    []mixedRoute // in document order
	any      *routeNode   // a segment that is a single parameter
}

// mixedRoute is a segment that mixes text and parameters, such as "{name}.json". It holds
// the texts; there is a parameter between each two of them.
type mixedRoute struct {
	texts []string
	next  *routeNode
}

// NewRoutes returns the routes of the Toolsets' tools. Tools with the same method and Path
// are the same operation, and the first of them is found.
func NewRoutes(toolsets ...*tool.Toolset) *Routes {
	routes := &Routes{methods: make(map[string]*routeNode)}
	type operationKey struct {
		node *routeNode
		path string
	}
	added := make(map[operationKey]bool)
	var all []*siblings
	for _, s := range toolsets {
		routes.tools = append(routes.tools, s.Tools()...)
	}
	for _, tool := range routes.tools {
		root := routes.methods[tool.Method]
		if root == nil {
			root = new(routeNode)
			routes.methods[tool.Method] = root
		}
		node := root.add(segments(tool))
		if node.siblings == nil {
			node.siblings = new(siblings)
			all = append(all, node.siblings)
		}
		if operation := (operationKey{node, tool.Path}); !added[operation] {
			added[operation] = true
			node.siblings.tools = append(node.siblings.tools, tool)
		}
	}
	for _, s := range all {
		s.prepare()
	}
	return routes
}

// Tool returns the tool with that method and path, or nil if there is none. Path is the
// escaped path of the URL. If several operations share method and path, it returns the
// first; use ToolOf to distinguish them.
func (r *Routes) Tool(method, path string) *tool.Tool {
	if found := r.at(method, path); found != nil {
		return found.tools[0]
	}
	return nil
}

// ToolOf returns the tool of a request. It is nil if the request matches no operation or
// may match several. Use it to describe a request; use Match to decide about it.
func (r *Routes) ToolOf(request *http.Request) *tool.Tool {
	found := r.at(request.Method, request.URL.EscapedPath())
	if found == nil {
		return nil
	}
	tool, err := found.choose(request, nil)
	if err != nil {
		return nil
	}
	return tool
}

// at returns the operations with that method and path, or nil if there are none.
func (r *Routes) at(method, path string) *siblings {
	root := r.methods[method]
	if root == nil || path == "" || path[0] != '/' {
		return nil
	}
	return root.find(path[1:])
}

// segments splits the tool's path. Each parameter in a segment is replaced by a NUL
// character, which no path contains.
func segments(t *tool.Tool) []string {
	var template strings.Builder
	for _, part := range t.Plan().Parts {
		if part.Literal == "" {
			template.WriteByte(0)
		} else {
			template.WriteString(part.Literal)
		}
	}
	split := strings.Split(strings.TrimPrefix(template.String(), "/"), "/")
	for i := range split {
		split[i] = unescapeSegment(split[i])
	}
	return split
}

func unescapeSegment(segment string) string {
	if strings.IndexByte(segment, '%') < 0 {
		return segment
	}
	text, err := url.PathUnescape(segment)
	if err != nil {
		return segment
	}
	return text
}

// add returns the node of a path and creates it if necessary.
func (n *routeNode) add(segments []string) *routeNode {
	for _, segment := range segments {
		n = n.child(segment)
	}
	return n
}

func (n *routeNode) child(segment string) *routeNode {
	switch {
	case segment == "\x00":
		if n.any == nil {
			n.any = new(routeNode)
		}
		return n.any
	case strings.IndexByte(segment, 0) >= 0:
		for i := range n.mixed {
			if strings.Join(n.mixed[i].texts, "\x00") == segment {
				return n.mixed[i].next
			}
		}
		next := new(routeNode)
		n.mixed = append(n.mixed, mixedRoute{strings.Split(segment, "\x00"), next})
		return next
	}
	next := n.literals[segment]
	if next == nil {
		next = new(routeNode)
		if n.literals == nil {
			n.literals = make(map[string]*routeNode)
		}
		n.literals[segment] = next
	}
	return next
}

// find returns the operations that match the rest of a path. It visits each node at most
// once, because the depth of a node determines the segment that it is compared with.
func (n *routeNode) find(rest string) *siblings {
	segment, rest, more := strings.Cut(rest, "/")
	segment = unescapeSegment(segment)
	if next := n.literals[segment]; next != nil {
		if found := next.follow(rest, more); found != nil {
			return found
		}
	}
	for i := range n.mixed {
		if m := &n.mixed[i]; m.matches(segment) {
			if found := m.next.follow(rest, more); found != nil {
				return found
			}
		}
	}
	if n.any != nil && segment != "" {
		return n.any.follow(rest, more)
	}
	return nil
}

func (n *routeNode) follow(rest string, more bool) *siblings {
	if more {
		return n.find(rest)
	}
	return n.siblings
}

// matches reports whether the segment begins with the first text, ends with the last one,
// and contains the others in order, with at least one byte between each two.
func (m *mixedRoute) matches(segment string) bool {
	first, last := m.texts[0], m.texts[len(m.texts)-1]
	rest, ok := strings.CutPrefix(segment, first)
	if !ok {
		return false
	}
	for _, text := range m.texts[1 : len(m.texts)-1] {
		if rest == "" {
			return false
		}
		at := strings.Index(rest[1:], text)
		if at < 0 {
			return false
		}
		rest = rest[1+at+len(text):]
	}
	return len(rest) > len(last) && strings.HasSuffix(rest, last)
}
