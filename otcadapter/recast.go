package otcadapter

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// A kept answer is in the form in which the call was asked for first. Who repeats
// the call at the other endpoint gets the same answer in the form of that.

// formOf returns the form in which an answer was written here, nil if it was not.
func formOf(answer []byte) *standard {
	for _, form := range []*standard{otcStandard, oxpStandard} {
		if bytes.HasPrefix(answer, []byte(`{"$schema":"`+form.schema+`"`)) {
			return form
		}
	}
	return nil
}

// recast returns the answer of a call that has run in the form of c, nil if it is
// the answer to no such call: that of a request that was refused, which another
// endpoint may refuse in other words.
func (c *call) recast(answer []byte) []byte {
	form := formOf(answer)
	if form == nil || form == c.form {
		return answer
	}
	fields, err := wire.Members(nil, answer)
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
	b := c.appendStart(nil)
	if duration := valueIn(fields, "duration"); duration != nil {
		b = append(append(b, `,"duration":`...), duration...)
	}
	b = append(append(b, `,"success":`...), valueIn(fields, "success")...)
	return c.appendEnd(c.appendRecast(b, valueIn(output, "value"), valueIn(output, "error")))
}

// appendRecast appends what the call gave: a value, an error, or nothing.
func (c *call) appendRecast(b []byte, value, failure jsontext.Value) []byte {
	member, content := `"value":`, value
	if failure != nil {
		member, content = `"error":`, failure
	}
	switch {
	case c.form.oxp && content == nil:
		return append(b, `,"value":null`...)
	case c.form.oxp:
		return append(append(append(b, ','), member...), content...)
	case isNull(content):
		return b
	}
	b = append(append(append(b, `,"output":{`...), member...), content...)
	return append(b, '}')
}

// valueIn returns the value of a member, nil if it is not there.
func valueIn(members []wire.Member, name string) jsontext.Value {
	for _, m := range members {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}
