package build

import (
	"regexp"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// maxText is how much of a text is reduced, in bytes. What follows is left out: it is far beyond every
// budget.
const maxText = 64 << 10

var entity = regexp.MustCompile(`&(#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});`)

// plainText reduces markup to plain text: HTML to its text, the rows of Markdown tables to lines, links to
// their text. Images, definitions of links and quotation marks of paragraphs are removed. Code stays as
// it is, and so does Markdown that reads well, such as lists and emphasis.
func plainText(text string) string {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
	if !strings.ContainsAny(text, "<|[>&\n") {
		return text
	}
	if strings.Contains(text, "|") {
		text = withoutTables(text)
	}
	text = cleanLines(text)
	if strings.ContainsAny(text, "<[&") {
		text = cleanLines(outsideCode(text, plainSpan))
	}
	return text
}

// cleanLines removes definitions of links, quotation marks, spaces at the ends of lines, and blank lines
// beside blank lines.
func cleanLines(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	blank := 0
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimRight(line, " \t")
		for quoted := strings.HasPrefix(line, ">"); quoted; quoted = strings.HasPrefix(line, ">") {
			if line = strings.TrimPrefix(line[1:], " "); strings.HasPrefix(line, "[!") && strings.HasSuffix(line, "]") {
				line = ""
			}
		}
		if start := strings.TrimLeft(line, " "); strings.HasPrefix(start, "[") && strings.Contains(start, "]: ") && strings.Index(start, "]: ") == strings.IndexByte(start, ']') {
			continue
		}
		if line == "" {
			blank++
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n\n"[:1+min(blank, 1)])
		}
		b.WriteString(line)
		blank = 0
	}
	return strings.TrimSpace(b.String())
}

// plainLinks returns the text of links, and removes images: [text](url), [text][name], ![text](url).
func plainLinks(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for {
		open := strings.IndexByte(text, '[')
		if open < 0 {
			break
		}
		end := strings.IndexAny(text[open+1:], "[]")
		if end < 0 {
			break
		}
		end += open + 1
		after := linkTarget(text[end:])
		if text[end] != ']' || end == open+1 && (open == 0 || text[open-1] != '!') || after == 0 {
			b.WriteString(text[:end])
			if text = text[end:]; text[0] == ']' {
				b.WriteByte(']')
				text = text[1:]
			}
			continue
		}
		if isImage := open > 0 && text[open-1] == '!'; isImage {
			b.WriteString(text[:open-1])
		} else {
			b.WriteString(text[:open])
			b.WriteString(text[open+1 : end])
		}
		text = text[end+after:]
	}
	b.WriteString(text)
	return b.String()
}

// linkTarget returns the length of the bracket that closes the text of a link, and of its target behind
// it. It returns 0 if there is no target.
func linkTarget(text string) int {
	if len(text) < 2 || text[0] != ']' {
		return 0
	}
	switch text[1] {
	case '[':
		if end := strings.IndexByte(text, '\n'); end >= 0 {
			text = text[:end]
		}
		if end := strings.IndexByte(text[2:], ']'); end >= 0 {
			return 2 + end + 1
		}
	case '(':
		depth := 0
		for i := 1; i < len(text) && text[i] != '\n'; i++ {
			switch text[i] {
			case '(':
				depth++
			case ')':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	return 0
}

// outsideCode applies change to the parts of the text that are not between backticks.
func outsideCode(text string, change func(string) string) string {
	if !strings.Contains(text, "`") {
		return change(text)
	}
	var b strings.Builder
	for text != "" {
		start := strings.IndexByte(text, '`')
		if start < 0 {
			break
		}
		fence := len(text[start:]) - len(strings.TrimLeft(text[start:], "`"))
		end := strings.Index(text[start+fence:], text[start:start+fence])
		if end < 0 {
			break
		}
		end += start + 2*fence
		b.WriteString(change(text[:start]))
		b.WriteString(text[start:end])
		text = text[end:]
	}
	b.WriteString(change(text))
	return b.String()
}

// plainSpan reduces the markup inside lines.
func plainSpan(text string) string {
	if strings.Contains(text, "[") {
		text = plainLinks(text)
	}
	if strings.Contains(text, "<") {
		text = withoutHTML(text)
	}
	if strings.Contains(text, "&") {
		text = entity.ReplaceAllStringFunc(text, html.UnescapeString)
	}
	return text
}

// withoutHTML returns the text of HTML. Text that looks like an element, such as <owner>, is kept.
func withoutHTML(text string) string {
	var b strings.Builder
	tokens := html.NewTokenizer(strings.NewReader(text))
	tokens.SetMaxBuf(maxText)
	for {
		kind := tokens.Next()
		raw := string(tokens.Raw())
		switch kind {
		case html.ErrorToken:
			b.WriteString(raw)
			return b.String()
		case html.CommentToken:
			if !strings.HasPrefix(raw, "<!--") {
				b.WriteString(raw)
			}
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken:
			name, _ := tokens.TagName()
			b.WriteString(insteadOf(atom.Lookup(name), kind, raw))
		default:
			b.WriteString(raw)
		}
	}
}

// insteadOf returns the plain text that replaces a tag.
func insteadOf(element atom.Atom, kind html.TokenType, raw string) string {
	switch element {
	case 0:
		return raw
	case atom.Br:
		return "\n"
	case atom.P, atom.Div, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Ul, atom.Ol, atom.Table, atom.Pre, atom.Blockquote, atom.Dl:
		return "\n\n"
	case atom.Tr, atom.Dt:
		return "\n"
	case atom.Td, atom.Th, atom.Dd:
		if kind == html.EndTagToken {
			return " "
		}
	case atom.Li:
		if kind == html.StartTagToken {
			return "\n- "
		}
	case atom.Code:
		return "`"
	}
	return ""
}

// withoutTables turns the rows of Markdown tables into lines, "name: text; text". The row with the names
// of the columns is left out.
func withoutTables(text string) string {
	lines := strings.Split(text, "\n")
	kept := lines[:0]
	for i := 0; i < len(lines); i++ {
		if i+1 >= len(lines) || !strings.Contains(lines[i], "|") || !isRule(lines[i+1]) {
			kept = append(kept, lines[i])
			continue
		}
		for i += 2; i < len(lines) && strings.Contains(lines[i], "|"); i++ {
			kept = append(kept, row(lines[i]))
		}
		i--
	}
	return strings.Join(kept, "\n")
}

// isRule reports whether a line is the one below the names of a table's columns: |---|:---:|.
func isRule(line string) bool {
	line = strings.TrimSpace(line)
	return strings.Contains(line, "-") && strings.Contains(line, "|") && strings.Trim(line, "|:- \t") == ""
}

func row(line string) string {
	line = strings.Trim(strings.TrimSpace(line), "|")
	var cells []string
	for cell := range strings.SplitSeq(strings.ReplaceAll(line, `\|`, "\x00"), "|") {
		if cell = strings.TrimSpace(strings.ReplaceAll(cell, "\x00", "|")); cell != "" {
			cells = append(cells, cell)
		}
	}
	switch len(cells) {
	case 0:
		return ""
	case 1:
		return "- " + cells[0]
	}
	return "- " + cells[0] + ": " + strings.Join(cells[1:], "; ")
}
