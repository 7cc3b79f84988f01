// Package docs tests the documentation: its code blocks, commands, links and sentences, and the
// examples that it refers to.
//
// The test program is also a Caddy with Fairway. If FAIRWAY_DOCS_CADDY is set, it runs Caddy's
// command line in place of the tests, so examples run in a process of their own without
// another build.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "github.com/mholt/caddy-ratelimit" // an example builds Caddy with it

	_ "github.com/fairwayhq/fairway"
)

const caddyVariable = "FAIRWAY_DOCS_CADDY"

func TestMain(m *testing.M) {
	if os.Getenv(caddyVariable) != "" {
		caddycmd.Main()
		return
	}
	os.Exit(m.Run())
}

// root is the directory of the repository.
const root = ".."

// page is a Markdown file.
type page struct {
	path  string // relative to the root, with slashes
	lines []string
}

// block is a fenced code block of a page.
type block struct {
	page     string
	line     int    // of the opening fence, from 1
	language string // the first word after the fence
	mode     string // the rest: "", "syntax", "test" …
	text     string
}

var (
	fence = regexp.MustCompile("^( *)(```+)([a-z]*) *(.*)$")
	link  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// pages returns the Markdown files that users read, and the index for programs.
func pages(t *testing.T) []page {
	t.Helper()
	var all []page
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if name == "node_modules" || name == "testdata" || name == "example-data" || strings.HasPrefix(name, ".") && name != ".." {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".md" && name != "llms.txt" {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		all = append(all, page{filepath.ToSlash(relative), strings.Split(string(data), "\n")})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("only %d Markdown files below %s", len(all), root)
	}
	return all
}

// split separates the page's code blocks from its prose. Lines of blocks are empty in the prose.
func (p page) split() (prose []string, blocks []block) {
	prose = make([]string, len(p.lines))
	for i := 0; i < len(p.lines); i++ {
		open := fence.FindStringSubmatch(p.lines[i])
		if open == nil {
			prose[i] = p.lines[i]
			continue
		}
		found := block{page: p.path, line: i + 1, language: open[3], mode: strings.TrimSpace(open[4])}
		var text strings.Builder
		for i++; i < len(p.lines) && strings.TrimSpace(p.lines[i]) != open[2]; i++ {
			text.WriteString(strings.TrimPrefix(p.lines[i], open[1]) + "\n")
		}
		found.text = text.String()
		blocks = append(blocks, found)
	}
	return prose, blocks
}

// blocks returns the code blocks of all pages that are in one of the languages.
func blocks(t *testing.T, languages ...string) []block {
	t.Helper()
	var all []block
	for _, p := range pages(t) {
		_, found := p.split()
		for _, b := range found {
			for _, language := range languages {
				if b.language == language {
					all = append(all, b)
				}
			}
		}
	}
	return all
}
