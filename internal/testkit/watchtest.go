package testkit

import (
	"os"
	"testing"
	"time"
)

// WriteAged writes a file that was last modified at the given age, so that its state counts as
// settled.
func WriteAged(t testing.TB, path, content string, age time.Duration) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(-age)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
}
