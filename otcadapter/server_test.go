package otcadapter

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools"
)

// callerFunc is a Caller for tests.
type callerFunc func(ctx context.Context, tool string, arguments []byte) tools.Outcome

func (f callerFunc) Call(ctx context.Context, tool string, arguments []byte) tools.Outcome {
	return f(ctx, tool, arguments)
}

// calculator is the Toolset of the protocol's own example.
func calculator() *tools.Toolset {
	toolset := tools.NewToolset("calc", []*tools.Tool{
		{
			Name: "Add",
			Definition: tools.Definition{
				Description: "Add two numbers together",
				InputSchema: []byte(`{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}`),
				Arguments: []tools.Argument{
					{Name: "a", In: tools.InBody, Required: true},
					{Name: "b", In: tools.InBody, Required: true},
					{Name: "precision", In: tools.InQuery},
				},
			},
			Plan: tools.Plan{
				Method: "POST",
				Path:   "/add",
			},
			Output: tools.Output{Description: "The sum.", MediaTypes: []string{"application/json"}, Types: []string{"number"}},
		},
		{
			Name: "clear",
			Definition: tools.Definition{
				Description: "Forget everything.",
				Deprecated:  true,
			},
			Plan: tools.Plan{
				Method: "DELETE",
				Path:   "/memory",
			},
			Output: tools.Output{Empty: true},
		},
		{
			Name: "plot",
			Definition: tools.Definition{
				Description: "Draw a function.",
			},
			Plan: tools.Plan{
				Method: "GET",
				Path:   "/plot",
			},
			Output: tools.Output{MediaTypes: []string{"image/png"}},
		},
		{Name: "guess", Definition: tools.Definition{Description: "An answer of any form."}, Plan: tools.Plan{Method: "GET", Path: "/guess"}},
		{
			Name: "list",
			Definition: tools.Definition{
				Description: "All sums.",
			},
			Plan: tools.Plan{
				Method: "GET",
				Path:   "/sums",
			},
			Output: tools.Output{MediaTypes: []string{"application/json", "text/csv"}, Types: []string{"array", "null"}},
		},
	})
	toolset.Title = "Calculator"
	toolset.Description = "A toolkit for performing calculations."
	toolset.Version = "1.0"
	return toolset
}

// siteOf is a site that offers these tools, nil for a document that is not loaded.
func siteOf(toolset *tools.Toolset, caller tools.Caller) Site {
	return Site{Toolkits: []Toolkit{{Tools: toolset}}, Host: hostFunc(func(int) tools.Caller { return caller })}
}

// hostFunc is a Host that returns a caller for the toolkit at an index.
type hostFunc func(toolkit int) tools.Caller

func (h hostFunc) Caller(toolkit int, _ CallInfo) tools.Caller { return h(toolkit) }

// answering returns a Caller that gives the same outcome to every call.
func answering(outcome tools.Outcome) tools.Caller {
	return callerFunc(func(context.Context, string, []byte) tools.Outcome { return outcome })
}

func jsonResult(body string) *tools.Result {
	return &tools.Result{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body)}
}

// answer is what the server wrote.
type answer struct {
	*httptest.ResponseRecorder
	t *testing.T
}

func (a answer) json() map[string]any {
	a.t.Helper()
	var members map[string]any
	if err := json.Unmarshal(a.Body.Bytes(), &members); err != nil {
		a.t.Fatalf("the answer is not a JSON object: %v\n%s", err, a.Body)
	}
	if schema := members["$schema"]; schema != otcStandard.schema && schema != oxpStandard.schema {
		a.t.Errorf("$schema = %v", schema)
	}
	return members
}

func post(t *testing.T, s *Server, toolset *tools.Toolset, caller tools.Caller, body string) answer {
	t.Helper()
	return postTo(t, "/call", s, toolset, caller, body)
}

