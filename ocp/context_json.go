package ocp

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
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

// errToolRead is the error of calling a Tool that was read from JSON.
var errToolRead = errors.New("ocp: this tool was read from the JSON of the OCP tool schema, which does not say how arguments are named and encoded " +
	"in the request, so it cannot be called: build it from its document (Build, Discovery)")

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

// UnmarshalJSON implements json.Unmarshaler. It sets the Name, Description, Method, Path,
// OperationID, Tags and Deprecated of the tool, and keeps the whole text for MarshalJSON.
// Such a tool can be shown and stored, but not called: its JSON lacks the names of the
// arguments in the request, their serialization and the media type of the body. Bind
// returns an error for it.
func (t *Tool) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil // as package encoding/json does
	}
	var known struct {
		Name        string   `json:"name"`
		Description string   `json:"description"`
		Method      string   `json:"method"`
		Path        string   `json:"path"`
		OperationID string   `json:"operation_id"`
		Tags        []string `json:"tags"`
		Deprecated  bool     `json:"deprecated"`
	}
	read := jsontext.Value(text).Clone()
	if err := wire.Check(read); err != nil {
		return fmt.Errorf("ocp: this is not the JSON of a tool: %w", err)
	}
	if err := json.Unmarshal(read, &known); err != nil {
		return fmt.Errorf("ocp: this is not the JSON of a tool: %w", err)
	}
	if known.Name == "" || known.Method == "" || known.Path == "" {
		return errors.New("ocp: this is not the JSON of a tool: it needs a name, a method and a path")
	}
	*t = Tool{
		Name: known.Name, Description: known.Description, Method: known.Method, Path: known.Path,
		OperationID: known.OperationID, Tags: known.Tags, Deprecated: known.Deprecated, read: read,
	}
	return nil
}
