package overlay

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// lines finds the lines of an overlay's values, counted from 1.
type lines struct {
	yaml *yaml.Node
	json map[jsontext.Pointer]int
}

// maxPointer is the length of the deepest JSON Pointer whose line is recorded: actions, a number,
// and the name of a field.
const maxPointer = 3

// linesOf indexes the lines of an overlay that was parsed without errors.
func linesOf(data []byte) lines {
	if start := bytes.TrimLeft(data, "\xef\xbb\xbf \t\r\n"); len(start) > 0 && start[0] == '{' {
		return lines{json: jsonLines(data[len(data)-len(start):], bytes.Count(data[:len(data)-len(start)], []byte("\n")))}
	}
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil || len(document.Content) == 0 {
		return lines{}
	}
	return lines{yaml: document.Content[0]}
}

// jsonLines returns the lines of the values of a JSON text by their pointers.
func jsonLines(data []byte, before int) map[jsontext.Pointer]int {
	found := map[jsontext.Pointer]int{"": 1 + before}
	d := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true))
	line, counted := 1+before, int64(0)
	for {
		deep := d.StackDepth() > maxPointer
		var err error
		if deep {
			err = d.SkipValue()
		} else {
			_, err = d.ReadToken()
		}
		if err != nil {
			if !deep || d.PeekKind() != '}' && d.PeekKind() != ']' {
				return found
			}
			if _, err = d.ReadToken(); err != nil {
				return found
			}
		}
		line += bytes.Count(data[counted:d.InputOffset()], []byte("\n"))
		counted = d.InputOffset()
		if at := d.StackPointer(); d.StackDepth() <= maxPointer {
			if _, known := found[at]; !known {
				found[at] = line
			}
		}
	}
}

// of returns the line of the value with the given path of names and positions, or of the nearest
// value around it.
func (l lines) of(path []any) int {
	if l.yaml != nil {
		return yamlLine(l.yaml, path)
	}
	line, pointer := 1, jsontext.Pointer("")
	for i := -1; i < len(path); i++ {
		if i >= 0 {
			pointer = pointer.AppendToken(token(path[i]))
		}
		if known, ok := l.json[pointer]; ok {
			line = known
		}
	}
	return line
}

func token(step any) string {
	if at, ok := step.(int); ok {
		return strconv.Itoa(at)
	}
	return step.(string)
}

func yamlLine(n *yaml.Node, path []any) int {
	line := n.Line
	for _, step := range path {
		for n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		var next *yaml.Node
		switch step := step.(type) {
		case int:
			if n.Kind == yaml.SequenceNode && step < len(n.Content) {
				next = n.Content[step]
				line = next.Line
			}
		case string:
			for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == step {
					next = n.Content[i+1]
					line = n.Content[i].Line
				}
			}
		}
		if next == nil {
			break
		}
		n = next
	}
	return line
}
