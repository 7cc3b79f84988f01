package testkit

import (
	"bytes"
	"fmt"
	"strings"
)

// WideOptions sets the size of a document.
type WideOptions struct {
	Operations  int
	Schemas     int
	Properties  int // per schema; every third refers to another schema
	Description int // bytes of each property's description
}

// WideDocument returns the document as JSON. The input and the output of each operation is a
// schema that refers, directly or indirectly, to all others.
func WideDocument(o WideOptions) []byte {
	var b bytes.Buffer
	b.WriteString(`{"openapi":"3.0.3","info":{"title":"Wide","version":"1"},"components":{"schemas":{`)
	text := strings.Repeat("what this value is for and how it is set. ", o.Description/42+1)[:o.Description]
	for i := range o.Schemas {
		fmt.Fprintf(&b, `"Schema%04d":{"type":"object","description":"Schema %d: %s","properties":{`, i, i, text)
		for j := range o.Properties {
			if j > 0 {
				b.WriteByte(',')
			}
			target := (i*7 + j*j*13 + j + 1) % o.Schemas
			switch j % 6 {
			case 0:
				fmt.Fprintf(&b, `"property%02d":{"$ref":"#/components/schemas/Schema%04d"}`, j, target)
			case 3:
				fmt.Fprintf(&b, `"property%02d":{"type":"array","description":"%s","items":{"$ref":"#/components/schemas/Schema%04d"}}`, j, text, target)
			default:
				fmt.Fprintf(&b, `"property%02d":{"type":"string","description":"Property %d: %s","example":"value%d"}`, j, j, text, i)
			}
		}
		b.WriteString(`}},`)
	}
	b.WriteString(`"Last":{}}},"paths":{`)
	for i := range o.Operations {
		if i > 0 {
			b.WriteByte(',')
		}
		ref := fmt.Sprintf(`{"application/json":{"schema":{"$ref":"#/components/schemas/Schema%04d"}}}`, i%o.Schemas)
		fmt.Fprintf(&b, `"/accounts/{accountId}/things%d":{"post":{"operationId":"Things_Post%d","summary":"Creates thing %d","description":"%s",`+
			`"parameters":[{"name":"accountId","in":"path","required":true,"schema":{"type":"string"},"description":"The account."}],`+
			`"requestBody":{"content":%s},"responses":{"200":{"description":"OK","content":%s}}}}`, i, i, i, text, ref, ref)
	}
	b.WriteString(`}}`)
	return b.Bytes()
}
