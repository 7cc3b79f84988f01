package request

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// Types is a set of JSON types. 0 means unknown: any type is possible. Number includes
// Integer.
type Types uint8

// The types. A number that may have a fraction has the value Number|Integer.
const (
	String Types = 1 << iota
	Integer
	Number
	Boolean
	Array
	Object
	Null

	nested = Array | Object
	single = String | Integer | Number | Boolean
)

// TypeOf returns the type with a name of JSON Schema, or 0.
func TypeOf(name string) Types {
	switch name {
	case "string":
		return String
	case "integer":
		return Integer
	case "number":
		return Number | Integer
	case "boolean":
		return Boolean
	case "array":
		return Array
	case "object":
		return Object
	case "null":
		return Null
	}
	return 0
}

// A Shape describes the types of a parameter's values, since text in a request has no
// types. The nil Shape allows any type.
type Shape interface {
	Types() Types

	// Item is the shape of an array's items.
	Item() Shape

	// Property is the shape of an object's property. Known is true if the schema names
	// the property or has a schema for additional properties.
	Property(name string) (s Shape, known bool)
}

func typesOf(shape Shape) Types {
	if shape == nil {
		return 0
	}
	return shape.Types()
}

func itemOf(shape Shape) Shape {
	if shape == nil {
		return nil
	}
	return shape.Item()
}

// ReadKind is the reason why a request could not be read.
type ReadKind string

// The kinds of a ReadError.
const (
	Malformed ReadKind = "malformed" // it breaks the syntax of its part of the request
	Unfit     ReadKind = "unfit"     // it has none of the types that the document declares
	Duplicate ReadKind = "duplicate" // it appears twice, and servers differ in which one they use
	Ambiguous ReadKind = "ambiguous" // servers differ in how they interpret it
)

// A ReadError reports a part of a request that cannot be read, or that servers may
// interpret in different ways.
type ReadError struct {
	Kind    ReadKind
	In      In
	Name    string // as the API reads it; "" for the whole place
	Problem string // completes "the query parameter color …"
}

// Error returns the part of the request, the name and the problem as one sentence.
func (e *ReadError) Error() string {
	if e.Name == "" {
		return "the " + string(e.In) + " " + e.Problem
	}
	return "the " + string(e.In) + " parameter " + e.Name + " " + e.Problem
}

func (s *Serializer) misread(kind ReadKind, problem string) error {
	return &ReadError{Kind: kind, In: s.in, Name: s.name, Problem: problem}
}

// A reading is one read of a parameter: the text of a request becomes JSON of the types that
// the shape allows. Each part of a request has a reader that embeds it. All fields are small:
// a reading is copied, so that it stays on the stack.
type reading struct {
	param *Serializer
	shape Shape
	types Types // of shape
}

func (s *Serializer) reading(shape Shape) reading {
	return reading{s, shape, typesOf(shape)}
}

// appendDivided reads a decoded text. If its type is array or object, it is split at the
// delimiter.
func (r *reading) appendDivided(dst []byte, text string) ([]byte, error) {
	delimiter := ","
	if r.param.layout.reads != 0 {
		delimiter = string(r.param.layout.reads)
	}
	switch {
	case r.types&nested == 0, r.types&single != 0 && !strings.Contains(text, delimiter):
		return r.appendSingle(dst, text)
	case r.types&Array != 0:
		return r.appendItems(dst, strings.Split(text, delimiter))
	}
	return r.appendObject(dst, strings.Split(text, delimiter))
}

// appendParts reads items or properties that were split before decoding.
func (r *reading) appendParts(dst []byte, parts []string) ([]byte, error) {
	if r.types&single != 0 && len(parts) == 1 {
		text, err := r.param.decode(parts[0])
		if err != nil {
			return dst, err
		}
		return r.appendSingle(dst, text)
	}
	decoded := make([]string, len(parts))
	for i := range parts {
		var err error
		if decoded[i], err = r.param.decode(parts[i]); err != nil {
			return dst, err
		}
	}
	if r.types&Array != 0 {
		return r.appendItems(dst, decoded)
	}
	return r.appendObject(dst, decoded)
}

