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

// TestAudit_verify_reports_all_faults: each has a line, the last line has their number, and the status is that of the first.
func TestAudit_verify_reports_all_faults(t *testing.T) {
	var chain []string
	for previous := ""; len(chain) < 9; {
		content := fmt.Sprintf(`{"node":"a","seq":%d,"prev":%q`, len(chain)+1, previous)
		previous = fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
		chain = append(chain, fmt.Sprintf("%s,\"hash\":%q}\n", content, previous))
	}
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(path, []byte(chain[0]+chain[2]+"{}\n"+chain[3]+chain[8]), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, reported bytes.Buffer
	cmd := AuditCommand()
	cmd.SilenceUsage = true
	cmd.SetOut(&out)
	cmd.SetErr(&reported)
	cmd.SetArgs([]string{"verify", path})
	if err := cmd.Execute(); err == nil || !strings.HasSuffix(err.Error(), fmt.Sprint("status ", exitCodeGap)) {
		t.Errorf("error %v", err)
	}
	lines := strings.Split(strings.TrimSpace(reported.String()), "\n")
	for i, want := range []string{"line 2: gap after 1", "line 3: changed line", "line 5: gap after 4", "3"} {
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Errorf("reported %q, want %q in line %d", lines, want, i+1)
		}
	}
	if out.Len() > 0 {
		t.Errorf("the command also printed %s", out.String())
	}
}
