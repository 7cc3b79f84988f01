package match

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/schema"
)

// Siblings are the operations that share a method and a path, with the identifiers that
// distinguish their requests. A document may have thousands of operations at one path, so
// the time of Choose grows linearly with their number.
type Siblings struct {
	Tools []*tools.Tool // In document order, at least one
	needs [][]need      // of Tools, by position
	marks []mark        // nil if method and path are sufficient

	headers map[string]int   // position in marks by canonical name
	queries map[string]int   // position in marks by name
	aliases map[string][]int // positions in marks by request.Alias of the names of query parameters
}

// A mark is a query parameter or header that identifies one or more siblings.
type mark struct {
	request.Identifier                       // without values
	spellings          map[string][][]string // the values that siblings require, by each value in the form of foldValue
	fewest             int                   // the smallest number of values that a sibling requires; 0 if none does
}

// A need is one of the identifiers of an operation.
type need struct {
	mark   int      // position in siblings.marks
	values []string // as in request.Identifier
}

// prepare computes needs and marks. If there is one operation, only fixed identifiers
// matter.
func (s *Siblings) prepare() {
	s.headers, s.queries, s.aliases = make(map[string]int), make(map[string]int), make(map[string][]int)
	s.needs = make([][]need, len(s.Tools))
	for i, t := range s.Tools {
		identity := t.Plan.Identity
		for j := range identity {
			if id := &identity[j]; id.IsFixed() || len(s.Tools) > 1 {
				at := s.markOf(id)
				s.marks[at].fix(id.Values)
				s.needs[i] = append(s.needs[i], need{at, id.Values})
			}
		}
	}
}

// markOf returns the position of the mark for an identifier.
func (s *Siblings) markOf(id *request.Identifier) int {
	positions := s.queries
	if id.In == request.Header {
		positions = s.headers
	}
	at, known := positions[id.Name]
	if !known {
		at = len(s.marks)
		positions[id.Name] = at
		s.marks = append(s.marks, mark{Identifier: request.Identifier{In: id.In, Name: id.Name}})
		if id.In == request.Query {
			alias := request.Alias(id.Name)
			s.aliases[alias] = append(s.aliases[alias], at)
		}
	}
	return at
}

// fix adds values that a sibling requires.
func (m *mark) fix(values []string) {
	if values == nil {
		return
	}
	if m.spellings == nil {
		m.spellings, m.fewest = make(map[string][][]string), len(values)
	}
	m.fewest = min(m.fewest, len(values))
	for _, value := range values {
		folded := foldValue(value)
		same := func(other []string) bool { return slices.Equal(other, values) }
		if !slices.ContainsFunc(m.spellings[folded], same) {
			m.spellings[folded] = append(m.spellings[folded], values)
		}
	}
}

// foldValue returns the same text for all values that servers may treat as equal.
func foldValue(value string) string { return strings.Map(request.Fold, strings.TrimSpace(value)) }

// isBlurred reports whether a server may confuse the values of a request with other values
// that a sibling requires.
func (m *mark) isBlurred(values []string) bool {
	if m.fewest > 0 && len(values) > m.fewest {
		return true
	}
	differs := func(fixed []string) bool { return !slices.Equal(fixed, values) }
	return slices.ContainsFunc(values, func(value string) bool {
		return slices.ContainsFunc(m.spellings[foldValue(value)], differs)
	})
}

// compare is Choose for several operations.
func (s *Siblings) compare(req *http.Request, called *tools.Tool) (*tools.Tool, error) {
	present, problem := s.read(req)
	if problem != "" {
		return nil, &AmbiguousError{Tool: s.Tools[0], Reason: problem}
	}
	fitting := s.fitting(present)
	if len(fitting) == 0 {
		return nil, ErrNoOperation
	}
	left := s.possible(fitting, present, called != nil)
	if len(left) == 1 {
		return left[0], nil
	}
	for _, t := range left {
		if called != nil && t.Plan.Path == called.Plan.Path {
			return t, nil
		}
	}
	if len(left) == 0 {
		left = s.Tools
	}
	names := make([]string, 0, maxAmbiguous)
	for _, t := range left[:min(len(left), maxAmbiguous)] {
		names = append(names, t.Operation())
	}
	return nil, &AmbiguousError{Tool: left[0], Reason: "nothing in it identifies one of these operations: " +
		strings.Join(names, ", ") + "; call the tool of the operation instead"}
}

