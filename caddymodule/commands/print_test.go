package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
	verdicts "github.com/fairwayhq/fairway/oagent/replay"
	"github.com/fairwayhq/fairway/oagent/review"
)

// goldenCall has a text that a terminal could interpret in each field that others choose.
func goldenCall() *calllog.Call {
	return &calllog.Call{
		Ended: time.Date(2026, 1, 31, 12, 0, 5, 0, time.Local), User: "ada\x1b[2J\u009b", Tool: "getTrip", Outcome: "api_error", Protocol: "mcp", Toolset: "trips",
		Status: 503, Took: 12.34, Arguments: jsontext.Value(`{"id":"7"}`), Agent: "clerk", Trace: "4bf92f", Node: "n1",
		Reason: "the API responded with 503 Service\r\nUnavailable: \x1b]0;title\x07try again later, or ask the operator",
	}
}

func TestCallLine_fits_100_columns(t *testing.T) {
	const want = "01-31 12:00 api_error      getTrip                12ms ada·[2J·   the API responded with 503 Servic…\n"
	call := goldenCall()
	got := Terminal{Width: 100}.callLine(call, dateAndTime, len(dateAndTime))
	if got != want {
		t.Errorf("the line is\n%s want\n%s", got, want)
	}
	colored := Terminal{Width: 100, Color: true}.callLine(call, dateAndTime, len(dateAndTime))
	if colored != strings.Replace(want, "api_error", red+"api_error"+reset, 1) {
		t.Errorf("the line is %q, want only a red outcome in addition", colored)
	}
	call.Tool, call.User, call.Reason = strings.Repeat("列車", 30), strings.Repeat("é", 200), strings.Repeat("旅", 200)
	for _, width := range []int{1, 20, 60, 100, 200} {
		line := strings.TrimSuffix(Terminal{Width: width}.callLine(call, onlyTime, len(onlyTime)), "\n")
		if got := columnsOf(line); got > width || !utf8.ValidString(line) {
			t.Errorf("width %d: the line has %d columns: %q", width, got, line)
		}
	}
}

func TestCallLine_wide_has_all_fields(t *testing.T) {
	line := Terminal{Width: 100, Wide: true}.callLine(goldenCall(), onlyTime, len(onlyTime))
	for _, want := range []string{"status=503", "agent=clerk", "protocol=mcp", "toolset=trips", "trace=4bf92f", "node=n1", `arguments={"id":"7"}`, "ask the operator"} {
		if !strings.Contains(line, want) {
			t.Errorf("the line is %q, want %q in it", line, want)
		}
	}
	if strings.ContainsAny(line, "\x1b\u009b\r\x07") || strings.Count(line, "\n") != 1 {
		t.Errorf("the line %q has control characters", line)
	}
}

func TestCallLine_JSON_has_no_control_characters(t *testing.T) {
	encoded := "{\"user\":\"\u00e9\u009b2J\u202e\x7f\U0001f600\"}"
	var out strings.Builder
	line := func(*calllog.Call) string { return "not JSON" }
	if err := printLines(Terminal{Writer: &out, JSON: true, Color: true}, "call", []json.RawMessage{json.RawMessage(encoded)}, line); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "{\"user\":\"\u00e9\\u009b2J\\u202e\\u007f\U0001f600\"}\n"; got != want {
		t.Errorf("the line is %q, want %q", got, want)
	}
}

func TestDuration_has_6_characters(t *testing.T) {
	for took, want := range map[float64]string{0.42: "0.4ms", 12.3: "12ms", 1049: "1.0s", 59_000: "59.0s", 440_000: "7m20s", 7.2e6: "2h", 1e9: "11d"} {
		if got := duration(took); got != want || len(got) > durationWidth {
			t.Errorf("%v ms: got %q, want %q", took, got, want)
		}
	}
}

func TestTimeLayout_has_the_date_of_other_days(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.Local)
	if got := timeLayout(now.Add(-time.Hour), now); got != onlyTime {
		t.Errorf("today: %s", got)
	}
	if got := timeLayout(now.Add(-24*time.Hour), now); got != dateAndTime {
		t.Errorf("yesterday: %s", got)
	}
}

