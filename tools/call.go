package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools/callid"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/schema"
)

// A Call is a tool together with arguments that are valid for the tool's schema.
type Call struct {
	Tool  *Tool
	ID    callid.ID // of the Prepared; zero if there is none
	Files Files     // nil if the call has no uploaded files

	values []jsontext.Value    // of Tool.Plan.Arguments, by position; nil if absent
	extra  []strictjson.Member // additional properties, if the body allows them

	mismatches []Problem // arguments that are sent although they do not fit the schema

	few [fewValues]jsontext.Value // memory of values, if they fit
}

// Files puts the contents of uploaded files into the request of a call, whose arguments only describe them.
type Files interface {
	// Fill replaces descriptions in the values of a call, by their position in Plan.Arguments. The error is a *Failure.
	Fill(ctx context.Context, call *Call, values []jsontext.Value) error
}

// fewValues is how many values a Call has room for without a further allocation.
const fewValues = 6

// newCall returns a call without arguments.
func newCall(t *Tool) *Call {
	c := &Call{Tool: t}
	if len(t.Plan.Arguments) <= fewValues {
		c.values = c.few[:len(t.Plan.Arguments)]
	} else {
		c.values = make([]jsontext.Value, len(t.Plan.Arguments))
	}
	return c
}

// Bind validates raw arguments against the tool's schema. The error is a *Failure of kind
// InvalidArguments. The Call keeps references to the bytes of arguments.
//
//   - Empty arguments and null are read as {}.
//   - If an optional argument that is not nullable is null, it is treated as absent,
//     because many clients set every argument they know.
//
// Bind takes values as they are written. Read is for the arguments of tool calls.
func (t *Tool) Bind(arguments []byte) (*Call, error) {
	call, _, err := (&validation{tool: t}).bind(arguments)
	return call, err
}

// Read is Bind for the arguments of a tool call. A value that does not fit the schema is converted to another JSON form if it fits
// then: "5" to 5, JSON text to an object. Whole numbers are written in digits where the schema has integers. Read returns the arguments with
// what it has converted, also after an error: everything that looks at the arguments of a call must use these.
func (t *Tool) Read(arguments []byte) (*Call, []byte, error) {
	return (&validation{tool: t, converts: true}).bind(arguments)
}

// Arguments decodes the arguments of the caller, without defaults. Numbers are
// decoded as json.Number. Every use of Arguments decodes them again.
func (c *Call) Arguments() map[string]any {
	arguments := make(map[string]any, len(c.values))
	for i, value := range c.values {
		if value != nil && !c.Tool.Plan.Encodings[i].Filled {
			arguments[c.Tool.Plan.Arguments[i].Name], _ = strictjson.Decode(value) // read has checked the syntax
		}
	}
	for _, m := range c.extra {
		arguments[m.Name], _ = strictjson.Decode(m.Value)
	}
	return arguments
}

// Values returns the arguments as JSON, by their position in Plan.Arguments. A value is nil if the
// argument is absent.
func (c *Call) Values() []jsontext.Value { return c.values }

// Undeclared reports whether the call sends properties in the body that the document does not name. They are in Additional.
func (c *Call) Undeclared() bool { return len(c.extra) > 0 && !c.Tool.Plan.Undeclared.Open }

// Additional returns the names and values of the additional properties of the body.
func (c *Call) Additional() iter.Seq2[string, jsontext.Value] {
	return func(yield func(string, jsontext.Value) bool) {
		for i := range c.extra {
			if !yield(c.extra[i].Name, c.extra[i].Value) {
				return
			}
		}
	}
}

// missingFromBody returns the positions of the arguments that a request body requires and
// that are not given.
func (c *Call) missingFromBody() (positions []int) {
	for i := range c.Tool.Plan.Arguments {
		a := &c.Tool.Plan.Arguments[i]
		if a.In == InBody && !c.Tool.Plan.Encodings[i].Filled && c.Tool.Plan.Encodings[i].NeededInBody && c.values[i] == nil && a.Default == nil {
			positions = append(positions, i)
		}
	}
	return positions
}

