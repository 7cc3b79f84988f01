// Package shared gives tests the real documents and schemas that are not part of
// the repository: other people's OpenAPI documents and the protocols' own
// schemas. They stand in a folder named shared beside the checkout; tests that
// need them skip where it is absent.
package shared

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// All is the environment variable under which a missing requirement of a test is
// a failure: CI sets it to 1.
const All = "FAIRWAY_TEST_ALL"

// Missing skips the test for want of something that a user's machine need not
// have, or fails it where everything must run.
func Missing(t testing.TB, format string, arguments ...any) {
	t.Helper()
	if os.Getenv(All) == "1" {
		t.Fatalf(format, arguments...)
	}
	t.Skipf(format, arguments...)
}

// Path returns the path of a file or folder below shared, whose name is written
// with slashes. The test is skipped without it.
func Path(t testing.TB, name string) string {
	t.Helper()
	path, ok := Find(t, name)
	if !ok {
		Missing(t, "shared/%s is not beside the checkout", name)
	}
	return path
}

// Find is Path for a test of which only a part needs the file: ok reports
// whether it is there. Where everything must run, it must be.
func Find(t testing.TB, name string) (path string, ok bool) {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(root, "..", "shared", filepath.FromSlash(name))
	if _, err = os.Stat(path); err != nil && os.Getenv(All) == "1" {
		t.Fatalf("shared/%s is not beside the checkout", name)
	}
	return path, err == nil
}

// Read returns the content of a file below shared, uncompressed if its name ends
// in .gz.
func Read(t testing.TB, name string) []byte {
	t.Helper()
	file, err := os.Open(Path(t, name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var content io.Reader = file
	if strings.HasSuffix(name, ".gz") {
		if content, err = gzip.NewReader(file); err != nil {
			t.Fatal(err)
		}
	}
	data, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Documents returns the names of the real documents, which Read finds under
// openapi/ and with .gz at their end, and how many operations each has.
func Documents() map[string]int {
	return map[string]int{
		"github-api.github.com.json":       1223,
		"kubernetes-1.33-swagger-2.0.json": 1041,
		"stripe.json":                      452,
		"discord-3.1.json":                 242,
		"slack-web-v2.json":                174,
		"twilio-messaging-v1.json":         58,
		"xero-files.json":                  16,
		"museum-3.1.yaml":                  8,
		"train-travel-3.1.yaml":            7,
	}
}

// moduleRoot returns the folder of go.mod, at or above the working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", os.ErrNotExist
		}
		dir = parent
	}
}
