// Package structure_test checks the structure of the repository: which package may import which, the
// size of types and packages, package comments, names that hide an import, and the checks of tests. It reads the source without compiling it.
//
// Each rule protects something, which its comment names. If a change breaks a rule, look at the design
// first: moving code to satisfy the number alone defeats the rule.
package structure_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/fairwayhq/fairway/"

// layers are the folders of the repository, each with the folders that its packages may import. So a
// reader of a package needs to know only the layers below it, and each layer can be used without those above.
var layers = []struct {
	folder  string
	imports []string
}{
	{"internal", []string{"internal"}},
	{"store", []string{"store", "internal"}},
	{"tools", []string{"tools", "store", "internal"}},
	{"files", []string{"files", "tools", "store", "internal"}},
	{"ocp", []string{"ocp", "tools", "internal"}},
	{"events", []string{"events", "tools", "store", "internal"}},
	{"mcpadapter", []string{"mcpadapter", "ocp", "tools", "store", "internal"}},
	{"otcadapter", []string{"otcadapter", "tools", "store", "internal"}},
	{"oagent", []string{"oagent", "tools", "store", "internal"}},
	{"caddymodule", []string{"caddymodule", "events", "files", "mcpadapter", "otcadapter", "oagent", "ocp", "tools", "store", "internal"}},
}

// directives are the folders of caddymodule, each with the other folders of caddymodule that it may import. Directives
// that are not in it may import those of "". So a directive can be built alone, and a reader of one needs to know no other.
// Each package below caddymodule/internal has an entry of its own; a directive may import those of commonParts too. The packages
// of commands have entries of their own: no directive imports them.
var directives = map[string][]string{
	"":             {"app", "directive", "route"},
	"directive":    {},
	"site":         {"directive"},
	"stores":       {"directive"},
	"bodies":       {"directive"},
	"health":       {"directive"},
	"inspect":      {"directive"},
	"app":          {"bodies", "directive", "inspect", "stores"},
	"auth":         {"directive"},
	"route":        {"app", "bodies", "directive"},
	"login":        {"auth", "bodies", "directive", "stores"},
	"connections":  {"app", "auth", "directive", "route"},
	"idempotency":  {"directive", "route"},
	"mcp":          {"app", "directive", "idempotency", "route"},
	"otc":          {"app", "directive", "idempotency", "route"},
	"mcpevents":    {"app", "directive", "events", "mcp", "route"},
	"mcpdiscovery": {"directive", "mcp", "route"},
	"archive":      {"directive", "stores"},
	"calls":        {"directive", "stores"},
	"files":        {"bodies", "directive", "mcp", "route", "stores"},
	"inspectors":   {"directive", "inspect"},
	"console":      {"app", "calls", "directive", "oagent", "replay", "route"},
	"stdio":        {"app", "auth", "calls", "commands", "mcp", "mcpdiscovery", "otc", "route"},
	"commands":     {"app", "archive", "calls", "directive", "replay"},
	"replay":       {"app", "calls", "directive", "oagent", "route"},
	"oagent":       {"app", "directive", "internal/agentset", "route", "stores"},
	"hosted":       {"app", "directive", "inspect", "internal/agentset", "oagent", "route"},
	"chat":         {"directive", "internal/agentset", "oagent", "route"},

	"oagent/command": {"app", "commands", "internal/agentset"},
	"ocp/command":    {"commands"},
	"stores/redis":   {"app", "archive", "directive", "stores"},

	"internal/agentset":   {"app", "route"},
	"internal/calllog":    {"directive"},
	"internal/keptcall":   {},
	"internal/metrics":    {"directive"},
	"internal/siteroutes": {"app"},
}

// commonParts are the packages that belong to no directive.
var commonParts = []string{"internal/adminapi", "internal/calllog", "internal/keptcall", "internal/metrics", "internal/siteroutes", "site"}

// caddyFolders may import Caddy: the libraries stay usable without it.
var caddyFolders = []string{"caddymodule", "cmd", "internal/testkit/sitetest"}

// testSupport is imported by tests only, and may import any layer.
const testSupport = "internal/testkit"

