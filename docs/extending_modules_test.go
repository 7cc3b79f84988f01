package docs

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// buildFlags are the flags with which xcaddy.sh builds. With them, and with the version that ./caddy has if it was built,
// nothing is compiled twice.
const buildFlags = "-trimpath -tags=nobadger,nomysql,nopgx"

// TestExtending_modules_build builds each example as a Go module of its own, outside of this one, as a third party has
// it, one after the other so that they share what is compiled. Each go.mod requires what this module requires, so that nothing is downloaded.
func TestExtending_modules_build(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		testkit.Missing(t, "go is not installed")
	}
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	version := "v0.0.0"
	if info, err := buildinfo.ReadFile(filepath.Join(root, "caddy")); err == nil {
		for _, dep := range info.Deps {
			if dep.Path == "github.com/fairwayhq/fairway" {
				version = dep.Version
			}
		}
	}
	for _, name := range []string{"memory", "tokenserver", "officehours", "chatroom", "echo"} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "examples", "extending", name))); err != nil {
			t.Fatal(err)
		}
		module := regexp.MustCompile(`(?m)^module .*$`).ReplaceAllLiteralString(string(own), "module example.com/fairway-"+name)
		module += "\nrequire github.com/fairwayhq/fairway " + version + "\n\nreplace github.com/fairwayhq/fairway => " + filepath.ToSlash(checkout) + "\n"
		for file, content := range map[string][]byte{"go.mod": []byte(module), "go.sum": sums} {
			if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), "go", "build", "./...")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS="+buildFlags)
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, output)
		}
	}
}
