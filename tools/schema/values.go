package schema

import (
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/fairwayhq/fairway/tools/openapi"
)

// isNumber reports whether n is a number small enough for validators to compute with.
func isNumber(n *openapi.Node) bool {
	return n.Kind() == '0' && isBounded(string(n.Raw()))
}

func isBounded(number string) bool {
	if len(number) > maxNumber {
		return false
	}
	value, err := strconv.ParseFloat(number, 64)
	return err == nil && (value != 0 || !strings.ContainsAny(number, "eE"))
}

func isPositive(n *openapi.Node) bool {
	value, err := strconv.ParseFloat(string(n.Raw()), 64)
	return err == nil && value > 0
}

// isNumberText reports whether text is a number in JSON syntax.
func isNumberText(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	if digits == "" || len(text) > maxNumber {
		return false
	}
	whole, fraction, pointed := strings.Cut(digits, ".")
	switch {
	case !isDigits(whole), len(whole) > 1 && whole[0] == '0', pointed && !isDigits(fraction):
		return false
	}
	return true
}

func isDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// countDigits returns the digits of a non-negative integer.
func countDigits(n *openapi.Node) (string, bool) {
	if n.Kind() != '0' {
		return "", false
	}
	digits, zeros, _ := strings.Cut(string(n.Raw()), ".")
	if strings.Trim(zeros, "0") != "" || len(digits) > maxCount {
		return "", false
	}
	return digits, isDigits(digits)
}

// patternBudget limits the regular expressions of a document.
type patternBudget struct {
	sizes map[string]int // number of compiled instructions; 0 if the pattern does not compile
	used  int            // instructions of all patterns so far
}

// compiles reports whether Go can compile a regular expression, and whether it is within
// the limits. Go's syntax is nearly a subset of ECMAScript's.
func (b *patternBudget) compiles(pattern string) bool {
	size, known := b.sizes[pattern]
	if !known {
		if len(pattern) <= maxPattern && !strings.Contains(pattern, "(?P<") {
			size = programSize(pattern)
		}
		b.sizes[pattern] = size
	}
	if size == 0 || size > maxProgram || size > maxPrograms-b.used {
		return false
	}
	b.used += size
	return true
}

// programSize returns the approximate number of instructions of a compiled regular
// expression, or 0 if Go cannot parse it.
func programSize(pattern string) int {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	return instructions(re)
}

func instructions(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)/2
	for _, sub := range re.Sub {
		size += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(re.Min, re.Max, 1) // the compiler expands repetitions
	}
	return size
}
