package console

import (
	"strings"
	"testing"
)

func TestRunModel_says_when_the_model_is_requested_again(t *testing.T) {
	for state, want := range map[string]string{
		`{"status":"awaiting-llm","usage":{"turns":1},"retry_at":"2026-01-02T03:04:05.6Z"}`: "03:04:05",
		`{"status":"awaiting-llm","usage":{"turns":1}}`:                                     "at work",
	} {
		if r := decodeRun(raw(state)); r == nil || !strings.Contains(r.Doing(), want) {
			t.Errorf("%s: got %+v", state, r)
		}
	}
}
