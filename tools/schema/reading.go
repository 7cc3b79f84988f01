package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/message"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
)

// A model may write a value in another JSON form than the schema has: "5" for 5, or an object as JSON text. Convert takes such
// a value for what it means. The errors of the validator say where, so that arguments that fit cost nothing.

// maxChecks limits how often Convert validates the arguments of one call.
const maxChecks = 16

// A rewrite is how a value becomes the same value in another JSON form. It changes the text of the value.
type rewrite uint8

const (
	unquote  rewrite = iota // the content of a string is the value
	quote                   // the text of a number or boolean is a string
	wrap                    // the value is the only item of an array
	inDigits                // a whole number without fraction and exponent
)

// A Checked is what the validator says of arguments.
type Checked struct {
	Value   any                         // decoded
	Invalid *jsonschema.ValidationError // nil if the arguments are valid
	OK      bool                        // the arguments could be validated
}

// Convert returns a JSON object with the values that do not fit in the form that fits. A value without such a form stays as it is,
// and so does everything else. It returns the same slice if it changes nothing. Check validates an object.
//
// A value of a union becomes the first alternative that it fits then. To find that, Convert goes back to the last choice it has
// made at a place that still does not fit.
func Convert(arguments []byte, check func([]byte) Checked) []byte {
	c := converter{check: check, choices: make(map[decision]int), left: maxChecks}
	for {
		converted, again := c.pass(arguments)
		if again == (decision{}) {
			return converted
		}
		c.choices[again]++
		maps.DeleteFunc(c.choices, func(later decision, _ int) bool {
			return later.round > again.round && isWithin(later.place, again.place)
		})
	}
}

type converter struct {
	check   func([]byte) Checked
	choices map[decision]int // the candidates to take; 0 if absent
	left    int              // checks
}

// A decision is made between the candidates of one place in one round of conversions.
type decision struct {
	place string // JSON Pointer
	round int    // from 1
}

// isWithin reports whether a place is inside another one, or the same.
func isWithin(place, outer string) bool {
	return place == outer || strings.HasPrefix(place, outer+"/")
}

// pass converts until nothing more can be converted. If a place that it has converted does not fit, and has another candidate,
// it returns the decision about this place.
func (c *converter) pass(arguments []byte) (converted []byte, again decision) {
	candidates := make(map[decision]int)  // their number
	rewritten := make(map[string]rewrite) // a value is rewritten once, so that it cannot change back and forth
	converted = arguments
	for round := 1; ; round++ {
		checked := c.check(converted)
		if !checked.OK {
			return arguments, decision{}
		}
		if c.left--; checked.Invalid == nil || c.left <= 0 {
			return converted, decision{}
		}
		p := proposals{value: checked.Value}
		p.add(checked.Invalid)
		edits := make(map[string]rewrite)
		for _, u := range p.units {
			at := decision{u.place, round}
			if candidates[at] == 0 {
				candidates[at] = len(u.candidates)
				maps.Copy(edits, u.candidates[min(c.choices[at], len(u.candidates)-1)])
			}
		}
		maps.DeleteFunc(edits, func(place string, _ rewrite) bool { _, twice := rewritten[place]; return twice })
		if len(edits) == 0 {
			return converted, c.innermost(candidates, checked.Invalid)
		}
		maps.Copy(rewritten, edits)
		converted = apply(converted, edits)
	}
}

// innermost returns the decision with the longest place at or in which the value does not fit, and which has another candidate.
func (c *converter) innermost(candidates map[decision]int, err *jsonschema.ValidationError) (found decision) {
	at := text.Pointer(err.InstanceLocation...)
	for one, number := range candidates {
		if c.choices[one]+1 < number && isWithin(at, one.place) {
			found = later(found, one)
		}
	}
	for _, cause := range err.Causes {
		found = later(found, c.innermost(candidates, cause))
	}
	return found
}

func later(a, b decision) decision {
	if cmp.Or(cmp.Compare(len(a.place), len(b.place)), cmp.Compare(a.round, b.round), cmp.Compare(a.place, b.place)) >= 0 {
		return a
	}
	return b
}

// A unit is one place that does not fit, and the ways to convert it. Without edits, it stays as it is.
type unit struct {
	place      string // JSON Pointer
	candidates []map[string]rewrite
}

// proposals are the conversions that make the type of each value right.
type proposals struct {
	value  any  // the arguments, decoded
	digits bool // only numbers that markWhole has marked are rewritten
	units  []unit
	long   []Problem // whole numbers with too many digits
}

