package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// The generated documents of the benchmarks.

// itemsDocument describes the API of serveUpstream.
const itemsDocument = `{
  "openapi": "3.1.0",
  "info": {"title": "Items", "version": "1.0.0"},
  "paths": {
    "/items": {"get": {
      "operationId": "list_items", "description": "Lists all items.",
      "responses": {"200": {"description": "The items.", "content": {"application/json": {"schema": {"type": "object"}}}}}
    }, "post": {
      "operationId": "create_item", "description": "Creates an item.",
      "requestBody": {"required": true, "content": {"application/json": {"schema": {
        "type": "object", "required": ["name", "price"],
        "properties": {
          "name": {"type": "string", "minLength": 1}, "price": {"type": "integer", "minimum": 0},
          "stock": {"type": "integer", "minimum": 0}, "tags": {"type": "array", "items": {"type": "string"}},
          "description": {"type": "string", "maxLength": 1000}
        }}}}},
      "responses": {"201": {"description": "The item.", "content": {"application/json": {"schema": {"type": "object"}}}}}
    }},
    "/items/{item_id}": {"get": {
      "operationId": "read_item", "description": "Reads an item.",
      "parameters": [
        {"name": "item_id", "in": "path", "required": true, "schema": {"type": "string"}},
        {"name": "currency", "in": "query", "schema": {"type": "string", "enum": ["CHF", "EUR"]}}
      ],
      "responses": {"200": {"description": "The item.", "content": {"application/json": {"schema": {"type": "object"}}}}}
    }}
  }
}`

// manyOperations is the number of operations in manyDocument.
const manyOperations = 1000

// manyDocument describes a large API: 1,000 operations with a few arguments each.
func manyDocument() []byte {
	var b bytes.Buffer
	b.WriteString(`{"openapi":"3.1.0","info":{"title":"Many","version":"1.0.0"},"paths":{`)
	for i := range manyOperations {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"/resource%03d/{id}":{"get":{"operationId":"get_resource_%03d",`+
			`"description":"Reads the resource of kind %03d with the given id.","parameters":[`+
			`{"name":"id","in":"path","required":true,"description":"The id of the resource.","schema":{"type":"string"}},`+
			`{"name":"fields","in":"query","description":"The fields to answer with.","schema":{"type":"array","items":{"type":"string"}}},`+
			`{"name":"limit","in":"query","schema":{"type":"integer","minimum":1,"maximum":100,"default":20}}],`+
			`"responses":{"200":{"description":"The resource."}}}}`, i, i, i)
	}
	b.WriteString(`}}`)
	return b.Bytes()
}

// The size of chainDocument.
const (
	chains = 100
	layers = 40
)

// chainDocument describes an API whose schemas grow exponentially when references are
// inlined: each operation has a chain of 40 schemas, and each schema refers to the next
// one twice.
func chainDocument() []byte {
	var b bytes.Buffer
	b.WriteString(`{"openapi":"3.0.3","info":{"title":"Chains","version":"1.0.0"},"paths":{`)
	for c := range chains {
		if c > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"/chains/%d":{"post":{"operationId":"post_chain_%d","description":"Posts chain %d.",`+
			`"requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/C%dL0"}}}},`+
			`"responses":{"200":{"description":"Posted.","content":{"application/json":{"schema":{"$ref":"#/components/schemas/C%dL1"}}}}}}}`,
			c, c, c, c, c)
	}
	b.WriteString(`},"components":{"schemas":{`)
	for c := range chains {
		for l := range layers {
			if c+l > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `"C%dL%d":{"type":"object","required":["name"],"properties":{`+
				`"name":{"type":"string","description":"What layer %d of chain %d is called.","maxLength":100},`+
				`"state":{"type":"string","enum":["open","closed","merged"]},"count":{"type":"integer","minimum":0,"nullable":true}`, c, l, l, c)
			if l+1 < layers {
				fmt.Fprintf(&b, `,"left":{"$ref":"#/components/schemas/C%dL%d"},"right":{"$ref":"#/components/schemas/C%dL%d"}`, c, l+1, c, l+1)
			}
			b.WriteString(`}}`)
		}
	}
	b.WriteString(`}}}`)
	return b.Bytes()
}

// unpackShared decompresses a document of ../shared/openapi to path. If that folder does
// not exist beside the checkout, the error is fs.ErrNotExist.
func unpackShared(name, path string) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	packed, err := os.Open(filepath.Join(root, "..", "shared", "openapi", name))
	if err != nil {
		return err
	}
	defer packed.Close()
	r, err := gzip.NewReader(packed)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	document, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(path, document, 0o600)
}
