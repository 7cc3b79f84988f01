package skills

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// write writes files below a directory and returns it.
func write(t testing.TB, dir string, files map[string]string) string {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func skillMD(name string) string {
	return "---\nname: " + name + "\ndescription: Does " + name + ".\n---\n# " + name + "\n"
}

func read(t testing.TB, dir string) *Set {
	t.Helper()
	set, changed, err := (&Directory{Path: dir}).Read()
	if err != nil || !changed {
		t.Fatalf("changed %v, error %v", changed, err)
	}
	return set
}

type entry struct {
	URI         string
	Frontmatter map[string]any
	Resources   []struct {
		URI, Digest string
		Size        int
	}
}

func entryOf(t testing.TB, s *Skill) (e entry) {
	t.Helper()
	if err := json.Unmarshal(s.Entry, &e); err != nil {
		t.Fatalf("%v in %s", err, s.Entry)
	}
	return e
}

func TestRead_lists_every_file_once_with_its_digest(t *testing.T) {
	dir := write(t, t.TempDir(), map[string]string{
		"acme/refunds/SKILL.md":             skillMD("refunds"),
		"acme/refunds/a b#.md":              "hello",
		"acme/refunds/empty":                "",
		"acme/refunds/.git/config":          "hidden",
		"acme/refunds/.env":                 "hidden",
		"acme/refunds/nested/one/SKILL.md":  skillMD("one"),
		"acme/refunds/nested/one/notes.txt": "notes",
		"acme/readme.md":                    "of no skill",
	})
	set := read(t, dir)
	if len(set.Skills) != 2 || len(set.Files) != 5 {
		t.Fatalf("%d skills with %d files", len(set.Skills), len(set.Files))
	}
	outer, inner := entryOf(t, set.Skills[0]), entryOf(t, set.Skills[1])
	if outer.URI != "skill://acme/refunds/SKILL.md" || inner.URI != "skill://acme/refunds/nested/one/SKILL.md" {
		t.Errorf("%s and %s", outer.URI, inner.URI)
	}
	if len(outer.Resources) != 5 || len(inner.Resources) != 2 {
		t.Errorf("%d and %d files", len(outer.Resources), len(inner.Resources))
	}
	want := map[string]string{ // sha256sum
		"skill://acme/refunds/a%20b%23.md": "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
		"skill://acme/refunds/empty":       "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	}
	for _, r := range outer.Resources {
		if digest, known := want[r.URI]; known && (r.Digest != digest || r.Size != map[bool]int{true: 5, false: 0}[strings.HasSuffix(r.URI, ".md")]) {
			t.Errorf("%+v", r)
		}
		delete(want, r.URI)
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
}

func TestFrontmatter_is_verbatim(t *testing.T) {
	dir := write(t, t.TempDir(), map[string]string{"a/SKILL.md": "\uFEFF---\r\nname: a\r\ndescription: >-\r\n  Folded\r\n  text\r\n" +
		"license: Apache-2.0\r\nmetadata: {version: \"1.10\", since: 2026-09-13, n: 1.50, big: 12345678901234567890, list: [yes, null, true]}\r\n--- \r\ntext\r\n---\r\n"})
	e := read(t, dir).Skills[0].Entry
	const want = `"frontmatter":{"name":"a","description":"Folded text","license":"Apache-2.0",` +
		`"metadata":{"version":"1.10","since":"2026-09-13","n":1.50,"big":12345678901234567890,"list":["yes",null,true]}}`
	if !strings.Contains(string(e), want) {
		t.Errorf("got  %s\nwant %s", e, want)
	}
}

func TestProblems_have_a_file_and_a_line(t *testing.T) {
	long := strings.Repeat("x", maxDescription+1)
	many := map[string]string{"a/SKILL.md": skillMD("a")}
	for i := range MaxFiles {
		many[fmt.Sprintf("a/%d", i)] = ""
	}
	for rule, c := range map[string]struct {
		files map[string]string
		want  string // after the directory
	}{
		"no frontmatter":        {map[string]string{"a/SKILL.md": "# A\n"}, "a/SKILL.md:1: the file must begin with"},
		"empty":                 {map[string]string{"a/SKILL.md": ""}, "a/SKILL.md:1: the file must begin with"},
		"no end":                {map[string]string{"a/SKILL.md": "---\nname: a\n"}, "a/SKILL.md:1: the frontmatter has no end"},
		"nothing in it":         {map[string]string{"a/SKILL.md": "---\n---\n"}, "a/SKILL.md:1: the frontmatter is empty"},
		"large":                 {map[string]string{"a/SKILL.md": "---\n" + strings.Repeat("#\n", maxFrontmatter/2+1) + "---\n"}, "a/SKILL.md:1: the frontmatter has more than"},
		"syntax":                {map[string]string{"a/SKILL.md": "---\nname: a\ndescription: b: c\n---\n"}, "a/SKILL.md:3: mapping values"},
		"a list":                {map[string]string{"a/SKILL.md": "---\n- name\n---\n"}, "a/SKILL.md:2: the frontmatter must be a mapping"},
		"no name":               {map[string]string{"a/SKILL.md": "---\ndescription: b\n---\n"}, "a/SKILL.md:2: name is missing"},
		"no description":        {map[string]string{"a/SKILL.md": "---\n\nname: a\n---\n"}, "a/SKILL.md:3: description is missing"},
		"blank description":     {map[string]string{"a/SKILL.md": "---\nname: a\ndescription: ' '\n---\n"}, "a/SKILL.md:3: description is empty"},
		"long description":      {map[string]string{"a/SKILL.md": "---\nname: a\ndescription: " + long + "\n---\n"}, "a/SKILL.md:3: description has 1025 characters"},
		"name of another":       {map[string]string{"a/SKILL.md": skillMD("b")}, "a/SKILL.md:2: name is b, but the folder is a"},
		"upper case":            {map[string]string{"A/SKILL.md": skillMD("A")}, `A/SKILL.md:2: name "A" must have`},
		"two hyphens":           {map[string]string{"a--b/SKILL.md": skillMD("a--b")}, `a--b/SKILL.md:2: name "a--b" must have`},
		"long name":             {map[string]string{strings.Repeat("a", 65) + "/SKILL.md": skillMD(strings.Repeat("a", 65))}, strings.Repeat("a", 65) + "/SKILL.md:2: name"},
		"a number":              {map[string]string{"1/SKILL.md": skillMD("1")}, "1/SKILL.md:2: name must be a string"},
		"duplicate":             {map[string]string{"a/SKILL.md": "---\nname: a\ndescription: b\nx: {y: 1,\n y: 2}\n---\n"}, "a/SKILL.md:5: duplicate key"},
		"alias":                 {map[string]string{"a/SKILL.md": "---\nname: &n a\ndescription: *n\n---\n"}, "a/SKILL.md:2: anchors and aliases"},
		"deep":                  {map[string]string{"a/SKILL.md": "---\nname: a\ndescription: b\nx: " + strings.Repeat("[", 20) + strings.Repeat("]", 20) + "\n---\n"}, "a/SKILL.md:4: lists and mappings nest"},
		"not UTF-8":             {map[string]string{"a/SKILL.md": "---\nname: a\ndescription: \xff\n---\n"}, "a/SKILL.md: is not valid UTF-8"},
		"directly in directory": {map[string]string{"SKILL.md": skillMD("a")}, "SKILL.md: must be in a folder"},
		"other case":            {map[string]string{"a/skill.md": skillMD("a")}, "a/skill.md: makes no skill"},
		"many files":            {many, "a: the skill has 513 files"},
		"deep folders":          {map[string]string{strings.Repeat("a/", maxDepth+1) + "x": ""}, strings.TrimSuffix(strings.Repeat("a/", maxDepth+1), "/") + ": folders nest deeper"},
	} {
		t.Run(rule, func(t *testing.T) {
			dir := write(t, t.TempDir(), c.files)
			set, _, err := (&Directory{Path: dir}).Read()
			if problems, ok := err.(FileErrors); !ok || set != nil || !strings.HasPrefix(problems[0].Error(), dir+"/"+c.want) { //nolint:errorlint // its type is documented
				t.Errorf("got %v; want %s", err, c.want)
			}
		})
	}
}

func TestProblems_of_all_skills_are_returned(t *testing.T) {
	files := make(map[string]string)
	for i := range maxProblems + 10 {
		files[fmt.Sprintf("a%d/SKILL.md", i)] = "# no frontmatter\n"
	}
	_, _, err := (&Directory{Path: write(t, t.TempDir(), files)}).Read()
	if problems := err.(FileErrors); len(problems) != maxProblems || !strings.Contains(err.Error(), fmt.Sprintf("%d more problems", maxProblems-maxShown)) { //nolint:errorlint // its type is documented
		t.Errorf("%d problems: %v", len(problems), err)
	}
}

// sparse makes a file of that size which takes no space.
func sparse(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

func TestRead_limits_sizes(t *testing.T) {
	for rule, c := range map[string]struct {
		files map[string]int64 // beside SKILL.md
		want  string           // "" if they are within the limits
	}{
		"a large file":     {map[string]int64{"a/x": MaxSize + 1}, "a/x: has more than 16 MiB"},
		"large files":      {map[string]int64{"a/x": MaxSize / 2, "a/y": MaxSize / 2}, "a: the skill has 16777257 bytes"},
		"exactly":          {map[string]int64{"a/x": MaxSize - int64(len(skillMD("a")))}, ""},
		"all skills":       {map[string]int64{"a/x": 15 << 20, "b/x": 15 << 20, "c/x": 15 << 20, "d/x": 15 << 20, "e/x": 15 << 20}, ": the skills have more than 64 MiB together"},
		"outside of skill": {map[string]int64{"f/x": 100 << 20}, ""},
	} {
		t.Run(rule, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				write(t, dir, map[string]string{name + "/SKILL.md": skillMD(name), "f/y": ""})
			}
			for name, size := range c.files {
				sparse(t, filepath.Join(dir, name), size)
			}
			_, _, err := (&Directory{Path: dir}).Read()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v; want %q", err, c.want)
			}
		})
	}
}

func TestSymbolic_links_stay_inside(t *testing.T) {
	outside := write(t, t.TempDir(), map[string]string{"secret": "secret", "b/SKILL.md": skillMD("b")})
	dir := write(t, t.TempDir(), map[string]string{"a/SKILL.md": skillMD("a"), "..data/c/SKILL.md": skillMD("c")})
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
	}
	link("..data/c", "c") // as volumes of Kubernetes do
	if set := read(t, dir); len(set.Skills) != 2 || set.Skills[1].URI != "skill://c/SKILL.md" {
		t.Errorf("got %d skills", len(set.Skills))
	}
	for name, target := range map[string]string{"a/secret": filepath.Join(outside, "secret"), "b": filepath.Join(outside, "b"), "a/up": "../../x", "a/nothing": "nothing"} {
		link(target, name)
		if _, _, err := (&Directory{Path: dir}).Read(); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, name)+": is a symbolic link") {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("..", "a/loop")
	if _, _, err := (&Directory{Path: dir}).Read(); err == nil || !strings.Contains(err.Error(), "nest deeper") {
		t.Errorf("a loop: %v", err)
	}
}

