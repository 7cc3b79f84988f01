package elicit

import (
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools/schema"
)

// adaptParams converts the parameters of a request from 2026-07-28 to the client's revision.
func adaptParams(r *inputRequest, v protocol.Revision) (jsontext.Value, error) {
	switch {
	case r.method == MethodRoots:
		return nil, nil
	case r.method == MethodSample && v.SupportsRichSampling():
		return r.params, nil
	case r.method == MethodSample:
		return adaptSampling(r.params, v)
	case r.needs == protocol.CanElicitURL:
		return withElicitationID(r.params), nil
	case v.SupportsRichElicitation():
		return r.params, nil
	}
	return adaptForm(r.params)
}

// withElicitationID adds elicitationId, which URL elicitations require in 2025-11-25.
func withElicitationID(params jsontext.Value) jsontext.Value {
	if strictjson.HasMember(params, "elicitationId") {
		return params
	}
	b := append([]byte(nil), params[:len(params)-1]...) // params is never an empty object here
	return append(strictjson.AppendString(append(b, `,"elicitationId":`...), rand.Text()), '}')
}

// adaptForm converts a form to 2025-06-18, which has no mode and only fields with a single value.
func adaptForm(params jsontext.Value) (jsontext.Value, error) {
	form, _ := schema.Parse(strictjson.MemberOf(params, "requestedSchema"))
	var fields, whole strictjson.ObjectBuilder
	for _, p := range form.Parts("properties") {
		if strictjson.Text(p.Value("type")) == "array" {
			return nil, fmt.Errorf("the field %q of the form is a multiple choice, which revision %v does not support", text.Cut(p.Name, text.MaxQuoted), protocol.V20250618)
		}
		fields.Add(p.Name, oldField(p.Tree))
	}
	whole.Add("type", []byte(`"object"`))
	whole.Add("properties", fields.Close())
	if required := form.Value("required"); required.Kind() == '[' {
		whole.Add("required", required)
	}
	var adapted strictjson.ObjectBuilder
	adapted.Add("message", strictjson.MemberOf(params, "message"))
	adapted.Add("requestedSchema", whole.Close())
	return adapted.Close(), nil
}

// oldField returns a form field as 2025-06-18 defines it: the titles of choices are in enumNames, parallel to enum.
func oldField(t *schema.Tree) []byte {
	var field strictjson.ObjectBuilder
	kind := strictjson.Text(t.Value("type"))
	field.Add("type", strictjson.AppendString(nil, kind))
	for _, k := range t.Keywords {
		switch k.Name {
		case "default":
			if kind == "boolean" {
				field.Add(k.Name, k.Value)
			}
		case "title", "description", "enum", "enumNames", "minLength", "maxLength", "format", "minimum", "maximum":
			field.Add(k.Name, k.Value)
		case "oneOf":
			field.Add("enum", append(appendEach([]byte{'['}, k.Value, "const"), ']'))
			field.Add("enumNames", append(appendEach([]byte{'['}, k.Value, "title"), ']'))
		}
	}
	return field.Close()
}

// appendEach appends the named member of each element, separated by commas. An element without that
// member contributes its const.
func appendEach(dst []byte, list jsontext.Value, name string) []byte {
	for walk := strictjson.Into(list); walk.Next(); {
		value := strictjson.MemberOf(walk.Value, name)
		if value == nil {
			value = strictjson.MemberOf(walk.Value, "const")
		}
		if value == nil {
			value = jsontext.Value(`""`)
		}
		dst = append(strictjson.Comma(dst), value...)
	}
	return dst
}

// adaptSampling converts a sampling request to a revision before 2025-11-25, where each message has
// exactly one content part.
func adaptSampling(params jsontext.Value, v protocol.Revision) (jsontext.Value, error) {
	var adapted strictjson.ObjectBuilder
	for walk := strictjson.Into(params); walk.Next(); {
		switch {
		case walk.Is("messages"):
			messages, err := appendOldMessages([]byte{'['}, walk.Value, v)
			if err != nil {
				return nil, err
			}
			adapted.Add("messages", append(messages, ']'))
		case walk.Is("maxTokens"), walk.Is("systemPrompt"), walk.Is("temperature"), walk.Is("stopSequences"),
			walk.Is("includeContext"), walk.Is("modelPreferences"), walk.Is("metadata"):
			adapted.Add(strictjson.Text(walk.Name), walk.Value)
		}
	}
	return adapted.Close(), nil
}

// appendOldMessages appends one message for each content part.
func appendOldMessages(dst []byte, messages jsontext.Value, v protocol.Revision) (_ []byte, err error) {
	blocks := content.Blocks{Version: v}
	for walk := strictjson.Into(messages); walk.Next(); {
		role, parts := strictjson.MemberOf(walk.Value, "role"), strictjson.MemberOf(walk.Value, "content")
		if parts.Kind() == '{' {
			parts = slices.Concat(jsontext.Value{'['}, parts, jsontext.Value{']'})
		}
		for part := strictjson.Into(parts); part.Next(); {
			if kind := strictjson.Text(strictjson.MemberOf(part.Value, "type")); kind != "text" && kind != "image" && (kind != "audio" || !v.SupportsAudio()) {
				return dst, fmt.Errorf("the sampling request has content that revision %v does not support", v)
			}
			dst = append(append(append(strictjson.Comma(dst), `{"role":`...), role...), `,"content":`...)
			if dst, err = blocks.AppendBlock(dst, part.Value); err != nil {
				return dst, fmt.Errorf("params.messages: %w", err)
			}
			dst = append(dst, '}')
		}
	}
	return dst, nil
}
