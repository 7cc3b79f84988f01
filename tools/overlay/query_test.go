package overlay

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools/openapi"
)

const queried = `{
	"openapi": "3.1.0",
	"$ref": "a",
	"x-limit": 1.0,
	"paths": {
		"/a/{b}": {
			"get": {"operationId": "getA", "tags": ["x", "y"], "parameters": [{"name": "q", "in": "query"}, {"name": "z\u0022", "in": "header"}]},
			"post": {"operationId": "postA", "tags": ["y"], "deprecated": true}
		},
		"/c": {"get": {"summary": "no id"}}
	},
	"list": [0, 1, 2, 3],
	"it's": "quoted", "größe": {"\u00fc": "umlaut"}, "a\\b": "slash", "huge": 1e999, "null": null
}`

// treeOf returns the tree of a document.
func treeOf(t testing.TB, document string) *node {
	t.Helper()
	parsed, err := openapi.Parse([]byte(document), openapi.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return toTree(parsed)
}

func TestQuery_selects_in_the_order_of_the_document(t *testing.T) {
	root := treeOf(t, queried)
	for query, want := range map[string]string{
		"$.openapi":                                    `$['openapi']`,
		"$['$ref']":                                    `$['$ref']`,
		`$["x-limit"]`:                                 `$['x-limit']`,
		"$.paths['/a/{b}'].post.tags":                  `$['paths']['/a/{b}']['post']['tags']`,
		"$.paths.*.get.summary":                        `$['paths']['/c']['get']['summary']`,
		"$['paths'][*][?@.deprecated==true]":           `$['paths']['/a/{b}']['post']`,
		"$.paths[?@.get.tags[?@ == 'x']].post.tags":    `$['paths']['/a/{b}']['post']['tags']`,
		"$..parameters[?@.name=='q'&&@.in=='query']":   `$['paths']['/a/{b}']['get']['parameters'][0]`,
		`$..[?@.name == "z\""].in`:                     `$['paths']['/a/{b}']['get']['parameters'][1]['in']`,
		"$..[?match(@.operationId, 'get.')].tags":      `$['paths']['/a/{b}']['get']['tags']`,
		"$..[?match(@.operationId, 'get|post')]":       ``,
		"$..[?match(@.operationId, 'get.|none')].tags": `$['paths']['/a/{b}']['get']['tags']`,
		"$..[?search(@.operationId, 'st')].tags":       `$['paths']['/a/{b}']['post']['tags']`,
		"$..[?search(@.operationId, '^[.p]')].tags":    `$['paths']['/a/{b}']['post']['tags']`,
		`$..[?search(@.operationId, '\\.')].tags`:      ``,
		"$..[?match(@.nothing, '.*')]":                 ``,
		"$..[?!match(@.operationId, '.*')].summary":    `$['paths']['/c']['get']['summary']`,
		"$..[?match(@.operationId, @.nothing)]":        ``,
		"$.paths[?search('abc', $.openapi)]":           ``,
		"$.list[?match(@, '1')]":                       ``,
		"$..[?!@.operationId && @.summary]":            `$['paths']['/c']['get']`,
		"$[?length(@) == 4]":                           `$['list']`,
		"$.paths[?count(@.*) == 1]":                    `$['paths']['/c']`,
		"$.paths.*[?value(@.tags[0]) == 'y']":          `$['paths']['/a/{b}']['post']`,
		"$.list[-1]":                                   `$['list'][3]`,
		"$.list[1:3]":                                  `$['list'][1] $['list'][2]`,
		"$.list[::-2]":                                 `$['list'][1] $['list'][3]`,
		"$.list[?@ > 2, 0]":                            `$['list'][0] $['list'][3]`,
		"$.list[0, 0]":                                 `$['list'][0]`,
		"$.list[?@ == 1.0]":                            `$['list'][1]`,
		"$[?@ == $['x-limit']]":                        `$['x-limit']`,
		"$[?@ == null]":                                `$['null']`,
		"$.nothing.at.all":                             ``,
		"$.list.length":                                ``,
		"$.paths[0]":                                   ``,
		`$['it\'s']`:                                   `$['it\'s']`,
		`$["it's"]`:                                    `$['it\'s']`,
		`$['a\\b']`:                                    `$['a\\b']`,
		"$.größe.*":                                    `$['größe']['ü']`,
		`$['gr\u00f6\u00dfe'].ü`:                       `$['größe']['ü']`,
		"$":                                            `$`,
	} {
		a := &application{result: &Result{root: root}, budget: 10_000}
		matches, err := a.find(query)
		if err != nil {
			t.Errorf("%s: %v", query, err)
		}
		var got []string
		for _, m := range matches {
			got = append(got, m.path.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s selects %s, want %s", query, got, want)
		}
	}
}

func TestQuery_is_rejected_with_its_position(t *testing.T) {
	for query, words := range map[string]string{
		"":                         "begins $",
		"paths":                    "begins $ paths",
		"$ ":                       "2",
		"$.":                       "end 3",
		"$.$ref":                   "3 ['name']",
		"$.x-limit":                "4 ['name']",
		"$.paths./a":               "9 $.paths./a ['name']",
		"$.paths.{a}":              "9 ['name']",
		"$.paths['/a'":             "end 13",
		"$['a]":                    "unterminated 6",
		"$[01]":                    "3",
		"$[99999999999999999999]":  "range 3",
		"$[?@.a = 1]":              "comparison 8",
		"$[?@.a == ]":              "']' 11",
		"$[?@.* == 1]":             "8",
		"$[?length(@.*) < 3]":      "length() 10",
		"$[?count(1) < 3]":         "count() 9",
		"$[?match(@.a) ]":          "match() 2 1",
		"$[?size(@.a) > 1]":        "size() 4",
		"$[?match(@.a, '[')]":      "match() [ 9",
		"$[?match(@.a, 'b') == 1]": "20",
		"$[?@.a == {}]":            "'{' 11",
		"$.paths.*~":               "'~' 10",
		"$[?@[0]":                  "end 8",
		"$[?match(@.a, '" + strings.Repeat("a", maxPattern+1) + "')]": "1024 9",
		"$" + strings.Repeat(".a", maxQuery):                          "4096",
	} {
		if _, err := new(budget).compile(query); err == nil || !testkit.ContainsAll(err.Error(), words) {
			t.Errorf("%s: %v, want the words %q", query, err, words)
		}
	}
}

func TestQuery_is_limited(t *testing.T) {
	deep := strings.Repeat(`{"a":[`, 50) + "1" + strings.Repeat("]}", 50)
	for query, c := range map[string]struct{ document, words string }{
		"$..*..*..*..*..*":             {deep, "visit"},
		"$..[?@.a]..[?@..*..*..*]":     {deep, "visit"},
		"$..[?$..[?$..*]]":             {deep, "visit"},
		"$..[?count(@..*..*..*) > 1]":  {deep, "visit"},
		"$..[?!($..x || !$..*..*..y)]": {deep, "visit"},
		"$.list[?search('x', @)]":      {`{"list":["` + strings.Join(numbered(1000), `","`) + `"]}`, "visit"},
		"$.list[*,*,*]":                {`{"list":[` + strings.Repeat("0,", maxMatches/3) + `0]}`, "200000"},
	} {
		a := &application{result: &Result{root: treeOf(t, c.document)}, budget: 50_000}
		if strings.HasPrefix(query, "$.list[*") {
			a.budget = maxSteps
		}
		if _, err := a.find(query); err == nil || !testkit.ContainsAll(err.Error(), c.words+" "+query) {
			t.Errorf("%s: %v, want the words %q", query, err, c.words)
		}
	}
}

// numbered returns different patterns of 200 bytes.
func numbered(n int) []string {
	patterns := make([]string, n)
	for i := range patterns {
		patterns[i] = strings.Repeat("a", i%100) + strings.Repeat("b", 200-i%100) + strings.Repeat("c", i/100)
	}
	return patterns
}

// A fault of the library would be an error here, and not a panic.
func FuzzQuery(f *testing.F) {
	f.Add("$.paths['/a/{b}'].get")
	f.Add("$..[?match(@.a, 'b.*') && (count(@.*) > 1 || !@['c'])][0, -1, 1:2:3, *]")
	f.Add(`$["\u263a"][?@ == 1e3 || @.a >= $.b]`)
	f.Add("$[?search(@.a, @.b) || value(@..*) != length(@)]")
	f.Fuzz(func(t *testing.T, query string) {
		a := &application{result: &Result{root: treeOf(t, queried)}, budget: 10_000}
		if _, err := a.find(query); err != nil && strings.Contains(err.Error(), "runtime error") {
			t.Error(err)
		}
	})
}
