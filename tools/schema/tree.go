package schema

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// maxTree is the maximum size of a schema that Parse reads, in bytes. strictjson limits its nesting.
const maxTree = 16 << 20

// MaxReferences is the maximum length of a chain of $refs.
const MaxReferences = 8

// definitionPrefix is the beginning of a $ref to a member of $defs.
const definitionPrefix = "#/$defs/"

// A Tree is a JSON Schema that was parsed once. It is immutable. Its text is unchanged, so numbers keep their
// digits, and keywords that the package does not know are kept. All methods accept nil, which is no schema.
type Tree struct {
	Text     jsontext.Value // the schema as JSON
	Keywords []Keyword      // in the order of the text; none if the schema is true or false

	refers  bool // it has a $ref, at any depth
	stubbed bool // it has a stub, at any depth
}

// A Keyword is one member of a schema.
type Keyword struct {
	Name  string
	Value jsontext.Value
	Parts []Part // the schemas in the value
	shape keywordShape
}

// A Part is a schema in a keyword.
type Part struct {
	Name string // the property, pattern or definition; "" if the keyword has no names
	*Tree
}

// A keywordShape says where a keyword has schemas.
type keywordShape uint8

const (
	plain  keywordShape = iota // nowhere
	single                     // its value is a schema
	listed                     // its value is an array of schemas
	named                      // its value is an object of schemas
)

// known are the keywords with their shapes. Those of other schemas are plain, too.
var known = func() map[string]Keyword {
	all := make(map[string]Keyword)
	for shape, names := range [...]string{
		plain:  "type enum const format pattern title description default examples example deprecated readOnly writeOnly required minimum maximum minLength maxLength minItems maxItems $ref " + stubKey,
		single: "items additionalProperties not if then else contains propertyNames unevaluatedProperties unevaluatedItems contentSchema " + checkKey,
		listed: "allOf anyOf oneOf prefixItems",
		named:  "properties patternProperties dependentSchemas $defs",
	} {
		for name := range strings.FieldsSeq(names) {
			all[name] = Keyword{Name: name, shape: keywordShape(shape)} //nolint:gosec // an index of the array
		}
	}
	return all
}()

// A Root is an outermost schema, which has the definitions that $refs lead to.
type Root struct {
	*Tree
	defs map[string]*Tree
}

// Parse parses a schema. If the text is not strict JSON, or is larger than 16 MiB, the error says so, and the
// Root is the schema true.
func Parse(text jsontext.Value) (*Root, error) {
	anything := &Root{Tree: &Tree{Text: jsontext.Value("true")}}
	switch {
	case len(text) > maxTree:
		return anything, fmt.Errorf("the schema has %d bytes; the limit is %d", len(text), maxTree)
	case !strictjson.Unambiguous(text):
		return anything, errors.New("the schema is not valid JSON")
	}
	root := &Root{Tree: new(treeParser).tree(text)}
	if defs := root.Parts("$defs"); len(defs) > 0 {
		root.defs = make(map[string]*Tree, len(defs))
		for _, def := range defs {
			root.defs[def.Name] = def.Tree
		}
	}
	return root, nil
}

// A treeParser parses valid JSON.
type treeParser struct {
	keywords []Keyword // of the schemas that are being parsed
	parts    []Part    // of the keywords that are being parsed
}

func (p *treeParser) tree(text jsontext.Value) *Tree {
	if text.Kind() != '{' {
		return &Tree{Text: text}
	}
	start := len(p.keywords)
	for walk := strictjson.Into(text); walk.Next(); {
		k, isKnown := known[string(walk.Key())]
		if !isKnown {
			k.Name = string(walk.Key())
		}
		k.Value = walk.Value
		p.keywords = append(p.keywords, p.read(k))
	}
	keywords := slices.Clone(p.keywords[start:])
	p.keywords = p.keywords[:start]
	return newTree(text, keywords)
}

