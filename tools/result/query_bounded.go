package result

import (
	"errors"
	"reflect"
	"strings"
	"unsafe"

	"github.com/itchyny/gojq"
)

// A program is an expression that was compiled for one run at a time, so that its functions know the run
// whose limits apply.
//
// The interpreter checks its context before each instruction. A single instruction can be a call of a
// built-in function that takes any amount of time and memory: `"a" * 1e9`. gojq can add functions and
// not replace those behind its operators, updates and definitions in jq. Therefore program replaces them in
// the compiled code. All instructions of gojq that call a function have one form, which compileProgram
// checks.
type program struct {
	code *gojq.Code
	run  *run
	regexps
	builder
}

// prelude defines functions of jq that in gojq take quadratic time.
const prelude = `
	def splits($re; $flags): _parts($re; $flags + "g") | .before;
	def splits($re): splits($re; null);
	def split($re; $flags): [splits($re; $flags)];
	def sub($re; str; $flags):
		[_parts($re; $flags) | [.before, (.captures | select(.) | _captures | str)]] as $parts |
		([$parts[:-1][] | length] | max // 1) as $columns |
		if $columns == 1 then . else range(1; $columns) as $i | [$parts[:-1][] | select(length > $i) | .[0] + .[$i]] + $parts[-1] | add end;
	def sub($re; str): sub($re; str; null);
	def gsub($re; str; $flags): sub($re; str; $flags + "g");
	def gsub($re; str): sub($re; str; "g");
	.`

// errInterpreter reports a version of gojq whose compiled code has another form.
var errInterpreter = errors.New("this version of the jq interpreter cannot be limited; build with the version of gojq in Fairway's go.mod")

// compileProgram compiles a parsed expression.
func compileProgram(source string) (*program, error) {
	parsed, err := gojq.Parse(source)
	if err != nil {
		return nil, err
	}
	if len(parsed.Imports) > 0 {
		return nil, errors.New("import and include are not available: write the functions into the expression")
	}
	if strings.Contains(source, "split") || strings.Contains(source, "sub") {
		definitions, err := gojq.Parse(prelude)
		if err != nil {
			return nil, err
		}
		parsed.FuncDefs = append(definitions.FuncDefs, parsed.FuncDefs...)
	}
	p := &program{regexps: make(regexps)}
	p.code, err = gojq.Compile(parsed, gojq.WithIterFunction("_parts", 2, 2, p.parts))
	if err != nil {
		return nil, err
	}
	return p, p.limitCalls()
}

// call is what an instruction that calls a function holds: the function, the number of its arguments, and its name.
type call = [3]any

// limitCalls makes each call of a function check the limits of the run.
func (p *program) limitCalls() error {
	codes := reflect.ValueOf(p.code).Elem().FieldByName("codes")
	if codes.Kind() != reflect.Slice || codes.Len() == 0 {
		return errInterpreter
	}
	for i := range codes.Len() {
		operand := codes.Index(i).Elem().FieldByName("v")
		if operand.Kind() != reflect.Interface {
			return errInterpreter
		}
		// The fields are not exported. The code is not in use yet, and belongs to this program.
		v := reflect.NewAt(operand.Type(), unsafe.Pointer(operand.UnsafeAddr())).Interface().(*any) //nolint:gosec // see program
		switch original := (*v).(type) {
		case call:
			function, isFunction := original[0].(func(any, []any) any)
			name, isName := original[2].(string)
			if !isFunction || !isName {
				return errInterpreter
			}
			original[0] = p.limited(name, function)
			*v = original
		case func(any, []any) any, func(any) any:
			return errInterpreter
		}
	}
	return nil
}

// limited returns a function that calls the original one if the limits of the run allow it.
func (p *program) limited(name string, original func(any, []any) any) func(any, []any) any {
	if name == "_match" {
		return p.match
	}
	of, known := costs[name]
	if !known {
		of = wholeCost(8)
	}
	if of == nil {
		return original
	}
	return func(v any, args []any) any {
		if err := p.run.allow(of(v, args)); err != nil {
			return err
		}
		return original(v, args)
	}
}
