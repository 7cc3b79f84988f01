// Package enhance adds properties to the JSON responses of an API that does not
// support OCP. An operator's CEL expressions compute the values from the agent's
// context (OCP 1.0, Level 2, Additional response properties).
//
// Data passes through it in three steps:
//
//  1. [Compile] turns property names and expressions into an [Enhancer], once.
//  2. [Enhancer.Suits] decides from a response's status and header whether the
//     response can be enhanced and must be buffered.
//  3. [Enhancer.Append] evaluates the expressions over an [Exchange] and inserts the
//     values into the body. All other bytes of the body stay unchanged. JSON is
//     parsed only as far as an expression reads it.
//
// Rules:
//
//   - A property that a document declares is added only if an expression computes it
//     and the value matches the declared schema. [Enhancer.Unanswered] lists declared
//     properties without an expression.
//   - If an expression fails, exceeds its cost limit or returns a value that does not
//     match, only that property is left out. The [Outcome] has the reason.
//   - If the response as a whole exceeds a limit, such as the time for all
//     expressions over a list, it is left unchanged.
package enhance

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/ocpextension"
)

// Default limits for one response.
const (
	defaultMaxBody  = 1 << 20               // size of the response, in bytes
	defaultMaxAdded = 64 << 10              // bytes added to the response
	defaultMaxItems = 1000                  // items of a list
	defaultTime     = 20 * time.Millisecond // for all expressions of one response together
	defaultCost     = 100_000               // CEL cost units for one evaluation
)

const (
	// MaxProperties is the maximum number of properties of an Enhancer. Each has one
	// bit of a uint64.
	MaxProperties = 64
)

// Limits bound the cost of enhancing one response. A zero field means its default.
type Limits struct {
	Body  int           // size of the response, in bytes; default 1 MiB
	Added int           // bytes added to the response; default 64 KiB
	Items int           // items of a list; default 1000
	Time  time.Duration // for all expressions together; default 20 ms; only expressions with loops are interrupted
	Cost  uint64        // CEL cost units for one evaluation; default 100,000
}

func (l Limits) orDefaults() Limits {
	if l.Body <= 0 {
		l.Body = defaultMaxBody
	}
	if l.Added <= 0 {
		l.Added = defaultMaxAdded
	}
	if l.Items <= 0 {
		l.Items = defaultMaxItems
	}
	if l.Time <= 0 {
		l.Time = defaultTime
	}
	l.Cost = cmp.Or(l.Cost, defaultCost)
	return l
}

// Property is a property that is added to responses.
type Property struct {
	// The name of the property: a letter, then letters, digits and underscores. Required.
	Name string `json:"property,omitempty"`

	// The CEL expression that computes the property. Variables:
	//
	//   - `ocp`: the fields of the context, as in ocp.current_goal
	//   - `request`: method, path, query, headers
	//   - `response`: status, headers, body
	//   - `tool`: name, operation_id, method, path, tags
	//   - `item`: the object that gets the property
	//
	// An expression that returns optional.none() adds nothing. If an expression fails, or its
	// value does not match the schema that the document declares, only this property is
	// missing. In a list, it is only missing in the item that failed. Required.
	Expression string `json:"expression,omitempty"`

	// Whether the property is only added to responses of operations that declare it in
	// x-ocp-enhanced-response. Default: false, it is added to every JSON response.
	Declared bool `json:"declared,omitempty"`
}

// Lists selects how a response that is a JSON array is enhanced.
type Lists string

const (
	// EachItem adds the properties to every object in the list. The variable item is
	// bound to that object. Other items stay unchanged.
	EachItem Lists = "each"

	// WrapList wraps the list in an object and adds the properties to that object.
	WrapList Lists = "wrap"

	// LeaveLists leaves lists unchanged.
	LeaveLists Lists = "leave"
)

// defaultWrapName is the name of the member that holds a wrapped list.
const defaultWrapName = "items"

