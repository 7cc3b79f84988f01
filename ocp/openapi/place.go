package openapi

import (
	"errors"
	"fmt"
	"slices"
)

// A Place is a value and the file it stands in, against which its relative
// $refs are read.
type Place struct {
	*Node
	File *File
}

// At returns the member of that name, a Place with a nil Node if there is none.
func (p Place) At(name string) Place {
	return Place{p.Get(name), p.File}
}

// Item returns a Place for one of the array's items.
func (p Place) Item(item *Node) Place {
	return Place{item, p.File}
}

const (
	maxRefChain = 32      // $refs that may lead from one to the next
	maxRef      = 8 << 10 // bytes of a $ref
)

// ErrRefCycle reports $refs that lead back to where they began.
var ErrRefCycle = errors.New("the $refs lead in a circle")

// Ref returns the text of the $ref, "" if the value is not an object with one.
func (p Place) Ref() string {
	return p.Get("$ref").Text()
}

// IsRef reports whether the value is an object with a $ref that is text.
func (p Place) IsRef() bool {
	ref := p.Get("$ref")
	return ref.Kind() == '"' && len(ref.raw) > len(`""`)
}

// Follow takes one step along the $ref of an object and returns what it points
// at and the name it has there: the last segment of the pointer, or, if the
// $ref names a whole file, the file's base name without its extension. Any
// other value is returned itself, with the name "".
func (p Place) Follow() (target Place, name string, err error) {
	if !p.IsRef() {
		return p, "", nil
	}
	ref := p.Get("$ref")
	if len(ref.raw) > maxRef {
		return Place{}, "", fmt.Errorf("a $ref has more than %d bytes: %.50s…", maxRef, string(ref.raw[:50]))
	}
	if p.File == nil {
		return Place{}, "", fmt.Errorf("$ref %s stands in no file", ref.raw)
	}
	return p.File.follow(ref)
}

// Resolve follows $refs until one leads to something else.
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
			return Place{}, fmt.Errorf("$ref %.200s: %w", first, ErrRefCycle)
		}
		p = next
	}
	return Place{}, fmt.Errorf("$ref %.200s leads through more than %d others", first, maxRefChain)
}
