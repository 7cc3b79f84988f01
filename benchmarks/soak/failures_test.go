package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func TestFailures_are_in_the_pages(t *testing.T) {
	t.Parallel()
	pages := ""
	for _, name := range []string{"errors", "otc", "idempotency"} {
		text, err := os.ReadFile("../../docs/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		pages += string(text)
	}
	for _, f := range documentedFailures {
		if !strings.Contains(pages, f.kind) {
			t.Errorf("docs/errors.md, docs/otc.md and docs/idempotency.md do not have %s", f.kind)
		}
	}
}

// TestFailures_of_undocumented_kinds_are_faults checks failures of clients as the soak reads them.
func TestFailures_of_undocumented_kinds_are_faults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		result string
		want   string
	}{
		{`{"_meta":{"io.github.fairwayhq/http":{"status":503,"retryable":true}},"content":[{"text":"GET /failing answered 503 Service Unavailable: try later"}]}`, "api_error"},
		{`{"_meta":{"io.github.fairwayhq/http":{"status":502,"retryable":true}},"content":[{"text":"GET /failing could not be reached (502 Bad Gateway): …"}]}`, "unreachable"},
		{`{"_meta":{"io.github.fairwayhq/http":{"retryable":false}},"content":[{"text":"the gateway failed to handle GET /slow"}]}`, ""},
		{`{"_meta":{"io.github.fairwayhq/http":{"status":500,"retryable":false}},"content":[{"text":"POST /things answered 500 Internal Server Error"}]}`, ""},
		{`{"content":[{"text":"GET /failing answered 503 Service Unavailable"}]}`, ""},
		{`{"_meta":{"io.github.fairwayhq/http":{"retryable":true}},"content":[]}`, ""},
	} {
		r := newReport(nil)
		u := newUser(0, nil, r)
		var m message
		if err := json.Unmarshal([]byte(`{"result":`+test.result+`}`), &m); err != nil {
			t.Fatal(err)
		}
		outcome := u.isError(m)
		if test.want == "" && r.count != 1 || test.want != "" && (r.count != 0 || outcome != test.want) {
			t.Errorf("%s: outcome %q with %d faults, want %q", test.result, outcome, r.count, test.want)
		}
	}
}