// read returns a keyword with the schemas in its value.
func (p *treeParser) read(k Keyword) Keyword {
	start := len(p.parts)
	switch kind := k.Value.Kind(); {
	case k.shape == single && (kind == '{' || kind == 't' || kind == 'f'):
		p.parts = append(p.parts, Part{Tree: p.tree(k.Value)})
	case k.shape == named && kind == '{', k.shape == listed && kind == '[':
		for walk := strictjson.Into(k.Value); walk.Next(); {
			part := Part{Tree: p.tree(walk.Value)}
			if k.shape == named {
				part.Name = string(walk.Key())
			}
			p.parts = append(p.parts, part)
		}
	default:
		k.shape = plain
		return k
	}
	k.Parts = slices.Clone(p.parts[start:])
	p.parts = p.parts[:start]
	return k
}

func newTree(text jsontext.Value, keywords []Keyword) *Tree {
	t := &Tree{Text: text, Keywords: keywords}
	for i := range keywords {
		k := &keywords[i]
		t.refers = t.refers || k.Name == "$ref"
		t.stubbed = t.stubbed || k.Name == stubKey
		for _, part := range k.Parts {
			t.refers, t.stubbed = t.refers || part.refers, t.stubbed || part.stubbed
		}
	}
	return t
}

// keyword returns a keyword, or nil if the schema does not have it.
func (t *Tree) keyword(name string) *Keyword {
	if t == nil {
		return nil
	}
	for i := range t.Keywords {
		if t.Keywords[i].Name == name {
			return &t.Keywords[i]
		}
	}
	return nil
}

// Value returns the value of a keyword, or nil.
func (t *Tree) Value(keyword string) jsontext.Value {
	if k := t.keyword(keyword); k != nil {
		return k.Value
	}
	return nil
}

// Parts returns the schemas in a keyword.
func (t *Tree) Parts(keyword string) []Part {
	if k := t.keyword(keyword); k != nil {
		return k.Parts
	}
	return nil
}

// Part returns the schema that is the value of a keyword such as items, or nil.
func (t *Tree) Part(keyword string) *Tree {
	if k := t.keyword(keyword); k != nil && k.shape == single {
		return k.Parts[0].Tree
	}
	return nil
}

// Property returns the schema of a property, or nil.
func (t *Tree) Property(name string) *Tree {
	for _, p := range t.Parts("properties") {
		if p.Name == name {
			return p.Tree
		}
	}
	return nil
}

// Types returns the names in the keyword type, which is a string or an array of strings.
func (t *Tree) Types() (names []string) {
	value := t.Value("type")
	if value.Kind() == '"' {
		return []string{strictjson.Text(value)}
	}
	if value.Kind() == '[' {
		for walk := strictjson.Into(value); walk.Next(); {
			names = append(names, strictjson.Text(walk.Value))
		}
	}
	return names
}

// Ref returns the name in $defs that the $ref of the schema leads to, or false if there is none.
func (t *Tree) Ref() (name string, ok bool) { return definitionOf(t.Value("$ref")) }

// definitionOf returns the name in $defs that the value of a $ref leads to, or false if it leads elsewhere.
func definitionOf(ref jsontext.Value) (name string, ok bool) {
	name, ok = strings.CutPrefix(strictjson.Text(ref), definitionPrefix)
	if !ok || !strings.ContainsAny(name, "%~") {
		return name, ok
	}
	if decoded, err := url.PathUnescape(name); err == nil {
		name = decoded
	}
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(name), true
}

// Definition returns a member of $defs, or nil.
func (r *Root) Definition(name string) *Tree { return r.defs[name] }

// Resolve follows the $refs of a schema. It returns nil if the root does not define a target.
func (r *Root) Resolve(t *Tree) *Tree {
	for range MaxReferences {
		name, ok := t.Ref()
		if !ok {
			break
		}
		t = r.defs[name]
	}
	return t
}