// appendItems appends an array.
func (r *reading) appendItems(dst []byte, texts []string) ([]byte, error) {
	out := append(dst, '[')
	types := typesOf(itemOf(r.shape))
	for i := range texts {
		out = strictjson.Comma(out)
		var err error
		if out, err = r.param.appendText(out, texts[i], types); err != nil {
			return dst, err
		}
	}
	return append(out, ']'), nil
}

// appendObject appends an object. If the layout is exploded, texts are "name=value";
// otherwise they are alternating names and values.
func (r *reading) appendObject(dst []byte, texts []string) ([]byte, error) {
	o := objectText{reading: *r, dst: append(dst, '{')}
	for len(texts) > 0 {
		name, value, ok := strings.Cut(texts[0], "=")
		if !r.param.explode {
			name, ok = texts[0], len(texts) > 1
			texts = texts[1:]
			if ok {
				value = texts[0]
			}
		}
		if !ok {
			return dst, r.param.misread(Malformed, "has a name "+quote(name)+" without a value")
		}
		texts = texts[1:]
		if err := o.add(name, value); err != nil {
			return dst, err
		}
	}
	return append(o.dst, '}'), nil
}

// objectText is an object that is being read, one property at a time.
type objectText struct {
	reading
	dst   []byte
	names []string
}

func (o *objectText) add(name, value string) error {
	property, err := o.begin(name)
	if err == nil {
		o.dst, err = o.param.appendText(o.dst, value, typesOf(property))
	}
	return err
}

// addPairs adds a property of which the first pair has the value. If the property is declared as an array, the other pairs
// of the name are taken too.
func (o *objectText) addPairs(name, value string, others []Pair) error {
	property, err := o.begin(name)
	if err != nil {
		return err
	}
	list := o.param.reading(property)
	if list.types&Array == 0 {
		o.dst, err = o.param.appendText(o.dst, value, list.types)
		return err
	}
	values := []string{value}
	for i := range others {
		if p := &others[i]; !p.Taken && p.Name == name {
			p.Taken, values = true, append(values, p.Value)
		}
	}
	if len(values) == 1 && list.types&single != 0 {
		o.dst, err = o.param.appendText(o.dst, value, list.types&^Array)
	} else {
		o.dst, err = list.appendItems(o.dst, values)
	}
	return err
}

// begin adds the name of a property, and returns the shape of its value.
func (o *objectText) begin(name string) (Shape, error) {
	for _, other := range o.names {
		if strings.EqualFold(other, name) {
			return nil, o.param.misread(Duplicate, "has the property "+quote(name)+" twice")
		}
	}
	if !utf8.ValidString(name) {
		return nil, o.param.misread(Malformed, problemText)
	}
	o.dst = strictjson.Comma(o.dst)
	o.names = append(o.names, name)
	o.dst = append(strictjson.AppendString(o.dst, name), ':')
	if o.shape == nil {
		return nil, nil
	}
	property, _ := o.shape.Property(name)
	return property, nil
}

// appendSingle appends a text as a value that is neither an array nor an object.
func (r *reading) appendSingle(dst []byte, text string) ([]byte, error) {
	return r.param.appendText(dst, text, r.types&^nested)
}

// appendText appends a text as a value of one of the types.
func (s *Serializer) appendText(dst []byte, text string, types Types) ([]byte, error) {
	out, problem := AppendText(dst, text, types)
	if problem != "" {
		kind := Unfit
		if problem == problemText {
			kind = Malformed
		}
		return dst, s.misread(kind, problem)
	}
	return out, nil
}

// appendContent appends the value of a parameter with content.
func (s *Serializer) appendContent(dst []byte, text string) ([]byte, error) {
	if !s.json {
		return s.appendText(dst, text, String)
	}
	if err := strictjson.Check([]byte(text)); err != nil {
		return dst, s.misread(Malformed, "is not JSON that can be read: "+err.Error())
	}
	return append(dst, strings.Trim(text, " \t\r\n")...), nil
}

