package schema

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// checkKey is the keyword for what is checked and not listed, because some clients or model APIs refuse it: an
// object of keywords that apply as if they stood beside it.
const checkKey = "$check"

// checkMark is in the text of each schema that has a checkKey.
const checkMark = `"` + checkKey + `":`

// Listed returns a schema without what is only checked.
func Listed(schema jsontext.Value) jsontext.Value {
	return replaceChecks(schema, func([]Keyword, *Tree) []Keyword { return nil })
}

// checked returns a schema in which the keywords that are only checked are ordinary ones. Those that the schema has
// already go into a part of its allOf.
func checked(schema jsontext.Value) jsontext.Value {
	return replaceChecks(schema, func(beside []Keyword, check *Tree) (merged []Keyword) {
		own := &Tree{Keywords: beside}
		all := slices.Concat(own.Parts("allOf"), check.Parts("allOf"))
		var again []Keyword
		for _, k := range check.Keywords {
			switch {
			case k.Name == "allOf":
			case own.keyword(k.Name) != nil:
				again = append(again, k)
			default:
				merged = append(merged, k)
			}
		}
		if again != nil {
			all = append(all, Part{Tree: &Tree{Keywords: again}})
		}
		if all != nil {
			merged = append(merged, Keyword{Name: "allOf", shape: listed, Parts: all})
		}
		return merged
	})
}

// replaceChecks replaces each checkKey by the keywords that replacement returns, which take the place of those of the
// same names beside it.
func replaceChecks(schema jsontext.Value, replacement func(beside []Keyword, check *Tree) []Keyword) jsontext.Value {
	if !bytes.Contains(schema, []byte(checkMark)) {
		return schema
	}
	root, err := Parse(schema)
	if err != nil {
		return schema
	}
	return root.rewrite(make([]byte, 0, len(schema)), func(t *Tree) []Keyword {
		check := t.Part(checkKey)
		if check == nil {
			return t.Keywords
		}
		var beside []Keyword
		for _, k := range t.Keywords {
			if k.Name != checkKey {
				beside = append(beside, k)
			}
		}
		for _, k := range replacement(beside, check) {
			beside = setKeyword(beside, k)
		}
		return beside
	})
}

// withoutOneOf returns a schema whose oneOfs are anyOfs, so that a value that fits several alternatives is valid. Those
// in the keywords not and if stay, since there they would refuse more. It is for the schemas of MCP servers: package
// schema writes no oneOf.
func withoutOneOf(schema jsontext.Value) jsontext.Value {
	if !bytes.Contains(schema, []byte(`"oneOf"`)) {
		return schema
	}
	root, err := Parse(schema)
	if err != nil {
		return schema
	}
	return root.rewrite(make([]byte, 0, len(schema)), func(t *Tree) []Keyword {
		keywords := slices.Clone(t.Keywords)
		for i := range keywords {
			switch k := &keywords[i]; k.Name {
			case "not", "if":
				k.shape = plain
			case "oneOf":
				if t.keyword("anyOf") == nil {
					k.Name = "anyOf"
				} else if t.keyword("allOf") == nil {
					choice := Keyword{Name: "anyOf", shape: listed, Parts: k.Parts}
					*k = Keyword{Name: "allOf", shape: listed, Parts: []Part{{Tree: &Tree{Keywords: []Keyword{choice}}}}}
				}
			}
		}
		return keywords
	})
}

// setKeyword replaces the keyword of the same name, or appends it.
func setKeyword(keywords []Keyword, k Keyword) []Keyword {
	for i := range keywords {
		if keywords[i].Name == k.Name {
			keywords[i] = k
			return keywords
		}
	}
	return append(keywords, k)
}

// rewrite appends the schema with the keywords that change returns for it and for each schema in it.
func (t *Tree) rewrite(dst []byte, change func(*Tree) []Keyword) []byte {
	if t.Keywords == nil { // true, false or {}
		return append(dst, t.Text...)
	}
	dst = append(dst, '{')
	for _, k := range change(t) {
		dst = appendName(dst, k.Name)
		switch k.shape {
		case plain:
			dst = append(dst, k.Value...)
		case single:
			dst = k.Parts[0].rewrite(dst, change)
		case listed:
			dst = append(dst, '[')
			for _, part := range k.Parts {
				dst = part.rewrite(strictjson.Comma(dst), change)
			}
			dst = append(dst, ']')
		case named:
			dst = append(dst, '{')
			for _, part := range k.Parts {
				dst = part.rewrite(appendName(dst, part.Name), change)
			}
			dst = append(dst, '}')
		}
	}
	return append(dst, '}')
}
