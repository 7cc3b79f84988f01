package strictjson_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// walked returns the names and values of a walk, separated by spaces.
func walked(value string) (string, error) {
	var out []byte
	walk := strictjson.Into(jsontext.Value(value))
	for walk.Next() {
		out = append(append(append(out, walk.Name...), walk.Value...), ' ')
	}
	return string(out), walk.Err()
}

func TestWalk(t *testing.T) {
	for value, want := range map[string]string{
		`[]`:                            ``,
		` [ ] `:                         ``,
		`{}`:                            ``,
		`12`:                            ``,
		``:                              ``,
		`"[1]"`:                         ``,
		`[1]`:                           `1 `,
		` [ 1 , "a" , null,true ] `:     `1 "a" null true `,
		`[[1,[2]],{"a":[3]}]`:           `[1,[2]] {"a":[3]} `,
		`["]","\"]","\\",{"}":"]"}]`:    `"]" "\"]" "\\" {"}":"]"} `,
		"{\"a\" :\t1,\n\"b,:\": {} \r}": `"a"1 "b,:"{} `,
		`{"":"", "\u0061":-1.5e+3}`:     `"""" "\u0061"-1.5e+3 `,
	} {
		if got, err := walked(value); got != want || err != nil {
			t.Errorf("%s: got %s, %v; want %s", value, got, err, want)
		}
	}
	for _, value := range []string{`[`, `[1`, `[1 2]`, `[,]`, `["a`, `["\`, `[[1]`, `{"a"}`, `{"a":`, `{"a":1`, `{"a":1 "b":2}`, `{`} {
		if got, err := walked(value); !errors.Is(err, strictjson.ErrMalformed) {
			t.Errorf("%s: got %s, %v; want ErrMalformed", value, got, err)
		}
	}
}

// FuzzWalk compares a walk with the members and items that a parser finds.
func FuzzWalk(f *testing.F) {
	for _, value := range []string{`[1,"a",{"b":[]}]`, `{"a":1, "b" : "\\\""}`, `[`, `{"a`, `[1 2]`, `null`} {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		walk := strictjson.Into(value)
		var got []jsontext.Value
		for walk.Next() {
			got = append(got, walk.Value)
		}
		if !jsontext.Value(value).IsValid() {
			return // it is enough that nothing panics and the walk ends
		}
		if walk.Err() != nil {
			t.Fatal(walk.Err())
		}
		decoder := jsontext.NewDecoder(bytes.NewReader(value))
		if kind := decoder.PeekKind(); kind != '[' && kind != '{' {
			return
		}
		if _, err := decoder.ReadToken(); err != nil {
			t.Fatal(err)
		}
		for _, v := range got {
			if walk.Name != nil {
				if _, err := decoder.ReadToken(); err != nil {
					t.Fatal(err)
				}
			}
			want, err := decoder.ReadValue()
			if err != nil || !bytes.Equal(v, want) {
				t.Fatalf("got %s, want %s, %v", v, want, err)
			}
		}
		if kind := decoder.PeekKind(); kind != ']' && kind != '}' {
			t.Fatalf("the walk through %s ends before %v", value, kind)
		}
	})
}
