package oagent_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// ordersDocument has bodies that take further properties, and bodies that do not, at
// the top and below.
const ordersDocument = `openapi: 3.1.0
info: {title: Orders, version: "1"}
paths:
  /orders:
    get:
      operationId: listOrders
      parameters:
        - {name: limit, in: query, schema: {type: integer}}
        - {name: expand, in: query, schema: {type: string}}
        - {name: filter, in: query, style: deepObject, schema: {type: object, additionalProperties: false, properties: {state: {type: string}}}}
      responses: {"200": {description: OK}}
    post:
      operationId: createOrder
      requestBody:
        content:
          application/json:
            schema:
              type: object
              properties:
                price: {type: number}
                count: {type: integer}
                address: {type: object, additionalProperties: false, properties: {street: {type: string}}}
                meta: {type: object}
                note: {oneOf: [{type: object, additionalProperties: false, properties: {text: {type: string}}}, {type: "null"}]}
                tags: {type: array, items: {anyOf: [{type: object, additionalProperties: false, properties: {key: {type: string}}}, {type: string}]}}
                target: {oneOf: [
                  {type: object, additionalProperties: false, required: [kind], properties: {kind: {const: person}, name: {type: string}}},
                  {type: object, required: [kind], properties: {kind: {const: any}}}]}
                lines: {type: array, items: {type: object, additionalProperties: false, properties: {item: {type: string}}}}
                payment: {oneOf: [
                  {type: object, additionalProperties: false, required: [card], properties: {card: {type: string}}},
                  {type: object, additionalProperties: false, required: [iban], properties: {iban: {type: string}}}]}
      responses: {"201": {description: OK}}
  /labels:
    post:
      operationId: createLabel
      requestBody:
        content:
          application/json:
            schema: {type: object, properties: {name: {type: string}, id: {type: string, readOnly: true}}, additionalProperties: {type: string}}
      responses: {"201": {description: OK}}
  /forms:
    post:
      operationId: sendForm
      requestBody:
        content:
          application/x-www-form-urlencoded:
            schema: {type: object, properties: {name: {type: string}}}
      responses: {"200": {description: OK}}
  /uploads:
    post:
      operationId: upload
      requestBody:
        content:
          multipart/form-data:
            schema: {type: object, properties: {name: {type: string}}}
      responses: {"200": {description: OK}}
  /batches:
    post:
      operationId: createBatch
      requestBody:
        content:
          application/json:
            schema: {type: array, items: {type: object, additionalProperties: false, properties: {to: {type: string}}}}
      responses: {"200": {description: OK}}
`

// ordersSite guards that API, which counts the calls that reach it.
func ordersSite(t *testing.T, options string) (s *sitetest.Site, reached *atomic.Int64) {
	t.Helper()
	reached = new(atomic.Int64)
	s = sitetest.NewSite(t)
	s.Write("trips.yaml", strings.Replace(ordersDocument, "title: Orders", "title: Trips", 1))
	s.Write("agent.yaml", sitetest.AgentDocument("desk", `
  list-orders: {user_identity: false}
  create-order: {user_identity: false}
  create-label: {user_identity: false}
  send-form: {user_identity: false}
  upload: {user_identity: false}
  create-batch: {user_identity: false}
`))
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", sitetest.GuardedBlock(options, sitetest.Upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{}`)
	})))
	return s, reached
}

// A undeclaredCase is one call in the form of a plain request and in that of a tool
// call. Arguments is "" if a tool call cannot say it.
type undeclaredCase struct {
	name, request, contentType, body string
	tool, arguments                  string
	passes                           bool
	member, nearest                  string // in the refusal of the plain request
}

