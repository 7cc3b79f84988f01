package request

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/strictjson"
)

// Limits on bodies.
const (
	MaxPairs    = 4096     // name-value pairs of a form
	MaxParts    = 1000     // parts of a multipart body, the limit of mime/multipart
	MaxForm     = 10 << 20 // bytes of a form body
	MaxName     = 1 << 10  // bytes of the name of a field that the document does not declare
	MaxFilename = 255      // bytes of a file name
)

// Kind is the way in which a body is encoded.
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

// Field is one property of a form or multipart body, as its Encoding Object describes
// it. The zero Field is a property without an Encoding Object.
type Field struct {
	// File marks a property whose value is binary: an object as in FileSchema, a
	// base64 string, or an array of either, which becomes one part per item. It has
	// no effect outside multipart/form-data.
	File bool

	// FileOrText marks a property that the document declares as text but that may
	// also be a file. An object as in FileSchema becomes a part with a file name;
	// text becomes a part without one. It has no effect outside multipart/form-data.
	FileOrText bool

	// ContentType is the media type of the value, or of each item if the value is an
	// array. For a File it may be a list and may contain ranges ("image/png,
	// image/*"); the file's own type selects one of them. The default is text/plain
	// for strings, numbers and booleans, application/json for objects, and
	// application/octet-stream for a File.
	ContentType string

	// HasStyle means that the Encoding Object sets style, explode or allowReserved.
	// If true, ContentType is ignored and the value is written like a query
	// parameter. If false, Style, Explode and AllowReserved are ignored. A File has
	// no style.
	HasStyle      bool
	Style         Style // "" means form
	Explode       bool  // with its default applied
	AllowReserved bool
	Reserved      []string // names of the other properties; see request.Param
}

// An Encoder builds and reads the bodies of one operation. It is immutable and safe
// for concurrent use.
type Encoder struct {
	kind     Kind
	declared string // as the document declares it
	types    accepted
	fields   map[string]*field
}

