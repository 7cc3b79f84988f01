package mcpadapter

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

// goClientCaller answers the calls of callAll.
var goClientCaller = callerFunc(func(_ context.Context, name string, arguments []byte) tools.Outcome {
	switch name {
	case "get_trip":
		return answered(http.StatusOK, "application/json", string(arguments))
	case "list_trips":
		return answered(http.StatusOK, "image/png", "\x89PNG")
	case "book_trip":
		outcome := answered(http.StatusConflict, "application/problem+json", `{"title":"Sold out"}`)
		outcome.Failure = &tools.Failure{Kind: tools.Refused, Status: http.StatusConflict, Message: "sold out"}
		return outcome
	}
	return tools.Outcome{Failure: &tools.Failure{Kind: tools.UnknownTool, Message: "unknown tool " + name}}
})

// The official Go client in each revision that it speaks over Streamable HTTP.
func TestOfficialGoClient(t *testing.T) {
	server, toolset := New(Options{PageSize: 2}), trains()
	for _, v := range revisions {
		t.Run(v.String(), func(t *testing.T) {
			var lock sync.Mutex // the client may ask for a stream beside its calls, and late
			var spoken []string
			site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if name := r.Header.Get(versionHeader); name != "" {
					lock.Lock()
					spoken = append(spoken, name)
					lock.Unlock()
				}
				server.ServeHTTP(w, r, siteOf(toolset, goClientCaller))
			}))
			t.Cleanup(site.Close)
			session := connect(t, site.URL, v)
			if got := session.InitializeResult(); got.ProtocolVersion != v.String() || got.ServerInfo.Name != "train-travel" || got.Instructions != "Book trains." {
				t.Fatalf("connected as %+v", got)
			}
			listAll(t, session)
			callAll(t, session)
			lock.Lock()
			defer lock.Unlock()
			for _, name := range spoken {
				if name != v.String() {
					t.Errorf("the client spoke %s", name)
				}
			}
			if len(spoken) == 0 {
				t.Error("the client named no revision")
			}
		})
	}
}

func connect(t *testing.T, url string, v protocol.Revision) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	transport := &mcp.StreamableClientTransport{Endpoint: url, MaxRetries: -1}
	session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: v.String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	if !v.Stateless() {
		if err := session.Ping(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
	return session
}

func listAll(t *testing.T, session *mcp.ClientSession) {
	t.Helper()
	var names []string
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	if got := strings.Join(names, " "); got != "get_trip list_trips book_trip replace_trip cancel_trip" {
		t.Errorf("listed %s", got)
	}
	page, err := session.ListTools(t.Context(), nil)
	if err != nil || len(page.Tools) != 2 {
		t.Fatalf("the first page is %+v, %v", page, err)
	}
	annotated := session.InitializeResult().ProtocolVersion >= protocol.V20250326.String()
	if hints := page.Tools[0].Annotations; (hints != nil) != annotated || annotated && !hints.ReadOnlyHint {
		t.Errorf("the first page is %+v, %v", page, err)
	}
	_, err = session.ListTools(t.Context(), &mcp.ListToolsParams{Cursor: "stale"})
	wantCode(t, err, protocol.InvalidParams)
}

func callAll(t *testing.T, session *mcp.ClientSession) {
	t.Helper()
	ctx := t.Context()
	got, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "get_trip", Arguments: map[string]any{"id": "ü"}})
	if err != nil {
		t.Fatal(err)
	}
	structured, _ := json.Marshal(got.StructuredContent)
	wantStructured := `{"id":"ü"}`
	if session.InitializeResult().ProtocolVersion < protocol.V20250618.String() {
		wantStructured = "null"
	}
	if text := got.Content[0].(*mcp.TextContent).Text; text != `{"id":"ü"}` || string(structured) != wantStructured {
		t.Errorf("got %q and %s", text, structured)
	}
	if got, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "list_trips"}); err != nil {
		t.Fatal(err)
	}
	if image, ok := got.Content[0].(*mcp.ImageContent); !ok || string(image.Data) != "\x89PNG" || image.MIMEType != "image/png" {
		t.Errorf("got %+v", got.Content[0])
	}
	if got, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "book_trip"}); err != nil || !got.IsError || len(got.Content) != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "nothing"})
	wantCode(t, err, protocol.InvalidParams)
}

func wantCode(t *testing.T, err error, code int64) {
	t.Helper()
	var rpc *sdkrpc.Error
	if !errors.As(err, &rpc) || rpc.Code != code {
		t.Errorf("got %v, want code %d", err, code)
	}
}

// A client that cancels a call goes on with its session.
func TestClient_outlives_cancel(t *testing.T) {
	for _, v := range []protocol.Revision{protocol.V20250618, protocol.V20251125} {
		t.Run(v.String(), func(t *testing.T) {
			began := make(chan struct{}, 1)
			e := serveEndpoint(t, Options{}, blocked(began))
			session := connect(t, e.URL+"/mcp", v)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-began
				cancel()
			}()
			if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "get_trip", Arguments: map[string]any{"id": "1"}}); !errors.Is(err, context.Canceled) {
				t.Errorf("the call ended with %v", err)
			}
			if err := session.Ping(t.Context(), nil); err != nil {
				t.Errorf("and then %v", err)
			}
		})
	}
}
