package otcadapter

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// A stored response has the form of the endpoint of the first request. If the call is repeated
// at the other endpoint, the response is converted to that endpoint's form.

// formOf returns the form in which a response was written. It returns nil if this server did
// not write it.
func formOf(response []byte) *standard {
	for _, form := range []*standard{otcStandard, oxpStandard} {
		if bytes.HasPrefix(response, []byte(`{"$schema":"`+form.schema+`"`)) {
			return form
		}
	}
	return nil
}

// convert converts the response to a call that has run to the form of e. It returns nil for the
// response to a call that was rejected, because the other endpoint has other messages.
func (e *responseEncoder) convert(response []byte) []byte {
	form := formOf(response)
	if form == nil || form == e.form {
		return response
	}
	fields, err := wire.Members(nil, response)
	if inner := valueIn(fields, "result"); err == nil && form.oxp {
		fields, err = wire.Members(nil, inner)
	}
	if err != nil || valueIn(fields, "success") == nil {
		return nil
	}
	output := fields
	if nested := valueIn(fields, "output"); nested != nil {
		if output, err = wire.Members(nil, nested); err != nil {
			return nil
		}
	}
	b := e.appendStart(nil)
	if duration := valueIn(fields, "duration"); duration != nil {
		b = append(append(b, `,"duration":`...), duration...)
	}
	b = append(append(b, `,"success":`...), valueIn(fields, "success")...)
	return e.appendEnd(e.appendConverted(b, valueIn(output, "value"), valueIn(output, "error")))
}

// appendConverted appends the outcome of the call: a value, an error, or neither.
func (e *responseEncoder) appendConverted(b []byte, value, failure jsontext.Value) []byte {
	member, content := `"value":`, value
	if failure != nil {
		member, content = `"error":`, failure
	}
	switch {
	case e.form.oxp && content == nil:
		return append(b, `,"value":null`...)
	case e.form.oxp:
		return append(append(append(b, ','), member...), content...)
	case isNull(content):
		return b
	}
	b = append(append(append(b, `,"output":{`...), member...), content...)
	return append(b, '}')
}

// valueIn returns the value of a member. It returns nil if there is none.
func valueIn(members []wire.Member, name string) jsontext.Value {
	for _, m := range members {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}
