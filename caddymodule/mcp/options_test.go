package mcp_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/mcp"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestMCP_adapt_errors wants every error to say what is wrong and in which line.
func TestMCP_adapt_errors(t *testing.T) {
	for name, test := range map[string]struct {
		lines, want, line string
	}{
		"versions none":           {"versions", "wrong argument count", ":3"},
		"versions unknown":        {"versions 2025-11-25 2025-12-24", "2025-12-24 2026-07-28 2025-11-25", ":3"},
		"versions twice":          {"versions 2025-11-25\n\t\tversions 2025-11-25", "2025-11-25 twice", ":4"},
		"secret twice":            {"secret a\n\t\tsecret b", "secret twice", ":4"},
		"session_ttl off":         {"session_ttl off", "session_ttl off", ":3"},
		"session_ttl zero":        {"session_ttl 0s", "session_ttl 0s", ":3"},
		"max_streams":             {"max_streams many", "max_streams many", ":3"},
		"max_streams/zero":        {"max_streams 0", "max_streams 0", ":3"},
		"max_client_streams":      {"max_client_streams 8", "max_streams", ":3"},
		"keep_alive":              {"keep_alive -5s", "keep_alive -5s", ":3"},
		"ask_timeout":             {"ask_timeout soon", "ask_timeout soon", ":3"},
		"task_after":              {"task_after soon", "task_after soon", ":3"},
		"task_after zero":         {"task_after 0s", "task_after 0s", ":3"},
		"task_ttl":                {"task_ttl off", "task_ttl off", ":3"},
		"watch_interval":          {"watch_interval", "wrong argument count", ":3"},
		"list_ttl":                {"list_ttl forever", "list_ttl forever", ":3"},
		"public_lists argument":   {"public_lists on", "wrong argument count", ":3"},
		"output_schema":           {"output_schema exact", "output_schema exact off loose strict", ":3"},
		"tool_scopes":             {"tool_scopes all", "tool_scopes all: document off", ":3"},
		"discovery argument":      {"discovery on", "wrong argument count", ":3"},
		"discovery twice":         {"discovery\n\t\tdiscovery", "discovery twice", ":4"},
		"discovery unknown":       {"discovery {\n\t\t\ttitle a\n\t\t}", "unrecognized discovery title", ":4"},
		"discovery name":          {"discovery {\n\t\t\tname trains\n\t\t}", "domain", ":4"},
		"discovery url":           {"discovery {\n\t\t\turl api.example.com/mcp\n\t\t}", "https://api.example.com/mcp", ":4"},
		"discovery url twice":     {"discovery {\n\t\t\turl https://a/mcp\n\t\t\turl https://a/mcp\n\t\t}", "url twice", ":5"},
		"non_inferrable none":     {"non_inferrable", "wrong argument count", ":3"},
		"non_inferrable of other": {"non_inferrable seat seat", "seat twice", ":3"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := sitetest.Adapt("http://a.test {\n\tmcp {\n\t\t" + test.lines + "\n\t}\n}")
			if err == nil {
				t.Fatal("no error")
			}
			if !testkit.ContainsAll(err.Error(), test.want) || !strings.Contains(err.Error(), "Caddyfile"+test.line) {
				t.Errorf("got %q, want %q and line %s", err, test.want, test.line)
			}
		})
	}
}

// TestMCP_validate_errors wants the same of configurations in JSON.
func TestMCP_validate_errors(t *testing.T) {
	for config, want := range map[string]string{
		`{"page_size":-1}`:                      "page_size -1 is negative",
		`{"max_body":-1}`:                       "max_body -1",
		`{"session_ttl":-1}`:                    "session_ttl -1 is negative",
		`{"max_streams":-1}`:                    "max_streams -1 is negative",
		`{"keep_alive":"-1s"}`:                  "keep_alive -1000000000 is negative",
		`{"ask_timeout":-1}`:                    "ask_timeout -1 is negative",
		`{"task_after":-1}`:                     "task_after -1 is negative",
		`{"task_ttl":"1m"}`:                     "task_ttl task_after",
		`{"public_lists":true,"list_ttl":-1}`:   "public_lists list_ttl",
		`{"pins":["a"],"search":"off"}`:         "pins search",
		`{"task_after":"1s","task_ttl":"999h"}`: "task_ttl longer 720h0m0s",
		`{"watch_interval":-1}`:                 "watch_interval -1 is negative",
		`{"versions":["1"]}`:                    "versions 1",
		`{"output_schema":"some"}`:              "output_schema some off loose strict",
		`{"tool_scopes":"some"}`:                `tool_scopes "some"`,
	} {
		t.Run(config, func(t *testing.T) {
			m := new(mcp.Handler)
			if err := json.Unmarshal([]byte(config), m); err != nil {
				t.Fatal(err)
			}
			if err := m.Validate(); err == nil || !testkit.ContainsAll(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

// TestMCPSecret wants a secret to be long enough and to be known.
func TestMCPSecret(t *testing.T) {
	t.Setenv("FAIRWAY_TEST_SHORT", "fifteen bytes!!")
	t.Setenv("FAIRWAY_TEST_LONG", "sixteen bytes!!!")
	for name, test := range map[string]struct{ secret, want string }{
		"short":          {"{env.FAIRWAY_TEST_SHORT}", "secret 15 16"},
		"not set":        {"{env.FAIRWAY_TEST_NOWHERE}", "secret: "},
		"unknown":        {"{unknown.placeholder}", "secret: "},
		"long enough":    {"{env.FAIRWAY_TEST_LONG}", ""},
		"written out":    {"0123456789abcdef", ""},
		"short, written": {"0123456789", "secret has 10 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewSite(t)
			config := new(caddy.Config)
			if err := json.Unmarshal(s.Config("", "mcp /mcp TRIPS {\nsecret "+test.secret+"\n}\nrespond ok"), config); err != nil {
				t.Fatal(err)
			}
			err := caddy.Validate(config)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !testkit.ContainsAll(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "fifteen bytes") {
				t.Errorf("the error contains the secret: %v", err)
			}
		})
	}
}

// TestNonInferrable wants the arguments that are named to be marked as such.
func TestNonInferrable(t *testing.T) {
	s := sitetest.Run(t, "", "mcp /mcp TRIPS {\nnon_inferrable getTrip.id to\n}\notc /otc TRIPS {\nnon_inferrable getTrip.id to\n}\nrespond ok")
	a := s.Get("/otc/tools")
	for name, want := range map[string]string{"getTrip": `"id"`, "createTrip": `"to"`} {
		if !strings.Contains(a.Body, want) || !strings.Contains(a.Body, name) || !strings.Contains(a.Body, "non_inferrable") {
			t.Errorf("%s of %s is not marked: %s", want, name, a.Body)
		}
	}
}

func TestMCP_server_name_is_no_file_name(t *testing.T) {
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	for name, test := range map[string]struct{ global, block, want string }{
		"a document":      {"", "mcp TRIPS\nrespond ok", `"name":"trips"`},
		"a named toolset": {"agents {\ntoolset railway TRIPS\n}", "mcp\nrespond ok", `"name":"railway"`},
		"a name":          {"", "mcp TRIPS {\nname own\n}\nrespond ok", `"name":"own"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.Run(t, test.global, test.block)
			if body := s.Post("/mcp", initialize, nil).Body; !testkit.ContainsAll(body, test.want) {
				t.Errorf("%s is not in %s", test.want, body)
			}
		})
	}
}
