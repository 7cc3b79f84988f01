package request_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/request"
)

// A shape is a request.Shape whose items and properties are all of one kind.
type shape struct {
	types   request.Types
	element *shape
}

func (s *shape) Types() request.Types { return s.types }

func (s *shape) Item() request.Shape {
	if s.element == nil {
		return nil
	}
	return s.element
}

func (s *shape) Property(name string) (request.Shape, bool) {
	return s.Item(), name != "other"
}

// TestAppendText: only the spelling that JSON has is a number or boolean.
func TestAppendText(t *testing.T) {
	const number = request.Number | request.Integer
	for _, test := range []struct {
		types request.Types
		good  string
		bad   string
	}{
		{request.Integer, "0 -0 7 -12 1.0 5.00 123456789012345678901234567890", "|05|+5| 5|5 |1.5|1e3|.5|5.|-|0x5|1_000|٥|NaN|true|null"},
		{number, "0 -0.5 1e3 1E-3 1.50e+10", "|01|+1|1.|.1|1e|1e+|1e5.0|Infinity|0x1p3|1,5"},
		{request.Boolean, "true false", "|True|TRUE|1|0|yes|on|t|true "},
		{request.Array, "[] [1]", "|[1|[1]2|{}|a"},
		{request.Object, `{} {"a":1}`, `|{"a":1,"a":2}|[]|a`},
		{request.Null, "", "|null|a"},
	} {
		for text := range strings.FieldsSeq(test.good) {
			if out, problem := request.AppendText(nil, text, test.types); problem != "" || string(out) != text {
				t.Errorf("%q: %s, %s", text, out, problem)
			}
		}
		for text := range strings.SplitSeq(test.bad, "|") {
			if out, problem := request.AppendText([]byte("before"), text, test.types); problem == "" || string(out) != "before" {
				t.Errorf("%q: %s, %q", text, out, problem)
			}
			if out, problem := request.AppendText(nil, text, test.types|request.String); problem != "" || out[0] != '"' {
				t.Errorf("%q as text: %s, %s", text, out, problem)
			}
		}
	}
	if out, problem := request.AppendText(nil, "5", 0); string(out) != `"5"` || problem != "" {
		t.Errorf("an unknown type: %s, %s", out, problem)
	}
	if _, problem := request.AppendText(nil, "\xff", 0); problem == "" {
		t.Error("no UTF-8")
	}
}

