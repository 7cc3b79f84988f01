package model

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/fairwayhq/fairway/internal/text"
)

// placeholder matches the placeholders of a script:
//
//	{input}              the user's last message
//	{result}             the result of the last call, without the note that package run adds
//	{result/price}       a part of it, by JSON Pointer (RFC 6901)
//	{results/0}          the result of the first of several calls of the last step
//	{results/0/price}    a part of it
//
// Other braces are text.
var placeholder = regexp.MustCompile(`\{(input|result|results/[0-9]{1,3})((?:/[^{}/]*)*)\}`)

// maxInserted limits the text that a placeholder inserts, in bytes.
const maxInserted = 4 << 10

// missing is inserted for a value that does not exist.
const missing = "(no value)"

// values are what placeholders refer to.
type values struct {
	input   string
	results []string // of the last step with calls
	step    int      // messages of the model since the user's last message
}

// valuesOf returns the values of a conversation.
func valuesOf(messages []Message) *values {
	v := new(values)
	for i := range messages {
		switch m := &messages[i]; m.Role {
		case RoleUser:
			*v = values{input: m.Text, results: v.results}
		case RoleAssistant:
			v.step++
		case RoleTool:
			v.results = v.results[:0]
			for _, result := range m.Results {
				v.results = append(v.results, unwrap(result.Content))
			}
		}
	}
	return v
}

// unwrap returns the result of a tool in the content of a message. Package run puts it into an object
// with a note for the
func unwrap(content string) string {
	var wrapped struct {
		Note   string         `json:"note"`
		Result jsontext.Value `json:"result"`
	}
	if json.Unmarshal([]byte(content), &wrapped) != nil || wrapped.Note == "" || wrapped.Result == nil {
		return content
	}
	var plain string
	if json.Unmarshal(wrapped.Result, &plain) == nil {
		return plain
	}
	return string(wrapped.Result)
}

// replace returns the text with its placeholders replaced.
func (v *values) replace(template string) string {
	return placeholder.ReplaceAllStringFunc(template, func(found string) string {
		value, ok := v.lookup(found)
		if !ok {
			return missing
		}
		if s, isText := value.(string); isText {
			return text.Cut(s, maxInserted)
		}
		encoded, err := json.Marshal(value, json.Deterministic(true))
		if err != nil {
			return missing
		}
		return text.Cut(string(encoded), maxInserted)
	})
}

// lookup returns the value of a placeholder: a text, or a JSON value.
func (v *values) lookup(found string) (value any, ok bool) {
	match := placeholder.FindStringSubmatch(found)
	name, pointer := match[1], match[2]
	var content string
	switch index, of := strings.CutPrefix(name, "results/"); {
	case of:
		n, err := strconv.Atoi(index)
		if err != nil || n >= len(v.results) {
			return nil, false
		}
		content = v.results[n]
	case name == "input":
		return v.input, pointer == ""
	case len(v.results) == 0:
		return nil, false
	default:
		content = v.results[len(v.results)-1]
	}
	if pointer == "" {
		return content, true
	}
	var root any
	if json.Unmarshal([]byte(content), &root) != nil {
		return nil, false
	}
	return resolve(root, pointer)
}

// resolve returns the value that a JSON Pointer refers to.
func resolve(value any, pointer string) (any, bool) {
	for token := range strings.SplitSeq(pointer[1:], "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch in := value.(type) {
		case map[string]any:
			member, found := in[token]
			if !found {
				return nil, false
			}
			value = member
		case []any:
			index, err := strconv.Atoi(token)
			if err != nil || index < 0 || index >= len(in) {
				return nil, false
			}
			value = in[index]
		default:
			return nil, false
		}
	}
	return value, true
}

// arguments returns the JSON of the arguments of a call. A text that is only a placeholder becomes
// the value itself, such as a number.
func (v *values) arguments(n *yaml.Node) (jsontext.Value, error) {
	value, err := v.argument(n)
	if err != nil {
		return nil, err
	}
	return json.Marshal(value, json.Deterministic(true))
}

func (v *values) argument(n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.MappingNode:
		object := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if _, twice := object[key.Value]; twice || key.Kind != yaml.ScalarNode {
				return nil, fmt.Errorf("the key %q is given twice or is not a text", text.Cut(key.Value, text.MaxQuoted))
			}
			value, err := v.argument(n.Content[i+1])
			if err != nil {
				return nil, err
			}
			object[key.Value] = value
		}
		return object, nil
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			value, err := v.argument(item)
			if err != nil {
				return nil, err
			}
			list[i] = value
		}
		return list, nil
	}
	switch n.ShortTag() {
	case "!!null", "!!bool", "!!int", "!!float":
		var value any
		if err := n.Decode(&value); err != nil {
			return nil, err
		}
		if _, err := json.Marshal(value); err != nil {
			return nil, fmt.Errorf("%s is not a JSON value", n.Value)
		}
		return value, nil
	}
	if placeholder.FindString(n.Value) == n.Value && n.Value != "" {
		if value, ok := v.lookup(n.Value); ok {
			return value, nil
		}
	}
	return v.replace(n.Value), nil
}
