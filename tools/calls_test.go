package tools

import (
	"context"
	"net/http"
	"testing"
)

func callRequest(t *testing.T, tool *Tool, arguments string) *http.Request {
	t.Helper()
	call, err := tool.Bind([]byte(arguments))
	if err != nil {
		t.Fatalf("%s: %v", tool.Name, err)
	}
	r, err := call.Request(context.Background())
	if err != nil {
		t.Fatalf("%s: %v", tool.Name, err)
	}
	return r
}
