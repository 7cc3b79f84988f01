package build

import (
	"cmp"
	"strings"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/text"
)

const (
	// defaultDescriptionTokens is the default budget of a description, in tokens.
	defaultDescriptionTokens = 400

	// bytesPerToken is the average size of a token in English text.
	bytesPerToken = 4
)

// Describe returns the description of a tool: the summary of its operation, and the description
// reduced to plain text. Tokens is the budget. 0 means defaultDescriptionTokens. If it is negative, the description
// keeps its markup and its length. The result is "" if both texts are empty.
func Describe(summary, description string, tokens int) string {
	summary = strings.TrimSpace(summary)
	if tokens < 0 {
		return join(summary, description)
	}
	tokens = cmp.Or(tokens, defaultDescriptionTokens)
	return cutDescription(join(plainText(summary), plainText(description)), tokens*bytesPerToken)
}

// join puts the summary before the description, unless the description begins with it.
func join(summary, description string) string {
	switch {
	case summary == "":
		return description
	case description == "" || begins(summary, description):
		return longer(summary, description)
	case begins(description, summary):
		return description
	}
	return summary + "\n\n" + description
}

// begins reports whether a text begins with the words of another.
func begins(whole, start string) bool {
	start = strings.TrimRight(start, ".!: ")
	if len(whole) < len(start) || !strings.EqualFold(whole[:len(start)], start) {
		return false
	}
	next, _ := utf8.DecodeRuneInString(whole[len(start):])
	return len(whole) == len(start) || !isWordRune(next)
}

func isWordRune(r rune) bool {
	return r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r >= utf8.RuneSelf
}

func longer(a, b string) string {
	if len(b) > len(a) {
		return b
	}
	return a
}

// cutDescription returns at most limit bytes of the text. It cuts after a sentence or a paragraph, or, if there is
// none in the second half, after a word.
func cutDescription(whole string, limit int) string {
	if len(whole) <= limit {
		return whole
	}
	part := whole[:limit]
	for i := len(part) - 1; i >= limit/2; i-- {
		if isSentenceEnd(whole, i) {
			return strings.TrimRight(whole[:i+1], " \n")
		}
	}
	if space := strings.LastIndexAny(part, " \n"); space >= limit/2 {
		return strings.TrimRight(part[:space], " \n,;:") + "…"
	}
	return text.Cut(whole, limit)
}

// isSentenceEnd reports whether a sentence or a paragraph ends with the byte at position i.
func isSentenceEnd(whole string, i int) bool {
	switch whole[i] {
	case '.', '!', '?':
		return i+1 < len(whole) && (whole[i+1] == ' ' || whole[i+1] == '\n')
	case '\n':
		return i > 0 && whole[i-1] == '\n'
	}
	return false
}
