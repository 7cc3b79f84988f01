package schema_test

import (
	"testing"

	"github.com/fairwayhq/fairway/tools/schema"
)

func TestBounded(t *testing.T) {
	components := `{
		"S":{"type":"object","properties":{"big":{"$ref":"#/components/schemas/Big"},"mine":{"$ref":"#/components/schemas/Big","description":"m"},"node":{"$ref":"#/components/schemas/Node"}}},
		"Big":{"type":"object","description":"big","properties":{"a":{"type":"array","items":{"type":"object","properties":{"b":{"enum":["` + long + `"]}}}}}},
		"Node":{"type":"object","properties":{"next":{"$ref":"#/components/schemas/Node"},"big":{"$ref":"#/components/schemas/Big"}}},
		"Alias":{"$ref":"#/components/schemas/Big"}}`
	const (
		node      = `"Node":{"type":"object","properties":{"next":{"$ref":"#/$defs/Node"},"big":`
		bigRef    = `{"$ref":"#/$defs/Big"}`
		bigStub   = `{"type":"object","description":"Big (details left out)"}`
		nodeInS   = `"node":{"$ref":"#/$defs/Node"}}`
		bigBefore = `"Big":{"type":"object","description":"big","properties":{"a":{"type":"array","items":{"type":"object","properties":{"b":{"enum":["`
		bigAfter  = `"]}}}}}}`
	)
	big := bigBefore + long + bigAfter
	tests := []struct {
		rule, name string
		max        int
		want       string
	}{
		{"all fits", "S", 5000, `{"type":"object","properties":{"big":` + bigRef + `,"mine":{"description":"m","$ref":"#/$defs/Big"},` + nodeInS + `,"$defs":{` + big + `,` + node + bigRef + `}}}}`},
		{"the large target does not fit", "S", 1200, `{"type":"object","properties":{"big":` + bigStub + `,"mine":{"description":"m","type":"object"},` + nodeInS + `,"$defs":{` + node + bigStub + `}}}}`},
		{"no target fits", "S", 500, `{"type":"object","properties":{"big":` + bigStub + `,"mine":{"description":"m","type":"object"},"node":{"type":"object","description":"Node (details left out)"}}}`},
		{"not even the schema without targets", "S", 200, `{"type":"object","properties":{"big":{"type":"object"},"mine":{"type":"object"},"node":{"type":"object"}}}`},
		{"as deep as fits", "Big", 700, `{"type":"object","description":"big","properties":{"a":{"type":"array","items":{"type":"object","properties":{"b":{"type":"string"}}}}}}`},
		{"a level less", "Big", 110, `{"type":"object","description":"big","properties":{"a":{"type":"array","items":{"type":"object"}}}}`},
		{"the types of the properties", "Big", 90, `{"type":"object","description":"big","properties":{"a":{"type":"array","items":{}}}}`},
		{"the type", "Big", 40, `{"type":"object"}`},
		{"nothing", "Big", 10, `{}`},
		{"a $ref whose target does not fit", "Alias", 700, `{"type":"object","description":"big","properties":{"a":{"type":"array","items":{"type":"object","properties":{"b":{"type":"string"}}}}}}`},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			translator := schema.NewTranslator(schema.Auto, schema.Output)
			got := translator.AppendBounded([]byte("before"), document(t, "3.0.0", components).At(test.name), test.max)
			if string(got) != "before"+test.want {
				t.Errorf("\n got %s\nwant %s", got, test.want)
			}
			compile(t, got[len("before"):])
		})
	}
}
