package request_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/tools/request"
)

// must returns the Serializer of p.
func must(t testing.TB, p request.Param) *request.Serializer {
	t.Helper()
	s, err := request.NewSerializer(p)
	if err != nil {
		t.Fatalf("New(%+v): %v", p, err)
	}
	return s
}

// appended returns what p makes of value, which it must accept.
func appended(t testing.TB, p request.Param, value string) string {
	t.Helper()
	const before = "before"
	out, err := must(t, p).Append([]byte(before), jsontext.Value(value))
	if err != nil {
		t.Fatalf("Append(%s): %v", value, err)
	}
	text, ok := strings.CutPrefix(string(out), before)
	if !ok {
		t.Fatalf("Append overwrote dst: %q", out)
	}
	return text
}

// refused returns the problem that p has with value, which it must refuse.
func refused(t testing.TB, p request.Param, value string) string {
	t.Helper()
	out, err := must(t, p).Append([]byte("before"), jsontext.Value(value))
	var refusal *request.Error
	if !errors.As(err, &refusal) {
		t.Fatalf("Append(%s) = %q, %v; want a *style.Error", value, out, err)
	}
	if string(out) != "before" {
		t.Errorf("Append(%s) left %q in dst", value, out)
	}
	if refusal.In != p.In || refusal.Name != p.Name {
		t.Errorf("the error is about the %s argument %s, want %s %s", refusal.In, refusal.Name, p.In, p.Name)
	}
	return refusal.Problem
}

// The values of OpenAPI 3.1.1, "Style Examples".
const (
	empty  = `""`
	blue   = `"blue"`
	colors = `["blue","black","brown"]`
	rgb    = `{ "R": 100, "G": 200, "B": 150 }`
)

