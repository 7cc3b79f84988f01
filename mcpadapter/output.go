package mcpadapter

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/fairwayhq/fairway/internal/mediatype"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/outputschema"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// OutputSchema says whether and how tools/list declares outputSchema.
type OutputSchema string

// The values of OutputSchema. Clients validate structuredContent against the outputSchema and fail
// the call if it is missing or invalid (MCP 2025-06-18, Tools, Output Schema). An API that deviates
// from its document would then lose its responses, so the default is OutputOff.
const (
	// OutputOff declares no outputSchema.
	OutputOff OutputSchema = "off"

	// OutputLoose declares the document's schema without constraints: it describes the output and
	// rejects nothing. All responses are passed on.
	OutputLoose OutputSchema = "loose"

	// OutputStrict declares the document's schema for tools that return only JSON, and validates
	// responses against it. An invalid response becomes a tool error that says where it deviates and
	// includes the response as text.
	OutputStrict OutputSchema = "strict"
)

// advisedStructure is the maximum size of structuredContent that hosts of MCP Apps recommend, in
// bytes.
const advisedStructure = 10 << 10

// maxNoted is the maximum number of tools whose large results are reported.
const maxNoted = 4096

// noteLargeStructure calls Options.OnLargeStructure once per tool whose structuredContent is larger
// than advisedStructure.
func (s *Server) noteLargeStructure(tool *tool.Tool, size int) {
	if s.options.OnLargeStructure == nil || tool == nil {
		return
	}
	if s.reportedTools.first(tool.Name) {
		s.options.OnLargeStructure(tool, size)
	}
}

// reportedTools holds the names of the tools that were reported.
type reportedTools struct {
	mu    sync.Mutex
	tools map[string]struct{}
}

// first reports whether the name is new, and adds it.
func (n *reportedTools) first(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.tools[name]; known || len(n.tools) >= maxNoted {
		return false
	}
	if n.tools == nil {
		n.tools = make(map[string]struct{})
	}
	n.tools[name] = struct{}{}
	return true
}

// An output says how the results of one tool are encoded in one revision.
type output struct {
	listed  bool // whether tools/list declares an outputSchema
	strict  bool
	wrapped bool // whether the value is put into the member "result", because it may not be an object
}

// outputOf returns the output for a tool.
func (s *Server) outputOf(tool *tool.Tool, needs elicit.Needs, v revision.Revision) (o output) {
	mode := s.options.OutputSchema
	if mode == "" || mode == OutputOff || !v.SupportsOutputSchema() {
		return o
	}
	answer := &tool.Answer
	if answer.Schema.Kind() != '{' || needs.Native || mode == OutputStrict && !alwaysJSON(answer) {
		return o
	}
	return output{
		listed:  true,
		strict:  mode == OutputStrict,
		wrapped: v.RequiresObjectOutput() && !slices.Equal(answer.Types, []string{"object"}),
	}
}

// appendOutputSchema appends a tool's outputSchema, unless outputOf says not to list one.
func (s *Server) appendOutputSchema(dst []byte, tool *tool.Tool, v revision.Revision) []byte {
	o := s.outputOf(tool, elicit.NeedsOf(tool), v)
	if !o.listed {
		return dst
	}
	return outputschema.Append(append(dst, `,"outputSchema":`...), tool.Answer.Schema, o.strict, o.wrapped, v.RequiresObjectOutput())
}

// alwaysJSON reports whether the document declares only JSON responses. Other responses have no
// structuredContent, which an outputSchema requires.
func alwaysJSON(answer *tool.Answer) bool {
	if answer.Empty || len(answer.MediaTypes) == 0 {
		return false
	}
	return !slices.ContainsFunc(answer.MediaTypes, func(media string) bool { return !mediatype.IsJSON(media) })
}

// schemaMismatch returns an error if the response does not match the document's schema.
func (r *reply) schemaMismatch(f content.Form) error {
	err := errors.New("it is not JSON, or an object in it has a name twice")
	if f == content.JSONForm {
		if value := bytes.TrimSpace(r.Result.Body); wire.Unambiguous(value) {
			err = r.Tool.CheckAnswer(value)
		}
	}
	if err == nil {
		return nil
	}
	status := 0
	if r.Result != nil {
		status = r.Result.Status
	}
	return fmt.Errorf("the call was carried out (%d), but its answer is not as the API's document declares it: %w; do not repeat a call that changes something, and take what follows with care",
		status, err)
}

// structures reports whether a JSON body becomes structuredContent, if it is valid.
func (o output) structures(body []byte, v revision.Revision) bool {
	body = bytes.TrimSpace(body)
	return o.listed || len(body) > 0 && v.SupportsStructuredContent(body[0])
}

// append appends structuredContent in the form that tools/list declares. value is nil if the response
// is not valid JSON. If tools/list declares an outputSchema, there is always a structuredContent.
func (o output) append(dst []byte, value []byte, v revision.Revision) []byte {
	switch {
	case value == nil && o.listed:
		return append(dst, `,"structuredContent":{}`...)
	case value == nil:
		return dst
	case o.wrapped || o.listed && v.RequiresObjectOutput() && value[0] != '{':
		dst = append(append(dst, `,"structuredContent":{"result":`...), value...)
		return append(dst, '}')
	case v.SupportsStructuredContent(value[0]):
		return append(append(dst, `,"structuredContent":`...), value...)
	}
	return dst
}
