package celenv

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// maxRegex limits a regular expression, in steps of its program. Repetitions are expanded:
// x{20} has 20 steps.
const maxRegex = 512

var errRegexTooLarge = errors.New("the regular expression is too large")

// withoutMatches is the standard library of CEL without matches, which boundedMatches replaces.
func withoutMatches() *env.LibrarySubset {
	return env.NewLibrarySubset().AddExcludedFunctions(env.NewFunction(overloads.Matches))
}

// boundedMatches replaces text.matches(pattern) with a function that limits the pattern,
// because a pattern that is not a literal may come from a client. CEL's own limit is not used,
// since it panics for patterns with a counted repetition.
func boundedMatches() cel.EnvOption {
	text := cel.StringType
	return cel.Lib(functions{
		cel.Function("matches",
			cel.Overload(overloads.Matches, []*cel.Type{text, text}, cel.BoolType),
			cel.MemberOverload(overloads.MatchesString, []*cel.Type{text, text}, cel.BoolType),
			cel.SingletonBinaryBinding(matches)),
	})
}

// matches implements text.matches(pattern).
func matches(text, pattern ref.Val) ref.Val {
	subject, ok := text.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(text)
	}
	written, ok := pattern.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(pattern)
	}
	expression := string(written)
	if err := checkRegex(expression); err != nil {
		return types.WrapErr(err)
	}
	compiled, err := regexp.Compile(expression)
	if err != nil {
		return types.WrapErr(err)
	}
	return types.Bool(compiled.MatchString(string(subject)))
}

// checkLiterals checks the literal patterns in an expression. Invalid patterns are reported
// when the program is created.
func checkLiterals(tree *ast.AST) error {
	for _, node := range ast.MatchDescendants(ast.NavigateAST(tree), ast.FunctionMatcher(overloads.Matches)) {
		arguments := node.AsCall().Args()
		if len(arguments) == 0 {
			continue
		}
		last := arguments[len(arguments)-1]
		if last.Kind() != ast.LiteralKind {
			continue
		}
		pattern, ok := last.AsLiteral().(types.String)
		if !ok || !errors.Is(checkRegex(string(pattern)), errRegexTooLarge) {
			continue
		}
		place := Position{Message: fmt.Sprintf("%v: it has more than %d steps", errRegexTooLarge, maxRegex)}
		if at := tree.SourceInfo().GetStartLocation(last.ID()); at != nil && at.Line() > 0 {
			place.Line, place.Column = at.Line(), at.Column()+1
		}
		return &CompileError{Positions: []Position{place}}
	}
	return nil
}

// checkRegex returns an error if a pattern is invalid or too large.
func checkRegex(pattern string) error {
	if len(pattern) > 2*maxRegex {
		return errRegexTooLarge
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return err
	}
	if stepsOf(parsed) > maxRegex {
		return errRegexTooLarge
	}
	return nil
}

// stepsOf returns the approximate number of steps in the program of a pattern. It stops
// counting at the limit.
func stepsOf(pattern *syntax.Regexp) int {
	steps := 1
	if pattern.Op == syntax.OpLiteral {
		steps = len(pattern.Rune)
	}
	for _, part := range pattern.Sub {
		if steps += stepsOf(part); steps > maxRegex {
			return maxRegex + 1
		}
	}
	if pattern.Op == syntax.OpRepeat {
		steps *= max(pattern.Min+1, pattern.Max)
	}
	return min(steps, maxRegex+1)
}
