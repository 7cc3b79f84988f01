package schema

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// A Fast is an argument schema simple enough to accept a value by its bytes alone,
// without decoding. The schemas of most parameters are. If it does not accept a value, the
// value may still be valid: the full validator then decides and produces the error
// message.
type Fast struct {
	form
	enum []jsontext.Value // as text; nil if any value is valid

	once    sync.Once
	matcher *regexp.Regexp // of pattern, from the first use on; nil if it is not valid
}

// A form is all of a Fast but its enum.
type form struct {
	items    *Fast // of an array
	min, max int64
	bounded  bounded    // what min and max apply to
	types    plainTypes // the allowed types
	pattern  string     // of strings; "" for none
}

// plainTypes is a set of JSON types.
type plainTypes uint8

const (
	plainString plainTypes = 1 << iota
	plainInteger
	plainNumber
	plainBoolean
	plainNull
	plainArray
)

var plainTypeOf = map[string]plainTypes{
	"string": plainString, "integer": plainInteger, "number": plainNumber,
	"boolean": plainBoolean, "null": plainNull, "array": plainArray,
}

// FastSet holds the plain schemas without an enum of one document, each stored once.
type FastSet map[form]*Fast

// bounded says what the bounds of a Fast apply to. A Fast has bounds of at
// most one kind.
type bounded uint8

const (
	unbounded bounded = iota
	byLength          // minLength, maxLength
	byValue           // minimum, maximum
)

// isIgnored reports whether a keyword does not affect validation.
func isIgnored(keyword string) bool {
	switch keyword {
	case "format", "contentEncoding", "contentMediaType":
		return true
	}
	return isAnnotation(keyword)
}

// Read returns the fast form of a schema, or nil if it has none.
func (f FastSet) Read(schema jsontext.Value) *Fast {
	var room [16]strictjson.Member
	members, err := strictjson.Members(room[:0], schema)
	if err != nil {
		return nil
	}
	p := Fast{form: form{min: -maxPlainNumber, max: maxPlainNumber}}
	listed := len(members)
	for i := 0; i < len(members); i++ {
		switch m := members[i]; {
		case i >= listed && slices.ContainsFunc(members[:listed], func(l strictjson.Member) bool { return l.Name == m.Name }):
			return nil // both apply
		case m.Name == checkKey:
			if members, err = strictjson.Members(members, m.Value); err != nil {
				return nil
			}
		case !isIgnored(m.Name) && !f.readKeyword(&p, m):
			return nil
		}
	}
	if p.types == 0 || p.allows(plainArray) != (p.items != nil) {
		return nil
	}
	switch p.bounded {
	case byLength:
		if p.allows(plainInteger | plainNumber) {
			return nil
		}
	case byValue:
		if p.allows(plainString) {
			return nil
		}
	}
	if p.enum != nil {
		return &p
	}
	known := f[p.form]
	if known == nil {
		known = &Fast{form: p.form}
		f[p.form] = known
	}
	return known
}

// allows reports whether a value may have one of the types.
func (p *Fast) allows(types plainTypes) bool {
	return p.types&types != 0
}

// readKeyword reads the keyword and reports whether a Fast can check it.
func (f FastSet) readKeyword(p *Fast, m strictjson.Member) (known bool) {
	switch m.Name {
	case "type":
		p.types, known = readTypes(m.Value)
	case "enum":
		p.enum, known = readTexts(m.Value)
	case "items":
		p.items = f.Read(m.Value)
		known = p.items != nil
	case "minimum":
		known = p.readBound(&p.min, byValue, m.Value)
	case "maximum":
		known = p.readBound(&p.max, byValue, m.Value)
	case "pattern":
		p.pattern = strictjson.Text(m.Value)
		known = p.pattern != ""
	case "minLength":
		known = p.readBound(&p.min, byLength, m.Value)
	case "maxLength":
		known = p.readBound(&p.max, byLength, m.Value)
	}
	return known
}

func (p *Fast) readBound(bound *int64, about bounded, value jsontext.Value) (known bool) {
	if p.bounded != unbounded && p.bounded != about {
		return false
	}
	p.bounded = about
	*bound, known = readInteger(value)
	return known
}

func readTypes(value jsontext.Value) (types plainTypes, ok bool) {
	decoded, err := strictjson.Decode(value)
	if err != nil {
		return 0, false
	}
	list, isList := decoded.([]any)
	if !isList {
		list = []any{decoded}
	}
	for _, item := range list {
		name, isText := item.(string)
		if !isText || name == "object" {
			return 0, false
		}
		types |= plainTypeOf[name]
	}
	return types, true
}

// readTexts returns the strings of an enum. Ok is false if the enum has other values.
func readTexts(value jsontext.Value) (texts []jsontext.Value, ok bool) {
	decoded, err := strictjson.Decode(value)
	if err != nil {
		return nil, false
	}
	list, _ := decoded.([]any)
	for _, item := range list {
		text, isText := item.(string)
		if !isText {
			return nil, false
		}
		texts = append(texts, strictjson.AppendString(nil, text))
	}
	return texts, len(texts) > 0
}

// maxPlainNumber is the largest number that a Fast compares.
const maxPlainNumber = 1 << 53

// readInteger reads an integer without fraction and exponent that is not too large.
func readInteger(value jsontext.Value) (int64, bool) {
	const longest = 15 // digits
	if len(value) == 0 || len(value) > longest {
		return 0, false
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	return n, err == nil
}

// Accepts reports whether the value is certainly valid.
func (p *Fast) Accepts(value jsontext.Value) bool {
	switch kind := value.Kind(); {
	case kind == '"':
		return p.allows(plainString) && p.acceptsText(value)
	case p.enum != nil:
		return false
	case kind == 'n':
		return p.allows(plainNull)
	case kind == 't', kind == 'f':
		return p.allows(plainBoolean)
	case kind == '0':
		return p.acceptsNumber(value)
	case kind == '[':
		return p.items != nil && p.acceptsItems(value)
	}
	return false
}

func (p *Fast) acceptsNumber(value jsontext.Value) bool {
	n, isInteger := readInteger(value)
	if !isInteger {
		return p.bounded == unbounded && p.allows(plainNumber)
	}
	return p.min <= n && n <= p.max && p.allows(plainInteger|plainNumber)
}

func (p *Fast) acceptsText(value jsontext.Value) bool {
	if bytes.IndexByte(value, '\\') >= 0 {
		return false
	}
	if p.enum != nil && !slices.ContainsFunc(p.enum, func(text jsontext.Value) bool { return bytes.Equal(text, value) }) {
		return false
	}
	length := int64(utf8.RuneCount(value) - len(`""`))
	return p.min <= length && length <= p.max && (p.pattern == "" || p.matches(value[1:len(value)-1]))
}

// matches reports whether a text matches the pattern. The pattern is compiled when it is first needed,
// with the same package as in the full validator.
func (p *Fast) matches(text []byte) bool {
	p.once.Do(func() { p.matcher, _ = regexp.Compile(p.pattern) }) // the full validator reports the error
	return p.matcher != nil && p.matcher.Match(text)
}

func (p *Fast) acceptsItems(value jsontext.Value) bool {
	items := strictjson.Into(value)
	for items.Next() {
		if !p.items.Accepts(items.Value) {
			return false
		}
	}
	return items.Err() == nil
}
