package modelserver

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// responses is the format of OpenAI's Responses API.
type responses struct{}

// encrypted is the content of a reasoning item.
const encrypted = "ZW5jcnlwdGVk"

func (responses) read(r *Request) error {
	var body struct {
		Model           string `json:"model"`
		Instructions    string `json:"instructions"`
		Store           bool   `json:"store"`
		Stream          bool   `json:"stream"`
		MaxOutputTokens int    `json:"max_output_tokens"`
		Input           []struct {
			Type      string         `json:"type"`
			Role      string         `json:"role"`
			Content   string         `json:"content"`
			CallID    string         `json:"call_id"`
			Name      string         `json:"name"`
			Arguments string         `json:"arguments"`
			Output    string         `json:"output"`
			ID        string         `json:"id"`
			Summary   jsontext.Value `json:"summary"`
			Encrypted string         `json:"encrypted_content"`
		} `json:"input"`
		Tools []struct {
			Type        string         `json:"type"`
			Name        string         `json:"name"`
			Description string         `json:"description"`
			Parameters  jsontext.Value `json:"parameters"`
			Strict      *bool          `json:"strict"`
		} `json:"tools"`
		Temperature *float64 `json:"temperature"`
		Reasoning   struct {
			Effort string `json:"effort"`
		} `json:"reasoning"`
		Include []string `json:"include"`
	}
	if err := json.Unmarshal(r.Body, &body, json.RejectUnknownMembers(true)); err != nil {
		return err
	}
	r.Model, r.Stream, r.MaxTokens, r.System = body.Model, body.Stream, body.MaxOutputTokens, body.Instructions
	r.Temperature, r.Effort = body.Temperature, body.Reasoning.Effort
	for _, item := range body.Input {
		switch item.Type {
		case "message":
			r.Messages = append(r.Messages, Message{Role: item.Role, Text: item.Content})
		case "function_call":
			call := Call{ID: item.CallID, Name: item.Name, Arguments: item.Arguments}
			if n := len(r.Messages); n > 0 && r.Messages[n-1].Role == "assistant" {
				r.Messages[n-1].Calls = append(r.Messages[n-1].Calls, call)
			} else {
				r.Messages = append(r.Messages, Message{Role: "assistant", Calls: []Call{call}})
			}
		case "function_call_output":
			r.Messages = append(r.Messages, Message{Role: "tool", Text: item.Output, CallID: item.CallID})
		case "reasoning":
			if item.Encrypted != encrypted {
				return errors.New("the encrypted content could not be verified")
			}
		default:
			return errors.New("unknown type of item: " + item.Type)
		}
	}
	for _, t := range body.Tools {
		if t.Type != "function" || t.Strict == nil || *t.Strict {
			return errors.New("a tool is not a function, or strict")
		}
		r.Tools = append(r.Tools, Tool{Name: t.Name, Description: t.Description, Schema: t.Parameters})
	}
	if r.Model == "" || len(r.Messages) == 0 || body.Store {
		return errors.New("model and input are required, and nothing is stored")
	}
	return nil
}

func (responses) errorOf(step *Step) object {
	return object{"message": step.Error, "type": "api_error", "code": step.ErrorCode}
}

func (f responses) writeError(w io.Writer, step *Step) {
	_, _ = io.WriteString(w, encode(object{"error": f.errorOf(step)}))
}

// response returns the response of a step, whose text is given.
func (f responses) response(r *Request, step *Step, text string) object {
	output := []object{}
	if step.Thinking != "" {
		output = append(output, object{"type": "reasoning", "id": "rs_1", "summary": []object{}, "encrypted_content": encrypted})
	}
	if text != "" {
		part := object{"type": "output_text", "text": text, "annotations": []object{}}
		if step.Stop == "refusal" {
			part = object{"type": "refusal", "refusal": text}
		}
		output = append(output, object{"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": []object{part}})
	}
	for i, call := range step.Calls {
		output = append(output, object{
			"type": "function_call", "id": fmt.Sprint("fc_", i), "call_id": call.ID, "name": call.Name, "arguments": call.Arguments, "status": "completed",
		})
	}
	response := object{
		"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "error": nil, "incomplete_details": nil,
		"model": r.Model, "output": output, "usage": nil,
	}
	if reason := step.Stop; reason == "max_output_tokens" || reason == "content_filter" {
		response["status"], response["incomplete_details"] = "incomplete", object{"reason": reason}
	}
	if !step.NoUsage {
		response["usage"] = object{
			"input_tokens": step.InputTokens, "output_tokens": step.OutputTokens, "total_tokens": step.InputTokens + step.OutputTokens,
			"input_tokens_details": object{"cached_tokens": step.InputTokens / 2}, "output_tokens_details": object{"reasoning_tokens": 0},
		}
	}
	return response
}

func (f responses) writeDocument(w io.Writer, r *Request, step *Step) {
	text := step.Text
	if step.Padding > 0 {
		text += paddingMark
	}
	writePadded(w, encode(f.response(r, step, text)), step.Padding)
}

func (f responses) writeStream(w *eventWriter, r *Request, step *Step) {
	event := func(kind string, members object) {
		members["type"] = kind
		w.event(kind, members)
	}
	event("response.created", object{"response": object{"id": "resp_1", "status": "in_progress", "output": []object{}}})
	delta := "response.output_text.delta"
	if step.Stop == "refusal" {
		delta = "response.refusal.delta"
	}
	w.texts(step, func(piece string) {
		event(delta, object{"item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": piece})
	})
	if step.FailMidStream {
		event("response.failed", object{"response": object{"id": "resp_1", "status": "failed", "error": object{"code": step.ErrorCode, "message": step.Error}}})
		return
	}
	if !wait(w.ctx, step.WaitMidStream) {
		return
	}
	for i, call := range step.Calls {
		for _, piece := range pieces(call.Arguments, step.Pieces) {
			event("response.function_call_arguments.delta", object{"item_id": fmt.Sprint("fc_", i), "output_index": i, "delta": piece})
		}
	}
	response := f.response(r, step, step.Text)
	event("response."+response["status"].(string), object{"response": response})
}
