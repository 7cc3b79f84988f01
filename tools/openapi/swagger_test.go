package openapi

import (
	"strings"
	"testing"
)

func TestSwagger(t *testing.T) {
	d := readDocument(t, "bakery-2.0.json", Options{})
	equal(t, "operations", summary(d), "GET /breads listBreads; POST /breads addBread; POST /breads/{id}/photo addPhoto; "+
		"POST /orders order; GET /orders brokenOrders failed; GET /receipts getReceipt")

	list := find(t, d, "listBreads")
	equal(t, "base path", list.BasePath, "/api/v1")
	equal(t, "parameters", parameterLines(list), []string{
		"query page form explode",
		"query ids form",
		"query grain form explode",
		"query shape spaceDelimited",
		"query crust pipeDelimited",
		"query oven tabDelimited",
		"header X-Shops simple",
	})
	if w := list.Warnings; len(w) != 0 {
		t.Errorf("warnings %q", w)
	}
	equal(t, "schema", string(list.Parameters[0].Schema.AppendJSON(nil)), `{"type":"integer","default":1}`)
	equal(t, "security", list.Security, []map[string][]string{{"till": nil}})
	equal(t, "answer", mediaLines(list.Responses[0].Content), []string{
		`application/json {"type":"array","items":{"$ref":"#/definitions/Bread"}}`,
		`application/xml {"type":"array","items":{"$ref":"#/definitions/Bread"}}`,
	})
	equal(t, "answer by ref", mediaLines(list.Responses[1].Content)[0], `application/json {"$ref":"#/definitions/Problem"}`)

	add := find(t, d, "addBread")
	equal(t, "body", mediaLines(add.Body.Content), []string{
		`application/json {"$ref":"#/definitions/Bread"}`,
		`application/vnd.bakery+json {"$ref":"#/definitions/Bread"}`,
	})
	equal(t, "shared parameter", parameterLines(add), []string{"query page form explode"})
	equal(t, "no answer body", len(add.Responses[0].Content), 0)
	if !add.Body.Required || add.Body.Description != "The bread" {
		t.Errorf("body %+v", add.Body)
	}

	photo := find(t, d, "addPhoto")
	equal(t, "multipart", mediaLines(photo.Body.Content), []string{`multipart/form-data {"type":"object","properties":{` +
		`"photo":{"type":"string","format":"binary","description":"A picture"},"tags":{"type":"array","items":{"type":"string"}}},"required":["photo"]}`})
	equal(t, "csv in a form", photo.Body.Content[0].Encoding, []Encoding{{Name: "tags", Style: "form", HasStyle: true, HasExplode: true}})
	equal(t, "own produces", mediaLines(photo.Responses[0].Content), []string{`text/plain {"type":"string"}`})
	equal(t, "no security", photo.Security, []map[string][]string{})

	order := find(t, d, "order")
	equal(t, "urlencoded", mediaLines(order.Body.Content), []string{`application/x-www-form-urlencoded {"type":"object","properties":{` +
		`"bread":{"type":"string","enum":["rye","wheat"]},"extras":{"type":"array","items":{"type":"string"}}},"required":["bread"]}`})
	equal(t, "multi in a form", order.Body.Content[0].Encoding, []Encoding{{Name: "extras", Style: "form", Explode: true, HasStyle: true, HasExplode: true}})
	equal(t, "file answer", mediaLines(find(t, d, "getReceipt").Responses[0].Content), []string{`application/pdf {"type":"string","format":"binary"}`})

	equal(t, "schema", string(d.Root().At("definitions").At("Bread").AppendJSON(nil)), `{"type":"object","discriminator":{"propertyName":"kind"},"required":["kind"],`+
		`"properties":{"kind":{"type":"string"},"x-nullable":{"type":"string"},"default":{"type":"string","x-nullable":true,"nullable":true},`+
		`"weight":{"type":"number","minimum":0,"exclusiveMinimum":true,"example":{"x-nullable":true}}}}`)
}

