package modelapi

import (
	"testing"

	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

// FuzzReadStream reads the events of streams, which come from outside: it must not panic, and what it reports while
// it reads is the text of the response.
func FuzzReadStream(f *testing.F) {
	f.Add(`{"choices":[{"delta":{"content":"a","tool_calls":[{"index":7,"id":"1","function":{"name":"f"}}]}}]}`,
		`{"choices":[{"delta":{"refusal":"b"},"finish_reason":"stop"}]}`)
	f.Add(`{"error":{"code":429}}`, "[DONE]")
	f.Fuzz(func(t *testing.T, first, second string) {
		var a chatReader
		reported := ""
		for _, data := range []string{first, second} {
			text, err := a.ReadEvent([]byte(data))
			reported += text
			if err != nil {
				return
			}
		}
		response, err := a.Response()
		switch {
		case err != nil || response == nil:
		case reported != response.Text:
			t.Errorf("reported %q, returned %q", reported, response.Text)
		case len(response.Calls) > model.MaxCalls:
			t.Errorf("got %d calls", len(response.Calls))
		}
	})
}