// bodyIsBegun reports whether the body is optional but some of its arguments are given.
// The body's required properties must then be given too, a rule that the schema of the
// flat arguments object cannot express.
func (c *Call) bodyIsBegun() bool {
	return c.Tool.Plan.Body != nil && !c.Tool.Plan.Body.Required && c.hasBody()
}

// hasBody reports whether at least one argument of the body is given.
func (c *Call) hasBody() bool {
	if c.Tool.Plan.sendsBody {
		return true
	}
	for i := range c.Tool.Plan.Arguments {
		if c.Tool.Plan.Arguments[i].In == InBody && c.values[i] != nil && !c.Tool.Plan.Encodings[i].Filled {
			return true
		}
	}
	return len(c.extra) > 0
}

// AppendArguments appends the arguments that the API receives, as a JSON object: the
// caller's values, the defaults for absent arguments, and the values that a shape fixes. It
// omits the other arguments that the gateway fills, such as credentials.
func (c *Call) AppendArguments(dst []byte) []byte {
	dst = append(dst, '{')
	member := func(name string) {
		dst = append(strictjson.AppendString(strictjson.Comma(dst), name), ':')
	}
	for i := range c.values {
		if value := c.value(i); value != nil && (!c.Tool.Plan.Encodings[i].Filled || c.Tool.Plan.Encodings[i].Guarded) {
			member(c.Tool.Plan.Arguments[i].Name)
			dst = append(dst, value...)
		}
	}
	for _, m := range c.extra {
		member(m.Name)
		dst = append(dst, m.Value...)
	}
	return append(dst, '}')
}

// CallerArguments returns the arguments of AppendArguments without those that the gateway fills.
func (t *Tool) CallerArguments(arguments jsontext.Value) jsontext.Value {
	var kept strictjson.ObjectBuilder
	members, _ := strictjson.Members(nil, arguments)
	for _, m := range members {
		if i, known := t.Plan.index.position(t.Plan.Arguments, m.Name); !known || !t.Plan.Encodings[i].Filled {
			kept.Add(m.Name, m.Value)
		}
	}
	return kept.Close()
}

type callKey struct{}

// CallContext is a context that carries a call. Handlers that run after an adapter read the tool and the
// arguments of the request from it. It can be part of another struct, to save an allocation.
type CallContext struct {
	context.Context
	Call *Call
}

// Value implements context.Context.
func (c *CallContext) Value(key any) any {
	if key == any(callKey{}) {
		return c.Call
	}
	return c.Context.Value(key)
}

// CallFromContext returns the tool call that a request was made for, or nil if the request
// was not made for a tool call.
func CallFromContext(ctx context.Context) *Call {
	call, _ := ctx.Value(callKey{}).(*Call)
	return call
}

// A validation checks arguments against the schema of a tool. Arguments for which forgiven returns
// true may be missing; if forgiven is nil, none may.
type validation struct {
	tool     *Tool
	forgiven func(*Argument) bool
	converts bool // values in another JSON form are converted; see Read
}

// bind returns the call with some arguments, and the arguments as it has read them.
func (v *validation) bind(arguments []byte) (*Call, []byte, error) {
	if v.tool.read != nil {
		return nil, arguments, errToolRead
	}
	call, problems, err := v.split(arguments)
	if err != nil {
		return nil, arguments, err
	}
	var mismatches []Problem
	if !v.acceptsPlainly(call) {
		compiled, err := v.tool.Definition.Validator.Compile(v.tool.FullSchema)
		if err != nil {
			return nil, arguments, &Failure{Kind: Internal, Message: fmt.Sprintf("the schema of tool %s cannot be used: %v", v.tool.Name, err)}
		}
		hasWhole, err := compiled.Check(call.Arguments())
		if v.converts && (err != nil || hasWhole) {
			own := *v // on the heap for these calls only
			r := reading{validation: &own, compiled: compiled, arguments: arguments, call: call, problems: problems}
			err = r.convert(err, hasWhole)
			arguments, call, problems, mismatches = r.arguments, r.call, r.problems, r.long
		}
		if err != nil {
			problems, mismatches = v.explain(err, call.Arguments(), problems, mismatches)
		}
	}
	if call.bodyIsBegun() {
		for _, i := range call.missingFromBody() {
			if a := &v.tool.Plan.Arguments[i]; v.forgiven == nil || !v.forgiven(a) {
				mismatches = append(mismatches, Problem{Path: text.Pointer(a.Name), Message: "missing: the request body needs it as soon as one of its arguments is given"})
			}
		}
	}
	if v.converts && v.tool.Plan.Leniency.SendsMismatches {
		call.mismatches, mismatches = mismatches, nil
	}
	if problems = append(problems, mismatches...); len(problems) > 0 {
		return nil, arguments, v.tool.invalid(problems)
	}
	return call, arguments, nil
}

