package request

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/tools/schema"
)

// An Argument describes how one argument becomes part of the request.
type Argument struct {
	Param        *Serializer    // nil for an argument of the body and for the body's media type
	Fill         jsontext.Value // sent if the argument is not given; nil for nothing
	Fast         *schema.Fast   // nil if values need the full validator
	DropNull     bool           // null is treated as absent
	NeededInBody bool           // required by the body's schema
	Filled       bool           // the gateway fills it, with Fill or for each call (Call.Fill)
	Guarded      bool           // a shape fixes or hides it: it is Filled, callers do not know it, and rules see its value
	Needed       bool           // the document requires it, with or without a default
}

// SentAs returns the name and the decoded value of a query parameter, header or cookie
// that the gateway fills with a fixed value. Name is that of the argument in the document.
func (a *Argument) SentAs(in In, name string) (sentName, value string) {
	text, err := a.Param.Append(nil, a.Fill)
	if err != nil {
		return name, "" // the build has checked that the value can be sent
	}
	switch in {
	case Query:
		if pairs, err := ParsePairs(nil, Query, string(text)); err == nil && len(pairs) == 1 {
			return pairs[0].Name, pairs[0].Value
		}
	case Cookie:
		_, text, _ := strings.Cut(string(text), "=")
		return name, text
	}
	return name, string(text)
}

// A Part is a literal part of the escaped path, or an argument.
type Part struct {
	Literal  string
	Argument int // position of the argument, if Literal is empty
}

// An Identifier is a query parameter or header that distinguishes the requests of an
// operation from those of others with the same method and path.
type Identifier struct {
	In     In       // request.Query or request.Header
	Name   string   // of a header in canonical form
	Values []string // decoded values that the request must have exactly; nil for any
}

// IsFixed reports whether requests must have the identifier with a certain value.
func (id *Identifier) IsFixed() bool { return id.Values != nil }

// A BodyPlan describes how the arguments of the body become the request body.
type BodyPlan struct {
	Encoder  *Encoder
	Required bool
	Whole    int // position of the argument that is the whole body; -1 if its properties are arguments

	// Encoders holds an encoder for each media type that the caller can choose with the
	// argument at position TypeArgument. It is nil if there is no choice.
	Encoders     map[string]*Encoder
	TypeArgument int
}

// IsType reports whether the argument at position i is the media type of the body.
func (b *BodyPlan) IsType(i int) bool {
	return b != nil && b.Encoders != nil && b.TypeArgument == i
}

// EncoderFor returns the encoder for bodies of the given Content-Type, or the default
// encoder if there is none for it.
func (b *BodyPlan) EncoderFor(contentType string) *Encoder {
	if encoder := b.Encoders[httpheader.MediaType(contentType)]; encoder != nil {
		return encoder
	}
	return b.Encoder
}

// Fits reports whether a value has one of the types. If types is empty, any value does.
func Fits(value jsontext.Value, types []string) bool {
	if len(types) == 0 {
		return true
	}
	switch value.Kind() {
	case 'n':
		return slices.Contains(types, "null")
	case 't', 'f':
		return slices.Contains(types, "boolean")
	case '"':
		return slices.Contains(types, "string")
	case '0':
		return slices.Contains(types, "number") || slices.Contains(types, "integer")
	case '[':
		return slices.Contains(types, "array")
	}
	return slices.Contains(types, "object")
}

// SameScalar reports whether two JSON strings, numbers or booleans are equal.
func SameScalar(a, b jsontext.Value) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if a.Kind() != b.Kind() || a.Kind() == '{' || a.Kind() == '[' {
		return false
	}
	x, y := slices.Clone(a), slices.Clone(b)
	return x.Canonicalize() == nil && y.Canonicalize() == nil && bytes.Equal(x, y)
}
