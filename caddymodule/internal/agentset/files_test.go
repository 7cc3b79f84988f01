package agentset

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent"
)

// document returns the document of an agent.
func document(name string) string {
	return "kind: openagentspec:v1/agent\nname: " + name + "\ndescription: Answers.\nintent: You answer.\nowner: team\ncapabilities: {}\n"
}

func TestReadFiles(t *testing.T) {
	folder := t.TempDir()
	a, b, large := filepath.Join(folder, "a.yaml"), filepath.Join(folder, "b.yaml"), filepath.Join(folder, "large.yaml")
	testkit.WriteAged(t, a, document("one")+"---\n"+document("two"), time.Hour)
	testkit.WriteAged(t, b, document("three"), time.Hour)
	testkit.WriteAged(t, large, strings.Repeat("#", oagent.MaxDocument+1), time.Hour)
	read, err := ReadFiles([]string{a, b})
	if err != nil || len(read) != 3 {
		t.Fatalf("got %v and the error %v, want 3 documents", read, err)
	}
	if read[1].Name != "two" || read[2].Location != b {
		t.Fatalf("got the name %q and the location %q, want two and %q", read[1].Name, read[2].Location, b)
	}
	for name, test := range map[string]struct {
		files []string
		want  string
	}{
		"missing":   {[]string{a, filepath.Join(folder, "none.yaml")}, "none.yaml path"},
		"too large": {[]string{large}, "large.yaml limit"},
		"same name": {[]string{a, b, b}, "three b.yaml:1"},
	} {
		if _, err := ReadFiles(test.files); err == nil || !testkit.ContainsAll(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
	if _, err := ReadFiles([]string{filepath.Join(folder, "none.yaml")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}

func TestUpdateStates(t *testing.T) {
	folder := t.TempDir()
	a, b := filepath.Join(folder, "a.yaml"), filepath.Join(folder, "b.yaml")
	testkit.WriteAged(t, a, document("one"), time.Hour)
	l := &Loader{options: Options{Files: []string{a, b}}}
	for _, step := range []struct {
		rule   string
		change func()
		want   bool
	}{
		{"first check", func() {}, true},
		{"nothing happened", func() {}, false},
		{"touched", func() { testkit.WriteAged(t, a, document("one"), time.Minute) }, false},
		{"other content", func() { testkit.WriteAged(t, a, document("two"), time.Second) }, true},
		{"the missing file appeared", func() { testkit.WriteAged(t, b, document("one"), time.Hour) }, true},
		{"nothing happened again", func() {}, false},
		{"a file disappeared", func() { _ = os.Remove(b) }, true},
		{"it is still missing", func() {}, false},
	} {
		step.change()
		if got := l.updateStates(); got != step.want {
			t.Errorf("%s: changed is %v", step.rule, got)
		}
	}
}

// TestExpand reads the files that match a pattern, also those that are added later.
func TestExpand(t *testing.T) {
	folder := t.TempDir()
	a, b, odd := filepath.Join(folder, "a.yaml"), filepath.Join(folder, "b.yaml"), filepath.Join(folder, "[c].yaml")
	pattern := filepath.Join(folder, "?.yaml")
	for _, path := range []string{b, a, odd} {
		testkit.WriteAged(t, path, document("one"), time.Hour)
	}
	for _, test := range []struct{ files, want []string }{
		{[]string{pattern}, []string{a, b}},
		{[]string{b, pattern}, []string{b, a}},
		{[]string{odd, filepath.Join(folder, "none.yaml"), filepath.Join(folder, "*.json")}, []string{odd, filepath.Join(folder, "none.yaml")}},
	} {
		if got := expand(test.files); !slices.Equal(got, test.want) {
			t.Errorf("%q: got %q, want %q", test.files, got, test.want)
		}
	}
	l := &Loader{options: Options{Files: []string{pattern}}}
	l.updateStates()
	testkit.WriteAged(t, filepath.Join(folder, "d.yaml"), document("two"), time.Hour)
	if !l.updateStates() || l.updateStates() {
		t.Error("a new file that matches is no change")
	}
}

// TestLoader_deleted_file checks that the agents of a deleted file are no longer in force, even if another file
// is invalid, and that they return with the file.
func TestLoader_deleted_file(t *testing.T) {
	folder := t.TempDir()
	a, b := filepath.Join(folder, "a.yaml"), filepath.Join(folder, "b.yaml")
	for path, name := range map[string]string{a: "one", b: "two"} {
		testkit.WriteAged(t, path, document(name), time.Hour)
	}
	l, err := Load(Options{Files: []string{a, b}, Logger: zap.NewNop(), Check: func([]*oagent.Agent) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		change func()
		want   []string
	}{
		{func() { _ = os.Remove(a) }, []string{"two"}},
		{func() { testkit.WriteAged(t, a, document("one"), time.Minute) }, []string{"one", "two"}},
		{func() { _ = os.Remove(a); testkit.WriteAged(t, b, "kind: [", time.Second) }, []string{"two"}},
		{func() { _ = os.Remove(b) }, nil},
	} {
		step.change()
		if l.updateStates() {
			l.reload()
		}
		if got := l.Last().AgentNames(); !slices.Equal(got, step.want) {
			t.Errorf("agents %q, want %q", got, step.want)
		}
	}
	if _, err := Load(Options{Files: []string{filepath.Join(folder, "*.yaml")}}); err == nil || !testkit.ContainsAll(err.Error(), "matches") {
		t.Errorf("no match: error %v", err)
	}
}
