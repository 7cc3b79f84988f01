package client

import (
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
