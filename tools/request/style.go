package request

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/strictjson"
)

// In is the part of the request that contains a parameter.
type In string

// The parts of a request. Body is a property of an application/x-www-form-urlencoded
// body, which is written like a query.
const (
	Path   In = "path"
	Query  In = "query"
	Header In = "header"
	Cookie In = "cookie"
	InBody In = "body"
)

// Style is the OpenAPI name of a serialization style for arrays and objects.
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

	// TabDelimited is the collectionFormat tsv of Swagger 2.0. Its other formats are styles of OpenAPI 3, also
	// in paths and headers.
	TabDelimited Style = "tabDelimited"
)

const (
	// MaxLength is the maximum length of the text of one parameter, in bytes, unless
	// Param.MaxLength is set. Servers have far lower limits for request lines and
	// headers.
	MaxLength = 64 << 10

	// MaxDepth is the maximum nesting of a parameter's value.
	MaxDepth = strictjson.MaxDepth
)

// Param describes one parameter, like an OpenAPI Parameter Object.
type Param struct {
	Name string // as the API expects it
	In   In

	// Style is the serialization style. "" means the default: simple for path and
	// header, form for query, cookie and body.
	Style Style

	// Explode writes each item of an array, and each property of an object, as a
	// separate pair or part. OpenAPI's default is true for form and false for every
	// other style; the caller must apply it. It has no effect on deepObject.
	Explode bool

	// AllowReserved leaves the reserved characters of RFC 3986 and existing %XX
	// sequences in a query or form value unencoded. Exceptions: & # + ; and brackets
	// are always encoded, since they would end the value, be read as something else,
	// or are not allowed in a query. OpenAPI ignores AllowReserved elsewhere.
	AllowReserved bool

	// ContentType is the media type of a parameter that has content instead of a
	// schema, or "". The value is then written as a whole: as JSON if the type is
	// JSON; for any other type, a string is written as its text. Style, Explode and
	// AllowReserved do not apply.
	ContentType string

	// Reserved are the names of all parameters in the same part of the request; it
	// may include this parameter. A property of an exploded object must not use one
	// of these names: the API would read it as that parameter, without a check
	// against that parameter's schema.
	Reserved []string

	// Segments says how many segments a path parameter of the style simple has: "" for one,
	// AnySegments, or a pattern such as "shelves/*" that its value must match. Slashes
	// between segments are not encoded then.
	Segments string

	// MaxLength is the maximum number of bytes that Append adds. 0 means the constant
	// MaxLength.
	MaxLength int
}

// AnySegments is the Segments of a parameter that has one or more segments. In a pattern, it is a part that
// has them, and "*" is a part of one segment.
const AnySegments = "**"

// An Error reports an argument that cannot be sent as its parameter. Its text is
// suitable for the model that made the call.
type Error struct {
	In      In
	Name    string
	Problem string // completes "the query argument color …"
}

// Error returns the part of the request, the name and the problem as one sentence.
func (e *Error) Error() string {
	return "the " + string(e.In) + " argument " + e.Name + " " + e.Problem
}

// A Serializer writes and reads the values of one parameter. It is immutable and safe
// for concurrent use.
type Serializer struct {
	in     In
	name   string // as in the document
	layout layout
	values escape // encodes a single value
	items  escape // encodes an item of a delimited list
	names  escape // encodes the name of a pair

	key       []byte         // the name, escaped
	segments  string         // as in Param
	pattern   *regexp.Regexp // of segments; nil if any value has them
	explode   bool
	content   bool
	json      bool // the parameter's content is JSON
	reserved  []string
	maxLength int
}

// NewSerializer returns the Serializer of a parameter. The error names the combination that
// OpenAPI does not define, or the name that cannot be sent.
func NewSerializer(p Param) (*Serializer, error) {
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
		json:      httpheader.IsJSON(httpheader.MediaType(p.ContentType)),
		reserved:  p.Reserved,
		maxLength: p.MaxLength,
	}
	s.maxLength = cmp.Or(s.maxLength, MaxLength)
	if p.In == Path && p.Style == Simple {
		s.segments, s.pattern = p.Segments, compileSegments(p.Segments)
	}
	s.values, s.items, s.names = escapes(p)
	s.key = []byte(p.Name)
	if p.In != Cookie { // in a cookie, a "%" may be part of the name
		s.key = s.names.append(nil, s.key)
	}
	return s, nil
}

// defaultStyle returns the default style for a part of the request, or "" if in is
// unknown.
func defaultStyle(in In) Style {
	switch in {
	case Path, Header:
		return Simple
	case Query, Cookie, InBody:
		return Form
	}
	return ""
}

// A layout is one row of the style table, as an RFC 6570 operator: the text before,
// between and around values.
type layout struct {
	first     string // before the first part
	between   string // between exploded items and properties
	delimiter string // between the items of one value
	named     bool   // values are written as name=value
	bareEmpty bool   // an empty value is written without "="
	deep      bool   // arrays and objects are pairs with the path in brackets as name

	// reads is the delimiter after percent-decoding, for styles where an encoded
	// delimiter looks like an encoded character of an item; 0 for the others.
	reads byte
}

