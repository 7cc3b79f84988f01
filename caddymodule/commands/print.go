package commands

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
	"github.com/fairwayhq/fairway/tools"
)

// Widths of the columns of a call. The reason has the rest of the line.
const (
	outcomeWidth  = 14
	toolWidth     = 20
	durationWidth = 6
	userWidth     = 10
	callsWidth    = 8  // a number of calls, or a duration
	tokensWidth   = 10 // a number of tokens
)

// Formats of the time of a call.
const (
	onlyTime    = "15:04:05"
	dateAndTime = "01-02 15:04"
)

// timeLayout returns the format of the time of a call in a list that may have calls of several days.
func timeLayout(at, now time.Time) string {
	if at.Local().Format(time.DateOnly) == now.Local().Format(time.DateOnly) {
		return onlyTime
	}
	return dateAndTime
}

// callLine returns a call as one line. Layout and width are those of the time.
func (t Terminal) callLine(c *calllog.Call, layout string, width int) string {
	return t.Line(
		cell{Text: c.Ended.Local().Format(layout), Width: width},
		cell{Text: c.Outcome, Width: outcomeWidth, Color: colorOf(c.Outcome)},
		cell{Text: cmp.Or(c.Tool, "(unknown tool)"), Width: toolWidth},
		cell{Text: duration(c.Took), Width: durationWidth, Right: true},
		cell{Text: cmp.Or(c.User, calllog.Anonymous), Width: userWidth},
		cell{Text: t.details(c)},
	)
}

// details returns why a call failed, and with Wide the other fields.
func (t Terminal) details(c *calllog.Call) string {
	text := strings.TrimPrefix(c.Reason, "invalid arguments for "+c.Tool+": ") // the line has the tool
	if c.Would.Effect != "" {
		text = strings.TrimSpace(text + " " + c.Would.String() + " by " + c.Would.Rule + ": " + c.Would.Why)
	}
	if !t.Wide {
		return text
	}
	if c.Status != 0 {
		text = fmt.Sprintf("status=%d %s", c.Status, text)
	}
	for _, name := range calllog.Fields {
		if value := calllog.FieldOf(c, name); value != "" && !slices.Contains([]string{"outcome", "tool", "user"}, name) { // the line has these
			text += " " + name + "=" + value
		}
	}
	if len(c.Arguments) > 0 {
		text += " arguments=" + string(c.Arguments)
	}
	return text
}

// duration returns milliseconds as a text of at most 6 characters, such as 0.4ms, 12ms, 1.0s or 7m20s.
func duration(milliseconds float64) string {
	switch took := time.Duration(milliseconds * float64(time.Millisecond)); {
	case milliseconds < 10:
		return fmt.Sprintf("%.1fms", milliseconds)
	case milliseconds < 1000:
		return fmt.Sprintf("%.0fms", milliseconds)
	case took < time.Minute:
		return fmt.Sprintf("%.1fs", took.Seconds())
	case took < time.Hour:
		return fmt.Sprintf("%dm%02ds", took/time.Minute, took%time.Minute/time.Second)
	default:
		return age(took)
	}
}

// age returns a duration in its largest unit, such as 12s, 5m, 3h or 2d.
func age(d time.Duration) string {
	const day = 24 * time.Hour
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if d >= unit.length {
			return fmt.Sprintf("%d%s", d/unit.length, unit.name)
		}
	}
	return fmt.Sprintf("%ds", max(d, 0)/time.Second)
}

// colorOf returns the color of an outcome: red for a fault of the gateway or the API.
func colorOf(outcome string) string {
	switch tools.FailureKind(outcome) {
	case tools.OutcomeOK, tools.OutcomeReplayed:
		return green
	case tools.Failed, tools.Unreachable, tools.TimedOut, tools.Internal, tools.Unreadable, tools.TooLarge, tools.Unanswered:
		return red
	}
	return yellow
}
