package overlay

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/theory/jsonpath"
	"github.com/theory/jsonpath/registry"
	"github.com/theory/jsonpath/spec"
)

// A budget is the number of values that queries may still visit. github.com/theory/jsonpath has no
// limits, and a query such as $..*..* can visit each value of a document many times.
type budget int

// compile parses a JSONPath query (RFC 9535), whose evaluations spend the budget.
func (b *budget) compile(text string) (*spec.PathQuery, error) {
	switch {
	case len(text) > maxQuery:
		return nil, fmt.Errorf("the query has %d bytes; the limit is %d", len(text), maxQuery)
	case !strings.HasPrefix(text, "$"):
		return nil, fmt.Errorf("a query begins with $, as in $.paths: %s", text)
	}
	path, err := jsonpath.NewParser(jsonpath.WithRegistry(b.functions())).Parse(text)
	if err == nil {
		return path.Query(), nil
	}
	message := strings.NewReplacer("jsonpath: ", "", "unexpected eof", "unexpected end").Replace(err.Error())
	position, _ := strconv.Atoi(message[strings.LastIndexByte(message, ' ')+1:])
	message += " of " + text
	if position > 1 && position <= len(text) && strings.IndexByte("-/{$", text[position-1]) >= 0 {
		message += ": write a name with characters other than letters, digits and _ as ['name']"
	}
	return nil, errors.New(message)
}

// functions returns the functions of RFC 9535. Queries in their arguments spend the budget, and match and
// search are our own: the library's compile the pattern for each value, and panic if the pattern is missing,
// and its match('b|c') also accepts bxx.
func (b *budget) functions() *registry.Registry {
	functions := registry.New()
	for name, evaluate := range map[string]spec.Evaluator{"count": nil, "value": nil, "match": b.matcher(true), "search": b.matcher(false)} {
		function := functions.Get(name)
		original := *function
		if evaluate == nil {
			evaluate = original.Evaluate
		}
		validate := func(arguments []spec.FuncExprArg) error {
			for i, argument := range arguments {
				b.limit(argument)
				if literal, is := argument.(*spec.LiteralArg); is && i == 1 {
					if _, err := compilePattern(fmt.Sprint(literal.Value()), false); err != nil {
						return err
					}
				}
			}
			return original.Validate(arguments)
		}
		*function = *spec.Extension(name, original.ReturnType(), validate, evaluate)
	}
	return functions
}

// matcher returns the function match, if the pattern must match the whole text, or else search. A value that
// is no text and a pattern that is not valid do not match (RFC 9535, sections 2.4.6 and 2.4.7).
func (b *budget) matcher(whole bool) spec.Evaluator {
	patterns := make(map[string]*regexp.Regexp)
	return func(arguments []spec.PathValue) spec.PathValue {
		value, expression := spec.ValueFrom(arguments[0]), spec.ValueFrom(arguments[1])
		if value == nil || expression == nil {
			return spec.LogicalFalse
		}
		text, isText := value.Value().(string)
		source, isSource := expression.Value().(string)
		if !isText || !isSource {
			return spec.LogicalFalse
		}
		pattern, known := patterns[source]
		if !known {
			b.spend(len(source))
			pattern, _ = compilePattern(source, whole)
			patterns[source] = pattern
		}
		return spec.Logical(pattern != nil && pattern.MatchString(text))
	}
}

// dots matches each dot of a regular expression, and whole escapes and character classes, whose dots are
// other characters.
var dots = regexp.MustCompile(`(?s)\\.|\[(?:\\.|[^]\\])*]|\.`)

// compilePattern compiles a regular expression of RFC 9485. In it, a dot matches neither a line feed
// nor a carriage return.
func compilePattern(pattern string, whole bool) (*regexp.Regexp, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("has a pattern of %d bytes; the limit is %d", len(pattern), maxPattern)
	}
	pattern = dots.ReplaceAllStringFunc(pattern, func(part string) string {
		if part == "." {
			return `[^\n\r]`
		}
		return part
	})
	if whole {
		pattern = `\A(?:` + pattern + `)\z`
	}
	return regexp.Compile(pattern)
}

