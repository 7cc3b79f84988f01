package content

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

// An OutputMode says whether and how tools/list declares outputSchema. "" is Off.
type OutputMode string

// The values of Mode. See the constants of package mcpadapter.
const (
	OutputOff OutputMode = "off"
	Loose     OutputMode = "loose"
	Strict    OutputMode = "strict"
)

// An Output is the outputSchema that tools/list declares for one tool in one revision, and says how
// results are encoded for it. It is nil if tools/list declares none.
type Output struct {
	Strict  bool // whether results are validated against the outputSchema
	wrapped bool // whether the value is put into the member "result", because it may not be an object
}

// OutputOf returns the Output of a tool in a revision. native says that the API returns MCP results, which
// need not match the document.
func OutputOf(mode OutputMode, t *tools.Tool, native bool, v protocol.Revision) *Output {
	if mode == "" || mode == OutputOff || !v.SupportsOutputSchema() {
		return nil
	}
	answer := &t.Output
	if answer.Schema.Kind() != '{' || native || mode == Strict && !alwaysJSON(answer) {
		return nil
	}
	return &Output{
		Strict:  mode == Strict,
		wrapped: v.RequiresObjectOutput() && !slices.Equal(answer.Types, []string{"object"}),
	}
}

// AppendTo appends a tool's outputSchema to its members in tools/list, unless o is nil.
func (o *Output) AppendTo(dst []byte, t *tools.Tool, v protocol.Revision) []byte {
	if o == nil {
		return dst
	}
	return appendSchema(append(dst, `,"outputSchema":`...), t.Output.Schema, o.Strict, o.wrapped, v.RequiresObjectOutput())
}

// alwaysJSON reports whether the document declares only JSON responses. Other responses have no
// structuredContent, which an outputSchema requires.
func alwaysJSON(answer *tools.Output) bool {
	if answer.Empty || len(answer.MediaTypes) == 0 {
		return false
	}
	return !slices.ContainsFunc(answer.MediaTypes, func(media string) bool { return !httpheader.IsJSON(media) })
}

// CheckOutput returns an error if the response of a tool does not match the document's schema. isJSON says
// whether the response is declared as JSON. r may be nil.
func CheckOutput(t *tools.Tool, r *tools.Result, isJSON bool) error {
	err := errors.New("the response is not valid JSON, or an object has a duplicate name")
	if isJSON {
		if value := bytes.TrimSpace(r.Body); strictjson.Unambiguous(value) {
			err = t.CheckResponse(value)
		}
	}
	if err == nil {
		return nil
	}
	status := 0
	if r != nil {
		status = r.Status
	}
	return fmt.Errorf("the API executed the call (status %d), but %w; do not repeat a call that changes data; check the response before you use it", status, err)
}

// AppendValue appends structuredContent in the form that tools/list declares. value is nil if the
// response is not valid JSON. There is always a structuredContent, because the outputSchema requires it.
func (o *Output) AppendValue(dst []byte, value []byte, v protocol.Revision) []byte {
	switch {
	case value == nil:
		return append(dst, `,"structuredContent":{}`...)
	case o.wrapped || v.RequiresObjectOutput() && value[0] != '{':
		dst = append(append(dst, `,"structuredContent":{"result":`...), value...)
		return append(dst, '}')
	case v.SupportsStructuredContent(value[0]):
		return append(append(dst, `,"structuredContent":`...), value...)
	}
	return dst
}
