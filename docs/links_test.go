package docs

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	heading      = regexp.MustCompile(`^#{1,6} +(.*?) *$`)
	explicitID   = regexp.MustCompile(`<a id="([^"]+)">`)
	htmlTag      = regexp.MustCompile(`<[^>]*>`)
	markdownLink = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	inlineCode   = regexp.MustCompile("`[^`]*`")
)

// anchors returns the ids that links to a page can name: those of headings, as GitHub makes
// them, and explicit ones.
func (p page) anchors() map[string]bool {
	found := map[string]bool{}
	prose, _ := p.split()
	for _, line := range prose {
		for _, id := range explicitID.FindAllStringSubmatch(line, -1) {
			found[id[1]] = true
		}
		title := heading.FindStringSubmatch(line)
		if title == nil {
			continue
		}
		text := markdownLink.ReplaceAllString(htmlTag.ReplaceAllString(title[1], ""), "$1")
		id := strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			}
			return -1
		}, strings.TrimSpace(text))
		found[id] = true
	}
	return found
}

// links returns the targets of the page's links that are files of the repository, as
// "path#anchor" relative to the root.
func (p page) links() []string {
	var found []string
	prose, _ := p.split()
	for _, line := range prose {
		for _, l := range link.FindAllStringSubmatch(inlineCode.ReplaceAllString(line, "code"), -1) {
			target := l[1]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(target, "#")
			if file == "" {
				file = path.Base(p.path)
			}
			found = append(found, path.Join(path.Dir(p.path), file)+"#"+anchor)
		}
	}
	return found
}

func TestLinks_lead_to_files_and_headings(t *testing.T) {
	all := map[string]page{}
	for _, p := range pages(t) {
		all[p.path] = p
	}
	for _, p := range all {
		for _, target := range p.links() {
			file, anchor, _ := strings.Cut(target, "#")
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s: link to %s: %v", p.path, target, err)
				continue
			}
			if linked, markdown := all[file]; anchor != "" && markdown && !linked.anchors()[anchor] {
				t.Errorf("%s: %s has no heading %q", p.path, file, anchor)
			}
		}
	}
}

// TestLinks_reach_every_page checks that all pages of docs and examples are at most two clicks
// from the index.
func TestLinks_reach_every_page(t *testing.T) {
	all := map[string]page{}
	for _, p := range pages(t) {
		all[p.path] = p
	}
	reached := clicks(all, 2)
	for name := range all {
		if (strings.HasPrefix(name, "docs/") || strings.HasPrefix(name, "examples/")) && !reached[name] {
			t.Errorf("%s is more than two clicks from docs/README.md", name)
		}
	}
}

// TestLinks_of_both_indexes_have_every_page checks that the index, and the one for programs, list all pages of docs.
func TestLinks_of_both_indexes_have_every_page(t *testing.T) {
	all := pages(t)
	for _, index := range []string{"docs/README.md", "llms.txt"} {
		listed := map[string]bool{index: true, "docs/README.md": true}
		for _, p := range all {
			if p.path != index {
				continue
			}
			for _, target := range p.links() {
				file, _, _ := strings.Cut(target, "#")
				listed[file] = true
			}
		}
		for _, p := range all {
			if path.Dir(p.path) == "docs" && !listed[p.path] {
				t.Errorf("%s does not list %s", index, p.path)
			}
		}
	}
}

// clicks returns the pages that are at most n links away from the index.
func clicks(all map[string]page, n int) map[string]bool {
	reached := map[string]bool{"docs/README.md": true}
	for range n {
		var next []string
		for name := range reached {
			for _, target := range all[name].links() {
				file, _, _ := strings.Cut(target, "#")
				next = append(next, file)
			}
		}
		for _, name := range next {
			reached[name] = true
		}
	}
	return reached
}

// TestLinks_answer_the_questions checks that the page of each question is at most two clicks from
// the index, without the list of questions itself.
func TestLinks_answer_the_questions(t *testing.T) {
	all := map[string]page{}
	for _, p := range pages(t) {
		all[p.path] = p
	}
	questions := all["docs/questions.md"]
	delete(all, "docs/questions.md")
	reached := clicks(all, 2)
	rows := 0
	for _, line := range questions.lines {
		if !strings.Contains(line, "?") || !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| Question") {
			continue
		}
		rows++
		answers := page{questions.path, []string{line}}.links()
		if len(answers) == 0 {
			t.Errorf("no page for: %s", line)
		}
		for _, target := range answers {
			if file, _, _ := strings.Cut(target, "#"); !reached[file] {
				t.Errorf("%s is more than two clicks from docs/README.md: %s", file, line)
			}
		}
	}
	if rows < 30 {
		t.Errorf("%d questions, want at least 30", rows)
	}
}
