package mcpadapter

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/fairwayhq/fairway/ocp"
)

// OutputSchema says whether tools/list describes what tools answer.
type OutputSchema string

// The values of OutputSchema. Clients hold structuredContent to an outputSchema
// and fail a call whose answer has none or another, so that an API which departs
// from its document would lose the answer.
const (
	// OutputOff lists no outputSchema.
	OutputOff OutputSchema = "off"

	// OutputLoose lists what the document says in a form that describes and
	// demands nothing. Every answer is passed on.
	OutputLoose OutputSchema = "loose"

	// OutputStrict lists the document's schema, for tools all of whose answers
	// are JSON, and holds answers to it: one that departs becomes an error that
	// says where, with the answer as text.
	OutputStrict OutputSchema = "strict"
)

// ParseOutputSchema returns the OutputSchema of that name; "" is OutputOff.
func ParseOutputSchema(name string) (OutputSchema, error) {
	switch mode := OutputSchema(name); mode {
	case "":
		return OutputOff, nil
	case OutputOff, OutputLoose, OutputStrict:
		return mode, nil
	}
	return "", fmt.Errorf("output_schema %q is not known: write off, loose or strict", clip(name, maxQuoted))
}

// advisedStructure is how large structuredContent should be at most, in bytes: what
// hosts of MCP Apps advise.
const advisedStructure = 10 << 10

// maxNoted is how many tools are noted for their large answers.
const maxNoted = 4096

// noteLargeStructure reports a tool once whose structuredContent is larger than
// advised.
func (s *Server) noteLargeStructure(tool *ocp.Tool, size int) {
	if s.options.OnLargeStructure == nil || tool == nil {
		return
	}
	if s.noted.first(tool.Name) {
		s.options.OnLargeStructure(tool, size)
	}
}

// noted are the names of tools that have been told of.
type noted struct {
	mu    sync.Mutex
	tools map[string]struct{}
}

// first reports whether the name is new, and notes it.
func (n *noted) first(name string) bool {
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

// An output is what is done with the answers of one tool in one revision.
type output struct {
	listed  bool // tools/list has an outputSchema
	strict  bool
	wrapped bool // a value that is, or may be, no object stands below "result"
}

// outputOf returns what is done with the answers of a tool.
func (s *Server) outputOf(tool *ocp.Tool, v revision) (o output) {
	mode := s.options.OutputSchema
	if mode == "" || mode == OutputOff || tool == nil || !v.describesOutput() {
		return o
	}
	answer := &tool.Answer
	if answer.Schema.Kind() != '{' || isNative(tool) || mode == OutputStrict && !alwaysJSON(answer) {
		return o
	}
	return output{
		listed:  true,
		strict:  mode == OutputStrict,
		wrapped: v.describesObjects() && !slices.Equal(answer.Types, []string{"object"}),
	}
}

// alwaysJSON reports whether the document declares nothing but JSON. Another
// answer would have no structuredContent, which every answer must have.
func alwaysJSON(answer *ocp.Answer) bool {
	if answer.Empty || len(answer.MediaTypes) == 0 {
		return false
	}
	for _, media := range answer.MediaTypes {
		if _, subtype, _ := strings.Cut(media, "/"); subtype != "json" && !strings.HasSuffix(subtype, "+json") {
			return false
		}
	}
	return true
}

// departs returns an error if the answer is not what the document declares.
func (r *reply) departs(f form, value []byte) error {
	err := errors.New("it is not JSON, or an object in it has a name twice")
	if f == jsonForm {
		err = r.Tool.CheckAnswer(value)
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

// append appends structuredContent: the answer, in the form that tools/list has
// told of. Where that is told, there is always one.
func (o output) append(dst []byte, f form, value []byte, v revision) []byte {
	if f != jsonForm {
		if o.listed {
			dst = append(dst, `,"structuredContent":{}`...)
		}
		return dst
	}
	if o.wrapped || o.listed && v.describesObjects() && value[0] != '{' {
		dst = append(append(dst, `,"structuredContent":{"result":`...), value...)
		return append(dst, '}')
	}
	if v.structures(value[0]) {
		dst = append(append(dst, `,"structuredContent":`...), value...)
	}
	return dst
}
