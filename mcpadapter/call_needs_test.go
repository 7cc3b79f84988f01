package mcpadapter

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/security"
)

// payments is a document with an operation of each kind that a call of which needs
// more than its arguments.
const payments = `
openapi: 3.1.0
info: {title: Payments, version: "1"}
paths:
  /native:
    post:
      operationId: native
      responses: {'200': {description: a result, content: {application/vnd.mcp.result+json: {}}}}
  /plain:
    post:
      operationId: plain
      responses: {'200': {description: an answer, content: {application/json: {}}}}
  /pay:
    post:
      operationId: pay
      summary: Pay
      parameters:
        - {name: iban, in: query, required: true, description: Where to, schema: {$ref: '#/components/schemas/iban'}, x-otc-non-inferrable: true}
        - {name: memo, in: query, schema: {type: [string, 'null'], maxLength: 20}, x-otc-non-inferrable: true}
        - {name: speed, in: query, schema: {type: string, enum: [slow, fast]}, x-otc-non-inferrable: true}
        - {name: extra, in: query, schema: {type: object}, x-otc-non-inferrable: true}
        - {name: amount, in: query, required: true, schema: {type: number}}
      responses: {'200': {description: done, content: {application/json: {}}}}
  /vault:
    post:
      operationId: vault
      parameters:
        - {name: pin, in: query, required: true, schema: {type: integer, minimum: 0}, x-otc-non-inferrable: true}
      responses: {'200': {description: done, content: {application/vnd.mcp.result+json: {}}}}
  /sign:
    post:
      operationId: sign
      parameters:
        - {name: keys, in: query, required: true, schema: {type: array, items: {type: string}}, x-otc-non-inferrable: true}
      responses: {'200': {description: done}}
  /route:
    get:
      operationId: route
      parameters:
        - {name: region, in: query, schema: {type: string}, x-mcp-header: Region}
        - {name: count, in: query, schema: {type: integer}, x-mcp-header: Count}
        - {name: dry, in: query, schema: {type: boolean}, x-mcp-header: Dry}
      responses: {'200': {description: done}}
components:
  schemas:
    iban: {type: string, minLength: 4, pattern: '^[A-Z]{2}'}
`

