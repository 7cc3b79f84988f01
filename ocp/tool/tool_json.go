package tool

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

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
