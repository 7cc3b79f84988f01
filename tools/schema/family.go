package schema

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/fairwayhq/fairway/tools/openapi"
)

// Limits on the families of one document.
const (
	maxFamily    = 512 // members of one family
	maxExclusive = 64  // members of a family, each of which excludes the values of the others
	maxKinship   = 256 // schemas that are read to answer one question about a schema, such as which base it extends
)

// A family is the set of schemas that a discriminator selects from (OpenAPI 3.1, Discriminator Object). There are two
// kinds: the alternatives of a oneOf or anyOf, and a base schema with the schemas that extend it by allOf.
type family struct {
	file     *openapi.File // of the schema with the discriminator
	property string
	members  []familyMember

	// closed means that the document names the values of all members. Other values of the property are then
	// invalid. Otherwise an API may have more values than the document names.
	closed bool
}

// A familyMember is one schema of a family.
type familyMember struct {
	place  openapi.Place // with its $ref resolved
	item   *openapi.Node // the alternative as the document writes it; nil for a schema of the same file that no list has
	name   string        // of the schema, "" if it has none
	values []string      // of the property, which select the member
	stated bool          // the mapping has the values
	own    bool          // the schema itself restricts the property to its values
}

// settle returns the schema at p with its discriminator and inheritance written as JSON Schema expresses them. It
// returns p if there is nothing to change.
//
//   - The alternatives of a choice are restricted to their values of the discriminator.
//   - A base with a discriminator becomes a choice of the schemas that extend it.
//   - A schema that extends such a base, or a base without additional properties, contains the base as
//     far as it describes the common properties.
func settle(p openapi.Place) openapi.Place {
	for _, keyword := range [...]string{"oneOf", "anyOf"} {
		if list := p.At(keyword); len(list.Items()) > 0 {
			return settleChoice(p, list, keyword)
		}
	}
	if f := inheritance(p); f != nil {
		return f.choice(p)
	}
	return openapi.Place{Node: newKinship().extension(p, extends(p)), File: p.File}
}

// settleChoice returns p with restricted alternatives in the list.
func settleChoice(p, list openapi.Place, keyword string) openapi.Place {
	f := family{file: p.File, property: p.Get("discriminator").Get("propertyName").Text()}
	if f.property == "" || len(list.Items()) > maxFamily {
		return p
	}
	for _, item := range list.Items() {
		resolved, err := list.Item(item).Resolve()
		if err != nil {
			return p
		}
		_, name, _ := list.Item(item).Follow()
		f.add(familyMember{place: resolved, item: item, name: name})
	}
	f.assign(p, p.At("discriminator"), true)
	items, changed := make([]*openapi.Node, len(f.members)), len(f.members) > len(list.Items())
	for i := range f.members {
		items[i] = f.restricted(&f.members[i])
		changed = changed || items[i] != f.members[i].item
	}
	if !changed {
		return p
	}
	return openapi.Place{Node: p.With(keyword, openapi.List(items...)), File: p.File}
}

// inheritance returns the family of a base schema, or nil if p is not one: it has no discriminator, or no schema
// extends it.
func inheritance(p openapi.Place) *family {
	subtypes := p.File.Subtypes(p.Node)
	own := p.Get("discriminator").Get("propertyName") != nil
	if len(subtypes) == 0 && !own || len(p.Get("oneOf").Items())+len(p.Get("anyOf").Items()) > 0 {
		return nil
	}
	discriminator, ancestor := newKinship().discriminator(p)
	f := &family{file: p.File, property: discriminator.Get("propertyName").Text()}
	if f.property == "" {
		return nil
	}
	if !own { // it extends a base itself, so that it is a member of its own family
		name := ""
		for _, s := range p.File.Subtypes(ancestor.Node) {
			if s.Node == p.Node {
				name = s.Name
			}
		}
		f.add(familyMember{place: p, name: name})
	}
	f.addSubtypes(subtypes)
	f.assign(p, discriminator, own)
	if len(f.members) == 0 || len(f.members) == 1 && f.members[0].place.Node == p.Node {
		return nil
	}
	if !f.closed && !f.has(p.Node) {
		f.members = append(f.members, familyMember{place: p}) // for the values that the document does not name
	}
	return f
}

