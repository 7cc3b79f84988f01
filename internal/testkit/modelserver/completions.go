package modelserver

import (
	"errors"
	"io"
	"maps"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// object is a JSON object to be written.
type object = map[string]any

// completions is the format of OpenAI's chat completions.
type completions struct{}

func (completions) read(r *Request) error {
	var body struct {
		Model               string `json:"model"`
		Stream              bool   `json:"stream"`
		MaxTokens           int    `json:"max_tokens"`
		MaxCompletionTokens int    `json:"max_completion_tokens"`
		Messages            []struct {
			Role       string `json:"role"`
			Content    string `json:"content"`
			ToolCallID string `json:"tool_call_id"`
			ToolCalls  []struct {
				ID       string `json:"id"`
				Type     string `json:"type"`
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"messages"`
		Tools []struct {
			Type     string `json:"type"`
			Function struct {
				Name        string         `json:"name"`
				Description string         `json:"description"`
				Parameters  jsontext.Value `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
		StreamOptions object `json:"stream_options"`
	}
	if err := json.Unmarshal(r.Body, &body, json.RejectUnknownMembers(true)); err != nil {
		return err
	}
	r.Model, r.Stream, r.MaxTokens = body.Model, body.Stream, max(body.MaxTokens, body.MaxCompletionTokens)
	for _, m := range body.Messages {
		if m.Role == "system" {
			r.System = m.Content
			continue
		}
		message := Message{Role: m.Role, Text: m.Content, CallID: m.ToolCallID}
		for _, c := range m.ToolCalls {
			if c.Type != "function" {
				return errors.New("a tool call is not a function")
			}
			message.Calls = append(message.Calls, Call{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
		}
		r.Messages = append(r.Messages, message)
	}
	for _, t := range body.Tools {
		if t.Type != "function" {
			return errors.New("a tool is not a function")
		}
		r.Tools = append(r.Tools, Tool{Name: t.Function.Name, Description: t.Function.Description, Schema: t.Function.Parameters})
	}
	if r.Model == "" || len(r.Messages) == 0 {
		return errors.New("model and messages are required")
	}
	return nil
}

func (completions) errorOf(step *Step) object {
	return object{"error": object{"message": step.Error, "type": "api_error", "code": step.ErrorCode}}
}

func (c completions) writeError(w io.Writer, step *Step) {
	_, _ = io.WriteString(w, encode(c.errorOf(step)))
}

func (completions) stop(step *Step) string {
	return step.stop("tool_calls", "stop")
}

// usage returns the usage. A part of the input was in the cache.
func (completions) usage(step *Step) object {
	return object{
		"prompt_tokens": step.InputTokens, "completion_tokens": step.OutputTokens,
		"total_tokens": step.InputTokens + step.OutputTokens, "prompt_tokens_details": object{"cached_tokens": step.InputTokens / 2},
	}
}

func (c completions) writeDocument(w io.Writer, r *Request, step *Step) {
	message := object{"role": "assistant", "content": step.Text + paddingMark, "refusal": nil}
	if len(step.Calls) > 0 {
		calls := make([]object, len(step.Calls))
		for i, call := range step.Calls {
			calls[i] = object{"id": call.ID, "type": "function", "function": object{"name": call.Name, "arguments": call.Arguments}}
		}
		message["tool_calls"] = calls
	}
	response := object{
		"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": r.Model,
		"choices": []object{{"index": 0, "message": message, "finish_reason": c.stop(step)}},
	}
	if !step.NoUsage {
		response["usage"] = c.usage(step)
	}
	writePadded(w, encode(response), step.Padding)
}

func (c completions) writeStream(w *eventWriter, r *Request, step *Step) {
	chunk := func(members object) {
		event := object{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": r.Model}
		maps.Copy(event, members)
		w.event("", event)
	}
	delta := func(d object) {
		chunk(object{"choices": []object{{"index": 0, "delta": d, "finish_reason": nil}}})
	}
	w.raw(": a comment\n\n")
	delta(object{"role": "assistant", "content": ""})
	w.texts(step, func(piece string) { delta(object{"content": piece}) })
	if step.FailMidStream {
		w.event("", c.errorOf(step))
		return
	}
	if !wait(w.ctx, step.WaitMidStream) {
		return
	}
	for i, call := range step.Calls {
		delta(object{"tool_calls": []object{{
			"index": i, "id": call.ID, "type": "function", "function": object{"name": call.Name, "arguments": ""},
		}}})
	}
	for i, call := range step.Calls {
		for _, piece := range pieces(call.Arguments, step.Pieces) {
			delta(object{"tool_calls": []object{{"index": i, "function": object{"arguments": piece}}}})
		}
	}
	chunk(object{"choices": []object{{"index": 0, "delta": object{}, "finish_reason": c.stop(step)}}})
	if !step.NoUsage {
		chunk(object{"choices": []object{}, "usage": c.usage(step)})
	}
	w.raw("data: [DONE]\n\n")
}