func undeclaredCases() []undeclaredCase {
	const (
		asJSON    = "application/json"
		asForm    = "application/x-www-form-urlencoded"
		multipart = "multipart/form-data; boundary=b"
	)
	part := func(name string) string {
		return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\nx\r\n"
	}
	return []undeclaredCase{
		{"a declared parameter", "GET /orders?limit=3", "", "", "listOrders", `{"limit":3}`, true, "", ""},
		{"an undeclared parameter", "GET /orders?limit=3&salary=1", "", "", "listOrders", `{"limit":3,"salary":"1"}`, false, "salary", ""},
		{"a parameter with a prefix", "GET /orders?$expand=salary", "", "", "listOrders", `{"$expand":"salary"}`, false, "$expand", "mean expand"},
		{"an encoded name", "GET /orders?%24expand=salary", "", "", "listOrders", `{"$expand":"salary"}`, false, "$expand", "mean expand"},
		{"a parameter without a value", "GET /orders?debug", "", "", "listOrders", `{"debug":""}`, false, "debug", ""},
		{"an object in the query", "GET /orders?filter[state]=open", "", "", "listOrders", `{"filter":{"state":"open"}}`, true, "", ""},
		{"an undeclared member of an object in the query", "GET /orders?filter[owner]=eve", "", "", "listOrders", `{"filter":{"owner":"eve"}}`, false, "owner", ""},

		{"a declared property", "POST /orders", asJSON, `{"price":5}`, "createOrder", `{"price":5}`, true, "", ""},
		{"an undeclared property", "POST /orders", asJSON, `{"price":5,"discount":500}`, "createOrder", `{"price":5,"discount":500}`, false, "discount", "mean count"},
		{"an undeclared property of null", "POST /orders", asJSON, `{"price":5,"discount":null}`, "createOrder", `{"price":5,"discount":null}`, false, "discount", ""},
		{"a query parameter beside a body", "POST /orders?owner=eve", asJSON, `{"price":5}`, "", "", false, "owner", ""},
		{"an object that takes no further properties", "POST /orders", asJSON, `{"address":{"street":"a"}}`, "createOrder", `{"address":{"street":"a"}}`, true, "", ""},
		{"an undeclared property below", "POST /orders", asJSON, `{"address":{"street":"a","floor":1}}`, "createOrder", `{"address":{"street":"a","floor":1}}`, false, "/address/floor", ""},
		{"an object that may be null", "POST /orders", asJSON, `{"note":{"text":"a"}}`, "createOrder", `{"note":{"text":"a"}}`, true, "", ""},
		{"an undeclared property of one that may be null", "POST /orders", asJSON, `{"note":{"text":"a","discount":5}}`, "createOrder", `{"note":{"text":"a","discount":5}}`, false, "/note/discount", ""},
		{"an undeclared property of one that may be text", "POST /orders", asJSON, `{"tags":["a",{"key":"a","discount":5}]}`, "createOrder", `{"tags":["a",{"key":"a","discount":5}]}`, false, "/tags/1/discount", ""},
		{"a property of an open alternative", "POST /orders", asJSON, `{"target":{"kind":"any","floor":1}}`, "createOrder", `{"target":{"kind":"any","floor":1}}`, true, "", ""},
		{"an undeclared property of the alternative that is meant", "POST /orders", asJSON, `{"target":{"kind":"person","floor":1}}`, "createOrder", `{"target":{"kind":"person","floor":1}}`, false, "/target/floor", ""},
		{"an undeclared property in a list", "POST /orders", asJSON, `{"lines":[{"item":"a"},{"price":0}]}`, "createOrder", `{"lines":[{"item":"a"},{"price":0}]}`, false, "/lines/1/price", ""},
		{"an object of anything", "POST /orders", asJSON, `{"meta":{"a":{"b":1}}}`, "createOrder", `{"meta":{"a":{"b":1}}}`, true, "", ""},
		{"an alternative", "POST /orders", asJSON, `{"payment":{"iban":"x"}}`, "createOrder", `{"payment":{"iban":"x"}}`, true, "", ""},
		{"an undeclared property of every alternative", "POST /orders", asJSON, `{"payment":{"iban":"x","free":true}}`, "createOrder", `{"payment":{"iban":"x","free":true}}`, false, "/payment/", ""},

		{"a body that takes further properties", "POST /labels", asJSON, `{"name":"a","color":"red"}`, "createLabel", `{"name":"a","color":"red"}`, true, "", ""},
		{"a read-only property", "POST /labels", asJSON, `{"name":"a","id":"7"}`, "createLabel", `{"name":"a","id":"7"}`, false, "id", ""},

		{"a form", "POST /forms", asForm, `name=a`, "sendForm", `{"name":"a"}`, true, "", ""},
		{"an undeclared field", "POST /forms", asForm, `name=a&admin=1`, "sendForm", `{"name":"a","admin":"1"}`, false, "admin", ""},
		{"parts", "POST /uploads", multipart, part("name") + "--b--\r\n", "upload", `{"name":"x"}`, true, "", ""},
		{"an undeclared part", "POST /uploads", multipart, part("name") + part("owner") + "--b--\r\n", "upload", `{"name":"x","owner":"x"}`, false, "owner", ""},
		{"a list as the body", "POST /batches", asJSON, `[{"to":"a"}]`, "createBatch", `{"body":[{"to":"a"}]}`, true, "", ""},
		{"an undeclared property in a list as the body", "POST /batches", asJSON, `[{"to":"a","cc":"b"}]`, "createBatch", `{"body":[{"to":"a","cc":"b"}]}`, false, "/body/0/cc", ""},
	}
}

