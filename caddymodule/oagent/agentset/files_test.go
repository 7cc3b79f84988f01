package agentset

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/keyword"
	"github.com/fairwayhq/fairway/internal/watch/watchtest"
	"github.com/fairwayhq/fairway/oagent"
)

// document returns the document of an agent.
func document(name string) string {
	return "kind: openagentspec:v1/agent\nname: " + name + "\ndescription: Answers.\nintent: You answer.\nowner: team\ncapabilities: {}\n"
}

func TestReadFiles(t *testing.T) {
	folder := t.TempDir()
	a, b, large := filepath.Join(folder, "a.yaml"), filepath.Join(folder, "b.yaml"), filepath.Join(folder, "large.yaml")
	watchtest.WriteAged(t, a, document("one")+"---\n"+document("two"), time.Hour)
	watchtest.WriteAged(t, b, document("three"), time.Hour)
	watchtest.WriteAged(t, large, strings.Repeat("#", oagent.MaxDocument+1), time.Hour)
	read, err := ReadFiles([]string{a, b})
	if err != nil || len(read) != 3 || read[1].Name != "two" || read[2].Location != b {
		t.Fatalf("%v, %v", read, err)
	}
	for name, test := range map[string]struct {
		files []string
		want  string
	}{
		"missing":   {[]string{a, filepath.Join(folder, "none.yaml")}, "none.yaml path"},
		"too large": {[]string{large}, "large.yaml limit"},
		"same name": {[]string{a, b, b}, "three b.yaml:1"},
	} {
		if _, err := ReadFiles(test.files); err == nil || !keyword.All(err.Error(), test.want) {
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
	watchtest.WriteAged(t, a, document("one"), time.Hour)
	l := &Loader{options: Options{Files: []string{a, b}}, states: make([]fileState, 2)}
	for _, step := range []struct {
		rule   string
		change func()
		want   bool
	}{
		{"first check", func() {}, true},
		{"nothing happened", func() {}, false},
		{"touched", func() { watchtest.WriteAged(t, a, document("one"), time.Minute) }, false},
		{"other content", func() { watchtest.WriteAged(t, a, document("two"), time.Second) }, true},
		{"the missing file appeared", func() { watchtest.WriteAged(t, b, document("one"), time.Hour) }, true},
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
