// Package enhance adds properties to the JSON answers of an API that knows
// nothing of OCP: what an operator's expressions compute from the agent's
// context (OCP 1.0, Level 2, Additional response properties).
//
// Compile turns property names and CEL expressions into an Enhancer, once.
// Takes says from an answer's status and header whether it is worth holding
// back; Append then evaluates each expression over an Exchange and writes the
// values into the body's own bytes, which are otherwise kept as they came. JSON
// is taken apart only as far as an expression looks into it.
//
// Nothing is invented. A property that a document declares is added if an
// expression computes it, and its value fits the declared schema; for one that
// no expression computes there is no true value here, and Unanswered names it.
// An expression that fails, costs too much or yields what does not fit costs the answer
// that property only; the Outcome says why. Answers that exceed a limit of their own, such
// as the time of all expressions over a list, are left untouched.
package enhance

import (
	"fmt"
	"slices"
	"time"

	"github.com/fairwayhq/fairway/internal/expr"
	"github.com/fairwayhq/fairway/ocp"
)

// The limits on one answer, where Limits sets none.
const (
	DefaultMaxBody  = 1 << 20               // bytes of the answer
	DefaultMaxAdded = 64 << 10              // bytes that are added to it
	DefaultMaxItems = 1000                  // items of a list that are enhanced one by one
	DefaultTime     = 20 * time.Millisecond // for all expressions together
	DefaultCost     = 100_000               // CEL cost units of one evaluation
)

const (
	// MaxProperties is how many properties one Enhancer has at most. Each has a
	// bit of a uint64.
	MaxProperties = 64

	// MaxExpression is how long an expression may be, in characters.
	MaxExpression = expr.MaxExpression

	// maxName is how long a property's name may be, in bytes.
	maxName = 128
)

// Limits bound what enhancing one answer may cost. A zero field stands for its
// default.
type Limits struct {
	Body  int           // bytes of the answer
	Added int           // bytes that are added to it
	Items int           // items of a list that are enhanced one by one
	Time  time.Duration // for all expressions together; only loops are cut off
	Cost  uint64        // CEL cost units of one evaluation
}

func (l Limits) orDefaults() Limits {
	if l.Body <= 0 {
		l.Body = DefaultMaxBody
	}
	if l.Added <= 0 {
		l.Added = DefaultMaxAdded
	}
	if l.Items <= 0 {
		l.Items = DefaultMaxItems
	}
	if l.Time <= 0 {
		l.Time = DefaultTime
	}
	if l.Cost == 0 {
		l.Cost = DefaultCost
	}
	return l
}

// A Property is a property that answers get, and what computes it.
type Property struct {
	Name       string // [a-zA-Z][a-zA-Z0-9_]*, as the extension has it
	Expression string // CEL; see Compile

	// Declared limits the property to operations whose document declares it in
	// x-ocp-enhanced-response. Else every answer gets it.
	Declared bool
}

// Lists says what becomes of an answer that is a JSON array.
type Lists string

const (
	// EachItem gives every object in the list the properties, with item bound to
	// it; other items stay as they are.
	EachItem Lists = "each"

	// WrapList makes the list a member of an object that has the properties.
	WrapList Lists = "wrap"

	// LeaveLists leaves lists as they are.
	LeaveLists Lists = "leave"
)

// DefaultWrapName is the member that holds a wrapped list.
const DefaultWrapName = "items"

// Options say how answers are enhanced.
type Options struct {
	Lists  Lists  // "" is EachItem
	Wrap   string // the member that holds a wrapped list; "" is DefaultWrapName
	Errors bool   // answers of 4xx and 5xx are enhanced as well
	Limits Limits
}

// An Enhancer adds properties to answers. It is immutable and safe for
// concurrent use.
type Enhancer struct {
	properties []property
	options    Options
	reads      []string // the fields of the context that the expressions read, sorted
}

type property struct {
	Property
	member  []byte // "name":
	program *program
}

