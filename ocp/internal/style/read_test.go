package style_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/style"
)

// A shape is a style.Shape whose items and properties are all of one kind.
type shape struct {
	types   style.Types
	element *shape
}

func (s *shape) Types() style.Types { return s.types }

func (s *shape) Item() style.Shape {
	if s.element == nil {
		return nil
	}
	return s.element
}

func (s *shape) Property(name string) (style.Shape, bool) {
	return s.Item(), name != "other"
}

// TestAppendText: only the spelling that JSON has is a number or boolean.
func TestAppendText(t *testing.T) {
	const number = style.Number | style.Integer
	for _, test := range []struct {
		types style.Types
		good  string
		bad   string
	}{
		{style.Integer, "0 -0 7 -12 1.0 5.00 123456789012345678901234567890", "|05|+5| 5|5 |1.5|1e3|.5|5.|-|0x5|1_000|٥|NaN|true|null"},
		{number, "0 -0.5 1e3 1E-3 1.50e+10", "|01|+1|1.|.1|1e|1e+|1e5.0|Infinity|0x1p3|1,5"},
		{style.Boolean, "true false", "|True|TRUE|1|0|yes|on|t|true "},
		{style.Array, "[] [1]", "|[1|[1]2|{}|a"},
		{style.Object, `{} {"a":1}`, `|{"a":1,"a":2}|[]|a`},
		{style.Null, "", "|null|a"},
	} {
		for text := range strings.FieldsSeq(test.good) {
			if out, problem := style.AppendText(nil, text, test.types); problem != "" || string(out) != text {
				t.Errorf("%q: %s, %s", text, out, problem)
			}
		}
		for text := range strings.SplitSeq(test.bad, "|") {
			if out, problem := style.AppendText([]byte("before"), text, test.types); problem == "" || string(out) != "before" {
				t.Errorf("%q: %s, %q", text, out, problem)
			}
			if out, problem := style.AppendText(nil, text, test.types|style.String); problem != "" || out[0] != '"' {
				t.Errorf("%q as text: %s, %s", text, out, problem)
			}
		}
	}
	if out, problem := style.AppendText(nil, "5", 0); string(out) != `"5"` || problem != "" {
		t.Errorf("an unknown type: %s, %s", out, problem)
	}
	if _, problem := style.AppendText(nil, "\xff", 0); problem == "" {
		t.Error("no UTF-8")
	}
}

// TestReadStyleExamples reads the table of OpenAPI 3.1.1, "Style Examples".
func TestReadStyleExamples(t *testing.T) {
	text := &shape{types: style.String}
	texts := &shape{types: style.Array, element: text}
	numbers := &shape{types: style.Object, element: &shape{types: style.Integer}}
	const rgb = `{"R":100,"G":200,"B":150}`
	for _, cell := range []struct {
		style   style.Style
		explode bool
		shape   *shape
		text    string
		want    string
	}{
		{style.Matrix, false, text, ";color", `""`},
		{style.Matrix, false, text, ";color=blue", `"blue"`},
		{style.Matrix, false, texts, ";color=blue,black,brown", colors},
		{style.Matrix, false, numbers, ";color=R,100,G,200,B,150", rgb},
		{style.Matrix, true, texts, ";color=blue;color=black;color=brown", colors},
		{style.Matrix, true, numbers, ";R=100;G=200;B=150", rgb},
		{style.Label, false, text, ".blue", blue},
		{style.Label, false, texts, ".blue,black,brown", colors},
		{style.Label, false, numbers, ".R,100,G,200,B,150", rgb},
		{style.Label, true, texts, ".blue.black.brown", colors},
		{style.Label, true, numbers, ".R=100.G=200.B=150", rgb},
		{style.Simple, false, text, "blue", blue},
		{style.Simple, true, texts, "blue,black,brown", colors},
		{style.Simple, false, numbers, "R,100,G,200,B,150", rgb},
		{style.Simple, true, numbers, "R=100,G=200,B=150", rgb},
		{style.Form, false, text, "color=", `""`},
		{style.Form, false, texts, "color=blue,black,brown", colors},
		{style.Form, false, numbers, "color=R,100,G,200,B,150", rgb},
		{style.Form, true, texts, "color=blue&color=black&color=brown", colors},
		{style.Form, true, numbers, "R=100&G=200&B=150", rgb},
		{style.SpaceDelimited, false, texts, "color=blue%20black%20brown", colors},
		{style.SpaceDelimited, false, numbers, "color=R%20100%20G%20200%20B%20150", rgb},
		{style.PipeDelimited, false, texts, "color=blue%7Cblack%7Cbrown", colors},
		{style.PipeDelimited, false, numbers, "color=R%7C100%7CG%7C200%7CB%7C150", rgb},
		{style.DeepObject, true, numbers, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150", rgb},
	} {
		p := style.Param{Name: "color", In: style.Path, Style: cell.style, Explode: cell.explode}
		isQuery := strings.Contains(cell.text, "color=") && cell.text[0] != ';' || cell.style == style.Form || cell.style == style.DeepObject
		if isQuery {
			p.In = style.Query
		}
		var got []byte
		var err error
		if isQuery {
			pairs, problem := style.ParsePairs(nil, style.Query, cell.text)
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

// TestAlias: names that some server takes for one have one Alias.
func TestAlias(t *testing.T) {
	for _, name := range []string{"trip_id", "Trip_ID", "trip.id", "trip id", " trip_id", "tripId", "trip-id", "trip_id\x00x", "TRİPID"} {
		if got := style.Alias(name); got != "tripid" {
			t.Errorf("%q: %q", name, got)
		}
	}
	for name, want := range map[string]string{"a[b]": "a", "a[]": "a", "[a]": "[a]", "a": "a"} {
		if got := style.Stem(name); got != want {
			t.Errorf("%q: %q", name, got)
		}
	}
}

// FuzzRead: whatever the text is, what is read is JSON or a *ReadError.
func FuzzRead(f *testing.F) {
	for i, text := range []string{"a,b", "a=1&b[c]=2", ";p=a;p=b", ".a.b", "%zz", "p[0][a]=1&p[1]=x", `"a"`, "p=1;p=2", "\xff", "a%2Cb=c,d"} {
		f.Add(byte(i), byte(i), byte(i), i%2 == 0, text)
	}
	places := []style.In{style.Path, style.Query, style.Header, style.Cookie}
	f.Fuzz(func(t *testing.T, place, form, types byte, explode bool, text string) {
		s, err := style.New(style.Param{Name: "p", In: places[int(place)%len(places)], Style: fuzzStyles[int(form)%len(fuzzStyles)], Explode: explode})
		if err != nil {
			return
		}
		of := &shape{style.Types(types), &shape{types: style.Types(types >> 1)}}
		var out []byte
		switch places[int(place)%len(places)] {
		case style.Path:
			out, err = s.ReadPath(nil, text, of)
		case style.Header:
			out, err = s.ReadHeader(nil, strings.Split(text, "\n"), of)
		default:
			var pairs []style.Pair
			if pairs, err = style.ParsePairs(nil, style.Query, text); err == nil {
				out, err = s.ReadPairs(nil, pairs, of)
			}
		}
		if err != nil {
			if !errors.As(err, new(*style.ReadError)) || len(out) > 0 {
				t.Fatalf("%s, %v", out, err)
			}
			return
		}
		if len(out) > 0 && (!jsontext.Value(out).IsValid() || wire.Check(out) != nil) {
			t.Fatalf("%q is read as %s", text, out)
		}
	})
}
