package command

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/caddymodule/app/calllog"
	"github.com/fairwayhq/fairway/tools"
)

// printer formats calls.
type printer struct {
	json  bool // as JSON, one object on a line
	color bool // on a terminal
}

// ANSI colors of outcomes.
const (
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
	reset  = "\x1b[0m"
)

// line returns a call as one line. Encoded is its JSON.
func (p printer) line(encoded []byte, c *calllog.Call) []byte {
	if p.json {
		return append(escaped(encoded), '\n')
	}
	outcome := fmt.Sprintf("%-14s", printable(c.Outcome))
	if p.color {
		outcome = color(c.Outcome) + outcome + reset
	}
	name := c.Tool
	if name == "" {
		name = "(unknown tool)"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s %.1fms", c.Ended.Local().Format("15:04:05.000"), outcome, printable(name), c.Took)
	if c.Status != 0 {
		fmt.Fprintf(&b, " status=%d", c.Status)
	}
	for _, field := range []struct{ name, value string }{
		{"user", c.User}, {"protocol", c.Protocol}, {"toolset", c.Toolset}, {"trace", c.Trace}, {"node", c.Node},
	} {
		if field.value != "" {
			b.WriteString(" " + field.name + "=" + printable(field.value))
		}
	}
	if len(c.Arguments) > 0 {
		b.WriteString(" " + printable(string(c.Arguments)))
	}
	return []byte(b.String() + "\n")
}

// color returns the color of an outcome: red for a fault of the gateway or the API.
func color(outcome string) string {
	switch tools.FailureKind(outcome) {
	case tools.OutcomeOK, tools.OutcomeReplayed:
		return green
	case tools.Failed, tools.Unreachable, tools.TimedOut, tools.Internal, tools.Unreadable, tools.TooLarge, tools.Unanswered:
		return red
	}
	return yellow
}

// escaped returns JSON in which characters that a terminal could interpret are escaped. JSON itself only
// escapes those below U+0020.
func escaped(encoded []byte) []byte {
	text := make([]byte, 0, len(encoded)+1)
	for _, r := range string(encoded) {
		switch {
		case r == '\x7f' || r > '\x7f' && r < 0x10000 && !unicode.IsPrint(r):
			text = fmt.Appendf(text, `\u%04x`, r)
		default:
			text = utf8.AppendRune(text, r)
		}
	}
	return text
}

// printable replaces what a terminal could interpret: clients choose some of the texts.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '·'
		}
		return r
	}, text)
}
