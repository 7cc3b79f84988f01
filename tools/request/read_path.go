package request

import (
	"fmt"
	"strings"
)

// ReadPath is the inverse of Append for a path: it appends the JSON for raw, the
// percent-encoded text in place of {name}. It rejects what Append rejects: text that
// could leave its segments, and control characters.
//
// Lists are decoded before they are split, as servers do: "a%2Cb" is two items.
func (s *Serializer) ReadPath(dst []byte, raw string, shape Shape) ([]byte, error) {
	r := s.reading(shape)
	return r.path(dst, raw)
}

// IsMatrix reports whether the parameter is written with plain semicolons.
func (s *Serializer) IsMatrix() bool { return s.layout.first == ";" }

// path reads a path parameter.
func (r *reading) path(dst []byte, raw string) ([]byte, error) {
	if text := []byte(raw); !isHarmless(text) {
		switch {
		case isBlank(text):
			return dst, r.param.misread(Malformed, "is empty")
		case HasDotSegment(text, true):
			return dst, r.param.misread(Ambiguous, problemDots)
		}
	}
	switch {
	case !r.param.HasSegments(raw):
		return dst, r.param.misread(Malformed, r.param.problemSegments())
	case r.param.segments != "" && strings.Contains(strings.ToUpper(raw), "%2F"):
		return dst, r.param.misread(Ambiguous, "has an encoded slash, which some servers decode and others do not: write a plain one")
	}
	text, ok := strings.CutPrefix(raw, r.param.layout.first)
	if !ok {
		return dst, r.param.misread(Malformed, fmt.Sprintf("does not begin with %q, as its style has it", r.param.layout.first))
	}
	switch {
	case r.param.layout.named:
		return r.matrix(dst, text)
	case r.param.explode && r.param.layout.between != r.param.layout.delimiter && r.types&nested != 0:
		return r.appendParts(dst, strings.Split(text, r.param.layout.between))
	}
	return r.pathText(dst, text)
}

// matrix reads the text after the first ";".
func (r *reading) matrix(dst []byte, text string) ([]byte, error) {
	pairs := make([]Pair, 0, 8)
	for part := range strings.SplitSeq(text, r.param.layout.between) {
		name, value, _ := strings.Cut(part, "=")
		pair := Pair{raw: value}
		var err error
		if pair.Name, err = r.param.decode(name); err == nil {
			pair.Value, err = r.param.decode(value)
		}
		if err != nil {
			return dst, err
		}
		pairs = append(pairs, pair)
	}
	out, err := (&pairReader{*r, pairs}).read(dst)
	if err != nil {
		return dst, err
	}
	for i := range pairs {
		if !pairs[i].Taken {
			return dst, r.param.misread(Malformed, "has a part "+quote(pairs[i].Name)+" that does not belong to it")
		}
	}
	if len(out) == len(dst) {
		return dst, r.param.misread(Malformed, "is empty")
	}
	return out, nil
}

// pathText reads a value that is one text: a delimited list or a single value.
func (r *reading) pathText(dst []byte, raw string) ([]byte, error) {
	if r.param.layout.reads == 0 && r.types&Array != 0 && typesOf(itemOf(r.shape)) != 0 && typesOf(itemOf(r.shape))&single == 0 {
		return r.appendParts(dst, strings.Split(raw, r.param.layout.delimiter)) // JSON contains commas
	}
	text, err := r.param.decode(raw)
	if err != nil {
		return dst, err
	}
	return r.appendDivided(dst, text)
}
