package sitetest

import (
	"os"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/watch"
)

// Main runs the tests of a package that starts sites, and exits. A TestMain calls it. Caddy keeps its files in
// a temporary directory, and changed files are noticed within 20 ms. The functions run after the tests.
func Main(m *testing.M, after ...func()) {
	dir, err := os.MkdirTemp("", "sitetest")
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_DATA_HOME", dir)
	os.Setenv("XDG_CONFIG_HOME", dir)
	watch.SetInterval(20 * time.Millisecond)
	testkit.CollectRarely()
	code := m.Run()
	for _, end := range after {
		end()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}
