package commands

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// auditLines returns the lines of a chain of the archive.
func auditLines(node string, count int) (lines []string) {
	previous := ""
	for seq := range count {
		content := fmt.Sprintf(`{"node":%q,"seq":%d,"prev":%q`, node, seq+1, previous)
		previous = fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
		lines = append(lines, fmt.Sprintf("%s,\"hash\":%q}\n", content, previous))
	}
	return lines
}

// TestAudit_verify_of_beginnings: a chain that begins inside of a file is a fault, and missing first lines are noted.
func TestAudit_verify_of_beginnings(t *testing.T) {
	a, b := auditLines("a", 3), auditLines("b", 2)
	file := func(lines ...string) string {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for rule, test := range map[string]struct {
		arguments []string
		status    int
		note      string
	}{
		"whole":                        {[]string{file(a...)}, 0, ""},
		"without the first lines":      {[]string{file(a[2])}, 0, "lines 1 to 2 of node a"},
		"a file for each node":         {[]string{file(a...), file(b...)}, 0, ""},
		"a chain that goes on":         {[]string{file(b[0]), file(a[0], a[1], b[1], a[2])}, 0, ""},
		"a foreign chain":              {[]string{file(a[0], b[0], b[1], a[1])}, exitCodeLink, ""},
		"a foreign chain, not from 1":  {[]string{file(a[0], b[1], a[1])}, exitCodeLink, ""},
		"a chain of a node with names": {[]string{"--node", "b", "--node", "c", file(a[0], b[0], b[1], a[1])}, 0, ""},
	} {
		var notes bytes.Buffer
		cmd := AuditCommand()
		cmd.SilenceUsage = true
		cmd.SetOut(new(bytes.Buffer))
		cmd.SetErr(&notes)
		cmd.SetArgs(append([]string{"verify"}, test.arguments...))
		err := cmd.Execute()
		if ended := test.status == 0 && err == nil || err != nil && strings.HasSuffix(err.Error(), fmt.Sprintf("status %d", test.status)); !ended {
			t.Errorf("%s: %v, want the status %d", rule, err, test.status)
		}
		if noted := strings.Contains(notes.String(), "note:"); noted != (test.note != "") || !strings.Contains(notes.String(), test.note) {
			t.Errorf("%s: got %q, want the note %q", rule, notes.String(), test.note)
		}
	}
}
