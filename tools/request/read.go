package request

import (
	"bytes"
	"encoding/base64"
	"errors"
	"mime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
)

// The kinds of *request.ReadError that only bodies have.
const (
	MediaType ReadKind = "media_type" // the document does not declare the Content-Type
	Charset   ReadKind = "charset"    // the charset is not UTF-8
)

func unread(kind ReadKind, name, problem string) error {
	return &ReadError{Kind: kind, In: InBody, Name: name, Problem: problem}
}

// ReadObject is the inverse of AppendObject: it appends the properties of a body that
// has this Content-Type. The shape describes the whole body. It is used only for
// forms, because JSON values carry their types. The values may point into body. The
// error is a *request.ReadError.
//
// A file of a multipart body becomes an object as in FileSchema. If a form repeats a
// name, its shape must be an array or unknown.
func (e *Encoder) ReadObject(dst []strictjson.Member, body []byte, contentType string, shape Shape) ([]strictjson.Member, error) {
	parameters, err := e.readType(body, contentType)
	if err != nil {
		return dst, err
	}
	switch e.kind {
	case JSON:
		members, err := strictjson.Members(dst, body)
		if errors.Is(err, strictjson.ErrNotObject) {
			return dst, unread(Unfit, "", "must be a JSON object")
		}
		if err != nil {
			return dst, unread(Malformed, "", "is not JSON that can be read: "+err.Error())
		}
		return members, nil
	case URLEncoded:
		pairs, err := ParsePairs(nil, InBody, string(body))
		if err != nil {
			return dst, err
		}
		return e.readForm(dst, &fields{pairs: pairs}, shape)
	case Multipart:
		f, err := readParts(body, parameters["boundary"])
		if err != nil {
			return dst, err
		}
		return e.readForm(dst, f, shape)
	}
	return dst, unread(MediaType, "", "has no properties as "+e.declared)
}

// ReadValue is the inverse of AppendValue: it appends the JSON for a body that has
// this Content-Type and is not empty.
func (e *Encoder) ReadValue(dst, body []byte, contentType string, shape Shape) ([]byte, error) {
	switch e.kind {
	case URLEncoded, Multipart:
		members, err := e.ReadObject(nil, body, contentType, shape)
		if err != nil {
			return dst, err
		}
		return appendJSON(dst, members), nil
	}
	if _, err := e.readType(body, contentType); err != nil {
		return dst, err
	}
	switch e.kind {
	case JSON:
		if err := strictjson.Check(body); err != nil {
			return dst, unread(Malformed, "", "is not JSON that can be read: "+err.Error())
		}
		return append(dst, bytes.Trim(body, " \t\r\n")...), nil
	case Binary:
		return appendFile(dst, body, "", contentType), nil
	}
	if !utf8.Valid(body) {
		return dst, unread(Charset, "", "is not text in UTF-8")
	}
	return strictjson.AppendString(dst, body), nil
}

// readType returns the parameters of a Content-Type. It returns an error if the
// Encoder does not write bodies of that type.
func (e *Encoder) readType(body []byte, contentType string) (parameters map[string]string, err error) {
	if contentType == e.declared && e.kind != Multipart {
		return nil, e.checkCharset(body, e.types[0].charset)
	}
	if contentType == "" {
		return nil, unread(MediaType, "", "has no Content-Type: the document declares "+e.declared)
	}
	base, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || !isMediaType(base) {
		return nil, unread(Malformed, "", "has a Content-Type that cannot be read")
	}
	if e.kind == Multipart && strings.IndexByte(contentType, '*') >= 0 {
		return nil, unread(Ambiguous, "", "has a Content-Type in extended notation, of which servers read different boundaries")
	}
	declared := e.types[0]
	known := declared.base == base
	if e.kind == Binary || declared.isRange() {
		known = declared.takes(base) && (kindOf(base) == e.kind || e.kind == Binary)
	}
	if !known || strings.Contains(base, "*") {
		return nil, unread(MediaType, "", "is "+text.Cut(base, maxShown)+", and the document declares "+e.declared)
	}
	return parameters, e.checkCharset(body, parameters["charset"])
}

func (e *Encoder) checkCharset(body []byte, charset string) error {
	switch strings.ToLower(charset) {
	case "", "utf-8", "utf8":
		return nil
	case "us-ascii", strings.ToLower(e.types[0].charset):
		if isASCII(body) && !strings.HasPrefix(strings.ToLower(charset), "utf") {
			return nil
		}
	}
	if e.kind == Binary {
		return nil
	}
	return unread(Charset, "", "is in the charset "+text.Cut(charset, maxShown)+": send it in UTF-8")
}

