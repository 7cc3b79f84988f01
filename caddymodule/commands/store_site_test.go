package commands_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	_ "github.com/fairwayhq/fairway/caddymodule/stores/redis"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestAgentsStore_backs_up_and_restores backs up the store of a running Caddy, checks it, and restores it after the Caddy has
// ended.
func TestAgentsStore_backs_up_and_restores(t *testing.T) {
	s := newAgentsSite(t)
	s.call("ada", "createTrip", `{"to":"Bern"}`) // waits for a review
	file, path := filepath.Join(t.TempDir(), "backup.gz"), filepath.Join(s.Dir, "store.db")
	fails := func(word string, arguments ...string) {
		t.Helper()
		_, notes, err := command("agents", "", append([]string{"store"}, arguments...)...)
		if err == nil || !strings.HasPrefix(notes, "Error: ") || !strings.Contains(notes, word) {
			t.Errorf("%q: %v, printed %q, want a sentence with %s", arguments, err, notes, word)
		}
	}
	s.agents("store", "backup", file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 || info.Size() == 0 {
		t.Errorf("the backup is %+v, error %v", info, err)
	}
	if files, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*")); len(files) != 1 {
		t.Errorf("files %q", files)
	}
	report, _ := s.agents("store", "check")
	for _, want := range []string{"intact", "kind engagement", "user ada", "limit", "next expires at"} {
		if !strings.Contains(report, want) {
			t.Errorf("no %q in\n%s", want, report)
		}
	}
	fails("in use", "check", path)
	fails("in use", "restore", file, "--store", path, "--replace")
	fails("reached", "backup", file, "--address", "127.0.0.1:1")
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	fails("--replace", "restore", file, "--store", path)
	fails("not a backup", "restore", path, "--store", path, "--replace")
	stdout, _, err := command("agents", "", "store", "restore", file, "--store", path, "--replace")
	if err != nil || !testkit.ContainsAll(stdout, "records "+path+".replaced-") {
		t.Errorf("printed %q, error %v", stdout, err)
	}
	if content, err := os.ReadFile(file); err != nil {
		t.Error(err)
	} else if stdout, _, err := command("agents", string(content), "store", "restore", "-", "--store", path, "--replace"); err != nil || !strings.Contains(stdout, path+" has") {
		t.Errorf("from standard input: printed %q, error %v", stdout, err)
	}
	before := report[strings.Index(report, "all "):strings.Index(report, "limit ")]
	if report, _, err = command("agents", "", "store", "stats", path); err != nil || !strings.Contains(report, before) {
		t.Errorf("restored\n%s\nerror %v, want\n%s", report, err, before)
	}
}

// TestAgentsStore_refuses_a_shared_store checks that only the embedded store is backed up.
func TestAgentsStore_refuses_a_shared_store(t *testing.T) {
	admin := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	config := fmt.Sprintf(`{"admin": {"listen": %q, "config": {"persist": false}}, "apps": {"agents": {"store": {"module": "redis", "url": "redis://127.0.0.1:1"}}}}`, admin)
	sitetest.StartJSON(t, []byte(config))
	file := filepath.Join(t.TempDir(), "backup.gz")
	for _, arguments := range [][]string{{"backup", file}, {"check"}} {
		_, notes, err := command("agents", "", append(append([]string{"store"}, arguments...), "--address", admin)...)
		if err == nil || !strings.HasPrefix(notes, "Error: this is for store bolt") {
			t.Errorf("%q: %v, printed %q", arguments, err, notes)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a file was written")
	}
}
