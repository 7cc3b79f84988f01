package lock

import (
	"os"
	"path/filepath"
	"testing"
)

// TestApprove approves single tools of a changed document.
func TestApprove(t *testing.T) {
	before := build(t, document("Trips", `"/a":{"get":{"operationId":"a"}},"/b":{"get":{"operationId":"b"}},"/gone":{"get":{"operationId":"gone"}}`))
	after := build(t, document("Trips", `"/a":{"get":{"operationId":"a","summary":"A"}},"/b":{"get":{"operationId":"b","summary":"B"}},"/new":{"get":{"operationId":"new"}}`))
	pinned, current := Of(before), Of(after)
	changes := pinned.Compare(after)
	if len(changes) != 4 {
		t.Fatalf("got %+v", changes)
	}
	approved := pinned.Approve(current, []string{"a", "gone"})
	left := approved.Compare(after)
	if len(left) != 2 || left[0].Tool != "b" || left[1].Tool != "new" {
		t.Errorf("left are %+v, want b and new", left)
	}
	if len(pinned.Compare(after)) != 4 {
		t.Error("the lock itself has changed")
	}
	again := build(t, document("Trips", `"/a":{"get":{"operationId":"a","summary":"Another"}},"/b":{"get":{"operationId":"b","summary":"B"}},"/new":{"get":{"operationId":"new"}}`))
	seen := current.Digest(changes)
	if again := current.Digest(changes); seen == "" || seen != again {
		t.Errorf("got the digests %q and %q of the same changes", seen, again)
	}
	if other, rest := Of(again).Digest(pinned.Compare(again)), current.Digest(left); seen == other || seen == rest {
		t.Errorf("got the digest %q, want one other than those of other changes, %q and %q", seen, other, rest)
	}
	if current.Digest(nil) != "" {
		t.Error("there is a digest without changes")
	}
}

// TestWriteFile writes a lock file through a symbolic link.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "real.lock"), filepath.Join(dir, "tools.lock")
	if err := os.WriteFile(target, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	set := build(t, document("Trips", `"/a":{"get":{"operationId":"a"}}`))
	if err := Of(set).WriteFile(link); err != nil {
		t.Fatal(err)
	}
	read, err := ReadFile(target)
	if err != nil || len(read.Compare(set)) != 0 {
		t.Errorf("%v", err)
	}
	if stat, err := os.Stat(target); err != nil || stat.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", stat.Mode(), err)
	}
	if err := CheckWritable(link); err != nil {
		t.Error(err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 2 {
		t.Errorf("files are left: %v", files)
	}
	if CheckWritable(filepath.Join(dir, "none", "tools.lock")) == nil {
		t.Error("a file in a directory that does not exist can be written")
	}
}
