package overlay

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/watch"
	"github.com/fairwayhq/fairway/tools/openapi"
)

// Limits of an overlay.
const (
	MaxSize    = 4 << 20 // bytes of its file
	maxActions = 10_000
	maxValues  = 500_000 // values in its file
)

// An Overlay is a list of actions that change a document. It is immutable.
type Overlay struct {
	Name    string // where it was read, for messages
	Title   string // info.title
	Version string // info.version
	Extends string // the document that it was written for; "" if it does not say

	primitives bool // primitive values can be replaced, since Overlay 1.1
	actions    []action
}

// An action changes the values that its target selects.
type action struct {
	line   int
	target string // query
	remove bool
	update *node  // nil if there is none
	copy   string // query for the value to merge in place of update; "" if there is none
}

// ReadFile reads an overlay from a regular file.
func ReadFile(path string) (*Overlay, error) {
	data, _, _, err := watch.File{Path: path, MaxSize: MaxSize}.Read(nil)
	if errors.Is(err, buffer.ErrTooLarge) {
		return nil, fmt.Errorf("overlay %s has more than %d bytes: split it into several overlays", path, MaxSize)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the overlay: %w", err)
	}
	return Read(data, path)
}

// Read reads an overlay in JSON or YAML. The name appears in messages, before the line.
func Read(data []byte, name string) (*Overlay, error) {
	if len(data) > MaxSize {
		return nil, fmt.Errorf("overlay %s has %d bytes; the limit is %d: split it into several overlays", name, len(data), MaxSize)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // a byte order mark
	lines, err := parseLines(data)
	if err != nil {
		return nil, withLine(name, err)
	}
	root, err := openapi.Parse(data, openapi.Limits{Size: MaxSize, Depth: maxDepth, Nodes: maxValues})
	if err != nil {
		return nil, fmt.Errorf("overlay %s: %w", name, err)
	}
	r := &reader{overlay: &Overlay{Name: name}, lines: lines}
	if err := r.root(root); err != nil {
		return nil, err
	}
	return r.overlay, nil
}

// A reader checks the tree of one overlay.
type reader struct {
	overlay *Overlay
	lines   *yaml.Node
}

// fail returns an error at the place with the given path, such as "actions", 2, "target".
func (r *reader) fail(path []any, format string, arguments ...any) error {
	return fmt.Errorf("overlay %s:%d: %s%s", r.overlay.Name, lineOf(r.lines, path), describe(path), fmt.Sprintf(format, arguments...))
}

// describe returns a path in the form actions[2].target, and a colon.
func describe(path []any) string {
	var b strings.Builder
	for _, step := range path {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", step)
		case string:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(step)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return b.String() + ": "
}

func (r *reader) root(root *openapi.Node) error {
	switch {
	case root.Kind() != '{':
		return r.fail(nil, "an overlay is an object with overlay, info and actions")
	case root.Get("overlay") == nil && (root.Get("openapi") != nil || root.Get("swagger") != nil):
		return r.fail(nil, "this is an OpenAPI document, not an overlay: an overlay begins with overlay: 1.1.0")
	}
	if err := r.version(root.Get("overlay")); err != nil {
		return err
	}
	if err := r.known(root, nil, "overlay", "info", "extends", "actions"); err != nil {
		return err
	}
	info := root.Get("info")
	if info.Kind() != '{' {
		return r.fail(path("info", info), "an overlay needs info, an object with title and version")
	}
	if err := r.known(info, []any{"info"}, "title", "version", "description"); err != nil {
		return err
	}
	var err error
	if r.overlay.Title, err = r.text(info, []any{"info"}, "title", true); err != nil {
		return err
	}
	if r.overlay.Version, err = r.text(info, []any{"info"}, "version", true); err != nil {
		return err
	}
	if _, err = r.text(info, []any{"info"}, "description", false); err != nil {
		return err
	}
	if r.overlay.Extends, err = r.text(root, nil, "extends", false); err != nil {
		return err
	}
	return r.actions(root.Get("actions"))
}

// path returns the path of a member of the root if it is there, and else that of the root.
func path(name string, member *openapi.Node) []any {
	if member == nil {
		return nil
	}
	return []any{name}
}

func (r *reader) version(n *openapi.Node) error {
	version := n.Text()
	feature := version
	if parts := strings.Split(version, "."); len(parts) == 3 {
		feature = parts[0] + "." + parts[1]
	}
	switch {
	case n == nil:
		return r.fail(nil, "an overlay needs its version: write overlay: 1.1.0")
	case n.Kind() != '"':
		return r.fail([]any{"overlay"}, "the version must be a text with three numbers, such as 1.1.0, not %s", n.Raw())
	case feature == version:
		return r.fail([]any{"overlay"}, "the version must have three numbers, such as 1.1.0, not %q", version)
	case feature == "1.0":
	case feature == "1.1":
		r.overlay.primitives = true
	default:
		return r.fail([]any{"overlay"}, "version %q is not supported: 1.0.0 and 1.1.0 are", version)
	}
	return nil
}

// known rejects members that the specification does not define, except x-….
func (r *reader) known(n *openapi.Node, where []any, names ...string) error {
	for _, m := range n.Members() {
		if slices.Contains(names, m.Name) || strings.HasPrefix(m.Name, "x-") {
			continue
		}
		hint := text.DidYouMean(text.Nearest(m.Name, slices.Values(names)))
		return r.fail(append(slices.Clip(where), m.Name), "unknown key%s (known keys: %s, x-…)", hint, strings.Join(names, ", "))
	}
	return nil
}

// text returns a member that must be a text.
func (r *reader) text(n *openapi.Node, where []any, name string, required bool) (string, error) {
	value := n.Get(name)
	switch {
	case value == nil && !required:
		return "", nil
	case value == nil:
		return "", r.fail(where, "%s is missing", name)
	case value.Kind() != '"':
		return "", r.fail(append(slices.Clip(where), name), "must be a text: put it in quotes")
	}
	return value.Text(), nil
}

func (r *reader) actions(list *openapi.Node) error {
	items := list.Items()
	switch {
	case list.Kind() != '[' || len(items) == 0:
		return r.fail(path("actions", list), "an overlay needs actions, a list of objects with target and update, copy or remove")
	case len(items) > maxActions:
		return r.fail([]any{"actions"}, "%d actions are more than %d: split the overlay", len(items), maxActions)
	}
	r.overlay.actions = make([]action, len(items))
	for i, item := range items {
		a, err := r.action(item, []any{"actions", i})
		if err != nil {
			return err
		}
		r.overlay.actions[i] = a
	}
	return nil
}

func (r *reader) action(n *openapi.Node, where []any) (a action, err error) {
	if n.Kind() != '{' {
		return a, r.fail(where, "an action is an object with target and update, copy or remove")
	}
	if err := r.known(n, where, "target", "description", "update", "copy", "remove"); err != nil {
		return a, err
	}
	a.line = lineOf(r.lines, where)
	if _, err := r.text(n, where, "description", false); err != nil {
		return a, err
	}
	if a.target, err = r.query(n, where, "target"); err != nil {
		return a, err
	}
	if remove := n.Get("remove"); remove != nil {
		if kind := remove.Kind(); kind != 't' && kind != 'f' {
			return a, r.fail(append(where, "remove"), "must be true or false")
		}
		a.remove = remove.True()
	}
	update, source := n.Get("update"), n.Get("copy")
	switch {
	case source != nil && !r.overlay.primitives:
		return a, r.fail(append(where, "copy"), "copy needs version 1.1: write overlay: 1.1.0")
	case a.remove: // update and copy have no effect then
		return a, nil
	case update != nil && source != nil:
		return a, r.fail(where, "an action has update or copy, not both: write two actions")
	case source != nil:
		a.copy, err = r.query(n, where, "copy")
		return a, err
	case update == nil:
		return a, r.fail(where, "the action changes nothing: give it update, copy or remove: true")
	}
	a.update = toTree(update)
	return a, nil
}

// query checks a member that is a JSONPath query.
func (r *reader) query(n *openapi.Node, where []any, name string) (string, error) {
	query, err := r.text(n, where, name, true)
	if err != nil {
		return "", err
	}
	if _, err := new(budget).compile(query); err != nil {
		return "", r.fail(append(where, name), "not a JSONPath query (RFC 9535): %v", err)
	}
	return query, nil
}