// readForm reads the properties of a form.
func (e *Encoder) readForm(dst []strictjson.Member, f *fields, shape Shape) ([]strictjson.Member, error) {
	dst, err := e.readStyled(dst, f, shape)
	if err != nil {
		return dst, err
	}
	for i := range f.pairs {
		if f.pairs[i].Taken {
			continue
		}
		name := f.pairs[i].Name
		value, err := e.readField(f, f.pairs[i:], name, shape)
		if err != nil {
			return dst, err
		}
		dst = append(dst, strictjson.Member{Name: name, Value: value})
	}
	return dst, nil
}

// readStyled reads the fields that have a style. Exploded objects take all remaining
// names, so all other fields must be read first.
func (e *Encoder) readStyled(dst []strictjson.Member, f *fields, shape Shape) ([]strictjson.Member, error) {
	for _, objects := range [...]bool{false, true} {
		for _, name := range e.styled() {
			property := propertyOf(shape, name)
			if objects != (property != nil && property.Types()&Object != 0) {
				continue
			}
			f.hideOthers(e, name)
			value, err := e.fields[name].styled.ReadPairs(nil, f.pairs, property)
			f.showOthers()
			if err != nil {
				return dst, err
			}
			if len(value) > 0 {
				dst = append(dst, strictjson.Member{Name: name, Value: value})
			}
		}
	}
	return dst, nil
}

// styled returns the names of the fields that have a style, sorted.
func (e *Encoder) styled() []string {
	var names []string
	for name, f := range e.fields {
		if f.styled != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// readField reads all pairs that have the same name.
func (e *Encoder) readField(f *fields, pairs []Pair, name string, shape Shape) ([]byte, error) {
	plan, err := e.field(name)
	if err != nil {
		return nil, unread(Malformed, text.Cut(name, maxShown), "has a name that is empty or too long")
	}
	property := propertyOf(shape, name)
	var types, items Types
	var item Shape
	if property != nil {
		types = property.Types()
		if item = property.Item(); item != nil {
			items = item.Types()
		}
	}
	first := len(f.pairs) - len(pairs)
	var values [][]byte
	listed := plan.kind != JSON && types&Array != 0
	for i := first; i < len(f.pairs); i++ {
		p := &f.pairs[i]
		if p.Taken || p.Name != name {
			continue
		}
		p.Taken = true
		wanted := types
		if listed && types&^(Array|Null) == 0 {
			wanted = items
		}
		value, err := f.value(i, plan, wanted)
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	switch {
	case len(values) == 1 && (!listed || types&^(Array|Null) != 0):
		return values[0], nil
	case len(values) > 1 && !listed && (types != 0 || plan.kind == JSON):
		return nil, unread(Duplicate, text.Cut(name, maxShown), "is given more than once, and servers differ in which one they take: give it once")
	}
	return append(append([]byte{'['}, bytes.Join(values, []byte{','})...), ']'), nil
}

func propertyOf(shape Shape, name string) Shape {
	if shape == nil {
		return nil
	}
	property, _ := shape.Property(name)
	return property
}

// appendFile appends a file as an object of FileSchema.
func appendFile(dst, content []byte, filename, contentType string) []byte {
	dst = append(dst, `{"data":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, content)
	dst = append(dst, '"')
	if filename != "" {
		dst = strictjson.AppendString(append(dst, `,"filename":`...), filename)
	}
	if contentType != "" {
		dst = strictjson.AppendString(append(dst, `,"type":`...), contentType)
	}
	return append(dst, '}')
}

// readText appends the JSON of a field of a form.
func readText(name, value string, kind Kind, types Types) (jsontext.Value, error) {
	if kind == JSON {
		if err := strictjson.Check([]byte(value)); err != nil {
			return nil, unread(Malformed, text.Cut(name, maxShown), "is not JSON that can be read: "+err.Error())
		}
		return bytes.Trim([]byte(value), " \t\r\n"), nil
	}
	read, problem := AppendText(nil, value, types)
	if problem != "" {
		return nil, unread(Unfit, text.Cut(name, maxShown), problem)
	}
	return read, nil
}

// maxShown limits what an error shows of a name or media type, in bytes.
const maxShown = 60