func (c *undeclaredCase) plain(s *sitetest.Site) sitetest.Response {
	s.T.Helper()
	method, path, _ := strings.Cut(c.request, " ")
	r, err := http.NewRequest(method, s.URL+path, strings.NewReader(c.body))
	if err != nil {
		s.T.Fatal(err)
	}
	if c.contentType != "" {
		r.Header.Set("Content-Type", c.contentType)
	}
	r.Header.Set("X-Ordinary", "headers pass")
	return s.Do(r)
}

func TestUndeclared_is_refused_by_every_protocol_alike(t *testing.T) {
	s, reached := ordersSite(t, "")
	for _, test := range undeclaredCases() {
		t.Run(test.name, func(t *testing.T) {
			s := s.With(t)
			verdict := func(protocol string, refused bool, text string, before int64) {
				t.Helper()
				calls := reached.Load() - before
				if refused == test.passes || (calls == 1) != test.passes || calls > 1 {
					t.Errorf("%s: refused %t, %d calls reached the API, want passes %t: %s", protocol, refused, calls, test.passes, text)
				}
			}
			before := reached.Load()
			a := test.plain(s)
			verdict("REST", a.Status == http.StatusForbidden, a.Body, before)
			if !test.passes {
				p := s.Problem(a)
				if p.Kind != "undeclared" || p.Made {
					t.Errorf("REST: got %q, made: %t; want undeclared, made: false", p.Kind, p.Made)
				}
				if !strings.Contains(p.Detail, test.member) || !strings.Contains(p.Detail, test.nearest) {
					t.Errorf("REST: got %q, want %q and %q", p.Detail, test.member, test.nearest)
				}
			}
			if test.arguments == "" {
				return
			}
			before = reached.Load()
			r := s.Call(test.tool, test.arguments)
			verdict("MCP", r.IsError, r.Text(), before)
			before = reached.Load()
			body := s.OTC(test.tool, test.arguments)
			verdict("OTC", strings.Contains(body, `"success":false`), body, before)
		})
	}
}

func TestUndeclared_passes_where_the_operator_allows_it(t *testing.T) {
	s, reached := ordersSite(t, "undeclared allow")
	for _, test := range undeclaredCases() {
		if test.nearest == "" && test.name != "an undeclared property below" {
			continue
		}
		before := reached.Load()
		if a := test.plain(s); a.Status != http.StatusOK || reached.Load() != before+1 {
			t.Errorf("%s: %d %s", test.name, a.Status, a.Body)
		}
	}
}
