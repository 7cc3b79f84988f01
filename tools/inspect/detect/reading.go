package detect

import (
	"bytes"
	"cmp"
	"html"
	"slices"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A reading is a text as a reader understands it, for all detectors: invisible characters are left out, character references of
// HTML are decoded, and other forms of spaces, hyphens, digits and ASCII characters (NFKC) become the ASCII characters.
type reading struct {
	text []byte
	at   []int // where each byte of the text comes from in the original; the last element is the length of the original
}

const maxReference = 32 // bytes of a character reference of HTML

// read sets the reading of an original, and reports whether it differs.
func (r *reading) read(original []byte) (differs bool) {
	if !slices.ContainsFunc(original, func(c byte) bool { return weights[c] == specialWeight }) {
		return false
	}
	r.text, r.at = r.text[:0], r.at[:0]
	for i := 0; i < len(original); {
		character, size := utf8.DecodeRune(original[i:])
		meant := meantBy(character)
		ahead := original[i:min(len(original), i+maxReference)]
		if end := bytes.IndexByte(ahead, ';'); character == '&' && end > 1 && ahead[1] != '&' {
			decoded := html.UnescapeString(string(ahead[:end+1]))
			if only, n := utf8.DecodeRuneInString(decoded); n == len(decoded) {
				meant, size = meantBy(only), end+1
			}
		}
		if differs = differs || meant != character; meant >= 0 {
			r.text = utf8.AppendRune(r.text, meant)
		}
		for ; len(r.at) < len(r.text); r.at = append(r.at, i) {
		}
		i += size
	}
	r.at = append(r.at, len(original))
	return differs
}

// meantBy returns the character that a reader takes a character for, -1 if it is invisible.
func meantBy(r rune) rune {
	switch {
	case r >= ' ' && r < 0x7f, r >= 0xc0 && r < 0x2b0, r >= 0x370 && r < 0x600, r >= 0x3400 && r < 0xd800, unicode.Is(unicode.No, r):
		return r // usual letters; ² is no 2
	case unicode.IsSpace(r) && r > ' ':
		return ' '
	case isControl(r), unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
		return -1
	case unicode.In(r, unicode.Pd), r == '−':
		return '-'
	case unicode.IsDigit(r):
		digit := '0'
		for ; digit < '9' && unicode.IsDigit(r-1); r-- { // the digits of a script follow each other
			digit++
		}
		return digit
	}
	if ascii := norm.NFKC.PropertiesString(string(r)).Decomposition(); len(ascii) == 1 {
		return rune(ascii[0])
	}
	return r
}

// locate returns hits in the reading as hits in the original.
func (r *reading) locate(hits []hit) []hit {
	for i, h := range hits {
		hits[i].Start, hits[i].End = r.at[h.Start], r.at[h.End]
	}
	return hits
}

// find returns the hits of a detection in a text, and in its reading if it differs.
func (s *search) find(d *namedDetection, name nameKind, text []byte, differs bool) []hit {
	hits := d.detector.find(s.hits[:0], name, text)
	if differs {
		hits = merged(append(hits, s.reading.locate(d.detector.find(nil, name, s.reading.text))...))
	}
	return hits
}

// merged returns hits in order. Those that overlap become one.
func merged(hits []hit) []hit {
	slices.SortFunc(hits, func(a, b hit) int { return cmp.Or(a.Start-b.Start, b.End-a.End, cmp.Compare(a.Label, b.Label)) })
	kept := hits[:0]
	for _, h := range hits {
		if last := len(kept) - 1; last >= 0 && h.Start < kept[last].End {
			kept[last].End = max(kept[last].End, h.End)
			continue
		}
		kept = append(kept, h)
	}
	return kept
}