// add adds conversions for the causes of an error. It reports whether each cause has one.
func (p *proposals) add(err *jsonschema.ValidationError) bool {
	place := text.Pointer(err.InstanceLocation...)
	switch k := err.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.AllOf, *kind.Reference:
		all := true
		for _, cause := range err.Causes {
			all = p.add(cause) && all
		}
		return all
	case *kind.AnyOf, *kind.OneOf:
		return p.addUnion(place, err.Causes)
	case *notInDigits:
		marked, _ := valueAt(p.value, err.InstanceLocation)
		if number, _ := marked.(json.Number); len(strings.Trim(string(number), "-")) > maxDigits+len(mark) {
			p.long = append(p.long, Problem{place, describe(k)})
			return true
		}
		p.units = append(p.units, unit{place, []map[string]rewrite{{place: inDigits}}})
		return true
	case *kind.Type:
		return p.addType(place, err.InstanceLocation, k.Want)
	case *kind.Enum:
		return p.addType(place, err.InstanceLocation, typesOf(k.Want))
	case *kind.Const:
		return p.addType(place, err.InstanceLocation, typesOf([]any{k.Want}))
	}
	return false
}

// addUnion adds the conversions to the alternatives whose causes all have one.
func (p *proposals) addUnion(place string, alternatives []*jsonschema.ValidationError) bool {
	u := unit{place: place}
	for _, alternative := range alternatives {
		own := proposals{value: p.value, digits: p.digits}
		if !own.add(alternative) {
			continue
		}
		if p.long = append(p.long, own.long...); len(own.units) == 1 {
			u.candidates = append(u.candidates, own.units[0].candidates...)
			continue
		}
		together := make(map[string]rewrite)
		for _, part := range own.units {
			maps.Copy(together, part.candidates[0])
		}
		u.candidates = append(u.candidates, together)
	}
	u.candidates = slices.DeleteFunc(u.candidates, func(edits map[string]rewrite) bool { return len(edits) == 0 })
	if len(u.candidates) == 0 {
		return len(p.long) > 0
	}
	u.candidates = append(u.candidates, nil)
	p.units = append(p.units, u)
	return true
}

// addType adds the conversions of a value to one of the types. What is converted stays so even if it does not fit otherwise, because
// the error then says more. An array around a value does not.
func (p *proposals) addType(place string, location, want []string) bool {
	value, isItem := valueAt(p.value, location)
	if p.digits {
		return false
	}
	u := unit{place: place}
	for _, how := range rewrites(value, want) {
		if how == wrap && isItem {
			continue // an item for an item may mean two things: [1,2] is [[1],[2]] or [[1,2]]
		}
		u.candidates = append(u.candidates, map[string]rewrite{place: how})
		if how == wrap {
			u.candidates = append(u.candidates, nil)
		}
	}
	if len(u.candidates) == 0 {
		return false
	}
	p.units = append(p.units, u)
	return true
}

// valueAt returns the value at a location, and whether it is an item of an array.
func valueAt(value any, location []string) (at any, isItem bool) {
	for _, token := range location {
		switch container := value.(type) {
		case map[string]any:
			value, isItem = container[token], false
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i >= len(container) {
				return nil, true
			}
			value, isItem = container[i], true
		}
	}
	return value, isItem
}

// rewrites returns how a value can become one of the wanted types, the plainest way first.
func rewrites(value any, want []string) (ways []rewrite) {
	wants := func(name string) bool { return slices.Contains(want, name) }
	switch value := value.(type) {
	case string:
		content := strings.Trim(value, jsonSpace)
		first := content[:min(len(content), 1)]
		switch {
		case value == "null":
			return nil
		case isJSONNumber(value) && (wants("number") || wants("integer") && !strings.ContainsAny(value, ".eE")):
			ways = append(ways, unquote)
		case (value == "true" || value == "false") && wants("boolean"):
			ways = append(ways, unquote)
		case (first == "{" && wants("object") || first == "[" && wants("array")) && strictjson.Check([]byte(content)) == nil:
			return []rewrite{unquote}
		case first == "[" && wants("array"):
			return nil // it may be JSON with a mistake, or a text
		}
	case json.Number, bool:
		if wants("string") {
			ways = append(ways, quote)
		}
	case map[string]any:
	default:
		return nil
	}
	if wants("array") {
		ways = append(ways, wrap)
	}
	return ways
}

// isJSONNumber reports whether a text is a number as JSON writes it.
func isJSONNumber(content string) bool {
	return jsontext.Value(content).Kind() == '0' && isWritable(content) && strictjson.Check([]byte(content)) == nil && strings.Trim(content, jsonSpace) == content
}

// typesOf returns the types of values.
func typesOf(values []any) (types []string) {
	for _, value := range values {
		switch value.(type) {
		case string:
			types = append(types, "string")
		case json.Number:
			types = append(types, "number")
		case bool:
			types = append(types, "boolean")
		}
	}
	return types
}

// jsonSpace are the characters that may surround a JSON value.
const jsonSpace = " \t\r\n"

// apply returns a value with the values at some places rewritten.
func apply(value []byte, edits map[string]rewrite) []byte {
	above := make(map[string]bool) // the places that have these inside
	for place := range edits {
		for i := strings.LastIndexByte(place, '/'); i >= 0 && !above[place[:i]]; i = strings.LastIndexByte(place[:i], '/') {
			above[place[:i]] = true
		}
	}
	return edit(nil, value, "", edits, above)
}

