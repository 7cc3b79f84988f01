// Package configdoc writes the JSON reference of Fairway's Caddy modules. The fields come from
// the types of the registered modules, the texts from the doc comments in their source.
package configdoc

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

const modulePath = "github.com/fairwayhq/fairway"

// A Type is a configuration object.
type Type struct {
	ID     string // of a module, or the name of the type with its package
	Module bool
	Doc    string // Markdown, the first paragraph of the doc comment
	Fields []Field
}

// A Field is a member of a configuration object.
type Field struct {
	Name string // in JSON
	Type string // in words, with a link to the type if it is a configuration object
	Doc  string // Markdown in one line; "" if the field has no doc comment
	Go   string // Type.Field in the source, for error messages
}

// Types returns the configuration objects of Fairway's modules in alphabetical order, modules
// first. The source is read below root.
func Types(root string) ([]Type, error) {
	r := reader{root: root, packages: map[string]*source{}, seen: map[reflect.Type]bool{}}
	for _, id := range caddy.Modules() {
		module, err := caddy.GetModule(id)
		if err != nil {
			return nil, err
		}
		created := module.New()
		t := reflect.TypeOf(created)
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		ours := strings.HasPrefix(t.PkgPath(), modulePath+"/") && !strings.HasPrefix(t.PkgPath(), modulePath+"/examples/")
		if ours && !strings.HasPrefix(string(module.ID), "admin.") {
			described := r.read(t, string(module.ID))
			for _, part := range parts(created) {
				r.fields(part, &described)
			}
			r.types = append(r.types, described)
		}
	}
	modules := len(r.types)
	for len(r.pending) > 0 {
		t := r.pending[0]
		r.pending = r.pending[1:]
		r.types = append(r.types, r.read(t, ""))
	}
	slices.SortFunc(r.types[modules:], func(a, b Type) int { return strings.Compare(a.ID, b.ID) })
	return r.types, r.err
}

// parts returns the types of the structs that packages have added to a module, with options of it: what its method Sections or
// Parts returns.
func parts(module any) (structs []reflect.Type) {
	for _, name := range []string{"Sections", "Parts"} {
		method := reflect.ValueOf(module).MethodByName(name)
		if !method.IsValid() {
			continue
		}
		added := method.Call(nil)[0]
		for i := range added.Len() {
			structs = append(structs, added.Index(i).Elem().Type().Elem())
		}
	}
	return structs
}

type reader struct {
	root     string
	packages map[string]*source // by import path
	seen     map[reflect.Type]bool
	pending  []reflect.Type // to be read
	types    []Type
	err      error
}

// source has the doc comments of a package.
type source struct {
	types  map[string]string // by type
	fields map[string]string // by Type.Field
}

func (r *reader) read(t reflect.Type, id string) Type {
	found := Type{ID: id, Module: id != ""}
	if id == "" {
		found.ID = t.String()
	}
	first, _, _ := strings.Cut(r.source(t.PkgPath()).types[t.Name()], "\n\n")
	found.Doc = withoutName(oneLine(first), t.Name())
	r.fields(t, &found)
	return found
}

// withoutName removes the name of the type from the beginning of its doc comment, which has the
// form "Handler serves …" or "A Selector is …".
func withoutName(doc, name string) string {
	rest := strings.TrimPrefix(strings.TrimPrefix(doc, "A "), "An ")
	rest, found := strings.CutPrefix(rest, name+" ")
	if !found {
		return doc
	}
	rest = strings.TrimPrefix(strings.TrimPrefix(rest, "is "), "are ")
	return strings.ToUpper(rest[:1]) + rest[1:]
}

// fields adds the fields of a struct, and of the structs that it embeds.
func (r *reader) fields(t reflect.Type, to *Type) {
	if t.Kind() != reflect.Struct {
		return
	}
	docs := r.source(t.PkgPath()).fields
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case f.Anonymous && name == "":
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			// Fields of Caddy's own modules are in Caddy's documentation.
			if strings.HasPrefix(embedded.PkgPath(), "github.com/fairwayhq/fairway") {
				r.fields(embedded, to)
			}
		default:
			if name == "" {
				name = f.Name
			}
			to.Fields = append(to.Fields, Field{
				Name: name, Type: r.typeOf(f.Type, f.Tag.Get("caddy")),
				Doc: oneLine(docs[t.Name()+"."+f.Name]), Go: t.String() + "." + f.Name,
			})
		}
	}
}

var rawMessage = reflect.TypeFor[json.RawMessage]()