// repeats reports whether a name may have several pairs.
func (l *layout) repeats() bool { return l.between == "&" }

// layoutOf returns the layout of a style in a part of the request, or false if OpenAPI
// defines none.
//
// OpenAPI leaves four cases undefined that documents use. They get the meaning that
// tools agree on:
//
//   - An array that is a property of an exploded object in a query or form is written as one pair
//     for each item, like an exploded array.
//   - A primitive in a delimited style or deepObject is written as name=value.
//   - Exploded spaceDelimited and pipeDelimited are written as exploded form.
//   - Unexploded deepObject is written as deepObject.
func layoutOf(in In, style Style) (layout, bool) {
	switch in {
	case Path:
		switch style {
		case Simple:
			return layout{between: ",", delimiter: ","}, true
		case Label:
			return layout{first: ".", between: ".", delimiter: ","}, true
		case Matrix:
			return layout{first: ";", between: ";", delimiter: ",", named: true, bareEmpty: true}, true
		}
		return delimited(style, layout{}, "%20", "%7C", "%09")
	case Header:
		if style == Simple {
			return layout{between: ",", delimiter: ","}, true
		}
		return delimited(style, layout{}, " ", "|", "")
	case Cookie:
		// RFC 6570 would join the pairs of an exploded value by "&" inside one cookie,
		// which no server splits again. Servers read separate cookies, as in the style
		// "cookie" of OpenAPI 3.2.
		if style == Form {
			return layout{between: "; ", delimiter: ",", named: true}, true
		}
	case Query, InBody:
		switch style {
		case Form:
			return layout{between: "&", delimiter: ",", named: true}, true
		case DeepObject:
			return layout{between: "&", named: true, deep: true}, true
		}
		return delimited(style, layout{between: "&", named: true}, "%20", "%7C", "%09")
	}
	return layout{}, false
}

// delimited returns a layout with the delimiter of a style: a space, a pipe or a tab, as they are sent. "" means that the
// style cannot be sent.
func delimited(style Style, l layout, space, pipe, tab string) (layout, bool) {
	switch style {
	case SpaceDelimited:
		l.delimiter, l.reads = space, ' '
	case PipeDelimited:
		l.delimiter, l.reads = pipe, '|'
	case TabDelimited:
		l.delimiter, l.reads = tab, '\t'
	}
	return l, l.delimiter != ""
}

// checkName returns an error if a parameter with this name cannot be sent.
func checkName(in In, name string) error {
	switch {
	case defaultStyle(in) == "":
		return fmt.Errorf("parameter %q: in is %q; it must be path, query, header or cookie", name, in)
	case name == "":
		return fmt.Errorf("a %s parameter has no name", in)
	case (in == Header || in == Cookie) && !isToken(name):
		return fmt.Errorf("%s parameter %q: the name has characters that no %s name may have", in, name, in)
	case in == Header && ForbiddenHeader(name):
		return fmt.Errorf("header parameter %s: this header belongs to the gateway and cannot be an argument", name)
	}
	return nil
}

// ForbiddenHeader reports whether a header must never be set from an argument. Case
// does not matter, and "_" counts as "-", since CGI and its successors treat them
// alike. The forbidden headers are:
//
//   - Connection management: Connection, Keep-Alive, Proxy-…, TE, Trailer,
//     Transfer-Encoding, Upgrade, HTTP2-Settings, Host, Expect, Via.
//   - The description of the body, which the gateway builds: Content-Length,
//     Content-Encoding, Content-Type; also Accept and Accept-Encoding. OpenAPI ignores
//     parameters named Accept, Content-Type and Authorization.
//   - Credentials: Authorization, Cookie, Set-Cookie and their second versions.
//   - The identity of the client and the host, which upstreams trust because proxies
//     set them: Forwarded, X-Forwarded-…, X-Real-IP, X-Client-IP and similar headers.
//   - Headers that turn the request into another one than the gateway allowed (package
//     httpheader): the X-HTTP-Method-Override family, X-Original-URL, Upgrade.
//   - Headers that tell the upstream which files to serve: X-Sendfile-Type, X-Accel-….
func ForbiddenHeader(name string) bool {
	name = strings.ToLower(httpheader.Canonical(name))
	if slices.ContainsFunc([]string{"proxy-", "x-forwarded-", "x-accel-"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
		return true
	}
	switch name {
	case "connection", "keep-alive", "te", "trailer", "transfer-encoding",
		"host", "expect", "via",
		"content-length", "content-encoding", "content-type", "accept", "accept-encoding",
		"authorization", "cookie", "cookie2", "set-cookie", "set-cookie2",
		"forwarded", "x-forwarded", "x-real-ip", "x-client-ip", "client-ip", "x-cluster-client-ip", "true-client-ip",
		"cf-connecting-ip", "fastly-client-ip", "x-host", "x-original-host",
		"x-sendfile-type":
		return true
	}
	return httpheader.KindOf(name) != httpheader.Ordinary
}
