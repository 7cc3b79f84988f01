package overlay_test

import (
	"bytes"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/overlay"
)

// An overlay changes what it selects of a large document, and nothing else.
func TestApply_to_public_documents(t *testing.T) {
	for name, c := range map[string]struct {
		overlay string
		changed func(t *testing.T, before, after *tools.Toolset)
	}{
		"github-api.github.com.json": {
			"- target: $.paths['/repos/{owner}/{repo}/issues'].post\n  update: {description: Create an issue.}\n- target: $..[?@.deprecated == true]\n  remove: true",
			func(t *testing.T, before, after *tools.Toolset) {
				created, _ := after.Tool("issues_create")
				if created == nil || created.Definition.Description != "Create an issue." {
					t.Errorf("got %+v", created)
				}
				if len(after.Tools()) >= len(before.Tools()) {
					t.Errorf("%d tools of %d are left", len(after.Tools()), len(before.Tools()))
				}
			},
		},
		"kubernetes-1.33-swagger-2.0.json": {
			"- target: $.paths[?@.get]\n  update: {get: {x-a: 1}}\n- target: $.definitions.*.description\n  update: D",
			func(t *testing.T, before, after *tools.Toolset) {
				if len(after.Tools()) != len(before.Tools()) {
					t.Errorf("%d tools of %d are left", len(after.Tools()), len(before.Tools()))
				}
			},
		},
		"train-travel-3.1.yaml": {
			"- target: $.paths['/bookings'].post\n  update: {summary: Book}",
			func(t *testing.T, before, after *tools.Toolset) {
				for i, b := range before.Tools() {
					a := after.Tools()[i]
					if booked := b.Operation() == "POST /bookings"; booked != (a.Definition.Title == "Book") || !bytes.Equal(a.Definition.InputSchema, b.Definition.InputSchema) {
						t.Errorf("%s: got %q and %s", a.Name, a.Definition.Title, a.Definition.InputSchema)
					}
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			data := testkit.ReadDocument(t, "openapi/"+name+".gz")
			before, err := tools.Build(data, tools.BuildOptions{})
			if err != nil {
				t.Fatal(err)
			}
			o, err := overlay.Read([]byte(actions(c.overlay)), "o.yaml")
			if err != nil {
				t.Fatal(err)
			}
			result, err := overlay.Apply(data, overlay.Options{}, o)
			if err != nil || len(result.Warnings) > 0 {
				t.Fatalf("%v, %v", err, result)
			}
			text, err := result.Text()
			if err != nil {
				t.Fatal(err)
			}
			after, err := tools.Build(text, tools.BuildOptions{})
			if err != nil {
				t.Fatal(err)
			}
			c.changed(t, before, after)
			again, err := tools.Build(result.JSON(), tools.BuildOptions{})
			if err != nil || len(again.Tools()) != len(after.Tools()) {
				t.Errorf("%v: the compact JSON has %d tools, the text has %d", err, len(again.Tools()), len(after.Tools()))
			}
		})
	}
}

// A document that no action changes is the same afterwards, except for white space.
func TestApply_keeps_the_rest(t *testing.T) {
	for _, name := range []string{"github-api.github.com.json", "stripe.json", "slack-web-v2.json"} {
		data := testkit.ReadDocument(t, "openapi/"+name+".gz")
		o, err := overlay.Read([]byte(actions("- target: $.nothing\n  remove: true")), "o.yaml")
		if err != nil {
			t.Fatal(err)
		}
		result, err := overlay.Apply(data, overlay.Options{}, o)
		if err != nil {
			t.Fatal(err)
		}
		before, err := tools.Build(data, tools.BuildOptions{})
		if err != nil {
			t.Fatal(err)
		}
		after, err := tools.Build(result.JSON(), tools.BuildOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range before.Tools() {
			if a := after.Tools()[i]; !bytes.Equal(a.AppendOCP(nil), b.AppendOCP(nil)) {
				t.Errorf("%s: tool %s changed", name, b.Name)
			}
		}
	}
}

func BenchmarkApply(b *testing.B) {
	data := testkit.ReadDocument(b, "openapi/github-api.github.com.json.gz")
	for name, text := range map[string]string{
		"one-path":    "- target: $.paths['/user'].get\n  update: {description: D}",
		"descendants": "- target: $..[?@.deprecated == true]\n  update: {x-a: 1}",
	} {
		o, err := overlay.Read([]byte(actions(text)), "o.yaml")
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				result, err := overlay.Apply(data, overlay.Options{}, o)
				if err != nil {
					b.Fatal(err)
				}
				_ = result.JSON()
			}
		})
	}
}
