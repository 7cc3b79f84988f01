package match

import (
	"crypto/sha256"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/schemaview"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/style"
	"github.com/fairwayhq/fairway/ocp/tool"
)

const (
	// maxShapes is the largest number of shapes kept for one tool's schema.
	maxShapes = 1 << 13

	// maxShapeRefs is the largest number of schemas that one shape combines.
	maxShapeRefs = 1 << 10

	number = style.Number | style.Integer
)

// shapes holds the shapes of one tool's arguments, which are built when first needed.
// Equal schemas share a shape, so that recursive schemas terminate.
type shapes struct {
	schema     []byte                    // the full schema of the tool's arguments
	properties map[string]jsontext.Value // of schema, if the arguments list smaller schemas

	mu    sync.Mutex
	defs  map[string]jsontext.Value // of schema; nil until a $ref needs them
	nodes map[[sha256.Size]byte]*shape
}

// A shape describes the types that a value may have if it must be valid for one of several
// schemas. It implements style.Shape.
type shape struct {
	owner   *shapes
	schemas []jsontext.Value

	once       sync.Once
	types      style.Types
	items      []jsontext.Value
	properties map[string][]jsontext.Value
	byFold     map[string]string // property names by their case-folded form
	further    []jsontext.Value  // schemas of additionalProperties
	open       bool              // additional properties are explicitly allowed

	item  *shape
	known map[string]*shape // of properties used so far; guarded by owner.mu
}

// argument returns the full schema of the argument at position i.
func (s *shapes) argument(t *tool.Tool, i int) jsontext.Value {
	a := &t.All()[i]
	if !t.Plan().Simplified {
		return a.Schema
	}
	if s.properties == nil {
		s.properties = make(map[string]jsontext.Value)
		members, _ := wire.Members(nil, wire.MemberOf(s.schema, "properties"))
		for _, m := range members {
			s.properties[m.Name] = m.Value
		}
	}
	if schema, listed := s.properties[a.Name]; listed {
		return schema
	}
	return a.Schema // the gateway fills it
}

// of returns the shape of a value that must be valid for one of the schemas.
func (s *shapes) of(schemas ...jsontext.Value) *shape {
	hash := sha256.New()
	for _, schema := range schemas {
		hash.Write(schema)
		hash.Write([]byte{0})
	}
	key := [sha256.Size]byte(hash.Sum(nil))
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.nodes[key]; known != nil {
		return known
	}
	made := &shape{owner: s, schemas: schemas}
	if len(s.nodes) >= maxShapes {
		made.schemas = []jsontext.Value{jsontext.Value(`{"type":"null"}`)} // which no text fits
	} else {
		s.nodes[key] = made
	}
	return made
}

// definition returns the schema that a $ref in the tool's schema refers to.
func (s *shapes) definition(ref string) (schema jsontext.Value, ok bool) {
	name, ok := schemaview.DefinitionName(ref)
	if !ok {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.defs == nil {
		s.defs = make(map[string]jsontext.Value)
		defs, _ := wire.Members(nil, wire.MemberOf(s.schema, "$defs"))
		for _, def := range defs {
			s.defs[def.Name] = def.Value
		}
	}
	schema, ok = s.defs[name]
	return schema, ok
}

// Types returns the union of the types that the schemas allow, or 0 if one allows any
// type.
func (s *shape) Types() style.Types {
	s.once.Do(s.resolve)
	return s.types
}

// Item returns the shape of an array's items.
func (s *shape) Item() style.Shape {
	s.once.Do(s.resolve)
	if s.item == nil {
		return nil
	}
	return s.item
}

// Property returns the shape of an object's property.
func (s *shape) Property(name string) (style.Shape, bool) {
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
	types := style.Types(0)
	for i, schema := range s.schemas {
		t := r.read(schema)
		if i == 0 {
			types = t
			continue
		}
		types = union(types, t)
	}
	s.types = types
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
func union(a, b style.Types) style.Types {
	if a == 0 || b == 0 {
		return 0
	}
	return a | b
}

// both returns the types that are in a and in b. If there are none, it returns null, which
// no text matches.
func both(a, b style.Types) style.Types {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	case a&b == 0:
		return style.Null
	}
	return a & b
}

// shapeReader collects what the schemas of one shape allow.
type shapeReader struct {
	*shape
	count int // schemas read so far
}

// read returns the types that a schema allows, or 0 for any type.
func (r *shapeReader) read(schema jsontext.Value) style.Types {
	if r.count++; r.count > maxShapeRefs {
		return style.Null
	}
	members, err := wire.Members(nil, schema)
	if err != nil {
		return 0 // the schema true, which allows anything
	}
	var types, listed style.Types
	for _, m := range members {
		switch m.Name {
		case "type":
			types = both(types, namedTypes(m.Value))
		case "const":
			listed = typeOf(m.Value)
		case "enum":
			for walk := wire.Into(m.Value); walk.Next(); {
				listed |= typeOf(walk.Value)
			}
		case "items":
			r.items = append(r.items, m.Value)
		case "properties":
			r.readProperties(m.Value)
		case "additionalProperties":
			r.readFurther(m.Value)
		case "$ref":
			types = both(types, r.follow(m.Value))
		case "allOf":
			for walk := wire.Into(m.Value); walk.Next(); {
				types = both(types, r.read(walk.Value))
			}
		case "anyOf", "oneOf":
			types = both(types, r.readAlternatives(m.Value))
		}
	}
	return both(types, listed)
}

func (r *shapeReader) follow(ref jsontext.Value) style.Types {
	text, err := jsontext.AppendUnquote(nil, ref)
	if err != nil {
		return 0
	}
	schema, ok := r.owner.definition(string(text))
	if !ok {
		return 0
	}
	return r.read(schema)
}

func (r *shapeReader) readAlternatives(list jsontext.Value) (types style.Types) {
	first := true
	for walk := wire.Into(list); walk.Next(); first = false {
		t := r.read(walk.Value)
		if first {
			types = t
			continue
		}
		types = union(types, t)
	}
	return types
}

func (r *shapeReader) readProperties(object jsontext.Value) {
	members, err := wire.Members(nil, object)
	if err != nil || len(members) == 0 {
		return
	}
	if r.properties == nil {
		r.properties = make(map[string][]jsontext.Value, len(members))
	}
	for _, m := range members {
		r.properties[m.Name] = append(r.properties[m.Name], m.Value)
	}
}

func (r *shapeReader) readFurther(schema jsontext.Value) {
	switch schema.Kind() {
	case 't':
		r.open = true
	case '{':
		r.open = true
		r.further = append(r.further, schema)
	}
}

// namedTypes returns the types of a keyword "type".
func namedTypes(value jsontext.Value) (types style.Types) {
	if value.Kind() == '[' {
		for walk := wire.Into(value); walk.Next(); {
			types |= namedTypes(walk.Value)
		}
		return types
	}
	switch string(value) {
	case `"string"`:
		return style.String
	case `"integer"`:
		return style.Integer
	case `"number"`:
		return number
	case `"boolean"`:
		return style.Boolean
	case `"array"`:
		return style.Array
	case `"object"`:
		return style.Object
	case `"null"`:
		return style.Null
	}
	return 0
}

func typeOf(value jsontext.Value) style.Types {
	switch value.Kind() {
	case '"':
		return style.String
	case '0':
		return number
	case 't', 'f':
		return style.Boolean
	case '[':
		return style.Array
	case '{':
		return style.Object
	}
	return style.Null
}