const (
	// maxMethods limits the methods of a type together with those of all types that embed it or share its state. Types
	// that embed one struct share its fields, so they are one type to a reader. A type shares the state of an unexported
	// struct of its package if it has a field with a pointer to it, and a method that sets a field through this pointer.
	maxMethods = 40

	// maxFields limits the fields of a struct. A struct with more has several subjects, and its
	// users cannot tell which fields are set when. An embedded struct counts as one: functions that need
	// only that part can take it. Modules of Caddy and types named Options or Config are exempt: their users
	// set each field for itself. So are logLines.
	maxFields = 20

	// maxConditions limits the conditions that a check in a test joins with ||. A check of one value, such as a range, often
	// needs two, or three with a guard.
	maxConditions = 3

	// minPackage is the minimum number of code lines of a package with one importer. A smaller one
	// is a file of its importer: it costs a name and a stop on the way, and hides nothing from others.
	minPackage = 150
)

// A source is a parsed file.
type source struct {
	folder string // of the package, relative to the repository: "tools/match"
	name   string // path of the file
	file   *ast.File
	code   int // lines of code
}

var fset = token.NewFileSet()

// sources parses the files of the product and of its test support.
func sources(t *testing.T) []source {
	t.Helper()
	return slices.DeleteFunc(slices.Clone(allSources(t)), func(s source) bool {
		first, _, _ := strings.Cut(s.name, "/")
		return strings.HasSuffix(s.name, "_test.go") || slices.Contains([]string{"examples", "benchmarks", "integration", "docs"}, first)
	})
}

// allSources returns all files, also those of tests, benchmarks and examples.
func allSources(t *testing.T) []source {
	t.Helper()
	found, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 100 {
		t.Fatalf("only %d files were found", len(found))
	}
	return found
}

// parsed parses the files once, for all tests.
var parsed = sync.OnceValues(func() (found []source, err error) {
	root := os.DirFS("../..")
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if name != "." && (strings.HasPrefix(entry.Name(), ".") || slices.Contains([]string{"testdata", "node_modules", "dist"}, entry.Name())) {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, ".go"):
			return nil
		}
		data, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		found = append(found, source{path.Dir(name), name, file, codeLines(string(data))})
		return nil
	})
	return found, err
})

// codeLines counts the lines that are not blank and are no comment.
func codeLines(text string) (n int) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n
}

// imports returns the paths that a file imports.
func imports(file *ast.File) (paths []string) {
	for _, spec := range file.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, p)
		}
	}
	return paths
}

// isBelow reports whether the folder is one of the folders or below one.
func isBelow(folder string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return folder == f || strings.HasPrefix(folder, f+"/") })
}

func TestImports_follow_the_layers(t *testing.T) {
	used := make(map[string]bool)
	for _, s := range sources(t) {
		for _, imported := range imports(s.file) {
			if strings.HasPrefix(imported, "github.com/caddyserver/") && s.folder != "." && !isBelow(s.folder, caddyFolders...) {
				t.Errorf("%s imports Caddy; only %v and the root may", s.name, caddyFolders)
			}
			folder, isOurs := strings.CutPrefix(imported, module)
			if !isOurs || isBelow(s.folder, testSupport) {
				continue
			}
			if isBelow(folder, testSupport) && s.folder != "store/storetest" {
				t.Errorf("%s imports %s, which is for tests", s.name, folder)
			}
			for _, layer := range layers {
				if !isBelow(s.folder, layer.folder) {
					continue
				}
				used[layer.folder] = true
				if !isBelow(folder, layer.imports...) {
					t.Errorf("%s imports %s; packages in %s may import only %v", s.name, folder, layer.folder, layer.imports)
				}
			}
		}
	}
	for _, layer := range layers {
		if !used[layer.folder] {
			t.Errorf("no package is in the layer %s", layer.folder)
		}
	}
}

func TestDirectives_import_few_others(t *testing.T) {
	const folder = "caddymodule/"
	used := make(map[string]bool)
	for _, s := range sources(t) {
		own, isPart := strings.CutPrefix(s.folder, folder)
		if !isPart {
			continue
		}
		allowed, isNamed := directives[own]
		if names := strings.SplitN(own, "/", 3); names[0] == "internal" {
			own = path.Join(names[:2]...)
		} else if !isNamed {
			own = names[0]
		}
		if !isNamed {
			allowed, isNamed = directives[own]
		}
		if !isNamed {
			allowed = directives[""]
		}
		used[own] = true
		for _, imported := range imports(s.file) {
			part, isPart := strings.CutPrefix(imported, module+folder)
			if isPart && !isBelow(part, own) && !isBelow(part, allowed...) && !isBelow(part, commonParts...) {
				t.Errorf("%s imports %s; %s may import only %v and %v of %s", s.name, part, own, allowed, commonParts, folder)
			}
		}
	}
	for name := range directives {
		if name != "" && !used[name] {
			t.Errorf("%s%s does not exist", folder, name)
		}
	}
}