// A kinship reads schemas that are connected by allOf, oneOf and anyOf, as many as maxKinship.
type kinship struct{ left int }

func newKinship() *kinship { return &kinship{maxKinship} }

// ends counts a schema, and reports whether no more can be read.
func (k *kinship) ends() bool {
	k.left--
	return k.left < 0
}

// discriminator returns the discriminator of p, which can be that of a schema that p extends, and the schema that p
// extends directly to inherit it.
func (k *kinship) discriminator(p openapi.Place) (discriminator, ancestor openapi.Place) {
	if d := p.At("discriminator"); d.Get("propertyName") != nil || k.ends() {
		return d, openapi.Place{}
	}
	parts := p.At("allOf")
	for _, item := range parts.Items() {
		base, err := parts.Item(item).Resolve()
		if err != nil || base.Node == item {
			continue
		}
		if d, _ := k.discriminator(base); d.Get("propertyName") != nil {
			return d, base
		}
	}
	return openapi.Place{}, openapi.Place{}
}

func (f *family) has(n *openapi.Node) bool {
	return slices.ContainsFunc(f.members, func(m familyMember) bool { return m.place.Node == n })
}

func (f *family) add(m familyMember) {
	if len(f.members) < maxFamily {
		m.own = newKinship().states(m.place, f.property)
		f.members = append(f.members, m)
	}
}

// addSubtypes adds the schemas that extend a base, and those that extend them. A schema without a name is part of
// another one, so it is a member only if it states its own value.
func (f *family) addSubtypes(subtypes []openapi.Subtype) {
	for _, s := range subtypes {
		if f.has(s.Node) || s.Name == "" && !newKinship().states(s.Place, f.property) {
			continue
		}
		f.add(familyMember{place: s.Place, name: s.Name})
		f.addSubtypes(s.File.Subtypes(s.Node))
	}
}

// assign sets the values of the members: those of the mapping, or else the names of their schemas. If more is true,
// the mapping can add members.
func (f *family) assign(p, discriminator openapi.Place, more bool) {
	for _, m := range discriminator.At("mapping").Members() {
		target, ok := discriminator.File.Schema(m.Value.Text())
		if !ok {
			continue
		}
		if resolved, err := target.Resolve(); err == nil {
			target = resolved
		}
		if target.Kind() == '{' && more && !f.has(target.Node) {
			member := familyMember{place: target}
			if target.File != p.File {
				member.item = nested(m.Value, "$ref")
			}
			f.add(member)
		}
		for i := range f.members {
			if member := &f.members[i]; member.place.Node == target.Node {
				member.values, member.stated = append(member.values, m.Name), true
			}
		}
	}
	named := !slices.ContainsFunc(f.members, func(m familyMember) bool { return m.own })
	for i := range f.members {
		m := &f.members[i]
		if value := m.place.Get("x-ms-discriminator-value").Text(); value != "" && !m.stated { // of Azure's documents
			m.values, m.stated = []string{value}, true
		}
		if named && !m.stated && m.name != "" {
			m.values = f.valuesByName(m)
		}
	}
	if discriminator.Get("mapping") != nil { // other names for the base are no members
		f.members = slices.DeleteFunc(f.members, func(m familyMember) bool {
			return m.item == nil && !m.stated && !m.own && !extends(m.place)
		})
	}
	f.closed = !slices.ContainsFunc(f.members, func(m familyMember) bool { return !m.stated && !m.own && !isNullType(m.place) })
}

// valuesByName returns the values of the property that select a member by the name of its schema. Without an enum, this is the
// name. With one, these are its values that equal the name, ignoring case.
func (f *family) valuesByName(m *familyMember) []string {
	declared, _ := newKinship().property(m.place, f.property, true).Resolve()
	listed := declared.Get("enum").Items()
	if len(listed) == 0 {
		return []string{m.name}
	}
	for _, value := range listed {
		if strings.EqualFold(value.Text(), m.name) {
			return []string{value.Text()}
		}
	}
	return nil
}

