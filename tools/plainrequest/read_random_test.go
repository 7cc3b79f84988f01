package plainrequest

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/match"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/schema"
)

// TestReadRequest_real_documents sends random arguments for every tool of the real
// documents and reads them back from the requests.
func TestReadRequest_real_documents(t *testing.T) {
	for name := range testkit.Documents() {
		t.Run(name, func(t *testing.T) {
			toolset := buildTools(t, string(testkit.ReadDocument(t, "openapi/"+name+".gz")), tools.BuildOptions{Name: "real", Location: name})
			roundTripAll(t, toolset, 4)
		})
	}
}

// TestReadRequest_round_trip does so for a document that has every style.
func TestReadRequest_round_trip(t *testing.T) {
	roundTripAll(t, buildTools(t, everyStyle(), tools.BuildOptions{}), 300)
	roundTripAll(t, buildTools(t, testkit.Trains, tools.BuildOptions{}), 300)
}

// TestReadRequest_own_documents does so for the documents of this project.
func TestReadRequest_own_documents(t *testing.T) {
	for _, name := range []string{"demo.openapi.yaml", "openapi/harbour-3.1.yaml", "conformance/openapi.yaml"} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("..", "..", "testdata", filepath.FromSlash(name)))
			if err != nil {
				t.Fatal(err)
			}
			roundTripAll(t, buildTools(t, string(data), tools.BuildOptions{}), 200)
		})
	}
}

// everyStyle is a document with an operation for each cell of OpenAPI's table of
// styles, for each type that the cell is defined for.
func everyStyle() string {
	schemas := map[string]string{
		"text": `{"type":"string"}`, "integer": `{"type":"integer"}`, "number": `{"type":"number"}`, "flag": `{"type":"boolean"}`,
		"list": `{"type":"array","items":{"type":"string"}}`, "numbers": `{"type":"array","items":{"type":"integer"}}`,
		"flags":  `{"type":"array","items":{"type":"boolean"}}`,
		"object": `{"type":"object","properties":{"R":{"type":"integer"},"G":{"type":"string"},"B":{"type":"boolean"}},"additionalProperties":false}`,
	}
	deep := `{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"integer"},"c":{"type":"array","items":{"type":"string"}}}},` +
		`"d":{"type":"array","items":{"type":"object","properties":{"e":{"type":"boolean"}}}}}}`
	var paths []string
	for _, place := range []struct {
		in     string
		styles []string
	}{
		{"path", []string{"simple", "label", "matrix"}},
		{"query", []string{"form", "spaceDelimited", "pipeDelimited", "deepObject"}},
		{"header", []string{"simple"}},
		{"cookie", []string{"form"}},
	} {
		for _, form := range place.styles {
			for _, explode := range []bool{false, true} {
				for name, of := range schemas {
					if form == "deepObject" && name == "object" {
						of = deep
					}
					if form == "label" && explode && name != "integer" && name != "numbers" && name != "flags" {
						continue // a dot in a text cannot be distinguished from one between texts
					}
					path := fmt.Sprintf("/%s_%s_%v_%s", place.in, form, explode, name)
					if place.in == "path" {
						path += "/{p}"
					}
					paths = append(paths, fmt.Sprintf(`%q:{"get":{"parameters":[{"name":"p","in":%q,"required":%v,"style":%q,"explode":%v,"schema":%s}]}}`,
						path, place.in, place.in == "path", form, explode, of))
				}
			}
		}
	}
	slices.Sort(paths)
	for _, in := range []string{"query", "header", "cookie"} {
		paths = append(paths, fmt.Sprintf(`"/content_%s":{"get":{"parameters":[{"name":"p","in":%q,"content":{"application/json":{"schema":%s}}}]}}`, in, in, deep))
	}
	const properties = `{"type":"object","properties":{"text":{"type":"string"},"count":{"type":"integer"},"flag":{"type":"boolean"},` +
		`"list":{"type":"array","items":{"type":"integer"}},"nested":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"number"}}},` +
		`"file":{"type":"string","format":"binary"},"files":{"type":"array","items":{"type":"string","format":"binary"}}}}`
	for i, content := range []string{
		`"application/json":{"schema":` + properties + `}`,
		`"application/json":{"schema":{"type":"array","items":{"type":"integer"}}}`,
		`"application/x-www-form-urlencoded":{"schema":` + properties + `}`,
		`"application/x-www-form-urlencoded":{"schema":` + properties + `,"encoding":{"nested":{"style":"deepObject","explode":true},"list":{"style":"form","explode":false}}}`,
		`"application/x-www-form-urlencoded":{"schema":` + properties + `,"encoding":{"nested":{"style":"form","explode":true},"list":{"contentType":"application/json"}}}`,
		`"multipart/form-data":{"schema":` + properties + `}`,
		`"multipart/form-data":{"schema":` + properties + `,"encoding":{"nested":{"style":"deepObject","explode":true}}}`,
		`"text/plain":{"schema":{"type":"string"}}`,
		`"application/xml":{"schema":{"type":"string"}}`,
		`"application/octet-stream":{"schema":{"type":"string","format":"binary"}}`,
		`"image/*":{"schema":{"type":"string","format":"binary"}}`,
	} {
		paths = append(paths, fmt.Sprintf(`"/body_%d":{"post":{"parameters":[{"name":"text","in":"query","schema":{"type":"string"}}],"requestBody":{"required":true,"content":{%s}}}}`, i, content))
	}
	return `{"openapi":"3.1.0","info":{"title":"S","version":"1"},"paths":{` + strings.Join(paths, ",") + `}}`
}