func TestRead_again_only_after_a_change(t *testing.T) {
	dir := write(t, t.TempDir(), map[string]string{"a/SKILL.md": skillMD("a"), "a/x": "1"})
	d := &Directory{Path: dir}
	file := filepath.Join(dir, "a", "x")
	before := time.Now().Add(-time.Hour)
	settle := func() {
		t.Helper()
		for _, name := range []string{"x", "SKILL.md"} {
			if err := os.Chtimes(filepath.Join(dir, "a", name), before, before); err != nil {
				t.Fatal(err)
			}
		}
	}
	steps := []struct {
		name    string
		change  func()
		changed bool
		failed  bool
	}{
		{"first", settle, true, false},
		{"nothing", func() {}, false, false},
		{"a touch", func() { before = before.Add(time.Minute); settle() }, false, false},
		{"content of the same size", func() { write(t, dir, map[string]string{"a/x": "2"}) }, true, false},
		{"and again, within the grain of the clock", func() { write(t, dir, map[string]string{"a/x": "3"}) }, true, false},
		{"a mistake", func() { write(t, dir, map[string]string{"a/SKILL.md": "x"}); settle() }, false, true},
		{"the same mistake", func() {}, false, true},
		{"the repair", func() {
			write(t, dir, map[string]string{"a/SKILL.md": skillMD("a")})
			before = before.Add(time.Minute)
			settle()
		}, false, false},
		{"a new file", func() { write(t, dir, map[string]string{"a/z": ""}) }, true, false},
		{"a deletion", func() { _ = os.Remove(file) }, true, false},
		{"all", func() { _ = os.RemoveAll(filepath.Join(dir, "a")) }, true, false},
	}
	for _, step := range steps {
		step.change()
		set, changed, err := d.Read()
		if changed != step.changed || (set != nil) != step.changed || (err != nil) != step.failed {
			t.Errorf("%s: changed %v, error %v", step.name, changed, err)
		}
	}
	if _, _, err := (&Directory{Path: filepath.Join(dir, "none")}).Read(); err == nil {
		t.Error("a directory that does not exist is read")
	}
}

