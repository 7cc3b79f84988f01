package openapi

import (
	"errors"
	"fmt"
	"slices"
)

// A Place is a value together with its file, which relative $refs are resolved against.
type Place struct {
	*Node
	File *File
}

// At returns the Place of the named member. Its Node is nil if there is no such member.
func (p Place) At(name string) Place {
	return Place{p.Get(name), p.File}
}

// Item returns a Place for one of the array's items.
func (p Place) Item(item *Node) Place {
	return Place{item, p.File}
}

const (
	maxRefChain = 32      // length of a chain of $refs
	maxRef      = 8 << 10 // bytes of a $ref
)

// errRefCycle reports circular $refs.
var errRefCycle = errors.New("the $refs form a cycle")

// Ref returns the text of the $ref, or "" if the value is not an object with a $ref.
func (p Place) Ref() string {
	return p.Get("$ref").Text()
}

// IsRef reports whether the value is an object whose $ref is a string.
func (p Place) IsRef() bool {
	ref := p.Get("$ref")
	return ref.Kind() == '"' && len(ref.raw) > len(`""`)
}

// Follow resolves the $ref of an object by one step. It returns the target and the
// target's name: the last segment of the pointer, or, if the $ref names a whole file, the
// file's base name without extension. Any other value is returned unchanged, with the
// name "".
func (p Place) Follow() (target Place, name string, err error) {
	if !p.IsRef() {
		return p, "", nil
	}
	ref := p.Get("$ref")
	if len(ref.raw) > maxRef {
		return Place{}, "", fmt.Errorf("a $ref has more than %d bytes: %.50s…", maxRef, string(ref.raw[:50]))
	}
	if p.File == nil {
		return Place{}, "", fmt.Errorf("$ref %s is in no file", ref.raw)
	}
	return p.File.follow(ref)
}

// Resolve follows $refs until the target is not a $ref itself.
func (p Place) Resolve() (Place, error) {
	if !p.IsRef() {
		return p, nil
	}
	first := p.Get("$ref").raw
	var passed [maxRefChain]Place
	for step := range passed {
		passed[step] = p
		next, _, err := p.Follow()
		if err != nil {
			return Place{}, err
		}
		if !next.IsRef() {
			return next, nil
		}
		if slices.Contains(passed[:step+1], next) {
			return Place{}, fmt.Errorf("$ref %.200s: %w", first, errRefCycle)
		}
		p = next
	}
	return Place{}, fmt.Errorf("$ref %.200s passes through more than %d other $refs", first, maxRefChain)
}
