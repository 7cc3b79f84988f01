package embedded

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckPlace checks what can be known without the lock of a file.
func TestCheckPlace(t *testing.T) {
	s := openTest(t, Options{}) // in use
	dir := t.TempDir()
	foreign := filepath.Join(dir, "foreign.db")
	if err := os.WriteFile(foreign, []byte("not a store"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		s.file.path:                        "",
		filepath.Join(dir, "new.db"):       "",
		filepath.Join(dir, "a", "b.db"):    "",
		foreign:                            "not a store",
		filepath.Join(foreign, "below.db"): "folder",
		dir:                                "",
	} {
		err := CheckPlace(path)
		if path == dir {
			want = "directory"
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 1 {
		t.Errorf("it has left %q", files)
	}
}
