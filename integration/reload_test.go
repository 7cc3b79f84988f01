package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDocumentReload swaps the document under a running gateway: a good one
// takes its place, a bad one changes nothing.
//
//nolint:tparallel // the subtests replace the same document in turn
func TestDocumentReload(t *testing.T) {
	t.Parallel() // it mostly waits
	g, _, path := startFaults(t)

	replaceFile(t, path, document("fine", "text"))
	waitForTools(t, g, "fine", "text", "next_page")

	for _, bad := range []struct{ name, content string }{
		{"garbage", "\x00\x01 not a document"},
		{"empty", ""},
		{"truncated", document("fine", "text", "gzip")[:100]},
		{"no OpenAPI", `{"swagger":"1.2"}`},
		{"alias bomb", aliasBomb()},
		{"deep", `{"openapi":"3.1.0","x":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`},
	} {
		t.Run(bad.name, func(t *testing.T) {
			seen := strings.Count(g.log.String(), "\n")
			replaceFile(t, path, bad.content)
			waitFor(t, waitTimeout, "the log to tell of the document", func() bool {
				return strings.Count(g.log.String(), "\n") > seen
			})
			if names := g.toolNames(t); !slices.Equal(names, []string{"fine", "text", "next_page"}) {
				t.Errorf("tools %q, want those of the last good document", names)
			}
			checkResult(t, g.callMCP(t, "fine", `{}`), false, []string{"fine"})
			checkResult(t, g.callOTC(t, "fine", `{}`), false, []string{"fine"})
		})
	}

	t.Run("gone", func(t *testing.T) {
		seen := strings.Count(g.log.String(), "\n")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		waitFor(t, waitTimeout, "the log to tell of the file", func() bool {
			return strings.Count(g.log.String(), "\n") > seen
		})
		checkResult(t, g.callMCP(t, "fine", `{}`), false, []string{"fine"})
	})

	t.Run("recovery", func(t *testing.T) {
		replaceFile(t, path, document("gzip", "fine"))
		waitForTools(t, g, "gzip", "fine", "next_page")
		checkResult(t, g.callMCP(t, "gzip", `{}`), false, []string{"zipped"})
	})
}

// replaceFile puts a file in the place of another in one step.
func replaceFile(t *testing.T, path, content string) {
	t.Helper()
	draft := filepath.Join(t.TempDir(), "draft")
	writeFile(t, draft, content)
	if err := os.Rename(draft, path); err != nil {
		t.Fatal(err)
	}
}

func waitForTools(t *testing.T, g *gateway, want ...string) {
	t.Helper()
	waitFor(t, waitTimeout, "the tools "+strings.Join(want, ", "), func() bool {
		return slices.Equal(g.toolNames(t), want)
	})
}

// aliasBomb is a YAML document of a few hundred bytes whose aliases, written
// out, would be of 10^12 nodes.
func aliasBomb() string {
	var b strings.Builder
	b.WriteString("openapi: 3.1.0\na0: &a0 x\n")
	for i := range 12 {
		name, previous := string(rune('a'+i)), "*a0"
		if i > 0 {
			previous = "*" + string(rune('a'+i-1))
		}
		b.WriteString(name + ": &" + name + " [" + strings.TrimSuffix(strings.Repeat(previous+", ", 10), ", ") + "]\n")
	}
	return b.String()
}
