package commands_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// callSite writes a configuration with a shaped toolset, and the document without a configuration.
func callSite(t *testing.T) (config, document string) {
	s := sitetest.NewSite(t)
	document = s.Write("orders.yaml", sitetest.ShapedDocument+"servers: [{url: https://api.example.com/v1}]\n")
	return s.Write("Caddyfile", `{
		agents {
			toolset orders `+document+` {
				credential header Authorization "Bearer {env.FAIRWAY_TEST_TOKEN}"
				credential query key k3y
				`+sitetest.ShapedBlock+`
			}
			toolset others `+document+`
		}
	}
	http://127.0.0.1:1 {
		respond ok
	}`), document
}

func TestToolsCall_dry_run(t *testing.T) {
	config, document := callSite(t)
	out, _, err := sitetest.CaddyTools("call", "list_orders", `{"page_size":7}`, "--config", config, "--toolset", "orders", "--dry-run",
		"--placeholder", "http.auth.user.id=grace", "--placeholder", "http.vars.tenant=blue")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"GET https://api.example.com/v1/accounts/acme/orders?owner=grace&per_page=7&key=***\n", "Authorization: ***\n", "X-Tenant: t-blue\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out, _, err = sitetest.CaddyTools("call", "orders_list", `{"account":"a"}`, "--document", document, "--dry-run", "--header", "X-Key: s3cret")
	if want := "GET https://api.example.com/v1/accounts/a/orders\n"; err != nil || !strings.HasPrefix(out, want) {
		t.Errorf("got %s, %v; want %s", out, err, want)
	}
	if strings.Contains(out, "s3cret") || !strings.Contains(out, "X-Key: ***") {
		t.Errorf("got %s, want X-Key: *** instead of the secret", out)
	}
}

func TestToolsCall_dry_run_conceals_values_of_the_environment(t *testing.T) {
	t.Setenv("FAIRWAY_TEST_SECRET", "t0p secret&/ü")
	s := sitetest.NewSite(t)
	document := s.Write("a.yaml", `openapi: 3.1.0
info: {title: A, version: "1"}
servers: [{url: https://api.example.com}]
paths:
  /a/{p}:
    post:
      operationId: a
      parameters:
        - {name: p, in: path, required: true, schema: {type: string}}
        - {name: q, in: query, schema: {type: string}}
      requestBody: {content: {application/json: {schema: {type: object, properties: {b: {type: string}, c: {type: string}}}}}}
`)
	config := s.Write("Caddyfile", "{\nagents {\ntoolset a "+document+` {
		tool a {
			argument q {
				fixed "k-{env.FAIRWAY_TEST_SECRET}"
			}
			argument b {
				fixed "{env.FAIRWAY_TEST_SECRET}"
			}
			argument c {
				fixed "{http.auth.user.id}"
			}
		}
	}
}
}
`)
	out, _, err := sitetest.CaddyTools("call", "a", `{"p":"x"}`, "--config", config, "--dry-run", "--placeholder", "http.auth.user.id=grace")
	if err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]bool{"q=k-***": true, `"b":"***"`: true, "grace": true, "t0p": false} {
		if got := strings.Contains(out, word); got != want {
			t.Errorf("%s is printed: got %t, want %t:\n%s", word, got, want, out)
		}
	}
}