// decode percent-decodes a text by the rules of its part of the request, and rejects
// text that Append would not send there.
func (s *Serializer) decode(raw string) (string, error) {
	text := raw
	if strings.IndexByte(raw, '%') >= 0 {
		var err error
		if text, err = url.PathUnescape(raw); err != nil {
			return "", s.misread(Malformed, "has a % that encodes nothing: write it as %25")
		}
		if s.in == Cookie && encodesPlain(raw) {
			return "", s.misread(Ambiguous, "encodes characters that need no encoding, which some servers decode and others do not")
		}
	}
	if problem := s.problemOf([]byte(text)); problem != "" {
		return "", s.misread(Ambiguous, problem)
	}
	return text, nil
}

// encodesPlain reports whether raw percent-encodes an unreserved character.
func encodesPlain(raw string) bool {
	for i := 0; i+2 < len(raw); i++ {
		if raw[i] == '%' && unreservedSet[byte(unhex(raw[i+1])<<4|unhex(raw[i+2])&0xf)] {
			return true
		}
	}
	return false
}

func quote(text string) string {
	const longest = 40 // bytes
	return fmt.Sprintf("%q", text[:min(len(text), longest)])
}

const problemText = "is not text in UTF-8"

// AppendText appends text as a JSON value of one of the types: true or false, a number
// in JSON syntax, the JSON of an array or object, otherwise a string. If no type is
// known, the value is a string. If text has none of the types, problem says why and dst
// is returned unchanged; otherwise problem is "".
//
// Spellings that only some servers accept (True, 1 for true, +5, 05, 5 with spaces
// around it) are valid only as strings. Otherwise the gateway could authorize one value
// while the API acts on another.
func AppendText(dst []byte, text string, types Types) (out []byte, problem string) {
	switch {
	case types&Boolean != 0 && (text == "true" || text == "false"):
		return append(dst, text...), ""
	case types&Number != 0 && isNumber(text), types&Integer != 0 && isInteger(text):
		return append(dst, text...), ""
	case types&nested != 0 && isNested(text, types):
		return append(dst, text...), ""
	case types != 0 && types&String == 0:
		return dst, problemType(text, types)
	case !utf8.ValidString(text):
		return dst, problemText
	}
	return strictjson.AppendString(dst, text), ""
}

// isNested reports whether text is the JSON of an array or object.
func isNested(text string, types Types) bool {
	if text == "" || ((text[0] != '[' || types&Array == 0) && (text[0] != '{' || types&Object == 0)) {
		return false
	}
	return strictjson.Check([]byte(text)) == nil
}

// isNumber reports whether text is a number in JSON syntax (RFC 8259, section 6).
func isNumber(text string) bool {
	text, ok := cutWhole(text)
	if !ok {
		return false
	}
	if fraction, more := strings.CutPrefix(text, "."); more {
		if text = strings.TrimLeft(fraction, digits); len(text) == len(fraction) {
			return false
		}
	}
	if text == "" {
		return true
	}
	if text[0] != 'e' && text[0] != 'E' {
		return false
	}
	text = text[1:]
	if text != "" && (text[0] == '+' || text[0] == '-') {
		text = text[1:]
	}
	return text != "" && strings.Trim(text, digits) == ""
}

// isInteger reports whether text is an integer in JSON syntax. Its fraction may consist
// of zeros.
func isInteger(text string) bool {
	text, ok := cutWhole(text)
	if !ok {
		return false
	}
	fraction, more := strings.CutPrefix(text, ".")
	return text == "" || more && fraction != "" && strings.Trim(fraction, "0") == ""
}

// cutWhole removes the part of a number before the fraction.
func cutWhole(text string) (rest string, ok bool) {
	text = strings.TrimPrefix(text, "-")
	if rest, zero := strings.CutPrefix(text, "0"); zero {
		return rest, true
	}
	rest = strings.TrimLeft(text, digits)
	return rest, len(rest) < len(text)
}

func problemType(text string, types Types) string {
	var names []string
	for _, t := range [...]struct {
		bit  Types
		name string
	}{
		{Integer, "an integer"},
		{Boolean, "true or false"},
		{Array, "a JSON array"},
		{Object, "a JSON object"},
	} {
		switch {
		case t.bit == Integer && types&Number != 0:
			names = append(names, "a number")
		case types&t.bit != 0:
			names = append(names, t.name)
		}
	}
	if names == nil {
		return "cannot be given as " + quote(text) + ": no text is of its type"
	}
	return "must be " + strings.Join(names, " or ") + ", and is " + quote(text)
}
