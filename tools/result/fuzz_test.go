package result

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// FuzzReduce cuts a stream at any two places: that must make no difference, limits
// hold, and what is reported and kept as JSON is JSON.
func FuzzReduce(f *testing.F) {
	f.Add("data: {\"progress\":1}\r\n\r\n: c\nevent: result\rdata: {\ndata: }\n\n", true, 5, 20)
	f.Add("\xef\xbb\xbf{\"type\":\"result\",\"result\":[1]}\n{\"level\":\"info\",\"data\":{}}\r\n\"x\"", false, 1, 2)
	f.Add("event: mcp-result\ndata: \xff\n\n", true, 0, 0)
	f.Fuzz(func(t *testing.T, stream string, events bool, first, second int) {
		format := jsonLines
		if events {
			format = eventStream
		}
		o := StreamOptions{MaxContent: 200, MaxEvent: 100, MaxEvents: 20}
		whole := reduce(format, o, stream)

		first = min(max(first, 0), len(stream))
		second = min(max(second, first), len(stream))
		if cut := reduce(format, o, stream[:first], stream[first:second], stream[second:]); cut.String() != whole.String() {
			t.Errorf("in pieces %s\nas a whole %s", cut, whole)
		}
		if int64(len(whole.body)) > o.MaxContent {
			t.Errorf("kept %d bytes", len(whole.body))
		}
		if whole.contentType == mediaJSON && !strictjson.Valid([]byte(whole.body)) {
			t.Errorf("not JSON: %q", whole.body)
		}
		for _, event := range whole.events {
			if strings.ContainsAny(event, "\r\n") {
				t.Errorf("an event of two lines: %q", event)
			}
			if _, data, ok := strings.Cut(strings.TrimPrefix(event, "content "), " "); ok &&
				strings.HasPrefix(event, "content ") && !strictjson.Valid([]byte(data)) {
				t.Errorf("reported what is not JSON: %q", event)
			}
		}
	})
}