func roundTripAll(t *testing.T, toolset *tools.Toolset, rounds int) {
	t.Helper()
	routes := NewRoutes(toolset)
	sent, met, ambiguous := 0, 0, 0
	for _, tool := range toolset.Tools() {
		once := false
		for seed := range rounds {
			g := &argumentGenerator{Rand: rand.New(rand.NewPCG(uint64(seed), 7)), tool: tool}
			arguments := g.arguments()
			call, err := tool.Bind(arguments)
			if err != nil {
				continue
			}
			req, err := call.Request(context.Background())
			if err != nil {
				continue
			}
			sent++
			once = true
			got, err := routes.Match(req)
			var unclear *match.AmbiguousError
			switch {
			case errors.As(err, &unclear):
				ambiguous++
				t.Log(err)
			case err != nil || got != tool && pathKey(got) != pathKey(tool):
				t.Errorf("%s: %s %s is matched to %v, %v", tool.Name, req.Method, req.URL, got, err)
			}
			checkRoundTrip(t, call, req, arguments)
			if t.Failed() {
				break
			}
		}
		if once {
			met++
		} else {
			t.Logf("no arguments found for %s", tool.Name)
		}
	}
	t.Logf("%d requests for %d of %d tools, %d with a path that is refused as ambiguous", sent, met, len(toolset.Tools()), ambiguous)
	if met < len(toolset.Tools())*8/10 || ambiguous > sent/20 {
		t.Errorf("%d of %d tools met, %d of %d requests ambiguous", met, len(toolset.Tools()), ambiguous, sent)
	}
}

func checkRoundTrip(t *testing.T, call *tools.Call, req *http.Request, arguments []byte) {
	t.Helper()
	content, err := io.ReadAll(req.Body)
	if err != nil {
		t.Fatal(err)
	}
	back, err := reader.ReadRequest(call.Tool, req, content)
	var refused *match.RequestError
	if errors.As(err, &refused) && refused.Kind == request.Ambiguous && refused.In == tools.InPath && strings.Contains(refused.Message, "distinguished") {
		return
	}
	if err != nil {
		t.Errorf("%s: %s\n%s %s %v\n%s\n%v", call.Tool.Operation(), arguments, req.Method, req.URL, req.Header, content, err)
		return
	}
	got, err := strictjson.Decode(back)
	if err != nil {
		t.Errorf("%s: %s: %v", call.Tool.Operation(), back, err)
		return
	}
	want := map[string]any{}
	planned := call.Tool.Plan.Encodings
	for i, a := range call.Tool.Plan.Arguments {
		value := call.Values()[i]
		if value == nil {
			value = planned[i].Fill
		}
		if value != nil && !planned[i].Filled {
			want[a.Name], _ = strictjson.Decode(value)
		}
	}
	if !reflect.DeepEqual(stripped(got, call.Tool), stripped(want, call.Tool)) {
		t.Errorf("%s\nsent %s\nread %s\n%s %s %v\n%s", call.Tool.Operation(), arguments, back, req.Method, req.URL, req.Header, content)
	}
}

