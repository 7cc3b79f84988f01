package ocp

import (
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
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
		return nil // as package encoding/json does
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
