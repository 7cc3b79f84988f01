package ocp

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/fairwayhq/fairway/ocp/style"
)

// An identifier is a query parameter or header by which requests of an operation
// are told from those of others with the same method and path.
type identifier struct {
	in     Location // InQuery or InHeader
	name   string   // of a header in canonical form
	values []string // decoded, which the request must have exactly; nil for any
}

// constantPairs parses the query that a path has. A "%" that encodes nothing and
// a ";" are text.
func constantPairs(query string) []style.Pair {
	pairs, err := style.ParsePairs(nil, style.Query, constantQuery(query))
	if err != nil {
		query = strings.ReplaceAll(query, "%", "%25")
		pairs, _ = style.ParsePairs(nil, style.Query, constantQuery(query))
	}
	return pairs
}

// constantQuery escapes what may not stand in a query.
func constantQuery(query string) string {
	return escapeExcept(query, "-._~!$'()*+,:@/?%=&")
}

// planQuery sets what the path says of the query.
func (t *toolBuilder) planQuery() {
	query := t.operation.ConstantQuery
	if _, err := style.ParsePairs(nil, style.Query, constantQuery(query)); err != nil {
		query = strings.ReplaceAll(query, "%", "%25")
	}
	t.tool.query = constantQuery(query)
}

// identity returns the identifiers of the tool: the query of its path, the
// parameters that the gateway fills with the only allowed value, and those that
// are required.
func (t *toolBuilder) identity() (all []identifier) {
	for _, pair := range t.constants {
		all = addIdentifier(all, InQuery, pair.Name, pair.Value)
	}
	for i := range t.tool.all {
		a, plan := &t.tool.all[i], &t.tool.plans[i]
		switch {
		case a.In != InQuery && a.In != InHeader:
		case plan.filled:
			name, value := plan.sentAs(a)
			all = addIdentifier(all, a.In, name, value)
		case a.Required && len(a.types) > 0 && !slices.Contains(a.types, "object"):
			all = append(all, identifier{in: a.In, name: a.WireName})
		}
	}
	return all
}

func addIdentifier(all []identifier, in Location, name, value string) []identifier {
	for i := range all {
		if all[i].in == in && all[i].name == name {
			all[i].values = append(all[i].values, value)
			return all
		}
	}
	return append(all, identifier{in: in, name: name, values: []string{value}})
}

// sentAs returns the name and the decoded value of a query parameter, header or
// cookie that the gateway fills with one value.
func (p *argumentPlan) sentAs(a *Argument) (name, value string) {
	text, err := p.param.Append(nil, p.fill)
	if err != nil {
		return a.WireName, "" // isSendable has seen to it
	}
	if a.In == InQuery {
		if pairs, err := style.ParsePairs(nil, style.Query, string(text)); err == nil && len(pairs) == 1 {
			return pairs[0].Name, pairs[0].Value
		}
	}
	if a.In == InCookie {
		_, text, _ := strings.Cut(string(text), "=")
		return a.WireName, text
	}
	return a.WireName, string(text)
}

// isFixed reports whether requests must have the identifier with its value.
func (id *identifier) isFixed() bool { return id.values != nil }

// shown is what a request shows of identifiers.
type shown struct {
	query  []style.Pair
	header http.Header
}

func showing(request *http.Request) (*shown, error) {
	pairs, err := style.ParsePairs(nil, style.Query, request.URL.RawQuery)
	return &shown{pairs, request.Header}, err
}

// values returns the request's values of that query parameter or header.
func (s *shown) values(in Location, name string) (values []string) {
	if in == InHeader {
		return s.header[name]
	}
	for i := range s.query {
		if s.query[i].Name == name {
			values = append(values, s.query[i].Value)
		}
	}
	return values
}

// fits reports whether the request has each fixed identifier of the tool.
func (s *shown) fits(t *Tool) bool {
	return !slices.ContainsFunc(t.identity, func(id identifier) bool {
		return id.isFixed() && !slices.Equal(s.values(id.in, id.name), id.values)
	})
}

