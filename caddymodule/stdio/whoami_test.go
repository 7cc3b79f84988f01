package stdio_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// whoami runs `caddy agents whoami` with a token on standard input.
func whoami(token string, arguments ...string) (stdout string, err error) {
	cmd := &cobra.Command{Use: "agents", SilenceUsage: true, SilenceErrors: true}
	caddycmd.Commands()["agents"].CobraFunc(cmd)
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	cmd.SetIn(strings.NewReader(token))
	cmd.SetArgs(append([]string{"whoami"}, arguments...))
	err = cmd.ExecuteContext(context.Background())
	return out.String(), err
}

// explained is the output of one endpoint.
type explained struct {
	URL, Protocol, Refused, Issuer, Signature, User string
	Audience, Groups, Scopes                        []string
	Wanted                                          []string `json:"audience_wanted"`
	Expires                                         time.Time
	Tools                                           []struct{ Toolset, Tool, Refused string }
}

// tools returns the tools that the token may call, and others with the word that says why not.
func (e *explained) tools(words ...string) (all []string) {
	for _, t := range e.Tools {
		name := t.Tool
		if t.Refused != "" {
			name += " no"
			for _, word := range words {
				if strings.Contains(t.Refused, word) {
					name += " " + word
				}
			}
		}
		all = append(all, name)
	}
	return all
}

func TestWhoami(t *testing.T) {
	issuer, other := sitetest.NewIssuer(t), sitetest.NewIssuer(t)
	s := sitetest.NewSite(t)
	document := s.Write("shop.yaml", `openapi: 3.1.0
info: {title: Shop, version: "1"}
components:
  securitySchemes: {login: {type: openIdConnect, openIdConnectUrl: https://login.example.com}}
paths:
  /items:
    get: {operationId: list_items, security: [{login: [read]}], responses: {}}
    post: {operationId: add_item, security: [{login: [write]}], responses: {}}
    delete: {operationId: drop_items, security: [{login: [read]}], responses: {}}
`)
	config := s.Write("Caddyfile", fmt.Sprintf(`{
	agents {
		toolset shop %s {
			allow `+"`tool.name != \"drop_items\" || \"ops\" in user.groups`"+`
		}
	}
}
http://tools.example.com:8080 {
	agent_auth /mcp* {
		issuer %s
		user_claim email
		group_claim roles
		scope_includes admin read
	}
	agent_auth /otc* {
		issuer %[3]s
		audience shop
		require_scope read
	}
	mcp /mcp shop
	otc /otc shop
	respond OK
}
http://open.example.com:8080 {
	mcp /mcp shop
	respond OK
}
`, document, issuer.URL, other.URL))

	explain := func(token string) (endpoints []explained, err error) {
		t.Helper()
		out, err := whoami(token, "--config", config, "--token", "-", "--json")
		if strings.Contains(out+fmt.Sprint(err), token) {
			t.Error("the token is printed")
		}
		var found struct {
			Accepted  bool
			Endpoints []explained
		}
		if jsonErr := json.Unmarshal([]byte(out), &found); jsonErr != nil || len(found.Endpoints) != 2 {
			t.Fatalf("%v, %v: %s", err, jsonErr, out)
		}
		if found.Accepted != (err == nil) {
			t.Errorf("accepted %t, error %v", found.Accepted, err)
		}
		return found.Endpoints, err
	}
	const audience = "http://tools.example.com:8080/mcp"
	claims := []any{"email", "ada@example.com", "email_verified", true, "roles", "Domain Admins", "scope", "admin"}

	t.Run("accepted", func(t *testing.T) {
		found, err := explain(issuer.Token(t, audience, claims...))
		if err != nil {
			t.Fatal(err)
		}
		at := found[0]
		got := [...]any{at.URL, at.Protocol, at.Refused, at.Signature, at.Issuer, at.User, at.Expires.After(time.Now())}
		if want := [...]any{audience, "mcp", "", "ok", issuer.URL, "ada@example.com", true}; got != want {
			t.Errorf("got %v\nwant %v", got, want)
		}
		lists := [][]string{at.Audience, at.Groups, at.Scopes}
		if want := [][]string{{audience}, {"Domain Admins"}, {"admin", "read"}}; !slices.EqualFunc(lists, want, slices.Equal[[]string]) {
			t.Errorf("got the audience, groups and scopes %q, want %q", lists, want)
		}
		if got := at.tools("write", "allow"); !slices.Equal(got, []string{"list_items", "add_item no write", "drop_items no allow"}) {
			t.Errorf("tools %q", got)
		}
		if found[1].Protocol != "otc" || !strings.Contains(found[1].Refused, "iss") || len(found[1].Tools) != 0 {
			t.Errorf("an endpoint that trusts another issuer: %+v", found[1])
		}
	})
	t.Run("a rule over groups", func(t *testing.T) {
		found, err := explain(issuer.Token(t, audience, append(claims, "roles", []string{"ops"})...))
		if err != nil || !slices.Equal(found[0].tools("write"), []string{"list_items", "add_item no write", "drop_items"}) {
			t.Errorf("%v, %+v", err, found[0].Tools)
		}
	})
	for name, test := range map[string]struct {
		token           string
		refused, signed string // words
		endpoint        int
	}{
		"audience":       {issuer.Token(t, "https://elsewhere.example.com", claims...), "aud", "ok", 0},
		"expired":        {issuer.Token(t, audience, append(claims, "exp", time.Now().Add(-time.Hour).Unix())...), "expired", "ok", 0},
		"forged":         {other.Token(t, audience, append(claims, "iss", issuer.URL)...), "signature", "signature", 0},
		"user":           {issuer.Token(t, audience), "email", "ok", 0},
		"required scope": {other.Token(t, "shop", "scope", "write"), "read", "ok", 1},
		"not a JWT":      {"opaque", "JWT", "JWT", 0},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := explain(test.token)
			at := found[test.endpoint]
			if err == nil || len(at.Tools) != 0 {
				t.Errorf("got the error %v and the tools %v, want an error and none", err, at.Tools)
			}
			if !strings.Contains(at.Refused, test.refused) || !strings.Contains(at.Signature, test.signed) {
				t.Errorf("got refused %q with the signature %q, want %q with %q", at.Refused, at.Signature, test.refused, test.signed)
			}
		})
	}
	t.Run("text", func(t *testing.T) {
		token := issuer.Token(t, audience, append(claims, "roles", "a\x1b[2Jb")...)
		out, err := whoami("", "--config", config, "--token", s.Write("token.txt", token+"\n"))
		if want := []string{"accepted", "ada@example.com", "drop_items", "toolset shop"}; err != nil || !sitetest.ContainsAll(out, want) {
			t.Errorf("got %v and\n%s\nwant %q", err, out, want)
		}
		if strings.Contains(out, "\x1b") || strings.Contains(out, token) {
			t.Errorf("got\n%q\nwant no escapes and no token", out)
		}
	})
}