// Options configure an Enhancer.
type Options struct {
	// How to enhance responses that are JSON arrays. "each" enhances every object in the array.
	// "wrap" puts the array into an object that has the properties. "leave" does not change the
	// array. Default: each.
	Lists Lists `json:"lists,omitempty"`

	// The member of the object that holds a wrapped array. Default: items.
	Wrap string `json:"wrap_name,omitempty"`

	// Whether to enhance 4xx and 5xx responses too. Default: false, only 2xx responses.
	Errors bool `json:"enhance_errors,omitempty"`

	Limits Limits `json:"-"`
}

// An Enhancer adds properties to responses. It is immutable and safe for concurrent
// use.
type Enhancer struct {
	properties []property
	options    Options
	reads      []string // the context fields that the expressions read, sorted
}

type property struct {
	Property
	member  []byte // "name":
	program *program
}

// Compile returns an Enhancer that adds these properties in this order. Expressions
// are CEL with optional types and the strings, lists, math and encoders extensions.
// They can use these variables:
//
//	ocp       the context's fields as in the schema (ocp.current_goal). Times are
//	          timestamps. Absent fields are missing, except recent_changes, history
//	          and api_specs, which are then empty.
//	request   method, path, query (each name a list of strings), headers (lower-case
//	          names, values joined by ", ")
//	response  status, headers, body
//	tool      name, operation_id, method, path, tags; empty if the operation is unknown
//	item      the object that gets the property: the body, or one item of a list
//
// Reading a missing key is an error. Test for it with has(ocp.user), or write
// ocp.?user.orValue(""). An expression that returns optional.none() adds nothing.
//
// JSON integers are ints; other numbers are doubles. Expressions cannot read strings
// of more than 64 KiB, or lists and objects of more than 10,000 elements.
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
		if !ocpextension.IsPropertyName(p.Name) {
			return nil, fmt.Errorf("property %.64q: a name must have the form [a-zA-Z][a-zA-Z0-9_]* and at most %d characters", p.Name, ocpextension.MaxPropertyName)
		}
		if slices.ContainsFunc(e.properties, func(known property) bool { return known.Name == p.Name }) {
			return nil, fmt.Errorf("property %s: it is there twice; give it one expression", p.Name)
		}
		program, err := compile(env, p.Expression)
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

// check validates the options and fills in the defaults.
func (o *Options) check() error {
	o.Limits = o.Limits.orDefaults()
	switch o.Lists {
	case "":
		o.Lists = EachItem
	case EachItem, WrapList, LeaveLists:
	default:
		return fmt.Errorf("lists %.64q: it is %s, %s or %s", o.Lists, EachItem, WrapList, LeaveLists)
	}
	o.Wrap = cmp.Or(o.Wrap, defaultWrapName)
	if !ocpextension.IsPropertyName(o.Wrap) {
		return fmt.Errorf("wrap %.64q: a name must have the form [a-zA-Z][a-zA-Z0-9_]*", o.Wrap)
	}
	return nil
}

// Properties returns the names of the properties that responses of the tool get, in
// order. The tool is nil if the operation is unknown.
func (e *Enhancer) Properties(tool *tools.Tool) []string {
	var names []string
	for i := range e.properties {
		if p := &e.properties[i]; p.appliesTo(tool) {
			names = append(names, p.Name)
		}
	}
	return names
}

// Unanswered returns the properties that the tool's document declares and that no
// expression computes.
func (e *Enhancer) Unanswered(tool *tools.Tool) []string {
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

// Reads returns the context fields that the expressions for the tool read, sorted.
// An expression that uses the context as a whole reads all of them.
func (e *Enhancer) Reads(tool *tools.Tool) []string {
	var fields []string
	for i := range e.properties {
		if p := &e.properties[i]; p.appliesTo(tool) {
			fields = append(fields, p.program.reads...)
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// appliesTo reports whether responses of the tool get the property.
func (p *property) appliesTo(tool *tools.Tool) bool {
	return !p.Declared || p.declaredBy(tool) != nil
}

// declaredBy returns the tool's declaration of the property, or nil.
func (p *property) declaredBy(tool *tools.Tool) *ocpextension.Property {
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
