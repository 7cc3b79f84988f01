package search

import (
	"encoding/json"

	"github.com/fairwayhq/fairway/tools"
)

// Entries returns the entries of tools, in the same order.
func Entries(toolset []*tools.Tool) []Entry {
	list := make([]Entry, len(toolset))
	for i, t := range toolset {
		list[i] = Entry{
			Name: t.Name, Title: t.Definition.Title, Description: t.Definition.Description,
			Method: t.Plan.Method, Path: t.Plan.Path, Tags: t.Definition.Tags, Deprecated: t.Definition.Deprecated,
			Arguments: make([]Argument, len(t.Definition.Arguments)),
		}
		for j := range t.Definition.Arguments {
			a := &t.Definition.Arguments[j]
			list[i].Arguments[j] = Argument{Name: a.Name, Description: a.Description, Values: enumOf(a.Schema)}
		}
	}
	return list
}

// enumOf returns the strings of a schema's enum, or of the enum of its items.
func enumOf(schema []byte) (values []string) {
	var s struct {
		Enum  []any `json:"enum"`
		Items struct {
			Enum []any `json:"enum"`
		} `json:"items"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	for _, v := range append(s.Enum, s.Items.Enum...) {
		if text, ok := v.(string); ok {
			values = append(values, text)
		}
	}
	return values
}
