package source

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// mustFetch fetches and wants no error.
func mustFetch(t *testing.T, source Source, previous *Snapshot) (*Snapshot, bool) {
	t.Helper()
	snapshot, changed, err := source.Fetch(context.Background(), previous)
	if err != nil {
		t.Fatal(err)
	}
	if changed != (snapshot.Data != nil) {
		t.Errorf("changed is %v with %d bytes", changed, len(snapshot.Data))
	}
	return snapshot, changed
}

func TestFileSource(t *testing.T) {
	cases := []struct {
		rule    string
		change  func(t *testing.T, main, other string)
		changed bool
		content string
	}{
		{"nothing happened", func(*testing.T, string, string) {}, false, ""},
		{"the file was touched", func(t *testing.T, main, _ string) { testkit.WriteAged(t, main, "one", time.Minute) }, false, ""},
		{"the file has other content", func(t *testing.T, main, _ string) { testkit.WriteAged(t, main, "two", time.Minute) }, true, "two"},
		{"the file has other content of the same time", func(t *testing.T, main, _ string) { testkit.WriteAged(t, main, "longer", time.Hour) }, true, "longer"},
		{"an editor renamed a new file over it", func(t *testing.T, main, _ string) {
			testkit.WriteAged(t, main+"~", "new", time.Minute)
			if err := os.Rename(main+"~", main); err != nil {
				t.Fatal(err)
			}
		}, true, "new"},
		{"the other file was touched", func(t *testing.T, _, other string) { testkit.WriteAged(t, other, "other", time.Minute) }, false, ""},
		{"the other file has other content", func(t *testing.T, _, other string) { testkit.WriteAged(t, other, "OTHER", time.Minute) }, true, "one"},
		{"the other file is gone", func(t *testing.T, _, other string) {
			if err := os.Remove(other); err != nil {
				t.Fatal(err)
			}
		}, true, "one"},
		{"an absent file appeared", func(t *testing.T, main, _ string) { testkit.WriteAged(t, main+".absent", "", time.Minute) }, true, "one"},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			dir := t.TempDir()
			main, other := filepath.Join(dir, "main.yaml"), filepath.Join(dir, "other.yaml")
			testkit.WriteAged(t, main, "one", time.Hour)
			testkit.WriteAged(t, other, "other", time.Hour)
			source := &File{Path: main}
			first, changed := mustFetch(t, source, nil)
			if !changed || string(first.Data) != "one" || first.Location != main {
				t.Fatalf("changed %v, data %q, location %q", changed, first.Data, first.Location)
			}
			kept := first.Keep([]string{main, other, other, main + ".absent"})
			if got := kept.Files(); len(got) != 2 {
				t.Errorf("watches %q", got)
			}
			if same, changed := mustFetch(t, source, kept); changed || same != kept {
				t.Error("settled files were read again")
			}
			c.change(t, main, other)
			second, changed := mustFetch(t, source, kept)
			if changed != c.changed || string(second.Data) != c.content {
				t.Errorf("changed %v, data %q", changed, second.Data)
			}
			if third, changed := mustFetch(t, source, second.Keep(second.Files())); changed || len(third.Files()) != 2 {
				t.Errorf("the fetch after: changed %v, watches %q", changed, third.Files())
			}
		})
	}
}

func TestFileSource_symbolic_link_swapped(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		testkit.WriteAged(t, filepath.Join(dir, name), "content "+name, time.Hour)
	}
	link := filepath.Join(dir, "current")
	if err := os.Symlink("a", link); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	source := &File{Path: link}
	first, _ := mustFetch(t, source, nil)
	if err := os.Symlink("b", link+"~"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+"~", link); err != nil {
		t.Fatal(err)
	}
	if second, changed := mustFetch(t, source, first.Keep(nil)); !changed || string(second.Data) != "content b" {
		t.Errorf("changed %v, data %q", changed, second.Data)
	}
}

// A write within one tick of the clock leaves size and time as they were.
func TestFileSource_just_written_file_is_read_again(t *testing.T) {
	main := filepath.Join(t.TempDir(), "main.yaml")
	testkit.WriteAged(t, main, "one", -time.Hour)
	source := &File{Path: main}
	first, _ := mustFetch(t, source, nil)
	info, err := os.Stat(main)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(main, []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(main, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if second, changed := mustFetch(t, source, first.Keep(nil)); !changed || string(second.Data) != "two" {
		t.Errorf("changed %v, data %q", changed, second.Data)
	}
}

// The build may have read the other file before or after it was written.
func TestFileSource_file_written_during_the_build_counts_as_changed(t *testing.T) {
	dir := t.TempDir()
	main, other := filepath.Join(dir, "main.yaml"), filepath.Join(dir, "other.yaml")
	testkit.WriteAged(t, main, "one", time.Hour)
	source := &File{Path: main}
	first, _ := mustFetch(t, source, nil)
	testkit.WriteAged(t, other, "other", -time.Hour)
	kept := first.Keep([]string{other})
	testkit.WriteAged(t, other, "other", time.Hour)
	second, changed := mustFetch(t, source, kept)
	if !changed {
		t.Fatal("the change was missed")
	}
	if _, changed = mustFetch(t, source, second.Keep([]string{other})); changed {
		t.Error("it counts as changed for ever")
	}
}

func TestFileSource_errors(t *testing.T) {
	dir := t.TempDir()
	big := filepath.Join(dir, "big.yaml")
	testkit.WriteAged(t, big, "123456", time.Hour)
	cases := []struct {
		rule   string
		source File
		want   error // nil: any
	}{
		{"no file", File{Path: filepath.Join(dir, "none.yaml")}, fs.ErrNotExist},
		{"a folder", File{Path: dir}, nil},
		{"over the limit", File{Path: big, MaxSize: 5}, ErrTooLarge},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			_, _, err := c.source.Fetch(context.Background(), nil)
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("error %v", err)
			}
		})
	}
	at := File{Path: big, MaxSize: 6}
	if _, _, err := at.Fetch(context.Background(), nil); err != nil {
		t.Errorf("at the limit: %v", err)
	}
}
