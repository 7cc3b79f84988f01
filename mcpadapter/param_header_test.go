package mcpadapter

import (
	"encoding/base64"
	"maps"
	"net/http"
	"testing"

	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

func TestParamHeaders(t *testing.T) {
	toolset := buildTools(t, payments, tools.BuildOptions{})
	b64 := func(s string) string { return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?=" }
	for _, c := range []struct {
		rule, arguments string
		header          map[string]string
		ok              bool
	}{
		{"none", `{}`, nil, true},
		{"string", `{"region":"us-west1"}`, map[string]string{"Mcp-Param-Region": "us-west1"}, true},
		{"case", `{"region":"us-west1"}`, map[string]string{"mcp-param-region": "us-west1"}, true},
		{"escaped", `{"region":"us\u002dwest1"}`, map[string]string{"Mcp-Param-Region": "us-west1"}, true},
		{"base64", `{"region":"Zürich"}`, map[string]string{"Mcp-Param-Region": b64("Zürich")}, true},
		{"sentinel", `{"region":"=?base64?x?="}`, map[string]string{"Mcp-Param-Region": b64("=?base64?x?=")}, true},
		{"integer", `{"count":-42}`, map[string]string{"Mcp-Param-Count": "-42"}, true},
		{"integer-as-fraction", `{"count":42.0}`, map[string]string{"Mcp-Param-Count": "42"}, true},
		{"integer-as-exponent", `{"count":42}`, map[string]string{"Mcp-Param-Count": "4.2e1"}, true},
		{"boolean", `{"dry":false}`, map[string]string{"Mcp-Param-Dry": "false"}, true},
		{"null", `{"dry":null}`, nil, true},
		{"all", `{"region":"a","count":1,"dry":true}`, map[string]string{"Mcp-Param-Region": "a", "Mcp-Param-Count": "1", "Mcp-Param-Dry": "true"}, true},
		{"unknown-header", `{}`, map[string]string{"Mcp-Param-Other": "x"}, true},
		{"missing", `{"region":"us-west1"}`, nil, false},
		{"missing-of-two", `{"region":"a","count":1}`, map[string]string{"Mcp-Param-Region": "a"}, false},
		{"other", `{"region":"us-west1"}`, map[string]string{"Mcp-Param-Region": "us-west2"}, false},
		{"superfluous", `{}`, map[string]string{"Mcp-Param-Region": "us-west1"}, false},
		{"superfluous-null", `{"region":null}`, map[string]string{"Mcp-Param-Region": "null"}, false},
		{"bad-base64", `{"region":"a"}`, map[string]string{"Mcp-Param-Region": "=?base64?*?="}, false},
		{"base64-of-other", `{"region":"a"}`, map[string]string{"Mcp-Param-Region": b64("b")}, false},
		{"not-ascii", `{"region":"Zürich"}`, map[string]string{"Mcp-Param-Region": "Zürich"}, false},
		{"boolean-case", `{"dry":true}`, map[string]string{"Mcp-Param-Dry": "True"}, false},
		{"integer-large", `{"count":9007199254740993}`, map[string]string{"Mcp-Param-Count": "9007199254740992"}, false},
		{"integer-endless", `{"count":1}`, map[string]string{"Mcp-Param-Count": "1e999999999"}, false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r := conformant(protocol.V20260728, "tools/call", `"name":"route","arguments":`+c.arguments)
			r.tools = toolset
			maps.Copy(r.header, c.header)
			if c.ok {
				r.fault(t, 200, 0)
				return
			}
			r.fault(t, 400, protocol.HeaderMismatch)
			r.version, r.body = protocol.V20251125, conformant(protocol.V20251125, "tools/call", `"name":"route","arguments":`+c.arguments).body
			r.fault(t, 200, 0)
		})
	}
}

// Over a connection there are no headers, so none can be missing.
func TestParam_headers_over_connection(t *testing.T) {
	toolset := buildTools(t, payments, tools.BuildOptions{})
	for _, c := range []struct {
		header http.Header
		ok     bool
	}{{nil, true}, {http.Header{}, false}} {
		q := request{
			scope:  scope{server: New(Options{}), site: &Site{}, tools: toolset, version: protocol.V20260728},
			client: &client{header: c.header}, caller: echo, ctx: t.Context(), params: params{name: []byte(`"route"`), arguments: []byte(`{"region":"x"}`)},
		}
		if f := callTool(&q, &response{out: bufferOf()}); (f == nil) != c.ok {
			t.Errorf("with the header %v: fault %+v", c.header, f)
		}
	}
}