// stripped takes away what no request carries: nulls, empty arrays and objects of
// parameters and forms, and what a file gets where it has no name or type.
func stripped(value any, t *tools.Tool) any {
	isJSON := t.Plan.Body != nil && t.Plan.Body.Encoder.Kind() == request.JSON
	object, ok := value.(map[string]any)
	if !ok {
		return value
	}
	for i := range t.Plan.Arguments {
		a := &t.Plan.Arguments[i]
		if v, given := object[a.Name]; given && (a.In != tools.InBody || !isJSON) {
			v = withoutEmpty(v)
			if list, ok := v.([]any); ok && len(list) == 1 && reader.planOf(t).shapes[i].Types()&^(request.Array|request.Null) != 0 {
				v = list[0] // no one can distinguish an item from a list of one
			}
			if v == nil {
				delete(object, a.Name)
			} else {
				object[a.Name] = v
			}
		}
	}
	return object
}

func withoutEmpty(value any) any {
	switch value := value.(type) {
	case []any:
		var kept []any
		for _, item := range value {
			if item = withoutEmpty(item); item != nil {
				kept = append(kept, item)
			}
		}
		if len(kept) == 0 {
			return nil
		}
		return kept
	case map[string]any:
		if _, isFile := value["data"]; isFile {
			return value["data"]
		}
		for name, property := range value {
			if property = withoutEmpty(property); property == nil {
				delete(value, name)
			} else {
				value[name] = property
			}
		}
		if len(value) == 0 {
			return nil
		}
	}
	return value
}

// argumentGenerator makes arguments that are likely to fit a tool's schema.
type argumentGenerator struct {
	*rand.Rand
	tool *tools.Tool
	in   tools.Location // of the argument at hand
	form bool           // nothing can be sent that JSON alone can hold
}

func (g *argumentGenerator) arguments() []byte {
	object := []byte{'{'}
	for i := range g.tool.Definition.Arguments {
		a := &g.tool.Definition.Arguments[i]
		if !a.Required && g.IntN(3) > 0 {
			continue
		}
		g.form = a.In != tools.InBody || g.tool.Plan.Body.Encoder.Kind() != request.JSON
		g.in = a.In
		value := g.value(a.Schema, 0)
		if value == nil || a.In == tools.InPath && string(value) == `""` {
			continue
		}
		object = appendTo(object, a.Name, value)
	}
	return append(object, '}')
}

var randomTexts = []string{
	"blue", "light blue", "Ab9", "a-b_c~d", "50%", "a&b=c", "a+b", "é日本", "x?y#z", "a/b", "1.5", "10:30", "(x)", "'q'", "a@b.example", "<a>", "\"", "[x]",
}

// value returns a value of the schema, nil if none is found.
func (g *argumentGenerator) value(of jsontext.Value, depth int) []byte {
	members, err := strictjson.Members(nil, of)
	if err != nil || depth > 6 {
		return nil
	}
	keywords := make(map[string]jsontext.Value, len(members))
	for _, m := range members {
		keywords[m.Name] = m.Value
	}
	for _, list := range []string{"enum", "anyOf", "oneOf"} {
		if keywords[list] == nil {
			continue
		}
		var choices []jsontext.Value
		for walk := strictjson.Into(keywords[list]); walk.Next(); {
			if list != "enum" || !g.form || walk.Value.Kind() != '"' || g.sendable(walk.Value) {
				choices = append(choices, walk.Value)
			}
		}
		if len(choices) == 0 {
			return nil
		}
		choice := choices[g.IntN(len(choices))]
		if list == "enum" {
			return choice
		}
		return g.value(choice, depth+1)
	}
	switch {
	case keywords["const"] != nil:
		return keywords["const"]
	case keywords["$ref"] != nil:
		return g.value(g.definition(keywords["$ref"]), depth+1)
	case keywords["allOf"] != nil:
		for walk := strictjson.Into(keywords["allOf"]); walk.Next(); {
			return g.value(walk.Value, depth+1)
		}
	}
	return g.typed(keywords, depth)
}

