package protocol

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// DeepID returns the id of a message that is nested too deeply; nil if it has none or is not an
// object. whole is false if the brackets of the body do not match.
func DeepID(body []byte) (id jsontext.Value, whole bool) {
	walk := strictjson.Into(body)
	object := bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{"))
	for walk.Next() {
		if object && walk.Is("id") && IsID(walk.Value) && strictjson.Check(walk.Value) == nil {
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
		if isID && IsID(value) && strictjson.Check(value) == nil {
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

// IsID reports whether a JSON value can be an id: a string or an integer (MCP, RequestId).
func IsID(id jsontext.Value) bool {
	if id.Kind() != '0' || !bytes.ContainsAny(id, ".eE") {
		return id.Kind() == '"' || id.Kind() == '0'
	}
	n, _ := strconv.ParseFloat(string(id), 64) // infinite for 1e400, which is an integer too
	return n == math.Trunc(n)
}
