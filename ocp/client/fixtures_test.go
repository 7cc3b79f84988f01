package client

import (
	"testing"

	"github.com/fairwayhq/fairway/tools"
)

func buildTools(t testing.TB, document string, options tools.BuildOptions) *tools.Toolset {
	t.Helper()
	toolset, err := tools.Build([]byte(document), options)
	if err != nil {
		t.Fatal(err)
	}
	return toolset
}