func (g *argumentGenerator) typed(keywords map[string]jsontext.Value, depth int) []byte {
	types := keywords["type"]
	if types.Kind() == '[' {
		for walk := strictjson.Into(types); walk.Next(); {
			if types = walk.Value; string(types) != `"null"` {
				break
			}
		}
	}
	switch string(types) {
	case `"integer"`:
		return strconv.AppendInt(nil, int64(g.IntN(90)), 10)
	case `"number"`:
		return []byte([]string{"1", "0.5", "1e2", "7.25"}[g.IntN(4)])
	case `"boolean"`:
		return strconv.AppendBool(nil, g.IntN(2) == 0)
	case `"array"`:
		return g.array(keywords, depth)
	case `"object"`:
		return g.object(keywords, depth)
	case `"string"`:
		return g.text(keywords)
	}
	return nil
}

func (g *argumentGenerator) text(keywords map[string]jsontext.Value) []byte {
	if keywords["pattern"] != nil {
		for walk := strictjson.Into(keywords["examples"]); walk.Next(); {
			return walk.Value
		}
	}
	switch {
	case keywords["pattern"] != nil:
		// "^MG[0-9a-fA-F]{32}$" and numbers are what the real documents ask for.
		pattern, _ := jsontext.AppendUnquote(nil, keywords["pattern"])
		if prefix, _, ok := strings.Cut(strings.TrimPrefix(string(pattern), "^"), "["); ok && strings.HasSuffix(string(pattern), "{32}$") {
			return strictjson.AppendString(nil, prefix+strings.Repeat("0aF9", 8))
		}
		return strictjson.AppendString(nil, strconv.Itoa(1+g.IntN(1e9)))
	case keywords["contentEncoding"] != nil:
		return strictjson.AppendString(nil, base64.StdEncoding.EncodeToString([]byte("file \x00\xff "+strconv.Itoa(g.IntN(99)))))
	case string(keywords["format"]) == `"date"`:
		return []byte(`"2024-02-29"`)
	case string(keywords["format"]) == `"date-time"`:
		return []byte(`"2024-02-29T10:00:00Z"`)
	case string(keywords["format"]) == `"uuid"`:
		return []byte(`"a8098c1a-f86e-11da-bd1a-00112444be1e"`)
	}
	text := randomTexts[g.IntN(len(randomTexts))]
	if g.in == tools.InPath {
		text = strings.Map(func(r rune) rune {
			if strings.ContainsRune("/?#", r) {
				return -1
			}
			return r
		}, text)
	}
	return strictjson.AppendString(nil, text)
}

// sendable reports whether a text comes back as itself: not one that a list or a
// union with numbers would read otherwise.
func (g *argumentGenerator) sendable(text jsontext.Value) bool {
	return !bytes.ContainsAny(text, ", |") && len(text) > len(`""`)
}

func (g *argumentGenerator) array(keywords map[string]jsontext.Value, depth int) []byte {
	array := []byte{'['}
	for range 1 + g.IntN(3) {
		item := g.value(keywords["items"], depth+1)
		if item == nil || g.form && (string(item) == "{}" || string(item) == "[]" || item[0] == '"' && !g.sendable(item)) {
			continue
		}
		if len(array) > 1 {
			array = append(array, ',')
		}
		array = append(array, item...)
	}
	return append(array, ']')
}

func (g *argumentGenerator) object(keywords map[string]jsontext.Value, depth int) []byte {
	object := []byte{'{'}
	properties, _ := strictjson.Members(nil, keywords["properties"])
	for _, p := range properties {
		required := bytes.Contains(keywords["required"], []byte(`"`+p.Name+`"`))
		if !required && g.IntN(3) > 0 || len(properties) > 40 && !required && g.IntN(10) > 0 {
			continue
		}
		value := g.value(p.Value, depth+1)
		if value == nil || g.form && value[0] == '"' && !g.sendable(value) {
			continue
		}
		object = appendTo(object, p.Name, value)
	}
	return append(object, '}')
}

func (g *argumentGenerator) definition(ref jsontext.Value) jsontext.Value {
	root, err := schema.Parse(g.tool.Definition.InputSchema)
	if err != nil {
		panic(err)
	}
	text, _ := jsontext.AppendUnquote(nil, ref)
	return root.Definition(strings.TrimPrefix(string(text), "#/$defs/")).Text
}

// appendTo appends a member to an object that is not closed yet.
func appendTo(object []byte, name string, value []byte) []byte {
	if object[len(object)-1] != '{' {
		object = append(object, ',')
	}
	return append(append(strictjson.AppendString(object, name), ':'), value...)
}
