package chat

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// maxTexts is how many texts one message or answer may have.
const maxTexts = 10_000

// maxWalked is how deep values are told apart, of which each level is read again.
// What is deeper is looked at as it is written.
const maxWalked = 16

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
	text  strings.Builder
	place string
}

func newTexts(allowMedia bool) *texts {
	return &texts{allowMedia: allowMedia, places: make(map[string]*placed)}
}

// gather takes the texts of one document or event, which has been checked.
func (t *texts) gather(value jsontext.Value) error {
	t.place = t.place[:0]
	return t.walk(value, "", 0)
}

// walk takes the texts of a value, which is a member of that name or an element.
func (t *texts) walk(value jsontext.Value, name string, depth int) error {
	switch kind := value.Kind(); {
	case kind == '"':
		return t.add(value, name)
	case kind == '0' && t.request:
		return t.addNumber(value, name)
	case kind != '[' && kind != '{':
	case depth > maxWalked:
		return t.take(string(value), len(value) > len("{}"))
	case kind == '[':
		return t.walkArray(value, name, depth)
	default:
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

var errNumber = errors.New("it has a number in place of text")

// addNumber takes a number of a message. One in place of text is an error: servers
// write it in forms of their own, or read it as the number of a token.
func (t *texts) addNumber(value jsontext.Value, name string) error {
	switch name {
	case "content", "text", "input", "output", "value", "arguments", "refusal", "thinking", "reasoning", "reasoning_content", "summary", "name", "title", "context", "":
		return errNumber
	}
	if strings.HasSuffix(name, "index") {
		return nil
	}
	return t.take(string(value), true)
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
	b.text.WriteString(text)
	return nil
}