// Compile returns the Enhancer of these properties, which it adds in this order.
// Expressions are CEL with optional types and the strings, lists, math and
// encoders extensions, over
//
//	ocp       the context's fields as in the schema (ocp.current_goal); absent ones are
//	          missing, but for recent_changes, history and api_specs, which are empty then;
//	          times are timestamps
//	request   method, path, query (each name a list of texts), headers (lower-case
//	          names, values joined by ", ")
//	response  status, headers, body
//	tool      name, operation_id, method, path, tags; empty if the operation is not known
//	item      the object that gets the property: the body, or one item of a list
//
// A key that is missing is an error: test it with has(ocp.user), or write
// ocp.?user.orValue(""). An expression that yields optional.none() adds nothing.
// Whole numbers of JSON are ints, others doubles. Texts of more than 64 KiB and
// lists or objects of more than 10,000 elements cannot be looked at.
func Compile(properties []Property, options Options) (*Enhancer, error) {
	if len(properties) > MaxProperties {
		return nil, fmt.Errorf("%d properties are more than the limit of %d", len(properties), MaxProperties)
	}
	if err := options.check(); err != nil {
		return nil, err
	}
	env, err := newEnvironment(options.Limits.Cost)
	if err != nil {
		return nil, err
	}
	e := &Enhancer{options: options, properties: make([]property, 0, len(properties))}
	for _, p := range properties {
		if !isName(p.Name) {
			return nil, fmt.Errorf("property %.64q: a name must have the form [a-zA-Z][a-zA-Z0-9_]* and at most %d characters", p.Name, maxName)
		}
		if slices.ContainsFunc(e.properties, func(known property) bool { return known.Name == p.Name }) {
			return nil, fmt.Errorf("property %s: it is there twice; give it one expression", p.Name)
		}
		program, err := env.compile(p.Expression)
		if err != nil {
			return nil, fmt.Errorf("property %s: %w", p.Name, err)
		}
		e.reads = append(e.reads, program.reads...)
		e.properties = append(e.properties, property{Property: p, member: []byte(`"` + p.Name + `":`), program: program})
	}
	slices.Sort(e.reads)
	e.reads = slices.Compact(e.reads)
	return e, nil
}

// check fills in the defaults.
func (o *Options) check() error {
	o.Limits = o.Limits.orDefaults()
	switch o.Lists {
	case "":
		o.Lists = EachItem
	case EachItem, WrapList, LeaveLists:
	default:
		return fmt.Errorf("lists %.64q: it is %s, %s or %s", o.Lists, EachItem, WrapList, LeaveLists)
	}
	if o.Wrap == "" {
		o.Wrap = DefaultWrapName
	}
	if !isName(o.Wrap) {
		return fmt.Errorf("wrap %.64q: a name must have the form [a-zA-Z][a-zA-Z0-9_]*", o.Wrap)
	}
	return nil
}

func isName(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return name != "" && len(name) <= maxName
}

// Properties returns the properties that answers of the tool get, in order. Tool
// is nil if the operation is not known.
func (e *Enhancer) Properties(tool *ocp.Tool) []string {
	var names []string
	for i := range e.properties {
		if p := &e.properties[i]; p.appliesTo(tool) {
			names = append(names, p.Name)
		}
	}
	return names
}

// Unanswered returns the properties that the tool's document declares and no
// expression computes.
func (e *Enhancer) Unanswered(tool *ocp.Tool) []string {
	if tool == nil || tool.OCP == nil {
		return nil
	}
	var names []string
	for _, declared := range tool.OCP.Enhanced {
		if !slices.ContainsFunc(e.properties, func(p property) bool { return p.Name == declared.Name }) {
			names = append(names, declared.Name)
		}
	}
	return names
}

// Reads returns the fields of the context that the expressions for the tool look
// at, sorted. An expression that takes the context as a whole reads all of them.
func (e *Enhancer) Reads(tool *ocp.Tool) []string {
	var fields []string
	for i := range e.properties {
		if p := &e.properties[i]; p.appliesTo(tool) {
			fields = append(fields, p.program.reads...)
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// appliesTo reports whether answers of the tool get the property.
func (p *property) appliesTo(tool *ocp.Tool) bool {
	return !p.Declared || p.declaredBy(tool) != nil
}

// declaredBy returns what the tool's document says of the property, nil if
// nothing.
func (p *property) declaredBy(tool *ocp.Tool) *ocp.EnhancedProperty {
	if tool == nil || tool.OCP == nil {
		return nil
	}
	for i := range tool.OCP.Enhanced {
		if tool.OCP.Enhanced[i].Name == p.Name {
			return &tool.OCP.Enhanced[i]
		}
	}
	return nil
}