func FuzzFrontmatter(f *testing.F) {
	f.Add([]byte(skillMD("a")))
	f.Add([]byte("---\nname: a\ndescription: [\n---"))
	f.Add([]byte("---\nname: a\ndescription: b\nx: {1: 2, <<: {y: 0x1F}, z: .inf}\n---"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := readFrontmatter(data, "a")
		if err != nil {
			return
		}
		var decoded map[string]any
		if err := json.Unmarshal(got.json, &decoded); err != nil || decoded["name"] != "a" || decoded["description"] != got.description {
			t.Errorf("%v in %s", err, got.json)
		}
	})
}

func BenchmarkRead_unchanged(b *testing.B) {
	files := make(map[string]string)
	for i := range 100 {
		name := fmt.Sprintf("s%d", i)
		files[name+"/SKILL.md"] = skillMD(name)
		for _, other := range slices.Repeat([]string{"x", "y"}, 4) {
			files[name+"/references/"+other] = other
		}
	}
	d := &Directory{Path: write(b, b.TempDir(), files)}
	if _, _, err := d.Read(); err != nil {
		b.Fatal(err)
	}
	d.settled = true
	for b.Loop() {
		if _, changed, err := d.Read(); changed || err != nil {
			b.Fatal(changed, err)
		}
	}
}
