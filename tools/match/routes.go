package match

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/schema"
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

// Choose returns the operation of the request. Called is the tool whose call made the
// request, or nil for a plain request. A plain request must exclude all other operations;
// otherwise Choose returns an error. For a call, it is enough that nothing in the request
// identifies another operation.
func (s *Siblings) Choose(req *http.Request, called *tools.Tool) (*tools.Tool, error) {
	if s.marks == nil && len(s.Tools) == 1 {
		return s.Tools[0], nil
	}
	return s.compare(req, called)
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

// Folded finds tools by paths as lenient servers see them, which ignore case, empty segments and spaces.
type Folded struct{ methods pathTree }

// NewFolded returns the paths of the toolsets' tools. Fold returns the same path for all paths that servers may treat as equal. It keeps the NUL
// of a parameter.
func NewFolded(fold func(path string) string, toolsets ...*tools.Toolset) *Folded {
	folded := &Folded{make(pathTree)}
	for _, set := range toolsets {
		for _, tool := range set.Tools() {
			same := folded.methods.add(tool.Plan.Method, strings.FieldsFunc(fold(strings.Join(tool.Plan.Route(), "/")), isSlash))
			same.Tools = append(same.Tools, tool)
		}
	}
	return folded
}

// Find returns the tools of the most concrete path that matches a folded path.
func (f *Folded) Find(method, path string) []*tools.Tool {
	if root := f.methods[method]; root != nil {
		if found := root.findFolded(path); found != nil {
			return found.Tools
		}
	}
	return nil
}

func isSlash(c rune) bool { return c == '/' }

// findFolded returns the operations of the most concrete path that matches rest, which is folded. It
// ignores empty segments.
func (n *routeNode) findFolded(rest string) *Siblings {
	rest = strings.TrimLeft(rest, "/")
	if rest == "" {
		return n.siblings
	}
	whole := rest
	segment, rest, _ := strings.Cut(rest, "/")
	if next := n.literals[segment]; next != nil {
		if found := next.findFolded(rest); found != nil {
			return found
		}
	}
	for i := range n.mixed {
		if m := &n.mixed[i]; m.matches(segment) {
			if found := m.next.findFolded(rest); found != nil {
				return found
			}
		}
	}
	if n.any != nil {
		if found := n.any.findFolded(rest); found != nil {
			return found
		}
	}
	if n.wide == nil {
		return nil
	}
	full := strings.FieldsFunc(whole, isSlash)
	return n.findWide(strings.Join(full, "/"), func(segment string) string { return segment })
}

// PathValues appends the values of the tool's path parameters, still encoded, in the order
// of the template. The error is a *RequestError.
func PathValues(t *tools.Tool, dst []string, path string) ([]string, error) {
	rest, parts := path, t.Plan.Parts
	for i, part := range parts {
		if part.Literal != "" {
			if !hasPrefixEscaped(rest, part.Literal) {
				return nil, wrongPath(t, path)
			}
			rest = rest[len(part.Literal):]
			continue
		}
		next := ""
		if i+1 < len(parts) {
			if next = parts[i+1].Literal; next == "" {
				return nil, &RequestError{
					Kind: request.Ambiguous, In: tools.InPath, Name: t.Plan.Arguments[part.Argument].WireName,
					Message: "the path parameters of " + t.Operation() + " are adjacent and cannot be distinguished: call it as a tool",
				}
			}
		}
		length, err := valueLen(t, rest[:spanLen(t, rest, i)], next, i+2 >= len(parts), part.Argument)
		if err != nil {
			return nil, err
		}
		if length <= 0 {
			return nil, wrongPath(t, path)
		}
		if !t.Plan.Encodings[part.Argument].Param.HasSegments(rest[:length]) {
			return nil, wrongPath(t, path)
		}
		dst = append(dst, rest[:length])
		rest = rest[length:]
	}
	if rest != "" {
		return nil, wrongPath(t, path)
	}
	return dst, nil
}

// spanLen returns the length of the segments at the beginning of rest that have the value of the parameter at position i of the parts.
func spanLen(t *tools.Tool, rest string, i int) int {
	segments := t.Plan.Encodings[t.Plan.Parts[i].Argument].Param.Segments()
	slashes := strings.Count(segments, "/")
	if strings.Contains(segments, request.AnySegments) {
		slashes = strings.Count(rest, "/")
		for _, part := range t.Plan.Parts[i+1:] {
			if slashes -= strings.Count(part.Literal, "/"); part.Literal == "" {
				slashes -= strings.Count(t.Plan.Encodings[part.Argument].Param.Segments(), "/")
			}
		}
	}
	for at := range len(rest) {
		if rest[at] == '/' {
			if slashes--; slashes < 0 {
				return at
			}
		}
	}
	return len(rest)
}

// valueLen returns the length of a path parameter's value in its segments, up to the literal next, or 0 if
// there is no value.
func valueLen(t *tools.Tool, segment, next string, last bool, argument int) (int, error) {
	next, _, ends := strings.Cut(next, "/")
	if ends || last {
		if len(segment) < len(next) || !hasPrefixEscaped(segment[len(segment)-len(next):], next) {
			return 0, nil
		}
		return len(segment) - len(next), nil
	}
	if segment == "" {
		return 0, nil
	}
	at := strings.Index(segment[1:], next)
	if at >= 0 && strings.Count(request.DecodeTriples(segment[1:]), request.DecodeTriples(next)) > 1 {
		return 0, &RequestError{
			Kind: request.Ambiguous, In: tools.InPath, Name: t.Plan.Arguments[argument].WireName,
			Message: "the path parameters of " + t.Operation() + " cannot be distinguished: " + strconv.Quote(next) + " is between them and in one of them",
		}
	}
	return at + 1, nil
}

func wrongPath(t *tools.Tool, path string) error {
	return &RequestError{
		Kind: WrongPath, In: tools.InPath,
		Message: "the path " + strconv.Quote(text.Cut(path, schema.MaxProblem)) + " is not one of " + t.Operation(),
	}
}

// hasPrefixEscaped reports whether the escaped path begins with the literal. The case of
// the digits in %XX is ignored.
func hasPrefixEscaped(path, literal string) bool {
	if len(path) < len(literal) {
		return false
	}
	if path[:len(literal)] == literal {
		return true
	}
	for i := 0; i < len(literal); i++ {
		if path[i] != literal[i] {
			return false
		}
		if literal[i] == '%' && i+2 < len(literal) {
			if !strings.EqualFold(path[i+1:i+3], literal[i+1:i+3]) {
				return false
			}
			i += len("XX")
		}
	}
	return true
}
