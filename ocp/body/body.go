// Package body builds a request body from the arguments of a call, in the media
// type that an OpenAPI document declares for it.
//
// New reads the media type and the Encoding Objects once, when a document is
// loaded. An Encoder then takes either the properties of the body, one argument
// each (AppendObject), or the one argument that is the whole body (AppendValue),
// as the JSON that the caller sent and that is checked already. JSON goes out as
// the bytes that came in; forms, multipart parts, text and files are written from
// them. Bytes that are not text come as base64, alone or in an object that also
// tells a file's name and type: FileSchema describes it to the caller.
package body

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/style"
)

// Limits of what is built.
const (
	MaxPairs    = 4096     // pairs of a form
	MaxParts    = 1000     // parts of a multipart body, which is what Go's own reader takes
	MaxForm     = 10 << 20 // bytes of a form body
	MaxName     = 1 << 10  // bytes of the name of a field that the document does not name
	MaxFilename = 255      // bytes of a file name
)

// Kind is how a body is built.
type Kind int

// The kinds of body.
const (
	JSON       Kind = iota + 1 // application/json, text/json, anything +json
	URLEncoded                 // application/x-www-form-urlencoded
	Multipart                  // multipart/form-data
	Text                       // text/* and textual application types
	XML                        // application/xml, text/xml, anything +xml
	Binary                     // everything else
)

// Field is one property of a form or multipart body, as its Encoding Object
// describes it. The zero Field is a property without an Encoding Object.
type Field struct {
	// File marks a property whose value is bytes: an object as in FileSchema, a
	// base64 string, or an array of either, one part each. It has no effect
	// outside multipart/form-data.
	File bool

	// FileOrText marks a property that the document declares as text and that may
	// well be a file: an object as in FileSchema is a part with a file name, text
	// is a part without one. It has no effect outside multipart/form-data.
	FileOrText bool

	// ContentType is the media type of the value, of each item if the value is
	// an array. For a File it may be a list or have ranges ("image/png,
	// image/*"), of which the file names one. The default is text/plain for
	// strings, numbers and booleans, application/json for objects, and
	// application/octet-stream for a File.
	ContentType string

	// HasStyle says that the Encoding Object has any of style, explode and
	// allowReserved. ContentType is then ignored and the value is written as a
	// query parameter is; without it, Style, Explode and AllowReserved are. A
	// File has no style.
	HasStyle      bool
	Style         style.Style // "" is form
	Explode       bool        // with its default applied
	AllowReserved bool
	Reserved      []string // the names of the other properties; see style.Param
}

// An Encoder builds the bodies of one operation. It is immutable and safe for
// concurrent use.
type Encoder struct {
	kind     Kind
	declared string // as in the document
	types    accepted
	fields   map[string]*field
}

// New returns the Encoder of a media type, with the Encoding Objects of the
// properties by name. Its error names what cannot be served: a media type that
// is malformed or a multipart type other than multipart/form-data, or a style
// that OpenAPI does not define for a form.
//
// The range application/* is served as application/json, text/* as text/plain,
// multipart/* as multipart/form-data, and any other range as binary.
func New(mediaType string, fields map[string]Field) (*Encoder, error) {
	mediaType = strings.TrimSpace(mediaType)
	base, parameters, err := mime.ParseMediaType(mediaType)
	if errors.Is(err, mime.ErrInvalidMediaParameter) {
		mediaType, err = base, nil // a type is known; its parameter is nothing to send
	}
	if err != nil || !isMediaType(base) {
		return nil, fmt.Errorf("request body: %q is not a media type", mediaType)
	}
	e := &Encoder{kind: kindOf(base), declared: oneLine(mediaType, base, parameters), fields: make(map[string]*field, len(fields))}
	switch {
	case e.kind == 0:
		return nil, fmt.Errorf("request body: no body can be built as %s: of the multipart types, only multipart/form-data is served", base)
	case base == "application/*":
		e.declared = "application/json"
	case base == "text/*":
		e.declared = "text/plain"
	}
	e.types = accepted{{base: base, full: e.declared, charset: parameters["charset"]}}
	for name, f := range fields {
		if e.fields[name], err = newField(e.kind, name, f); err != nil {
			return nil, fmt.Errorf("request body: %w", err)
		}
	}
	return e, nil
}

