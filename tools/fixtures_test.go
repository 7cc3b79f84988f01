package tools

import (
	"os"
	"sync"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.CollectRarely()
	os.Exit(m.Run())
}

func buildTools(t testing.TB, document string, options BuildOptions) *Toolset {
	t.Helper()
	tools, err := Build([]byte(document), options)
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

var builtReal sync.Map // document name -> func() (*Toolset, error)

// realTools returns the toolset of a real document without options. Each document is built once: a
// toolset is immutable.
func realTools(t testing.TB, name string) *Toolset {
	t.Helper()
	testkit.DocumentPath(t, "openapi/"+name+".gz") // skips the test here, because the function below must return
	build, _ := builtReal.LoadOrStore(name, sync.OnceValues(func() (*Toolset, error) {
		return Build(testkit.ReadDocument(t, "openapi/"+name+".gz"), BuildOptions{})
	}))
	tools, err := build.(func() (*Toolset, error))()
	if err != nil {
		t.Fatal(err)
	}
	return tools
}
