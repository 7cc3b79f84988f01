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
			if !walk.Next() || string(walk.Value) != text || !walk.Next() || !walk.Is("b") || walk.Next() || walk.Err() != nil {
				t.Errorf("%.20s: %v", walk.Name, walk.Err())
			}
		})
	}
}
