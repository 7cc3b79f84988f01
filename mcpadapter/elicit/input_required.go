package elicit

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools/schema"
)

// Requests that an API may send to the client through the gateway.
const (
	MethodElicit = "elicitation/create"
	MethodSample = "sampling/createMessage"
	MethodRoots  = "roots/list"
)

const (
	// maxInputRequests is the maximum number of requests to the client in one result.
	maxInputRequests = 16

	// maxInputKey is the maximum length of a request's key, in bytes.
	maxInputKey = 256
)

// An inputRequired is an MCP result of the type "input_required": the API needs responses from the
// client before it returns the final result (MCP 2026-07-28, Multi Round-Trip Requests).
type inputRequired struct {
	raw      jsontext.Value // inputRequests as the API wrote them; nil if absent
	requests []inputRequest
	state    string // requestState, which the API gets back with the responses; "" if absent
}

// An inputRequest is one request to the client: an elicitation, a sampling request or roots/list.
type inputRequest struct {
	key    jsontext.Value // JSON string, with quotes
	method string
	params jsontext.Value // JSON object, or nil
	needs  protocol.Capabilities
}

// neededFor returns the client capabilities that all requests need together.
func neededFor(requests []inputRequest) (all protocol.Capabilities) {
	for i := range requests {
		all |= requests[i].needs
	}
	return all
}

// readInputRequired reads and checks a native result of the type "input_required". It copies what it
// keeps, because the result's buffer is reused while the server waits for the client.
func readInputRequired(result jsontext.Value) (*inputRequired, error) {
	asked := &inputRequired{raw: strictjson.MemberOf(result, "inputRequests").Clone()}
	if kind := asked.raw.Kind(); kind != 0 && kind != '{' {
		return nil, fmt.Errorf("inputRequests must be an object, not %s", strictjson.KindName(kind))
	}
	var err error
	if asked.requests, err = readInputRequests(asked.raw); err != nil {
		return nil, err
	}
	state := strictjson.MemberOf(result, "requestState")
	asked.state = strictjson.Text(state)
	switch kind := state.Kind(); {
	case kind != 0 && kind != '"':
		return nil, fmt.Errorf("requestState must be a string, not %s", strictjson.KindName(kind))
	case len(asked.state) > MaxState:
		return nil, fmt.Errorf("requestState has %d bytes, more than the limit of %d", len(asked.state), MaxState)
	case len(asked.requests) == 0 && asked.state == "":
		return nil, fmt.Errorf(`a result of the type "input_required" must have inputRequests or a requestState`)
	case len(asked.requests) == 0:
		asked.raw = nil
	}
	return asked, nil
}

// readInputRequests reads and checks the requests of a result.
func readInputRequests(raw jsontext.Value) (all []inputRequest, err error) {
	for walk := strictjson.Into(raw); walk.Next(); {
		if len(all) == maxInputRequests {
			return nil, fmt.Errorf("inputRequests has more than %d requests", maxInputRequests)
		}
		request, err := readInputRequest(walk.Name, walk.Value)
		if err != nil {
			return nil, fmt.Errorf("inputRequests[%s]: %w", text.Cut(string(walk.Name), text.MaxQuoted), err)
		}
		all = append(all, request)
	}
	return all, nil
}

// readInputRequest reads and checks one request, which the API writes in the form of 2026-07-28.
func readInputRequest(key, raw jsontext.Value) (r inputRequest, err error) {
	if len(key) > maxInputKey {
		return r, fmt.Errorf("the key is longer than %d bytes", maxInputKey)
	}
	if raw.Kind() != '{' {
		return r, fmt.Errorf("a request must be an object, not %s", strictjson.KindName(raw.Kind()))
	}
	r = inputRequest{key: key, method: strictjson.Text(strictjson.MemberOf(raw, "method")), params: strictjson.MemberOf(raw, "params")}
	if kind := r.params.Kind(); kind != '{' && (kind != 0 || r.method != MethodRoots) {
		return r, fmt.Errorf("params must be an object, not %s", strictjson.KindName(kind))
	}
	switch r.method {
	case MethodElicit:
		r.needs, err = checkElicitation(r.params)
	case MethodSample:
		r.needs, err = checkSampling(r.params)
	case MethodRoots:
		r.needs = protocol.CanListRoots
	default:
		err = fmt.Errorf("method must be %s, %s or %s, not %q", MethodElicit, MethodSample, MethodRoots, text.Cut(r.method, text.MaxQuoted))
	}
	return r, err
}

// checkElicitation returns the client capability that the elicitation needs.
func checkElicitation(params jsontext.Value) (protocol.Capabilities, error) {
	if strictjson.MemberOf(params, "message").Kind() != '"' {
		return 0, fmt.Errorf("params.message must be a string")
	}
	mode := strictjson.MemberOf(params, "mode")
	switch {
	case mode.Kind() == 0 || strictjson.Text(mode) == "form":
	case strictjson.Text(mode) == "url":
		if !content.IsAbsoluteURL(strictjson.Text(strictjson.MemberOf(params, "url"))) {
			return 0, fmt.Errorf("params.url must be an absolute URL")
		}
		return protocol.CanElicitURL, nil
	default:
		return 0, fmt.Errorf(`params.mode must be "form" or "url"`)
	}
	form, _ := schema.Parse(strictjson.MemberOf(params, "requestedSchema"))
	if strictjson.Text(form.Value("type")) != "object" || form.Value("properties").Kind() != '{' {
		return 0, fmt.Errorf(`params.requestedSchema must be an object with "type":"object" and properties`)
	}
	for _, p := range form.Parts("properties") {
		if kind := strictjson.Text(p.Value("type")); !slices.Contains(formTypes, kind) {
			return 0, fmt.Errorf("params.requestedSchema.properties[%q].type must be one of %q, because forms are flat", text.Cut(p.Name, text.MaxQuoted), formTypes)
		}
	}
	return protocol.CanElicit, nil
}

// formTypes are the field types that a form may have. An array is a choice of several strings.
var formTypes = []string{"string", "number", "integer", "boolean", "array"}

// checkSampling returns the client capabilities that the sampling request needs.
func checkSampling(params jsontext.Value) (protocol.Capabilities, error) {
	messages := strictjson.MemberOf(params, "messages")
	if messages.Kind() != '[' {
		return 0, fmt.Errorf("params.messages must be an array")
	}
	if strictjson.MemberOf(params, "maxTokens").Kind() != '0' {
		return 0, fmt.Errorf("params.maxTokens must be a number")
	}
	for walk := strictjson.Into(messages); walk.Next(); {
		role, blocks := strictjson.Text(strictjson.MemberOf(walk.Value, "role")), strictjson.MemberOf(walk.Value, "content").Kind()
		if role != "user" && role != "assistant" || blocks != '{' && blocks != '[' {
			return 0, fmt.Errorf(`every item of params.messages must have content and the role "user" or "assistant"`)
		}
	}
	if strictjson.HasMember(params, "tools") || strictjson.HasMember(params, "toolChoice") {
		return protocol.CanSample | protocol.CanSampleTools, nil
	}
	return protocol.CanSample, nil
}
