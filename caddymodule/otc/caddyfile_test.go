package otc_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestOTC_adapt_errors wants every error to say what is wrong and in which line.
func TestOTC_adapt_errors(t *testing.T) {
	inBlock := func(option string) string { return "http://a.test {\n\totc trains {\n\t\t" + option + "\n\t}\n}" }
	for name, test := range map[string]struct{ caddyfile, want, line string }{
		"toolset twice":             {"http://a.test {\n\totc /otc trains trains\n}", "toolset trains twice", ":2"},
		"path second":               {"http://a.test {\n\totc trains /otc\n}", "path first", ":2"},
		"toolset in both":           {inBlock("toolset other"), "toolset twice", ":3"},
		"options of several":        {"http://a.test {\n\totc a b {\n\t\ttimeout 5s\n\t}\n}", "agents", ":4"},
		"idempotency on":            {inBlock("idempotency on"), "idempotency off block", ":3"},
		"idempotency twice":         {inBlock("idempotency off\n\t\tidempotency off"), "idempotency twice", ":4"},
		"idempotency ttl":           {inBlock("idempotency {\n\t\t\tttl often\n\t\t}"), "ttl often", ":4"},
		"idempotency unknown":       {inBlock("idempotency {\n\t\t\tnever\n\t\t}"), "unrecognized idempotency never", ":4"},
		"idempotency size":          {inBlock("idempotency {\n\t\t\tmax_size lots\n\t\t}"), "max_size lots", ":4"},
		"developer_messages":        {inBlock("developer_messages on"), "wrong argument count", ":3"},
		"requirements":              {inBlock("requirements on"), "requirements off", ":3"},
		"authorization_url":         {inBlock("authorization_url github"), "authorization_url security scheme", ":3"},
		"authorization_url twice":   {inBlock("authorization_url a b\n\t\tauthorization_url a c"), "authorization_url twice", ":4"},
		"health_upstream":           {inBlock("health_upstream"), "wrong argument count", ":3"},
		"a version of words":        {inBlock("version x"), "version x 1.0.0", ":3"},
		"a version of two numbers":  {inBlock("toolkit Kit\n\t\tversion 2.1"), "2.1.0", ":4"},
		"a second health_upstream":  {inBlock("health_upstream /a\n\t\thealth_upstream /b"), "health_upstream twice", ":4"},
		"an empty toolset argument": {"http://a.test {\n\totc /otc \"\"\n}", "toolset empty", ":2"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := sitetest.Adapt(test.caddyfile)
			if err == nil {
				t.Fatal("no error")
			}
			if !testkit.ContainsAll(err.Error(), test.want) || !strings.Contains(err.Error(), "Caddyfile"+test.line) {
				t.Errorf("got %q, want %q and line %s", err, test.want, test.line)
			}
		})
	}
}

// vault is a document with security schemes.
const vault = `openapi: 3.1.0
info: {title: Vault, version: 1.0.0}
paths: {/a: {get: {operationId: a, responses: {"200": {description: ok}}}}}
components:
  securitySchemes:
    github: {type: oauth2, flows: {}}
    key: {type: apiKey, in: header, name: X-Key}
`

// TestOTC_JSON_errors wants the same of what the Caddyfile could not say.
func TestOTC_JSON_errors(t *testing.T) {
	const version = `"version":"1.2.3"`
	for _, test := range []struct{ bad, want string }{
		{`"version":"2.1"`, "version 2.1 2.1.0"},
		{`"toolsets":["a"]`, "toolset a twice"},
		{`"max_body":-1`, "max_body -1"},
	} {
		t.Run(test.bad, func(t *testing.T) {
			s := sitetest.NewSite(t)
			config := s.Config("agents {\n toolset a TRIPS\n toolset b TRIPS\n }", "otc /otc a {\n version 1.2.3\n }\n respond ok")
			changed := bytes.Replace(config, []byte(version), []byte(test.bad), 1)
			if bytes.Equal(changed, config) {
				t.Fatalf("%s has no %s", config, version)
			}
			parsed := new(caddy.Config)
			if err := json.Unmarshal(changed, parsed); err != nil {
				t.Fatal(err)
			}
			if err := caddy.Validate(parsed); err == nil || !testkit.ContainsAll(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestOTC_authorization_URL_of_a_known_scheme wants the URL in the response.
func TestOTC_authorization_URL_of_a_known_scheme(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("vault.yaml", vault+"security: [{github: []}]\n")
	s.Start("", "otc /otc DIR/vault.yaml {\n authorization_url github https://id.example/a\n }\n respond ok")
	got := s.Request("POST", "/otc/call", `{"tool_id":"Vault.a"}`)
	if got.Status != 400 || !strings.Contains(got.Body, `{"id":"github","url":"https://id.example/a"}`) {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}

// TestOTC_config_errors wants what cannot work to be refused when it is loaded.
func TestOTC_config_errors(t *testing.T) {
	const two = `agents {
		toolset a TRIPS
		toolset b TRIPS
	}`
	for name, test := range map[string]struct{ global, block, want string }{
		"version of several":       {two, "otc /otc a b {\n version 2.0.0\n }", "version 2.0.0"},
		"unknown scheme":           {"", "otc /otc DIR/vault.yaml {\n authorization_url giihub https://id.example/a\n }", "authorization_url giihub mean github"},
		"unknown scheme, not near": {"", "otc /otc DIR/vault.yaml {\n authorization_url nosuch https://id.example/a\n }", "github key"},
		"no schemes at all":        {two, "otc /otc a b {\n authorization_url nosuch https://id.example/a\n }", "none"},
		"unknown toolset":          {two, "otc /otc a c", "toolset c"},
		"health below the path":    {two, "otc /otc a {\n health_upstream /otc/health\n }", "below"},
		"health without a slash":   {two, "otc /otc a {\n health_upstream healthz\n }", "slash"},
		"a short secret":           {two, "otc /otc a {\n idempotency {\n secret abc\n }\n }", "secret 3"},
		"a short lease":            {two, "otc /otc a {\n idempotency {\n lease 10ms\n }\n }", "lease 10ms 1s 24h0m0s"},
		"a lease of days":          {two, "otc /otc a {\n idempotency {\n lease 2d\n }\n }", "lease 48h0m0s"},
		"an answer of any size":    {two, "otc /otc a {\n idempotency {\n max_size 1GiB\n }\n }", "max_size 1073741824"},
		"off, and options":         {two, "otc /otc a {\n idempotency off {\n ttl 5s\n }\n }", "idempotency off options"},
		"a life of more than most": {two, "otc /otc a {\n idempotency {\n ttl 400d\n }\n }", "between"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewSite(t)
			s.Write("vault.yaml", vault)
			err := s.Load(test.global, test.block)
			if err == nil {
				t.Fatal("no error")
			}
			if !testkit.ContainsAll(err.Error(), test.want) {
				t.Errorf("got %q, want %q", err, test.want)
			}
		})
	}
}
