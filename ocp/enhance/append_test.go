package enhance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/enhance"
	"github.com/fairwayhq/fairway/tools"
)

func TestAppend(t *testing.T) {
	two := []enhance.Property{{Name: "a", Expression: `ocp.user`}, {Name: "b", Expression: `[1, 2]`}}
	many := ""
	for i := range 30 {
		many += fmt.Sprintf(`"n%d":%d,`, i, i)
	}
	const added = `"a":"alice","b":[1,2]`
	for name, test := range map[string]struct {
		options    enhance.Options
		properties []enhance.Property
		body, want string         // want is "" where the answer is left
		reason     enhance.Reason // then
		kept       int
		failed     string // properties
	}{
		"object":                  {properties: two, body: `{"x":1}`, want: `{"x":1,` + added + `}`},
		"empty object":            {properties: two, body: `{}`, want: `{` + added + `}`},
		"empty object with space": {properties: two, body: "{ \n}", want: "{ \n" + added + "}"},
		"bytes stay":              {properties: two, body: " {\"x\" : 1.50e0 ,\"\\u0079\":\"}\\/\" }\r\n", want: " {\"x\" : 1.50e0 ,\"\\u0079\":\"}\\/\" ," + added + "}\r\n"},
		"nested braces":           {properties: two, body: `{"x":{"y":{}}}`, want: `{"x":{"y":{}},` + added + `}`},
		"a name is there":         {properties: two, body: `{"a":null}`, want: `{"a":null,"b":[1,2]}`, kept: 1},
		"an escaped name is":      {properties: two, body: `{"\u0061":1}`, want: `{"\u0061":1,"b":[1,2]}`, kept: 1},
		"all names are there":     {properties: two, body: `{"a":1,"b":2}`, reason: enhance.NoProperty, kept: 2},
		"many names":              {properties: two, body: `{` + many + `"\u0062":0}`, want: `{` + many + `"\u0062":0,"a":"alice"}`, kept: 1},
		"a name further down":     {properties: two, body: `{"x":{"a":1}}`, want: `{"x":{"a":1},` + added + `}`},
		"none of an optional": {
			properties: []enhance.Property{{Name: "a", Expression: `optional.none()`}, {Name: "b", Expression: `1`}},
			body:       `{}`, want: `{"b":1}`,
		},
		"one failure leaves the others": {
			properties: []enhance.Property{{Name: "a", Expression: `1`}, {Name: "b", Expression: `ocp.workspace`}, {Name: "c", Expression: `2`}},
			body:       `{}`, want: `{"a":1,"c":2}`, failed: "b",
		},
		"a failure first": {
			properties: []enhance.Property{{Name: "a", Expression: `ocp.workspace`}, {Name: "b", Expression: `1`}},
			body:       `{"x":1}`, want: `{"x":1,"b":1}`, failed: "a",
		},
		"all fail": {
			properties: []enhance.Property{{Name: "a", Expression: `ocp.workspace`}, {Name: "b", Expression: `[1][2]`}},
			body:       `{}`, reason: enhance.MissingKey, failed: "a b",
		},

		"list":               {properties: two, body: `[{"x":1},{}]`, want: `[{"x":1,` + added + `},{` + added + `}]`},
		"list with space":    {properties: two, body: " [ {\"x\":[1]} ,\n{ } ] ", want: " [ {\"x\":[1]," + added + "} ,\n{ " + added + "} ] "},
		"list of all sorts":  {properties: two, body: `[1,{"x":1},"}",[{}],null,{"a":0}]`, want: `[1,{"x":1,` + added + `},"}",[{}],null,{"a":0,"b":[1,2]}]`, kept: 1},
		"list of no objects": {properties: two, body: `[1,[{}]]`, reason: enhance.NotObject},
		"empty list":         {properties: two, body: `[]`, reason: enhance.NotObject},
		"item is bound": {
			properties: []enhance.Property{{Name: "p", Expression: `item.n * size(response.body)`}},
			body:       `[{"n":2},{"n":3}]`, want: `[{"n":2,"p":4},{"n":3,"p":6}]`,
		},
		"one item fails": {
			properties: []enhance.Property{{Name: "p", Expression: `item.n`}},
			body:       `[{"n":2},{}]`, want: `[{"n":2,"p":2},{}]`, failed: "p",
		},
		"one item fails in one property": {
			properties: []enhance.Property{{Name: "p", Expression: `item.n`}, {Name: "q", Expression: `1`}},
			body:       `[{"m":1},{"n":2},{}]`, want: `[{"m":1,"q":1},{"n":2,"p":2,"q":1},{"q":1}]`, failed: "p",
		},
		"one property costs too much": {
			options: enhance.Options{Limits: enhance.Limits{Cost: 100}},
			properties: []enhance.Property{
				{Name: "p", Expression: `size(response.body.filter(x, response.body.exists(y, y == 1)))`}, {Name: "q", Expression: `1`},
			},
			body: `[` + strings.Repeat("{},", 50) + `{}]`, want: `[` + strings.Repeat(`{"q":1},`, 50) + `{"q":1}]`, failed: "p",
		},
		"too many items": {
			options:    enhance.Options{Limits: enhance.Limits{Items: 2}},
			properties: two, body: `[1,2,3,{}]`, reason: enhance.TooMany,
		},
		"properties of all items count": {
			options:    enhance.Options{Limits: enhance.Limits{Added: 50}},
			properties: two, body: `[{},{},{}]`, reason: enhance.AddedSize,
		},
		"list wrapped": {
			options:    enhance.Options{Lists: enhance.WrapList},
			properties: two, body: " [1, {}]\n", want: `{"items":[1, {}],` + added + `}`,
		},
		"list wrapped by another name": {
			options:    enhance.Options{Lists: enhance.WrapList, Wrap: "trips"},
			properties: []enhance.Property{{Name: "p", Expression: `size(item)`}},
			body:       `[]`, want: `{"trips":[],"p":0}`,
		},
		"the name of the wrapped list": {
			options:    enhance.Options{Lists: enhance.WrapList, Wrap: "a"},
			properties: two, body: `[]`, reason: enhance.Value,
		},
		"object is not wrapped": {
			options:    enhance.Options{Lists: enhance.WrapList},
			properties: two, body: `{}`, want: `{` + added + `}`,
		},
		"list left": {
			options:    enhance.Options{Lists: enhance.LeaveLists},
			properties: two, body: `[{}]`, reason: enhance.NotObject,
		},

		"text":            {properties: two, body: `"{}"`, reason: enhance.NotObject},
		"null":            {properties: two, body: `null`, reason: enhance.NotObject},
		"empty":           {properties: two, body: ``, reason: enhance.NotJSON},
		"cut off":         {properties: two, body: `{"x":`, reason: enhance.NotJSON},
		"two values":      {properties: two, body: `{}{}`, reason: enhance.NotJSON},
		"a name twice":    {properties: two, body: `{"x":1,"x":2}`, reason: enhance.NotJSON},
		"not UTF-8":       {properties: two, body: "{\"x\":\"\xff\"}", reason: enhance.NotJSON},
		"byte order mark": {properties: two, body: "\xef\xbb\xbf{}", reason: enhance.NotJSON},
		"too deep":        {properties: two, body: strings.Repeat("[", 70) + strings.Repeat("]", 70), reason: enhance.NotJSON},
		"too large": {
			options:    enhance.Options{Limits: enhance.Limits{Body: 10}},
			properties: two, body: `{"x":"long"}`, reason: enhance.TooLarge,
		},
		"no property": {body: `{}`, reason: enhance.NoProperty},
	} {
		t.Run(name, func(t *testing.T) {
			e := compile(t, test.options, test.properties...)
			body := []byte(test.body)
			out, outcome := e.Append(context.Background(), []byte("head "), body, exchange(t, planner()))
			want := "head "
			if test.reason == "" {
				want += test.want
			}
			if string(out) != want {
				t.Errorf("got  %s\nwant %s", out, want)
			}
			if got, want := [...]any{outcome.Reason, outcome.Kept, failedIn(outcome)}, [...]any{test.reason, test.kept, test.failed}; got != want {
				t.Errorf("reason, properties kept, properties that failed: got %v, want %v", got, want)
			}
			if string(body) != test.body {
				t.Errorf("the body became %s", body)
			}
		})
	}
}