func postTo(t *testing.T, endpoint string, s *Server, toolset *tools.Toolset, caller tools.Caller, body string) answer {
	t.Helper()
	request := httptest.NewRequest("POST", "/otc"+endpoint, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	s.ServeHTTP(recorder, request, endpoint, siteOf(toolset, caller))
	return answer{recorder, t}
}

func TestServer(t *testing.T) {
	cases := []struct {
		rule, method, endpoint string
		contentType            string
		contentEncoding        string
		body                   string
		unloaded               bool
		status                 int
		header, value          string
		says                   string // in message
	}{
		{rule: "health is 200", method: "GET", endpoint: "/health", status: 200},
		{rule: "health takes HEAD", method: "HEAD", endpoint: "/health", status: 200},
		{rule: "health without a document is 503", method: "GET", endpoint: "/health", unloaded: true, status: 503, header: "Retry-After", value: "7", says: "7 s"},
		{rule: "tools without a document is 503", method: "GET", endpoint: "/tools", unloaded: true, status: 503, header: "Retry-After", value: "7"},
		{rule: "call without a document is 503", method: "POST", endpoint: "/call", unloaded: true, status: 503, header: "Retry-After", value: "7"},
		{rule: "tools is 200", method: "GET", endpoint: "/tools", status: 200},
		{rule: "tools takes a GET with a body", method: "GET", endpoint: "/tools", contentType: "application/json", body: "{}", status: 200},
		{rule: "tools takes a $schema that is known", method: "GET", endpoint: "/tools", contentType: "application/json", body: `{"$schema":"` + oxpStandard.schema + `"}`, status: 200},
		{rule: "tools refuses one that is not", method: "GET", endpoint: "/tools", contentType: "application/json", body: `{"$schema":"https://example.com/"}`, status: 400, says: otcStandard.schema},
		{rule: "tools refuses a body that is no JSON", method: "GET", endpoint: "/tools", contentType: "application/json", body: `{`, status: 400, says: "valid JSON"},
		{rule: "tools leaves a body alone that is something else", method: "GET", endpoint: "/tools", contentType: "text/plain", body: `{`, status: 200},
		{rule: "health refuses POST", method: "POST", endpoint: "/health", status: 405, header: "Allow", value: "GET, HEAD"},
		{rule: "tools refuses DELETE", method: "DELETE", endpoint: "/tools", status: 405, header: "Allow", value: "GET, HEAD"},
		{rule: "call refuses GET", method: "GET", endpoint: "/call", status: 405, header: "Allow", value: "POST"},
		{rule: "a wrong method is reported before a missing document", method: "GET", endpoint: "/call", unloaded: true, status: 405},
		{rule: "unknown endpoint", method: "GET", endpoint: "/toolz", status: 404, says: `"/toolz"`},
		{rule: "the base itself is no endpoint", method: "GET", endpoint: "", status: 404},
		{rule: "an endpoint has no trailing slash", method: "GET", endpoint: "/tools/", status: 404},
		{rule: "call wants a content type", method: "POST", endpoint: "/call", body: "{}", status: 415, says: "application/json"},
		{rule: "call refuses text", method: "POST", endpoint: "/call", contentType: "text/plain", body: "{}", status: 415, says: `"text/plain"`},
		{rule: "call refuses another charset", method: "POST", endpoint: "/call", contentType: "application/json; charset=latin1", body: "{}", status: 415},
		{rule: "call refuses a malformed content type", method: "POST", endpoint: "/call", contentType: ";;", body: "{}", status: 415},
		{rule: "call refuses compressed bodies", method: "POST", endpoint: "/call", contentType: "application/json", contentEncoding: "gzip", body: "x", status: 415, header: "Accept-Encoding", value: "identity"},
		{rule: "call takes utf-8", method: "POST", endpoint: "/call", contentType: "application/json; charset=UTF-8", body: `{"tool_id":"Calculator.Add"}`, status: 200},
		{rule: "a body at the limit is read", method: "POST", endpoint: "/call", contentType: "application/json", body: `{"tool_id":"Calculator.Add"}` + strings.Repeat(" ", 1000-28), status: 200},
		{rule: "a body over the limit is 413", method: "POST", endpoint: "/call", contentType: "application/json", body: `{"tool_id":"Calculator.Add"}` + strings.Repeat(" ", 1001-28), status: 413, says: "1000 bytes"},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			s := New(Options{MaxBody: 1000, RetryAfter: func() time.Duration { return 6500 * time.Millisecond }})
			// A reader of no known kind, so that the length is not announced.
			request := httptest.NewRequest(c.method, "/otc"+c.endpoint, io.MultiReader(strings.NewReader(c.body)))
			if c.contentType != "" {
				request.Header.Set("Content-Type", c.contentType)
			}
			if c.contentEncoding != "" {
				request.Header.Set("Content-Encoding", c.contentEncoding)
			}
			toolset := calculator()
			if c.unloaded {
				toolset = nil
			}
			recorder := httptest.NewRecorder()
			s.ServeHTTP(recorder, request, c.endpoint, siteOf(toolset, answering(tools.Outcome{Result: jsonResult("3")})))
			if recorder.Code != c.status {
				t.Fatalf("status %d, want %d: %s", recorder.Code, c.status, recorder.Body)
			}
			if got := recorder.Header().Get(c.header); c.header != "" && got != c.value {
				t.Errorf("%s: %q, want %q", c.header, got, c.value)
			}
			if got := recorder.Header().Get("Content-Type"); got != "application/json" {
				t.Errorf("Content-Type: %q", got)
			}
			members := answer{recorder, t}.json()
			if c.status == 200 {
				return
			}
			if message, _ := members["message"].(string); message == "" || !testkit.ContainsAll(message, c.says) {
				t.Errorf("message = %q, want it to contain %q", message, c.says)
			}
			if _, told := members["developer_message"]; told {
				t.Errorf("a developer_message, though none is configured: %s", recorder.Body)
			}
		})
	}
}

