package request

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// A field is a Field prepared for encoding.
type field struct {
	file   bool
	either bool        // the value is a file if it is an object (FileOrText)
	types  accepted    // media types of the Encoding Object; nil if it has none
	kind   Kind        // kind of the first of types; 0 if there is none
	styled *Serializer // set if the Encoding Object has a style
	pair   *Serializer // writes name=value for one value
}

func newField(kind Kind, name string, f Field) (*field, error) {
	if kind != URLEncoded && kind != Multipart {
		return &field{}, nil
	}
	made := &field{file: f.File && kind == Multipart, either: f.FileOrText && kind == Multipart}
	var err error
	if f.HasStyle && !made.file {
		made.styled, err = NewSerializer(Param{
			Name: name, In: InBody, MaxLength: MaxForm,
			Style: f.Style, Explode: f.Explode, AllowReserved: f.AllowReserved, Reserved: f.Reserved,
		})
		if err != nil {
			return nil, err
		}
	} else {
		made.types = parseAccepted(f.ContentType)
		if len(made.types) > 0 {
			made.kind = kindOf(made.types[0].base)
		}
	}
	contentType := "text/plain"
	if made.kind == JSON {
		contentType = "application/json"
	}
	made.pair, err = NewSerializer(Param{Name: name, In: InBody, ContentType: contentType, MaxLength: MaxForm})
	return made, err
}

// check returns an error if value cannot be written in the field's media type.
func (f *field) check(name string, value jsontext.Value) error {
	if f.kind == XML && value.Kind() != '"' && value.Kind() != 'n' {
		return refuse(name, "must be a string that holds the XML document")
	}
	return nil
}

// field returns how a property is encoded. A property that the document does not
// declare gets the defaults.
func (e *Encoder) field(name string) (*field, error) {
	if f, ok := e.fields[name]; ok {
		return f, nil
	}
	if name == "" || len(name) > MaxName {
		return nil, refuse(strconv.Quote(name[:min(len(name), 40)]),
			"cannot be sent: the name of a field has 1 to "+strconv.Itoa(MaxName)+" bytes")
	}
	return newField(e.kind, name, Field{})
}

// A form is a URL-encoded body that is being written.
type form struct {
	dst   []byte
	start int // where the form starts in dst
	pairs int
}

// appendForm appends the members as a form. A property whose Encoding Object has a
// style is written in that style. Any other property is written by its media type:
//
//   - an array as one pair per item, unless the type is JSON;
//   - a string, number or boolean as text;
//   - an object as JSON.
func (e *Encoder) appendForm(dst []byte, members []strictjson.Member) ([]byte, error) {
	w := form{dst: dst, start: len(dst)}
	for _, m := range members {
		f, err := e.field(m.Name)
		if err == nil {
			err = w.addProperty(f, m)
		}
		if err != nil {
			return dst, err
		}
	}
	return w.dst, nil
}

func (w *form) addProperty(f *field, m strictjson.Member) error {
	if f.styled != nil {
		return w.add(f.styled, m.Name, m.Value)
	}
	if m.Value.Kind() != '[' || f.kind == JSON {
		return w.addValue(f, m.Name, m.Value)
	}
	for walk := strictjson.Into(m.Value); walk.Next(); {
		if err := w.addValue(f, m.Name, walk.Value); err != nil {
			return err
		}
	}
	return nil
}

func (w *form) addValue(f *field, name string, value jsontext.Value) error {
	if err := f.check(name, value); err != nil {
		return err
	}
	return w.add(f.pair, name, value)
}

// add appends the pairs that s makes of value, separated by "&" from earlier pairs.
func (w *form) add(s *Serializer, name string, value jsontext.Value) error {
	mark := len(w.dst)
	if mark > w.start {
		w.dst = append(w.dst, '&')
	}
	begin := len(w.dst)
	dst, err := s.Append(w.dst, value)
	if err != nil {
		return err
	}
	if len(dst) == begin {
		w.dst = dst[:mark]
		return nil
	}
	w.dst = dst
	w.pairs += 1 + bytes.Count(dst[begin:], []byte("&"))
	if w.pairs > MaxPairs || len(dst)-w.start > MaxForm {
		return refuse(name, "makes the form too large: it may have "+strconv.Itoa(MaxPairs)+
			" fields and "+strconv.Itoa(MaxForm)+" bytes")
	}
	return nil
}
