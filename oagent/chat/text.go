package chat

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// maxTexts is how many texts one message or answer may have.
const maxTexts = 10_000

var errTooMany = fmt.Errorf("it has more than %d texts", maxTexts)

// texts are all that is said in JSON of any shape: every string in it, but for
// those that are known to say nothing. So a member that a server has invented is
// looked at like those that everybody knows.
//
// Strings that stand at the same place in several events are parts of one text.
type texts struct {
	allowMedia  bool
	request     bool // it is a message to the model
	skipResults bool // results of tools are left out
	responses   bool // it is an answer of the responses API, which repeats the request
	document    bool // it is one answer, and no stream of events

	order  []*placed
	places map[string]*placed
	place  []byte // of the value at hand
}

// placed is the text of one place.
type placed struct {
	strings.Builder
	place string
}

func newTexts(allowMedia bool) *texts {
	return &texts{allowMedia: allowMedia, places: make(map[string]*placed)}
}

// join returns the texts, each once: as they are; where clients and models read
// the texts of several parts as one, as that one; and where JSON in a text has
// escapes, as what they stand for.
func (t *texts) join() string {
	seen := make(map[string]bool, len(t.order))
	parts := make([]string, 0, len(t.order))
	add := func(text string) {
		if strings.TrimSpace(text) != "" && !seen[text] {
			seen[text] = true
			parts = append(parts, text)
		}
	}
	for _, p := range t.order {
		add(p.String())
	}
	for _, text := range t.concatenated() {
		add(text)
	}
	for _, text := range parts {
		if plain, escaped := unescape(text); escaped {
			add(plain)
		}
	}
	return strings.Join(parts, "\n")
}

// concatenated returns what the parts of messages come to which have several.
func (t *texts) concatenated() []string {
	type message struct {
		strings.Builder
		parts int
	}
	var order []*message
	messages := make(map[string]*message)
	for _, p := range t.order {
		content, ok := contentOf(p.place)
		if !ok {
			continue
		}
		m := messages[content]
		if m == nil {
			m = new(message)
			messages[content] = m
			order = append(order, m)
		}
		m.WriteString(p.String())
		m.parts++
	}
	var texts []string
	for _, m := range order {
		if m.parts > 1 {
			texts = append(texts, m.String())
		}
	}
	return texts
}

// contentOf returns the place of a text without the numbers of its part, and
// whether it is one of the parts of a message.
func contentOf(place string) (string, bool) {
	last := strings.LastIndexAny(place, "0123456789")
	if last < 0 {
		return "", false
	}
	switch place[last+1:] {
	case "/text", "/delta/text", "/delta":
	case "":
		if !strings.HasSuffix(strings.TrimRight(place, "0123456789"), "/content/") {
			return "", false
		}
	default:
		return "", false
	}
	return strings.Map(func(c rune) rune {
		if '0' <= c && c <= '9' {
			return -1
		}
		return c
	}, place), true
}

// unescape replaces the escapes that JSON has for characters which need none,
// whether the text is good JSON or not: clients read the half of a document, too.
func unescape(text string) (plain string, escaped bool) {
	if !strings.Contains(text, `\u`) && !strings.Contains(text, `\/`) {
		return text, false
	}
	var b strings.Builder
	for rest := text; rest != ""; {
		i := strings.IndexByte(rest, '\\')
		if i < 0 {
			b.WriteString(rest)
			break
		}
		b.WriteString(rest[:i])
		rest = rest[i:]
		switch r, size := escapeOf(rest); {
		case size > 0:
			b.WriteRune(r)
			rest, escaped = rest[size:], true
		default:
			b.WriteByte('\\')
			rest = rest[1:]
		}
	}
	return b.String(), escaped
}

// escapeOf returns what the escape stands for that the text begins with; its size
// is 0 if it is none.
func escapeOf(text string) (r rune, size int) {
	if strings.HasPrefix(text, `\/`) {
		return '/', 2
	}
	r, ok := unitOf(text)
	if !ok {
		return 0, 0
	}
	if utf16.IsSurrogate(r) {
		if second, ok := unitOf(text[6:]); ok {
			if pair := utf16.DecodeRune(r, second); pair != '\ufffd' {
				return pair, 12
			}
		}
	}
	return r, 6
}

// unitOf returns the UTF-16 code unit of the escape that the text begins with.
func unitOf(text string) (rune, bool) {
	if len(text) < 6 || text[:2] != `\u` {
		return 0, false
	}
	unit, err := strconv.ParseUint(text[2:6], 16, 16)
	return rune(unit), err == nil
}