// typeOf describes a type in words.
func (r *reader) typeOf(t reflect.Type, tag string) string {
	if namespace := valueOf(tag, "namespace"); namespace != "" {
		return "module `" + namespace + ".*`"
	}
	if id := valueOf(tag, "module"); id != "" {
		return "[`" + id + "`](#" + Anchor(id) + ")"
	}
	switch {
	case t == reflect.TypeFor[caddy.Duration]():
		return "duration"
	case t == rawMessage || t.Kind() == reflect.Interface:
		return "any JSON"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return r.typeOf(t.Elem(), "")
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return "any JSON"
		}
		return "list of " + r.typeOf(t.Elem(), "")
	case reflect.Map:
		return "object of " + r.typeOf(t.Elem(), "")
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Struct:
		if !strings.HasPrefix(t.PkgPath(), modulePath) {
			return "`" + t.String() + "`"
		}
		if !r.seen[t] {
			r.seen[t] = true
			r.pending = append(r.pending, t)
		}
		return fmt.Sprintf("[%s](#%s)", t, Anchor(t.String()))
	}
	return "integer"
}

// valueOf returns the value of a key in the tag of a field that takes guest modules: their namespace, or the ID of
// the only module.
func valueOf(tag, key string) string {
	for part := range strings.FieldsSeq(tag) {
		if value, found := strings.CutPrefix(part, key+"="); found {
			return value
		}
	}
	return ""
}

// Anchor returns the id of a heading on GitHub.
func Anchor(heading string) string {
	return strings.NewReplacer(".", "", " ", "-", "`", "").Replace(strings.ToLower(heading))
}

// source returns the doc comments of a package of this module.
func (r *reader) source(importPath string) *source {
	if found := r.packages[importPath]; found != nil {
		return found
	}
	found := &source{types: map[string]string{}, fields: map[string]string{}}
	r.packages[importPath] = found
	directory := filepath.Join(r.root, filepath.FromSlash(strings.TrimPrefix(importPath, modulePath)))
	files, err := parser.ParseDir(token.NewFileSet(), directory, func(info fs.FileInfo) bool { //nolint:staticcheck // build tags do not matter here
		return !strings.HasSuffix(info.Name(), "_test.go")
	}, parser.ParseComments)
	if err != nil {
		r.err = err
	}
	for _, p := range files {
		ast.Inspect(p, func(node ast.Node) bool {
			declaration, isDeclaration := node.(*ast.GenDecl)
			if !isDeclaration {
				return true
			}
			for _, spec := range declaration.Specs {
				if t, isType := spec.(*ast.TypeSpec); isType {
					found.add(t, declaration.Doc)
				}
			}
			return false
		})
	}
	return found
}

func (s *source) add(t *ast.TypeSpec, doc *ast.CommentGroup) {
	if t.Doc != nil {
		doc = t.Doc
	}
	s.types[t.Name.Name] = doc.Text()
	structure, isStruct := t.Type.(*ast.StructType)
	if !isStruct {
		return
	}
	for _, field := range structure.Fields.List {
		for _, name := range field.Names {
			s.fields[t.Name.Name+"."+name.Name] = field.Doc.Text()
		}
	}
}

// oneLine converts a doc comment to Markdown that fits into a cell of a table.
func oneLine(doc string) string {
	var p comment.Parser
	var b strings.Builder
	for _, block := range p.Parse(doc).Content {
		text := strings.TrimSpace(string((&comment.Printer{}).Markdown(&comment.Doc{Content: []comment.Block{block}})))
		if list, isList := block.(*comment.List); isList {
			items := make([]string, 0, len(list.Items))
			for _, item := range list.Items {
				items = append(items, strings.Join(strings.Fields(string((&comment.Printer{}).Text(&comment.Doc{Content: item.Content}))), " "))
			}
			text = "<br>• " + strings.Join(items, "<br>• ") + "<br>"
		}
		b.WriteString(" " + strings.Join(strings.Fields(text), " "))
	}
	text := strings.TrimSuffix(strings.TrimSpace(b.String()), "<br>")
	return strings.NewReplacer("|", `\|`, `\*`, "*", `\_`, "_", `\[`, "[", `\]`, "]", "\\`", "`").Replace(text)
}

// Page returns the reference in Markdown.
func Page(root string) (string, error) {
	types, err := Types(root)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(`# JSON reference

Every field of Fairway's configuration in Caddy's JSON. The Caddyfile is converted to it: ` + "`caddy adapt`" + ` prints the
result. This page is made of the doc comments in the source, by ` + "`go test ./docs -run JSON -update`" + `.

Durations are strings such as ` + "`30s`" + `, or integers in nanoseconds. Sizes are integers in bytes.

| Module | Contents |
|---|---|
`)
	for _, t := range types {
		if t.Module {
			sentence, _, _ := strings.Cut(t.Doc, ". ")
			fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", t.ID, Anchor(t.ID), strings.TrimSuffix(sentence, ".")+".")
		}
	}
	for _, t := range types {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", t.ID, t.Doc)
		if len(t.Fields) == 0 {
			b.WriteString("\nIt has no fields.\n")
			continue
		}
		b.WriteString("\n| Field | Type | Meaning |\n|---|---|---|\n")
		for _, f := range t.Fields {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Name, f.Type, f.Doc)
		}
	}
	return b.String(), nil
}
