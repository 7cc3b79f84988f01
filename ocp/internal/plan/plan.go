// Package plan describes how the arguments of a tool become an HTTP request. Package tool
// makes the plan of a tool from its operation and writes requests with it. Package match
// uses the same plan to read requests.
package plan

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/mediatype"
	"github.com/fairwayhq/fairway/ocp/internal/body"
	"github.com/fairwayhq/fairway/ocp/internal/style"
	"github.com/fairwayhq/fairway/ocp/internal/validate"
)

// A Plan is what package match needs to know of a tool. It is immutable.
type Plan struct {
	Arguments []Argument      // by position in Tool.All
	Parts     []Part          // of the path
	Base      string          // the escaped part of the path before the template
	Identity  []Identifier    // what identifies the operation's requests, in addition to method and path
	Body      *Body           // nil if the operation has no body
	OpenBody  bool            // the body allows properties that the document does not name
	Taken     map[string]bool // properties that are read-only or are arguments under another name; nil unless OpenBody

	Schema     func() jsontext.Value // returns the full schema of the arguments
	Validator  *validate.Schema      // of Schema
	Simplified bool                  // the arguments list smaller schemas than those in Schema
	Unchecked  bool                  // the full schema is too large to keep: plain requests are rejected

	once  sync.Once
	cache any
}

// Cache returns what the first call of compute returned. Package match keeps what it
// derives from the plan here, as most tools never get a plain request.
func (p *Plan) Cache(compute func() any) any {
	p.once.Do(func() { p.cache = compute() })
	return p.cache
}

// An Argument describes how one argument becomes part of the request.
type Argument struct {
	Param        *style.Serializer // nil for an argument of the body and for the body's media type
	Fill         jsontext.Value    // sent if the argument is not given; nil for nothing
	Fast         *validate.Fast    // nil if values need the full validator
	DropNull     bool              // null is treated as absent
	NeededInBody bool              // required by the body's schema
	Filled       bool              // the gateway fills it, with Fill or for each call (Call.Fill)
	Guarded      bool              // a shape fixes or hides it: it is Filled, callers do not know it, and rules see its value
	Needed       bool              // the document requires it, with or without a default
}

// SentAs returns the name and the decoded value of a query parameter, header or cookie
// that the gateway fills with a fixed value. Name is that of the argument in the document.
func (a *Argument) SentAs(in style.In, name string) (sentName, value string) {
	text, err := a.Param.Append(nil, a.Fill)
	if err != nil {
		return name, "" // the build has checked that the value can be sent
	}
	switch in {
	case style.Query:
		if pairs, err := style.ParsePairs(nil, style.Query, string(text)); err == nil && len(pairs) == 1 {
			return pairs[0].Name, pairs[0].Value
		}
	case style.Cookie:
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
	In     style.In // style.Query or style.Header
	Name   string   // of a header in canonical form
	Values []string // decoded values that the request must have exactly; nil for any
}

// IsFixed reports whether requests must have the identifier with a certain value.
func (id *Identifier) IsFixed() bool { return id.Values != nil }

// A Body describes how the arguments of the body become the request body.
type Body struct {
	Encoder  *body.Encoder
	Required bool
	Whole    int // position of the argument that is the whole body; -1 if its properties are arguments

	// Encoders holds an encoder for each media type that the caller can choose with the
	// argument at position TypeArgument. It is nil if there is no choice.
	Encoders     map[string]*body.Encoder
	TypeArgument int
}

// IsType reports whether the argument at position i is the media type of the body.
func (b *Body) IsType(i int) bool {
	return b != nil && b.Encoders != nil && b.TypeArgument == i
}

// EncoderFor returns the encoder for bodies of the given Content-Type, or the default
// encoder if there is none for it.
func (b *Body) EncoderFor(contentType string) *body.Encoder {
	if encoder := b.Encoders[mediatype.Base(contentType)]; encoder != nil {
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
