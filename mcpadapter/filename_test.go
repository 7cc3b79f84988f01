package mcpadapter

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

// TestFilename_of_a_binary_answer_reaches_the_client in whatever place the revision
// has for it, as the last element of its path.
func TestFilename_of_a_binary_answer_reaches_the_client(t *testing.T) {
	for contentType, body := range map[string]string{"application/pdf": "%PDF\x00", "image/png": "\x89PNG\x00", "audio/wav": "RIFF\x00"} {
		for _, v := range revisions {
			outcome := answered(http.StatusOK, contentType, body)
			outcome.Result.Header.Set("Content-Disposition", `attachment; filename*=UTF-8''..%2Fa%20%22b%22.bin`)
			var got struct {
				Content []struct {
					Type     string
					Resource struct{ URI string }
					Meta     map[string]json.RawMessage `json:"_meta"`
				}
			}
			call(v, returning(outcome)).result(t, "CallToolResult", &got)
			block := got.Content[0]
			if block.Type == "resource" && block.Resource.URI != "tool://trains/get_trip/a%20%22b%22.bin" {
				t.Errorf("%s %s: uri %s", contentType, v, block.Resource.URI)
			}
			want := ""
			if v >= protocol.V20250618 {
				want = `"a \"b\".bin"`
			}
			if name := string(block.Meta["io.github.fairwayhq/filename"]); name != want {
				t.Errorf("%s %s: name %s, want %s", contentType, v, name, want)
			}
		}
	}
}
