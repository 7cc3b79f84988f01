package chat

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// use is the purpose of a member of a request.
type use uint8

// Uses. An unknown member is extracted like user input, because a server might pass it to the
// model.
const (
	isUnknown      use = iota
	isConversation     // the messages
	isPrompt           // user input outside the messages
	isInstruction      // a system message outside the messages
	isProgram          // written by the program: extracted like a system message
	isPrediction       // predicted output: extracted like a message of the model
	isSetting          // a setting that this package reads
)

// uses lists the members of the APIs and of compatible servers.
var uses = [...]struct {
	use   use
	names []string
}{
	{isConversation, []string{"messages", "input"}},
	{isPrompt, []string{"prompt"}},
	{isSetting, []string{"stream", "background"}},
	{isInstruction, []string{"system", "instructions"}},
	{isPrediction, []string{"prediction"}},
	{isProgram, []string{
		"tools", "functions", "tool_choice", "function_call", "response_format", "text", "output_config", "output_format",
		"web_search_options", "mcp_servers", "context_management", "container", "skills",
		"guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs", "json_schema", "grammar", "regex", "ebnf", "format",
		"model", "models", "stream_options", "n", "temperature", "top_p", "top_k", "min_p", "max_tokens", "max_completion_tokens", "max_output_tokens",
		"stop", "stop_sequences", "stop_token_ids", "presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias", "logprobs", "top_logprobs",
		"user", "metadata", "seed", "service_tier", "store", "parallel_tool_calls", "reasoning_effort", "verbosity", "modalities", "audio",
		"prompt_cache_key", "prompt_cache_retention", "safety_identifier", "include", "truncation", "previous_response_id", "conversation",
		"thinking", "reasoning", "max_tool_calls", "inference_geo", "keep_alive", "provider", "route",
	}},
}

// useOf returns the use of a member of a request. A name that differs from a known one only in
// case is an error, as in exactName.
func useOf(walk *strictjson.Walk) (name string, of use, err error) {
	name, _ = unquote(walk.Name)
	for i := range uses {
		if slices.Contains(uses[i].names, name) {
			return name, uses[i].use, nil
		}
	}
	for i := range uses {
		for _, known := range uses[i].names {
			if strings.EqualFold(name, known) {
				return "", 0, fmt.Errorf("the member %.64q must be written %q", name, known)
			}
		}
	}
	return name, isUnknown, nil
}

// addPrompt adds the text of the user or the system that is outside the messages.
func (r *requestReader) addPrompt(value jsontext.Value) error {
	if hasNumbers(value) {
		return errors.New("the request contains tokens instead of text, which a guardrail cannot check")
	}
	t := r.newTexts(false)
	err := r.gather(t, value, "")
	if text := t.join(); text != "" {
		r.beside = append(r.beside, text)
	}
	return err
}

// addBeside adds a member that is not a message. It adds the JSON as written, because the
// model may also see the names in it.
func (r *requestReader) addBeside(name string, of use, value jsontext.Value) error {
	switch {
	case of == isProgram && !r.isUsersRole("system"), of == isPrediction && !r.isUsersRole("assistant"):
		return nil
	case of == isUnknown && hasNumbers(value):
		return &Fault{Status: http.StatusForbidden, Code: CodeUnchecked, Message: fmt.Sprintf(
			"the guardrail cannot check the member %.64q: it contains numbers that may represent text", name)}
	}
	if of == isUnknown {
		r.beside = append(r.beside, name)
	}
	t := newTexts(true)
	var err error
	switch value.Kind() {
	case '"':
		err = t.add(value, name)
	case '{', '[':
		err = t.take(string(value), len(value) > len("{}"))
	default:
		return nil
	}
	if text := t.join(); text != "" {
		r.beside = append(r.beside, text)
	}
	return err
}

// hasNumbers reports whether a value is an array of numbers.
func hasNumbers(value jsontext.Value) bool {
	if value.Kind() != '[' {
		return false
	}
	for walk := strictjson.Into(value); walk.Next(); {
		if kind := walk.Value.Kind(); kind == '0' || hasNumbers(walk.Value) {
			return true
		}
	}
	return false
}
