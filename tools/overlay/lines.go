package overlay

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/fairwayhq/fairway/internal/yamltree"
)

// maxDepth limits the levels of lists and mappings of an overlay.
const maxDepth = 100

// parseLines parses an overlay into nodes that know their lines. An error has the line.
func parseLines(data []byte) (*yaml.Node, error) {
	parse := yamltree.Parse
	if isJSON(data) {
		parse = yamltree.ParseJSON
	}
	root, err := parse(data, yamltree.Options{MaxDepth: maxDepth, Aliases: true})
	if err != nil {
		return nil, err
	}
	return root, uniqueKeys(root)
}

// uniqueKeys rejects mappings that repeat a key.
func uniqueKeys(n *yaml.Node) error {
	if n.Kind == yaml.MappingNode {
		lines := make(map[string]int, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if line, taken := lines[key.Value]; taken && key.ShortTag() != "!!merge" {
				return yamltree.At(key, fmt.Errorf("duplicate key %s; line %d already has it", key.Value, line))
			}
			lines[key.Value] = key.Line
		}
	}
	for _, child := range n.Content {
		if err := uniqueKeys(child); err != nil {
			return err
		}
	}
	return nil
}

// withLine returns an error with the name of the overlay, and with its line if it is known.
func withLine(name string, err error) error {
	if placed, ok := errors.AsType[*yamltree.Error](err); ok {
		return fmt.Errorf("overlay %s:%d: %w", name, placed.Line, placed.Err)
	}
	return fmt.Errorf("overlay %s: %w", name, err)
}

// lineOf returns the line of the value with the given path of names and positions, or of the nearest
// value around it.
func lineOf(n *yaml.Node, path []any) int {
	line := n.Line
	for _, step := range path {
		n = yamltree.Resolve(n)
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
