package openai

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/oagent/model"
	"github.com/fairwayhq/fairway/oagent/model/internal/httpapi"
)

// FuzzReadStream reads streams, which come from outside: it must not panic, and what it reports
// while it reads is the text of the response.
func FuzzReadStream(f *testing.F) {
	f.Add("data: {\"choices\":[{\"delta\":{\"content\":\"a\",\"tool_calls\":[{\"index\":7,\"id\":\"1\",\"function\":{\"name\":\"f\"}}]}}]}\n\n" +
		"data: {\"choices\":[{\"delta\":{\"refusal\":\"b\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	f.Add(": x\r\n\r\ndata: {\"error\":{\"code\":429}}\r\n\r\n")
	f.Fuzz(func(t *testing.T, stream string) {
		options, err := model.APIOptions{Model: "m"}.WithDefaults(DefaultBaseURL)
		if err != nil {
			t.Fatal(err)
		}
		call, err := httpapi.Begin(t.Context(), &options)
		if err != nil {
			t.Fatal(err)
		}
		defer call.End()
		reported := ""
		response, err := readStream(call, &http.Response{Body: io.NopCloser(strings.NewReader(stream))}, func(text string) { reported += text })
		if err == nil && reported != response.Text {
			t.Errorf("reported %q, returned %q", reported, response.Text)
		}
		if err == nil && len(response.Calls) > model.MaxCalls {
			t.Errorf("got %d calls", len(response.Calls))
		}
	})
}
