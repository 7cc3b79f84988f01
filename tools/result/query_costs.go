package result

import (
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/itchyny/gojq"
)

// A cost is an upper bound for one call of a function.
type cost struct {
	work   int // units of about five nanoseconds
	memory int // bytes that it allocates
}

// maxCallWork is the maximum work of one call, about 0.2 s.
const maxCallWork = 40 << 20

// smallCost is the cost up to which a call is not compared with the limits: those of the run are checked
// after a few instructions.
const smallCost = 256 << 10

// maxNesting is how deep arrays and objects may be nested in values that a function walks through. Functions
// are recursive, and Go ends a process whose stack becomes too large.
const maxNesting = 10_000

// allow returns an error if the limits of the run do not allow a call. The run ends then, even if the
// expression catches the error.
func (r *run) allow(c cost) error {
	switch {
	case r.err != nil:
	case c.work <= smallCost && c.memory <= smallCost:
		return nil
	case c.work > maxCallWork:
		r.err = errQueryStep
	default:
		_ = r.check()
		if r.err == nil {
			r.err = r.ensure(int64(c.memory))
		}
	}
	return r.err
}

// costFunc returns the cost of a call with the input v.
type costFunc func(v any, args []any) cost

// costs are the costs of the functions of gojq, including internal ones. Functions that are not in the
// table walk through their input and arguments once, see wholeCost. Nil is for functions that take
// constant time, or no more time than the instructions around them.
var costs = map[string]costFunc{
	"_allocator": nil, "_alternative": nil, "_break": nil, "_range": nil, "builtins": nil, "error": nil, "halt": nil, "halt_error": nil,
	"modulemeta": nil, "_parts": nil, "now": nil, "type": nil, "has": nil, "infinite": nil, "nan": nil, "utf8bytelength": nil, "startswith": nil, "endswith": nil,
	"ltrimstr": nil, "rtrimstr": nil, "trimstr": nil, "ltrim": nil, "rtrim": nil, "trim": nil, "length": nil, "_slice": nil,

	"_index": indexCost, "getpath": getpathCost, "setpath": setpathCost, "_setpath": setpathCost, "delpaths": delpathsCost, "_delpaths": delpathsCost,
	"_equal": argumentsCost, "_notequal": argumentsCost, "_less": argumentsCost, "_lesseq": argumentsCost, "_greater": argumentsCost, "_greatereq": argumentsCost,
	"_add": addCost, "_subtract": ofArguments(subtractCost), "_multiply": ofArguments(multiplyCost), "_divide": ofArguments(splitCost), "_modulo": argumentsCost,
	"keys": topCost(4), "reverse": topCost(1), "implode": topCost(1), "ascii_downcase": topCost(2), "ascii_upcase": topCost(2), "explode": topCost(32),
	"add": levelsCost(2, 4), "join": joinCost, "split": splitCost, "transpose": transposeCost,
	"contains": containsCost, "inside": containsCost, "indices": indicesCost, "index": indicesCost, "rindex": indicesCost,
	"tonumber": numberCost, "fromjson": topCost(48), "strftime": levelsCost(2, 1024), "strflocaltime": levelsCost(2, 1024),
	"jn": besselCost, "yn": besselCost,
	"atan2": argumentsCost, "copysign": argumentsCost, "drem": argumentsCost, "fdim": argumentsCost, "fma": argumentsCost, "fmax": argumentsCost,
	"fmin": argumentsCost, "fmod": argumentsCost, "hypot": argumentsCost, "ldexp": argumentsCost, "nextafter": argumentsCost,
	"nexttoward": argumentsCost, "pow": argumentsCost, "remainder": argumentsCost, "scalb": argumentsCost, "scalbln": argumentsCost,
}

// wholeCost is the cost of a function that walks through its input and arguments, and allocates at most the
// given multiple of their size.
func wholeCost(multiple int) costFunc { return levelsCost(maxNesting, multiple) }

