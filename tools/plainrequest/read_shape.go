package plainrequest

import (
	"fmt"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/schema"
)

const (
	// maxShapes is the largest number of shapes kept for one tool's schema.
	maxShapes = 1 << 13

	// maxShapeRefs is the largest number of schemas that one shape combines.
	maxShapeRefs = 1 << 10

	number = request.Number | request.Integer
)

// shapes holds the shapes of one tool's arguments, which are built when first needed.
// A schema has one shape, so that recursive schemas terminate.
type shapes struct {
	root       *schema.Root            // the full schema of the tool's arguments
	properties map[string]*schema.Tree // of root, if the arguments list smaller schemas

	mu    sync.Mutex
	nodes map[string]*shape // by the addresses of their schemas
}

// newShapes returns the shapes for the full schema of a tool's arguments.
func newShapes(fullSchema jsontext.Value) *shapes {
	root, _ := schema.Parse(fullSchema)
	return &shapes{root: root, nodes: make(map[string]*shape)}
}

// A shape describes the types that a value may have if it must be valid for one of several
// schemas. It implements request.Shape.
type shape struct {
	owner   *shapes
	schemas []*schema.Tree // none allows only null, which no text fits

	once       sync.Once
	types      request.Types
	items      []*schema.Tree
	properties map[string][]*schema.Tree
	byFold     map[string]string // property names by their case-folded form
	further    []*schema.Tree    // schemas of additionalProperties
	open       bool              // additional properties are explicitly allowed

	item  *shape
	known map[string]*shape // of properties used so far; guarded by owner.mu
}

// argument returns the full schema of the argument at position i.
func (s *shapes) argument(t *tools.Tool, i int) *schema.Tree {
	a := &t.Plan.Arguments[i]
	if s.properties == nil {
		s.properties = make(map[string]*schema.Tree)
		for _, p := range s.root.Parts("properties") {
			s.properties[p.Name] = p.Tree
		}
	}
	if full := s.properties[a.Name]; full != nil {
		return full
	} // otherwise the gateway fills it
	listed, _ := schema.Parse(a.Schema)
	return listed.Tree
}

// of returns the shape of a value that must be valid for one of the schemas.
func (s *shapes) of(schemas ...*schema.Tree) *shape {
	key := fmt.Sprint(schemas)
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.nodes[key]; known != nil {
		return known
	}
	made := &shape{owner: s}
	if len(s.nodes) < maxShapes {
		made.schemas = schemas
		s.nodes[key] = made
	}
	return made
}

// Types returns the union of the types that the schemas allow, or 0 if one allows any
// type.
func (s *shape) Types() request.Types {
	s.once.Do(s.resolve)
	return s.types
}

// Item returns the shape of an array's items.
func (s *shape) Item() request.Shape {
	s.once.Do(s.resolve)
	if s.item == nil {
		return nil
	}
	return s.item
}

// Property returns the shape of an object's property.
func (s *shape) Property(name string) (request.Shape, bool) {
	s.once.Do(s.resolve)
	schemas, named := s.properties[name]
	if !named {
		if schemas = s.further; len(schemas) == 0 {
			return nil, s.open
		}
		name = "" // all additional properties have the same shape
	}
	s.owner.mu.Lock()
	known := s.known[name]
	s.owner.mu.Unlock()
	if known != nil {
		return known, true
	}
	known = s.owner.of(schemas...)
	s.owner.mu.Lock()
	if s.known == nil {
		s.known = make(map[string]*shape)
	}
	s.known[name] = known
	s.owner.mu.Unlock()
	return known, true
}

func (s *shape) resolve() {
	r := shapeReader{shape: s}
	s.types = request.Null
	for i, one := range s.schemas {
		types := r.read(one)
		if i > 0 {
			types = union(s.types, types)
		}
		s.types = types
	}
	if len(s.items) > 0 {
		s.item = s.owner.of(s.items...)
	}
	s.open = s.open || s.properties == nil
	if s.properties != nil {
		s.byFold = make(map[string]string, len(s.properties))
		for name := range s.properties {
			s.byFold[foldName(name)] = name
		}
	}
}

// union returns the types of a value that has a type of a or of b. 0 means any type.
func union(a, b request.Types) request.Types {
	if a == 0 || b == 0 {
		return 0
	}
	return a | b
}

// both returns the types that are in a and in b. If there are none, it returns null, which
// no text matches.
func both(a, b request.Types) request.Types {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	case a&b == 0:
		return request.Null
	}
	return a & b
}

// shapeReader collects what the schemas of one shape allow.
type shapeReader struct {
	*shape
	count int // schemas read so far
}

// read returns the types that a schema allows, or 0 for any type.
func (r *shapeReader) read(t *schema.Tree) request.Types {
	if r.count++; r.count > maxShapeRefs {
		return request.Null
	}
	var types, listed request.Types
	for _, k := range t.Keywords {
		switch k.Name {
		case "type":
			var named request.Types
			for _, name := range t.Types() {
				named |= request.TypeOf(name)
			}
			types = both(types, named)
		case "const":
			listed = typeOf(k.Value)
		case "enum":
			for walk := strictjson.Into(k.Value); walk.Next(); {
				listed |= typeOf(walk.Value)
			}
		case "items":
			for _, part := range k.Parts {
				r.items = append(r.items, part.Tree)
			}
		case "properties":
			r.readProperties(k.Parts)
		case "additionalProperties":
			for _, part := range k.Parts {
				r.readFurther(part.Tree)
			}
		case "$ref":
			if name, _ := t.Ref(); r.owner.root.Definition(name) != nil {
				types = both(types, r.read(r.owner.root.Definition(name)))
			}
		case "allOf":
			for _, part := range k.Parts {
				types = both(types, r.read(part.Tree))
			}
		case "anyOf", "oneOf":
			types = both(types, r.readAlternatives(k.Parts))
		}
	}
	return both(types, listed)
}

func (r *shapeReader) readAlternatives(parts []schema.Part) (types request.Types) {
	for i, part := range parts {
		t := r.read(part.Tree)
		if i > 0 {
			t = union(types, t)
		}
		types = t
	}
	return types
}

func (r *shapeReader) readProperties(parts []schema.Part) {
	if r.properties == nil && len(parts) > 0 {
		r.properties = make(map[string][]*schema.Tree, len(parts))
	}
	for _, p := range parts {
		r.properties[p.Name] = append(r.properties[p.Name], p.Tree)
	}
}

func (r *shapeReader) readFurther(t *schema.Tree) {
	switch t.Text.Kind() {
	case 't':
		r.open = true
	case '{':
		r.open = true
		r.further = append(r.further, t)
	}
}

func typeOf(value jsontext.Value) request.Types {
	switch value.Kind() {
	case '"':
		return request.String
	case '0':
		return number
	case 't', 'f':
		return request.Boolean
	case '[':
		return request.Array
	case '{':
		return request.Object
	}
	return request.Null
}
