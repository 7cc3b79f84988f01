package yamltree

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const (
	maxLineSearch = 32 << 20 // bytes that are parsed again to find the line of a syntax error
	maxUnfinished = 50       // lines of a value after which a longer text may be valid again
	maxShownLine  = 80       // bytes of the line that an error repeats
)

// SyntaxError adds the line to an error of the YAML parser: the first line that makes the text up to it invalid. The
// line in the parser's own error is often the start of the enclosing list or mapping, counted from zero. before is how
// many lines of the file precede the text. The error repeats the line, and says how to correct common mistakes.
func SyntaxError(data []byte, err error, before int) error {
	reason := strings.TrimPrefix(err.Error(), "yaml: ")
	lines := bytes.SplitAfter(bytes.TrimRight(data, " \t\r\n"), []byte("\n"))
	n := invalidLine(lines)
	if n == 0 {
		return errors.New(strings.ReplaceAll(reason, "\n", " "))
	}
	if _, rest, found := strings.Cut(reason, ": "); found && strings.HasPrefix(reason, "line ") {
		reason = rest
	}
	line := string(bytes.TrimRight(lines[n-1], "\r\n"))
	message := strings.ReplaceAll(reason, "\n", " ")
	if shown := strings.TrimSpace(line); shown != "" && utf8.ValidString(shown) {
		if len(shown) > maxShownLine {
			shown = strings.ToValidUTF8(shown[:maxShownLine], "") + "…"
		}
		message += ": " + shown
	}
	return &Error{before + n, errors.New(message + correction(reason, line))}
}

// correction returns how to correct a mistake that people often make, or "".
func correction(reason, line string) string {
	indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	switch {
	case strings.Contains(indent, "\t"):
		return " (indent with spaces, not with tabs)"
	case strings.Count(line, ": ") > 1 && (strings.HasPrefix(reason, "mapping values are not allowed") || strings.HasPrefix(reason, "did not find expected ',' or")):
		return ` (put a value that contains ": " in quotes)`
	case strings.HasPrefix(reason, "mapping values are not allowed"), strings.HasPrefix(reason, "did not find expected key"):
		return " (check the indentation and the quotes of this line and the one before it)"
	}
	return ""
}

// invalidLine returns the number of the first line from which on no text up to a line is valid YAML, or 0 if it is
// not found within maxLineSearch.
//
// Texts up to a line before it may be invalid too, because a value that spans lines is not finished. So the search
// by halves goes on after such a value.
func invalidLine(lines [][]byte) int {
	ends := make([]int, len(lines)+1)
	for i, line := range lines {
		ends[i+1] = ends[i] + len(line)
	}
	text := bytes.Join(lines, nil)
	left := maxLineSearch
	isValid := func(n int) bool {
		left -= ends[n]
		return left > 0 && yaml.Unmarshal(text[:ends[n]], new(yaml.Node)) == nil
	}
	if isValid(len(lines)) {
		return 0 // the error is in a further document
	}
	for valid := 0; left > 0; {
		invalid := len(lines)
		for invalid-valid > 1 && left > 0 {
			if middle := (valid + invalid) / 2; isValid(middle) {
				valid = middle
			} else {
				invalid = middle
			}
		}
		next := invalid + 1
		for next < len(lines) && next < invalid+maxUnfinished && !isValid(next) {
			next++
		}
		if next >= len(lines) || next >= invalid+maxUnfinished {
			if left > 0 {
				return invalid
			}
			break
		}
		valid = next
	}
	return 0
}
