package stdio

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// lint runs caddy mcp skills lint.
func lint(directory string) (stdout string, err error) {
	cmd := &cobra.Command{Use: "mcp", SilenceUsage: true}
	caddycmd.Commands()["mcp"].CobraFunc(cmd)
	var out, aside bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&aside)
	cmd.SetArgs([]string{"skills", "lint", directory})
	err = cmd.Execute()
	return out.String(), err
}

func TestSkills_lint(t *testing.T) {
	for rule, c := range map[string]struct {
		files  map[string]string
		want   []string // lines, with DIR for the directory
		failed string   // word of the error
	}{
		"valid": {map[string]string{"x/a/SKILL.md": "---\nname: a\ndescription: Does a.\n---\n"}, []string{"skill://x/a/SKILL.md: Does a."}, ""},
		"invalid": {
			map[string]string{"a/SKILL.md": "# A", "b/SKILL.md": "---\nname: c\ndescription: d\n---\n", "c/SKILL.md": "---\nname: c\ndescription: d\n---\n"},
			[]string{"DIR/a/SKILL.md:1: the file must begin", "DIR/b/SKILL.md:2: name is c"},
			"problems",
		},
		"none": {map[string]string{"a/readme.md": ""}, nil, "no skills"},
	} {
		t.Run(rule, func(t *testing.T) {
			dir := t.TempDir()
			for name, content := range c.files {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			out, err := lint(dir)
			if (err == nil) != (c.failed == "") || err != nil && !strings.Contains(err.Error(), c.failed) {
				t.Errorf("got error %v; want %q", err, c.failed)
			}
			lines := strings.Split(strings.TrimSpace(out), "\n")
			if len(c.want) == 0 && out != "" || len(c.want) > 0 && len(lines) != len(c.want) {
				t.Fatalf("got %s", out)
			}
			for i, want := range c.want {
				if !strings.HasPrefix(lines[i], strings.ReplaceAll(want, "DIR", dir)) {
					t.Errorf("got  %s\nwant %s", lines[i], want)
				}
			}
		})
	}
	if _, err := lint(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a directory that does not exist is accepted")
	}
}
