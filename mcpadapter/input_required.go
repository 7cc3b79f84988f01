package mcpadapter

import (
	"fmt"
	"net/url"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// Requests that an API may send to the client through the gateway.
const (
	methodElicit = "elicitation/create"
	methodSample = "sampling/createMessage"
	methodRoots  = "roots/list"
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
	needs  capabilities
}

// needed returns the client capabilities that all requests need together.
func (r *inputRequired) needed() (all capabilities) {
	for i := range r.requests {
		all |= r.requests[i].needs
	}
	return all
}

// readInputRequired reads and checks a native result of the type "input_required". It copies what it
// keeps, because the result's buffer is reused while the server waits for the client.
func readInputRequired(result jsontext.Value) (*inputRequired, error) {
	asked := &inputRequired{raw: member(result, "inputRequests").Clone()}
	switch asked.raw.Kind() {
	case 0:
	case '{':
	default:
		return nil, fmt.Errorf("inputRequests must be an object, not %s", wire.KindName(asked.raw.Kind()))
	}
	for walk := wire.Into(asked.raw); walk.Next(); {
		if len(asked.requests) == maxInputRequests {
			return nil, fmt.Errorf("inputRequests asks for more than %d things at once", maxInputRequests)
		}
		request, err := readInputRequest(walk.Name, walk.Value)
		if err != nil {
			return nil, fmt.Errorf("inputRequests[%s]: %w", clip(string(walk.Name), maxQuoted), err)
		}
		asked.requests = append(asked.requests, request)
	}
	switch state := member(result, "requestState"); {
	case state.Kind() == '"':
		asked.state = text(state)
	case state.Kind() != 0:
		return nil, fmt.Errorf("requestState must be a string, not %s", wire.KindName(state.Kind()))
	}
	switch {
	case len(asked.state) > maxState:
		return nil, fmt.Errorf("requestState has %d bytes, and may have %d", len(asked.state), maxState)
	case len(asked.requests) == 0 && asked.state == "":
		return nil, fmt.Errorf(`a result of the type "input_required" must have inputRequests or a requestState`)
	case len(asked.requests) == 0:
		asked.raw = nil
	}
	return asked, nil
}

// readInputRequest reads and checks one request, which the API writes in the form of 2026-07-28.
func readInputRequest(key, raw jsontext.Value) (r inputRequest, err error) {
	if len(key) > maxInputKey {
		return r, fmt.Errorf("the key has more than %d bytes", maxInputKey)
	}
	if raw.Kind() != '{' {
		return r, fmt.Errorf("a request must be an object, not %s", wire.KindName(raw.Kind()))
	}
	r = inputRequest{key: key, method: text(member(raw, "method")), params: member(raw, "params")}
	if kind := r.params.Kind(); kind != '{' && (kind != 0 || r.method != methodRoots) {
		return r, fmt.Errorf("params must be an object, not %s", wire.KindName(kind))
	}
	switch r.method {
	case methodElicit:
		r.needs, err = checkElicitation(r.params)
	case methodSample:
		r.needs, err = checkSampling(r.params)
	case methodRoots:
		r.needs = canListRoots
	default:
		err = fmt.Errorf("method must be %s, %s or %s, and is %q", methodElicit, methodSample, methodRoots, clip(r.method, maxQuoted))
	}
	return r, err
}

// checkElicitation returns the client capability that the elicitation needs.
func checkElicitation(params jsontext.Value) (capabilities, error) {
	if member(params, "message").Kind() != '"' {
		return 0, fmt.Errorf("params.message must be a string")
	}
	mode := member(params, "mode")
	switch {
	case mode.Kind() == 0 || text(mode) == "form":
	case text(mode) == "url":
		if !isAbsoluteURL(text(member(params, "url"))) {
			return 0, fmt.Errorf("params.url must be an absolute URL")
		}
		return canElicitURL, nil
	default:
		return 0, fmt.Errorf(`params.mode must be "form" or "url"`)
	}
	schema := member(params, "requestedSchema")
	if schema.Kind() != '{' || text(member(schema, "type")) != "object" || member(schema, "properties").Kind() != '{' {
		return 0, fmt.Errorf(`params.requestedSchema must be an object with "type":"object" and properties`)
	}
	for walk := wire.Into(member(schema, "properties")); walk.Next(); {
		if kind := text(member(walk.Value, "type")); !slices.Contains(formTypes, kind) {
			return 0, fmt.Errorf("params.requestedSchema.properties[%s].type must be one of %q: forms are flat", clip(string(walk.Name), maxQuoted), formTypes)
		}
	}
	return canElicit, nil
}

// formTypes are the field types that a form may have. An array is a choice of several strings.
var formTypes = []string{"string", "number", "integer", "boolean", "array"}

// checkSampling returns the client capabilities that the sampling request needs.
func checkSampling(params jsontext.Value) (capabilities, error) {
	messages := member(params, "messages")
	if messages.Kind() != '[' {
		return 0, fmt.Errorf("params.messages must be an array")
	}
	if member(params, "maxTokens").Kind() != '0' {
		return 0, fmt.Errorf("params.maxTokens must be a number")
	}
	for walk := wire.Into(messages); walk.Next(); {
		role, content := text(member(walk.Value, "role")), member(walk.Value, "content").Kind()
		if role != "user" && role != "assistant" || content != '{' && content != '[' {
			return 0, fmt.Errorf(`each of params.messages must have a role, "user" or "assistant", and a content`)
		}
	}
	if hasMember(params, "tools") || hasMember(params, "toolChoice") {
		return canSample | canSampleTools, nil
	}
	return canSample, nil
}

// isAbsoluteURL reports whether text is a URL with a scheme that contains only characters that RFC
// 3986 allows.
func isAbsoluteURL(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c <= ' ' || c > '~':
			return false
		case c == '"' || c == '<' || c == '>' || c == '\\' || c == '^' || c == '`' || c == '{' || c == '|' || c == '}':
			return false
		}
	}
	u, err := url.Parse(text)
	return err == nil && u.Scheme != "" && (u.Host != "" || u.Opaque != "" || u.Path != "")
}
