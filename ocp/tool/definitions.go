package tool

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/validate"
)

// definitions are the $defs of a tool's input schema.
type definitions []wire.Member

func readDefinitions(inputSchema jsontext.Value) definitions {
	members, err := wire.Members(nil, inputSchema)
	if err != nil {
		return nil
	}
	for _, m := range members {
		if m.Name == "$defs" {
			defs, err := wire.Members(nil, m.Value)
			if err != nil {
				return nil
			}
			return defs
		}
	}
	return nil
}

// complete makes a schema self-contained: it adds the $defs that the schema refers to,
// directly or indirectly.
func (d definitions) complete(schema jsontext.Value) jsontext.Value {
	reached := make(map[string]bool)
	d.reach(schema, reached)
	if len(reached) == 0 {
		return schema
	}
	defs := []byte{'{'}
	for _, m := range d {
		if reached[m.Name] {
			defs = appendMember(defs, m.Name, m.Value)
		}
	}
	whole := bytes.Clone(schema[:len(schema)-1])
	whole = appendMember(whole, "$defs", append(defs, '}'))
	return append(whole, '}')
}

// reach marks the definitions that the text refers to, directly or indirectly.
func (d definitions) reach(text []byte, reached map[string]bool) {
	for _, name := range references(text) {
		if reached[name] {
			continue
		}
		reached[name] = true
		for _, m := range d {
			if m.Name == name {
				d.reach(m.Value, reached)
			}
		}
	}
}

// references returns the names of the definitions that the text refers to.
func references(text []byte) (names []string) {
	for {
		start := bytes.Index(text, []byte(validate.RefPrefix))
		if start < 0 {
			return names
		}
		text = text[start+len(validate.RefPrefix):]
		end := bytes.IndexByte(text, '"')
		if end < 0 {
			return names
		}
		names = append(names, string(text[:end]))
		text = text[end:]
	}
}
