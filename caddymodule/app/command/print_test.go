package command

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/app/calllog"
)

func TestLine(t *testing.T) {
	call := &calllog.Call{
		Ended: time.Now(), User: "ada\x1b[2J\u009b", Tool: "getTrip", Outcome: "api_error", Protocol: "mcp", Toolset: "trips", Status: 503, Took: 12.34,
		Arguments: jsontext.Value(`{"id":"7"}`),
	}
	plain := string(printer{}.line(nil, call))
	for _, want := range []string{"getTrip", "api_error", "12.3ms", "status=503", "user=ada·", `{"id":"7"}`} {
		if !strings.Contains(plain, want) {
			t.Errorf("the line is %q, want %q in it", plain, want)
		}
	}
	if strings.ContainsAny(plain, "\x1b\u009b") || strings.Count(plain, "\n") != 1 {
		t.Errorf("the line %q has control characters", plain)
	}
	if colored := string(printer{color: true}.line(nil, call)); !strings.Contains(colored, red) || strings.Count(colored, "\x1b") != 2 {
		t.Errorf("the line is %q, want a red outcome", colored)
	}
	encoded := "{\"user\":\"\u00e9\u009b2J\u202e\x7f\U0001f600\"}"
	if got, want := string(printer{json: true}.line([]byte(encoded), call)), "{\"user\":\"\u00e9\\u009b2J\\u202e\\u007f\U0001f600\"}\n"; got != want {
		t.Errorf("the line is %q, want %q", got, want)
	}
	if got := string(printer{json: true}.line([]byte(`{"tool":"x"}`), call)); got != "{\"tool\":\"x\"}\n" {
		t.Errorf("the line is %q", got)
	}
}