func TestWhoami_finds_endpoints_below_handle_path_and_in_named_routes(t *testing.T) {
	issuer, s := sitetest.NewIssuer(t), sitetest.NewSite(t)
	document := s.Write("shop.yaml", "openapi: 3.1.0\ninfo: {title: Shop, version: \"1\"}\npaths:\n  /items:\n    get: {operationId: list_items, responses: {}}\n")
	block := "agent_auth {\nissuer " + issuer.URL + "\naudience shop\n}\nmcp /mcp " + document + "\n"
	config := s.Write("Caddyfile", "&(tools) {\nroute {\n"+block+"}\n}\nhttp://a.example.com:8080 {\nhandle_path /shop/* {\n"+block+"}\nrespond OK\n}\n"+
		"http://b.example.com:8080 {\nhandle_path /v1/* {\ninvoke tools\n}\nrespond OK\n}\n")
	out, err := whoami(issuer.Token(t, "shop"), "--config", config, "--token", "-", "--json")
	var found struct{ Endpoints []explained }
	if jsonErr := json.Unmarshal([]byte(out), &found); err != nil || jsonErr != nil || len(found.Endpoints) != 2 {
		t.Fatalf("%v, %v: %s", err, jsonErr, out)
	}
	for i, want := range []string{"http://a.example.com:8080/shop/mcp", "http://b.example.com:8080/v1/mcp"} {
		at := found.Endpoints[i]
		if at.URL != want || at.Refused != "" || !slices.Equal(at.tools(), []string{"list_items"}) {
			t.Errorf("got %+v, want %s", at, want)
		}
	}
}

// A token that is given as an argument by mistake must not be in the error.
func TestWhoami_does_not_quote_a_token(t *testing.T) {
	const token = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2ln"
	out, err := whoami("", "--config", filepath.Join(t.TempDir(), "Caddyfile"), "--token", token)
	if err == nil || strings.Contains(out+err.Error(), token) {
		t.Errorf("%v\n%s", err, out)
	}
	for input, want := range map[string]string{"": "empty", "Bearer " + token: "Bearer"} {
		if out, err := whoami(input, "--config", "Caddyfile", "--token", "-"); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(out+err.Error(), token) {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