func buildTools(t testing.TB, document string, o tools.BuildOptions) *tools.Toolset {
	t.Helper()
	toolset, err := tools.Build([]byte(document), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range toolset.Report.Warnings {
		t.Error(w)
	}
	return toolset
}

// An api runs calls as a gateway does: as requests.
type api struct {
	tools   *tools.Toolset
	handler http.HandlerFunc
}

func (a api) Call(ctx context.Context, t string, arguments []byte) tools.Outcome {
	return tools.Execute(ctx, a.tools, t, arguments, a)
}

func (a api) Invoke(ctx context.Context, call *tools.Call) (*tools.Result, error) {
	r, err := call.Request(ctx)
	if err != nil {
		return nil, err
	}
	security.SupplementFromContext(ctx).Apply(r)
	w := httptest.NewRecorder()
	a.handler(w, r)
	body := buffer.Get() // others write into it once it is released
	body.B = append(body.B[:0], w.Body.Bytes()...)
	return &tools.Result{Status: w.Code, Header: w.Header(), Body: body.B, Memory: body}, nil
}

func answerNative(w http.ResponseWriter, result string) {
	w.Header().Set("Content-Type", content.NativeType)
	io.WriteString(w, result)
}

// A client talks to an endpoint in one revision and answers what it is asked.
type askedClient struct {
	endpoint     *endpoint
	version      protocol.Revision
	session      string
	capabilities string
	answers      map[string]string // by the method of what it is asked, and the message of a form
	asked        []string          // what it was asked, as JSON
	method       string            // of its requests; "" for tools/call
}

func newClient(t *testing.T, e *endpoint, v protocol.Revision, capabilities string) *askedClient {
	t.Helper()
	c := &askedClient{endpoint: e, version: v, capabilities: capabilities, answers: make(map[string]string)}
	if v.Stateless() {
		return c
	}
	r := conformant(protocol.Unknown, "initialize", `"protocolVersion":"`+v.String()+`","capabilities":`+capabilities+`,"clientInfo":{"name":"c","version":"1"}`)
	r.server = e.server
	c.session = r.Send(t).Header().Get(sessionHeader)
	return c
}

// post sends a request and returns the response to it, having answered requests
// that come before.
func (c *askedClient) post(t *testing.T, name, params string) []byte {
	t.Helper()
	r := conformant(c.version, cmp.Or(c.method, "tools/call"), `"name":"`+name+`"`+params)
	r.body = strings.Replace(r.body, `"`+metaCapabilities+`":{}`, `"`+metaCapabilities+`":`+c.capabilities, 1)
	if c.session != "" {
		r.header[sessionHeader] = c.session
	}
	r.header[versionHeader] = c.version.String()
	response := c.endpoint.do(t, "POST", "/mcp", r.body, r.header)
	if response.Header.Get("Content-Type") != "text/event-stream" {
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	stream := feedOf(t, response)
	for {
		_, _, data := stream.event()
		var m struct {
			ID             json.RawMessage
			Method         string
			Params, Result json.RawMessage
			Error          json.RawMessage
		}
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			t.Fatalf("%v in %q", err, data)
		}
		switch {
		case m.Method == "" && (m.Result != nil || m.Error != nil):
			stream.ends()
			return []byte(data)
		case m.ID == nil:
			c.asked = append(c.asked, data)
		default:
			c.asked = append(c.asked, data)
			checkAsked(t, c.version, m.Method, data)
			answer := `{"jsonrpc":"2.0","id":` + string(m.ID) + `,` + c.answer(m.Method, m.Params) + `}`
			header := map[string]string{versionHeader: c.version.String(), sessionHeader: c.session}
			if got := c.endpoint.do(t, "POST", "/mcp", answer, header); got.StatusCode != http.StatusAccepted {
				t.Fatalf("the answer got status %d", got.StatusCode)
			}
		}
	}
}

// checkAsked holds a request of the server to the schema of its revision.
func checkAsked(t *testing.T, v protocol.Revision, method, data string) {
	t.Helper()
	definition := map[string]string{elicit.MethodElicit: "ElicitRequest", elicit.MethodSample: "CreateMessageRequest", elicit.MethodRoots: "ListRootsRequest"}[method]
	if definition == "" {
		t.Errorf("asked with %s", method)
		return
	}
	validateMessage(t, v, definition, []byte(data))
}

func (c *askedClient) answer(method string, params json.RawMessage) string {
	var p struct{ Message string }
	_ = json.Unmarshal(params, &p)
	for _, key := range []string{p.Message, method} {
		if answer, ok := c.answers[key]; ok {
			return answer
		}
	}
	return `"error":{"code":-1,"message":"the user is away"}`
}

// call calls a tool to the end, over as many requests as the revision takes, and
// returns the response.
func (c *askedClient) call(t *testing.T, name, arguments string) []byte {
	t.Helper()
	params := `,"arguments":` + arguments
	for range 10 {
		body := c.post(t, name, params)
		var r struct {
			Result struct {
				ResultType    string
				InputRequests map[string]struct {
					Method string
					Params json.RawMessage
				}
				RequestState *string
			}
		}
		if err := json.Unmarshal(body, &r); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		if r.Result.ResultType != "input_required" {
			return body
		}
		validate(t, c.version, "InputRequiredResult", body)
		responses := map[string]json.RawMessage{}
		for key, request := range r.Result.InputRequests {
			c.asked = append(c.asked, string(request.Params))
			_, result, _ := strings.Cut(c.answer(request.Method, request.Params), `:`)
			responses[key] = json.RawMessage(result)
		}
		encoded, _ := json.Marshal(responses)
		params = `,"arguments":` + arguments + `,"inputResponses":` + string(encoded)
		if r.Result.RequestState != nil {
			state, _ := json.Marshal(*r.Result.RequestState)
			params += `,"requestState":` + string(state)
		}
	}
	t.Fatal("the client is asked without end")
	return nil
}

// resultOf decodes a response, which must be a result that the revision's schema
// allows.
func resultOf(t *testing.T, v protocol.Revision, body []byte) (got toolResult) {
	t.Helper()
	var a answer
	if err := json.Unmarshal(body, &a); err != nil || a.Error != nil {
		t.Fatalf("%v: %s", err, body)
	}
	validate(t, v, "CallToolResult", body)
	if err := json.Unmarshal(a.Result, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func words(r toolResult) string {
	var all []string
	for _, block := range r.Content {
		all = append(all, block.Text)
	}
	return strings.Join(all, "|")
}

// serveAPI serves the payments, answered by handler.
func serveAPI(t *testing.T, handler http.HandlerFunc) *endpoint {
	toolset := buildTools(t, payments, tools.BuildOptions{Name: "payments"})
	e := serveEndpoint(t, Options{}, api{toolset, handler})
	e.tools.Store(toolset)
	return e
}
