package strictjson

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// reader is a pooled strict JSON decoder for bytes in memory.
type reader struct {
	jsontext.Decoder
	source bytes.Buffer
}

var readers = sync.Pool{New: func() any { return new(reader) }}

// newReader returns a reader from the pool. The caller must call free.
func newReader(data []byte, options ...jsontext.Options) *reader {
	r := readers.Get().(*reader)
	r.source = *bytes.NewBuffer(data)
	r.Reset(&r.source, options...)
	return r
}

// cut reads the next value and returns it as a part of data.
func (r *reader) cut(data []byte) (jsontext.Value, error) {
	value, err := r.ReadValue()
	if err != nil {
		return nil, err
	}
	end := int(r.InputOffset())
	return data[end-len(value) : end : end], nil
}

// free returns the reader to the pool.
func (r *reader) free() {
	r.source = bytes.Buffer{}
	readers.Put(r)
}

// expectEnd returns an error if anything but white space follows.
func (r *reader) expectEnd() error {
	switch _, err := r.ReadToken(); err {
	case io.EOF:
		return nil
	case nil:
		return errors.New("more than one JSON value")
	default:
		return err
	}
}

// decode decodes the next value. The caller must have checked the nesting.
func (r *reader) decode() (any, error) {
	token, err := r.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case 'n':
		return nil, nil
	case 't':
		return true, nil
	case 'f':
		return false, nil
	case '"':
		return token.String(), nil
	case '0':
		return stdjson.Number(token.String()), nil
	case '[':
		return r.decodeArray()
	default:
		return r.decodeObject()
	}
}

// decodeArray decodes the rest of an array.
func (r *reader) decodeArray() (any, error) {
	items := []any{}
	for r.PeekKind() != ']' {
		item, err := r.decode()
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	_, err := r.ReadToken()
	return items, err
}

// decodeObject decodes the rest of an object.
func (r *reader) decodeObject() (any, error) {
	object := map[string]any{}
	for r.PeekKind() != '}' {
		name, err := r.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String()
		if object[key], err = r.decode(); err != nil {
			return nil, err
		}
	}
	_, err := r.ReadToken()
	return object, err
}
