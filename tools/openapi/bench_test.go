package openapi

import (
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// BenchmarkReadGitHub reads GitHub's document, of 13 MB, beside kin-openapi
// that only loads it.
func BenchmarkReadGitHub(b *testing.B) {
	data := testkit.ReadDocument(b, "openapi/"+"github-api.github.com.json"+".gz")
	b.Run("fairway", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			document, err := Read(data, Options{})
			if err != nil {
				b.Fatal(err)
			}
			if len(document.Operations()) == 0 {
				b.Fatal("no operations")
			}
		}
	})
	b.Run("kin-openapi", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := openapi3.NewLoader().LoadFromData(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}
