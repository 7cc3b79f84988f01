package docs

import (
	"regexp"
	"strings"
	"testing"
)

// maxWords is the length of a sentence. Longer ones are hard to read for people whose first
// language is not English.
const maxWords = 30

var (
	sentenceEnd = regexp.MustCompile(`[.!?:]["')*]*(\s|$)`)
	listItem    = regexp.MustCompile(`^\s*([-*]|\d+\.) `)
)

func TestSentences_are_short(t *testing.T) {
	checked := 0
	for _, p := range pages(t) {
		if p.path == "docs/json.md" || p.path == "CHANGELOG.md" {
			continue // doc comments, and lists for those who look for a change
		}
		for _, sentence := range p.sentences() {
			checked++
			if words := len(strings.Fields(sentence)); words > maxWords {
				t.Errorf("%s: a sentence has %d words, more than %d: %s", p.path, words, maxWords, sentence)
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d sentences found", checked)
	}
}

// sentences returns the sentences of paragraphs, list items and table cells. A piece of code and
// a link count as the words that a reader sees.
func (p page) sentences() []string {
	var paragraphs []string
	var current strings.Builder
	end := func() {
		paragraphs = append(paragraphs, current.String())
		current.Reset()
	}
	prose, _ := p.split()
	for _, line := range prose {
		line = markdownLink.ReplaceAllString(inlineCode.ReplaceAllString(line, "code"), "$1")
		switch {
		case strings.HasPrefix(line, "|"):
			end()
			cells := strings.Split(line, "|")
			if p.path == "docs/troubleshooting.md" {
				cells = cells[2:] // the first column has messages
			}
			paragraphs = append(paragraphs, cells...)
			continue
		case strings.TrimSpace(line) == "", strings.HasPrefix(line, "#"), listItem.MatchString(line):
			end()
		}
		current.WriteString(" " + line)
	}
	end()
	var found []string
	for _, paragraph := range paragraphs {
		for _, sentence := range sentenceEnd.Split(paragraph, -1) {
			if strings.TrimSpace(sentence) != "" {
				found = append(found, strings.TrimSpace(sentence))
			}
		}
	}
	return found
}