func TestToolsCall_errors(t *testing.T) {
	config, document := callSite(t)
	orders := []string{"--config", config, "--toolset", "orders"}
	for word, arguments := range map[string][]string{
		"--placeholder":                append([]string{"call", "list_orders", "{}", "--dry-run"}, orders...),
		"list_orders":                  append([]string{"call", "list_order", "{}", "--dry-run"}, orders...),
		"account":                      append([]string{"call", "list_orders", `{"account":"x"}`, "--dry-run", "--placeholder", "http.auth.user.id=g", "--placeholder", "http.vars.tenant=b"}, orders...),
		"--toolset":                    {"call", "list_orders", "{}", "--config", config, "--dry-run"},
		"others":                       {"call", "list_orders", "{}", "--config", config, "--toolset", "other", "--dry-run"},
		"--document":                   {"call", "list_orders", "{}"},
		"remove one":                   {"call", "list_orders", "{}", "--config", config, "--document", document},
		"--yes":                        {"call", "orders_list", `{"account":"a"}`, "--document", document},
		"Name: value":                  {"call", "orders_list", `{"account":"a"}`, "--document", document, "--dry-run", "--header", "nothing"},
		"http.auth.user.id=grace":      {"call", "orders_list", `{"account":"a"}`, "--document", document, "--dry-run", "--placeholder", "nothing"},
		"--include and --config":       {"--config", config, "--toolset", "orders", "--include", "tag=x"},
		"--toolset and --adapter":      {document, "--toolset", "orders"},
		"are both given; remove --yes": {"call", "orders_list", `{"account":"a"}`, "--document", document, "--api", "https://x", "--yes"},
	} {
		if out, _, err := sitetest.CaddyTools(arguments...); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q: got %v, want %q\n%s", arguments, err, word, out)
		}
	}
}

func TestToolsCall_sends(t *testing.T) {
	t.Setenv("FAIRWAY_TEST_TOKEN", "t0ken")
	config, _ := callSite(t)
	var seen *http.Request
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("per_page") == "9" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte(`{"orders":[1,2,3]}`))
	}))
	defer api.Close()
	call := []string{
		"call", "list_orders", `{}`, "--config", config, "--toolset", "orders", "--api", api.URL,
		"--placeholder", "http.auth.user.id=grace", "--placeholder", "http.vars.tenant=blue",
	}
	out, notes, err := sitetest.CaddyTools(call...)
	if want := "{\"orders\":[1,2,3]}\n"; err != nil || out != want {
		t.Errorf("got %q, %v; want %q", out, err, want)
	}
	if !strings.HasPrefix(notes, "200 OK, ") || !strings.Contains(notes, "tokens") {
		t.Errorf("got the notes %q, want 200 OK, … tokens", notes)
	}
	if seen == nil {
		t.Fatal("the API was not called")
	}
	sent := [...]string{seen.Header.Get("Authorization"), seen.URL.Query().Get("key"), seen.URL.Query().Get("owner")}
	if want := [...]string{"Bearer t0ken", "k3y", "grace"}; sent != want {
		t.Errorf("got %q, want %q", sent, want)
	}
	call[2] = `{"page_size":9}`
	if _, _, err := sitetest.CaddyTools(call...); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("got %v", err)
	}
}

// TestTools_of_endpoints_without_options finds documents that endpoints name on their line.
func TestTools_of_endpoints_without_options(t *testing.T) {
	s := sitetest.NewSite(t)
	first, second := s.Write("a.yaml", sitetest.Trips), s.Write("b.yaml", sitetest.Trips)
	config := s.Write("Caddyfile", "http://a.test {\nmcp /mcp "+first+"\nmcp /both "+first+" "+second+"\nreverse_proxy b.test:80\n}\n")
	for _, document := range []string{first, second} {
		if out, _, err := sitetest.CaddyTools("--config", config, "--toolset", document); err != nil || !strings.Contains(out, "listTrips") {
			t.Errorf("error %v\n%s", err, out)
		}
	}
	if _, _, err := sitetest.CaddyTools("--config", config); err == nil || !strings.Contains(err.Error(), "--toolset") {
		t.Errorf("got %v, want the two toolsets", err)
	}
}

// TestTools_shows_shapes checks that the table has the tokens before and after, and what changed.
func TestTools_shows_shapes(t *testing.T) {
	config, _ := callSite(t)
	out, _, err := sitetest.CaddyTools("--config", config, "--toolset", "orders")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"→", "before shapes", "argument per_page: renamed to page_size", "renamed: from orders_list", "annotation: idempotentHint false"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