// TestStyleExamples is the table of OpenAPI 3.1.1, "Style Examples", each cell
// that it defines; the two cells that make no path segment are in TestPath.
func TestStyleExamples(t *testing.T) {
	for _, cell := range []struct {
		style   request.Style
		explode bool
		value   string
		want    string
	}{
		{request.Matrix, false, empty, ";color"},
		{request.Matrix, false, blue, ";color=blue"},
		{request.Matrix, false, colors, ";color=blue,black,brown"},
		{request.Matrix, false, rgb, ";color=R,100,G,200,B,150"},
		{request.Matrix, true, empty, ";color"},
		{request.Matrix, true, blue, ";color=blue"},
		{request.Matrix, true, colors, ";color=blue;color=black;color=brown"},
		{request.Matrix, true, rgb, ";R=100;G=200;B=150"},
		{request.Label, false, blue, ".blue"},
		{request.Label, false, colors, ".blue,black,brown"},
		{request.Label, false, rgb, ".R,100,G,200,B,150"},
		{request.Label, true, blue, ".blue"},
		{request.Label, true, colors, ".blue.black.brown"},
		{request.Label, true, rgb, ".R=100.G=200.B=150"},
		{request.Simple, false, blue, "blue"},
		{request.Simple, false, colors, "blue,black,brown"},
		{request.Simple, false, rgb, "R,100,G,200,B,150"},
		{request.Simple, true, blue, "blue"},
		{request.Simple, true, colors, "blue,black,brown"},
		{request.Simple, true, rgb, "R=100,G=200,B=150"},
		{request.Form, false, empty, "color="},
		{request.Form, false, blue, "color=blue"},
		{request.Form, false, colors, "color=blue,black,brown"},
		{request.Form, false, rgb, "color=R,100,G,200,B,150"},
		{request.Form, true, empty, "color="},
		{request.Form, true, blue, "color=blue"},
		{request.Form, true, colors, "color=blue&color=black&color=brown"},
		{request.Form, true, rgb, "R=100&G=200&B=150"},
		{request.SpaceDelimited, false, colors, "color=blue%20black%20brown"},
		{request.SpaceDelimited, false, rgb, "color=R%20100%20G%20200%20B%20150"},
		{request.PipeDelimited, false, colors, "color=blue%7Cblack%7Cbrown"},
		{request.PipeDelimited, false, rgb, "color=R%7C100%7CG%7C200%7CB%7C150"},
		{request.DeepObject, true, rgb, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"},
	} {
		for _, in := range placesOf(cell.style) {
			name := string(in) + "/" + string(cell.style) + "/" + cell.value
			if cell.explode {
				name += "/explode"
			}
			t.Run(name, func(t *testing.T) {
				want := cell.want
				if in == request.Header && cell.value == empty {
					want = ""
				}
				if in == request.Cookie {
					want = strings.ReplaceAll(want, "&", "; ")
				}
				p := request.Param{Name: "color", In: in, Style: cell.style, Explode: cell.explode}
				if got := appended(t, p, cell.value); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		}
	}
}

func placesOf(s request.Style) []request.In {
	switch s {
	case request.Matrix, request.Label:
		return []request.In{request.Path}
	case request.Simple:
		return []request.In{request.Path, request.Header}
	case request.Form:
		return []request.In{request.Query, request.InBody, request.Cookie}
	}
	return []request.In{request.Query, request.InBody}
}

// TestUndefinedCells are cells that OpenAPI leaves open and documents use.
func TestUndefinedCells(t *testing.T) {
	for name, c := range map[string]struct {
		style   request.Style
		explode bool
		value   string
		want    string
	}{
		"a primitive in spaceDelimited":     {request.SpaceDelimited, false, `"light blue"`, "color=light%20blue"},
		"a primitive in pipeDelimited":      {request.PipeDelimited, false, `"a|b"`, "color=a%7Cb"},
		"a primitive in deepObject":         {request.DeepObject, true, `1700000000`, "color=1700000000"},
		"exploded spaceDelimited is form":   {request.SpaceDelimited, true, `["a b","c"]`, "color=a%20b&color=c"},
		"exploded pipeDelimited is form":    {request.PipeDelimited, true, rgb, "R=100&G=200&B=150"},
		"unexploded deepObject is the same": {request.DeepObject, false, rgb, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"},
		"an array in deepObject":            {request.DeepObject, true, `["x","y"]`, "color%5B0%5D=x&color%5B1%5D=y"},
		"nested objects in deepObject":      {request.DeepObject, true, `{"a":{"b":1,"c":{"d":true}}}`, "color%5Ba%5D%5Bb%5D=1&color%5Ba%5D%5Bc%5D%5Bd%5D=true"},
		"arrays of objects in deepObject":   {request.DeepObject, true, `{"a":[{"b":1,"c":2},null,{"b":3}]}`, "color%5Ba%5D%5B0%5D%5Bb%5D=1&color%5Ba%5D%5B0%5D%5Bc%5D=2&color%5Ba%5D%5B1%5D%5Bb%5D=3"},
		"nothing in deepObject":             {request.DeepObject, true, `{"a":{},"b":[],"c":null}`, ""},
		"an object in an exploded form":     {request.Form, true, `{"a":{"b": [1, 2]},"c":[ ]}`, "a=%7B%22b%22%3A%5B1%2C2%5D%7D"},
		"an array in an exploded object":    {request.Form, true, `{"page":0,"sort":["a,b",null,"c"],"none":[],"by":[{"x":1},[2]]}`, "page=0&sort=a%2Cb&sort=c&by=%7B%22x%22%3A1%7D&by=%5B2%5D"},
		"an object in an array":             {request.Form, true, `[{"a": "\u00e9 \" "}]`, "color=%7B%22a%22%3A%22%5Cu00e9%20%5C%22%20%22%7D"},
		"an array in a list":                {request.Form, false, `[[1, 2],3]`, "color=%5B1%2C2%5D,3"},
	} {
		t.Run(name, func(t *testing.T) {
			p := request.Param{Name: "color", In: request.Query, Style: c.style, Explode: c.explode}
			if got := appended(t, p, c.value); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestAbsent is RFC 6570 section 2.3: null, [] and {} are no values.
func TestAbsent(t *testing.T) {
	for _, in := range []request.In{request.Query, request.Header, request.Cookie, request.InBody} {
		for _, explode := range []bool{false, true} {
			for _, value := range []string{"null", " [ ] ", "{}", "[null]", `{"a":null}`} {
				p := request.Param{Name: "color", In: in, Explode: explode}
				if got := appended(t, p, value); got != "" {
					t.Errorf("%s, explode %t: %s becomes %q, want nothing", in, explode, value, got)
				}
			}
		}
	}
	p := request.Param{Name: "color", In: request.Query, Explode: true}
	if got, want := appended(t, p, `[null,"a",null,"b"]`), "color=a&color=b"; got != want {
		t.Errorf("null items: got %q, want %q", got, want)
	}
	p.Explode = false
	if got, want := appended(t, p, `{"a":null,"b":1,"c":null}`), "color=b,1"; got != want {
		t.Errorf("null properties: got %q, want %q", got, want)
	}
	if got, want := appended(t, p, `["","a",""]`), "color=,a,"; got != want {
		t.Errorf("empty items: got %q, want %q", got, want)
	}
	p = request.Param{Name: "color", In: request.Header, Explode: true}
	if got, want := appended(t, p, `["","a",""]`), ",a,"; got != want {
		t.Errorf("empty items in a header: got %q, want %q", got, want)
	}
}

// TestValues_are_kept: numbers keep their digits, objects their order, and strings
// are read through their escapes.
func TestValues_are_kept(t *testing.T) {
	for value, want := range map[string]string{
		`123456789012345678901234567890`: "q=123456789012345678901234567890",
		`1.10`:                           "q=1.10",
		`-0`:                             "q=-0",
		`1E400`:                          "q=1E400",
		`1e+2`:                           "q=1e%2B2",
		`true`:                           "q=true",
		` "a" `:                          "q=a",
		`"a\/b\n\u00e9\ud83d\ude00\"\\"`: "q=a%2Fb%0A%C3%A9%F0%9F%98%80%22%5C",
		`"é😀"`:                           "q=%C3%A9%F0%9F%98%80",
		`"-._~AZaz09"`:                   "q=-._~AZaz09",
		`" !\"#$%&'()*+,/:;<=>?@[]^` + "`" + `{|}"`: "q=%20%21%22%23%24%25%26%27%28%29%2A%2B%2C%2F%3A%3B%3C%3D%3E%3F%40%5B%5D%5E%60%7B%7C%7D",
		`{"z":1, "a":2,"\u006d":3}`:                 "z=1&a=2&m=3",
		`{"a&b=c":"d&e=f"}`:                         "a%26b%3Dc=d%26e%3Df",
	} {
		p := request.Param{Name: "q", In: request.Query, Explode: true}
		if got := appended(t, p, value); got != want {
			t.Errorf("%s: got %q, want %q", value, got, want)
		}
	}
	p := request.Param{Name: "filter[name]", In: request.Query, Explode: true}
	if got, want := appended(t, p, `"x"`), "filter%5Bname%5D=x"; got != want {
		t.Errorf("brackets in the name: got %q, want %q", got, want)
	}
}

func TestAllowReserved(t *testing.T) {
	for name, c := range map[string]struct {
		explode     bool
		value, want string
	}{
		"reserved characters pass":             {true, `"http://a.b/c?d=e@f!$'()*,"`, "q=http://a.b/c?d=e@f!$'()*,"},
		"delimiters of a query do not":         {true, `"a&b#c+d;e"`, "q=a%26b%23c%2Bd%3Be"},
		"brackets do not, a query has none":    {true, `"[1]"`, "q=%5B1%5D"},
		"others are encoded":                   {true, `"a b\"é"`, "q=a%20b%22%C3%A9"},
		"triples pass":                         {true, `"50%25%2f"`, "q=50%25%2f"},
		"a lone percent does not":              {true, `"50% %2 %zz"`, "q=50%25%20%252%20%25zz"},
		"a comma in a list item is no comma":   {false, `["a,b","c/d"]`, "q=a%2Cb,c/d"},
		"names of properties are encoded":      {true, `{"a/b":"c/d"}`, "a%2Fb=c/d"},
		"each item of an exploded array gains": {true, `["a,b","c"]`, "q=a,b&q=c"},
	} {
		t.Run(name, func(t *testing.T) {
			p := request.Param{Name: "q", In: request.Query, Explode: c.explode, AllowReserved: true}
			if got := appended(t, p, c.value); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	p := request.Param{Name: "q", In: request.Path, AllowReserved: true}
	if got, want := appended(t, p, `"a/b?c"`), "a%2Fb%3Fc"; got != want {
		t.Errorf("in a path, where it means nothing: got %q, want %q", got, want)
	}
}

func TestContent(t *testing.T) {
	for _, c := range []struct {
		in          request.In
		contentType string
		value, want string
	}{
		{request.Query, "application/json", `{ "a": [1, "b c"] }`, "p=%7B%22a%22%3A%5B1%2C%22b%20c%22%5D%7D"},
		{request.Query, "application/json", `"a"`, "p=%22a%22"},
		{request.Query, "application/vnd.x+json; v=1", `[]`, "p=%5B%5D"},
		{request.Query, "text/plain", `"a b"`, "p=a%20b"},
		{request.Query, "text/plain", `{"a": 1}`, "p=%7B%22a%22%3A1%7D"},
		{request.Query, "application/json", `null`, ""},
		{request.Path, "application/json", `{"a":1}`, "%7B%22a%22%3A1%7D"},
		{request.Header, "application/json", `{"a": "é😀", "b":"x,y"}`, `{"a":"\u00e9\ud83d\ude00","b":"x,y"}`},
		{request.Header, "text/plain", `"a, b"`, "a, b"},
		{request.Cookie, "application/json", `{"a": 1}`, "p={%22a%22:1}"},
	} {
		p := request.Param{Name: "p", In: c.in, ContentType: c.contentType, Style: request.DeepObject, Explode: true}
		if got := appended(t, p, c.value); got != c.want {
			t.Errorf("%s %s %s: got %q, want %q", c.in, c.contentType, c.value, got, c.want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, p := range map[string]request.Param{
		"deepObject in a path":     {Name: "a", In: request.Path, Style: request.DeepObject},
		"form in a path":           {Name: "a", In: request.Path, Style: request.Form},
		"matrix in a query":        {Name: "a", In: request.Query, Style: request.Matrix},
		"simple in a query":        {Name: "a", In: request.Query, Style: request.Simple},
		"form in a header":         {Name: "a", In: request.Header, Style: request.Form},
		"pipeDelimited in cookies": {Name: "a", In: request.Cookie, Style: request.PipeDelimited},
		"an unknown style":         {Name: "a", In: request.Query, Style: "csv"},
		"an unknown place":         {Name: "a", In: "formData"},
		"no name":                  {In: request.Query},
		"a header that is no name": {Name: "a b", In: request.Header},
		"a header with a line":     {Name: "a\r\nb", In: request.Header},
		"a cookie that is no name": {Name: "a;b", In: request.Cookie},
		"a forbidden header":       {Name: "transfer-Encoding", In: request.Header},
	} {
		if _, err := request.NewSerializer(p); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// The collectionFormats of Swagger 2.0 are written, and read back, in every place that can have them.
func TestCollectionFormats(t *testing.T) {
	texts := &shape{types: request.Array, element: &shape{types: request.String}}
	for _, c := range []struct {
		in    request.In
		style request.Style
		value string
		want  string
	}{
		{request.Path, request.PipeDelimited, `["x","y,z"]`, "x%7Cy%2Cz"},
		{request.Path, request.SpaceDelimited, `["x","y"]`, "x%20y"},
		{request.Path, request.TabDelimited, `["x","y"]`, "x%09y"},
		{request.Header, request.PipeDelimited, `["x","y,z"]`, "x|y,z"},
		{request.Header, request.SpaceDelimited, `["x","y"]`, "x y"},
		{request.Query, request.TabDelimited, `["x","y z"]`, "p=x%09y%20z"},
		{request.InBody, request.TabDelimited, `["x","y"]`, "p=x%09y"},
		{request.Path, request.PipeDelimited, `["x|y"]`, ""},
		{request.Path, request.PipeDelimited, `["x",".."]`, ""},
		{request.Path, request.PipeDelimited, `["..|"]`, ""},
		{request.Header, request.PipeDelimited, `["x","y|z"]`, ""},
		{request.Header, request.SpaceDelimited, `["x y"]`, ""},
		{request.Query, request.TabDelimited, `["x\ty"]`, ""},
	} {
		s := must(t, request.Param{Name: "p", In: c.in, Style: c.style})
		got, err := s.Append(nil, jsontext.Value(c.value))
		if string(got) != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s %s of %s: %q, %v; want %q", c.style, c.in, c.value, got, err, c.want)
		}
		if err != nil || c.style == request.TabDelimited && c.in == request.Path { // no path with a control character is read
			continue
		}
		var read []byte
		switch c.in {
		case request.Path:
			read, err = s.ReadPath(nil, string(got), texts)
		case request.Header:
			read, err = s.ReadHeader(nil, []string{string(got)}, texts)
		default:
			pairs, _ := request.ParsePairs(nil, c.in, string(got))
			read, err = s.ReadPairs(nil, pairs, texts)
		}
		if err != nil || string(read) != c.value {
			t.Errorf("%s %s: %q is read as %s, %v", c.style, c.in, got, read, err)
		}
	}
	if _, err := must(t, request.Param{Name: "p", In: request.Header, Style: request.PipeDelimited}).ReadHeader(nil, []string{"x|y", "z"}, texts); err == nil {
		t.Error("two lines of a list without commas are read")
	}
	if _, err := request.NewSerializer(request.Param{Name: "p", In: request.Header, Style: request.TabDelimited}); err == nil {
		t.Error("a header is made with tabs")
	}
}
