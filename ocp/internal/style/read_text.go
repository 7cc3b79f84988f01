package style

import (
	"strings"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/wire"
)

const problemText = "is not text in UTF-8"

// AppendText appends text as a JSON value of one of the types: true or false, a number
// in JSON syntax, the JSON of an array or object, otherwise a string. If no type is
// known, the value is a string. If text has none of the types, problem says why and dst
// is returned unchanged; otherwise problem is "".
//
// Spellings that only some servers accept (True, 1 for true, +5, 05, 5 with spaces
// around it) are valid only as strings. Otherwise the gateway could authorize one value
// while the API acts on another.
func AppendText(dst []byte, text string, types Types) (out []byte, problem string) {
	switch {
	case types&Boolean != 0 && (text == "true" || text == "false"):
		return append(dst, text...), ""
	case types&Number != 0 && isNumber(text), types&Integer != 0 && isInteger(text):
		return append(dst, text...), ""
	case types&nested != 0 && isNested(text, types):
		return append(dst, text...), ""
	case types != 0 && types&String == 0:
		return dst, problemType(text, types)
	case !utf8.ValidString(text):
		return dst, problemText
	}
	return wire.AppendString(dst, text), ""
}

// isNested reports whether text is the JSON of an array or object.
func isNested(text string, types Types) bool {
	if text == "" || ((text[0] != '[' || types&Array == 0) && (text[0] != '{' || types&Object == 0)) {
		return false
	}
	return wire.Check([]byte(text)) == nil
}

// isNumber reports whether text is a number in JSON syntax (RFC 8259, section 6).
func isNumber(text string) bool {
	text, ok := cutWhole(text)
	if !ok {
		return false
	}
	if fraction, more := strings.CutPrefix(text, "."); more {
		if text = strings.TrimLeft(fraction, digits); len(text) == len(fraction) {
			return false
		}
	}
	if text == "" {
		return true
	}
	if text[0] != 'e' && text[0] != 'E' {
		return false
	}
	text = text[1:]
	if text != "" && (text[0] == '+' || text[0] == '-') {
		text = text[1:]
	}
	return text != "" && strings.Trim(text, digits) == ""
}

// isInteger reports whether text is an integer in JSON syntax. Its fraction may consist
// of zeros.
func isInteger(text string) bool {
	text, ok := cutWhole(text)
	if !ok {
		return false
	}
	fraction, more := strings.CutPrefix(text, ".")
	return text == "" || more && fraction != "" && strings.Trim(fraction, "0") == ""
}

// cutWhole removes the part of a number before the fraction.
func cutWhole(text string) (rest string, ok bool) {
	text = strings.TrimPrefix(text, "-")
	if rest, zero := strings.CutPrefix(text, "0"); zero {
		return rest, true
	}
	rest = strings.TrimLeft(text, digits)
	return rest, len(rest) < len(text)
}

func problemType(text string, types Types) string {
	var names []string
	for _, t := range [...]struct {
		bit  Types
		name string
	}{
		{Integer, "an integer"},
		{Boolean, "true or false"},
		{Array, "a JSON array"},
		{Object, "a JSON object"},
	} {
		switch {
		case t.bit == Integer && types&Number != 0:
			names = append(names, "a number")
		case types&t.bit != 0:
			names = append(names, t.name)
		}
	}
	if names == nil {
		return "cannot be given as " + quote(text) + ": no text is of its type"
	}
	return "must be " + strings.Join(names, " or ") + ", and is " + quote(text)
}
