package schema_test

import (
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/schema"
)

// BenchmarkInputs translates the parameters and JSON bodies of all operations
// of GitHub's document.
func BenchmarkInputs(b *testing.B) {
	places := operationSchemas(b, "github-api.github.com.json.gz", func(operation openapi.Place) openapi.Place {
		return operation.At("requestBody")
	})
	b.ReportAllocs()
	for b.Loop() {
		translator := schema.NewTranslator(schema.Auto, schema.Input)
		var text []byte
		size := 0
		for _, place := range places {
			s := translator.Translate(place)
			text = translator.Writings()[0].AppendDefs(append(text[:0], s.Text()...), s)
			size += len(text)
		}
		b.ReportMetric(float64(size), "bytes")
	}
}

// BenchmarkAnswers translates the bounded answers of all operations of Stripe's
// document.
func BenchmarkAnswers(b *testing.B) {
	places := operationSchemas(b, "stripe.json.gz", func(operation openapi.Place) openapi.Place {
		return operation.At("responses").At("200")
	})
	b.ReportAllocs()
	for b.Loop() {
		translator := schema.NewTranslator(schema.Auto, schema.Output)
		var text []byte
		size := 0
		for _, place := range places {
			text = translator.AppendBounded(text[:0], place, 16<<10)
			size += len(text)
		}
		b.ReportMetric(float64(size), "bytes")
	}
}

func operationSchemas(b *testing.B, name string, content func(openapi.Place) openapi.Place) []openapi.Place {
	d, err := openapi.Read(testkit.ReadDocument(b, "openapi/"+name), openapi.Options{})
	if err != nil {
		b.Fatal(err)
	}
	var places []openapi.Place
	paths := d.Root().At("paths")
	for _, path := range paths.Members() {
		item := paths.Item(path.Value)
		for _, m := range path.Value.Members() {
			operation := item.Item(m.Value)
			parameters := operation.At("parameters")
			for _, p := range parameters.Items() {
				if p, err := parameters.Item(p).Resolve(); err == nil {
					places = append(places, p.At("schema"))
				}
			}
			media := content(operation).At("content")
			for _, m := range media.Members() {
				places = append(places, media.Item(m.Value).At("schema"))
			}
		}
	}
	return places
}
