package overlay

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/tools/openapi"
)

// A Result is a document after its overlays.
type Result struct {
	Warnings []Warning
	IsJSON   bool // the document was written in JSON

	root    *node
	maxSize int
}

// JSON returns the document as compact JSON.
func (r *Result) JSON() []byte {
	return appendJSON(nil, r.root)
}

// Text returns the document in the form in which it was written: indented JSON, or YAML.
func (r *Result) Text() ([]byte, error) {
	compact := r.JSON()
	if r.IsJSON {
		value := jsontext.Value(compact)
		err := value.Indent(jsontext.WithIndent("  "), jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true))
		return append(value, '\n'), err
	}
	limits := openapi.Limits{Size: yamlGrowth * max(r.maxSize, openapi.DefaultMaxSize)}
	root, err := openapi.Parse(compact, limits)
	if err != nil {
		return nil, err
	}
	return root.AppendYAML(nil, limits.Size)
}

// yamlGrowth is how many times longer than its limit a document may be after it was written as YAML.
const yamlGrowth = 4

// isJSON reports whether a document is JSON and not YAML, by its first character.
func isJSON(data []byte) bool {
	start := bytes.TrimLeft(data, "\xef\xbb\xbf \t\r\n")
	return len(start) > 0 && start[0] == '{'
}
