package celenv

import (
	"cel.dev/cel-go/common/ast"
)

// CompileRenamed compiles an expression in which some variables are read from other names at
// evaluation. Rename returns the name to read an identifier from, or "" to keep it. The
// environment must declare that name with a compatible type. Root, Where and errors refer to
// the original expression.
func (e *Environment) CompileRenamed(expression string, rename func(ident ast.NavigableExpr) string) (program *Program, renamed bool, err error) {
	written, err := e.Compile(expression)
	if err != nil {
		return nil, false, err
	}
	names := make(map[int64]string)
	for _, ident := range ast.MatchDescendants(written.Root(), ast.KindMatcher(ast.IdentKind)) {
		if name := rename(ident); name != "" {
			names[ident.ID()] = name
		}
	}
	if len(names) == 0 {
		return written, false, nil
	}
	parsed, issues := e.env.Parse(expression) // assigns the same ids again
	if err := explain(issues); err != nil {
		return nil, false, err
	}
	factory := ast.NewExprFactory()
	ast.PreOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(part ast.Expr) {
		if name := names[part.ID()]; name != "" {
			part.SetKindCase(factory.NewIdent(part.ID(), name))
		}
	}))
	checked, issues := e.env.Check(parsed)
	if err := explain(issues); err != nil {
		return nil, false, err
	}
	if program, err = e.program(checked); err != nil {
		return nil, false, err
	}
	program.tree = written.tree
	return program, true, nil
}
