package modelapi

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

// chatResponse is a response, or a chunk of a stream. A choice has a message in a response, and
// a delta in a chunk.
type chatResponse struct {
	Choices []struct {
		Index        int        `json:"index"`
		Message      chatOutput `json:"message"`
		Delta        chatOutput `json:"delta"`
		FinishReason string     `json:"finish_reason"`
	} `json:"choices"`
	Usage *chatUsage     `json:"usage"`
	Error jsontext.Value `json:"error"`
}

type chatUsage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	Details          struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// chatOutput is what the model wrote. Content is a string; some compatible servers send an array of
// parts. Arguments is a string; some send the object itself.
type chatOutput struct {
	Content   jsontext.Value `json:"content"`
	Refusal   string         `json:"refusal"`
	ToolCalls []struct {
		Index    int    `json:"index"`
		ID       string `json:"id"`
		Function struct {
			Name      string         `json:"name"`
			Arguments jsontext.Value `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// endMark is the data of the last event of a stream.
const endMark = "[DONE]"

// chatReader builds a response from what the model wrote, in one piece or in many. It implements responseReader.
type chatReader struct {
	text    strings.Builder
	calls   []*partialCall
	at      map[int]*partialCall // by index in the stream
	ended   bool
	stop    string
	refused bool
	usage   *chatUsage
}

// ReadDocument implements responseReader.
func (a *chatReader) ReadDocument(content []byte) error {
	var read chatResponse
	if err := json.Unmarshal(content, &read); err != nil {
		return err
	}
	if len(read.Choices) == 0 {
		return nil
	}
	choice := &read.Choices[0]
	for i := range choice.Message.ToolCalls {
		choice.Message.ToolCalls[i].Index = i // which a response does not have
	}
	a.ended, a.stop, a.usage = true, choice.FinishReason, read.Usage
	_, err := a.add(&choice.Message)
	return err
}

// ReadEvent implements responseReader. A response is complete when a choice has a finish_reason. Usage arrives after
// that, and some servers do not send it.
func (a *chatReader) ReadEvent(data []byte) (added string, err error) {
	if string(data) == endMark {
		return "", io.EOF
	}
	var chunk chatResponse
	if err := json.Unmarshal(data, &chunk); err != nil {
		return "", err
	}
	if len(chunk.Error) > 0 && chunk.Error.Kind() != 'n' {
		return "", eventError(data)
	}
	if chunk.Usage != nil {
		a.usage = chunk.Usage
	}
	for i := range chunk.Choices {
		choice := &chunk.Choices[i]
		if choice.Index != 0 {
			continue
		}
		text, err := a.add(&choice.Delta)
		added += text
		if err != nil {
			return added, err
		}
		if choice.FinishReason != "" {
			a.ended, a.stop = true, choice.FinishReason
		}
	}
	return added, nil
}

type partialCall struct {
	id, name  string
	arguments strings.Builder
}

// add adds a piece and returns its text.
func (a *chatReader) add(piece *chatOutput) (string, error) {
	text, err := contentText(piece.Content)
	if err != nil {
		return "", err
	}
	if piece.Refusal != "" {
		a.refused = true
		text += piece.Refusal
	}
	a.text.WriteString(text)
	for i := range piece.ToolCalls {
		c := &piece.ToolCalls[i]
		arguments, err := plainText(c.Function.Arguments)
		if err != nil {
			return "", err
		}
		call, err := a.call(c.Index, c.ID)
		if err != nil {
			return "", err
		}
		call.name = cmp.Or(call.name, c.Function.Name)
		call.arguments.WriteString(arguments)
	}
	return text, nil
}

// call returns the call to which a piece belongs: that with the same index. Some compatible
// servers give all calls the same index; a new id begins a new call then.
func (a *chatReader) call(index int, id string) (*partialCall, error) {
	known := a.at[index]
	if known != nil && (id == "" || known.id == "" || known.id == id) {
		known.id = cmp.Or(known.id, id)
		return known, nil
	}
	if err := checkCalls(len(a.calls) + 1); err != nil {
		return nil, err
	}
	if a.at == nil {
		a.at = make(map[int]*partialCall)
	}
	call := &partialCall{id: id}
	a.at[index] = call
	a.calls = append(a.calls, call)
	return call, nil
}

// Response implements responseReader.
func (a *chatReader) Response() (*model.Response, error) {
	if !a.ended {
		return nil, nil
	}
	r := &model.Response{Text: a.text.String(), Stop: model.StopEnd}
	for _, call := range a.calls {
		r.Calls = append(r.Calls, model.ToolCall{ID: call.id, Name: call.name, Arguments: call.arguments.String()})
	}
	switch {
	case a.refused, a.stop == "content_filter":
		r.Stop = model.StopRefused
	case a.stop == "length":
		r.Stop = model.StopLength
	}
	if a.usage != nil {
		r.Usage = model.Usage{InputTokens: a.usage.PromptTokens, OutputTokens: a.usage.CompletionTokens, CachedTokens: a.usage.Details.CachedTokens}
	}
	return r, nil
}

// contentText returns the text of the member content.
func contentText(content jsontext.Value) (string, error) {
	if content.Kind() != '[' {
		return plainText(content)
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(content, &parts); err != nil {
		return "", err
	}
	var text strings.Builder
	for _, part := range parts {
		text.WriteString(part.Text)
	}
	return text.String(), nil
}

// plainText returns the content of a JSON string, "" for null, and the JSON of an object.
func plainText(value jsontext.Value) (text string, err error) {
	switch value.Kind() {
	case '"':
		err = json.Unmarshal(value, &text)
	case '{':
		text = string(value)
	case 'n', jsontext.KindInvalid:
	default:
		err = fmt.Errorf("expected a string, not %c", value[0])
	}
	return text, err
}
