package toolsearch

import (
	"encoding/json"

	"github.com/fairwayhq/fairway/ocp/tool"
)

// Entries returns the entries of tools, in the same order.
func Entries(tools []*tool.Tool) []Entry {
	list := make([]Entry, len(tools))
	for i, t := range tools {
		list[i] = Entry{
			Name: t.Name, Title: t.Title, Description: t.Description,
			Method: t.Method, Path: t.Path, Tags: t.Tags, Deprecated: t.Deprecated,
			Arguments: make([]Argument, len(t.Arguments)),
		}
		for j := range t.Arguments {
			a := &t.Arguments[j]
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