// restricted returns the schema of a member, restricted to its values of the discriminator. An alternative that needs
// no restriction is returned as the document writes it.
func (f *family) restricted(m *familyMember) *openapi.Node {
	others := f.valuesOfOthers(m)
	if m.own || m.item != nil && m.place.File != f.file || isNullType(m.place) || m.place.Kind() != '{' || len(m.values)+len(others) == 0 {
		return cmp.Or(m.item, m.place.Node)
	}
	node := m.place.Node
	if description := m.item.Get("description"); description != nil { // beside a $ref
		node = node.With("description", description)
	}
	declared, _ := newKinship().property(m.place, f.property, true).Resolve()
	property := declared.Node
	if property.Get("type") == nil {
		property = property.With("type", openapi.Text("string"))
	}
	hint := "examples"
	if f.closed {
		hint = "enum"
	}
	if len(m.values) > 0 && (f.closed || property.Get("enum") == nil && property.Get("example") == nil && property.Get("examples") == nil) {
		stated := property.Without("const").With(hint, textList(m.values))
		node = node.With("properties", node.Get("properties").With(f.property, stated))
	}
	if len(others) > 0 {
		not := nested(textList(others), "properties", f.property, "not", "enum")
		node = node.With(checkKey, not)
	}
	return node
}

// valuesOfOthers returns the values that select other members, unless the family is closed: then the values of each
// member say enough. It returns none for a large family, whose schema would grow with the square of its members.
func (f *family) valuesOfOthers(m *familyMember) (others []string) {
	if len(f.members) > maxExclusive {
		return nil
	}
	for i := range f.members {
		for _, value := range f.members[i].values {
			if !f.closed && !slices.Contains(m.values, value) {
				others = append(others, value)
			}
		}
	}
	return others
}

func textList(texts []string) *openapi.Node {
	items := make([]*openapi.Node, len(texts))
	for i, text := range texts {
		items[i] = openapi.Text(text)
	}
	return openapi.List(items...)
}

// note says which values of the discriminator a property is for: `Only if kind is "circle" or "box".` It returns "" if
// they are not known, are many, or are those of all members.
func (f *family) note(values []string) string {
	const many = 6
	telling := slices.ContainsFunc(f.members, func(m familyMember) bool {
		return len(m.values) > 0 && !slices.Contains(values, m.values[0])
	})
	if len(values) == 0 || len(values) > many || !telling {
		return ""
	}
	quoted := make([]string, len(values))
	for i, value := range values {
		quoted[i] = strconv.Quote(value)
	}
	return "Only if " + f.property + " is " + strings.Join(quoted, " or ") + "."
}

// selector returns the schema of the discriminator property with the values that select the members.
func (f *family) selector(property openapi.Place) *openapi.Node {
	var values []string
	for i := range f.members {
		values = append(values, f.members[i].values...)
	}
	resolved, err := property.Resolve()
	if err != nil || len(values) == 0 || resolved.Get("enum") != nil || resolved.Get("const") != nil {
		return property.Node
	}
	if f.closed && !slices.ContainsFunc(f.members, func(m familyMember) bool { return m.own }) {
		return resolved.With("enum", textList(values))
	}
	if resolved.Get("example") != nil || resolved.Get("examples") != nil {
		return property.Node
	}
	return resolved.With("examples", textList(values))
}

// nested returns an object with the value at a path of names.
func nested(value *openapi.Node, names ...string) *openapi.Node {
	for _, name := range slices.Backward(names) {
		value = openapi.Object(openapi.Member{Name: name, Value: value})
	}
	return value
}

// choice returns the schema of the base p as a choice of the members of its family.
func (f *family) choice(p openapi.Place) openapi.Place {
	items := make([]*openapi.Node, len(f.members))
	for i, m := range f.members {
		if m.place.File == p.File {
			m.place = f.alone(i, p)
		}
		items[i] = f.restricted(&m)
	}
	choice := nested(openapi.List(items...), "anyOf")
	for _, m := range p.Members() {
		switch m.Name {
		case "description", "title", "deprecated", "nullable", "x-nullable", "readOnly", "writeOnly":
			choice = choice.With(m.Name, m.Value)
		}
	}
	return openapi.Place{Node: choice, File: p.File}
}

