package chat

import (
	"strconv"
	"strings"
	"unicode/utf16"
)

// join returns all texts as one, each once. It adds further readings, so that a guardrail sees
// what clients and models see: the concatenation of the parts of a message, and text whose
// JSON escapes are decoded.
func (t *texts) join() string {
	seen := make(map[string]bool, len(t.order))
	parts := make([]string, 0, len(t.order))
	add := func(text string) {
		if strings.TrimSpace(text) != "" && !seen[text] {
			seen[text] = true
			parts = append(parts, text)
		}
	}
	for _, p := range t.order {
		add(p.text.String())
	}
	for _, text := range t.concatenated() {
		add(text)
	}
	for _, text := range parts {
		if plain, escaped := unescape(text); escaped {
			add(plain)
		}
	}
	return strings.Join(parts, "\n")
}

// concatenated returns the concatenation for each message with several parts. The messages of a request are
// those of one role, which some servers join; their parts count as the parts of one message.
func (t *texts) concatenated() []string {
	type message struct {
		text  strings.Builder
		parts int
	}
	var order []*message
	messages := make(map[string]*message)
	for _, p := range t.order {
		content, ok := contentOf(p.place)
		if !ok {
			continue
		}
		if t.request {
			content = ""
		}
		m := messages[content]
		if m == nil {
			m = new(message)
			messages[content] = m
			order = append(order, m)
		}
		m.text.WriteString(p.text.String())
		m.parts++
	}
	var texts []string
	for _, m := range order {
		if m.parts > 1 {
			texts = append(texts, m.text.String())
		}
	}
	return texts
}

// contentOf returns the place of a text without the index of its part, and whether the text is
// a part of a message.
func contentOf(place string) (string, bool) {
	last := strings.LastIndexAny(place, "0123456789")
	if last < 0 {
		return "", false
	}
	switch place[last+1:] {
	case "/text", "/delta/text", "/delta", "/content":
	case "":
		if !strings.HasSuffix(strings.TrimRight(place, "0123456789"), "/content/") {
			return "", false
		}
	default:
		return "", false
	}
	return strings.Map(func(c rune) rune {
		if '0' <= c && c <= '9' {
			return -1
		}
		return c
	}, place), true
}

// unescape decodes JSON escapes of characters that need no escape. The text need not be valid
// JSON, because clients also parse incomplete documents.
func unescape(text string) (plain string, escaped bool) {
	if !strings.Contains(text, `\u`) && !strings.Contains(text, `\/`) {
		return text, false
	}
	var b strings.Builder
	for rest := text; rest != ""; {
		i := strings.IndexByte(rest, '\\')
		if i < 0 {
			b.WriteString(rest)
			break
		}
		b.WriteString(rest[:i])
		rest = rest[i:]
		switch r, size := escapeOf(rest); {
		case size > 0:
			b.WriteRune(r)
			rest, escaped = rest[size:], true
		default:
			b.WriteByte('\\')
			rest = rest[1:]
		}
	}
	return b.String(), escaped
}

// escapeOf decodes the escape at the beginning of the text. size is 0 if there is none.
func escapeOf(text string) (r rune, size int) {
	if strings.HasPrefix(text, `\/`) {
		return '/', 2
	}
	r, ok := unitOf(text)
	if !ok {
		return 0, 0
	}
	if utf16.IsSurrogate(r) {
		if second, ok := unitOf(text[6:]); ok {
			if pair := utf16.DecodeRune(r, second); pair != '\ufffd' {
				return pair, 12
			}
		}
	}
	return r, 6
}

// unitOf returns the UTF-16 code unit of the escape at the beginning of the text.
func unitOf(text string) (rune, bool) {
	if len(text) < 6 || text[:2] != `\u` {
		return 0, false
	}
	unit, err := strconv.ParseUint(text[2:6], 16, 16)
	return rune(unit), err == nil
}
