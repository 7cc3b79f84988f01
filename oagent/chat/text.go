package chat

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// maxTexts is the maximum number of texts in one message or response.
const maxTexts = 10_000

// maxWalked is the maximum depth at which values are parsed separately, because each level is
// scanned again. Deeper values are extracted as written.
const maxWalked = 16

var errTooMany = fmt.Errorf("it has more than %d texts", maxTexts)

// texts collects all text in JSON of any shape: every string, except those that are known to
// contain no text. So an unknown member of a server is extracted like the known ones.
//
// Strings at the same place in several events are parts of one text.
type texts struct {
	allowMedia  bool
	request     bool // a message to the model
	skipResults bool // omit results of tools
	responses   bool // a response of the responses API, which repeats the request
	document    bool // a complete response, not a stream of events

	order  []*placed
	places map[string]*placed
	place  []byte // of the current value
}

// placed is the text of one place.
type placed struct {
	text  strings.Builder
	place string
}

func newTexts(allowMedia bool) *texts {
	return &texts{allowMedia: allowMedia, places: make(map[string]*placed)}
}

// gather collects the texts of one document, event or message. Its JSON was validated before. place
// distinguishes messages.
func (t *texts) gather(value jsontext.Value, place string) error {
	t.place = append(t.place[:0], place...)
	return t.walk(value, "", 0)
}

// walk collects the texts of a value. name is the name of the member; elements of an array
// have the array's name.
func (t *texts) walk(value jsontext.Value, name string, depth int) error {
	switch kind := value.Kind(); {
	case kind == '"':
		return t.add(value, name)
	case (kind == '0' || kind == 't' || kind == 'f') && t.request:
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
	for walk := strictjson.Into(value); walk.Next(); i++ {
		t.place = append(t.place[:length], '/')
		if !tokens && (walk.Value.Kind() != '{' || !hasIndex(walk.Value)) { // else walkObject handles it
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
	case t.skipResults && kind == "tool_result" && depth == 2 && bytes.Contains(t.place, []byte("/content/")):
		return nil
	case t.request && depth > 0 && isMediaPart(kind) && !t.allowMedia:
		return fmt.Errorf("it contains a part of the type %q, which is not text", kind[:min(len(kind), 64)])
	}
	inner := len(t.place)
	for walk := strictjson.Into(value); walk.Next(); {
		member, _ := unquote(walk.Name)
		if t.skips(member, walk.Value, kind, depth) {
			continue
		}
		if isMedia(member, kind, walk.Value) || t.request && kind == "" && depth > 0 && isMediaName(member) {
			if !t.allowMedia {
				return fmt.Errorf("it contains %.64q, which is not text", member)
			}
			if isOpaque(walk.Value) {
				continue
			}
		}
		t.place = append(append(t.place[:inner], '/'), nameOf(member)...)
		if !isName(member) {
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

// enter adds the index of the object to the place, and for the root of an event its type. This
// distinguishes the object from others at the same place in other events. enter returns the
// object's type.
func (t *texts) enter(value jsontext.Value) (kind string) {
	root := len(t.place) == 0
	for walk := strictjson.Into(value); walk.Next(); {
		switch {
		case walk.Is("type"):
			kind, _ = unquote(walk.Value)
			if root { // of an event; the type of a part may occur only once
				t.place = append(append(t.place, ';'), goesOn(kind)...)
			}
		case isIndex(&walk):
			t.place = append(append(t.place, ';'), walk.Value...)
		}
	}
	return kind
}

// goesOn returns the type of the events that continue an event of that type. For example, a
// block in Anthropic's stream may begin with a text.
func goesOn(kind string) string {
	if kind == "content_block_start" {
		return "content_block_delta"
	}
	return kind
}

// nameOf returns the name of the member that continues the text of this member in later
// events.
func nameOf(member string) string {
	if member == "content_block" {
		return "delta"
	}
	return member
}

func hasIndex(value jsontext.Value) bool {
	for walk := strictjson.Into(value); walk.Next(); {
		if walk.Is("index") && walk.Value.Kind() == '0' {
			return true
		}
	}
	return false
}

func isIndex(walk *strictjson.Walk) bool {
	return walk.Value.Kind() == '0' && bytes.HasSuffix(walk.Name, []byte(`index"`))
}

func (t *texts) add(value jsontext.Value, name string) error {
	text, ok := unquote(value)
	if !ok {
		return errors.New("it contains an invalid string")
	}
	if t.request && t.allowMedia && (name == "url" || name == "image_url") && isOpaque(value) {
		return nil
	}
	return t.take(text, text != "")
}

// addNumber handles a number, true or false in a message. In place of text it is an error, because
// servers format it differently or treat a number as a token id.
func (t *texts) addNumber(value jsontext.Value, name string) error {
	switch name {
	case "content", "text", "input", "output", "value", "arguments", "refusal", "thinking", "reasoning", "reasoning_content", "summary", "name", "title", "context", "":
		return errors.New("it contains a number, true or false instead of text")
	}
	if strings.HasSuffix(name, "index") || value.Kind() != '0' {
		return nil
	}
	return t.take(string(value), true)
}

// take adds a text to its place.
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
