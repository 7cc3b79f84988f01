package embedded

import (
	"path/filepath"
	"slices"
	"testing"
)

// folderDisk records the files whose folders are synced.
type folderDisk struct {
	osDisk
	synced []string
}

func (d *folderDisk) syncFolder(path string) error {
	d.synced = append(d.synced, path)
	return d.osDisk.syncFolder(path)
}

// TestOpen_folders checks that the folders that Open creates are durable.
func TestOpen_folders(t *testing.T) {
	parent := t.TempDir()
	d := &folderDisk{}
	s, err := Open(filepath.Join(parent, "a", "b", "records.db"), Options{disk: d})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, path := range []string{filepath.Join(parent, "a"), filepath.Join(parent, "a", "b"), filepath.Join(parent, "a", "b", "records.db")} {
		if !slices.Contains(d.synced, path) {
			t.Errorf("the folder of %s is not synced; synced are those of %q", path, d.synced)
		}
	}
	if slices.Contains(d.synced, parent) {
		t.Errorf("the folder of %s is synced, but it existed", parent)
	}
}