// NewEncoder returns the Encoder of a media type. Fields has the Encoding Objects by property
// name. New returns an error for:
//
//   - a malformed media type;
//   - a multipart type other than multipart/form-data;
//   - a style that OpenAPI does not define for a form.
//
// The range application/* is treated as application/json, text/* as text/plain,
// multipart/* as multipart/form-data, and any other range as binary.
func NewEncoder(mediaType string, fields map[string]Field) (*Encoder, error) {
	mediaType = strings.TrimSpace(mediaType)
	base, parameters, err := mime.ParseMediaType(mediaType)
	if errors.Is(err, mime.ErrInvalidMediaParameter) {
		mediaType, err = base, nil // the type is valid; the malformed parameters are dropped
	}
	if err != nil || !isMediaType(base) {
		return nil, fmt.Errorf("request body: %q is not a media type", mediaType)
	}
	e := &Encoder{kind: kindOf(base), declared: oneLine(mediaType, base, parameters), fields: make(map[string]*field, len(fields))}
	switch {
	case e.kind == 0:
		return nil, fmt.Errorf("request body: %s is not supported; the only supported multipart type is multipart/form-data", base)
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

// NewRangeEncoder returns the Encoder of a media type that the document declares as a range,
// such as */* or application/*. The caller chooses the kind. JSON is sent as
// application/json, Binary as the type that the file names. A body can be read back
// if its type is in the range and of that kind.
func NewRangeEncoder(mediaRange string, kind Kind) (*Encoder, error) {
	if kind != JSON && kind != Binary {
		return nil, fmt.Errorf("request body: kind %d of %q is neither JSON nor Binary", kind, mediaRange)
	}
	e, err := NewEncoder(mediaRange, nil)
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
	case "application/*":
		return JSON
	case "application/x-www-form-urlencoded":
		return URLEncoded
	case "multipart/form-data", "multipart/*":
		return Multipart
	case "application/xml", "text/xml":
		return XML
	}
	switch {
	case httpheader.IsJSON(base):
		return JSON
	case strings.HasSuffix(base, "+xml"):
		return XML
	case httpheader.IsText(base):
		return Text
	case strings.HasPrefix(base, "multipart/"):
		return 0
	}
	return Binary
}

// Kind returns how the body is encoded. FileSchema describes the argument for a body
// of kind Binary, and for a File in a body of kind Multipart.
func (e *Encoder) Kind() Kind {
	return e.kind
}

// ContentType returns the media type as the document declares it. The Content-Type to
// send is the one that AppendObject and AppendValue return, since it may have a
// boundary or the concrete type of a file.
func (e *Encoder) ContentType() string {
	return e.declared
}

// TakesObject reports whether AppendObject supports the media type, that is, whether
// the properties of a body can be separate arguments.
func (e *Encoder) TakesObject() bool {
	return e.kind == JSON || e.kind == URLEncoded || e.kind == Multipart
}

// AppendObject appends the body whose properties are members, and returns the
// Content-Type to send with it. Names must be unique. If an argument cannot be sent,
// the error is a *request.Error that names it, and dst is returned unchanged.
func (e *Encoder) AppendObject(dst []byte, members []strictjson.Member) (body []byte, contentType string, err error) {
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

// AppendValue appends the body for a single argument, and returns the Content-Type to
// send with it:
//
//   - JSON: the value unchanged.
//   - Form: the value must be an object; its members are the fields.
//   - Text: the content of a string, or the JSON of any other value.
//   - XML: the content of a string. Other values are rejected, since documents do not
//     describe enough to build XML from them.
//   - Binary: base64, or an object as in FileSchema. Its type may name the concrete
//     media type if the document declares a range.
//
// If the value cannot be sent, the error is a *request.Error, and dst is returned
// unchanged.
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
	members, err := strictjson.Members(nil, value)
	if err != nil {
		return dst, "", refuse("body", "is not valid JSON: "+err.Error())
	}
	return e.AppendObject(dst, members)
}

// appendJSON writes the members as an object without parsing their values.
func appendJSON(dst []byte, members []strictjson.Member) []byte {
	dst = append(dst, '{')
	for _, m := range members {
		dst = strictjson.AppendString(strictjson.Comma(dst), m.Name)
		dst = append(dst, ':')
		dst = append(dst, m.Value...)
	}
	return append(dst, '}')
}

// refuse returns the error for one argument.
func refuse(name, problem string) error {
	return &Error{In: InBody, Name: name, Problem: problem}
}

// appendBinary appends the bytes of a file argument that is the whole body. Its file
// name is not sent.
func (e *Encoder) appendBinary(dst []byte, value jsontext.Value) ([]byte, string, error) {
	f, err := readFile("body", value)
	if err != nil {
		return dst, "", err
	}
	contentType, problem := e.types.choose(f.wanted)
	if problem != "" {
		return dst, "", refuse("body", problem)
	}
	body, err := f.appendData(dst, "body")
	if err != nil {
		return dst, "", err
	}
	return body, contentType, nil
}

func (e *Encoder) appendText(dst []byte, value jsontext.Value) ([]byte, string, error) {
	if e.kind == XML && value.Kind() != '"' {
		return dst, "", refuse("body", "must be a string that holds the XML document")
	}
	body, err := appendAsText(dst, value)
	if err != nil {
		return dst, "", refuse("body", "is not valid JSON")
	}
	contentType, problem := e.textType(body[len(dst):])
	if problem != "" {
		return dst, "", refuse("body", problem)
	}
	return body, contentType, nil
}

// textType returns the Content-Type of a text body. UTF-8 is added as the charset if
// the type declares none and needs one. XML declares its encoding itself.
func (e *Encoder) textType(text []byte) (contentType, problem string) {
	charset := strings.ToLower(e.types[0].charset)
	switch {
	case charset == "utf-8" || charset == "utf8" || isASCII(text):
		return e.declared, ""
	case charset != "":
		return "", "must be plain ASCII: the API takes it in " + charset + ", and it is sent as UTF-8"
	case e.kind == XML:
		return e.declared, ""
	}
	return e.declared + "; charset=utf-8", ""
}

// appendAsText appends the content of a string, or the JSON of any other value.
func appendAsText(dst []byte, value jsontext.Value) ([]byte, error) {
	if value.Kind() == '"' {
		return jsontext.AppendUnquote(dst, value)
	}
	return append(dst, value...), nil
}

func isASCII(text []byte) bool {
	return !bytes.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf })
}
