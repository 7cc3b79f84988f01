package openapi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
)

const pointed = `
openapi: 3.1.0
info: {title: A}
paths: {}
components:
  schemas:
    Plain: {type: string}
    a/b: {type: integer}
    c~d: {type: number}
    e f: {type: 'null'}
    100%: {type: boolean}
    Anchored: {$anchor: here, type: array}
    List: {oneOf: [{type: string}, {type: object}]}
    Chain: {$ref: '#/components/schemas/Link'}
    Link: {$ref: '#/components/schemas/Plain'}
    Loop: {$ref: '#/components/schemas/Pool'}
    Pool: {$ref: '#/components/schemas/Loop'}
    Tail: {$ref: '#/components/schemas/Loop'}
    NotText: {$ref: 5, type: string}
`

func placeOf(d *Document, ref string) Place {
	node := object([]Member{{"$ref", Text(ref)}})
	return Place{node, d.Root().File}
}

func TestFollow(t *testing.T) {
	d := readText(t, pointed)
	tests := []struct{ ref, name, want string }{
		{"#/components/schemas/Plain", "Plain", `{"type":"string"}`},
		{"#/components/schemas/a~1b", "a/b", `{"type":"integer"}`},
		{"#/components/schemas/c~0d", "c~d", `{"type":"number"}`},
		{"#/components/schemas/e%20f", "e f", `{"type":"null"}`},
		{"#/components/schemas/e f", "e f", `{"type":"null"}`},
		{"#/components/schemas/100%", "100%", `{"type":"boolean"}`},
		{"#/components/schemas/100%25", "100%", `{"type":"boolean"}`},
		{"#/components/schemas/List/oneOf/1", "1", `{"type":"object"}`},
		{"#/components/schemas/Chain", "Chain", `{"$ref":"#/components/schemas/Link"}`},
		{"#here", "here", `{"$anchor":"here","type":"array"}`},
	}
	for _, test := range tests {
		t.Run(test.ref, func(t *testing.T) {
			for range 2 { // the second time from memory
				target, name, err := placeOf(d, test.ref).Follow()
				if err != nil {
					t.Fatal(err)
				}
				if got := string(target.AppendJSON(nil)); got != test.want || name != test.name {
					t.Errorf("got %q %s, want %q %s", name, got, test.name, test.want)
				}
			}
		})
	}
	whole, name, err := placeOf(d, "#").Follow()
	if err != nil || whole != d.Root() || name != "the document" {
		t.Errorf("whole document: %q %v", name, err)
	}
	schemas := d.Root().At("components").At("schemas")
	if same, name, err := schemas.At("NotText").Follow(); err != nil || name != "" || same != schemas.At("NotText") {
		t.Errorf("a $ref that is no text: %q %v", name, err)
	}
}

func TestFollowErrors(t *testing.T) {
	d := readText(t, pointed)
	for ref, want := range map[string]string{
		"#/components/schemas/None":          "None no member $ref",
		"#/components/schemas/List/oneOf/2":  "2 no member $ref",
		"#/components/schemas/List/oneOf/-1": "-1 no member $ref",
		"#/components/schemas/Plain/type/x":  "x no member $ref",
		"#none":                              "no $anchor",
		"http://example.com/a.yaml":          "URL not followed",
		"https://example.com/a.yaml#/b":      "URL not followed",
		"//example.com/a.yaml":               "URL not followed",
		"file:///etc/passwd":                 "not file:",
		"urn:example:a":                      "not urn:",
		"other.yaml#/a":                      "option refs",
	} {
		_, _, err := placeOf(d, ref).Follow()
		if err == nil || !testkit.ContainsAll(err.Error(), want) || !strings.Contains(err.Error(), fmt.Sprintf("%q", ref)) {
			t.Errorf("%s: got %v, want %q", ref, err, want)
		}
	}
	if _, _, err := (Place{placeOf(d, "#/a").Node, nil}).Follow(); err == nil {
		t.Error("a $ref without a file was followed")
	}
}

func TestResolve(t *testing.T) {
	d := readText(t, pointed)
	schemas := d.Root().At("components").At("schemas")
	if got, err := schemas.At("Chain").Resolve(); err != nil || got != schemas.At("Plain") {
		t.Errorf("chain: %v", err)
	}
	for _, name := range []string{"Loop", "Tail"} {
		if _, err := schemas.At(name).Resolve(); !errors.Is(err, errRefCycle) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	long := &strings.Builder{}
	long.WriteString("openapi: 3.0.0\n")
	for i := range 100 {
		fmt.Fprintf(long, "x-%d: {$ref: '#/x-%d'}\n", i, i+1)
	}
	long.WriteString("x-100: {}")
	chain := readText(t, long.String()).Root()
	if _, err := chain.At("x-0").Resolve(); err == nil || !testkit.ContainsAll(err.Error(), "32") {
		t.Errorf("long chain: got %v", err)
	}
	if _, err := chain.At("x-69").Resolve(); err != nil {
		t.Errorf("31 steps: %v", err)
	}
}

func TestFollow_is_safe_for_many_readers(t *testing.T) {
	d := readDocument(t, "multi/openapi.yaml", Options{Refs: testdata})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for _, op := range d.Operations() {
				for _, response := range op.Responses {
					for _, media := range response.Content {
						if _, err := media.Schema.Resolve(); err != nil {
							t.Error(err)
						}
					}
				}
			}
			d.Hash()
		})
	}
	group.Wait()
}

