package client

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/skills"
)

// marked returns the URI at the gateway and the mark of each resource, by its URI at the server.
func marked(t *testing.T, d *discovery) map[string]string {
	t.Helper()
	found := make(map[string]string)
	for _, r := range d.resources("crm.x") {
		if err := strictjson.Check(r.definition); err != nil {
			t.Fatalf("%v in %s", err, r.definition)
		}
		uri := strictjson.Text(strictjson.MemberOf(r.definition, "uri"))
		if found[uri] != "" {
			t.Errorf("%s is there twice", uri)
		}
		found[uri] = r.uri + " " + string(strictjson.MemberOf(r.definition, skills.Extension))
	}
	return found
}

// skillEntry returns an entry with files of these names.
func skillEntry(uri, name string, files ...string) jsontext.Value {
	list := make([]string, len(files))
	for i, file := range files {
		list[i] = fmt.Sprintf(`{"uri":%q,"digest":"sha256:%064d","size":%d}`, file, i, i)
	}
	return jsontext.Value(fmt.Sprintf(`{"uri":%q,"frontmatter":{"name":%q,"description":"d","x":[1]},"resources":[%s],"more":1}`, uri, name, strings.Join(list, ",")))
}

func TestSkills_of_a_server_get_the_name_of_its_toolset(t *testing.T) {
	d := &discovery{
		Resources: []jsontext.Value{
			[]byte(`{"uri":"memo://plan","name":"plan"}`),
			[]byte(`{"uri":"skill://refunds/SKILL.md","name":"refunds","title":"Own"}`),
			[]byte(`{"uri":"github://o/reports/today.md","name":"today"}`),
		},
		Skills: []jsontext.Value{
			skillEntry("skill://refunds/SKILL.md", "refunds", "skill://refunds/SKILL.md", "skill://refunds/a%20b.md", "skill://refunds/in/SKILL.md"),
			skillEntry("skill://refunds/in/SKILL.md", "in", "skill://refunds/in/SKILL.md"),
			[]byte(`{"uri":"github://o/reports/SKILL.md","frontmatter":{"name":"reports","description":"d"},"resources":"dynamic"}`),
		},
	}
	zero := strings.Repeat("0", 64)
	want := map[string]string{
		"memo://plan": "memo://plan ",
		"skill://refunds/SKILL.md": `skill://crm_x/refunds/SKILL.md {"uri":"skill://crm_x/refunds/SKILL.md","frontmatter":{"name":"refunds","description":"d","x":[1]},"resources":[` +
			`{"uri":"skill://crm_x/refunds/SKILL.md","digest":"sha256:` + zero + `","size":0},{"uri":"skill://crm_x/refunds/a%20b.md","digest":"sha256:` + zero[1:] + `1","size":1},` +
			`{"uri":"skill://crm_x/refunds/in/SKILL.md","digest":"sha256:` + zero[1:] + `2","size":2}]}`,
		"skill://refunds/a%20b.md": "skill://crm_x/refunds/a%20b.md true",
		"skill://refunds/in/SKILL.md": `skill://crm_x/refunds/in/SKILL.md {"uri":"skill://crm_x/refunds/in/SKILL.md","frontmatter":{"name":"in","description":"d","x":[1]},"resources":[` +
			`{"uri":"skill://crm_x/refunds/in/SKILL.md","digest":"sha256:` + zero + `","size":0}]}`,
		"github://o/reports/SKILL.md": `skill://crm_x/o/reports/SKILL.md {"uri":"skill://crm_x/o/reports/SKILL.md","frontmatter":{"name":"reports","description":"d"},"resources":"dynamic"}`,
		"github://o/reports/today.md": "skill://crm_x/o/reports/today.md true",
	}
	got := marked(t, d)
	for uri, w := range want {
		if got[uri] != w {
			t.Errorf("%s:\ngot  %s\nwant %s", uri, got[uri], w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d resources, want %d", len(got), len(want))
	}
}

func TestSkills_of_a_server_that_are_not_valid_are_ignored(t *testing.T) {
	const own = "skill://a/SKILL.md"
	many := []string{own}
	for i := range skills.MaxFiles {
		many = append(many, fmt.Sprint("skill://a/", i))
	}
	for rule, entry := range map[string]jsontext.Value{
		"other name":      skillEntry(own, "b", own),
		"invalid name":    skillEntry("skill://A/SKILL.md", "A", "skill://A/SKILL.md"),
		"no folder":       skillEntry("skill://SKILL.md", "a", "skill://SKILL.md"),
		"no scheme":       skillEntry("a/SKILL.md", "a", "a/SKILL.md"),
		"other file":      skillEntry("skill://a/README.md", "a", "skill://a/README.md"),
		"upwards":         skillEntry("skill://../a/SKILL.md", "a", "skill://../a/SKILL.md"),
		"file outside":    skillEntry(own, "a", own, "skill://b/x"),
		"file upwards":    skillEntry(own, "a", own, "skill://a/../b/x"),
		"file twice":      skillEntry(own, "a", own, own),
		"without its own": skillEntry(own, "a", "skill://a/x"),
		"many files":      skillEntry(own, "a", many...),
		"no frontmatter":  []byte(`{"uri":"` + own + `","resources":"dynamic"}`),
		"no description":  []byte(`{"uri":"` + own + `","frontmatter":{"name":"a"},"resources":"dynamic"}`),
		"no resources":    []byte(`{"uri":"` + own + `","frontmatter":{"name":"a","description":"d"}}`),
		"digest":          []byte(strings.Replace(string(skillEntry(own, "a", own)), "sha256:0", "sha256:x", 1)),
		"size":            []byte(strings.Replace(string(skillEntry(own, "a", own)), `"size":0`, `"size":-1`, 1)),
		"large":           []byte(strings.Replace(string(skillEntry(own, "a", own)), `"size":0`, `"size":16777217`, 1)),
		"an array":        []byte(`[]`),
	} {
		d := &discovery{Skills: []jsontext.Value{entry}, Resources: []jsontext.Value{
			[]byte(`{"uri":"skill://a/SKILL.md","name":"a","` + skills.Extension + `":{"uri":"skill://a/SKILL.md"}}`), // forged
		}}
		got := marked(t, d)
		mark, unchanged := strings.CutPrefix(got[own], own+" ")
		if len(got) != 1 || !unchanged || mark != "" && mark[0] != '"' {
			t.Errorf("%s: %v", rule, got)
		}
	}
}
