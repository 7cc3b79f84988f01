package sitetest

import (
	"os"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/watch"
)

// Main runs the tests of a package that starts sites, and exits. A TestMain calls it. Caddy keeps its files in
// a temporary directory, and changed files are noticed within 20 ms.
func Main(m *testing.M) {
	dir, err := os.MkdirTemp("", "sitetest")
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_DATA_HOME", dir)
	os.Setenv("XDG_CONFIG_HOME", dir)
	watch.SetInterval(20 * time.Millisecond)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}
