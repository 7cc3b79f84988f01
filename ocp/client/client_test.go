package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/security"
)

// shopServer serves the shop's document and API. Answer writes an order.
func shopServer(t *testing.T, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Etag", `"1"`)
		if r.Header.Get("If-None-Match") == `"1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, testkit.Shop)
	})
	mux.HandleFunc("GET /v1/orders/{id}", answer)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func shopClient(t *testing.T, server *httptest.Server, shared *ocp.SharedContext) *Client {
	t.Helper()
	toolset, err := new(Discovery).Tools(context.Background(), "shop", server.URL+"/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	client, err := NewClient(toolset, ClientOptions{Context: shared})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// replying is a server that answers with context.
func replying(update func(in *ocp.Incoming) ocp.Update) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if in := ocp.ReadIncoming(r.Header, ocp.ReadOptions{Strict: true}); in != nil && in.Judge().Verdict == ocp.Conforming {
			in.Reply(update(in)).SetReplyHeaders(w.Header())
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":`+r.PathValue("id")+`}`)
	}
}

// TestClient_Call: the context goes out with the call, and the call into it.
func TestClient_Call(t *testing.T) {
	shared := ocp.NewSharedContext(ocp.NewContext("cli_tool"))
	shared.Change(func(c *ocp.Context) { c.SetGoal("buy bread", "") })
	var got *ocp.Incoming
	server := shopServer(t, func(w http.ResponseWriter, r *http.Request) {
		got = ocp.ReadIncoming(r.Header, ocp.ReadOptions{Strict: true})
		if r.PathValue("id") == "7" {
			http.Error(w, "no such order", http.StatusNotFound)
		}
	})
	client := shopClient(t, server, shared)
	result, err := client.Call(context.Background(), "getOrder", []byte(`{"id":7,"key":"secret"}`))
	if failure := failureOf(err); failure.Kind != tools.Refused || result == nil || result.Status != http.StatusNotFound {
		t.Fatalf("%+v, %v", result, err)
	}
	if got == nil {
		t.Fatal("no context was sent")
	}
	if got, want := [...]any{got.Judge().Verdict, got.CurrentGoal, got.Version}, [...]any{ocp.Conforming, "buy bread", ocp.Version}; got != want {
		t.Fatalf("sent %v, want %v", got, want)
	}
	history := shared.Context().History
	if len(history) != 1 || len(got.Context().History) != 0 {
		t.Fatalf("%+v", history)
	}
	e := history[0]
	if got, want := [...]string{e.Action, e.APIEndpoint, e.Result, e.Operation, e.ToolName}, [...]string{ocp.ActionAPICall, server.URL + "/v1/orders/7", "error: 404 Not Found", "getOrder", "shop.getOrder"}; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if faults := shared.Context().Validate(true); len(faults) > 0 {
		t.Error(faults)
	}
	_, _ = client.Call(context.Background(), "getOrder", []byte(`{"id":"x"}`))
	_, _ = client.Call(context.Background(), "none", nil)
	if n := len(shared.Context().History); n != 1 {
		t.Errorf("%d entries: calls that were not made are in the history", n)
	}
	_, _ = client.Call(context.Background(), "getOrder", []byte(`{"id":8}`))
	if history := got.Context().History; len(history) != 1 {
		t.Errorf("the next call carries %+v", history)
	}
}

// TestClient_merges: what the answer says is taken over, and a call that it
// reports is recorded once.
func TestClient_merges(t *testing.T) {
	shared := ocp.NewSharedContext(ocp.NewContext("cli_tool"))
	server := shopServer(t, replying(func(in *ocp.Incoming) ocp.Update {
		now := time.Now()
		entries := append([]ocp.HistoryEntry{}, in.Context().History...) // an echo, as it should not be
		return ocp.Update{
			At: now, CurrentGoal: "eat bread", RecentChanges: []string{"order read"},
			Entries: append(entries, ocp.CallEntry(now, "/v1/orders/7", "getOrder", "gateway.getOrder", 200)),
		}
	}))
	client := shopClient(t, server, shared)
	for range 3 {
		if _, err := client.Call(context.Background(), "getOrder", []byte(`{"id":7}`)); err != nil {
			t.Fatal(err)
		}
	}
	c := shared.Context()
	if len(c.History) != 3 || c.CurrentGoal != "eat bread" || len(c.RecentChanges) != 1 {
		t.Errorf("%s", c.AppendJSON(nil))
	}
}

