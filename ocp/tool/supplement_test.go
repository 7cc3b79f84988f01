package tool

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/keyword"
)

func TestSupplement(t *testing.T) {
	r := httptest.NewRequest("GET", "/trips?to=Bern&key=mine&to=Brig&a%5Bb%5D=%2B", nil)
	r.Header.Set("Authorization", "Bearer caller")
	r.Header["Cookie"] = []string{"a=1; session=mine", "b=2"}
	ctx := ContextWithSupplement(context.Background(), &Supplement{
		Header: http.Header{"Authorization": {"Bearer first"}, "X-Key": {"k"}},
	})
	ctx = ContextWithSupplement(ctx, &Supplement{
		Header:  http.Header{"Authorization": {"Bearer second"}},
		Query:   url.Values{"key": {"s p"}},
		Cookies: []http.Cookie{{Name: "session", Value: "ours"}},

		Credentials: true,
	})
	SupplementFromContext(ctx).Apply(r)
	for what, c := range map[string][2]string{
		"the newest wins":             {r.Header.Get("Authorization"), "Bearer second"},
		"those before it stay":        {r.Header.Get("X-Key"), "k"},
		"other parameters as written": {r.URL.RawQuery, "to=Bern&to=Brig&a%5Bb%5D=%2B&key=s+p"},
		"other cookies stay":          {strings.Join(r.Header["Cookie"], "|"), "a=1; b=2; session=ours"},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: got %q, want %q", what, c[0], c[1])
		}
	}
	if parts := SupplementFromContext(ctx).Secrets(); len(parts) != 1 || parts[0].Query.Get("key") != "s p" {
		t.Errorf("parts with credentials: %v", parts)
	}
	SupplementFromContext(ctx).Remove(r)
	for what, c := range map[string][2]string{
		"a header":            {strings.Join(r.Header["Authorization"], "|"), ""},
		"a header from below": {r.Header.Get("X-Key"), ""},
		"a parameter":         {r.URL.RawQuery, "to=Bern&to=Brig&a%5Bb%5D=%2B"},
		"a cookie":            {strings.Join(r.Header["Cookie"], "|"), "a=1; b=2"},
	} {
		if c[0] != c[1] {
			t.Errorf("removed: %s: got %q, want %q", what, c[0], c[1])
		}
	}
	before := r.URL.RawQuery
	if SupplementFromContext(context.Background()).Apply(r); r.URL.RawQuery != before {
		t.Error("nothing added something")
	}
}

