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

	order  []*strings.Builder
	places map[string]*strings.Builder
	place  []byte // of the value at hand
}

func newTexts(allowMedia bool) *texts {
	return &texts{allowMedia: allowMedia, places: make(map[string]*strings.Builder)}
}

// join returns the texts, each once.
func (t *texts) join() string {
	seen := make(map[string]bool, len(t.order))
	parts := make([]string, 0, len(t.order))
	for _, b := range t.order {
		text := b.String()
		if strings.TrimSpace(text) != "" && !seen[text] {
			seen[text] = true
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "\n")
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
	for walk := wire.Into(value); walk.Next(); i++ {
		t.place = append(t.place[:length], '/')
		if walk.Value.Kind() != '{' || !hasIndex(walk.Value) { // else walkObject knows it
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
	switch name {
	case "input", "arguments", "args", "parsed", "parameters":
		if !t.request { // what a model has chosen, names and all
			return t.take(string(value), len(value) > 2)
		}
	}
	length := len(t.place)
	kind := t.enter(value)
	defer func() { t.place = t.place[:length] }()
	switch {
	case t.request && kind == "tool_result" && t.skipResults:
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
				return fmt.Errorf("it has %q, which is not text", member)
			}
			continue
		}
		t.place = append(append(t.place[:inner], '/'), member...)
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
				t.place = append(append(t.place, ';'), kind...)
			}
		case isIndex(&walk):
			t.place = append(append(t.place, ';'), walk.Value...)
		}
	}
	return kind
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

// skips reports whether a member is known to say nothing.
func (t *texts) skips(name string, value jsontext.Value, kind string, depth int) bool {
	switch name {
	case "id", "object", "role", "type", "model", "index", "status", "call_id", "item_id", "tool_call_id", "tool_use_id", "response_id",
		"finish_reason", "native_finish_reason", "stop_reason", "system_fingerprint", "service_tier", "provider":
		return value.Kind() == '"' && len(value) <= maxLabel
	case "signature", "thought_signature", "encrypted_content", "obfuscation":
		return value.Kind() == '"'
	case "usage", "logprobs", "cache_control", "content_filter_results", "prompt_filter_results":
		return true
	case "data":
		return kind == "redacted_thinking"
	}
	if !t.responses || depth > 1 || depth == 1 && !isResponse(t.place) {
		return false
	}
	switch name { // what the request has said
	case "instructions", "tools", "tool_choice", "metadata", "text", "reasoning", "prompt", "prompt_cache_key", "user", "safety_identifier",
		"previous_response_id", "truncation", "conversation", "input":
		return depth == 1 || kind == ""
	}
	return false
}

// maxLabel is the longest string, quotes included, that can be a label.
const maxLabel = 256

// isResponse reports whether the place is that of the whole response in an event.
func isResponse(place []byte) bool {
	return bytes.Contains(place, []byte("/response")) && bytes.Count(place, []byte("/")) == 1
}

// isMediaPart reports whether a part of a message of that type is no text.
func isMediaPart(kind string) bool {
	switch kind {
	case "", "text", "input_text", "output_text", "message", "tool_result", "refusal", "ephemeral":
		return false
	}
	return true
}

// isMediaName reports whether a part that has this member, and no type, is no text.
func isMediaName(name string) bool {
	switch name {
	case "image_url", "input_image", "image", "image_embeds", "input_audio", "audio_url", "audio", "video_url", "video", "file", "source", "inline_data":
		return true
	}
	return false
}

// isMedia reports whether a string is an image, sound or a file.
func isMedia(name, kind string, value jsontext.Value) bool {
	if value.Kind() != '"' {
		return false
	}
	switch {
	case name == "data", name == "file_data":
		return kind != "text"
	case name == "file_id", name == "file_url":
		return true
	case strings.Contains(name, "b64"), name == "result" && kind == "image_generation_call":
		return true
	}
	return bytes.HasPrefix(value, []byte(`"data:`)) && bytes.Contains(value[:min(len(value), 200)], []byte(";base64,"))
}

func (t *texts) add(value jsontext.Value, name string) error {
	text, ok := unquote(value)
	if !ok {
		return errors.New("it has a string that cannot be read")
	}
	if t.request && t.allowMedia && (name == "url" || name == "image_url") {
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
		b = new(strings.Builder)
		t.places[string(t.place)] = b
		t.order = append(t.order, b)
	}
	b.WriteString(text)
	return nil
}
