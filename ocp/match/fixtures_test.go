package match

import (
	"context"
	"net/http"
	"testing"

	"github.com/fairwayhq/fairway/ocp/tool"
)

func buildTools(t testing.TB, document string, options tool.BuildOptions) *tool.Toolset {
	t.Helper()
	tools, err := tool.Build([]byte(document), options)
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

func callRequest(t *testing.T, of *tool.Tool, arguments string) *http.Request {
	t.Helper()
	call, err := of.Bind([]byte(arguments))
	if err != nil {
		t.Fatalf("%s: %v", of.Name, err)
	}
	r, err := call.Request(context.Background())
	if err != nil {
		t.Fatalf("%s: %v", of.Name, err)
	}
	return r
}
