package openai

import (
	"bytes"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/fairwayhq/fairway/oagent/model"
	"github.com/fairwayhq/fairway/oagent/model/internal/httpapi"
)

// endMark is the data of the last event.
var endMark = []byte("[DONE]")

// readStream reads a streamed response. It is complete when a choice has a finish_reason. Usage
// arrives after that, and some servers do not send it.
func readStream(call *httpapi.Call, res *http.Response, onText func(string)) (*model.Response, error) {
	events := ssestream.NewDecoder(res)
	var a assembly
	for events.Next() {
		data := bytes.TrimSpace(events.Event().Data)
		if bytes.Equal(data, endMark) {
			break
		}
		if len(data) == 0 {
			continue
		}
		var chunk chatResponse
		if err := json.Unmarshal(data, &chunk); err != nil {
			return nil, err
		}
		if len(chunk.Error) > 0 && chunk.Error.Kind() != 'n' {
			return nil, call.StreamError(data)
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
			if err != nil {
				return nil, err
			}
			if text != "" && onText != nil {
				onText(text)
			}
			if choice.FinishReason != "" {
				a.stop = choice.FinishReason
			}
		}
	}
	if a.stop == "" {
		if err := events.Err(); err != nil {
			return nil, err
		}
		return nil, call.Incomplete()
	}
	return a.response(), nil
}
