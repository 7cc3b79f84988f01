package mcpadapter

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// askClient sends the API's requests one after the other to a client of a revision before
// 2026-07-28. It returns the results in a JSON object with the keys of the requests. If there are no
// results, the reply has a Failure with the reason.
func (x *exchange) askClient(t *tool.Tool, requests []inputRequest) (jsontext.Value, reply) {
	able := x.supportedRequests()
	for i := range requests {
		if lacking := requests[i].needs &^ able; lacking != 0 {
			return nil, failed(t, tool.Unanswered, x.unsupportedMessage(t, lacking))
		}
	}
	responses := []byte{'{'}
	for i := range requests {
		r := &requests[i]
		params, err := x.adaptParams(r)
		if err != nil {
			return nil, failed(t, tool.Unanswered, fmt.Sprintf("%s was not called to an end: %v", t.Name, err))
		}
		result, err := x.ask(r.method, params)
		if err != nil {
			return nil, failed(t, tool.Unanswered, fmt.Sprintf("%s was not called to an end: %s", t.Name, noResponseMessage(r.method, err)))
		}
		if result.Kind() != '{' {
			return nil, failed(t, tool.Unanswered, fmt.Sprintf("%s was not called to an end: the client answered %s with %s, and not with an object",
				t.Name, r.method, wire.KindName(result.Kind())))
		}
		if i > 0 {
			responses = append(responses, ',')
		}
		responses = append(append(append(responses, r.key...), ':'), result...)
	}
	if len(requests) == 0 {
		return nil, reply{}
	}
	return append(responses, '}'), reply{}
}

// unsupportedMessage returns the failure message for capabilities that the client lacks.
func (x *exchange) unsupportedMessage(tool *tool.Tool, lacking capabilities) string {
	if !x.version.Stateless() && !x.canAsk() {
		return fmt.Sprintf("%s needs answers of the client (%s), and %v: open a session with initialize, and accept text/event-stream", tool.Name, lacking, errCannotAsk)
	}
	return fmt.Sprintf("%s needs a client that can be asked (%s), and this one has not declared that it can in revision %v", tool.Name, lacking, x.version)
}

// String lists the capabilities for error messages.
func (c capabilities) String() string {
	var names []string
	for _, named := range []struct {
		bit  capabilities
		name string
	}{
		{canSample, "sampling"},
		{canSampleTools, "sampling.tools"},
		{canElicit, "elicitation.form"},
		{canElicitURL, "elicitation.url"},
		{canListRoots, "roots"},
	} {
		if c.has(named.bit) {
			names = append(names, named.name)
		}
	}
	return strings.Join(names, ", ")
}

// maxRefusal is how many bytes of a client's error message are passed on.
const maxRefusal = 1 << 10

// noResponseMessage returns the failure message for a request without a result.
func noResponseMessage(method string, err error) string {
	if refused, ok := errors.AsType[*clientError](err); ok {
		return fmt.Sprintf("the client refused %s: %s", method, text.Cut(wire.Text(wire.MemberOf(refused.failure, "message")), maxRefusal))
	}
	return fmt.Sprintf("the client was asked with %s, and there is no answer: %v", method, err)
}

// adaptParams converts the parameters of a request from 2026-07-28 to the client's revision.
func (x *exchange) adaptParams(r *inputRequest) (jsontext.Value, error) {
	switch {
	case r.method == methodRoots:
		return nil, nil
	case r.method == methodSample && x.version.SupportsRichSampling():
		return r.params, nil
	case r.method == methodSample:
		return x.adaptSampling(r.params)
	case r.needs == canElicitURL:
		return withElicitationID(r.params), nil
	case x.version.SupportsRichElicitation():
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
			return nil, fmt.Errorf("the field %s of its form is a choice of several, which revision %v does not have", text.Cut(string(walk.Name), text.MaxQuoted), revision.V20250618)
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
func (x *exchange) adaptSampling(params jsontext.Value) (jsontext.Value, error) {
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
		if b, err = x.appendOldMessages(append(b, '['), walk.Value); err != nil {
			return nil, err
		}
		b = append(b, ']')
	}
	return append(b, '}'), nil
}

// appendOldMessages appends one message for each content part.
func (x *exchange) appendOldMessages(dst []byte, messages jsontext.Value) ([]byte, error) {
	first := true
	one := func(role, content jsontext.Value) error {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(append(append(dst, `{"role":`...), role...), `,"content":`...)
		if kind := wire.Text(wire.MemberOf(content, "type")); kind != "text" && kind != "image" && (kind != "audio" || !x.version.SupportsAudio()) {
			return fmt.Errorf("it asks a model with content that revision %v does not have", x.version)
		}
		var err error
		if dst, err = x.blocks().AppendBlock(dst, content); err != nil {
			return fmt.Errorf("params.messages: %w", err)
		}
		dst = append(dst, '}')
		return nil
	}
	for walk := wire.Into(messages); walk.Next(); {
		role, content := wire.MemberOf(walk.Value, "role"), wire.MemberOf(walk.Value, "content")
		if content.Kind() == '{' {
			if err := one(role, content); err != nil {
				return dst, err
			}
			continue
		}
		for part := wire.Into(content); part.Next(); {
			if err := one(role, part.Value); err != nil {
				return dst, err
			}
		}
	}
	return dst, nil
}
