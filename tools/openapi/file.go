package openapi

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// Version is the OpenAPI version whose rules apply to a file.
type Version int

// The versions, by their first two numbers. 3.2 is read as 3.1.
const (
	Swagger20 Version = iota + 1
	OpenAPI30
	OpenAPI31
)

// A File is one file of a Document: the document itself, or the target of a $ref. It is
// safe for concurrent use.
type File struct {
	Name    string  // path or URL, for messages
	Version Version // the file's own version, or that of the document that refers to it
	Root    *Node

	// Version30 means that schemas use the dialect of OpenAPI 3.0: nullable, boolean
	// exclusiveMinimum. It is also set for Swagger 2.0, whose schemas are converted to
	// that dialect when they are read.
	Version30 bool

	files *files
	dir   string // absolute directory that relative $refs start from

	mutex   sync.Mutex
	targets map[string]target // by the text of the $ref

	anchorsOnce sync.Once
	anchors     map[string]*Node

	discriminates bool // the file has the word discriminator
	subtypesOnce  sync.Once
	subtypes      map[*Node][]Subtype // by the schema that they extend
}

// A target is the value that a $ref refers to.
type target struct {
	place Place
	name  string
	err   error
}

// follow returns the target of a $ref in this file.
func (f *File) follow(ref *Node) (Place, string, error) {
	f.mutex.Lock()
	t, known := f.targets[string(ref.raw)]
	f.mutex.Unlock()
	if known {
		return t.place, t.name, t.err
	}
	t.place, t.name, t.err = f.find(ref.Text())
	if t.err != nil {
		t.err = fmt.Errorf("$ref %.200s: %w", ref.raw, t.err)
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.targets == nil {
		f.targets = make(map[string]target)
	}
	f.targets[string(ref.raw)] = t
	return t.place, t.name, t.err
}

func (f *File) find(ref string) (Place, string, error) {
	location, fragment, _ := strings.Cut(ref, "#")
	file := f
	if location != "" {
		var err error
		if file, err = f.files.open(f, location); err != nil {
			return Place{}, "", err
		}
	}
	node, name, err := file.lookup(fragment)
	if err != nil {
		return Place{}, "", err
	}
	return Place{node, file}, name, nil
}

// lookup returns the value that a URL fragment refers to: a JSON Pointer (RFC 6901,
// section 6) or an $anchor.
func (f *File) lookup(fragment string) (*Node, string, error) {
	switch {
	case fragment == "":
		base := filepath.Base(f.Name)
		return f.Root, strings.TrimSuffix(base, filepath.Ext(base)), nil
	case fragment[0] != '/':
		f.anchorsOnce.Do(func() {
			f.anchors = make(map[string]*Node)
			collectAnchors(f.Root, f.anchors)
		})
		if node := f.anchors[fragment]; node != nil {
			return node, fragment, nil
		}
		return nil, "", fmt.Errorf("no $anchor of that name in %s", f.Name)
	}
	pointer := fragment
	if decoded, err := url.PathUnescape(fragment); err == nil {
		pointer = decoded
	}
	node, name, err := f.point(pointer)
	if err != nil && pointer != fragment {
		// A name may contain a percent sign that the author did not escape.
		if node, name, err := f.point(fragment); err == nil {
			return node, name, nil
		}
	}
	return node, name, err
}

var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")

func (f *File) point(pointer string) (*Node, string, error) {
	node, name := f.Root, ""
	for segment := range strings.SplitSeq(pointer[1:], "/") {
		name = unescapePointer.Replace(segment)
		next := node.Get(name)
		if node.Kind() == '[' {
			next = item(node, name)
		}
		if next == nil {
			return nil, "", fmt.Errorf("%s has no member %.100q at the path of the $ref", f.Name, name)
		}
		node = next
	}
	return node, name, nil
}

func item(array *Node, index string) *Node {
	i, err := strconv.Atoi(index)
	if err != nil || i < 0 || i >= len(array.Items()) {
		return nil
	}
	return array.Items()[i]
}

func collectAnchors(n *Node, anchors map[string]*Node) {
	if name := n.Get("$anchor").Text(); name != "" && anchors[name] == nil {
		anchors[name] = n
	}
	for _, m := range n.Members() {
		collectAnchors(m.Value, anchors)
	}
	for _, i := range n.Items() {
		collectAnchors(i, anchors)
	}
}
