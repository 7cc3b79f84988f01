package style

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/wire"
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

// ReadPath is the inverse of Append for a path: it appends the JSON for raw, the
// percent-encoded text in place of {name}. It rejects what Append rejects: text that
// could leave its segment, and control characters.
//
// Lists are decoded before they are split, as servers do: "a%2Cb" is two items.
func (s *Serializer) ReadPath(dst []byte, raw string, shape Shape) ([]byte, error) {
	if text := []byte(raw); !isHarmless(text) {
		switch {
		case isBlank(text):
			return dst, s.misread(Malformed, "is empty")
		case HasDotSegment(text, true):
			return dst, s.misread(Ambiguous, problemDots)
		}
	}
	text, ok := strings.CutPrefix(raw, s.layout.first)
	if !ok {
		return dst, s.misread(Malformed, fmt.Sprintf("does not begin with %q, as its style has it", s.layout.first))
	}
	switch {
	case s.layout.named:
		return s.readMatrix(dst, text, shape)
	case s.explode && s.layout.between != s.layout.delimiter && typesOf(shape)&nested != 0:
		return s.readParts(dst, strings.Split(text, s.layout.between), shape)
	}
	return s.readList(dst, text, shape)
}

// readMatrix reads the text after the first ";".
func (s *Serializer) readMatrix(dst []byte, text string, shape Shape) ([]byte, error) {
	var onStack [8]Pair
	pairs := onStack[:0]
	for part := range strings.SplitSeq(text, s.layout.between) {
		name, value, _ := strings.Cut(part, "=")
		pair := Pair{raw: value}
		var err error
		if pair.Name, err = s.decode(name); err == nil {
			pair.Value, err = s.decode(value)
		}
		if err != nil {
			return dst, err
		}
		pairs = append(pairs, pair)
	}
	out, err := s.ReadPairs(dst, pairs, shape)
	if err != nil {
		return dst, err
	}
	for i := range pairs {
		if !pairs[i].Taken {
			return dst, s.misread(Malformed, "has a part "+quote(pairs[i].Name)+" that does not belong to it")
		}
	}
	if len(out) == len(dst) {
		return dst, s.misread(Malformed, "is empty")
	}
	return out, nil
}

// readList reads a value that is one text: a delimited list or a single value.
func (s *Serializer) readList(dst []byte, raw string, shape Shape) ([]byte, error) {
	types := typesOf(shape)
	if types&Array != 0 && typesOf(itemOf(shape)) != 0 && typesOf(itemOf(shape))&single == 0 {
		return s.readParts(dst, strings.Split(raw, s.layout.delimiter), shape) // JSON contains commas
	}
	text, err := s.decode(raw)
	if err != nil {
		return dst, err
	}
	return s.divide(dst, text, shape)
}

// divide reads a decoded text. If its type is array or object, it is split at the
// delimiter.
func (s *Serializer) divide(dst []byte, text string, shape Shape) ([]byte, error) {
	types, delimiter := typesOf(shape), ","
	if s.layout.reads != 0 {
		delimiter = string(s.layout.reads)
	}
	switch {
	case types&nested == 0, types&single != 0 && !strings.Contains(text, delimiter):
		return s.readSingle(dst, text, types&^nested)
	case types&Array != 0:
		return s.appendItems(dst, strings.Split(text, delimiter), shape)
	}
	return s.appendObject(dst, strings.Split(text, delimiter), shape)
}

// readParts reads items or properties that were split before decoding.
func (s *Serializer) readParts(dst []byte, parts []string, shape Shape) ([]byte, error) {
	types := typesOf(shape)
	if types&single != 0 && len(parts) == 1 {
		text, err := s.decode(parts[0])
		if err != nil {
			return dst, err
		}
		return s.readSingle(dst, text, types&^nested)
	}
	decoded := make([]string, len(parts))
	for i := range parts {
		var err error
		if decoded[i], err = s.decode(parts[i]); err != nil {
			return dst, err
		}
	}
	if types&Array != 0 {
		return s.appendItems(dst, decoded, shape)
	}
	return s.appendObject(dst, decoded, shape)
}

func (s *Serializer) appendItems(dst []byte, items []string, shape Shape) ([]byte, error) {
	out, item := append(dst, '['), itemOf(shape)
	types := typesOf(item)
	for i := range items {
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = s.readSingle(out, items[i], types); err != nil {
			return dst, err
		}
	}
	return append(out, ']'), nil
}

// appendObject writes an object. If the layout is exploded, texts are "name=value";
// otherwise they are alternating names and values.
func (s *Serializer) appendObject(dst []byte, texts []string, shape Shape) ([]byte, error) {
	o := object{Serializer: s, dst: append(dst, '{'), shape: shape}
	for len(texts) > 0 {
		name, value, ok := strings.Cut(texts[0], "=")
		if !s.explode {
			name, ok = texts[0], len(texts) > 1
			if texts = texts[1:]; ok {
				value = texts[0]
			}
		}
		if !ok {
			return dst, s.misread(Malformed, "has a name "+quote(name)+" without a value")
		}
		texts = texts[1:]
		if err := o.add(name, value); err != nil {
			return dst, err
		}
	}
	return append(o.dst, '}'), nil
}

// An object is an object that is being read, one property at a time.
type object struct {
	*Serializer
	dst   []byte
	shape Shape
	names []string
}

func (o *object) add(name, value string) error {
	for _, other := range o.names {
		if strings.EqualFold(other, name) {
			return o.misread(Duplicate, "has the property "+quote(name)+" twice")
		}
	}
	if !utf8.ValidString(name) {
		return o.misread(Malformed, problemText)
	}
	if len(o.names) > 0 {
		o.dst = append(o.dst, ',')
	}
	o.names = append(o.names, name)
	o.dst = append(wire.AppendString(o.dst, name), ':')
	var property Shape
	if o.shape != nil {
		property, _ = o.shape.Property(name)
	}
	var err error
	o.dst, err = o.readSingle(o.dst, value, typesOf(property))
	return err
}

// readSingle appends a text as a value of one of the types.
func (s *Serializer) readSingle(dst []byte, text string, types Types) ([]byte, error) {
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
