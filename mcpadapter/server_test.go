package mcpadapter

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/yosida95/uritemplate/v3"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

const (
	versionHeader    = protocol.VersionHeader
	methodHeader     = protocol.MethodHeader
	nameHeader       = protocol.NameHeader
	metaVersion      = protocol.MetaVersion
	metaCapabilities = protocol.MetaCapabilities
	metaLogLevel     = protocol.MetaLogLevel
)

var revisions = []protocol.Revision{protocol.V20241105, protocol.V20250326, protocol.V20250618, protocol.V20251125, protocol.V20260728}

// A callerFunc is a tools.Caller.
type callerFunc func(ctx context.Context, tool string, arguments []byte) tools.Outcome

func (f callerFunc) Call(ctx context.Context, tool string, arguments []byte) tools.Outcome {
	return f(ctx, tool, arguments)
}

// echo answers every call with its arguments.
var echo = callerFunc(func(_ context.Context, _ string, arguments []byte) tools.Outcome {
	return answered(http.StatusOK, "application/json", string(arguments))
})

func answered(status int, contentType, body string) tools.Outcome {
	header := http.Header{}
	if contentType != "" {
		header.Set("Content-Type", contentType)
	}
	return tools.Outcome{
		Tool:   &tools.Tool{Name: "get_trip", Plan: tools.Plan{Method: "GET"}},
		Result: &tools.Result{Status: status, Header: header, Body: []byte(body)},
	}
}

// trains is a Toolset that has a tool of every kind of method.
func trains() *tools.Toolset {
	object := []byte(`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`)
	toolset := tools.NewToolset("trains", []*tools.Tool{
		{Name: "get_trip", Definition: tools.Definition{Title: "Get a trip", Description: "Returns one trip.", InputSchema: object}, Plan: tools.Plan{Method: "GET"}},
		{Name: "list_trips", Definition: tools.Definition{Description: "Lists \"all\" trips."}, Plan: tools.Plan{Method: "GET"}},
		{Name: "book_trip", Definition: tools.Definition{Title: "Book", Description: "Books a trip.", InputSchema: object}, Plan: tools.Plan{Method: "POST"}},
		{Name: "replace_trip", Definition: tools.Definition{Description: "Replaces a trip.", InputSchema: object}, Plan: tools.Plan{Method: "PUT"}},
		{Name: "cancel_trip", Definition: tools.Definition{Description: "Cancels a trip.", InputSchema: object}, Plan: tools.Plan{Method: "DELETE"}},
	})
	toolset.Title, toolset.Description, toolset.Version, toolset.Hash = "Train Travel", "Book trains.", "1.2.0", "h1"
	return toolset
}

// fewerTrains are trains without the last tool.
func fewerTrains() *tools.Toolset {
	return trains().Only(func(t *tools.Tool) bool { return t.Name != "cancel_trip" })
}

// A request is one POST in the making.
type testRequest struct {
	version protocol.Revision
	body    string
	header  map[string]string // "" deletes
	tools   *tools.Toolset
	caller  tools.Caller
	server  *Server
	login   *Login
	access  *Access // nil for no access token
}

// message builds a conformant request of the revision. Params are the members of
// the object, without braces.
func conformant(v protocol.Revision, method, params string) testRequest {
	r := testRequest{version: v, header: map[string]string{}}
	if v.Stateless() {
		own := `"_meta":{"` + metaVersion + `":"` + v.String() + `","` + metaCapabilities + `":{}}`
		if params != "" {
			own += ","
		}
		params = own + params
		r.header[methodHeader] = method
		var p struct{ Name string }
		if json.Unmarshal([]byte("{"+params+"}"), &p) == nil && method == "tools/call" {
			r.header[nameHeader] = p.Name
		}
	}
	r.body = `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{` + params + `}}`
	return r
}

