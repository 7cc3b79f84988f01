package mcpadapter

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

func TestRevision_is_decided_per_request(t *testing.T) {
	describing := func(version string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":{"` + metaVersion + `":` + version + `,"` + metaCapabilities + `":{}}}}`
	}
	plain := `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`
	initialize := `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	for _, c := range []struct {
		rule, header, body string
		status, code       int
	}{
		{"no-header", "", plain, 200, 0},
		{"2025-03-26", "2025-03-26", plain, 200, 0},
		{"2025-06-18", "2025-06-18", plain, 200, 0},
		{"2025-11-25", "2025-11-25", plain, 200, 0},
		{"space-around", " 2025-11-25\t", plain, 200, 0},
		{"2024-11-05", "2024-11-05", plain, 200, 0},
		{"garbage", "v1", plain, 400, protocol.UnsupportedVersion},
		{"old-garbage", "1900-01-01", plain, 400, protocol.UnsupportedVersion},
		{"old-garbage/notification", "1900-01-01", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 400, protocol.UnsupportedVersion},
		{"future", "2030-01-01", plain, 400, protocol.UnsupportedVersion},
		{"initialize/no-header", "", initialize, 200, 0},
		{"initialize/unknown-header", "2024-11-05", initialize, 200, 0},
		{"2026-07-28", "2026-07-28", describing(`"2026-07-28"`), 200, 0},
		{"2026-07-28/without-meta", "2026-07-28", plain, 400, protocol.InvalidParams},
		{"2026-07-28/without-header", "", describing(`"2026-07-28"`), 400, protocol.HeaderMismatch},
		{"2026-07-28/other-header", "2025-11-25", describing(`"2026-07-28"`), 400, protocol.HeaderMismatch},
		{"2026-07-28/other-meta", "2026-07-28", describing(`"v999"`), 400, protocol.HeaderMismatch},
		{"2026-07-28/meta-number", "2026-07-28", describing(`20260728`), 400, protocol.InvalidParams},
		{"unknown-in-both", "1900-01-01", describing(`"1900-01-01"`), 400, protocol.UnsupportedVersion},
		{"old-in-both", "2025-11-25", describing(`"2025-11-25"`), 200, 0},
		{"old-in-meta-only", "", describing(`"2025-11-25"`), 200, 0},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r := testRequest{body: c.body, header: map[string]string{versionHeader: c.header, methodHeader: "tools/list"}}
			a := parse(t, r.Send(t))
			r.fault(t, c.status, c.code)
			if c.code != protocol.UnsupportedVersion {
				return
			}
			var data struct {
				Supported []string
				Requested string
			}
			if err := json.Unmarshal(a.Error.Data, &data); err != nil {
				t.Fatal(err)
			}
			if data.Requested != c.header || !slices.Contains(data.Supported, "2026-07-28") || len(data.Supported) != len(revisions) {
				t.Errorf("data %s", a.Error.Data)
			}
		})
	}
}

func TestHeaders_repeat_the_body(t *testing.T) {
	encoded := func(s string) string { return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?=" }
	call := func(name string) string { return `"name":` + name + `,"arguments":{}` }
	for _, c := range []struct {
		rule, method, params string
		header               map[string]string
		status, code         int
	}{
		{"conformant", "tools/call", call(`"get_trip"`), nil, 200, 0},
		{"method/missing", "tools/list", "", map[string]string{methodHeader: ""}, 400, protocol.HeaderMismatch},
		{"method/other", "tools/list", "", map[string]string{methodHeader: "tools/call"}, 400, protocol.HeaderMismatch},
		{"method/case", "tools/list", "", map[string]string{methodHeader: "TOOLS/LIST"}, 400, protocol.HeaderMismatch},
		{"name/missing", "tools/call", call(`"get_trip"`), map[string]string{nameHeader: ""}, 400, protocol.HeaderMismatch},
		{"name/other", "tools/call", call(`"get_trip"`), map[string]string{nameHeader: "cancel_trip"}, 400, protocol.HeaderMismatch},
		{"name/padded", "tools/call", call(`"get_trip"`), map[string]string{nameHeader: "  get_trip "}, 200, 0},
		{"name/base64", "tools/call", call(`"h\u00e9"`), map[string]string{nameHeader: encoded("hé")}, 200, 0},
		{"name/base64-of-base64", "tools/call", call(`"=?base64?a?="`), map[string]string{nameHeader: encoded("=?base64?a?=")}, 200, 0},
		{"name/base64-other", "tools/call", call(`"get_trip"`), map[string]string{nameHeader: encoded("x")}, 400, protocol.HeaderMismatch},
		{"name/base64-broken", "tools/call", call(`"get_trip"`), map[string]string{nameHeader: "=?base64?Z2V0X3RyaXA?="}, 400, protocol.HeaderMismatch},
		{"name/base64-loose-bits", "tools/call", call(`"x"`), map[string]string{nameHeader: "=?base64?eB==?="}, 400, protocol.HeaderMismatch},
		{"name/unwrapped", "tools/call", call(`"=?base64?x"`), map[string]string{nameHeader: "=?base64?x"}, 200, 0},
		{"name/absent-in-body", "tools/call", `"arguments":{}`, map[string]string{nameHeader: ""}, 200, protocol.InvalidParams},
		{"unknown-method", "tools/destroy", "", nil, 404, protocol.MethodNotFound},
		{"removed/initialize", "initialize", `"protocolVersion":"2025-11-25"`, nil, 404, protocol.MethodNotFound},
		{"removed/ping", "ping", "", nil, 404, protocol.MethodNotFound},
		{"removed/setLevel", "logging/setLevel", `"level":"info"`, nil, 404, protocol.MethodNotFound},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r := conformant(protocol.V20260728, c.method, c.params)
			maps.Copy(r.header, c.header)
			if a := r.fault(t, c.status, c.code); string(a.ID) != "7" {
				t.Errorf("id %s", a.ID)
			}
		})
	}
}

func TestMeta_is_required(t *testing.T) {
	for rule, meta := range map[string]string{
		"missing":              ``,
		"null":                 `"_meta":null`,
		"empty":                `"_meta":{}`,
		"no-version":           `"_meta":{"` + metaCapabilities + `":{}}`,
		"no-capabilities":      `"_meta":{"` + metaVersion + `":"2026-07-28"}`,
		"capabilities-of-kind": `"_meta":{"` + metaVersion + `":"2026-07-28","` + metaCapabilities + `":[]}`,
	} {
		t.Run(rule, func(t *testing.T) {
			r := conformant(protocol.V20260728, "tools/list", "")
			r.body = `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{` + meta + `}}`
			r.fault(t, 400, protocol.InvalidParams)
		})
	}
}

func TestErrors_quote_little(t *testing.T) {
	long := strings.Repeat("é", 100000)
	a := testRequest{body: `{"jsonrpc":"2.0","id":7,"method":"` + long + `"}`}.fault(t, 200, protocol.MethodNotFound)
	if len(a.Error.Message) > 500 || !strings.Contains(a.Error.Message, "…") {
		t.Errorf("%d bytes", len(a.Error.Message))
	}
}

// Errors distinguish missing values from unsupported values and from values of the wrong kind.
func TestNegotiationErrors(t *testing.T) {
	newest := New(Options{Versions: []string{"2026-07-28"}})
	plain := `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`
	described := func(capabilities string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":{"` + metaVersion + `":"2026-07-28"` + capabilities + `}}}`
	}
	for _, c := range []struct {
		rule, header, body string
		code               int
		want, not          string
	}{
		{"no-header", "", plain, protocol.InvalidRequest, "MCP-Protocol-Version missing 2025-03-26", `"2025-03-26"`},
		{"header", "2025-03-26", plain, protocol.UnsupportedVersion, `"2025-03-26" supported`, "missing"},
		{"capabilities/missing", "2026-07-28", described(``), protocol.InvalidParams, `params._meta["` + metaCapabilities + `"] missing`, "not"},
		{"capabilities/number", "2026-07-28", described(`,"` + metaCapabilities + `":5`), protocol.InvalidParams, "object {} number", "missing"},
		{"capabilities/null", "2026-07-28", described(`,"` + metaCapabilities + `":null`), protocol.InvalidParams, "object null", "missing"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r := testRequest{server: newest, body: c.body, header: map[string]string{versionHeader: c.header, methodHeader: "tools/list"}}
			a := r.fault(t, 400, c.code)
			if a.Error == nil || !testkit.ContainsAll(a.Error.Message, c.want) || testkit.ContainsAll(a.Error.Message, c.not) {
				t.Errorf("got %+v, want the words %s and not %s", a.Error, c.want, c.not)
			}
		})
	}
}
