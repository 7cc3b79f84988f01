package integration

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// TestGoSDK speaks with the official Go client in each revision that it knows
// over Streamable HTTP.
func TestGoSDK(t *testing.T) {
	g := startExample(t)
	for _, revision := range []string{"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
			defer cancel()
			client := mcp.NewClient(&mcp.Implementation{Name: "fairway-test", Version: "1.0.0"}, nil)
			session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: g.url + "/mcp"},
				&mcp.ClientSessionOptions{ProtocolVersion: revision})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			if got := session.InitializeResult().ProtocolVersion; got != revision {
				t.Errorf("revision %s was agreed on, want %s", got, revision)
			}
			checkSession(ctx, t, session)
		})
	}
}

// checkSession lists the example's tools and calls some of them.
func checkSession(ctx context.Context, t *testing.T, session *mcp.ClientSession) {
	t.Helper()
	list, err := session.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if tool.Description == "" || tool.Annotations == nil {
			t.Errorf("tool %s has no description or no annotations", tool.Name)
		}
	}
	if !slices.Equal(names, exampleTools) {
		t.Errorf("tools %q, want %q", names, exampleTools)
	}

	checkTools(ctx, t, session, []toolCall{
		{"get_trip", map[string]any{"trip_id": "ir-1512"}, false, "Geneva"},
		{"create_booking", map[string]any{"trip_id": "ic-801", "passenger": "Ada", "seats": 2}, false, "bk-1001"},
		{"create_booking", map[string]any{"trip_id": "ice-71", "passenger": "Ada"}, true, "no seat left"},
		{"get_trip", map[string]any{}, true, "trip_id"},
	})

	_, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "get_trips", Arguments: map[string]any{}})
	if err == nil || !strings.Contains(err.Error(), "get_trip") {
		t.Errorf("a tool that does not exist: error %v, want one that names get_trip", err)
	}
}

// toolCall is a call, and what must be in its result.
type toolCall struct {
	tool      string
	arguments map[string]any
	failed    bool
	want      string
}

// checkTools makes calls one after the other.
func checkTools(ctx context.Context, t *testing.T, session *mcp.ClientSession, calls []toolCall) {
	t.Helper()
	for _, c := range calls {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: c.tool, Arguments: c.arguments})
		if err != nil {
			t.Errorf("%s %v: %v", c.tool, c.arguments, err)
			continue
		}
		content, err := json.Marshal(result.Content)
		if err != nil {
			t.Fatal(err)
		}
		if result.IsError != c.failed || !testkit.ContainsAll(string(content), c.want) {
			t.Errorf("%s %v: isError %t, want %t with %q in it: %.500s", c.tool, c.arguments, result.IsError, c.failed, c.want, content)
		}
	}
}