// alone returns the schema of a member of the family of base without those that extend it.
func (f *family) alone(i int, base openapi.Place) openapi.Place {
	m := f.members[i].place
	if m.Node == base.Node && f.members[i].values == nil {
		return openapi.Place{Node: newKinship().common(m), File: m.File}
	}
	node := newKinship().extension(m, true).Without("discriminator")
	if node == m.Node { // a copy has no schemas that extend it
		node = openapi.Object(node.Members()...)
	}
	return openapi.Place{Node: node, File: m.File}
}

// extension returns the schema p with the bases in its allOf in place, each without what forbids p to extend it. If
// extends is false, p only refers to a base with a discriminator, and means all schemas that extend it.
func (k *kinship) extension(p openapi.Place, extends bool) *openapi.Node {
	parts := p.At("allOf")
	several := len(parts.Items()) > 1 || p.Get("properties") != nil
	var items []*openapi.Node
	for i, item := range parts.Items() {
		base, err := parts.Item(item).Resolve()
		if err != nil || base.Node == item || base.File != p.File || k.ends() {
			continue
		}
		if extends && isBase(base) || several && base.Get("additionalProperties").Kind() == 'f' {
			if items == nil {
				items = slices.Clone(parts.Items())
			}
			items[i] = k.common(base)
		}
	}
	if items == nil {
		return p.Node
	}
	return p.With("allOf", openapi.List(items...))
}

// common returns what a base says of all schemas that extend it.
func (k *kinship) common(base openapi.Place) *openapi.Node {
	node := k.extension(base, true).Without("discriminator")
	if node.Get("additionalProperties").Kind() == 'f' {
		node = node.Without("additionalProperties")
	}
	return node
}

// isBase reports whether p means one of the schemas that extend it.
func isBase(p openapi.Place) bool {
	if len(p.File.Subtypes(p.Node)) == 0 || len(p.Get("oneOf").Items())+len(p.Get("anyOf").Items()) > 0 {
		return false
	}
	discriminator, _ := newKinship().discriminator(p)
	return discriminator.Get("propertyName") != nil
}

// extends reports whether a schema with an allOf adds something to the schemas that it combines. If not, it is another
// name for one of them.
func extends(p openapi.Place) bool {
	telling := 0
	for _, item := range p.Get("allOf").Items() {
		if slices.ContainsFunc(item.Members(), asserts) {
			telling++
		}
	}
	return telling > 1 || slices.ContainsFunc(p.Members(), func(m openapi.Member) bool { return m.Name != "allOf" && asserts(m) })
}

// asserts reports whether a keyword says more than the type of an object and more than a description.
func asserts(m openapi.Member) bool {
	switch m.Name {
	case "type", "nullable", "discriminator", "xml", "externalDocs":
		return false
	}
	return !isAnnotation(m.Name) && !strings.HasPrefix(m.Name, "x-")
}

// property returns the schema of a property of p or of a part of its allOf. If follow is true, it can be that of a
// schema that p refers to.
func (k *kinship) property(p openapi.Place, name string, follow bool) openapi.Place {
	if follow {
		if resolved, err := p.Resolve(); err == nil {
			p = resolved
		}
	}
	if property := p.At("properties").At(name); property.Node != nil || k.ends() {
		return property
	}
	parts := p.At("allOf")
	for _, item := range parts.Items() {
		if property := k.property(parts.Item(item), name, follow); property.Node != nil {
			return property
		}
	}
	return openapi.Place{}
}

// states reports whether a schema restricts the property to values that distinguish it from other members. A list
// of several values in a schema that it refers to does not: other members can share it.
func (k *kinship) states(p openapi.Place, property string) bool {
	if k.ends() {
		return false
	}
	for _, keyword := range [...]string{"oneOf", "anyOf"} {
		list := p.At(keyword)
		if len(list.Items()) == 0 {
			continue
		}
		for _, item := range list.Items() {
			if arm, err := list.Item(item).Resolve(); err != nil || !isNullType(arm) && !k.states(arm, property) {
				return false
			}
		}
		return true
	}
	inline := k.property(p, property, false)
	if inline.Get("const") != nil || len(inline.Get("enum").Items()) > 0 {
		return true
	}
	stated, err := k.property(p, property, true).Resolve()
	return err == nil && (stated.Get("const") != nil || len(stated.Get("enum").Items()) == 1)
}

func isNullType(p openapi.Place) bool { return string(plainText(p.Get("type"))) == "null" }