// limit lets the selectors of a query spend the budget, and those of the queries in its filters. Comparisons
// have only queries for a single value, which need no limit, and functions, whose arguments are limited.
func (b *budget) limit(part any) {
	switch part := part.(type) {
	case interface{ Segments() []*spec.Segment }: // a query, or a test whether it selects something
		for _, segment := range part.Segments() {
			selected, selectors := new(int), segment.Selectors()
			for i, selector := range selectors {
				b.limit(selector)
				selectors[i] = counted{selector, b, 1 + len(selector.String())/64, selected}
			}
		}
	case *spec.FilterSelector:
		b.limit(part.LogicalOr)
	case *spec.ParenExpr:
		b.limit(part.LogicalOr)
	case *spec.NotParenExpr:
		b.limit(part.LogicalOr)
	case spec.LogicalOr:
		for _, all := range part {
			for _, one := range all {
				b.limit(one)
			}
		}
	}
}

// spend counts visited values.
func (b *budget) spend(values int) {
	if *b -= budget(values); *b < 0 {
		panic(fmt.Sprintf("visits too many values (all queries together may visit %d)", maxSteps))
	}
}

// A counted selector is one that spends a budget. It replaces a selector of the library.
type counted struct {
	spec.Selector
	budget   *budget
	cost     int  // of each visited value; a long filter costs more
	selected *int // values that the selectors of the segment have selected
}

// spend counts what the selector may visit of a value.
func (c counted) spend(current any) {
	values := 1
	switch current := current.(type) {
	case map[string]any:
		values += len(current)
	case []any:
		values += len(current)
	}
	c.budget.spend(values * c.cost)
}

// Select selects values in a filter.
func (c counted) Select(current, root any) []any {
	c.spend(current)
	return c.Selector.Select(current, root)
}

// SelectLocated selects values of the document.
func (c counted) SelectLocated(current, root any, parent spec.NormalizedPath) []*spec.LocatedNode {
	c.spend(current)
	located := c.Selector.SelectLocated(current, root, parent)
	if *c.selected += len(located); *c.selected > maxMatches {
		panic(fmt.Sprintf("selects more than %d values", maxMatches))
	}
	return located
}

// A match is a value that a query selected.
type match struct {
	node   *node
	parent *node // the object or array that contains the value; nil for the root
	path   spec.NormalizedPath
}

// find returns the values that a query selects, each once, in the order of the document. The document is not
// decoded for a query for a single value, such as $.paths['/a'].get.
func (a *application) find(text string) (matches []match, err error) {
	query, err := a.budget.compile(text)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cause := recover(); cause != nil { // of spend and SelectLocated, or a fault of the library
			err = fmt.Errorf("%s %v: name the path to what you want to change, such as $.paths.*.get, in place of .. and *", text, cause)
		}
	}()
	selected := make(places)
	if path := singlePath(query); path != nil {
		selected.add(path)
		return selected.collect(nil, match{node: a.result.root}, &a.budget), nil
	}
	a.budget.limit(query)
	for _, located := range query.SelectLocated(nil, a.result.root.decode(), nil) {
		selected.add(located.Path)
	}
	return selected.collect(nil, match{node: a.result.root}, &a.budget), nil
}

// singlePath returns the path of a query that consists of names and positions from the start, or nil.
func singlePath(query *spec.PathQuery) spec.NormalizedPath {
	path := spec.NormalizedPath{}
	for _, segment := range query.Segments() {
		step, single := segment.Selectors()[0].(spec.NormalSelector)
		if position, _ := step.(spec.Index); !single || position < 0 || query.Singular() == nil {
			return nil
		}
		path = append(path, step)
	}
	return path
}

// places are selected values, and the objects and arrays that contain them, by name or position in what
// contains these. A selected value has the key nil.
type places map[spec.NormalSelector]places

func (p places) add(path spec.NormalizedPath) {
	for _, step := range path {
		if p[step] == nil {
			p[step] = make(places)
		}
		p = p[step]
	}
	p[nil] = nil
}

// collect appends m, if it is selected, and the selected values in it. An action is about to change these
// values, so they and what contains them will be decoded again.
func (p places) collect(to []match, m match, b *budget) []match {
	m.node.decoded = nil
	if _, selected := p[nil]; selected {
		to = append(to, m)
	}
	b.spend(len(m.node.members) + len(m.node.items))
	for _, inner := range m.node.members {
		if name := spec.Name(inner.name); p[name] != nil {
			to = p[name].collect(to, match{inner.value, m.node, append(slices.Clip(m.path), name)}, b)
		}
	}
	for i, item := range m.node.items {
		if position := spec.Index(i); p[position] != nil {
			to = p[position].collect(to, match{item, m.node, append(slices.Clip(m.path), position)}, b)
		}
	}
	return to
}
