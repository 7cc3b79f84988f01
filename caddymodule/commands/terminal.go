package commands

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"golang.org/x/text/width"
)

// Size of the output if it is not a terminal, in columns and lines.
const (
	defaultWidth  = 100
	defaultHeight = 40
)

// ANSI codes.
const (
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
	bold   = "\x1b[1m"

	cyan  = "\x1b[36m"
	reset = "\x1b[0m"
)

// Terminal is the output of a command. It is a real terminal, or a pipe or a file.
type Terminal struct {
	io.Writer
	Width, Height int
	Live          bool // a real terminal
	Color         bool // a real terminal, and NO_COLOR is not set
	JSON          bool // print JSON: --json, or not a real terminal
	Wide          bool // Line cuts nothing
}

// jsonFlag adds the flag --json to a command.
func jsonFlag(cmd *cobra.Command) {
	cmd.Flags().Bool("json", false, "Print JSON, also on a terminal; --json=false prints text, also in a pipe")
}

// NewTerminal returns the standard output of a command.
func NewTerminal(cmd *cobra.Command) Terminal {
	t := Terminal{Writer: cmd.OutOrStdout(), Width: defaultWidth, Height: defaultHeight}
	if file, isFile := t.Writer.(*os.File); isFile && term.IsTerminal(int(file.Fd())) {
		t.Live, t.Color = true, os.Getenv("NO_COLOR") == ""
		if columns, lines, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 && lines > 0 {
			t.Width, t.Height = columns, lines
		}
	}
	t.JSON = !t.Live
	if flag := cmd.Flags().Lookup("json"); flag != nil && flag.Changed {
		t.JSON = flag.Value.String() == "true"
	}
	return t
}

// Paint returns text in a color, or unchanged if there are no colors. Color is "" or an ANSI code.
func (t Terminal) Paint(color, text string) string {
	if !t.Color || color == "" {
		return text
	}
	return color + text + reset
}

// cell is a column of a line.
type cell struct {
	Text  string
	Width int    // 0 for the rest of the line
	Color string // ANSI code; "" for none
	Right bool   // aligned to the right
}

// Line returns a line that fits the terminal. Longer texts are cut, and characters that a terminal could interpret
// are replaced.
func (t Terminal) Line(cells ...cell) string {
	var b strings.Builder
	left := t.Width
	for i, c := range cells {
		if left < 2 && i > 0 {
			break
		}
		if i > 0 {
			b.WriteByte(' ')
			left--
		}
		if c.Width == 0 || c.Width > left {
			c.Width = max(left, 0)
		}
		left -= c.Width
		text := printable(c.Text)
		if !t.Wide {
			text = cut(text, c.Width)
		}
		padding := strings.Repeat(" ", max(c.Width-columnsOf(text), 0))
		switch {
		case c.Right:
			b.WriteString(padding + t.Paint(c.Color, text))
		case i < len(cells)-1:
			b.WriteString(t.Paint(c.Color, text) + padding)
		default:
			b.WriteString(t.Paint(c.Color, text))
		}
	}
	return strings.TrimRight(b.String(), " ") + "\n"
}

// numberLine returns a line with a name and numbers, each in so many columns. The name gets what they leave, at most 60.
func (t Terminal) numberLine(columns int, name string, numbers ...cell) string {
	for i := range numbers {
		numbers[i].Width, numbers[i].Right = columns, true
	}
	first := cell{Text: name, Width: max(min(t.Width-len(numbers)*(columns+1), 60), columns)}
	return t.Line(append([]cell{first}, numbers...)...)
}

// texts returns cells without a color.
func texts(all ...string) []cell {
	cells := make([]cell, len(all))
	for i, text := range all {
		cells[i].Text = text
	}
	return cells
}

// columnsOf returns how many columns a text has on a terminal.
func columnsOf(text string) (columns int) {
	for _, r := range text {
		columns += columnsOfRune(r)
	}
	return columns
}

func columnsOfRune(r rune) int {
	if kind := width.LookupRune(r).Kind(); kind == width.EastAsianWide || kind == width.EastAsianFullwidth {
		return 2
	}
	return 1
}

// cut returns a text with at most that many columns.
func cut(text string, columns int) string {
	if columnsOf(text) <= columns {
		return text
	}
	for i, r := range text {
		if columns -= columnsOfRune(r); columns < 1 {
			return text[:i] + "…"
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

// printableLines is printable for a text of several lines.
func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = printable(strings.ReplaceAll(lines[i], "\t", "    "))
	}
	return strings.Join(lines, "\n")
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

// jsonToken matches the tokens of JSON that have a color: names of members, strings, and other values.
var jsonToken = regexp.MustCompile(`("(?:[^"\\]|\\.)*")(\s*:)?|-?\d[\d.eE+-]*|true|false|null`)

// paintJSON returns valid JSON with colors.
func (t Terminal) paintJSON(encoded string) string {
	return jsonToken.ReplaceAllStringFunc(encoded, func(token string) string {
		name, isName := strings.CutSuffix(token, ":")
		switch {
		case isName:
			return t.Paint(cyan, name) + ":"
		case token[0] == '"':
			return t.Paint(green, token)
		}
		return t.Paint(yellow, token)
	})
}
