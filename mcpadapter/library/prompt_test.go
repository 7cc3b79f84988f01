package library

import (
	"os"
	"testing"
)

func FuzzReadPrompts(f *testing.F) {
	for _, name := range []string{"trains.yaml", "trains.json"} {
		data, err := os.ReadFile("../../testdata/prompts/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		prompts, err := ReadPrompts(data, func(string) ([]byte, error) { return []byte("x"), nil })
		if err != nil {
			return
		}
		if _, err := NewLibrary(LibraryOptions{Prompts: prompts}); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzParseTemplate(f *testing.F) {
	f.Add("a {{b}} {{{{c}}", "{{b}}")
	f.Fuzz(func(t *testing.T, source, value string) {
		template, err := ParseTemplate(source)
		if err != nil {
			return
		}
		values := make(map[string]string)
		for _, name := range template.names() {
			values[name] = value
		}
		if got := template.Fill(values); len(got) != template.Size(values) {
			t.Fatalf("%q has %d bytes, not %d", got, len(got), template.Size(values))
		}
	})
}