func TestSecurityScheme_Supply(t *testing.T) {
	for _, c := range []struct {
		rule       string
		scheme     SecurityScheme
		credential string
		want       string // the request that is sent, or the error
	}{
		{"apiKey/header", SecurityScheme{Type: "apiKey", In: "header", ParameterName: "x-key"}, "k", "GET / X-Key=k"},
		{"apiKey/query", SecurityScheme{Type: "apiKey", In: "query", ParameterName: "key"}, "a&b", "GET /?key=a%26b"},
		{"apiKey/cookie", SecurityScheme{Type: "apiKey", In: "cookie", ParameterName: "sid"}, "k", "GET / Cookie=sid=k"},
		{"apiKey/cookie/unsafe", SecurityScheme{Type: "apiKey", In: "cookie", ParameterName: "sid"}, "k; a=b", "scheme characters"},
		{"apiKey/nowhere", SecurityScheme{Type: "apiKey", In: "body"}, "k", "scheme body"},
		{"basic", SecurityScheme{Type: "http", Scheme: "basic"}, "ada:pw", "GET / Authorization=Basic YWRhOnB3"},
		{"basic/no-colon", SecurityScheme{Type: "http", Scheme: "basic"}, "ada", "scheme user:password"},
		{"bearer", SecurityScheme{Type: "http", Scheme: "bearer"}, "t", "GET / Authorization=Bearer t"},
		{"oauth2", SecurityScheme{Type: "oauth2"}, "t", "GET / Authorization=Bearer t"},
		{"openIdConnect", SecurityScheme{Type: "openIdConnect"}, "t", "GET / Authorization=Bearer t"},
		{"mutualTLS", SecurityScheme{Type: "mutualTLS"}, "t", "scheme mutualTLS"},
		{"line-break", SecurityScheme{Type: "oauth2"}, "secret\r\nX: y", "scheme characters"},
		{"empty", SecurityScheme{Type: "oauth2"}, "", "scheme empty"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			c.scheme.Name = "scheme"
			var s Supplement
			if err := c.scheme.Supply(&s, c.credential); err != nil {
				if !keyword.All(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
					t.Errorf("got %v, want %s", err, c.want)
				}
				return
			}
			r := httptest.NewRequest("GET", "/", nil)
			s.Apply(r)
			got := r.Method + " " + r.URL.RequestURI()
			for name, values := range r.Header {
				got += " " + name + "=" + values[0]
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestProtocolExtensions(t *testing.T) {
	const document = `
openapi: 3.1.0
info: {title: T, version: "1"}
x-mcp: {instructions: hi}
components:
  securitySchemes:
    key: {type: apiKey, in: header, name: X-Key}
    login:
      type: oauth2
      flows: {authorizationCode: {authorizationUrl: "https://a", tokenUrl: "https://t", scopes: {read: r, write: w}}}
paths:
  /trips/{region}:
    get:
      operationId: get
      x-mcp: {tool: false}
      x-otc-non-inferrable: [tenant]
      parameters:
        - {name: region, in: path, required: true, schema: {type: string}, x-mcp-header: Region}
        - {name: admin, in: query, schema: {type: boolean}, x-otc-non-inferrable: true}
        - {name: tenant, in: query, schema: {type: string}}
        - {name: price, in: query, schema: {type: number, x-mcp-header: Price}}
        - {name: again, in: query, schema: {type: string, x-mcp-header: REGION}}
        - {name: bad, in: query, schema: {type: string, x-mcp-header: "a b"}}
        - {name: mine, in: query, schema: {type: string}}
      responses: {"200": {description: ok}}
`
	tools := buildTools(t, document, BuildOptions{NonInferrable: []string{"get.mine"}})
	if string(tools.MCP) != `{"instructions":"hi"}` {
		t.Errorf("the document says %s", tools.MCP)
	}
	tool, _ := tools.Tool("get")
	if string(tool.MCP) != `{"tool":false}` {
		t.Errorf("the operation says %s", tool.MCP)
	}
	hidden, headers := map[string]bool{}, map[string]string{}
	for _, a := range tool.Arguments {
		if a.NonInferrable {
			hidden[a.Name] = true
		}
		if a.MCPHeader != "" {
			headers[a.Name] = a.MCPHeader
		}
	}
	if len(hidden) != 3 || !hidden["admin"] || !hidden["tenant"] || !hidden["mine"] {
		t.Errorf("not inferrable: %v", hidden)
	}
	if len(headers) != 1 || headers["region"] != "Region" {
		t.Errorf("headers: %v", headers)
	}
	if !strings.Contains(string(tool.InputSchema), `"x-mcp-header":"Region"`) || strings.Contains(string(tool.InputSchema), "Price") {
		t.Errorf("the schema is %s", tool.InputSchema)
	}
	if len(tools.Warnings) != 3 {
		t.Errorf("warnings %v", tools.Warnings)
	}
	if login := tools.SecuritySchemes["login"]; login == nil || len(login.Flows) != 1 || login.Flows[0].TokenURL != "https://t" ||
		strings.Join(login.Flows[0].Scopes, " ") != "read write" {
		t.Errorf("got %+v", login)
	}
	if key := tools.SecuritySchemes["key"]; key == nil || key.ParameterName != "X-Key" || key.In != "header" {
		t.Errorf("got %+v", key)
	}
}
