package docs

import (
	"os"
	"regexp"
	"testing"

	"github.com/fairwayhq/fairway/docs/configdoc"
)

// ending is what the doc comment of a configuration field ends with: its default, or that it
// has none.
var ending = regexp.MustCompile(`(Default: [^\n]+|Required|is required)[^\n]*\.\)?$`)

func TestJSON_fields_are_documented_with_their_default(t *testing.T) {
	types, err := configdoc.Types(root)
	if err != nil {
		t.Fatal(err)
	}
	fields := 0
	for _, described := range types {
		if described.Doc == "" {
			t.Errorf("%s has no doc comment", described.ID)
		}
		for _, field := range described.Fields {
			fields++
			if !ending.MatchString(field.Doc) {
				t.Errorf("%s: the doc comment does not end with the default: %q", field.Go, field.Doc)
			}
		}
	}
	if fields < 150 {
		t.Errorf("only %d fields found", fields)
	}
}

func TestJSON_page_is_current(t *testing.T) {
	want, err := configdoc.Page(root)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("json.md", []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("json.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/json.md is out of date; run: go test ./docs -run JSON -update")
	}
}
