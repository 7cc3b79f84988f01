package elicit

import (
	"crypto/rand"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
)

// adaptParams converts the parameters of a request from 2026-07-28 to the client's revision.
func adaptParams(r *inputRequest, v revision.Revision) (jsontext.Value, error) {
	switch {
	case r.method == MethodRoots:
		return nil, nil
	case r.method == MethodSample && v.SupportsRichSampling():
		return r.params, nil
	case r.method == MethodSample:
		return adaptSampling(r.params, v)
	case r.needs == CanElicitURL:
		return withElicitationID(r.params), nil
	case v.SupportsRichElicitation():
		return r.params, nil
	}
	return adaptForm(r.params)
}

// withElicitationID adds elicitationId, which URL elicitations require in 2025-11-25.
func withElicitationID(params jsontext.Value) jsontext.Value {
	if wire.HasMember(params, "elicitationId") {
		return params
	}
	b := append([]byte(nil), params[:len(params)-1]...) // params is never an empty object here
	return append(wire.AppendString(append(b, `,"elicitationId":`...), rand.Text()), '}')
}

// adaptForm converts a form to 2025-06-18, which has no mode and only fields with a single value.
func adaptForm(params jsontext.Value) (jsontext.Value, error) {
	schema := wire.MemberOf(params, "requestedSchema")
	b := append([]byte(`{"message":`), wire.MemberOf(params, "message")...)
	b = append(b, `,"requestedSchema":{"type":"object","properties":{`...)
	for walk := wire.Into(wire.MemberOf(schema, "properties")); walk.Next(); {
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(append(b, walk.Name...), ':')
		var ok bool
		if b, ok = appendOldField(b, walk.Value); !ok {
			return nil, fmt.Errorf("the field %s of the form is a multiple choice, which revision %v does not support", text.Cut(string(walk.Name), text.MaxQuoted), revision.V20250618)
		}
	}
	b = append(b, '}')
	if required := wire.MemberOf(schema, "required"); required.Kind() == '[' {
		b = append(append(b, `,"required":`...), required...)
	}
	return append(b, "}}"...), nil
}

// appendOldField appends a form field as 2025-06-18 defines it: the titles of choices are in
// enumNames, parallel to enum. It returns false for a multiple choice.
func appendOldField(dst []byte, field jsontext.Value) ([]byte, bool) {
	kind := wire.Text(wire.MemberOf(field, "type"))
	if kind == "array" {
		return dst, false
	}
	dst = wire.AppendString(append(dst, `{"type":`...), kind)
	for walk := wire.Into(field); walk.Next(); {
		switch {
		case walk.Is("title"), walk.Is("description"), walk.Is("enum"), walk.Is("enumNames"), walk.Is("minLength"),
			walk.Is("maxLength"), walk.Is("format"), walk.Is("minimum"), walk.Is("maximum"),
			walk.Is("default") && kind == "boolean":
			dst = append(append(append(append(dst, ','), walk.Name...), ':'), walk.Value...)
		case walk.Is("oneOf"):
			dst = append(appendEach(append(dst, `,"enum":[`...), walk.Value, "const"), ']')
			dst = append(appendEach(append(dst, `,"enumNames":[`...), walk.Value, "title"), ']')
		}
	}
	return append(dst, '}'), true
}

// appendEach appends the named member of each element, separated by commas. An element without that
// member contributes its const.
func appendEach(dst []byte, list jsontext.Value, name string) []byte {
	first := true
	for walk := wire.Into(list); walk.Next(); first = false {
		if !first {
			dst = append(dst, ',')
		}
		value := wire.MemberOf(walk.Value, name)
		if value == nil {
			value = wire.MemberOf(walk.Value, "const")
		}
		if value == nil {
			value = jsontext.Value(`""`)
		}
		dst = append(dst, value...)
	}
	return dst
}

// adaptSampling converts a sampling request to a revision before 2025-11-25, where each message has
// exactly one content part.
func adaptSampling(params jsontext.Value, v revision.Revision) (jsontext.Value, error) {
	b := []byte{'{'}
	for walk := wire.Into(params); walk.Next(); {
		switch {
		case walk.Is("messages"), walk.Is("maxTokens"), walk.Is("systemPrompt"), walk.Is("temperature"), walk.Is("stopSequences"),
			walk.Is("includeContext"), walk.Is("modelPreferences"), walk.Is("metadata"):
		default:
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(b, walk.Name...), ':')
		if !walk.Is("messages") {
			b = append(b, walk.Value...)
			continue
		}
		var err error
		if b, err = appendOldMessages(append(b, '['), walk.Value, v); err != nil {
			return nil, err
		}
		b = append(b, ']')
	}
	return append(b, '}'), nil
}

// appendOldMessages appends one message for each content part.
func appendOldMessages(dst []byte, messages jsontext.Value, v revision.Revision) ([]byte, error) {
	first := true
	blocks := content.Blocks{Version: v}
	one := func(role, part jsontext.Value) error {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(append(append(dst, `{"role":`...), role...), `,"content":`...)
		if kind := wire.Text(wire.MemberOf(part, "type")); kind != "text" && kind != "image" && (kind != "audio" || !v.SupportsAudio()) {
			return fmt.Errorf("the sampling request has content that revision %v does not support", v)
		}
		var err error
		if dst, err = blocks.AppendBlock(dst, part); err != nil {
			return fmt.Errorf("params.messages: %w", err)
		}
		dst = append(dst, '}')
		return nil
	}
	for walk := wire.Into(messages); walk.Next(); {
		role, parts := wire.MemberOf(walk.Value, "role"), wire.MemberOf(walk.Value, "content")
		if parts.Kind() == '{' {
			if err := one(role, parts); err != nil {
				return dst, err
			}
			continue
		}
		for part := wire.Into(parts); part.Next(); {
			if err := one(role, part.Value); err != nil {
				return dst, err
			}
		}
	}
	return dst, nil
}
