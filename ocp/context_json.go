package ocp

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// MarshalJSON implements json.Marshaler: it returns the context as AppendJSON does. It fails
// if UnmarshalJSON could not read back all of it: invalid UTF-8, a time that RFC 3339 cannot
// write, more changes or history entries than a context has, names and addresses that
// api_specs cannot have, or extra members that are not JSON objects.
func (c Context) MarshalJSON() ([]byte, error) {
	for _, fault := range c.Validate(false) {
		switch fault.Reason {
		case ReasonUTF8, ReasonTooMany, ReasonURI:
			return nil, fault
		case ReasonTimestamp:
			return nil, fault
		case ReasonPattern:
			if fault.Field == "api_specs" {
				return nil, fault
			}
		}
	}
	if c.Session != nil && !isObjectOrNone(c.Session.Extra) {
		return nil, Fault{Field: "session", Reason: ReasonObject}
	}
	for i := range c.History {
		if !isObjectOrNone(c.History[i].Metadata) {
			return nil, Fault{Field: "history/" + strconv.Itoa(i) + "/metadata", Reason: ReasonObject}
		}
	}
	text := c.AppendJSON(nil)
	var again Context
	if err := again.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("the context cannot be written as JSON: %w", err)
	}
	return text, nil
}

func isObjectOrNone(value jsontext.Value) bool {
	return value == nil || value.Kind() == '{'
}

// UnmarshalJSON implements json.Unmarshaler. It reads what AppendJSON and other OCP clients
// write. Members that the schema does not have are ignored, and required ones may be missing;
// Validate reports them. If the value of a member cannot be kept, because it has another type
// or exceeds a limit, UnmarshalJSON returns an error, a Fault, and leaves the context as it
// was. ReadContext reads as much as can be read instead.
func (c *Context) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil // as package encoding/json has it
	}
	var f fields
	if fault := f.split(append([]byte(nil), text...)); fault != nil {
		fault.Field = "context"
		return *fault
	}
	var d decoder
	decoded := d.context(&f)
	if d.lost != nil {
		return *d.lost
	}
	*c = *decoded
	return nil
}

// errToolJSON says why a Tool cannot be read.
var errToolJSON = errors.New("ocp: a Tool cannot be read from the JSON of the OCP tool schema, which does not say how arguments are named and encoded " +
	"in the request: build it from its document (Build, Discovery), and keep the address of the document instead of the tool")

// MarshalJSON implements json.Marshaler: it returns the tool in the shape of the OCP tool
// schema, as AppendOCP does.
func (t *Tool) MarshalJSON() ([]byte, error) {
	if t == nil {
		return []byte("null"), nil
	}
	text := t.AppendOCP(nil)
	if err := wire.Check(text); err != nil {
		return nil, fmt.Errorf("tool %s cannot be written as JSON: %w", t.Name, err)
	}
	return text, nil
}

// UnmarshalJSON implements json.Unmarshaler only to return an error. The JSON of a tool lacks
// what a call needs: the names of the arguments in the request, their serialization and the
// media type of the body. A Tool that was read from it would send wrong requests.
func (t *Tool) UnmarshalJSON([]byte) error {
	return errToolJSON
}