// blurred returns why some servers may see the identifier where the request does
// not have it exactly, or another value of it; "" if none does.
func (s *shown) blurred(id *identifier) string {
	where := "its " + string(id.in) + " parameter "
	if id.in == InHeader {
		where = "its header "
		for name := range s.header {
			if strings.IndexByte(name, '_') >= 0 && http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-")) == id.name {
				return where + clip(name, maxProblem) + " is read by some servers as " + id.name + ", which says what operation is meant: write it so"
			}
		}
	} else {
		alias := style.Alias(id.name)
		for i := range s.query {
			name := s.query[i].Name
			if name != id.name && (style.Alias(name) == alias || style.Alias(style.Stem(name)) == alias) {
				return where + strconv.Quote(clip(name, maxProblem)) + " is read by some servers as " + id.name + ", which says what operation is meant: write it so"
			}
		}
	}
	values := s.values(id.in, id.name)
	if !id.isFixed() || slices.Equal(values, id.values) {
		return ""
	}
	for _, value := range values {
		for _, meant := range id.values {
			if len(values) > len(id.values) || foldName(strings.TrimSpace(value)) == foldName(strings.TrimSpace(meant)) {
				return where + id.name + " says what operation is meant: give it once, as in the document"
			}
		}
	}
	return ""
}

// tells returns the identifiers of t that u does not know: a request that has one
// is not of u.
func (t *Tool) tells(u *Tool) (ids []*identifier) {
	for i := range t.identity {
		if id := &t.identity[i]; !u.knows(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// knows reports whether a request of the tool can have the identifier.
func (t *Tool) knows(id *identifier) bool {
	return slices.ContainsFunc(t.identity, func(own identifier) bool { return own.in == id.in && own.name == id.name }) ||
		slices.ContainsFunc(t.all, func(a Argument) bool {
			return a.In == id.in && (a.WireName == id.name || a.In == InQuery && (len(a.types) == 0 || slices.Contains(a.types, "object")))
		})
}

// choose returns which of the operations that share a method and path the request
// means. Called is the tool whose call made the request, nil for a plain request.
// It returns an error unless the request can be of no other operation; for a call
// it is enough that nothing in the request says so.
func choose(tools []*Tool, request *http.Request, called *Tool) (*Tool, error) {
	if len(tools) == 1 && !slices.ContainsFunc(tools[0].identity, func(id identifier) bool { return id.isFixed() }) {
		return tools[0], nil
	}
	s, err := showing(request)
	if err != nil {
		return nil, &AmbiguousError{Tool: tools[0], Reason: "the operation cannot be told by its query: " + err.Error()}
	}
	for _, t := range tools {
		for i := range t.identity {
			if id := &t.identity[i]; len(tools) > 1 || id.isFixed() {
				if reason := s.blurred(id); reason != "" {
					return nil, &AmbiguousError{Tool: t, Reason: reason}
				}
			}
		}
	}
	var left []*Tool
	fit := false
	for _, t := range tools {
		if !s.fits(t) {
			continue
		}
		fit = true
		if !s.excludes(t, tools, called) {
			left = append(left, t)
		}
	}
	switch {
	case !fit:
		return nil, ErrNoOperation
	case len(left) == 1:
		return left[0], nil
	}
	for _, t := range left {
		if called != nil && t.Path == called.Path {
			return t, nil
		}
	}
	names := make([]string, 0, maxAmbiguous)
	for _, t := range tools[:min(len(tools), maxAmbiguous)] {
		names = append(names, t.where())
	}
	return nil, &AmbiguousError{Tool: tools[0], Reason: "nothing in it tells which of these operations it is: " +
		strings.Join(names, ", ") + "; call the tool of the operation instead"}
}

// maxAmbiguous is how many operations a message names.
const maxAmbiguous = 4

// excludes reports whether the request cannot be of t, given the operations that
// share its method and path: it has what identifies another one and t does not
// know, or lacks what tells t from another one. A call names its operation; its
// request cannot be of t either if it has a fixed identifier of another one that
// is free in t.
func (s *shown) excludes(t *Tool, tools []*Tool, called *Tool) bool {
	for _, u := range tools {
		if u == t {
			continue
		}
		for _, id := range u.tells(t) {
			if len(s.values(id.in, id.name)) > 0 {
				return true
			}
		}
		if !s.fits(u) {
			continue
		}
		for _, id := range t.tells(u) {
			if len(s.values(id.in, id.name)) == 0 {
				return true
			}
		}
		if called != nil && u.fixesMore(t) {
			return true
		}
	}
	return false
}

// fixesMore reports whether u has a fixed identifier that is not fixed in t.
func (u *Tool) fixesMore(t *Tool) bool {
	return slices.ContainsFunc(u.identity, func(id identifier) bool {
		return id.isFixed() && !slices.ContainsFunc(t.identity, func(own identifier) bool {
			return own.in == id.in && own.name == id.name && own.isFixed()
		})
	})
}