// TestClient_degraded: calls work without a context, and with one that cannot be
// sent.
func TestClient_degraded(t *testing.T) {
	bad := ocp.NewContext("not a good agent type!")
	for name, shared := range map[string]*ocp.SharedContext{"none": nil, "empty": {}, "bad": ocp.NewSharedContext(bad)} {
		server := shopServer(t, func(w http.ResponseWriter, r *http.Request) {
			if h := ocp.ReadHeaders(r.Header, ocp.ReadOptions{}); h.Present() {
				t.Errorf("%s: OCP headers were sent: %+v", name, h)
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{}`)
		})
		result, err := shopClient(t, server, shared).Call(context.Background(), "getOrder", []byte(`{"id":7}`))
		if err != nil || string(result.Body) != `{}` {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
	}
}

func TestClient_concurrent(t *testing.T) {
	shared := ocp.NewSharedContext(ocp.NewContext("cli_tool"))
	server := shopServer(t, replying(func(*ocp.Incoming) ocp.Update { return ocp.Update{At: time.Now()} }))
	client := shopClient(t, server, shared)
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			_, _ = client.Call(context.Background(), "getOrder", fmt.Appendf(nil, `{"id":%d}`, i))
			shared.Change(func(c *ocp.Context) { c.AddChange(fmt.Sprint(i)) })
		})
	}
	all.Wait()
	if c := shared.Context(); len(c.History) != 10 || len(c.RecentChanges) != 10 {
		t.Errorf("%d entries, %d changes", len(c.History), len(c.RecentChanges))
	}
}

func TestNewClient_refuses(t *testing.T) {
	for origin, want := range map[string]string{
		"":                          "host",
		"ftp://a.example":           "http https",
		"a.example":                 "http https",
		"https://a.example/v1":      "end host",
		"https://u:secret@a/\x7f":   "parsed",
		"https://u:secret@a.b/path": "end host",
	} {
		_, err := NewClient(tools.NewToolset("x", nil), ClientOptions{Origin: origin})
		if err == nil || !testkit.ContainsAll(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want %s", origin, err, want)
		}
	}
}

func TestHTTPInvoker(t *testing.T) {
	release := make(chan struct{})
	server := shopServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.PathValue("id") {
		case "1":
			_, _ = w.Write(make([]byte, 2000))
		case "2":
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		case "3":
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
	})
	defer close(release)
	toolset := buildTools(t, testkit.Shop, tools.BuildOptions{Name: "shop", Location: server.URL + "/openapi.json"})
	client, err := NewClient(toolset, ClientOptions{MaxResponse: 1000})
	if err != nil {
		t.Fatal(err)
	}
	hasty, err := NewClient(toolset, ClientOptions{MaxResponse: 1000, Timeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for arguments, want := range map[string]tools.FailureKind{`{"id":1}`: tools.TooLarge, `{"id":2}`: tools.Redirected, `{"id":3}`: tools.TimedOut} {
		client := client
		if want == tools.TimedOut {
			client = hasty
		}
		_, err := client.Call(context.Background(), "getOrder", []byte(arguments))
		if failure := failureOf(err); failure.Kind != want || !strings.HasPrefix(failure.Message, "GET /orders/{id}") {
			t.Errorf("%s: got %v, want %s", arguments, err, want)
		}
	}
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := client.Call(canceled, "getOrder", []byte(`{"id":3}`)); failureOf(err).Kind != tools.Canceled {
		t.Error(err)
	}
	server.Close()
	if _, err := client.Call(context.Background(), "getOrder", []byte(`{"id":4,"key":"secret"}`)); failureOf(err).Kind != tools.Unreachable || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

// An answer that streams is what it comes to, and a supplement goes along.
func TestHTTPInvoker_stream(t *testing.T) {
	server := shopServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: progress\ndata: {\"progress\":1,\"total\":2}\n\nevent: result\ndata: {\"key\":\""+r.Header.Get("X-Key")+"\"}\n\n")
	})
	toolset := buildTools(t, testkit.Shop, tools.BuildOptions{Name: "shop", Location: server.URL + "/openapi.json"})
	client, err := NewClient(toolset, ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var received []tools.EventKind
	ctx := tools.ContextWithListener(t.Context(), func(e tools.Event) { received = append(received, e.Kind) })
	ctx = security.ContextWithSupplement(ctx, &security.Supplement{Header: http.Header{"X-Key": {"k1"}}})
	result, err := client.Call(ctx, "getOrder", []byte(`{"id":1}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(result.Body); got != `{"key":"k1"}` || result.MediaType() != "application/json" {
		t.Errorf("got %s as %s", got, result.MediaType())
	}
	if len(received) != 1 || received[0] != tools.EventProgress {
		t.Errorf("got %v", received)
	}
}

// TestDiscovery: a document is fetched once, fetched again when it is due, and
// its tools outlive it.
func TestDiscovery(t *testing.T) {
	var asked, sent atomic.Int32
	var broken atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Etag", `"1"`)
		switch {
		case broken.Load():
			w.WriteHeader(http.StatusBadGateway)
		case r.Header.Get("If-None-Match") == `"1"`:
			w.WriteHeader(http.StatusNotModified)
		default:
			sent.Add(1)
			_, _ = io.WriteString(w, testkit.Shop)
		}
	}))
	defer server.Close()
	ctx := context.Background()
	find := func(d *Discovery) *tools.Toolset {
		toolset, err := d.Tools(ctx, "shop", server.URL)
		if err != nil {
			t.Fatal(err)
		}
		return toolset
	}
	d := &Discovery{}
	first := find(d)
	if again := find(d); again != first || asked.Load() != 1 {
		t.Errorf("got %p and %p after %d requests, want the same after 1", first, again, asked.Load())
	}
	if first.Name != "shop" || first.Origin != server.URL {
		t.Errorf("got %s at %s, want shop at %s", first.Name, first.Origin, server.URL)
	}
	eager := &Discovery{Refresh: time.Nanosecond}
	old := find(eager)
	if find(eager) != old || asked.Load() != 3 || sent.Load() != 2 {
		t.Errorf("asked %d times, sent %d times", asked.Load(), sent.Load())
	}
	broken.Store(true)
	if find(eager) != old {
		t.Error("the tools are gone with the document")
	}
	d.Forget("shop", server.URL)
	if _, err := d.Tools(ctx, "shop", server.URL); err == nil || !testkit.ContainsAll(err.Error(), "502") {
		t.Errorf("forgotten, and still: %v", err)
	}
	for i := range maxDiscovered + 5 {
		_, _ = d.Tools(ctx, fmt.Sprint(i), server.URL)
	}
	if len(d.entries) != maxDiscovered || len(d.order) != maxDiscovered {
		t.Errorf("%d documents are kept", len(d.entries))
	}
}

// TestDiscovery_reads_no_file: an address may come from a foreign context.
func TestDiscovery_reads_no_file(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shop.json")
	if err := os.WriteFile(path, []byte(testkit.Shop), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Dir(path))
	for _, address := range []string{path, "shop.json", "./shop.json", "file://" + path, "ftp://a.example/", "http:" + path, "HTTP:///" + path, "", "not a url"} {
		if toolset, err := new(Discovery).Tools(context.Background(), "x", address); err == nil || toolset != nil || strings.Contains(err.Error(), "no such file") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestDiscovery_enters_api_specs: an API that was discovered is in the agent's context.
func TestDiscovery_enters_api_specs(t *testing.T) {
	server := shopServer(t, replying(func(*ocp.Incoming) ocp.Update { return ocp.Update{At: time.Now()} }))
	address := server.URL + "/openapi.json"
	shared := ocp.NewSharedContext(ocp.NewContext("cli_tool"))
	discovery := Discovery{Context: shared}
	for _, name := range []string{"shop", "shop", "not a name"} {
		if _, err := discovery.Tools(context.Background(), name, address); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := discovery.Tools(context.Background(), "none", server.URL+"/none"); err == nil {
		t.Error("there is no such document")
	}
	if specs := shared.Context().APISpecs; len(specs) != 1 || specs["shop"] != address {
		t.Errorf("api_specs: %v", specs)
	}
	if faults := shared.Context().Validate(true); len(faults) > 0 {
		t.Error(faults)
	}
}

// TestClient_arguments: arguments may be any Go value.
func TestClient_arguments(t *testing.T) {
	server := shopServer(t, replying(func(*ocp.Incoming) ocp.Update { return ocp.Update{At: time.Now()} }))
	client := shopClient(t, server, nil)
	type order struct {
		ID int `json:"id"`
	}
	for _, arguments := range []any{
		map[string]any{"id": 7},
		map[string]int{"id": 7},
		order{7},
		&order{7}, []byte(`{"id":7}`),
		json.RawMessage(`{"id":7}`), jsontext.Value(`{"id":7}`),
	} {
		result, err := client.Call(context.Background(), "getOrder", arguments)
		if err != nil || string(result.Body) != `{"id":7}` {
			t.Errorf("%T: %v", arguments, err)
		}
	}
	for _, arguments := range []any{nil, []int{7}, "id", map[string]any{"id": "x"}, make(chan int), (*order)(nil)} {
		result, err := client.Call(context.Background(), "getOrder", arguments)
		if failureOf(err).Kind != tools.InvalidArguments || result != nil {
			t.Errorf("%T: %v", arguments, err)
		}
	}
}

// failureOf finds the failure in the error of a call; it is empty if there is none.
func failureOf(err error) *tools.Failure {
	if failure, ok := errors.AsType[*tools.Failure](err); ok {
		return failure
	}
	return &tools.Failure{}
}

// Responses are compared with the schema of the document. A deviation is noted and is no error.
func TestClient_validates_responses(t *testing.T) {
	const document = `{"openapi":"3.1.0","info":{"title":"Shop","version":"1"},"paths":{
		"/openapi.json":{"get":{"operationId":"document","responses":{"200":{"description":"d"}}}},
		"/count":{"get":{"operationId":"count","parameters":[{"name":"as","in":"query","schema":{"type":"string"}}],"responses":{
		"200":{"description":"The count.","content":{"application/json":{"schema":{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}},"text/plain":{}}},
		"204":{"description":"None."}}}}}}`
	answer, media, status := "", "", http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/openapi.json" {
			_, _ = io.WriteString(w, document)
			return
		}
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	var discovery Discovery
	found, err := discovery.Tools(t.Context(), "shop", server.URL+"/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	built := buildTools(t, document, tools.BuildOptions{Name: "shop", ResponseSchemas: true})
	for _, toolset := range []*tools.Toolset{found, built} {
		client, err := NewClient(toolset, ClientOptions{Origin: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			status              int
			media, answer, note string
		}{
			{200, "application/json", `{"n":7}`, ""},
			{200, "application/json", `{"n":"x"}`, "n"},
			{200, "application/json", `{}`, "n"},
			{200, "application/json", `{"n":`, "JSON"},
			{200, "text/csv", `n;7`, "JSON"},
			{200, "text/plain", `7`, ""},
			{204, "application/json", ``, ""},
		} {
			status, media, answer = c.status, c.media, c.answer
			result, err := client.Call(t.Context(), "count", nil)
			if err != nil || string(result.Body) != c.answer {
				t.Errorf("%+v: %+v, %v", c, result, err)
			} else if (result.Note == "") != (c.note == "") || !strings.Contains(result.Note, c.note) {
				t.Errorf("%+v: note %q", c, result.Note)
			}
		}
	}
}
