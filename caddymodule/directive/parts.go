package directive

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// Part is a part of an object of the configuration, such as the app `agents` or the handler oagent. It is a pointer to a
// struct whose fields are options of the object. The package of a part registers it when it is linked, so that the package
// of the object knows neither the part nor its options.
type Part interface {
	// Options returns the subdirectives of the part.
	Options(b *Block) Options
}

// Parts are the registered parts of one object. P is the type of them.
type Parts[P Part] struct{ create []func() P }

// Register adds a part. It is for init.
func (p *Parts[P]) Register(create func() P) { p.create = append(p.create, create) }

// New returns the parts of a new object.
func (p *Parts[P]) New() []P {
	parts := make([]P, len(p.create))
	for i, create := range p.create {
		parts[i] = create()
	}
	return parts
}

// DecodeParts reads a JSON object whose members are the options of several structs. Name is that of the object in errors.
func DecodeParts[P any](name string, data []byte, structs ...P) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return err
	}
	var known []string
	for _, s := range structs {
		own := make(map[string]json.RawMessage)
		for _, option := range optionNames(reflect.TypeOf(s).Elem()) {
			known = append(known, option)
			if value, ok := members[option]; ok {
				own[option] = value
				delete(members, option)
			}
		}
		if len(own) == 0 {
			continue
		}
		object, err := json.Marshal(own)
		if err != nil {
			return err
		}
		if err := caddy.StrictUnmarshalJSON(object, s); err != nil {
			return err
		}
	}
	if len(members) == 0 {
		return nil
	}
	unknown := slices.Min(slices.Collect(maps.Keys(members)))
	if hint := notLinked(name, unknown, known); hint != "" {
		return fmt.Errorf("%s: %s", name, hint)
	}
	return fmt.Errorf("%s: json: unknown field %q", name, unknown)
}

// EncodeParts is the opposite of DecodeParts. The members are in alphabetical order.
func EncodeParts[P any](structs ...P) ([]byte, error) {
	members := make(map[string]json.RawMessage)
	for _, s := range structs {
		object, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(object, &members); err != nil {
			return nil, err
		}
	}
	return json.Marshal(members)
}

// optionNames returns the names of the members that encoding/json reads into a struct.
func optionNames(t reflect.Type) (names []string) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			names = append(names, optionNames(f.Type)...)
		case f.IsExported() && name != "":
			names = append(names, name)
		}
	}
	return names
}

// PartOptions returns the subdirectives of all parts.
func PartOptions[P Part](b *Block, parts ...P) Options {
	all := make(Options)
	for _, p := range parts {
		maps.Copy(all, p.Options(b))
	}
	return all
}
