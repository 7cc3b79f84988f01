package match

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/fairwayhq/fairway/internal/widedoc"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// TestMaxSchema_checks_arguments_by_the_full_schema in calls and plain requests.
func TestMaxSchema_checks_arguments_by_the_full_schema(t *testing.T) {
	document := string(widedoc.Make(widedoc.Options{Operations: 1, Schemas: 40, Properties: 12, Description: 200}))
	full, small := buildTools(t, document, tool.BuildOptions{MaxSchema: -1}).Tools()[0], buildTools(t, document, tool.BuildOptions{MaxSchema: 8000}).Tools()[0]
	if full.Simplified || !small.Simplified || len(small.InputSchema) > 8000 || len(full.InputSchema) < 40_000 {
		t.Fatalf("full %d bytes, small %d", len(full.InputSchema), len(small.InputSchema))
	}
	if !bytes.Equal(small.Plan().Schema(), full.InputSchema) && len(small.Plan().Schema()) < 40_000 {
		t.Errorf("arguments are checked against %d bytes", len(small.Plan().Schema()))
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
		if _, _, err := ReadCall(small, r, []byte(body)); (err == nil) != good {
			t.Errorf("request with %s: %v", value, err)
		}
	}
	if small.Arguments[0].Description == "" || !slices.ContainsFunc(small.Arguments, func(a tool.Argument) bool { return bytes.Contains(a.Schema, []byte(`"$ref"`)) }) {
		t.Errorf("the arguments say too little: %s", small.InputSchema)
	}
}