// TestPackages_have_one_comment lets a reader learn the subject of each package from one place: its first sentence.
func TestPackages_have_one_comment(t *testing.T) {
	comments := make(map[string]int)
	for _, s := range sources(t) {
		if s.file.Doc == nil {
			comments[s.folder] += 0
			continue
		}
		comments[s.folder]++
		want := "Package " + s.file.Name.Name + " "
		if s.file.Name.Name == "main" {
			want = "Command " + path.Base(s.folder) + " "
		}
		if !strings.HasPrefix(s.file.Doc.Text(), want) {
			t.Errorf("the package comment in %s does not begin with %q", s.name, want)
		}
	}
	for folder, n := range comments {
		if n != 1 {
			t.Errorf("%s has %d package comments, not 1", folder, n)
		}
	}
}

func TestPackages_with_one_importer_are_not_small(t *testing.T) {
	lines := make(map[string]int)
	importers := make(map[string]map[string]bool)
	for _, s := range sources(t) {
		lines[s.folder] += s.code
		for _, imported := range imports(s.file) {
			if folder, isOurs := strings.CutPrefix(imported, module); isOurs {
				if importers[folder] == nil {
					importers[folder] = make(map[string]bool)
				}
				importers[folder][s.folder] = true
			}
		}
	}
	// caddymodule imports the packages of directives and guest modules to register them.
	for folder, by := range importers {
		if len(by) == 1 && lines[folder] < minPackage && !by["caddymodule"] && !by["."] {
			t.Errorf("%s has %d lines and one importer (%v): it is a file of that package", folder, lines[folder], slices.Collect(maps.Keys(by)))
		}
	}
}

// logLines are lines of logs. Each of their fields is a column, set if the event has it, that a search can name. No function
// takes a part of them, so there is nothing to cut.
var logLines = []string{"internal/audit.Entry", "caddymodule/internal/keptcall.Call"}

// A structType is a struct with what counts for its size.
type structType struct {
	fields   int
	isConfig bool              // it is a Caddy module, or its name says that it has options
	embeds   []string          // also the structs whose state it shares
	pointers map[string]string // the unexported structs of the package that fields point to, by the names of the fields
	sets     []string          // the names of the fields through which its methods set fields of other structs
	methods  int
}

// structs returns the struct types by "folder.Name".
func structs(all []source) map[string]*structType {
	found := make(map[string]*structType)
	at := func(key string) *structType {
		if found[key] == nil {
			found[key] = new(structType)
		}
		return found[key]
	}
	for _, s := range all {
		names := make(map[string]string) // folder by name of an import
		for _, spec := range s.file.Imports {
			p, _ := strconv.Unquote(spec.Path.Value)
			folder, isOurs := strings.CutPrefix(p, module)
			if !isOurs {
				continue
			}
			name := path.Base(folder)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			names[name] = folder
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					of := at(s.folder + "." + receiver(d.Recv.List[0].Type))
					of.methods++
					of.isConfig = of.isConfig || d.Name.Name == "CaddyModule"
					of.sets = append(of.sets, fieldsSetThrough(d)...)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok {
						if body, ok := spec.Type.(*ast.StructType); ok {
							readStruct(at(s.folder+"."+spec.Name.Name), spec.Name.Name, body, s.folder, names)
						}
					}
				}
			}
		}
	}
	for _, of := range found {
		for _, name := range of.sets {
			if pointed := of.pointers[name]; pointed != "" && !slices.Contains(of.embeds, pointed) {
				of.embeds = append(of.embeds, pointed)
			}
		}
	}
	return found
}

// fieldsSetThrough returns the names of fields of the receiver through which a method sets fields of other structs: "state" for
// the assignment r.state.count = 1, also if it is made in two steps: state := r.state and state.count = 1.
func fieldsSetThrough(method *ast.FuncDecl) (names []string) {
	if method.Body == nil || len(method.Recv.List[0].Names) == 0 {
		return nil
	}
	held := make(map[string]string) // fields of the receiver by the local variables that have their values
	fieldOf := func(e ast.Expr) string {
		if s, ok := e.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == method.Recv.List[0].Names[0].Name {
				return s.Sel.Name
			}
		}
		if x, ok := e.(*ast.Ident); ok {
			return held[x.Name]
		}
		return ""
	}
	ast.Inspect(method.Body, func(n ast.Node) bool {
		var assigned []ast.Expr
		switch n := n.(type) {
		case *ast.AssignStmt:
			assigned = n.Lhs
			for i, e := range n.Lhs {
				if x, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE && len(n.Rhs) == len(n.Lhs) {
					held[x.Name] = fieldOf(n.Rhs[i])
				}
			}
		case *ast.IncDecStmt:
			assigned = []ast.Expr{n.X}
		}
		for _, e := range assigned {
			for s, ok := e.(*ast.SelectorExpr); ok; s, ok = s.X.(*ast.SelectorExpr) {
				if name := fieldOf(s.X); name != "" {
					names = append(names, name)
				}
			}
		}
		return true
	})
	return names
}