// topCost is wholeCost for a function that does not look into the elements of its input.
func topCost(multiple int) costFunc { return levelsCost(1, multiple) }

// levelsCost is wholeCost for a function that looks only some levels deep into its input and arguments.
func levelsCost(levels, multiple int) costFunc {
	return func(v any, args []any) cost {
		s := size{levels: levels, whole: levels == maxNesting}
		s.add(v)
		for _, argument := range args {
			s.add(argument)
		}
		return cost{s.work, s.work * multiple}
	}
}

// sizeOf returns the size of a value, down to some levels.
func sizeOf(v any, levels int) int {
	s := size{levels: levels, whole: levels == maxNesting}
	s.add(v)
	return s.work
}

// argumentsCost is wholeCost for an operator, which does not use its input.
func argumentsCost(_ any, args []any) cost { return wholeCost(8)(nil, args) }

// ofArguments makes a function of the input and an argument one of two arguments, for an operator.
func ofArguments(f costFunc) costFunc {
	return func(_ any, args []any) cost { return f(args[0], args[1:]) }
}

func addCost(_ any, args []any) cost { return topCost(2)(nil, args) }

func isContainer(v any) bool {
	switch v.(type) {
	case []any, map[string]any:
		return true
	}
	return false
}

// pairsCost is for functions that compare each part of one value with each part of another.
func pairsCost(a, b any) cost {
	parts := func(v any) int { return 1 + min(sizeOf(v, maxNesting), maxCallWork)/elementSize }
	return cost{work: 4 * parts(a) * parts(b)}
}

func subtractCost(v any, args []any) cost {
	if !isContainer(v) {
		return wholeCost(8)(v, args)
	}
	c := pairsCost(v, args[0])
	c.memory = sizeOf(v, 1)
	return c
}

func containsCost(v any, args []any) cost {
	if !isContainer(v) {
		return wholeCost(0)(v, args)
	}
	return pairsCost(v, args[0])
}

// positionWork is the work of each position that indicesCost counts, beside that of the comparison.
const positionWork = 40

// indicesCost is for functions that search a text or an array for each position of another. They make arrays
// of texts.
func indicesCost(v any, args []any) cost {
	text, isText := v.(string)
	part, partIsText := args[0].(string)
	if isText && partIsText {
		return cost{work: len(text) * (positionWork + 4*(len(part)+1)), memory: 32 * (len(text) + len(part))}
	}
	c := pairsCost(v, args[0])
	c.memory = sizeOf(v, 1)
	c.work += positionWork * c.memory / elementSize
	return c
}

// indexCost is for .[x]. If x is an array, it is like indices.
func indexCost(_ any, args []any) cost {
	if _, isArray := args[1].([]any); isArray {
		return indicesCost(args[0], args[1:])
	}
	return cost{work: sizeOf(args[1], 0)}
}

func getpathCost(v any, args []any) cost {
	path, _ := args[0].([]any)
	if slices.ContainsFunc(path, isContainer) {
		return pairsCost(v, args[0])
	}
	return cost{work: sizeOf(args[0], maxNesting)}
}

// setpathCost is for assignments. They copy each array and object on the path, and make an array long
// enough for its index.
func setpathCost(v any, args []any) cost {
	path, _ := args[0].([]any)
	c := cost{work: sizeOf(args[0], maxNesting)}
	for _, key := range path {
		var next any
		switch of := v.(type) {
		case map[string]any:
			c.memory += objectMemory + len(of)*memberMemory
			if name, isName := key.(string); isName {
				next = of[name]
			}
		case []any, nil:
			items, _ := v.([]any)
			c.memory += elementSize * len(items)
			if i, isNumber := gojq.ToInt(key); isNumber && i >= len(items) {
				c.memory += elementSize * min(i, maxIndex)
			} else if isNumber && i >= 0 {
				next = items[i]
			}
			if isContainer(key) {
				next = v // a part of the array
				c.memory += sizeOf(args[1], 1)
			}
		}
		v = next
	}
	c.work += c.memory / elementSize
	return c
}