func TestStatsTable_fits_the_terminal(t *testing.T) {
	usage := []calllog.Usage{{Name: "getTrip\x1b[2J" + strings.Repeat("x", 100), Calls: 90, Failures: 9, P50: 12, P95: 1200}, {Name: "", Calls: 10}, {Name: "third", Calls: 1}}
	at := time.Now()
	stats := &calllog.Stats{
		From: at.Add(-time.Hour), To: at, Step: 15, Points: []calllog.Point{{Calls: []int{30, 15}}, {}},
		Total: calllog.Usage{Calls: 3600, Failures: 360, P50: 12, P95: 1200}, Tools: usage, Slowest: usage, Failing: usage, Users: usage, Agents: usage[:1],
	}
	table := Terminal{Width: 80, Height: 17, Color: true}.statsTable(stats, &reviewList{Open: []review.Summary{{AskedAt: at.Add(-2 * time.Hour)}}}, "1h")
	for _, want := range []string{"3600 calls, 1.00/s, now 3.00/s  failed 10.0 %  p50 12ms  p95 1.2s", "reviews that wait: 1, the oldest for 2h", bold + "SLOWEST TOOLS", red + "10.0 %" + reset, "anonymous", "(unknown tool)", "AGENTS"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	plain := strings.NewReplacer(bold, "", yellow, "", red, "", reset, "").Replace(table)
	if lines := strings.Count(plain, "\n"); lines >= 17 || strings.Contains(plain, "\x1b") {
		t.Errorf("%d lines, want fewer than 17, and no other codes\n%q", lines, plain)
	}
	for line := range strings.Lines(plain) {
		if got := columnsOf(strings.TrimSuffix(line, "\n")); got > 80 {
			t.Errorf("%d columns: %s", got, line)
		}
	}
}

func TestWriteBody_on_a_terminal_and_in_a_pipe(t *testing.T) {
	const body = "{\"a\":[1,\"x: \\\"y\\\" \u009b\"],\"b\":null}"
	for name, test := range map[string]struct {
		terminal   Terminal
		body, want string
	}{
		"pipe":     {Terminal{}, body, body + "\n"},
		"terminal": {Terminal{Live: true}, body, "\n{\n  \"a\": [\n    1,\n    \"x: \\\"y\\\" \\u009b\"\n  ],\n  \"b\": null\n}\n"},
		"colors":   {Terminal{Live: true, Color: true}, `{"a":["x",true]}`, "\n{\n  " + cyan + `"a"` + reset + ": [\n    " + green + `"x"` + reset + ",\n    " + yellow + "true" + reset + "\n  ]\n}\n"},
		"text":     {Terminal{Live: true}, "a\x1b[2J\n\tb", "\na·[2J\n    b\n"},
	} {
		var out bytes.Buffer
		test.terminal.Writer = &out
		if err := test.terminal.writeBody([]byte(test.body)); err != nil || out.String() != test.want {
			t.Errorf("%s: got %q, %v, want %q", name, out.String(), err, test.want)
		}
	}
}

func TestNewTerminal_pipe(t *testing.T) {
	for argument, want := range map[string]bool{"": true, "--json": true, "--json=false": false} {
		cmd := &cobra.Command{}
		jsonFlag(cmd)
		cmd.SetOut(new(bytes.Buffer))
		if err := cmd.ParseFlags(strings.Fields(argument)); err != nil {
			t.Fatal(err)
		}
		got := NewTerminal(cmd)
		if got, want := [...]any{got.JSON, got.Live, got.Color, got.Width}, [...]any{want, false, false, 100}; got != want {
			t.Errorf("%q: JSON, live, color, columns: got %v, want %v", argument, got, want)
		}
	}
}

// TestReplayError_of_an_incomplete_replay is not the success that a pipeline would take for no change.
func TestReplayError_of_an_incomplete_replay(t *testing.T) {
	for _, test := range []struct {
		report verdicts.Report
		status int // 0 for no error
	}{
		{verdicts.Report{Calls: 3, Unchanged: 3}, 0},
		{verdicts.Report{Calls: 3, Undecidable: 3}, 0},
		{verdicts.Report{Calls: 3, NewHeld: 1}, exitCodeDiffers},
		{verdicts.Report{Calls: 3, NewHeld: 1, Incomplete: "it ended"}, exitCodeDiffers},
		{verdicts.Report{Calls: 3, Incomplete: "it ended"}, 1},
	} {
		err := replayError(&test.report)
		got := 0
		if of, ok := errors.AsType[*ExitError](err); ok {
			got = of.Status
		} else if err != nil {
			got = 1
		}
		if got != test.status {
			t.Errorf("%+v: status %d, %v", test.report, got, err)
		}
	}
}