func readStruct(to *structType, name string, body *ast.StructType, folder string, names map[string]string) {
	to.isConfig = to.isConfig || strings.HasSuffix(name, "Options") || strings.HasSuffix(name, "Config")
	to.pointers = make(map[string]string)
	for _, field := range body.Fields.List {
		if pointer, ok := field.Type.(*ast.StarExpr); ok {
			if of, ok := deref(pointer.X).(*ast.Ident); ok && !of.IsExported() {
				for _, id := range field.Names {
					to.pointers[id.Name] = folder + "." + of.Name
				}
			}
		}
		to.fields += max(1, len(field.Names))
		if len(field.Names) > 0 {
			continue
		}
		switch embedded := deref(field.Type).(type) {
		case *ast.Ident:
			to.embeds = append(to.embeds, folder+"."+embedded.Name)
		case *ast.SelectorExpr:
			if x, ok := embedded.X.(*ast.Ident); ok && names[x.Name] != "" {
				to.embeds = append(to.embeds, names[x.Name]+"."+embedded.Sel.Name)
			}
		}
	}
}

func deref(e ast.Expr) ast.Expr {
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		default:
			return e
		}
	}
}

func receiver(e ast.Expr) string {
	if id, ok := deref(e).(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// largeTypes are types above a limit, with the number that they may have. Numbers may only fall.
var largeTypes = map[string]int{}

func TestTypes_have_one_subject(t *testing.T) {
	all := structs(sources(t))
	family := make(map[string]int) // methods of a type and of all that embed it
	for key, s := range all {
		seen := map[string]bool{}
		var add func(string)
		add = func(to string) {
			if seen[to] || all[to] == nil {
				return
			}
			seen[to] = true
			family[to] += s.methods
			for _, e := range all[to].embeds {
				add(e)
			}
		}
		add(key)
	}
	for key, s := range all {
		if limit := max(maxMethods, largeTypes[key]); family[key] > limit {
			t.Errorf("%s and the types that embed it or set its fields have %d methods, more than %d", key, family[key], limit)
		}
		if limit := max(maxFields, largeTypes[key+" fields"]); s.fields > limit && !s.isConfig && !slices.Contains(logLines, key) {
			t.Errorf("%s has %d fields, more than %d", key, s.fields, limit)
		}
	}
	for key := range largeTypes {
		name, isFields := strings.CutSuffix(key, " fields")
		s := all[name]
		if s == nil || !isFields && family[name] <= maxMethods || isFields && s.fields <= maxFields {
			t.Errorf("%s is within the limit: remove it from largeTypes", key)
		}
	}
	for _, key := range logLines {
		if s := all[key]; s == nil || s.fields <= maxFields {
			t.Errorf("%s is within the limit: remove it from logLines", key)
		}
	}
}

// TestLocals_do_not_hide_imports keeps one meaning for each name in a file: a reader must not have to check
// whether "tools" is the package or a variable.
func TestLocals_do_not_hide_imports(t *testing.T) {
	for _, s := range allSources(t) {
		names := make(map[string]string)
		for _, spec := range s.file.Imports {
			p, _ := strconv.Unquote(spec.Path.Value)
			if spec.Name != nil {
				names[spec.Name.Name] = p
			} else {
				names[packageName(p)] = p
			}
		}
		check := func(id *ast.Ident) {
			if p := names[id.Name]; p != "" && id.Name != "_" {
				t.Errorf("%s: %s hides the import %q", fset.Position(id.Pos()), id.Name, p)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil {
					for _, id := range n.Recv.List[0].Names {
						check(id)
					}
				}
			case *ast.FuncType:
				for _, list := range []*ast.FieldList{n.Params, n.Results} {
					if list == nil {
						continue
					}
					for _, field := range list.List {
						for _, id := range field.Names {
							check(id)
						}
					}
				}
			case *ast.AssignStmt:
				if n.Tok == token.DEFINE {
					for _, e := range n.Lhs {
						if id, ok := e.(*ast.Ident); ok {
							check(id)
						}
					}
				}
			case *ast.RangeStmt:
				if n.Tok == token.DEFINE {
					for _, e := range []ast.Expr{n.Key, n.Value} {
						if id, ok := e.(*ast.Ident); ok {
							check(id)
						}
					}
				}
			case *ast.ValueSpec:
				for _, id := range n.Names {
					check(id)
				}
			}
			return true
		})
	}
}

// testWord is a word of the name of a test after an underscore: in lower case, or a name as code or its owner writes it.
var testWord = regexp.MustCompile(`^([a-z0-9]+|[A-Z][A-Za-z0-9]*)$`)

// initialism is a name in capitals, such as JSON or IDs.
var initialism = regexp.MustCompile(`^[A-Z0-9]{2,}s?$`)

// TestTests_have_names_of_one_style makes the list of tests readable as a list of rules: TestThing, or TestThing_rule_in_words.
// The name of a method of Thing can be the first word of the rule: TestThing_Method_rule_in_words.
func TestTests_have_names_of_one_style(t *testing.T) {
	all := allSources(t)
	isMethod := make(map[string]bool) // by "folder.Type.Method"
	for _, s := range all {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				isMethod[s.folder+"."+receiver(f.Recv.List[0].Type)+"."+f.Name.Name] = true
			}
		}
	}
	for _, s := range all {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasSuffix(s.name, "_test.go") {
				continue
			}
			for _, kind := range []string{"Test", "Fuzz", "Benchmark"} {
				name, isTest := strings.CutPrefix(f.Name.Name, kind)
				thing, rule, hasRule := strings.Cut(name, "_")
				if !isTest || !hasRule {
					continue
				}
				words := strings.Split(rule, "_")
				if first := words[0]; ast.IsExported(first) && !initialism.MatchString(first) && !isMethod[s.folder+"."+thing+"."+first] {
					t.Errorf("%s: %s: %s has no method %s; write the rule in lower case, as in TestThing_rule_in_words", fset.Position(f.Pos()), f.Name.Name, thing, first)
				}
				for _, word := range words {
					if !testWord.MatchString(word) {
						t.Errorf("%s: %s: write %q as words_in_lower_case", fset.Position(f.Pos()), f.Name.Name, word)
					}
				}
			}
		}
	}
}

