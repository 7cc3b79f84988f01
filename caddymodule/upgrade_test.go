package caddymodule_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// brokenSince has the golden files of the release before that this version breaks on purpose, with the reason. Only a
// major version, or a minor one before 1.0, may have an entry; docs/upgrade.md says what to do.
var brokenSince = map[string]string{}

// TestAdapt_the_release_before adapts the golden Caddyfiles of the latest tag. Each must still be accepted, and its JSON
// must have all that it had. While there is no tag, it takes the files of this version.
func TestAdapt_the_release_before(t *testing.T) {
	golden := goldenOfTag(t)
	if len(golden) == 0 {
		t.Fatal("no golden files")
	}
	for name, content := range golden {
		caddyfile, before, _ := strings.Cut(content, "----------\n")
		problem := ""
		var was, is any
		if got, _, err := sitetest.Adapt(caddyfile); err != nil {
			problem = err.Error()
		} else if err := json.Unmarshal([]byte(before), &was); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if err := json.Unmarshal([]byte(got), &is); err != nil {
			t.Errorf("%s: %v", name, err)
		} else {
			problem = lost("", was, is)
		}
		if (problem != "") != (brokenSince[name] != "") {
			t.Errorf("%s of the release before: %q; declared as broken because of %q", name, problem, brokenSince[name])
		}
	}
	for _, c := range []struct{ was, is, want string }{
		{`{"a":[{"b":1}]}`, `{"a":[{"b":1,"c":2}],"d":3}`, ""},
		{`{"a":[{"b":1}]}`, `{"a":[{"b":2}]}`, "a.0.b"},
		{`{"a":{"b":1}}`, `{"a":{}}`, "a.b"},
		{`{"a":[1]}`, `{"a":[1,2]}`, "a"},
	} {
		var was, is any
		if json.Unmarshal([]byte(c.was), &was) != nil || json.Unmarshal([]byte(c.is), &is) != nil {
			t.Fatal("invalid JSON")
		}
		if got := lost("", was, is); got != c.want {
			t.Errorf("from %s to %s: %q is lost, want %q", c.was, c.is, got, c.want)
		}
	}
}

// goldenOfTag returns the golden files by name: those of the latest tag before this commit, or those on the disk.
func goldenOfTag(t *testing.T) map[string]string {
	t.Helper()
	golden := make(map[string]string)
	tag, err := exec.Command("git", "describe", "--tags", "--abbrev=0", "--match=v[0-9]*", "HEAD^").Output()
	if err != nil {
		files, err := filepath.Glob("../testdata/caddyfile/*.caddyfiletest")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			golden[filepath.Base(file)] = string(data)
		}
		return golden
	}
	folder := strings.TrimSpace(string(tag)) + ":testdata/caddyfile"
	list, err := exec.Command("git", "ls-tree", "--full-tree", "--name-only", folder).Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(string(list)) {
		data, err := exec.Command("git", "show", folder+"/"+name).Output()
		if err != nil {
			t.Fatal(err)
		}
		golden[name] = string(data)
	}
	return golden
}

// lost returns the path of the first value that is not in the newer JSON, or "".
func lost(path string, was, is any) string {
	switch was := was.(type) {
	case map[string]any:
		is, ok := is.(map[string]any)
		if !ok {
			return strings.Trim(path, ".")
		}
		for name, value := range was {
			if problem := lost(path+"."+name, value, is[name]); problem != "" {
				return problem
			}
		}
		return ""
	case []any:
		is, ok := is.([]any)
		if !ok || len(is) != len(was) {
			return strings.Trim(path, ".")
		}
		for i, value := range was {
			if problem := lost(fmt.Sprintf("%s.%d", path, i), value, is[i]); problem != "" {
				return problem
			}
		}
		return ""
	default:
		if !reflect.DeepEqual(was, is) {
			return strings.Trim(path, ".")
		}
		return ""
	}
}
