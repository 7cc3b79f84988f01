package plainrequest

import (
	"context"
	"net/http"
	"os"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools"
)

func TestMain(m *testing.M) {
	testkit.CollectRarely()
	os.Exit(m.Run())
}

func buildTools(t testing.TB, document string, options tools.BuildOptions) *tools.Toolset {
	t.Helper()
	toolset, err := tools.Build([]byte(document), options)
	if err != nil {
		t.Fatal(err)
	}
	return toolset
}

func callRequest(t *testing.T, of *tools.Tool, arguments string) *http.Request {
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

// reader reads requests; it needs no routes for this.
var reader = new(Routes)
