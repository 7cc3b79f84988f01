package openapi

import (
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
)

// visible returns the value of a member. If it is a text for readers, control characters and characters that are not shown are
// left out: they could hide a part of the text from the people who read it, and not from a model.
func visible(name string, value *Node) *Node {
	switch name {
	case "description", "summary", "title":
	default:
		return value
	}
	if value.Kind() != '"' || isPrintable(value.raw) {
		return value
	}
	source := value.Text()
	shown := text.Visible(source)
	if shown == source {
		return value
	}
	return &Node{raw: strictjson.AppendString(nil, shown)}
}

// isPrintable reports whether a JSON string has only ASCII characters, and no escape of another one.
func isPrintable(raw []byte) bool {
	for i, c := range raw {
		if c >= 0x7f || c == 'u' && raw[i-1] == '\\' || (c == 'b' || c == 'f') && raw[i-1] == '\\' {
			return false
		}
	}
	return true
}
