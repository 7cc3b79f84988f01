package yamltree

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/fairwayhq/fairway/internal/text"
)

// Readers read the members of a mapping, by their keys.
type Readers map[string]func(*yaml.Node) error

// ReadMembers passes each member of a mapping to its reader. An unknown key, and a required one that
// is missing, is an error.
func ReadMembers(n *yaml.Node, readers Readers, required ...string) error {
	known := strings.Join(slices.Sorted(maps.Keys(readers)), ", ")
	if n.Kind != yaml.MappingNode {
		return At(n, fmt.Errorf("expected a mapping with the keys %s, not %s", known, Describe(n)))
	}
	seen := make(Keys)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if err := seen.Add(key); err != nil {
			return At(key, err)
		}
		read := readers[key.Value]
		if read == nil {
			return At(key, fmt.Errorf("unknown key %q; known keys: %s", text.Cut(key.Value, text.MaxQuoted), known))
		}
		if err := read(value); err != nil {
			return At(value, err)
		}
	}
	for _, name := range required {
		if seen[name] == 0 {
			return At(n, fmt.Errorf("missing required key %s", name))
		}
	}
	return nil
}