// maxIndex is the largest index of an array in gojq.
const maxIndex = 1 << 29

func delpathsCost(v any, args []any) cost {
	if paths, isArray := args[0].([]any); isArray && len(paths) == 0 {
		return cost{}
	}
	return wholeCost(2)(v, args[:1])
}

func multiplyCost(v any, args []any) cost {
	for _, pair := range [...][2]any{{v, args[0]}, {args[0], v}} {
		if text, isText := pair[0].(string); isText {
			times, _ := gojq.ToFloat64(pair[1])
			length := int(math.Min(float64(len(text))*math.Max(times, 0), math.MaxInt32))
			return cost{work: sizeOf(pair[1], 0) + length/elementSize, memory: length}
		}
	}
	c := wholeCost(2)(v, args)
	if !isContainer(v) {
		c.work *= 2 // the product has as many digits as both together
	}
	return c
}

func joinCost(v any, args []any) cost {
	c := levelsCost(2, 4)(v, nil)
	separators := sizeOf(v, 1) / elementSize * sizeOf(args[0], 0)
	return cost{c.work + separators, c.memory + 4*separators}
}

// splitCost is for the split of a text at another, and for the division of numbers.
func splitCost(v any, args []any) cost {
	text, isText := v.(string)
	at, atIsText := args[0].(string)
	if !isText || !atIsText {
		return wholeCost(8)(v, args)
	}
	const pieceMemory = 48 // a piece, in a list of texts and a list of values
	return cost{work: len(text), memory: pieceMemory * (strings.Count(text, at) + 1)}
}

func transposeCost(v any, _ []any) cost {
	rows, _ := v.([]any)
	longest := 0
	for _, row := range rows {
		if cells, isArray := row.([]any); isArray {
			longest = max(longest, len(cells))
		}
	}
	cells := len(rows) * longest
	return cost{cells, (cells + longest) * 2 * elementSize}
}

// numberCost is for the conversion of a text to a number.
func numberCost(v any, _ []any) cost {
	if text, isText := v.(string); isText {
		v = json.Number(text)
	}
	return wholeCost(1)(v, nil)
}

// besselCost is for functions that take as many steps as their order.
func besselCost(v any, args []any) cost {
	c := argumentsCost(v, args)
	if order, isNumber := gojq.ToFloat64(args[0]); isNumber && c.work <= smallCost {
		c.work += int(math.Min(math.Abs(order), maxCallWork+1))
	}
	return c
}

// A size is the size of values in bytes. A part that occurs several times counts each time, because
// functions walk through it several times. If it exceeds maxCallWork, it is not exact.
type size struct {
	work   int
	levels int  // how deep to look into values
	whole  bool // if values are deeper, the size is more than maxCallWork
}

// Sizes of values.
const (
	elementSize  = 16
	memberSize   = 64
	numberSquare = 64 // conversion of a number of n digits takes n + n²/numberSquare
)

func (s *size) add(v any) {
	switch v := v.(type) {
	case string:
		s.work += len(v)
	case json.Number:
		s.work += len(v) + len(v)*len(v)/numberSquare
	case *big.Int:
		n := v.BitLen() / 3
		s.work += n + n*n/numberSquare
	case []any:
		s.work += elementSize * len(v)
		if s.enter() {
			for _, item := range v {
				if s.add(item); s.work > maxCallWork {
					return
				}
			}
			s.levels++
		}
	case map[string]any:
		s.work += memberSize * len(v)
		if s.enter() {
			for name, item := range v {
				s.work += len(name)
				if s.add(item); s.work > maxCallWork {
					return
				}
			}
			s.levels++
		}
	}
}

// enter goes one level deeper. It returns false if that is too deep.
func (s *size) enter() bool {
	if s.levels <= 1 {
		if s.whole {
			s.work = maxCallWork + 1
		}
		return false
	}
	s.levels--
	return true
}
