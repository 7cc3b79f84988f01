package assertion

import (
	"context"
	"strings"

	"cel.dev/cel-go/common/types"

	"github.com/fairwayhq/fairway/internal/expr"
)

// maxParts is the maximum number of parts that errors distinguish. If an assertion has more
// parts, errors name it as a whole.
const maxParts = 32

// compileParts compiles the parts of an assertion of the form a && b && c separately, so that
// errors can name the failing part. An assertion of another form has no parts.
func (a *Assertion) compileParts(names *Names) {
	parts := conjuncts(a.Expression)
	if len(parts) < 2 || len(parts) > maxParts {
		return
	}
	compiled := make([]expression, len(parts))
	for i, part := range parts {
		compiled[i] = expression{Source: Source{Expression: part, Rule: a.Rule}}
		if compiled[i].compile(names) != nil {
			return
		}
	}
	a.parts = compiled
}

// failing returns the part that made the assertion fail. If the assertion evaluated to false,
// that is the first false part. If it could not be evaluated, that is the first part with an
// error. It returns "" if the assertion has no parts, or took too long.
func (a *Assertion) failing(ctx context.Context, err error, variables Variables) string {
	if err != nil && expr.IsInterrupted(err) {
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

// conjuncts splits an expression at && if && is its loosest operator. It returns nil for an
// expression of another form.
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
