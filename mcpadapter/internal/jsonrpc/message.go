package jsonrpc

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// An Envelope holds the members of a JSON-RPC 2.0 message; absent members are nil. The members refer
// to the request body, whose buffer is reused after the request. Clone what must live longer.
type Envelope struct {
	Version, ID, Method, Params, Result, Failure jsontext.Value
}

// ReadEnvelope reads the members of a message. The caller has checked that data is strict JSON.
func ReadEnvelope(data []byte) (m Envelope) {
	for walk := wire.Into(data); walk.Next(); {
		switch {
		case walk.Is("jsonrpc"):
			m.Version = walk.Value
		case walk.Is("id"):
			m.ID = walk.Value
		case walk.Is("method"):
			m.Method = walk.Value
		case walk.Is("params"):
			m.Params = walk.Value
		case walk.Is("result"):
			m.Result = walk.Value
		case walk.Is("error"):
			m.Failure = walk.Value
		}
	}
	return m
}

// DeepID returns the id of a message that is nested too deeply; nil if it has none or is not an
// object. whole is false if the brackets of the body do not match.
func DeepID(body []byte) (id jsontext.Value, whole bool) {
	walk := wire.Into(body)
	object := bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{"))
	for walk.Next() {
		if object && walk.Is("id") && IsID(walk.Value) && wire.Check(walk.Value) == nil {
			id = walk.Value.Clone()
		}
	}
	return id, walk.Err() == nil
}

// LenientID returns the id of a message whose only error is a string with invalid Unicode. It
// returns nil for any other body and for an invalid id.
func LenientID(body []byte) (id jsontext.Value) {
	r := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowInvalidUTF8(true))
	if opening, err := r.ReadToken(); err != nil || opening.Kind() != '{' {
		return nil
	}
	for r.PeekKind() == '"' {
		name, err := r.ReadToken()
		if err != nil {
			return nil
		}
		isID := name.String() == "id"
		value, err := r.ReadValue()
		if err != nil {
			return nil
		}
		if isID && IsID(value) && wire.Check(value) == nil {
			id = value.Clone()
		}
	}
	if _, err := r.ReadToken(); err != nil {
		return nil
	}
	if _, err := r.ReadToken(); !errors.Is(err, io.EOF) {
		return nil
	}
	return id
}

// IsID reports whether a JSON value has a type that an id may have: string or number.
func IsID(id jsontext.Value) bool { return id.Kind() == '"' || id.Kind() == '0' }
