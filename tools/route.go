package tools

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/request"
)

// The characters that stand for parameters in a route. No path contains them.
const (
	OneSegment  = "\x00" // a parameter inside a segment
	AnySegments = "\x02" // a parameter of one or more segments
)

// Route returns the decoded segments of the path of requests, with OneSegment and AnySegments in place of parameters.
// At most one segment has AnySegments.
func (p *Plan) Route() []string {
	var route strings.Builder
	for _, part := range p.Parts {
		if part.Literal == "" {
			route.WriteString(routeMark(p.Encodings[part.Argument].Param.Segments()))
		} else {
			route.WriteString(part.Literal)
		}
	}
	return splitRoute(route.String())
}

// routeOf is Route for an operation that need not be a tool. Base is its base path.
func routeOf(operation *openapi.Operation, base string) []string {
	route := operation.Template
	for i := range operation.Parameters {
		if p := &operation.Parameters[i]; p.In == string(InPath) {
			route = strings.ReplaceAll(route, "{"+p.Name+"}", routeMark(p.Segments))
		}
	}
	return splitRoute(strings.TrimRight(base, "/") + route)
}

// routeMark returns what stands for a parameter with these segments in a route.
func routeMark(segments string) string {
	if segments == "" {
		return OneSegment
	}
	return strings.NewReplacer(request.AnySegments, AnySegments, "*", OneSegment).Replace(segments)
}

func splitRoute(route string) []string {
	split := strings.Split(strings.TrimPrefix(route, "/"), "/")
	for i := range split {
		if decoded, err := url.PathUnescape(split[i]); err == nil {
			split[i] = decoded
		}
	}
	return split
}

// MoreConcrete reports whether a path that matches both routes belongs to a: the first segment that differs decides,
// and literal text goes before text with a parameter, a parameter alone, and a parameter of any number of segments. It
// returns false if no path matches both.
func MoreConcrete(a, b []string) bool {
	for i := range min(len(a), len(b)) {
		first, second := concreteness(a[i]), concreteness(b[i])
		switch {
		case first != second:
			return first < second
		case first == literal && !strings.EqualFold(a[i], b[i]):
			return false
		case first == wide && len(a) != len(b):
			return len(a) > len(b)
		case len(a[i]) != len(b[i]) && first != literal:
			return len(a[i]) > len(b[i])
		}
	}
	return false
}

const (
	literal = iota
	mixed
	alone
	wide
)

func concreteness(segment string) int {
	switch {
	case strings.Contains(segment, AnySegments):
		return wide
	case segment == OneSegment:
		return alone
	case strings.Contains(segment, OneSegment):
		return mixed
	}
	return literal
}

// rivals are the other operations of the document that have some of the paths of a tool, because an argument of the tool takes any number
// of segments. They include operations that are no tools. Servers route such a path to the more concrete operation.
type rivals struct {
	operations []string
	routes     [][]string
	patterns   func() []*regexp.Regexp // of the routes
}

// findRivals returns the rivals of a tool among the operations, or nil if there are none. Base returns the base path of an
// operation.
func findRivals(p *Plan, operations []openapi.Operation, base func(*openapi.Operation) string) *rivals {
	if !slices.ContainsFunc(p.Encodings, func(a request.Argument) bool {
		return a.Param != nil && strings.Contains(a.Param.Segments(), request.AnySegments)
	}) {
		return nil
	}
	var found rivals
	route := p.Route()
	for i := range operations {
		o := &operations[i]
		if o.Method != p.Method || o.Template == "" {
			continue
		}
		if other := routeOf(o, base(o)); MoreConcrete(other, route) {
			found.operations = append(found.operations, o.Method+" "+o.Path)
			found.routes = append(found.routes, other)
		}
	}
	if found.routes == nil {
		return nil
	}
	found.patterns = sync.OnceValue(found.compile)
	return &found
}

func (r *rivals) compile() (patterns []*regexp.Regexp) {
	for _, route := range r.routes {
		expression := regexp.QuoteMeta(strings.Join(route, "/"))
		expression = strings.NewReplacer(OneSegment, "[^/]+", AnySegments, ".+").Replace(expression)
		patterns = append(patterns, regexp.MustCompile("(?is)^"+expression+"$"))
	}
	return patterns
}

var severalSlashes = regexp.MustCompile("//+")

// of returns the rival that servers route an escaped path to, or "". Case, empty segments and escapes are ignored, as by some servers.
func (r *rivals) of(path string) string {
	path = strings.Trim(severalSlashes.ReplaceAllString(request.DecodeTriples(path), "/"), "/")
	for i, pattern := range r.patterns() {
		if pattern.MatchString(path) {
			return r.operations[i]
		}
	}
	return ""
}

// setRivals finds the rivals of the tools.
func (b *builder) setRivals(operations []openapi.Operation) {
	base := func(o *openapi.Operation) string {
		return request.EscapePath(cmp.Or(b.options.BasePath, o.BasePath))
	}
	for _, t := range b.set.tools {
		t.Plan.rivals = findRivals(&t.Plan, operations, base)
	}
}