// maxAmbiguous is how many operations an error message names.
const maxAmbiguous = 4

// read returns the values of the marks in the request. Problem says why a server may see a
// mark that the request does not have exactly, or another value of it; "" if none does.
func (s *Siblings) read(req *http.Request) (present map[int][]string, problem string) {
	pairs, err := request.ParsePairs(nil, request.Query, req.URL.RawQuery)
	if err != nil {
		return nil, "its query, by which operations are identified, cannot be read: " + err.Error()
	}
	present = make(map[int][]string)
	for i := range pairs {
		name := pairs[i].Name
		for _, alias := range [...]string{request.Alias(name), request.Alias(request.Stem(name))} {
			for _, at := range s.aliases[alias] {
				if meant := s.marks[at].Name; meant != name {
					return nil, misspelled("query parameter", name, meant)
				}
			}
		}
		if at, ok := s.queries[name]; ok {
			present[at] = append(present[at], pairs[i].Value)
		}
	}
	for name, values := range req.Header {
		if canonical := httpheader.Canonical(name); canonical != name {
			if _, ok := s.headers[canonical]; ok {
				return nil, misspelled("header", name, canonical)
			}
		}
		if at, ok := s.headers[name]; ok && len(values) > 0 {
			present[at] = values
		}
	}
	for at, values := range present {
		if m := &s.marks[at]; m.isBlurred(values) {
			return nil, "its " + string(m.In) + " parameter " + m.Name + " identifies the operation: give it once, exactly as in the document"
		}
	}
	return present, ""
}

func misspelled(kind, name, meant string) string {
	return "its " + kind + " " + strconv.Quote(text.Cut(name, schema.MaxProblem)) + " is read by some servers as " + meant +
		", which identifies the operation: write it as " + meant
}

// fitting returns the positions of the operations whose required values the request has.
func (s *Siblings) fitting(present map[int][]string) (positions []int) {
	for i, needs := range s.needs {
		if !slices.ContainsFunc(needs, func(n need) bool { return n.values != nil && !slices.Equal(present[n.mark], n.values) }) {
			positions = append(positions, i)
		}
	}
	return positions
}

// possible returns those of the fitting operations that the request can belong to. It
// excludes an operation
//
//   - that does not know a mark in the request,
//   - that requires a mark which the request lacks and another fitting operation does not
//     know, or
//   - for the request of a call: that allows any value of a mark which another fitting
//     operation fixes.
func (s *Siblings) possible(fitting []int, present map[int][]string, isCall bool) (left []*tools.Tool) {
	fixed := make(map[int]bool) // marks that a fitting operation fixes
	for _, i := range fitting {
		for _, n := range s.needs[i] {
			if isCall && n.values != nil {
				fixed[n.mark] = true
			}
		}
	}
	optional := make(map[int]bool) // marks that a fitting operation does not know
	lacks := func(n need) bool {
		if len(present[n.mark]) > 0 {
			return false
		}
		unknown, computed := optional[n.mark]
		if !computed {
			unknown = slices.ContainsFunc(fitting, func(i int) bool { return !knows(s.Tools[i], &s.marks[n.mark].Identifier) })
			optional[n.mark] = unknown
		}
		return unknown
	}
	for _, i := range fitting {
		t := s.Tools[i]
		known, fixes := true, 0
		for at := range present {
			known = known && knows(t, &s.marks[at].Identifier)
		}
		for _, n := range s.needs[i] {
			if isCall && n.values != nil {
				fixes++
			}
		}
		if known && fixes == len(fixed) && !slices.ContainsFunc(s.needs[i], lacks) {
			left = append(left, t)
		}
	}
	return left
}

// knows reports whether a request of the tool can have the identifier.
func knows(t *tools.Tool, id *request.Identifier) bool {
	return slices.ContainsFunc(t.Plan.Identity, func(own request.Identifier) bool { return own.In == id.In && own.Name == id.Name }) ||
		slices.ContainsFunc(t.Plan.Arguments, func(a tools.Argument) bool {
			return a.In == id.In && (a.WireName == id.Name || a.In == tools.InQuery && (len(a.Types()) == 0 || slices.Contains(a.Types(), "object")))
		})
}
