package tools

import (
	"testing"
)

func buildTools(t testing.TB, document string, options BuildOptions) *Toolset {
	t.Helper()
	tools, err := Build([]byte(document), options)
	if err != nil {
		t.Fatal(err)
	}
	return tools
}
