package tools

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// public are the packages, relative to this one, that other modules import to use tools without Caddy.
var public = []string{
	".", "build", "loader", "lock", "match", "openapi", "ocpextension", "overlay", "result", "search", "security", "source",
	"../ocp", "../ocp/advertise", "../ocp/client", "../ocp/enhance", "../mcpadapter", "../otcadapter", "../oagent",
	"../store", "../store/embedded", "../store/keyedhash", "../store/postgres", "../store/redis", "../store/storetest",
}

// forModule are the declarations that show a type of an internal package, but only to other packages of
// this module.
var forModule = map[string]string{
	"oagent.Binding":    "handlers; other programs leave the owner empty",
	"result.Limit":      "handlers that shorten responses",
	"result.NewMemory":  "handlers that shorten responses",
	"result.NewReducer": "handlers, which share a pool of buffers",

	"result.NewPageKeeper":    "the app, which counts the pages of all handlers",
	"result.PageKeeper.Usage": "the app, which counts the pages of all handlers",
	"result.PageKeeper.Keep":  "handlers that split responses into pages",
}

// TestSurface_has_no_internal_type: other modules can name every type that they get from the public
// packages, so none is of an internal package. The exceptions are for other packages of this module.
func TestSurface_has_no_internal_type(t *testing.T) {
	used := make(map[string]bool)
	for _, folder := range public {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		declarations := 0
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				declarations += checkSurface(t, file, used)
			}
		}
		if declarations == 0 {
			t.Errorf("%s: no declaration was found", folder)
		}
	}
	for name := range forModule {
		if !used[name] {
			t.Errorf("%s exposes no internal type: remove it from the exceptions", name)
		}
	}
}

// checkSurface reports the internal types that a file exposes, and returns the number of its declarations.
// It adds the exceptions that the file needs to used.
func checkSurface(t *testing.T, file string, used map[string]bool) int {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, 0)
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
	declarations := 0
	for name, nodes := range exposedBy(parsed) {
		declarations++
		full := parsed.Name.Name + "." + name
		for _, exposed := range nodes {
			ast.Inspect(exposed, func(n ast.Node) bool {
				if selector, ok := n.(*ast.SelectorExpr); ok {
					if of, ok := selector.X.(*ast.Ident); ok && internal[of.Name] {
						used[full] = true
						if forModule[full] == "" {
							t.Errorf("%s: %s exposes %s.%s of an internal package", set.Position(n.Pos()), full, of.Name, selector.Sel.Name)
						}
					}
				}
				return true
			})
		}
	}
	return declarations
}

// exposedBy returns the types, signatures, variables and fields of a file that other packages see, by the
// name of their declaration. Aliases and constants are not part of it: an alias gives a type a public name.
func exposedBy(file *ast.File) map[string][]ast.Node {
	exposed := make(map[string][]ast.Node)
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			receiver := receiverOf(d)
			if d.Name.IsExported() && (receiver == "" || ast.IsExported(receiver)) {
				name := strings.TrimPrefix(receiver+"."+d.Name.Name, ".")
				exposed[name] = append(exposed[name], d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					if s.Names[0].IsExported() && d.Tok == token.VAR {
						exposed[s.Names[0].Name] = append(exposed[s.Names[0].Name], s)
					}
				case *ast.TypeSpec:
					if s.Assign == token.NoPos {
						exposed[s.Name.Name] = append(exposed[s.Name.Name], exposedByType(s)...)
					}
				}
			}
		}
	}
	return exposed
}

// receiverOf returns the name of the type that a function is a method of, "" if it is no method.
func receiverOf(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	receiver := d.Recv.List[0].Type
	if pointer, ok := receiver.(*ast.StarExpr); ok {
		receiver = pointer.X
	}
	name, ok := receiver.(*ast.Ident)
	if !ok {
		return "" // of a generic type
	}
	return name.Name
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
