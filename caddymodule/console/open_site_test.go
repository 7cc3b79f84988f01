package console_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// assetLinks finds the files of the console that a page loads.
var assetLinks = regexp.MustCompile(`(?:href|src)="(/console/assets/[^"]+)"`)

// TestConsole_errors_have_the_form_that_the_client_shows checks the responses 401, 403 and 404: a page in the
// console's style for browsers, a problem document for programs.
func TestConsole_errors_have_the_form_that_the_client_shows(t *testing.T) {
	s := consoleSite(t, "", "mcp TRIPS\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
	for name, c := range map[string]struct {
		method, path string
		header       []string
		status       int
		title        string
		navigation   bool
	}{
		"401":      {"GET", "/console", nil, 401, "Log in first", false},
		"401 POST": {"POST", "/console/tools/mcp/getTrip", nil, 401, "Log in first", false},
		"403":      {"POST", "/console/tools/mcp/getTrip", []string{"X-Test-User", "ada", "Sec-Fetch-Site", "cross-site"}, 403, "Request of another site", true},
		"404":      {"GET", "/console/nothing", []string{"X-Test-User", "ada"}, 404, "Not found", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.With(t)
			for _, accept := range []string{"text/html,application/xhtml+xml,*/*;q=0.8", "application/json", "*/*", ""} {
				a := s.Request(c.method, c.path, "", append([]string{"Accept", accept}, c.header...)...)
				if a.Status != c.status || !strings.HasPrefix(a.Header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'; style-src 'self';") {
					t.Errorf("Accept %q: status %d, header %v", accept, a.Status, a.Header)
				}
				if !strings.Contains(accept, "html") {
					var problem struct {
						Status        int
						Title, Detail string
					}
					if err := json.Unmarshal([]byte(a.Body), &problem); err != nil {
						t.Fatalf("Accept %q: %v in %s", accept, err, a.Body)
					}
					got := [...]any{a.Header.Get("Content-Type"), problem.Status, problem.Title, problem.Detail != ""}
					if want := [...]any{"application/problem+json", c.status, c.title, true}; got != want {
						t.Errorf("Accept %q: type, status, title, has a detail: got %v, want %v", accept, got, want)
					}
					continue
				}
				if !strings.Contains(a.Body, "<h1>"+c.title+"</h1>") || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
					t.Errorf("got %s %s", a.Header.Get("Content-Type"), a.Body)
				}
				if got := strings.Contains(a.Body, "<nav"); got != c.navigation {
					t.Errorf("the page has a navigation: %v, want %v", got, c.navigation)
				}
				if strings.Contains(a.Body, "<style") || strings.Contains(a.Body, " style=") || strings.Contains(a.Body, "<script>") {
					t.Errorf("the page has a style or script of its own, which its policy forbids: %s", a.Body)
				}
				links := assetLinks.FindAllStringSubmatch(a.Body, -1)
				if len(links) < 3 { // the icon, its picture, the style sheet
					t.Errorf("the page loads %q", links)
				}
				for _, link := range links {
					if asset := s.Request("GET", link[1], "", c.header...); asset.Status != http.StatusOK {
						t.Errorf("%s: status %d", link[1], asset.Status)
					}
				}
			}
		})
	}
}

// TestConsole_login_page_in_a_browser checks the page for strangers.
func TestConsole_login_page_in_a_browser(t *testing.T) {
	s := consoleSite(t, "", "mcp TRIPS\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
	b := newBrowser(t, s, "")
	b.visit("/console", "login")
}

// TestConsole_on_a_unix_socket checks that no client of a unix socket is the local operator, and that a console
// without a login says so at start.
func TestConsole_on_a_unix_socket(t *testing.T) {
	for name, c := range map[string]struct {
		login string
		user  string
		want  int
	}{
		"no login": {"", "ada", http.StatusUnauthorized},
		"login":    {"test_user\n", "ada", http.StatusOK},
		"stranger": {"test_user\n", "", http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.Run(t, "agents {\n\tstore bolt DIR/store.db\n}", "bind unix/DIR/c.sock\nroute {\n"+c.login+"agents_console\nmcp TRIPS\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo)+"\n}")
			client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", s.Dir+"/c.sock")
			}}}
			defer client.CloseIdleConnections()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/console", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Test-User", c.user)
			response, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != c.want {
				t.Errorf("status %d, want %d; %v", response.StatusCode, c.want, err)
			}
			s.Logged("authenticates", "console", "401", `"level":"warn"`)
		})
	}
}

// TestConsole_says_at_start_that_it_is_open checks what the log says about consoles on loopback addresses.
func TestConsole_says_at_start_that_it_is_open(t *testing.T) {
	for name, c := range map[string]struct {
		bind, login string
		open        bool
	}{
		"no login":        {"127.0.0.1", "", true},
		"and unix socket": {"127.0.0.1 unix/DIR/c.sock", "", true},
		"login":           {"127.0.0.1", "basic_auth {\nada $2a$04$MhTq1Kq2O2zgTPPQOjvTzeBvXBFoFuHDzPrsNfSJtLrq7pzFYZtQ2\n}\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.Run(t, "agents {\n\tstore bolt DIR/store.db\n}", "bind "+c.bind+"\nroute {\n"+c.login+"agents_console\nmcp TRIPS\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo)+"\n}")
			s.Get("/console")
			if got := s.HasLogged("console", "open", "machine", `"level":"info"`); got != c.open {
				t.Errorf("the log says that the console is open: %v, want %v", got, c.open)
			}
			if s.HasLogged("authenticates", "console", "401") {
				t.Error("the log has the warning about a console that responds with 401")
			}
		})
	}
}

// TestConsole_pages_without_content checks that a page without content says so once, and what to do.
func TestConsole_pages_without_content(t *testing.T) {
	s := consoleSite(t, "", "mcp TRIPS\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
	for path, c := range map[string]struct{ has, hasNot string }{
		"/console/agents":             {"No agents", "Engagements</h2>"},
		"/console/calls":              {"No calls yet", "No call fits"},
		"/console/calls?tool=getTrip": {`<a href="/console/calls">clear it</a>`, "No calls yet"},
		"/console/tools?q=qqqzzz":     {"No tool fits", "best first"},
		"/console/tools?q=trip":       {"best first", "No tool fits"},
	} {
		page := s.View("ada", path).Body
		if !strings.Contains(page, c.has) || strings.Contains(page, c.hasNot) || strings.Count(page, `class="empty"`) > 1 {
			t.Errorf("%s: want %q and not %q: %s", path, c.has, c.hasNot, page)
		}
	}
}
