package embedded

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestRestore_owner checks that a service can open the store that root has restored: the file belongs to the owner of its folder.
// A link that this owner has put in the way is not followed.
func TestRestore_owner(t *testing.T) {
	folder, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "elsewhere")
	owner := os.Geteuid()
	if owner == 0 {
		owner = 65534
		if err := os.Chown(folder, owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(filepath.Join(t.TempDir(), "store.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	path := filepath.Join(folder, "store.db")
	if err := os.Symlink(elsewhere, path+".restored"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Restore(bytes.NewReader(backupOf(t, s)), path, false, nil); err != nil {
		t.Fatal(err)
	}
	stat, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := int(stat.Sys().(*syscall.Stat_t).Uid); got != owner {
		t.Errorf("the store belongs to user %d, want %d", got, owner)
	}
	if mode := stat.Mode(); mode != 0o600 {
		t.Errorf("mode %v, want -rw-------", mode)
	}
	if _, err := os.Lstat(elsewhere); !os.IsNotExist(err) {
		t.Errorf("the restore wrote through a link: %v", err)
	}
}
