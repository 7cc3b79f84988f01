package mcpadapter

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/mcpadapter/internal/catalog"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
	"github.com/fairwayhq/fairway/tools"
)

func TestInitialize(t *testing.T) {
	for _, c := range []struct{ asked, want string }{
		{"2025-03-26", "2025-03-26"},
		{"2025-06-18", "2025-06-18"},
		{"2025-11-25", "2025-11-25"},
		{"2024-11-05", "2024-11-05"},
		{"2026-07-28", "2025-11-25"}, // that revision has no handshake
		{"2099-01-01", "2025-11-25"},
		{"", "2025-11-25"},
	} {
		t.Run("asked-"+c.asked, func(t *testing.T) {
			var got struct {
				ProtocolVersion string
				Capabilities    map[string]json.RawMessage
				ServerInfo      map[string]string
				Instructions    string
			}
			r := conformant(protocol.Unknown, "initialize", `"protocolVersion":"`+c.asked+`","capabilities":{},"clientInfo":{"name":"c","version":"1"}`)
			w := r.Send(t)
			if err := json.Unmarshal(parse(t, w).Result, &got); err != nil {
				t.Fatal(err)
			}
			validate(t, protocol.RevisionOf(c.want), "InitializeResult", w.Body.Bytes())
			if got.ProtocolVersion != c.want {
				t.Errorf("version %s, want %s", got.ProtocolVersion, c.want)
			}
			if string(got.Capabilities["tools"]) != `{"listChanged":true}` || string(got.Capabilities["logging"]) != "{}" {
				t.Errorf("capabilities %s", got.Capabilities)
			}
			if got.ServerInfo["name"] != "train-travel" || got.ServerInfo["version"] != "1.2.0" || got.Instructions != "Book trains." {
				t.Errorf("got %+v", got)
			}
			if _, titled := got.ServerInfo["title"]; titled == (c.want <= "2025-03-26") {
				t.Errorf("serverInfo %v in %s", got.ServerInfo, c.want)
			}
			if len(w.Header().Get("Mcp-Session-Id")) != session.IDLength {
				t.Errorf("session %q", w.Header().Get("Mcp-Session-Id"))
			}
		})
	}
	t.Run("no-version", func(t *testing.T) {
		conformant(protocol.Unknown, "initialize", `"capabilities":{}`).fault(t, 200, protocol.InvalidParams)
	})
}

func TestIdentity(t *testing.T) {
	long := strings.Repeat("é", catalog.MaxInstructions)
	for _, c := range []struct {
		rule         string
		options      Options
		tools        *tools.Toolset
		server       string
		instructions string
	}{
		{"toolset", Options{}, trains(), `{"name":"train-travel","title":"Train Travel","version":"1.2.0"}`, "Book trains."},
		{"options", Options{Name: "n", Title: "t", Version: "v", Instructions: "i"}, trains(), `{"name":"n","title":"t","version":"v"}`, "i"},
		{"nothing", Options{}, tools.NewToolset("", nil), `{"name":"fairway","version":"0"}`, ""},
		{"no-title", Options{}, tools.NewToolset("trains", nil), `{"name":"trains","version":"0"}`, ""},
		{
			"odd-title",
			Options{},
			&tools.Toolset{Name: "github.json", Title: "  GitHub v3 REST API! (ünstable)"},
			`{"name":"github-v3-rest-api-nstable","title":"  GitHub v3 REST API! (ünstable)","version":"0"}`, "",
		},
		{"long-description", Options{}, &tools.Toolset{Description: long}, `{"name":"fairway","version":"0"}`, strings.Repeat("é", (catalog.MaxInstructions-len("…"))/2) + "…"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			s := New(c.options)
			if got := string(s.newCatalog(c.tools).AppendIdentity(nil, protocol.V20260728)); got != c.server {
				t.Errorf("got %s", got)
			}
			var got struct{ Instructions string }
			r := conformant(protocol.V20260728, "server/discover", "")
			r.server, r.tools = s, c.tools
			r.result(t, "DiscoverResult", &got)
			if got.Instructions != c.instructions {
				t.Errorf("instructions %q", got.Instructions)
			}
		})
	}
}

func TestPing(t *testing.T) {
	for _, v := range revisions[:4] {
		var got map[string]any
		conformant(v, "ping", "").result(t, "Result", &got)
		if len(got) != 0 {
			t.Errorf("%v: %v", v, got)
		}
	}
}

func TestDiscover(t *testing.T) {
	var got struct {
		ResultType        string
		SupportedVersions []string
		Capabilities      map[string]json.RawMessage
		CacheScope        string
		TTL               int64 `json:"ttlMs"`
		Meta              struct {
			Server struct{ Name string } `json:"io.modelcontextprotocol/serverInfo"`
		} `json:"_meta"`
	}
	conformant(protocol.V20260728, "server/discover", "").result(t, "DiscoverResult", &got)
	if got.ResultType != "complete" || got.Meta.Server.Name != "train-travel" || string(got.Capabilities["tools"]) != `{"listChanged":true}` {
		t.Errorf("got %+v", got)
	}
	var want []string
	for _, v := range revisions {
		want = append([]string{v.String()}, want...)
	}
	if !slices.Equal(got.SupportedVersions, want) {
		t.Errorf("supports %v, want %v", got.SupportedVersions, want)
	}
	for rule, c := range map[string]struct {
		options Options
		ttl     int64
		scope   string
	}{
		"default": {Options{}, defaultListTTL.Milliseconds(), "private"},
		"never":   {Options{ListTTL: -1}, 0, "private"},
		"public":  {Options{ListTTL: time.Hour, PublicLists: true}, 3600000, "public"},
	} {
		t.Run(rule, func(t *testing.T) {
			for method, definition := range map[string]string{"server/discover": "DiscoverResult", "tools/list": "ListToolsResult"} {
				r := conformant(protocol.V20260728, method, "")
				r.server = New(c.options)
				r.result(t, definition, &got)
				if got.TTL != c.ttl || got.CacheScope != c.scope {
					t.Errorf("%s: %d %s", method, got.TTL, got.CacheScope)
				}
			}
		})
	}
}