func mediaLines(content []Media) []string {
	var lines []string
	for _, media := range content {
		lines = append(lines, media.Type+" "+string(media.Schema.AppendJSON(nil)))
	}
	return lines
}

func TestSwagger_collection_formats_in_every_place(t *testing.T) {
	for _, test := range []struct{ in, format, want, warning string }{
		{"path", "pipes", "pipeDelimited", ""},
		{"path", "ssv", "spaceDelimited", ""},
		{"path", "tsv", "tabDelimited", ""},
		{"path", "multi", "simple", "multi"},
		{"header", "pipes", "pipeDelimited", ""},
		{"header", "ssv", "spaceDelimited", ""},
		{"header", "tsv", "simple", "tsv"},
		{"query", "tsv", "tabDelimited", ""},
		{"query", "multi", "form explode", ""},
		{"query", "commas", "form", "commas"},
	} {
		path := "/a"
		if test.in == "path" {
			path = "/{p}"
		}
		d := readText(t, `{"swagger":"2.0","info":{},"paths":{"`+path+`":{"get":{"parameters":[`+
			`{"name":"p","in":"`+test.in+`","required":true,"type":"array","items":{"type":"string"},"collectionFormat":"`+test.format+`"}]}}}}`)
		op := d.Operations()[0]
		lines := parameterLines(op)
		equal(t, test.in+" "+test.format, lines[len(lines)-1], test.in+" p "+test.want+" required")
		if warned := len(op.Warnings) > 0; warned != (test.warning != "") || warned && !strings.Contains(op.Warnings[0], test.warning) {
			t.Errorf("%s %s: warnings %q", test.in, test.format, op.Warnings)
		}
	}
}

func TestServers_on_another_host_are_named(t *testing.T) {
	for _, test := range []struct{ usual, own, path, want string }{
		{`{"url":"https://api.example.com/v1"}`, `{"url":"https://uploads.example.com/v2"}`, "", "uploads.example.com"},
		{`{"url":"https://api.example.com/v1"}`, "", `{"url":"https://{h}.example.com","variables":{"h":{"default":"files"}}}`, "files.example.com"},
		{`{"url":"https://api.example.com/v1"}`, `{"url":"https://API.example.com/v2"}`, "", ""},
		{`{"url":"https://api.example.com/v1"}`, `{"url":"/v2"}`, "", ""},
		{`{"url":"/v1"}`, `{"url":"/v2"}`, "", ""},
	} {
		d := readText(t, `{"openapi":"3.0.3","info":{},"servers":[`+test.usual+`],"paths":{"/a":{"servers":[`+test.path+`],"get":{"servers":[`+test.own+`]}}}}`)
		warnings := strings.Join(d.Operations()[0].Warnings, "; ")
		if (warnings != "") != (test.want != "") || !strings.Contains(warnings, test.want) {
			t.Errorf("%s, %s%s: warnings %q", test.usual, test.own, test.path, warnings)
		}
	}
}

func TestSwagger_form_types(t *testing.T) {
	tests := []struct{ rule, consumes, field, want string }{
		{"none", `null`, `"type":"string"`, urlencodedType},
		{"json-only", `["application/json"]`, `"type":"string"`, urlencodedType},
		{"multipart", `["multipart/form-data"]`, `"type":"string"`, multipartType},
		{"with-parameter", `["application/x-www-form-urlencoded; charset=utf-8"]`, `"type":"string"`, urlencodedType + "; charset=utf-8"},
		{"file-needs-multipart", `["application/x-www-form-urlencoded"]`, `"type":"file"`, multipartType},
		{"text-for-list", `"multipart/form-data"`, `"type":"string"`, multipartType},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			d := readText(t, `{"swagger":"2.0","info":{},"paths":{"/a":{"post":{"consumes":`+test.consumes+
				`,"parameters":[{"name":"f","in":"formData",`+test.field+`}]}}}}`)
			equal(t, "type", d.Operations()[0].Body.Content[0].Type, test.want)
		})
	}
}
