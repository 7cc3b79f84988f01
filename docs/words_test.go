package docs

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// Limits of the pages that people write, counted in words as wc counts them.
const (
	maxPageWords = 3_000
	maxAllWords  = 80_000
)

// generated are the pages that programs write.
var generated = []string{"docs/json.md", "docs/commands.md"}

// TestWords_of_pages_are_few counts the words of the README and of each page of docs.
func TestWords_of_pages_are_few(t *testing.T) {
	counted, all := 0, 0
	for _, p := range pages(t) {
		if p.path != "README.md" && path.Dir(p.path) != "docs" || slices.Contains(generated, p.path) {
			continue
		}
		counted++
		words := p.words()
		all += words
		if words > maxPageWords {
			t.Errorf("%s has %d words, more than %d: remove what other pages say too, or split it for two readers", p.path, words, maxPageWords)
		}
	}
	if all > maxAllWords {
		t.Errorf("the pages have %d words, more than %d: remove what is said twice", all, maxAllWords)
	}
	if counted < 50 || all < maxAllWords/2 {
		t.Errorf("only %d pages with %d words were counted", counted, all)
	}
}

// words returns how many words a page has, code and tables included.
func (p page) words() (n int) {
	for _, line := range p.lines {
		n += len(strings.Fields(line))
	}
	return n
}
