package strictjson_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// TestLongStrings has strings of nothing but escapes: to read one takes time that
// grows with its length, and not with the square of that, which would be minutes
// here.
func TestLongStrings(t *testing.T) {
	for name, escape := range map[string]string{"backslashes": `\\`, "quotes": `\"`, "letters": `\u0066`} {
		t.Run(name, func(t *testing.T) {
			text := `"` + strings.Repeat(escape, 1<<21) + `"`
			// As many brackets as have the nesting looked at.
			value := `{"a":` + text + `,"b":[` + strings.Repeat("[],", strictjson.MaxDepth) + `1]}`
			if err := strictjson.Check([]byte(value)); err != nil {
				t.Fatal(err)
			}
			walk := strictjson.Into(jsontext.Value(value))
			if !walk.Next() || string(walk.Value) != text {
				t.Fatalf("got the first value %.20s with %d bytes, want %.20s with %d; error %v", walk.Value, len(walk.Value), text, len(text), walk.Err())
			}
			if !walk.Next() || !walk.Is("b") {
				t.Fatalf("got the second member %.20s, want b; error %v", walk.Name, walk.Err())
			}
			if walk.Next() || walk.Err() != nil {
				t.Errorf("got the member %.20s and the error %v, want the end", walk.Name, walk.Err())
			}
		})
	}
}
