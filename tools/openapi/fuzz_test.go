package openapi

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// FuzzRead checks that no bytes make reading panic or hang, that what is read
// is JSON again, and that every operation is either usable or has its reason.
func FuzzRead(f *testing.F) {
	err := filepath.WalkDir(testdata, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		f.Add(data)
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("a: &a [1, *a]"))
	f.Add([]byte("openapi: 3.1.0\n<<: {paths: {/a: {get: {}}}}"))
	limits := Limits{Size: 1 << 16, Nodes: 1e5}
	f.Fuzz(func(t *testing.T, data []byte) {
		root, err := Parse(data, limits)
		if err != nil {
			return
		}
		written := jsontext.Value(root.AppendJSON(nil))
		if !written.IsValid(jsontext.AllowDuplicateNames(false)) {
			t.Fatalf("the tree is no JSON: %.200s", written)
		}
		document, err := Read(data, Options{Limits: limits})
		if err != nil {
			return
		}
		for _, op := range document.Operations() {
			checkOperation(t, op)
		}
		document.SecuritySchemes()
	})
}

func checkOperation(t *testing.T, op Operation) {
	t.Helper()
	if op.Err != nil {
		if op.Err.Error() == "" {
			t.Error("an operation failed without a reason")
		}
		return
	}
	if op.Method == "" || !utf8.ValidString(op.Path) {
		t.Errorf("got the method %q and the path %q, want a method, and a path in UTF-8", op.Method, op.Path)
	}
	if !strings.HasPrefix(op.Template, "/") || strings.ContainsAny(op.Template, "?#") {
		t.Errorf("got the template %q, want one that begins with a slash, without ? and #", op.Template)
	}
	if op.Body != nil && len(op.Body.Content) == 0 {
		t.Error("a body without media types")
	}
	for _, p := range op.Parameters {
		if p.Name == "" || p.In == "path" && !p.Required || (p.Style == "") == (p.ContentType == "") {
			t.Errorf("parameter %+v", p)
		}
		p.Schema.Resolve()
	}
}
