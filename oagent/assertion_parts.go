package oagent

import (
	"context"
	"strings"

	"cel.dev/cel-go/common/types"

	"github.com/fairwayhq/fairway/internal/expr"
)

// maxParts is how many parts of an assertion are told apart. One that has more is
// named as a whole.
const maxParts = 32

// compileParts compiles the parts of an assertion of the form a && b && c, so that the
// part that fails can be named. An assertion of another form has none.
func (a *Assertion) compileParts(names *nameset) {
	parts := conjuncts(a.Expression)
	if len(parts) < 2 || len(parts) > maxParts {
		return
	}
	compiled := make([]expression, len(parts))
	for i, part := range parts {
		compiled[i] = expression{Expression: part, Rule: a.Rule}
		if compiled[i].compile(names) != nil {
			return
		}
	}
	a.parts = compiled
}

// failing returns the part by which the assertion failed: the first that is false, or
// the first that cannot be evaluated if the assertion could not be. It is "" if the
// assertion has no parts, or took too long.
func (a *Assertion) failing(ctx context.Context, err error, variables Variables) string {
	if err != nil && expr.IsCutOff(err) {
		return ""
	}
	for i := range a.parts {
		value, failed := a.parts[i].evaluate(ctx, variables)
		if err != nil && failed != nil || err == nil && failed == nil && value == types.False {
			return a.parts[i].Expression
		}
	}
	return ""
}

// conjuncts returns the parts of an expression that are joined by && and by nothing
// that binds less tightly. It is nil if the expression has another form.
func conjuncts(source string) (parts []string) {
	w := &rewriter{source: source}
	depth, start := 0, 0
	for w.at < len(source) {
		rest := source[w.at:]
		switch c := source[w.at]; {
		case c == '"' || c == '\'':
			w.skipLiteral(false)
			continue
		case c == '`':
			w.skipTo("`")
			continue
		case strings.HasPrefix(rest, "//"):
			return nil
		case isWord(c):
			if w.word() != nil {
				return nil
			}
			continue
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			depth--
		case depth > 0:
		case strings.HasPrefix(rest, "||"), c == '?' && w.at > 0 && source[w.at-1] != '.':
			return nil
		case strings.HasPrefix(rest, "&&"):
			parts = append(parts, strings.TrimSpace(source[start:w.at]))
			start = w.at + len("&&")
			w.at++
		}
		w.at++
	}
	return append(parts, strings.TrimSpace(source[start:]))
}