// acceptsPlainly reports whether all arguments of the call are certainly valid, so that
// they need not be decoded for validation.
func (v *validation) acceptsPlainly(c *Call) bool {
	if len(c.extra) > 0 {
		return false
	}
	for i, value := range c.values {
		switch plain := v.tool.Plan.Encodings[i].Fast; {
		case value == nil && !v.tool.Plan.Arguments[i].Required:
		case value == nil || plain == nil || !plain.Accepts(value):
			return false
		}
	}
	return true
}

// forgive removes from the error the missing arguments for which forgiven returns true.
func (v *validation) forgive(err *jsonschema.ValidationError) {
	if required, ok := err.ErrorKind.(*kind.Required); ok && len(err.InstanceLocation) == 0 {
		required.Missing = slices.DeleteFunc(required.Missing, func(name string) bool {
			i, known := v.tool.Plan.index.position(v.tool.Plan.Arguments, name)
			return known && v.forgiven(&v.tool.Plan.Arguments[i])
		})
	}
	for _, cause := range err.Causes {
		v.forgive(cause)
	}
}

// problems returns the problems with the arguments. The error means that the schema itself cannot
// be compiled.
func (v *validation) problems(arguments map[string]any) ([]Problem, error) {
	compiled, err := v.tool.Definition.Validator.Compile(v.tool.FullSchema)
	if err != nil {
		return nil, err
	}
	if err = compiled.Validate(arguments); err == nil {
		return nil, nil
	}
	problems, mismatches := v.explain(err, arguments, nil, nil)
	return append(problems, mismatches...), nil
}

// explain adds what the validator says of arguments: why values do not fit to the mismatches, and why they cannot be validated to the
// problems.
func (v *validation) explain(err error, arguments any, problems, mismatches []Problem) (all, notFitting []Problem) {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	switch {
	case !ok:
		return append(problems, Problem{Message: "the object of arguments " + err.Error()}), mismatches
	case v.forgiven != nil:
		v.forgive(invalid)
	}
	return problems, append(schema.Explain(invalid, arguments), mismatches...)
}

// split sorts the members of an arguments object into the values of a call. It returns unknown names as
// problems. If the arguments cannot be read, the error is a *Failure.
func (v *validation) split(arguments []byte) (*Call, []Problem, error) {
	r := argumentReader{call: newCall(v.tool), tool: v.tool}
	if len(arguments) == 0 || string(arguments) == "null" {
		return r.call, nil, nil
	}
	members, err := strictjson.Object(arguments)
	if err != nil {
		return nil, nil, v.tool.invalid([]Problem{{Message: "the arguments are not a JSON object that can be read: " + err.Error()}})
	}
	for members.Next() {
		r.take(members.Key(), members.Value)
	}
	if v.forgiven != nil {
		for i := range v.tool.Plan.Arguments {
			if v.forgiven(&v.tool.Plan.Arguments[i]) {
				r.call.values[i] = nil
			}
		}
	}
	if r.call.Undeclared() {
		r.checkUndeclared(v.forgiven)
	}
	return r.call, r.problems, nil
}

// An argumentReader sorts the members of an arguments object into the values of a call and problems.
type argumentReader struct {
	call     *Call
	tool     *Tool
	problems []Problem // at most schema.MaxProblems
}

