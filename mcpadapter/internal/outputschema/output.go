package outputschema

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/fairwayhq/fairway/internal/mediatype"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// A Mode says whether and how tools/list declares outputSchema. "" is Off.
type Mode string

// The values of Mode. See the constants of package mcpadapter.
const (
	Off    Mode = "off"
	Loose  Mode = "loose"
	Strict Mode = "strict"
)

// An Output is the outputSchema that tools/list declares for one tool in one revision, and says how
// results are encoded for it. It is nil if tools/list declares none.
type Output struct {
	Strict  bool // whether results are validated against the outputSchema
	wrapped bool // whether the value is put into the member "result", because it may not be an object
}

// Of returns the Output of a tool in a revision. native says that the API returns MCP results, which
// need not match the document.
func Of(mode Mode, t *tool.Tool, native bool, v revision.Revision) *Output {
	if mode == "" || mode == Off || !v.SupportsOutputSchema() {
		return nil
	}
	answer := &t.Response
	if answer.Schema.Kind() != '{' || native || mode == Strict && !alwaysJSON(answer) {
		return nil
	}
	return &Output{
		Strict:  mode == Strict,
		wrapped: v.RequiresObjectOutput() && !slices.Equal(answer.Types, []string{"object"}),
	}
}

// AppendTo appends a tool's outputSchema to its members in tools/list, unless o is nil.
func (o *Output) AppendTo(dst []byte, t *tool.Tool, v revision.Revision) []byte {
	if o == nil {
		return dst
	}
	return appendSchema(append(dst, `,"outputSchema":`...), t.Response.Schema, o.Strict, o.wrapped, v.RequiresObjectOutput())
}

// alwaysJSON reports whether the document declares only JSON responses. Other responses have no
// structuredContent, which an outputSchema requires.
func alwaysJSON(answer *tool.DeclaredResponse) bool {
	if answer.Empty || len(answer.MediaTypes) == 0 {
		return false
	}
	return !slices.ContainsFunc(answer.MediaTypes, func(media string) bool { return !mediatype.IsJSON(media) })
}

// Check returns an error if the response of a tool does not match the document's schema. isJSON says
// whether the response is declared as JSON. r may be nil.
func Check(t *tool.Tool, r *tool.Result, isJSON bool) error {
	err := errors.New("the response is not valid JSON, or an object has a duplicate name")
	if isJSON {
		if value := bytes.TrimSpace(r.Body); wire.Unambiguous(value) {
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
func (o *Output) AppendValue(dst []byte, value []byte, v revision.Revision) []byte {
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
