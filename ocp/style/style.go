// Package style writes the value of an argument into the part of a request that
// an OpenAPI parameter names: a path segment, the query, a header, a cookie, or
// a form body. It covers the style table of OpenAPI 3.0 and 3.1 ("Style Values")
// and follows RFC 6570 where that table does.
//
// New reads a parameter's description once, when a document is loaded, and
// refuses what OpenAPI does not define. Append then takes the JSON of one
// argument, as the caller sent it and already checked, and appends the text of
// the request; it walks the bytes and decodes nothing but string escapes, so
// that numbers keep their digits and objects their order. Whatever a value holds,
// it stays inside its place: a path segment, one pair of a query, one header line.
package style

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// In is the part of the request that a parameter goes to.
type In string

// The places of parameters. Body is a property of an
// application/x-www-form-urlencoded body, which is written as a query is.
const (
	Path   In = "path"
	Query  In = "query"
	Header In = "header"
	Cookie In = "cookie"
	Body   In = "body"
)

// Style is how arrays and objects are laid out, by its name in OpenAPI.
type Style string

// The styles of OpenAPI 3.0 and 3.1.
const (
	Matrix         Style = "matrix"
	Label          Style = "label"
	Simple         Style = "simple"
	Form           Style = "form"
	SpaceDelimited Style = "spaceDelimited"
	PipeDelimited  Style = "pipeDelimited"
	DeepObject     Style = "deepObject"
)

const (
	// MaxLength is how many bytes the text of one parameter may have, unless
	// Param.MaxLength says otherwise. Servers refuse request lines and headers
	// far shorter than this.
	MaxLength = 64 << 10

	// MaxDepth is how many levels the value of a parameter may nest.
	MaxDepth = wire.MaxDepth
)

// Param describes one parameter, as its OpenAPI Parameter Object does.
type Param struct {
	Name string // as the API reads it
	In   In

	// Style is the layout; "" is the default of the place: simple for path and
	// header, form for query, cookie and body.
	Style Style

	// Explode gives each item of an array, each property of an object, a pair
	// or part of its own. OpenAPI's default is true for form and false for
	// every other style; the caller applies it. It changes nothing in
	// deepObject, which has no other form.
	Explode bool

	// AllowReserved lets the reserved characters of RFC 3986 and existing %XX
	// triples of a query or form value pass. The characters that would end the
	// value or be read as something else are encoded all the same: & # + ; and
	// the brackets, which no query may hold. OpenAPI ignores it elsewhere.
	AllowReserved bool

	// ContentType is the media type of a parameter that has content in place
	// of a schema, "" if it has none. The value is then written whole, as JSON
	// if the type is JSON; a string of any other type is written as its text.
	// Style, Explode and AllowReserved do not apply to it.
	ContentType string

	// Reserved are the names of the parameters that go to the same place, its
	// own may be among them. An exploded object may have no property by whose
	// name the API would read one of the others, unseen by that one's schema.
	Reserved []string

	// MaxLength is how many bytes Append may add, 0 for the constant MaxLength.
	MaxLength int
}

// An Error is a value that cannot be sent as the parameter it was given for.
// Its text is fit for the model that made the call.
type Error struct {
	In      In
	Name    string
	Problem string // completes "the query argument color …"
}

// Error returns the place, the name and the problem as one sentence.
func (e *Error) Error() string {
	return "the " + string(e.In) + " argument " + e.Name + " " + e.Problem
}

// A Serializer writes the values of one parameter. It is immutable and safe for
// concurrent use.
type Serializer struct {
	in     In
	name   string // as in the document
	layout layout
	values escape // for a value that stands alone
	items  escape // for a value that stands in a delimited list
	names  escape // for the name of a pair

	key       []byte // the name, escaped
	explode   bool
	content   bool
	json      bool // content is a JSON media type
	reserved  []string
	maxLength int
}

// New returns the Serializer of a parameter. Its errors name the combination
// that OpenAPI does not define, or the name that cannot be sent.
func New(p Param) (*Serializer, error) {
	if p.Style == "" || p.ContentType != "" {
		p.Style = defaultStyle(p.In)
	}
	if err := checkName(p.In, p.Name); err != nil {
		return nil, err
	}
	form, ok := layoutOf(p.In, p.Style)
	if !ok {
		return nil, fmt.Errorf("parameter %s: OpenAPI defines no style %q for a %s parameter", p.Name, p.Style, p.In)
	}
	s := &Serializer{
		in:        p.In,
		name:      p.Name,
		layout:    form,
		explode:   p.Explode,
		content:   p.ContentType != "",
		json:      isJSON(p.ContentType),
		reserved:  p.Reserved,
		maxLength: p.MaxLength,
	}
	if s.maxLength == 0 {
		s.maxLength = MaxLength
	}
	s.values, s.items, s.names = escapes(p)
	s.key = []byte(p.Name)
	if p.In != Cookie { // there a "%" may be part of the name
		s.key = s.names.append(nil, s.key)
	}
	return s, nil
}

// defaultStyle returns the style of a parameter that names none, "" if there is
// no such place.
func defaultStyle(in In) Style {
	switch in {
	case Path, Header:
		return Simple
	case Query, Cookie, Body:
		return Form
	}
	return ""
}

// Append appends the text of value, a JSON value that has been checked already.
//
//   - In a path it is what replaces {name}, the prefix of the style included.
//     Refused is what could leave the segment or change the path, even where an
//     upstream decodes it twice: a text that is empty or blank, that has a
//     segment "." or "..", a control character, or a slash that is
//     percent-encoded already. A plain slash is encoded.
//   - In a query or a form body it is pairs joined by "&", without a leading "?"
//     or "&". A space is %20, which every form decoder reads.
//   - In a header it is the value of the line, with the space around each value
//     taken off, as every server takes it off. Control characters are refused.
//     Text outside ASCII, which servers read in different ways or not at all, is
//     percent-encoded, as RFC 6570 has it; ASCII stays as it is, but for a comma
//     inside an item.
//   - In a cookie it is pairs joined by "; ", one for each item or property of an
//     exploded value, with everything encoded that a cookie cannot hold.
//
// Null is an absent value, and so are an empty array and an empty object, as in
// RFC 6570 section 2.3; null items and properties are left out. An absent value
// appends nothing, and neither does an empty header: leave the pair, header or
// cookie away. A path has no absent values: they are refused.
//
// Items and properties that are arrays or objects themselves, for which OpenAPI
// defines nothing but in deepObject, are written as compact JSON, escaped as any
// other text.
//
// The error is an *Error; dst then comes back as it was.
func (s *Serializer) Append(dst []byte, value jsontext.Value) ([]byte, error) {
	w := writer{Serializer: s, dst: dst, start: len(dst)}
	if err := w.write(value); err != nil {
		return dst, err
	}
	if err := w.finish(); err != nil {
		return dst, err
	}
	return w.dst, nil
}

func (s *Serializer) refuse(problem string) error {
	return &Error{In: s.in, Name: s.name, Problem: problem}
}
