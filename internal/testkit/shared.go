package testkit

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// AllVariable is the environment variable that turns a missing test requirement into a failure.
// CI sets it to 1.
const AllVariable = "FAIRWAY_TEST_ALL"

// sharedVariable is the environment variable that says with 0 that the files below shared cannot be on this machine:
// they are other projects' documents, and not in the repository. Then their tests are skipped with AllVariable, too.
const sharedVariable = "FAIRWAY_TEST_SHARED"

// Missing skips the test because a requirement is not installed on this machine. If
// AllVariable is set, it fails the test instead.
func Missing(t testing.TB, format string, arguments ...any) {
	t.Helper()
	if os.Getenv(AllVariable) == "1" {
		t.Fatalf(format, arguments...)
	}
	t.Skipf(format, arguments...)
}

// DocumentPath returns the path of a file or folder below shared. name uses slashes. If it does
// not exist, the test is skipped.
func DocumentPath(t testing.TB, name string) string {
	t.Helper()
	path, ok := FindDocument(t, name)
	if !ok {
		t.Skipf("shared/%s is not beside the checkout", name)
	}
	return path
}

// FindDocument is like DocumentPath, for a test of which only a part needs the file: ok reports whether
// it exists. If AllVariable is set, a missing file fails the test, unless sharedVariable is 0.
func FindDocument(t testing.TB, name string) (path string, ok bool) {
	t.Helper()
	root, err := ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(root, "..", "shared", filepath.FromSlash(name))
	if _, err = os.Stat(path); err != nil && os.Getenv(AllVariable) == "1" && os.Getenv(sharedVariable) != "0" {
		t.Fatalf("shared/%s is not beside the checkout", name)
	}
	return path, err == nil
}

// ReadDocument returns the content of a file below shared. It decompresses a file whose name ends
// in .gz.
func ReadDocument(t testing.TB, name string) []byte {
	t.Helper()
	file, err := os.Open(DocumentPath(t, name))
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

// Documents returns the names of the real documents with their numbers of operations. To
// read one, prefix its name with openapi/ and append .gz.
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

// ModuleRoot returns the folder of go.mod, at or above the working directory.
func ModuleRoot() (string, error) {
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
