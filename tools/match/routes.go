package match

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/fairwayhq/fairway/tools"
)

// Routes finds the tool for a plain request: it is the inverse of building a request for a
// tool. It is immutable and safe for concurrent use. It describes requests; package plainrequest
// decides whether a request may pass.
//
// A template matches a path with the same number of segments. Each parameter matches one
// or more characters of its segment (OpenAPI, Paths Object). If several templates match,
// the first segment that differs decides, and the more concrete one wins, as OpenAPI
// requires: literal text, then text with a parameter, then a parameter alone. A parameter of any
// number of segments comes last.
type Routes struct {
	methods pathTree
}

// pathTree holds the root of the paths of each method.
type pathTree map[string]*routeNode

// add returns the operations of a path. They have no tools if the path is new.
func (t pathTree) add(method string, route []string) *Siblings {
	root := t[method]
	if root == nil {
		root = new(routeNode)
		t[method] = root
	}
	node := root.add(route)
	if node.siblings == nil {
		node.siblings = new(Siblings)
	}
	return node.siblings
}

// routeNode is a node of the path tree: the beginning of a path, up to a slash.
type routeNode struct {
	siblings *Siblings // the operations of the path that ends here; nil if there are none
	literals map[string]*routeNode
	mixed    []mixedRoute // in document order
	any      *routeNode   // a segment that is a single parameter
	wide     []wideRoute  // the most concrete first
}

// wideRoute is the rest of a path that begins with a parameter of any number of segments.
type wideRoute struct {
	route []string // as of tools.Plan.Route
	first mixedRoute
	after []mixedRoute // the segments after the parameter
	next  *routeNode   // the end of the path
}

// mixedRoute is a segment that mixes text and parameters, such as "{name}.json". It holds
// the texts; there is a parameter between each two of them.
type mixedRoute struct {
	texts []string
	next  *routeNode
}

// NewRoutes returns the routes of the Toolsets' tools. Tools with the same method and Path
// are the same operation, and the first of them is found.
func NewRoutes(toolsets ...*tools.Toolset) *Routes {
	routes := &Routes{make(pathTree)}
	type operationKey struct {
		*Siblings
		path string
	}
	added := make(map[operationKey]bool)
	var all []*Siblings
	for _, set := range toolsets {
		for _, tool := range set.Tools() {
			same := routes.methods.add(tool.Plan.Method, tool.Plan.Route())
			if len(same.Tools) == 0 {
				all = append(all, same)
			}
			if operation := (operationKey{same, tool.Plan.Path}); !added[operation] {
				added[operation] = true
				same.Tools = append(same.Tools, tool)
			}
		}
	}
	for _, same := range all {
		same.prepare()
	}
	return routes
}

// Latest has the routes of the toolset that was used last. It is safe for concurrent use.
type Latest struct{ made atomic.Pointer[latest] }

type latest struct {
	*Routes
	of *tools.Toolset
}

// Of returns the routes of a toolset.
func (l *Latest) Of(toolset *tools.Toolset) *Routes {
	made := l.made.Load()
	if made == nil || made.of != toolset {
		made = &latest{NewRoutes(toolset), toolset}
		l.made.Store(made)
	}
	return made.Routes
}

// Tool returns the tool with that method and path, or nil if there is none. Path is the
// escaped path of the URL. If several operations share method and path, it returns the
// first; use ToolOf to distinguish them.
func (r *Routes) Tool(method, path string) *tools.Tool {
	if found := r.At(method, path); found != nil {
		return found.Tools[0]
	}
	return nil
}

// ToolOf returns the tool of a request. It is nil if the request matches no operation or
// may match several. Use it to describe a request; package plainrequest decides about it.
func (r *Routes) ToolOf(plain *http.Request) *tools.Tool {
	found := r.At(plain.Method, plain.URL.EscapedPath())
	if found == nil {
		return nil
	}
	tool, err := found.Choose(plain, nil)
	if err != nil {
		return nil
	}
	return tool
}

// At returns the operations with that method and path, or nil if there are none.
func (r *Routes) At(method, path string) *Siblings {
	root := r.methods[method]
	if root == nil || path == "" || path[0] != '/' {
		return nil
	}
	return root.find(path[1:])
}

func unescapeSegment(segment string) string {
	if strings.IndexByte(segment, '%') < 0 {
		return segment
	}
	decoded, err := url.PathUnescape(segment)
	if err != nil {
		return segment
	}
	return decoded
}

// add returns the node of a path and creates it if necessary.
func (n *routeNode) add(segments []string) *routeNode {
	for i, segment := range segments {
		if strings.Contains(segment, tools.AnySegments) {
			return n.addWide(segments[i:])
		}
		n = n.child(segment)
	}
	return n
}

func (n *routeNode) addWide(route []string) *routeNode {
	at := len(n.wide)
	for i, w := range n.wide {
		if slices.Equal(w.route, route) {
			return w.next
		}
		if at == len(n.wide) && tools.MoreConcrete(route, w.route) {
			at = i
		}
	}
	w := wideRoute{route: route, first: mixedRoute{texts: strings.Split(strings.ReplaceAll(route[0], tools.AnySegments, tools.OneSegment), tools.OneSegment)}, next: new(routeNode)}
	for _, segment := range route[1:] {
		w.after = append(w.after, mixedRoute{texts: strings.Split(segment, tools.OneSegment)})
	}
	n.wide = slices.Insert(n.wide, at, w)
	return w.next
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
func (n *routeNode) find(rest string) *Siblings {
	whole := rest
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
		if found := n.any.follow(rest, more); found != nil {
			return found
		}
	}
	return n.findWide(whole, unescapeSegment)
}

// findWide returns the operations of the most concrete path that begins here with a parameter of any number of segments and matches
// rest, whose segments unescape decodes. Their segments are not empty.
func (n *routeNode) findWide(rest string, unescape func(string) string) *Siblings {
	if n.wide == nil || strings.Contains("/"+rest+"/", "//") {
		return nil
	}
	for i := range n.wide {
		if w := &n.wide[i]; w.matches(rest, unescape) {
			return w.next.siblings
		}
	}
	return nil
}

func (w *wideRoute) matches(rest string, unescape func(string) string) bool {
	for i := len(w.after) - 1; i >= 0; i-- {
		slash := strings.LastIndexByte(rest, '/')
		if slash < 0 || !w.after[i].matches(unescape(rest[slash+1:])) {
			return false
		}
		rest = rest[:slash]
	}
	return w.first.matches(unescape(rest))
}

func (n *routeNode) follow(rest string, more bool) *Siblings {
	if more {
		return n.find(rest)
	}
	return n.siblings
}

// matches reports whether the segment begins with the first text, ends with the last one,
// and contains the others in order, with at least one byte between each two.
func (m *mixedRoute) matches(segment string) bool {
	first, last := m.texts[0], m.texts[len(m.texts)-1]
	if len(m.texts) == 1 {
		return segment == first
	}
	rest, ok := strings.CutPrefix(segment, first)
	if !ok {
		return false
	}
	for _, literal := range m.texts[1 : len(m.texts)-1] {
		if rest == "" {
			return false
		}
		at := strings.Index(rest[1:], literal)
		if at < 0 {
			return false
		}
		rest = rest[1+at+len(literal):]
	}
	return len(rest) > len(last) && strings.HasSuffix(rest, last)
}