// NewRange returns the Encoder of a media type that the document gives as a range
// such as */* or application/*, of which the caller knows the kind: JSON is sent as
// application/json, Binary as the type that the file names. Bodies are read back if
// their type is in the range and of that kind.
func NewRange(mediaRange string, kind Kind) (*Encoder, error) {
	if kind != JSON && kind != Binary {
		return nil, fmt.Errorf("request body: kind %d of %q is neither JSON nor Binary", kind, mediaRange)
	}
	e, err := New(mediaRange, nil)
	if err != nil {
		return nil, err
	}
	e.kind = kind
	base := e.types[0].base
	switch {
	case kind == JSON:
		e.declared = "application/json"
	case base == "application/*":
		e.declared = octetStream
	}
	e.types[0].full = e.declared
	return e, nil
}

func kindOf(base string) Kind {
	switch base {
	case "application/json", "text/json", "application/*":
		return JSON
	case "application/x-www-form-urlencoded":
		return URLEncoded
	case "multipart/form-data", "multipart/*":
		return Multipart
	case "application/xml", "text/xml":
		return XML
	case "application/yaml", "application/x-yaml", "application/graphql", "application/javascript",
		"application/x-ndjson", "application/jsonl", "application/jwt", "application/sql",
		"application/sparql-query", "application/sparql-update":
		return Text
	}
	switch {
	case strings.HasSuffix(base, "+json"):
		return JSON
	case strings.HasSuffix(base, "+xml"):
		return XML
	case strings.HasPrefix(base, "text/"), strings.HasSuffix(base, "+yaml"):
		return Text
	case strings.HasPrefix(base, "multipart/"):
		return 0
	}
	return Binary
}

// Kind returns how the body is built. A body of kind Binary, and a File of kind
// Multipart, is described to the caller by FileSchema.
func (e *Encoder) Kind() Kind {
	return e.kind
}

// ContentType returns the media type as the document declares it. The one to
// send is what AppendObject and AppendValue return, for it may have a boundary
// or the concrete type of a file.
func (e *Encoder) ContentType() string {
	return e.declared
}

// TakesObject reports whether AppendObject serves the media type: whether the
// properties of a body can be arguments of their own.
func (e *Encoder) TakesObject() bool {
	return e.kind == JSON || e.kind == URLEncoded || e.kind == Multipart
}

// AppendObject appends the body whose properties are members, and returns the
// Content-Type to send it with. Each name must be there once. A *style.Error
// tells which argument cannot be sent and why; dst then comes back as it was.
func (e *Encoder) AppendObject(dst []byte, members []wire.Member) (body []byte, contentType string, err error) {
	switch e.kind {
	case JSON:
		return appendJSON(dst, members), e.declared, nil
	case URLEncoded:
		body, err = e.appendForm(dst, members)
		return body, e.declared, err
	case Multipart:
		return e.appendMultipart(dst, members)
	}
	return dst, "", refuse("body", "cannot be built from properties as "+e.declared+": give the whole body as one argument")
}

// AppendValue appends the body that value is, and returns the Content-Type to
// send it with:
//
//   - JSON: the value as it came;
//   - a form: the value must be an object, whose members are its fields;
//   - text: a string as its text, any other value as its JSON;
//   - XML: a string as its text; other values are refused, since a document says
//     too little to build XML from them;
//   - binary: base64 or an object as in FileSchema, whose type may name the
//     concrete type where the document declares a range.
//
// A *style.Error tells what is wrong with the value; dst then comes back as it
// was.
func (e *Encoder) AppendValue(dst []byte, value jsontext.Value) (body []byte, contentType string, err error) {
	value = bytes.Trim(value, " \t\r\n")
	switch e.kind {
	case JSON:
		return append(dst, value...), e.declared, nil
	case Binary:
		return e.appendBinary(dst, value)
	case Text, XML:
		return e.appendText(dst, value)
	}
	if value.Kind() != '{' {
		return dst, "", refuse("body", "must be a JSON object, whose members are the fields of the form")
	}
	members, err := wire.Members(nil, value)
	if err != nil {
		return dst, "", refuse("body", "is not valid JSON: "+err.Error())
	}
	return e.AppendObject(dst, members)
}

// appendJSON joins the members to an object without reading them.
func appendJSON(dst []byte, members []wire.Member) []byte {
	dst = append(dst, '{')
	for i, m := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = wire.AppendString(dst, m.Name)
		dst = append(dst, ':')
		dst = append(dst, m.Value...)
	}
	return append(dst, '}')
}

// refuse returns the error of one argument.
func refuse(name, problem string) error {
	return &style.Error{In: style.Body, Name: name, Problem: problem}
}