// gather takes the texts of one document or event, which has been checked.
func (t *texts) gather(value jsontext.Value) error {
	t.place = t.place[:0]
	return t.walk(value, "", 0)
}

// walk takes the texts of a value, which is a member of that name or an element.
func (t *texts) walk(value jsontext.Value, name string, depth int) error {
	switch value.Kind() {
	case '"':
		return t.add(value, name)
	case '[':
		return t.walkArray(value, name, depth)
	case '{':
		return t.walkObject(value, name, depth)
	}
	return nil
}

func (t *texts) walkArray(value jsontext.Value, name string, depth int) error {
	length, i := len(t.place), 0
	tokens := isTokens(t.place)
	for walk := wire.Into(value); walk.Next(); i++ {
		t.place = append(t.place[:length], '/')
		if !tokens && (walk.Value.Kind() != '{' || !hasIndex(walk.Value)) { // else walkObject knows it
			t.place = strconv.AppendInt(t.place, int64(i), 10)
		}
		if err := t.walk(walk.Value, name, depth+1); err != nil {
			return err
		}
	}
	t.place = t.place[:length]
	return nil
}

func (t *texts) walkObject(value jsontext.Value, name string, depth int) error {
	if isWhole(name) {
		return t.take(string(value), len(value) > 2)
	}
	length := len(t.place)
	kind := t.enter(value)
	defer func() { t.place = t.place[:length] }()
	switch {
	case t.skipResults && kind == "tool_result" && depth == 2 && bytes.HasPrefix(t.place, []byte("/content/")):
		return nil
	case t.request && depth > 0 && isMediaPart(kind) && !t.allowMedia:
		return fmt.Errorf("it has a part of the type %q, which is not text", kind[:min(len(kind), 64)])
	}
	inner := len(t.place)
	for walk := wire.Into(value); walk.Next(); {
		member, _ := unquote(walk.Name)
		if t.skips(member, walk.Value, kind, depth) {
			continue
		}
		if isMedia(member, kind, walk.Value) || t.request && kind == "" && depth > 0 && isMediaName(member) {
			if !t.allowMedia {
				return fmt.Errorf("it has %.64q, which is not text", member)
			}
			if isOpaque(walk.Value) {
				continue
			}
		}
		if t.place = append(append(t.place[:inner], '/'), nameOf(member)...); !isName(member) {
			if err := t.take(member, true); err != nil {
				return err
			}
		}
		if err := t.walk(walk.Value, member, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// enter adds to the place what tells the object from others at the same place in
// other events, and returns its type.
func (t *texts) enter(value jsontext.Value) (kind string) {
	root := len(t.place) == 0
	for walk := wire.Into(value); walk.Next(); {
		switch {
		case walk.Is("type"):
			kind, _ = unquote(walk.Value)
			if root { // of an event; that of a part may be said once
				t.place = append(append(t.place, ';'), goesOn(kind)...)
			}
		case isIndex(&walk):
			t.place = append(append(t.place, ';'), walk.Value...)
		}
	}
	return kind
}

// goesOn returns the type of the events that go on with what one of that type has
// begun: a block of Anthropic's stream may begin with a text.
func goesOn(kind string) string {
	if kind == "content_block_start" {
		return "content_block_delta"
	}
	return kind
}

// nameOf returns the name of a member under which its text goes on in later
// events.
func nameOf(member string) string {
	if member == "content_block" {
		return "delta"
	}
	return member
}

func hasIndex(value jsontext.Value) bool {
	for walk := wire.Into(value); walk.Next(); {
		if walk.Is("index") && walk.Value.Kind() == '0' {
			return true
		}
	}
	return false
}

func isIndex(walk *wire.Walk) bool {
	return walk.Value.Kind() == '0' && bytes.HasSuffix(walk.Name, []byte(`index"`))
}

func (t *texts) add(value jsontext.Value, name string) error {
	text, ok := unquote(value)
	if !ok {
		return errors.New("it has a string that cannot be read")
	}
	if t.request && t.allowMedia && (name == "url" || name == "image_url") && isOpaque(value) {
		return nil
	}
	return t.take(text, text != "")
}

// take adds a text to those of its place.
func (t *texts) take(text string, any bool) error {
	if !any {
		return nil
	}
	b := t.places[string(t.place)]
	if b == nil {
		if len(t.order) == maxTexts {
			return errTooMany
		}
		b = &placed{place: string(t.place)}
		t.places[b.place] = b
		t.order = append(t.order, b)
	}
	b.WriteString(text)
	return nil
}
