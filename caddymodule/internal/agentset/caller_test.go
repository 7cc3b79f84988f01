package agentset

import (
	"errors"
	"net/http"
	"testing"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/tools"
)

// operation returns an operation whose successful responses have the media type.
func operation(t *testing.T, mediaType string) *Operation {
	t.Helper()
	set, err := tools.Build([]byte(`{"openapi":"3.1.0","info":{"title":"Checks","version":"1"},"paths":{"/check":{"post":{"operationId":"check",
		"requestBody":{"content":{"text/plain":{"schema":{"type":"string"}}}},
		"responses":{"200":{"description":"","content":{"`+mediaType+`":{}}}}}}}}`), tools.BuildOptions{Name: "checks"})
	if err != nil {
		t.Fatal(err)
	}
	return &Operation{Tool: set.Tools()[0], Set: set, Toolset: &app.Toolset{Name: "checks", Document: new(app.Document)}}
}

func TestOutputOf(t *testing.T) {
	for rule, c := range map[string]struct {
		declared, sent, body string
		want                 string
		err                  error
	}{
		"JSON stays as it is":             {declared: "application/json", sent: "application/json", body: `{"ok":true}`, want: `{"ok":true}`},
		"no body is null":                 {declared: "application/json", sent: "application/json", want: `null`},
		"text becomes a string":           {declared: "text/plain", sent: "text/plain", body: "fine", want: `"fine"`},
		"JSON in text":                    {declared: "text/plain", sent: "text/plain", body: "3", want: `3`},
		"text instead of declared JSON":   {declared: "application/json", sent: "text/plain", body: "fine", err: errNotJSON},
		"a page of a proxy":               {declared: "text/plain", sent: "text/html", body: "<p>", err: errHTML},
		"a page that the document has":    {declared: "text/html", sent: "text/html", body: "<p>", want: `"<p>"`},
		"an output that is no valid text": {declared: "text/plain", sent: "text/plain", body: "\xff", err: errNotText},
	} {
		t.Run(rule, func(t *testing.T) {
			result := &tools.Result{Status: http.StatusOK, Header: http.Header{"Content-Type": {c.sent}}, Body: []byte(c.body)}
			got, err := outputOf(operation(t, c.declared), result)
			if !errors.Is(err, c.err) || string(got) != c.want {
				t.Errorf("%s, %v; want %s, %v", got, err, c.want, c.err)
			}
		})
	}
}

func TestInvoker_needs_an_origin(t *testing.T) {
	op := operation(t, "text/plain")
	if _, err := new(GuardrailCaller).invoker(op); err == nil {
		t.Error("a document without a server has an origin")
	}
	if _, err := (&GuardrailCaller{Upstream: "https://checks.example"}).invoker(op); err != nil {
		t.Error(err)
	}
}