// Send serves the request and checks what holds for every answer.
func (r testRequest) Send(t testing.TB) *httptest.ResponseRecorder {
	t.Helper()
	if r.server == nil {
		r.server = New(Options{})
	}
	if r.tools == nil {
		r.tools = trains()
	}
	if r.caller == nil {
		r.caller = echo
	}
	post := httptest.NewRequest(http.MethodPost, "http://api.example.com/mcp", strings.NewReader(r.body))
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Accept", "application/json, text/event-stream")
	if r.version != protocol.Unknown {
		post.Header.Set(versionHeader, r.version.String())
	}
	for name, value := range r.header {
		if post.Header.Del(name); value != "" {
			post.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	site := siteOf(r.tools, r.caller)
	site.Login, site.Access = r.login, r.access
	r.server.ServeHTTP(w, post, site)
	checkAnswer(t, w)
	return w
}

// checkAnswer checks that a body is JSON and described as such.
func checkAnswer(t testing.TB, w *httptest.ResponseRecorder) {
	t.Helper()
	body := w.Body.Bytes()
	if len(body) == 0 {
		if w.Code != http.StatusAccepted && w.Code != http.StatusNoContent {
			t.Errorf("status %d has no body", w.Code)
		}
		return
	}
	if !strictjson.Valid(body) {
		t.Errorf("not JSON: %q", body)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q", got)
	}
	if w.Result().ContentLength != int64(len(body)) {
		t.Errorf("Content-Length %d for %d bytes", w.Result().ContentLength, len(body))
	}
}

// An answer is what a client reads.
type answer struct {
	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

func (a answer) code() int {
	if a.Error == nil {
		return 0
	}
	return a.Error.Code
}

func parse(t testing.TB, w *httptest.ResponseRecorder) answer {
	t.Helper()
	var a answer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return a
}

// result sends the request, holds the answer to the revision's schema and decodes
// the result into v.
func (r testRequest) result(t testing.TB, definition string, v any) {
	t.Helper()
	w := r.Send(t)
	a := parse(t, w)
	if w.Code != http.StatusOK || a.Error != nil {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	validate(t, r.version, definition, w.Body.Bytes())
	if err := json.Unmarshal(a.Result, v); err != nil {
		t.Fatal(err)
	}
}

// fault sends the request and checks code and status of the error it is answered
// with.
func (r testRequest) fault(t testing.TB, status, code int) answer {
	t.Helper()
	w := r.Send(t)
	a := parse(t, w)
	if w.Code != status || a.code() != code {
		t.Errorf("got %d with code %d, want %d with %d: %s", w.Code, a.code(), status, code, w.Body)
	}
	if len(a.ID) > 0 && string(a.ID) != "null" && r.version != protocol.Unknown {
		validate(t, r.version, "", w.Body.Bytes())
	}
	return a
}

var schemas sync.Map // by revision and definition

// validate checks an answer against the published schema of its revision: the
// envelope, and the result if a definition is named.
func validate(t testing.TB, v protocol.Revision, definition string, body []byte) {
	t.Helper()
	file, ok := testkit.FindDocument(t, "schemas/mcp/"+v.String()+".schema.json")
	if !ok {
		t.Log("not held to the schema, which is not here: the rest of the test counts")
		return
	}
	instance, err := jsonschema.UnmarshalJSON(strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	_, refused := instance.(map[string]any)["error"]
	envelope := map[bool]string{false: "JSONRPCResponse", true: "JSONRPCError"}[refused]
	if v >= protocol.V20251125 {
		envelope = map[bool]string{false: "JSONRPCResultResponse", true: "JSONRPCErrorResponse"}[refused]
	}
	if err := schema(t, v, file, envelope).Validate(instance); err != nil {
		t.Errorf("%v: %v\n%s", v, err, text.Cut(string(body), 500))
	}
	if definition == "" {
		return
	}
	if err := schema(t, v, file, definition).Validate(instance.(map[string]any)["result"]); err != nil {
		t.Errorf("%v: %v\n%s", v, err, text.Cut(string(body), 500))
	}
}

// validateMessage checks a message of the server that is no answer.
func validateMessage(t testing.TB, v protocol.Revision, definition string, body []byte) {
	t.Helper()
	file, ok := testkit.FindDocument(t, "schemas/mcp/"+v.String()+".schema.json")
	if !ok {
		t.Log("not held to the schema, which is not here: the rest of the test counts")
		return
	}
	instance, err := jsonschema.UnmarshalJSON(strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema(t, v, file, definition).Validate(instance); err != nil {
		t.Errorf("%v: %v\n%s", v, err, text.Cut(string(body), 500))
	}
}

func schema(t testing.TB, v protocol.Revision, file, definition string) *jsonschema.Schema {
	t.Helper()
	key := v.String() + definition
	if kept, ok := schemas.Load(key); ok {
		return kept.(*jsonschema.Schema)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	place := "definitions"
	if _, ok := document.(map[string]any)["$defs"]; ok {
		place = "$defs"
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	// The package's own check takes no {?query}, which RFC 6570 has.
	compiler.RegisterFormat(&jsonschema.Format{Name: "uri-template", Validate: func(v any) error {
		if source, ok := v.(string); ok {
			_, err := uritemplate.New(source)
			return err
		}
		return nil
	}})
	if err := compiler.AddResource("mcp.json", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("mcp.json#/" + place + "/" + definition)
	if err != nil {
		t.Fatal(err)
	}
	schemas.Store(key, compiled)
	return compiled
}

func bufferOf() *buffer.Buffer { return &buffer.Buffer{} }

// siteOf returns a Site without a user.
func siteOf(toolset *tools.Toolset, caller tools.Caller) Site {
	return Site{Host: host{func() *tools.Toolset { return toolset }, caller}}
}

// host is a Host with one caller.
type host struct {
	tools  func() *tools.Toolset
	caller tools.Caller
}

func (h host) Tools() *tools.Toolset              { return h.tools() }
func (h host) Caller(*tools.Toolset) tools.Caller { return h.caller }
func (h host) Identity() string                   { return "" }
