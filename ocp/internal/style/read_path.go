package style

import (
	"fmt"
	"strings"
)

// ReadPath is the inverse of Append for a path: it appends the JSON for raw, the
// percent-encoded text in place of {name}. It rejects what Append rejects: text that
// could leave its segment, and control characters.
//
// Lists are decoded before they are split, as servers do: "a%2Cb" is two items.
func (s *Serializer) ReadPath(dst []byte, raw string, shape Shape) ([]byte, error) {
	p := pathReader{s.reading(shape)}
	return p.read(dst, raw)
}

// A pathReader reads a path parameter.
type pathReader struct {
	reading
}

func (p *pathReader) read(dst []byte, raw string) ([]byte, error) {
	if text := []byte(raw); !isHarmless(text) {
		switch {
		case isBlank(text):
			return dst, p.misread(Malformed, "is empty")
		case HasDotSegment(text, true):
			return dst, p.misread(Ambiguous, problemDots)
		}
	}
	text, ok := strings.CutPrefix(raw, p.layout.first)
	if !ok {
		return dst, p.misread(Malformed, fmt.Sprintf("does not begin with %q, as its style has it", p.layout.first))
	}
	switch {
	case p.layout.named:
		return p.matrix(dst, text)
	case p.explode && p.layout.between != p.layout.delimiter && p.types&nested != 0:
		return p.appendParts(dst, strings.Split(text, p.layout.between))
	}
	return p.list(dst, text)
}

// matrix reads the text after the first ";".
func (p *pathReader) matrix(dst []byte, text string) ([]byte, error) {
	pairs := make([]Pair, 0, 8)
	for part := range strings.SplitSeq(text, p.layout.between) {
		name, value, _ := strings.Cut(part, "=")
		pair := Pair{raw: value}
		var err error
		if pair.Name, err = p.decode(name); err == nil {
			pair.Value, err = p.decode(value)
		}
		if err != nil {
			return dst, err
		}
		pairs = append(pairs, pair)
	}
	out, err := (&pairReader{p.reading, pairs}).read(dst)
	if err != nil {
		return dst, err
	}
	for i := range pairs {
		if !pairs[i].Taken {
			return dst, p.misread(Malformed, "has a part "+quote(pairs[i].Name)+" that does not belong to it")
		}
	}
	if len(out) == len(dst) {
		return dst, p.misread(Malformed, "is empty")
	}
	return out, nil
}

// list reads a value that is one text: a delimited list or a single value.
func (p *pathReader) list(dst []byte, raw string) ([]byte, error) {
	if p.types&Array != 0 && typesOf(itemOf(p.shape)) != 0 && typesOf(itemOf(p.shape))&single == 0 {
		return p.appendParts(dst, strings.Split(raw, p.layout.delimiter)) // JSON contains commas
	}
	text, err := p.decode(raw)
	if err != nil {
		return dst, err
	}
	return p.appendDivided(dst, text)
}
