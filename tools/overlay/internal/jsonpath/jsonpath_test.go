package jsonpath

import (
	"errors"
	"strings"
	"testing"
)

const document = `{
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
	"list": [0, 1, 2, 3]
}`

func TestSelect(t *testing.T) {
	for query, want := range map[string]string{
		"$.openapi":                   `"3.1.0"`,
		"$['$ref']":                   `"a"`,
		`$["x-limit"]`:                `1.0`,
		"$.paths['/a/{b}'].post.tags": `["y"]`,
		"$.paths.*.get.summary":       `"no id"`,
		"$.paths.*[?@.deprecated == true].tags[0]":   `"y"`,
		"$.paths[?@.get.tags[?@ == 'x']].post.tags":  `["y"]`,
		"$..parameters[?@.name=='q'&&@.in=='query']": `{"name":"q","in":"query"}`,
		`$..[?@.name == "z\""].in`:                   `"header"`,
		"$..[?match(@.operationId, 'get.')].tags":    `["x","y"]`,
		"$..[?search(@.operationId, 'st')].tags":     `["y"]`,
		"$..[?!@.operationId && @.summary]":          `{"summary":"no id"}`,
		"$[?length(@) == 4]":                         `[0,1,2,3]`,
		"$.paths[?count(@.*) == 1]":                  `{"get":{"summary":"no id"}}`,
		"$.list[-1]":                                 `3`,
		"$.list[1:3]":                                `1 2`,
		"$.list[::-2]":                               `3 1`,
		"$.list[0, ?@ > 2]":                          `0 3`,
		"$.list[0, 0]":                               `0`,
		"$[?@ == $['x-limit']]":                      `1.0`,
		"$.nothing.at.all":                           ``,
		"$..[?match(@.nothing, '.*')]":               ``,
		"$.list[?@ == 1.0]":                          `1`,
	} {
		p, err := Parse(query)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		matches, err := p.Select(tree(t, document), &Budget{Steps: 1e4, Matches: 100})
		if err != nil {
			t.Errorf("%s: %v", query, err)
		}
		var got []string
		for _, m := range matches {
			got = append(got, string(appendJSON(nil, m.Node)))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s selects %s, want %s", query, got, want)
		}
	}
}

func TestSelect_names_the_parent(t *testing.T) {
	root := tree(t, document)
	p, err := Parse("$..tags[?@ == 'y']")
	if err != nil {
		t.Fatal(err)
	}
	matches, err := p.Select(root, &Budget{Steps: 1e4, Matches: 100})
	if err != nil || len(matches) != 2 {
		t.Fatalf("%v, %v", matches, err)
	}
	for _, m := range matches {
		if m.Parent.Kind != '[' || m.Parent.Items[len(m.Parent.Items)-1] != m.Node {
			t.Errorf("the parent of %s is %s", m.Node.Raw, appendJSON(nil, m.Parent))
		}
	}
}

func TestParse_rejects(t *testing.T) {
	for query, offset := range map[string]int{
		"":                         0,
		"paths":                    0,
		" $":                       0,
		"$ ":                       1,
		"$.":                       2,
		"$..":                      3,
		"$.$ref":                   2,
		"$.x-limit":                3,
		"$.paths./a":               8,
		"$.paths['/a'":             12,
		"$['a]":                    2,
		"$[01]":                    2,
		"$[99999999999999999999]":  2,
		"$[?@.a = 1]":              7,
		"$[?@.a == ]":              10,
		"$[?'a']":                  6,
		"$[?@.* == 1]":             9,
		"$[?length(@.*) < 3]":      3,
		"$[?count(1) < 3]":         3,
		"$[?match(@.a) ]":          3,
		"$[?size(@.a) > 1]":        3,
		"$[?match(@.a, '[')]":      3,
		"$[?match(@.a, 'b') == 1]": 21,
		"$[?@.a == {}]":            10,
		"$.paths.*~":               9,
		"$.paths^":                 7,
		"$[?@[0]":                  7,
	} {
		_, err := Parse(query)
		syntax, ok := errors.AsType[*SyntaxError](err)
		if !ok {
			t.Errorf("%s: %v, want a SyntaxError", query, err)
		} else if syntax.Offset != offset {
			t.Errorf("%s: offset %d, want %d: %v", query, syntax.Offset, offset, err)
		}
	}
	for name, query := range map[string]string{
		"size":    "$" + strings.Repeat(".a", maxQuery),
		"nesting": "$" + strings.Repeat("[?@", maxNesting+1) + strings.Repeat("]", maxNesting+1),
		"utf-8":   "$['\xff']",
	} {
		if _, err := Parse(query); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestSelect_is_limited(t *testing.T) {
	root := tree(t, strings.Repeat(`{"a":[`, 50)+"1"+strings.Repeat("]}", 50))
	for query, want := range map[string]error{
		"$..*..*..*..*..*": ErrSteps,
		"$..[?$..[?$..*]]": ErrSteps,
		"$..*":             ErrMatches,
		"$..a[*,*,*,*].a[*,*,*,*].a[*,*,*,*].a[*,*,*,*]": ErrMatches,
	} {
		p, err := Parse(query)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		budget := &Budget{Steps: 1e5, Matches: 1e6}
		if errors.Is(want, ErrMatches) {
			budget.Matches = 60
		}
		if _, err := p.Select(root, budget); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", query, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("$.paths['/a/{b}'].get")
	f.Add("$..[?match(@.a, 'b.*') && (count(@.*) > 1 || !@['c'])][0, -1, 1:2:3, *]")
	f.Add(`$["\u263a"][?@ == 1e3]`)
	f.Fuzz(func(t *testing.T, query string) {
		p, err := Parse(query)
		if err != nil {
			return
		}
		_, err = p.Select(tree(t, document), &Budget{Steps: 1e4, Matches: 1e3})
		if err != nil && !errors.Is(err, ErrSteps) && !errors.Is(err, ErrMatches) {
			t.Error(err)
		}
	})
}