// TestRead_style_examples reads the table of OpenAPI 3.1.1, "Style Examples".
func TestRead_style_examples(t *testing.T) {
	text := &shape{types: request.String}
	texts := &shape{types: request.Array, element: text}
	numbers := &shape{types: request.Object, element: &shape{types: request.Integer}}
	const rgb = `{"R":100,"G":200,"B":150}`
	for _, cell := range []struct {
		style   request.Style
		explode bool
		shape   *shape
		text    string
		want    string
	}{
		{request.Matrix, false, text, ";color", `""`},
		{request.Matrix, false, text, ";color=blue", `"blue"`},
		{request.Matrix, false, texts, ";color=blue,black,brown", colors},
		{request.Matrix, false, numbers, ";color=R,100,G,200,B,150", rgb},
		{request.Matrix, true, texts, ";color=blue;color=black;color=brown", colors},
		{request.Matrix, true, numbers, ";R=100;G=200;B=150", rgb},
		{request.Label, false, text, ".blue", blue},
		{request.Label, false, texts, ".blue,black,brown", colors},
		{request.Label, false, numbers, ".R,100,G,200,B,150", rgb},
		{request.Label, true, texts, ".blue.black.brown", colors},
		{request.Label, true, numbers, ".R=100.G=200.B=150", rgb},
		{request.Simple, false, text, "blue", blue},
		{request.Simple, true, texts, "blue,black,brown", colors},
		{request.Simple, false, numbers, "R,100,G,200,B,150", rgb},
		{request.Simple, true, numbers, "R=100,G=200,B=150", rgb},
		{request.Form, false, text, "color=", `""`},
		{request.Form, false, texts, "color=blue,black,brown", colors},
		{request.Form, false, numbers, "color=R,100,G,200,B,150", rgb},
		{request.Form, true, texts, "color=blue&color=black&color=brown", colors},
		{request.Form, true, numbers, "R=100&G=200&B=150", rgb},
		{request.SpaceDelimited, false, texts, "color=blue%20black%20brown", colors},
		{request.SpaceDelimited, false, numbers, "color=R%20100%20G%20200%20B%20150", rgb},
		{request.PipeDelimited, false, texts, "color=blue%7Cblack%7Cbrown", colors},
		{request.PipeDelimited, false, numbers, "color=R%7C100%7CG%7C200%7CB%7C150", rgb},
		{request.DeepObject, true, numbers, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150", rgb},
	} {
		p := request.Param{Name: "color", In: request.Path, Style: cell.style, Explode: cell.explode}
		isQuery := strings.Contains(cell.text, "color=") && cell.text[0] != ';' || cell.style == request.Form || cell.style == request.DeepObject
		if isQuery {
			p.In = request.Query
		}
		var got []byte
		var err error
		if isQuery {
			pairs, problem := request.ParsePairs(nil, request.Query, cell.text)
			if problem != nil {
				t.Fatal(problem)
			}
			got, err = must(t, p).ReadPairs(nil, pairs, cell.shape)
		} else {
			got, err = must(t, p).ReadPath(nil, cell.text, cell.shape)
		}
		if err != nil || string(got) != cell.want {
			t.Errorf("%s, explode %v, %s: got %s, %v; want %s", cell.style, cell.explode, cell.text, got, err, cell.want)
		}
	}
}

// properties is a shape of an object by the shapes of its properties.
type properties map[string]*shape

func (p properties) Types() request.Types { return request.Object }
func (p properties) Item() request.Shape  { return nil }
func (p properties) Property(name string) (request.Shape, bool) {
	if s := p[name]; s != nil {
		return s, true
	}
	return nil, false
}

// An array in an exploded object is read as it is written, and no other property is read from several pairs.
func TestRead_arrays_in_an_exploded_object(t *testing.T) {
	of := properties{
		"page":   {types: request.Integer},
		"sort":   {types: request.Array, element: &shape{types: request.String}},
		"either": {types: request.Array | request.String, element: &shape{types: request.String}},
		"by":     {types: request.Array | request.Null, element: &shape{types: request.Object}},
		"any":    {},
	}
	for text, want := range map[string]string{
		"page=0&sort=a%2Cb&sort=c":          `{"page":0,"sort":["a,b","c"]}`,
		"sort=a&page=1&other=x&sort=%5B%5D": `{"sort":["a","[]"],"page":1}`,
		"sort=a":                            `{"sort":["a"]}`,
		"either=a":                          `{"either":"a"}`,
		"either=a&either=b":                 `{"either":["a","b"]}`,
		"by=%7B%22x%22:1%7D&by=%7B%7D":      `{"by":[{"x":1},{}]}`,
		"page=1&page=2":                     string(request.Duplicate),
		"any=1&any=2":                       string(request.Duplicate),
		"sort=a&Sort=b&SORT=c":              `{"sort":["a"]}`, // the others are no properties
	} {
		for _, in := range []request.In{request.Query, request.InBody} {
			pairs, err := request.ParsePairs(nil, in, text)
			if err != nil {
				t.Fatal(err)
			}
			s := must(t, request.Param{Name: "pageable", In: in, Explode: true})
			read, err := s.ReadPairs(nil, pairs, of)
			got := string(read)
			if misread, ok := errors.AsType[*request.ReadError](err); ok {
				got = string(misread.Kind)
			}
			if got != want {
				t.Errorf("%s %s: got %s (%v), want %s", in, text, got, err, want)
				continue
			}
			if written, err := s.Append(nil, read); err == nil && got == `{"page":0,"sort":["a,b","c"]}` && string(written) != text {
				t.Errorf("%s is written as %s", text, written)
			}
		}
	}
}

// TestAlias: names that some server takes for one have one Alias.
func TestAlias(t *testing.T) {
	for _, name := range []string{"trip_id", "Trip_ID", "trip.id", "trip id", " trip_id", "tripId", "trip-id", "trip_id\x00x", "TRİPID"} {
		if got := request.Alias(name); got != "tripid" {
			t.Errorf("%q: %q", name, got)
		}
	}
	for name, want := range map[string]string{"a[b]": "a", "a[]": "a", "[a]": "[a]", "a": "a"} {
		if got := request.Stem(name); got != want {
			t.Errorf("%q: %q", name, got)
		}
	}
}

// FuzzRead: whatever the text is, what is read is JSON or a *ReadError.
func FuzzRead(f *testing.F) {
	for i, text := range []string{"a,b", "a=1&b[c]=2", ";p=a;p=b", ".a.b", "%zz", "p[0][a]=1&p[1]=x", `"a"`, "p=1;p=2", "\xff", "a%2Cb=c,d"} {
		f.Add(byte(i), byte(i), byte(i), i%2 == 0, text)
	}
	places := []request.In{request.Path, request.Query, request.Header, request.Cookie}
	f.Fuzz(func(t *testing.T, place, form, types byte, explode bool, text string) {
		s, err := request.NewSerializer(request.Param{Name: "p", In: places[int(place)%len(places)], Style: fuzzStyles[int(form)%len(fuzzStyles)], Explode: explode})
		if err != nil {
			return
		}
		of := &shape{request.Types(types), &shape{types: request.Types(types >> 1)}}
		var out []byte
		switch places[int(place)%len(places)] {
		case request.Path:
			out, err = s.ReadPath(nil, text, of)
		case request.Header:
			out, err = s.ReadHeader(nil, strings.Split(text, "\n"), of)
		default:
			var pairs []request.Pair
			if pairs, err = request.ParsePairs(nil, request.Query, text); err == nil {
				out, err = s.ReadPairs(nil, pairs, of)
			}
		}
		if err != nil {
			if !errors.As(err, new(*request.ReadError)) || len(out) > 0 {
				t.Fatalf("%s, %v", out, err)
			}
			return
		}
		if len(out) > 0 && (!jsontext.Value(out).IsValid() || strictjson.Check(out) != nil) {
			t.Fatalf("%q is read as %s", text, out)
		}
	})
}
