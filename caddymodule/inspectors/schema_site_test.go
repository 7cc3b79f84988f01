package inspectors_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// customers is a document whose responses have a schema, and whose texts have planted values.
var customers = strings.NewReplacer("EMAIL", planted[0], "KEY", planted[1]).Replace(`openapi: 3.1.0
info: {title: Customers, version: 1.0.0}
paths:
  /customers/{id}:
    get:
      operationId: getCustomer
      summary: Reads a customer
      description: Ask EMAIL if it fails.
      parameters:
        - {name: id, in: path, required: true, schema: {type: string}}
      responses:
        "200":
          description: ok
          content:
            application/json:
              schema:
                type: object
                required: [mail, phone]
                properties:
                  mail: {type: string, format: email}
                  phone: {anyOf: [{type: string}, {type: integer, minimum: 1000000}]}
                  note: {type: string}
  /leaky:
    get:
      operationId: leaky
      parameters:
        - {name: key, in: query, schema: {type: string, default: KEY}}
      responses: {"200": {description: ok}}
`)

func customerSite(t *testing.T, response, before string) *sitetest.Site {
	t.Helper()
	s := sitetest.NewSite(t)
	s.Write("customers.yaml", customers)
	api := sitetest.Upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, response)
	})
	s.Start("agents {\n\tstore bolt DIR/store.db\ntoolset customers {\nopenapi DIR/customers.yaml\n"+both+"}\n}", "route {\n"+before+"mcp customers {\noutput_schema strict\n}\nreverse_proxy "+api+"\n}")
	return s
}

// TestInspect_results_stay_valid wants structured content that is valid for the output schema and equal to the text. What would
// not be valid is withheld.
func TestInspect_results_stay_valid(t *testing.T) {
	call := func(response string) (text, structured, body string) {
		s := customerSite(t, response, "")
		body = s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"getCustomer","arguments":{"id":"7"}}}`,
			map[string]string{"MCP-Protocol-Version": "2025-11-25"}).Body
		var a struct {
			Result struct {
				Content           []struct{ Text string }
				StructuredContent json.RawMessage
			}
		}
		if err := json.Unmarshal([]byte(body), &a); err != nil || len(a.Result.Content) != 1 {
			t.Fatalf("%v: %s", err, body)
		}
		without(t, "the result", body)
		filesWithout(t, s)
		return a.Result.Content[0].Text, string(a.Result.StructuredContent), body
	}
	text, structured, _ := call(`{"mail":"` + planted[0] + `","phone":"+49 30 1234567","note":"card ` + planted[2] + `"}`)
	if want := `{"mail":"masked@email.invalid","phone":"[phone]","note":"card [card]"}`; structured != want || text != structured {
		t.Errorf("got %s and %s, want %s", text, structured, want)
	}
	text, structured, body := call(`{"mail":"` + planted[0] + `","phone":491701234567}`) // 0 is less than the minimum
	if structured != "" || !strings.Contains(body, `"isError":true`) || !strings.Contains(text, "withheld") {
		t.Errorf("a result that would not be valid: %s", body)
	}
}

// TestInspect_texts_of_tools masks a description, and withholds a tool with a value in its schema.
func TestInspect_texts_of_tools(t *testing.T) {
	s := customerSite(t, "{}", "")
	list := s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, map[string]string{"MCP-Protocol-Version": "2025-11-25"}).Body
	if !strings.Contains(list, "Ask [email] if it fails.") || strings.Contains(list, "leaky") {
		t.Errorf("the list is %s", list)
	}
	without(t, "the list", list)
	if got := call(s, "leaky", "{}"); !strings.Contains(got, `"error"`) {
		t.Errorf("a withheld tool was called: %s", got)
	}
}

// TestInspect_traces wants no planted value in a trace.
func TestInspect_traces(t *testing.T) {
	spans := sitetest.CollectSpans(t)
	s := customerSite(t, `{"mail":"`+planted[0]+`","phone":"x","note":"`+all+`"}`, sitetest.Tracing)
	for _, id := range []string{"7", planted[1], planted[0]} {
		without(t, "the result", call(s, "getCustomer", `{"id":`+quoted(id)+`}`))
	}
	spans.Named("tools/call getCustomer", 3)
	spans.Without(planted[0])
	spans.Without(planted[1])
}