func TestRefs_to_other_files(t *testing.T) {
	t.Run("below-refs", func(t *testing.T) {
		multi := filepath.Join(testdata, "multi")
		d := readDocument(t, "multi/openapi.yaml", Options{Refs: multi})
		alone := d.Hash()
		if got := summary(d); got != "GET /parcels listParcels; POST /parcels sendParcel; GET /letters listLetters; /lost failed; GET /escape escape" {
			t.Errorf("operations: %s", got)
		}
		letter, name, err := find(t, d, "sendParcel").Body.Content[0].Schema.Follow()
		if err != nil || name != "Letter" {
			t.Fatalf("%q %v", name, err)
		}
		if !letter.File.Version30 {
			t.Error("the file does not have the version of the document")
		}
		if stamp, _, err := letter.At("properties").At("stamp").Follow(); err != nil || stamp.Get("type").Text() != "string" {
			t.Errorf("a $ref within the file: %v", err)
		}
		if reply, _, err := letter.At("properties").At("reply").Follow(); err != nil || reply != letter {
			t.Errorf("a $ref to the file's own name gives another place: %v", err)
		}
		if p := find(t, d, "listParcels").Parameters; len(p) != 1 || p[0].Name != "weight" {
			t.Errorf("parameters %+v", p)
		}
		escape := find(t, d, "escape")
		if len(escape.Parameters) != 0 || !hasWords(escape.Warnings, "outside") {
			t.Errorf("escape: %q", escape.Warnings)
		}
		var files []string
		for _, path := range d.Files() {
			files = append(files, filepath.Base(path))
		}
		slices.Sort(files)
		if want := []string{"letter.yaml", "missing.yaml", "openapi.yaml", "parcels.yaml"}; !slices.Equal(files, want) {
			t.Errorf("files %q", files)
		}
		if alone == d.Hash() {
			t.Error("the hash does not cover the other files")
		}
	})
	t.Run("wider-refs", func(t *testing.T) {
		d := readDocument(t, "multi/openapi.yaml", Options{Refs: testdata})
		if escape := find(t, d, "escape"); len(escape.Parameters) != 1 || escape.Parameters[0].Name != "flag" {
			t.Errorf("escape: %q", escape.Warnings)
		}
	})
	t.Run("off", func(t *testing.T) {
		d := readDocument(t, "multi/openapi.yaml", Options{})
		for _, op := range d.Operations() {
			if op.Path == "/parcels" && (op.Err == nil || !testkit.ContainsAll(op.Err.Error(), "option refs")) {
				t.Errorf("got %v", op.Err)
			}
		}
		if len(d.Files()) != 1 {
			t.Errorf("files %q", d.Files())
		}
	})
}

func TestRefs_stay_below_directory(t *testing.T) {
	outside, inside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "secret.yaml"), "secret: true")
	write(t, filepath.Join(inside, "sub", "good.yaml"), "good: true")
	write(t, filepath.Join(inside, "broken.yaml"), "a: [")
	if err := os.Symlink(filepath.Join(outside, "secret.yaml"), filepath.Join(inside, "link.yaml")); err != nil {
		t.Skip("no symbolic links here")
	}
	if err := os.Symlink(filepath.Join("sub", "good.yaml"), filepath.Join(inside, "alias.yaml")); err != nil {
		t.Fatal(err)
	}
	d, err := Read([]byte("openapi: 3.0.0"), Options{Location: "https://example.com/openapi.yaml", Refs: inside})
	if err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{
		"sub/good.yaml":                  "",
		"./sub/../sub/good.yaml#/good":   "",
		"alias.yaml":                     "",
		"sub%2Fgood.yaml":                "",
		"link.yaml":                      "escapes",
		"../secret.yaml":                 "outside",
		"%2e%2e/secret.yaml":             "outside",
		"sub/../../secret.yaml":          "outside",
		filepath.Join(outside, "x.yaml"): "relative path",
		"sub":                            "not regular",
		"none.yaml":                      "no file",
		"broken.yaml":                    "broken.yaml: yaml",
		"nul%00.yaml":                    "relative path",
	} {
		_, _, err := placeOf(d, ref).Follow()
		if want == "" && err != nil || want != "" && (err == nil || !testkit.ContainsAll(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", ref, err, want)
		}
	}
}

func TestNumber_of_files_is_bounded(t *testing.T) {
	dir := t.TempDir()
	d, err := Read([]byte("openapi: 3.0.0"), Options{Refs: dir})
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxFiles {
		write(t, filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), "a: 1")
		if _, _, err := placeOf(d, fmt.Sprintf("%d.yaml", i)).Follow(); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := placeOf(d, "more.yaml").Follow(); err == nil || !testkit.ContainsAll(err.Error(), "256 files") {
		t.Errorf("got %v", err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