func edit(dst, value []byte, place string, edits map[string]rewrite, above map[string]bool) []byte {
	if how, ok := edits[place]; ok {
		return how.append(dst, value)
	}
	if !above[place] {
		return append(dst, value...)
	}
	walk := strictjson.Into(value)
	opening, closing := byte('{'), byte('}')
	if jsontext.Value(value).Kind() == '[' {
		opening, closing = '[', ']'
	}
	dst = append(dst, opening)
	for i := 0; walk.Next(); i++ {
		dst = strictjson.Comma(dst)
		token := strconv.Itoa(i)
		if walk.Name != nil {
			dst = append(append(dst, walk.Name...), ':')
			token = string(walk.Key())
		}
		dst = edit(dst, walk.Value, place+text.Pointer(token), edits, above)
	}
	return append(dst, closing)
}

// append appends the rewritten value.
func (r rewrite) append(dst, value []byte) []byte {
	switch r {
	case unquote:
		content, _ := jsontext.AppendUnquote(nil, value)
		return append(dst, bytes.Trim(content, jsonSpace)...)
	case quote:
		return append(append(append(dst, '"'), value...), '"')
	case wrap:
		return append(append(append(dst, '['), value...), ']')
	}
	return append(dst, wholeOf(string(value)).Num().String()...)
}

// maxDigits limits a whole number that was written with a fraction or an exponent.
const maxDigits = 40

// wholeOf returns the value of a number that isWhole accepts.
func wholeOf(number string) *big.Rat {
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return new(big.Rat)
	}
	return r
}

// isWhole reports whether a number is whole but has a fraction or an exponent. The number must be writable.
func isWhole(number string) bool {
	i := strings.IndexAny(number, ".eE")
	if i < 0 {
		return false
	}
	if number[i] == '.' && !strings.ContainsAny(number, "eE") { // the common case, without arithmetic
		return strings.Trim(number[i+1:], "0") == ""
	}
	return wholeOf(number).IsInt()
}

// Digits returns a JSON object with whole numbers in digits where the schema has the type integer and nothing else that they fit:
// many APIs read 7.0 and 7e0 as text that is no integer. Decoded is the object, which Digits changes. Numbers with too many digits are problems.
func (b *Compiled) Digits(arguments []byte, decoded any) ([]byte, []Problem) {
	var w weight
	if w.add(decoded) != nil {
		return arguments, nil
	}
	integers, err := b.integers()
	if err != nil {
		return arguments, nil
	}
	markWhole(decoded)
	invalid, ok := errors.AsType[*jsonschema.ValidationError](integers.validate(decoded, w.values))
	if !ok {
		return arguments, nil
	}
	p := proposals{value: decoded, digits: true}
	p.add(invalid)
	edits := make(map[string]rewrite)
	for _, u := range p.units {
		maps.Copy(edits, u.candidates[0])
	}
	if len(edits) > 0 {
		arguments = apply(arguments, edits)
	}
	return arguments, p.long
}

// mark makes a whole number a fraction.
const mark = "/1"

// markWhole writes the numbers for which isWhole returns true as fractions: 7.0 becomes 7/1. The validator calculates with them as with others,
// and the vocabulary of integers finds them.
func markWhole(value any) any {
	switch value := value.(type) {
	case json.Number:
		if isWhole(string(value)) {
			return json.Number(wholeOf(string(value)).Num().String() + mark)
		}
	case map[string]any:
		for name, v := range value {
			value[name] = markWhole(v)
		}
	case []any:
		for i, v := range value {
			value[i] = markWhole(v)
		}
	}
	return value
}

// integers is the vocabulary that rejects marked numbers where the type is integer.
func integers() *jsonschema.Vocabulary {
	anything := true
	return &jsonschema.Vocabulary{
		URL:    "fairway:///integers",
		Schema: &jsonschema.Schema{Bool: &anything},
		Compile: func(_ *jsonschema.CompilerContext, schema map[string]any) (jsonschema.SchemaExt, error) {
			types, isList := schema["type"].([]any)
			if schema["type"] == "integer" || isList && slices.Contains(types, any("integer")) && !slices.Contains(types, any("number")) {
				return integer{}, nil
			}
			return nil, nil
		},
	}
}

// integer is a schema of integers.
type integer struct{}

// Validate implements jsonschema.SchemaExt.
func (integer) Validate(c *jsonschema.ValidatorContext, value any) {
	if number, ok := value.(json.Number); ok && strings.HasSuffix(string(number), mark) {
		c.AddError(new(notInDigits))
	}
}

// notInDigits is the error of an integer with a fraction or an exponent.
type notInDigits struct{}

// KeywordPath implements jsonschema.ErrorKind.
func (*notInDigits) KeywordPath() []string { return []string{"type"} }

// LocalizedString implements jsonschema.ErrorKind.
func (*notInDigits) LocalizedString(*message.Printer) string {
	return "must be an integer in digits, and has more than " + strconv.Itoa(maxDigits) + ": write it without a fraction and an exponent"
}