func TestServer_announced_length_over_the_limit_is_not_read(t *testing.T) {
	request := httptest.NewRequest("POST", "/call", failingReader{t})
	request.Header.Set("Content-Type", "application/json")
	request.ContentLength = defaultMaxBody + 1
	recorder := httptest.NewRecorder()
	New(Options{}).ServeHTTP(recorder, request, "/call", siteOf(calculator(), nil))
	if recorder.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d: %s", recorder.Code, recorder.Body)
	}
}

type failingReader struct{ t *testing.T }

func (r failingReader) Read([]byte) (int, error) {
	r.t.Error("the body was read")
	return 0, io.EOF
}

func TestServer_body_that_breaks_off(t *testing.T) {
	request := httptest.NewRequest("POST", "/call", io.MultiReader(strings.NewReader(`{"tool_id":`), brokenReader{}))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	New(Options{}).ServeHTTP(recorder, request, "/call", siteOf(calculator(), nil))
	if recorder.Code != http.StatusBadRequest || !strings.Contains(recorder.Body.String(), "ended") {
		t.Errorf("status %d: %s", recorder.Code, recorder.Body)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestServer_limit_set_by_a_handler_before(t *testing.T) {
	recorder := httptest.NewRecorder()
	request := httptest.NewRequest("POST", "/call", nil)
	request.Header.Set("Content-Type", "application/json")
	request.Body = http.MaxBytesReader(recorder, io.NopCloser(strings.NewReader(strings.Repeat(" ", 100))), 10)
	New(Options{}).ServeHTTP(recorder, request, "/call", siteOf(calculator(), nil))
	if recorder.Code != http.StatusRequestEntityTooLarge || !strings.Contains(recorder.Body.String(), "10 bytes") {
		t.Errorf("status %d: %s", recorder.Code, recorder.Body)
	}
}

func TestDeveloperMessages(t *testing.T) {
	failure := &tools.Failure{Kind: tools.Refused, Status: 404, Message: "POST /add answered 404 Not Found"}
	outcome := tools.Outcome{Tool: &tools.Tool{Plan: tools.Plan{Method: "POST", Path: "/add"}}, Failure: failure}
	for configured, want := range map[bool]any{true: "failure: refused, operation: POST /add, status of the API: 404", false: nil} {
		s := New(Options{DeveloperMessages: configured})
		told := at(post(t, s, calculator(), answering(outcome), `{"tool_id":"Calculator.Add"}`).json(), "output", "error")["developer_message"]
		if told != want {
			t.Errorf("configured %v: developer_message = %v, want %v", configured, told, want)
		}
		_, told2 := post(t, s, calculator(), nil, `{"tool_id":"Calculator.Add@9"}`).json()["developer_message"]
		if told2 != configured {
			t.Errorf("configured %v: a fault has one: %v", configured, told2)
		}
	}
}

func TestHealth_asks_the_upstream_now_and_then(t *testing.T) {
	s := New(Options{})
	asked, ill := 0, errors.New("GET /healthz: status 500")
	site := siteOf(calculator(), nil)
	site.Upstream = func(ctx context.Context) error {
		asked++
		if ctx.Err() != nil {
			t.Error("asked with the context of a client that is gone")
		}
		return ill
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		recorder := httptest.NewRecorder()
		s.ServeHTTP(recorder, httptest.NewRequest("GET", "/health", nil).WithContext(gone), "/health", site)
		if recorder.Code != 503 || recorder.Header().Get("Retry-After") == "" {
			t.Errorf("status %d: %s", recorder.Code, recorder.Body)
		}
		if strings.Contains(recorder.Body.String(), "healthz") {
			t.Errorf("tells where the API is: %s", recorder.Body)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times, want once", asked)
	}
	ill, s.health.until = nil, time.Time{}
	recorder := httptest.NewRecorder()
	s.ServeHTTP(recorder, httptest.NewRequest("GET", "/health", nil), "/health", site)
	if recorder.Code != 200 || asked != 2 {
		t.Errorf("status %d after asking %d times", recorder.Code, asked)
	}
}
