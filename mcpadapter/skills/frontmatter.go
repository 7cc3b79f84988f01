package skills

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/yamltree"
)

const (
	maxFrontmatter      = 64 << 10 // bytes
	maxFrontmatterDepth = 16       // levels of lists and mappings
	maxName             = 64       // bytes
	maxDescription      = 1024     // characters
)

// validName is the form of a name, besides its length (Agent Skills, name field).
var validName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// IsName reports whether a text is a valid name of a skill.
func IsName(s string) bool { return len(s) <= maxName && validName.MatchString(s) }

// A frontmatter is the YAML at the start of a SKILL.md.
type frontmatter struct {
	name, description string
	json              jsontext.Value // all of it
}

// readFrontmatter reads the frontmatter of a SKILL.md in the folder. Its errors name lines of the file.
func readFrontmatter(data []byte, folder string) (*frontmatter, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("is not valid UTF-8")
	}
	source, err := cutFrontmatter(data)
	if err != nil {
		return nil, err
	}
	root, err := yamltree.Parse(source, yamltree.Options{MaxDepth: maxFrontmatterDepth, Before: 1})
	switch {
	case errors.Is(err, yamltree.ErrEmpty):
		return nil, &yamltree.Error{Line: 1, Err: errors.New("the frontmatter is empty; it needs name and description")}
	case err != nil:
		return nil, err
	case root.Kind != yaml.MappingNode:
		return nil, yamltree.At(root, fmt.Errorf("the frontmatter must be a mapping with name and description, not %s", yamltree.Describe(root)))
	}
	f := new(frontmatter)
	if f.json, err = yamltree.AppendJSON(nil, root); err != nil {
		return nil, err
	}
	if f.name, err = requiredText(root, "name"); err != nil {
		return nil, err
	}
	if f.description, err = requiredText(root, "description"); err != nil {
		return nil, err
	}
	switch {
	case !IsName(f.name):
		err = fmt.Errorf("name %q must have 1 to %d lower-case letters, digits and single hyphens between them", text.Cut(f.name, text.MaxQuoted), maxName)
	case f.name != folder:
		err = fmt.Errorf("name is %s, but the folder is %s; give both the same name", f.name, text.Cut(folder, text.MaxQuoted))
	}
	if err != nil {
		return nil, yamltree.At(yamltree.Member(root, "name"), err)
	}
	if n := utf8.RuneCountInString(f.description); n > maxDescription {
		return nil, yamltree.At(yamltree.Member(root, "description"), fmt.Errorf("description has %d characters; the limit is %d", n, maxDescription))
	}
	return f, nil
}

// cutFrontmatter returns the lines between the first line of the file, ---, and the next line ---.
func cutFrontmatter(data []byte) ([]byte, error) {
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	first, rest, _ := bytes.Cut(data, []byte("\n"))
	if string(bytes.TrimRight(first, " \t\r")) != "---" {
		return nil, &yamltree.Error{Line: 1, Err: errors.New("the file must begin with YAML frontmatter: a line ---, name and description, and another line ---")}
	}
	for length := 0; length <= maxFrontmatter; {
		line, _, more := bytes.Cut(rest[length:], []byte("\n"))
		if string(bytes.TrimRight(line, " \t\r")) == "---" {
			return rest[:length], nil
		}
		if !more {
			return nil, &yamltree.Error{Line: 1, Err: errors.New("the frontmatter has no end: a line --- after it is missing")}
		}
		length += len(line) + 1
	}
	return nil, &yamltree.Error{Line: 1, Err: fmt.Errorf("the frontmatter has more than %d bytes", maxFrontmatter)}
}

// requiredText returns a member of the frontmatter that must be a string with text.
func requiredText(root *yaml.Node, name string) (string, error) {
	n := yamltree.Member(root, name)
	switch {
	case n == nil:
		return "", yamltree.At(root, fmt.Errorf("%s is missing", name))
	case !yamltree.IsString(n):
		return "", yamltree.At(n, fmt.Errorf("%s must be a string, not %s; put it in quotes", name, yamltree.Describe(n)))
	case len(bytes.TrimSpace([]byte(n.Value))) == 0:
		return "", yamltree.At(n, fmt.Errorf("%s is empty", name))
	}
	return n.Value, nil
}
