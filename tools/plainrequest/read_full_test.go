package plainrequest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools"
)

// TestMaxSchema_checks_arguments_by_the_full_schema in calls and plain requests.
func TestMaxSchema_checks_arguments_by_the_full_schema(t *testing.T) {
	document := string(testkit.WideDocument(testkit.WideOptions{Operations: 1, Schemas: 40, Properties: 12, Description: 200}))
	full, small := buildTools(t, document, tools.BuildOptions{MaxSchema: -1}).Tools()[0], buildTools(t, document, tools.BuildOptions{MaxSchema: 8000}).Tools()[0]
	if full.Definition.Simplified || !small.Definition.Simplified {
		t.Fatalf("simplified: got full %t and small %t, want false and true", full.Definition.Simplified, small.Definition.Simplified)
	}
	if s, f := len(small.Definition.InputSchema), len(full.Definition.InputSchema); s > 8000 || f < 40_000 {
		t.Fatalf("got %d bytes small, want at most 8000; got %d bytes full, want at least 40000", s, f)
	}
	if !bytes.Equal(small.FullSchema(), full.Definition.InputSchema) && len(small.FullSchema()) < 40_000 {
		t.Errorf("arguments are checked against %d bytes", len(small.FullSchema()))
	}
	deep := `{"property00":{"property00":{"property00":{"property01":%s}}}}`
	for value, good := range map[string]bool{`"x"`: true, `1`: false} {
		body := fmt.Sprintf(deep, value)
		if _, err := small.Bind([]byte(`{"accountId":"1",` + body[1:])); (err == nil) != good {
			t.Errorf("call with %s: %v", value, err)
		}
		r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "/accounts/1/things0", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		read, err := reader.ReadRequest(small, r, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := small.Bind(read); (err == nil) != good {
			t.Errorf("request with %s: %v", value, err)
		}
	}
	if small.Definition.Arguments[0].Description == "" || !slices.ContainsFunc(small.Definition.Arguments, func(a tools.Argument) bool { return bytes.Contains(a.Schema, []byte(`"$ref"`)) }) {
		t.Errorf("the arguments say too little: %s", small.Definition.InputSchema)
	}
}