// failedIn names the properties that failed.
func failedIn(o enhance.Outcome) string {
	var names []string
	for _, failure := range o.Failures {
		names = append(names, failure.Property)
	}
	return strings.Join(names, " ")
}

func TestWithoutContext(t *testing.T) {
	e := one(t, `1`)
	bare := exchange(t, nil)
	half := exchange(t, nil)
	half.Request.Header.Set("OCP-Context-ID", "ocp-1")
	half.Incoming = ocp.ReadIncoming(half.Request.Header, ocp.ReadOptions{})
	for name, x := range map[string]*enhance.Exchange{"no headers": bare, "half of the required ones": half} {
		t.Run(name, func(t *testing.T) {
			if out, outcome := e.Append(context.Background(), nil, []byte(`{}`), x); outcome.Reason != enhance.NoContext || out != nil {
				t.Errorf("got %s, %+v", out, outcome)
			}
		})
	}
}

func TestDeclared(t *testing.T) {
	operation := declaring(t)
	e := compile(t, enhance.Options{},
		enhance.Property{Name: "match", Expression: `{"relevance": response.body.relevance}`, Declared: true},
		enhance.Property{Name: "note", Expression: `ocp.?user`})
	for name, test := range map[string]struct {
		tool       *tools.Tool
		body, want string
		reason     enhance.Reason
	}{
		"fits":                 {operation, `{"relevance":0.5}`, `{"relevance":0.5,"match":{"relevance":0.5},"note":"alice"}`, ""},
		"does not fit":         {operation, `{"relevance":2}`, `{"relevance":2,"note":"alice"}`, ""},
		"is of another type":   {operation, `{"relevance":"high"}`, `{"relevance":"high","note":"alice"}`, ""},
		"is not declared here": {nil, `{"relevance":2}`, `{"relevance":2,"note":"alice"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			x := exchange(t, planner())
			x.Tool = test.tool
			out, outcome := e.Append(context.Background(), nil, []byte(test.body), x)
			if string(out) != test.want || outcome.Reason != test.reason {
				t.Errorf("got %s, %+v", out, outcome)
			}
		})
	}
	if got := e.Unanswered(operation); !reflect.DeepEqual(got, []string{"next_actions"}) {
		t.Errorf("unanswered: %q", got)
	}
	if got := e.Properties(operation); !reflect.DeepEqual(got, []string{"match", "note"}) {
		t.Errorf("properties: %q", got)
	}
	if got := e.Properties(nil); !reflect.DeepEqual(got, []string{"note"}) {
		t.Errorf("properties of an unknown operation: %q", got)
	}
	if got := e.Unanswered(nil); got != nil {
		t.Errorf("unanswered of an unknown operation: %q", got)
	}
}

func TestSuits(t *testing.T) {
	e := one(t, `1`)
	errors := compile(t, enhance.Options{Errors: true}, enhance.Property{Name: "p", Expression: `1`})
	for name, test := range map[string]struct {
		enhancer *enhance.Enhancer
		change   func(x *enhance.Exchange)
		want     enhance.Reason
	}{
		"JSON":              {e, func(*enhance.Exchange) {}, ""},
		"JSON with charset": {e, func(x *enhance.Exchange) { x.Header.Set("Content-Type", "Application/JSON; charset=utf-8") }, ""},
		"JSON by suffix":    {e, func(x *enhance.Exchange) { x.Header.Set("Content-Type", "application/hal+json") }, ""},
		"created":           {e, func(x *enhance.Exchange) { x.Status = 201 }, ""},
		"identity":          {e, func(x *enhance.Exchange) { x.Header.Set("Content-Encoding", "identity") }, ""},
		"no type":           {e, func(x *enhance.Exchange) { x.Header.Del("Content-Type") }, enhance.NotJSON},
		"text":              {e, func(x *enhance.Exchange) { x.Header.Set("Content-Type", "text/plain") }, enhance.NotJSON},
		"JSON lines":        {e, func(x *enhance.Exchange) { x.Header.Set("Content-Type", "application/x-ndjson") }, enhance.NotJSON},
		"JSON sequence":     {e, func(x *enhance.Exchange) { x.Header.Set("Content-Type", "application/json-seq") }, enhance.NotJSON},
		"events":            {e, func(x *enhance.Exchange) { x.Header.Set("Content-Type", "text/event-stream") }, enhance.NotJSON},
		"HEAD":              {e, func(x *enhance.Exchange) { x.Request.Method = http.MethodHead }, enhance.NoBody},
		"204":               {e, func(x *enhance.Exchange) { x.Status = 204 }, enhance.NoBody},
		"304":               {e, func(x *enhance.Exchange) { x.Status = 304 }, enhance.Status},
		"206":               {e, func(x *enhance.Exchange) { x.Status = 206 }, enhance.Status},
		"a range":           {e, func(x *enhance.Exchange) { x.Header.Set("Content-Range", "bytes 0-1/2") }, enhance.Status},
		"an error":          {e, func(x *enhance.Exchange) { x.Status = 404 }, enhance.Status},
		"an error, asked":   {errors, func(x *enhance.Exchange) { x.Status = 404 }, ""},
		"304, errors asked": {errors, func(x *enhance.Exchange) { x.Status = 304 }, enhance.Status},
		"gzip":              {e, func(x *enhance.Exchange) { x.Header.Set("Content-Encoding", "gzip") }, enhance.Encoded},
		"large":             {e, func(x *enhance.Exchange) { x.Header.Set("Content-Length", "1048577") }, enhance.TooLarge},
		"not too large":     {e, func(x *enhance.Exchange) { x.Header.Set("Content-Length", "1048576") }, ""},
		"nothing to add":    {compile(t, enhance.Options{}), func(*enhance.Exchange) {}, enhance.NoProperty},
	} {
		t.Run(name, func(t *testing.T) {
			x := exchange(t, planner())
			test.change(x)
			if got := test.enhancer.Suits(x); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, outcome := one(t, `[1].map(x, x)`).Append(ctx, nil, []byte(`{}`), exchange(t, planner()))
	if outcome.Reason != enhance.Deadline {
		t.Errorf("%+v", outcome)
	}
}

// FuzzAppend compares what comes out with what went in: it is JSON, and the same
// but for the members that were added.
func FuzzAppend(f *testing.F) {
	for _, body := range []string{`{}`, ` {"a":[1,{"b":"}"}]} `, `[{"p":1},{"q":[]},2]`, `[]`, `{"p":0,"items":[]}`, `{"x":"\ud83d\ude82"}`, `[[{}]]`, `{"a":1,"a":2}`} {
		f.Add([]byte(body), uint8(0))
		f.Add([]byte(body), uint8(1))
	}
	properties := []enhance.Property{
		{Name: "p", Expression: `response.body`},
		{Name: "q", Expression: `[ocp.current_goal, string(size(ocp.history))]`},
		{Name: "r", Expression: `type(item) == map && "x" in item ? optional.of(item["x"]) : optional.none()`},
	}
	var enhancers []*enhance.Enhancer
	for _, lists := range []enhance.Lists{enhance.EachItem, enhance.WrapList} {
		enhancers = append(enhancers, compile(f, enhance.Options{Lists: lists}, properties...))
	}
	x := exchange(f, planner())
	f.Fuzz(func(t *testing.T, body []byte, which uint8) {
		which %= uint8(len(enhancers))
		came := bytes.Clone(body)
		out, outcome := enhancers[which].Append(context.Background(), nil, body, x)
		if !bytes.Equal(came, body) {
			t.Fatal("the body was changed")
		}
		if !outcome.Enhanced() {
			if out != nil {
				t.Fatalf("%+v, and yet %s", outcome, out)
			}
			return
		}
		before, after := decode(t, body), decode(t, out)
		if list, ok := before.([]any); ok && which == 1 {
			before = map[string]any{"items": list}
		}
		remove(after, before)
		if !reflect.DeepEqual(before, after) {
			t.Errorf("%s became %s", body, out)
		}
	})
}

func decode(t testing.TB, text []byte) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// remove takes the properties from after that before does not have.
func remove(after, before any) {
	if list, ok := after.([]any); ok {
		originals, _ := before.([]any)
		for i, item := range list {
			if i < len(originals) {
				remove(item, originals[i])
			}
		}
		return
	}
	object, ok := after.(map[string]any)
	if !ok {
		return
	}
	original, _ := before.(map[string]any)
	for _, name := range []string{"p", "q", "r"} {
		if _, had := original[name]; !had {
			delete(object, name)
		}
	}
}

// trip is an answer of some 300 bytes, trips one of 20 KB.
const trip = `{"id":"b7d1","origin":"Berlin Hbf","destination":"Warszawa Centralna","departure":"2026-12-01T08:15:00Z",` +
	`"arrival":"2026-12-01T13:40:00Z","operator":"EC","price":49.9,"seats":12,"bicycles":true,"dogs":false,"stops":["Frankfurt (Oder)","Poznań"]}`

func BenchmarkAppend(b *testing.B) {
	trips := []byte(`{"trips":[` + strings.TrimSuffix(strings.Repeat(trip+",", 70), ",") + `]}`)
	list := []byte(`[` + strings.TrimSuffix(strings.Repeat(trip+",", 20), ",") + `]`)
	for _, bench := range []struct {
		name, expression string
		body             []byte
	}{
		{"constant", `"x"`, []byte(trip)},
		{"context", `"for " + ocp.current_goal`, []byte(trip)},
		{"body", `response.body.seats > 0 ? ["book " + response.body.id] : []`, []byte(trip)},
		{"loop", `response.body.stops.map(s, "via " + s)`, []byte(trip)},
		{"20 KB", `size(response.body.trips)`, trips},
		{"list of 20", `item.seats > 0 ? "bookable" : "full"`, list},
	} {
		b.Run(bench.name, func(b *testing.B) {
			e, x := one(b, bench.expression), exchange(b, planner())
			var dst []byte
			var outcome enhance.Outcome
			b.ReportAllocs()
			b.SetBytes(int64(len(bench.body)))
			for b.Loop() {
				if dst, outcome = e.Append(context.Background(), dst[:0], bench.body, x); !outcome.Enhanced() {
					b.Fatal(outcome)
				}
			}
		})
	}
}
