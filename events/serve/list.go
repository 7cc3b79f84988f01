package serve

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/events"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools/schema"
)

// Limits of types and filters.
const (
	pageSize     = 100     // types
	maxMembers   = 100     // of a payload, by which receivers can filter
	maxNesting   = 5       // of these members
	maxArguments = 8 << 10 // bytes
)

// List serves events/list.
func (s *Server) List(_ context.Context, user *identity.User, raw []byte) (any, error) {
	r, err := s.readParams(user, raw)
	if err != nil {
		return nil, err
	}
	types, from := s.Source.Types(), 0
	if r.Cursor != "" {
		from, err = strconv.Atoi(r.Cursor)
	}
	if err != nil || from < 0 || from > len(types) {
		return nil, invalid("params.cursor does not belong to this list: list again without a cursor")
	}
	modes, listed := []string{"poll", "push"}, []any{}
	if s.Sealer != nil {
		modes = append(modes, "webhook")
	}
	for _, t := range types[from:min(from+pageSize, len(types))] {
		e := map[string]any{"name": t.Name, "description": t.Description, "delivery": modes, "inputSchema": inputSchema(&t), "payloadSchema": t.Payload}
		if t.Payload == nil {
			e["payloadSchema"] = true
		}
		listed = append(listed, e)
	}
	page := map[string]any{"events": listed}
	if from+pageSize < len(types) {
		page["nextCursor"] = strconv.Itoa(from + pageSize)
	}
	return page, nil
}

// members calls add with the members of a payload. Dots join the names of nested ones.
func members(root *schema.Root, t *schema.Tree, prefix string, add func(name string, t *schema.Tree)) {
	for _, p := range root.Resolve(t).Parts("properties") {
		property := root.Resolve(p.Tree)
		add(prefix+p.Name, property)
		if strings.Count(prefix, ".") < maxNesting {
			members(root, property, prefix+p.Name+".", add)
		}
	}
}

// inputSchema returns the schema of the arguments: for each member of the payload that has a simple type, a value or a list of them.
func inputSchema(t *events.Type) jsontext.Value {
	root, _ := schema.Parse(t.Payload) // without one, all members are allowed
	var properties strictjson.ObjectBuilder
	n := 0
	members(root, root.Tree, "", func(name string, t *schema.Tree) {
		types := slices.DeleteFunc(t.Types(), func(name string) bool { return name == "object" || name == "array" })
		if n++; len(types) == 0 || n > maxMembers {
			return
		}
		own := append(strictjson.AppendStrings([]byte(`{"type":`), types), '}')
		properties.Add(name, slices.Concat([]byte(`{"anyOf":[`), own, []byte(`,{"type":"array","items":`), own, []byte(`}]}`)))
	})
	if len(properties) == 0 {
		return jsontext.Value(`{"type":"object"}`)
	}
	return slices.Concat([]byte(`{"type":"object","properties":`), properties.Close(), []byte(`,"additionalProperties":false}`))
}

// A filter has the values that members of the payload may have, in canonical JSON, by the names of the members.
type filter map[string][]string

// newFilter reads the arguments, and makes them canonical.
func (p *params) newFilter(t *events.Type) (filter, error) {
	if p.Arguments == nil || p.Arguments.Kind() == 'n' {
		p.Arguments = jsontext.Value("{}")
	}
	if err := p.Arguments.Canonicalize(); err != nil || p.Arguments.Kind() != '{' || len(p.Arguments) > maxArguments {
		return nil, invalid("params.arguments must be an object of at most %d bytes", maxArguments)
	}
	known := strictjson.MemberOf(inputSchema(t), "properties")
	f := make(filter)
	for walk := strictjson.Into(p.Arguments); walk.Next(); {
		name, values := string(walk.Key()), []string{string(walk.Value)}
		if walk.Value.Kind() == '[' {
			values = nil
			for each := strictjson.Into(walk.Value); each.Next(); {
				values = append(values, string(each.Value))
			}
		}
		if known != nil && !strictjson.HasMember(known, name) || slices.ContainsFunc(values, func(v string) bool { return v[0] == '{' || v[0] == '[' }) {
			return nil, invalid("params.arguments.%s does not fit the inputSchema of the event: an argument is a value, or a list of values", text.Cut(name, text.MaxQuoted))
		}
		f[name] = values
	}
	return f, nil
}

// passes reports whether each of the members of data has one of its values.
func (f filter) passes(data jsontext.Value) bool {
	for name, values := range f {
		value := data
		for part := range strings.SplitSeq(name, ".") {
			value = strictjson.MemberOf(value, part)
		}
		if value = value.Clone(); value == nil || value.Canonicalize() != nil || !slices.Contains(values, string(value)) {
			return false
		}
	}
	return true
}