// TestChecks_have_few_conditions lets a failure say which fact is wrong. If one check joins many facts, its message is the same
// for all of them, and the reader has to find out which one it was. Compare one value with the wanted one, or write several checks.
func TestChecks_have_few_conditions(t *testing.T) {
	checks := 0
	for _, s := range allSources(t) {
		if !strings.HasSuffix(s.name, "_test.go") && !isBelow(s.folder, testSupport, "store/storetest") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if check, ok := n.(*ast.IfStmt); ok && slices.ContainsFunc(check.Body.List, reportsFailure) {
				checks++
				if n := conditions(check.Cond); n > maxConditions {
					t.Errorf("%s: the check joins %d conditions, more than %d", fset.Position(check.Pos()), n, maxConditions)
				}
			}
			return true
		})
	}
	if checks < 1000 {
		t.Errorf("only %d checks were found", checks)
	}
}

// reportsFailure reports whether the statement is t.Errorf(…) or the like, also if t is a field.
func reportsFailure(s ast.Stmt) bool {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := e.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Error", "Errorf", "Fatal", "Fatalf"}, method.Sel.Name) {
		return false
	}
	var of string
	switch x := method.X.(type) {
	case *ast.Ident:
		of = x.Name
	case *ast.SelectorExpr:
		of = x.Sel.Name
	}
	return slices.Contains([]string{"t", "T", "b", "tb", "f"}, of)
}

// conditions counts the conditions that are joined with ||.
func conditions(e ast.Expr) int {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return conditions(e.X)
	case *ast.BinaryExpr:
		if e.Op == token.LOR {
			return conditions(e.X) + conditions(e.Y)
		}
	}
	return 1
}

// packageName returns the usual name of the package with an import path.
func packageName(p string) string {
	name := path.Base(p)
	if strings.HasPrefix(name, "v") && len(name) > 1 && strings.Trim(name[1:], "0123456789") == "" {
		name = path.Base(path.Dir(p))
	}
	name = strings.TrimPrefix(name, "go-")
	return strings.TrimSuffix(filepath.Base(name), "-go")
}
