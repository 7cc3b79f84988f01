package tool

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestSurface_has_no_internal_type: other modules can name every type that they get from
// this package, so none is of an internal package. Tool.Plan and Tool.Select are the exceptions:
// they are for other packages of this module.
func TestSurface_has_no_internal_type(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	declarations := 0
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		internal := make(map[string]bool)
		for _, imported := range parsed.Imports {
			path, _ := strconv.Unquote(imported.Path.Value)
			name := path[strings.LastIndexByte(path, '/')+1:]
			if imported.Name != nil {
				name = imported.Name.Name
			}
			internal[name] = strings.Contains(path, "/internal/")
		}
		for _, exposed := range exposedBy(parsed) {
			declarations++
			ast.Inspect(exposed, func(n ast.Node) bool {
				if selector, ok := n.(*ast.SelectorExpr); ok {
					if name, ok := selector.X.(*ast.Ident); ok && internal[name.Name] {
						t.Errorf("%s: %s.%s is of an internal package", set.Position(n.Pos()), name.Name, selector.Sel.Name)
					}
				}
				return true
			})
		}
	}
	if declarations < 100 {
		t.Errorf("only %d declarations were found", declarations)
	}
}

// exposedBy returns the types, signatures, variables and fields of a file that other
// packages see.
func exposedBy(file *ast.File) (exposed []ast.Node) {
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && !isMethodOfHidden(d) && d.Name.Name != "Plan" && d.Name.Name != "Select" {
				exposed = append(exposed, d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					if s.Names[0].IsExported() {
						exposed = append(exposed, s)
					}
				case *ast.TypeSpec:
					exposed = append(exposed, exposedByType(s)...)
				}
			}
		}
	}
	return exposed
}

// isMethodOfHidden reports whether a function is a method of a type that is not exported.
func isMethodOfHidden(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return false
	}
	receiver := d.Recv.List[0].Type
	if pointer, ok := receiver.(*ast.StarExpr); ok {
		receiver = pointer.X
	}
	name, ok := receiver.(*ast.Ident)
	return ok && !name.IsExported()
}

// exposedByType returns what an exported type exposes: the fields that are exported, or all
// of it if it is no struct.
func exposedByType(spec *ast.TypeSpec) (exposed []ast.Node) {
	if !spec.Name.IsExported() {
		return nil
	}
	structure, ok := spec.Type.(*ast.StructType)
	if !ok {
		return []ast.Node{spec.Type}
	}
	for _, field := range structure.Fields.List {
		if len(field.Names) == 0 {
			exposed = append(exposed, field.Type)
		}
		for _, name := range field.Names {
			if name.IsExported() {
				exposed = append(exposed, field.Type)
			}
		}
	}
	return exposed
}
