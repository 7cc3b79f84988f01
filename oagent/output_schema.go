package oagent

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/yamltree"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/schema"
)

// extension is the member of a document with what Fairway adds to OpenAgentSpec.
const extension = "x-fairway"

// OutputSchemaRule is the path of an output schema in the document.
const OutputSchemaRule = extension + ".output_schema"

// Limits on an output schema.
const (
	MaxOutputSchema = 64 << 10 // bytes, as JSON

	maxSchemaDepth = 64     // levels of lists and mappings
	maxSchemaNodes = 10_000 // values
)

// OutputSchema is the JSON Schema of the final answer of an agent. It is safe for concurrent use.
type OutputSchema struct {
	JSON     jsontext.Value // the schema; must not be changed
	compiled *schema.Compiled
}

// outputSchema reads x-fairway.output_schema.
func (r *reader) outputSchema(n *yaml.Node, rule string) *OutputSchema {
	n = yamltree.Resolve(n)
	if n.Kind != yaml.MappingNode {
		r.fault(n, rule, "expected a JSON Schema, which is a mapping, not %s", yamltree.Describe(n))
		return nil
	}
	source, err := yaml.Marshal(n)
	if err == nil {
		var root *openapi.Node
		root, err = openapi.Parse(append([]byte("---\n"), source...), openapi.Limits{Size: 2 * MaxOutputSchema, Depth: maxSchemaDepth, Nodes: maxSchemaNodes})
		source = root.AppendJSON(nil)
	}
	if err == nil && len(source) > MaxOutputSchema {
		err = fmt.Errorf("it has %d bytes as JSON; the limit is %d", len(source), MaxOutputSchema)
	}
	s := &OutputSchema{JSON: source}
	if err == nil {
		s.compiled, err = schema.CompileBounded(source)
	}
	if err != nil {
		r.fault(n, rule, "the JSON Schema is not valid: %s", strings.ReplaceAll(err.Error(), "fairway:///tool", ""))
		return nil
	}
	return s
}

// Read returns the JSON value that an answer of the model consists of, perhaps in a Markdown code block. If the answer
// is not valid for the schema, it returns the problems instead, for the model.
func (s *OutputSchema) Read(answer string) (value jsontext.Value, problems []string) {
	answer = strings.TrimSpace(answer)
	if block, ok := strings.CutPrefix(answer, "```"); ok && strings.HasSuffix(block, "```") {
		_, block, _ = strings.Cut(strings.TrimSuffix(block, "```"), "\n")
		answer = strings.TrimSpace(block)
	}
	value = jsontext.Value(answer)
	decoded, err := strictjson.Decode(value)
	if err != nil {
		return nil, []string{"the answer is not JSON: " + err.Error()}
	}
	err = s.compiled.Validate(decoded)
	if err == nil {
		return value, nil
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return nil, []string{"the answer " + err.Error()}
	}
	for _, p := range schema.Explain(invalid, decoded) {
		if p.Path == "" {
			p.Path = "the answer"
		}
		problems = append(problems, p.Path+": "+p.Message)
	}
	if problems == nil {
		problems = []string{"the answer has properties that the schema does not have"}
	}
	return nil, problems
}