// take reads one member.
func (r *argumentReader) take(key []byte, value jsontext.Value) {
	t := r.tool
	i, known := t.Plan.index.position(t.Plan.Arguments, string(key))
	switch {
	case known && t.Plan.Encodings[i].Guarded:
		r.report(r.unknown(t.Plan.Arguments[i].Name))
	case known && t.Plan.Encodings[i].Filled:
		if problem, wrong := r.filled(i, value); wrong {
			r.report(problem)
		}
	case known && value.Kind() == 'n' && t.Plan.Encodings[i].DropNull:
	case known:
		r.call.values[i] = value
	default:
		if name := string(key); t.Plan.Undeclared.allows(name) && !r.resemblesFixed(name) {
			r.call.extra = append(r.call.extra, strictjson.Member{Name: name, Value: value})
		} else if len(r.problems) < schema.MaxProblems {
			r.report(r.unknown(name))
		}
	}
}

// report adds a problem, unless there are enough.
func (r *argumentReader) report(p Problem) {
	if len(r.problems) < schema.MaxProblems {
		r.problems = append(r.problems, p)
	}
}

// unknown returns the problem with a name that the tool does not take.
func (r *argumentReader) unknown(name string) Problem {
	message := "no such argument"
	if near := r.tool.SuggestArgument(name); near != "" {
		message += near
	} else if len(r.tool.Definition.Arguments) == 0 {
		message += "; the tool takes none"
	}
	return Problem{Path: text.Pointer(name), Message: message}
}

// filled checks a value that a caller gives for an argument that the gateway fills.
// Only the value that the gateway sends is accepted; models know such arguments from the
// API's own documentation. Any other value is a problem.
func (r *argumentReader) filled(argument int, value jsontext.Value) (problem Problem, wrong bool) {
	fill := r.tool.Plan.Encodings[argument].Fill
	path := text.Pointer(r.tool.Plan.Arguments[argument].Name)
	switch {
	case isNull(value), fill != nil && request.SameScalar(value, fill):
		return Problem{}, false
	case fill != nil:
		return Problem{Path: path, Message: "must be " + string(fill) + ", which the gateway sends itself: leave it out"}, true
	}
	return Problem{Path: path, Message: "is a credential that the gateway sends itself: leave it out"}, true
}

// resemblesFixed reports whether a server may confuse an undeclared property of the body
// with a parameter or property whose value is fixed. Many servers merge query and body,
// and many ignore case in names.
func (r *argumentReader) resemblesFixed(property string) bool {
	if r.tool.Plan.guards.resembles(property) {
		return true
	}
	alias := request.Alias(request.Stem(property))
	isFixed := func(id request.Identifier) bool {
		return id.In == request.Query && id.IsFixed() && request.Alias(id.Name) == alias
	}
	if slices.ContainsFunc(r.tool.Plan.Identity, isFixed) {
		return true
	}
	for i := range r.tool.Plan.Arguments {
		if a := &r.tool.Plan.Arguments[i]; r.tool.Plan.Encodings[i].Filled && (a.In == InQuery || a.In == InBody) && request.Alias(a.WireName) == alias {
			return true
		}
	}
	return false
}

// An argumentIndex finds arguments by name. It holds the positions of the arguments,
// sorted by name, for binary search; a map for each tool would take ten times the memory.
// It is nil for tools with few arguments, which are searched linearly.
type argumentIndex []int32

// unindexed is the largest number of arguments that are searched linearly.
const unindexed = 8

// indexOf returns the index of the arguments, or nil if there are too few to need one.
func indexOf(all []Argument) argumentIndex {
	if len(all) <= unindexed {
		return nil
	}
	index := make(argumentIndex, len(all))
	for i := range index {
		index[i] = int32(i) //nolint:gosec // a tool has far fewer arguments
	}
	slices.SortFunc(index, func(a, b int32) int { return cmp.Compare(all[a].Name, all[b].Name) })
	return index
}

// position returns the position of the argument with the given name.
func (x argumentIndex) position(all []Argument, name string) (int, bool) {
	if x == nil {
		for i := range all {
			if all[i].Name == name {
				return i, true
			}
		}
		return 0, false
	}
	// A function value, as slices.BinarySearchFunc takes, would let name escape to the heap.
	low, high := 0, len(x)
	for low < high {
		middle := (low + high) / 2
		switch at := int(x[middle]); {
		case all[at].Name == name:
			return at, true
		case all[at].Name < name:
			low = middle + 1
		default:
			high = middle
		}
	}
	return 0, false
}