// Open parses a schema that is a part of a root, and follows its $refs. The second result is nil if the root does
// not define a target. The first one resolves further $refs in it.
func Open(root, part jsontext.Value) (*Root, *Tree) {
	own, _ := Parse(part)
	if !own.refers {
		return own, own.Tree
	}
	whole, _ := Parse(root)
	return whole, whole.Resolve(own.Tree)
}

// Find returns the schema of the property with that name below t, which may be in a part that the schema
// refers to or combines, in the items of an array or in the values of a map. If there is none, it returns
// nil and the names of the properties that there are.
func (r *Root) Find(t *Tree, name string) (property *Tree, names []string) {
	followed := make(map[*Tree]bool) // schemas that a $ref leads to
	var find func(t *Tree) *Tree
	find = func(t *Tree) *Tree {
		if t == nil {
			return nil
		}
		if property := t.Property(name); property != nil {
			return property
		}
		for _, k := range t.Keywords {
			parts := k.Parts
			switch k.Name {
			case "properties":
				for _, p := range k.Parts {
					names = append(names, p.Name)
				}
				continue
			case "$ref":
				ref, _ := t.Ref()
				if target := r.defs[ref]; target != nil && !followed[target] {
					followed[target] = true
					parts = []Part{{Tree: target}}
				}
			case "items", "additionalProperties", "anyOf", "oneOf", "allOf":
			default:
				continue
			}
			for _, part := range parts {
				if found := find(part.Tree); found != nil {
					return found
				}
			}
		}
		return nil
	}
	return find(t), names
}

// Complete returns a schema with the $defs that it refers to, directly or indirectly. A $defs of its own is
// replaced.
func (r *Root) Complete(t *Tree) jsontext.Value {
	reached := make(map[*Tree]bool)
	r.reach(t, reached)
	var whole, defs strictjson.ObjectBuilder
	if t.Value("$defs") == nil && len(reached) == 0 {
		return t.Text
	}
	for _, k := range t.Keywords {
		if k.Name != "$defs" {
			whole.Add(k.Name, k.Value)
		}
	}
	for _, def := range r.Parts("$defs") {
		if reached[def.Tree] {
			defs.Add(def.Name, def.Text)
		}
	}
	if len(reached) > 0 {
		whole.Add("$defs", defs.Close())
	}
	return whole.Close()
}

// reach marks the definitions that a schema refers to, directly or indirectly.
func (r *Root) reach(t *Tree, reached map[*Tree]bool) {
	if !t.refers {
		return
	}
	if name, ok := t.Ref(); ok {
		if target := r.defs[name]; target != nil && !reached[target] {
			reached[target] = true
			r.reach(target, reached)
		}
	}
	for _, k := range t.Keywords {
		if k.Name == "$defs" {
			continue
		}
		for _, part := range k.Parts {
			r.reach(part.Tree, reached)
		}
	}
}

// isAnnotation reports whether a keyword only describes: it does not affect validation.
func isAnnotation(keyword string) bool {
	switch keyword {
	case "title", "description", "default", "example", "examples", "deprecated", "readOnly", "writeOnly", "$comment":
		return true
	}
	return false
}

// SingleType returns the schema with a single type, as the OCP tool schema requires: a list of types becomes
// alternatives.
func (t *Tree) SingleType() jsontext.Value {
	var object strictjson.ObjectBuilder
	for _, k := range t.Keywords {
		switch {
		case k.Name != "type" || k.Value.Kind() != '[':
			object.Add(k.Name, k.Value)
		case t.Value("anyOf") == nil:
			alternatives := []byte{'['}
			for _, name := range t.Types() {
				alternatives = append(strictjson.AppendString(append(strictjson.Comma(alternatives), `{"type":`...), name), '}')
			}
			object.Add("anyOf", append(alternatives, ']'))
		}
	}
	return object.Close()
}
