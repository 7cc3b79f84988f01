package console_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"golang.org/x/net/html"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// consoleSite runs a site with the console, whose users are those that X-Test-User names.
func consoleSite(t *testing.T, options, rest string) *sitetest.Site {
	t.Helper()
	return sitetest.Run(t, "agents {\n\tstore bolt DIR/store.db\n}", "route {\ntest_user\nagents_console {\n"+options+"\n}\n"+rest+"\n}")
}

// localConsole runs a site that listens on a loopback address, with the console for this machine.
func localConsole(t *testing.T, options, rest string) *sitetest.Site {
	t.Helper()
	return sitetest.Run(t, "agents {\n\tstore bolt DIR/store.db\n}", "bind 127.0.0.1\nagents_console "+options+"\n"+rest)
}

// form posts a form of the console.
func form(s *sitetest.Site, path, form string, header ...string) sitetest.Response {
	s.T.Helper()
	r, err := http.NewRequest("POST", s.URL+path, strings.NewReader(form))
	if err != nil {
		s.T.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return s.Do(r)
}

// consolePaths are the views of the console.
var consolePaths = []string{
	"/console", "/console/", "/console/tools", "/console/tools/mcp/getTrip", "/console/api/endpoints", "/console/api/tools", "/console/api/tools/mcp/getTrip",
	"/console/calls", "/console/agents", "/console/reviews", "/console/connect", "/console/api/calls", "/console/api/agents", "/console/api/reviews", "/console/api/connect",
}

// TestConsole_refuses_requests_without_a_user checks that a stranger gets 401 for every path, and no names.
func TestConsole_refuses_requests_without_a_user(t *testing.T) {
	s := consoleSite(t, "", "mcp TRIPS\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
	for _, path := range append([]string{"/console/nothing", "/console/assets/console.js", "/console/assets/htmx.min.js", "/console/assets/none.css", "/console/api/assets/console.css", "/console/api/nothing"}, consolePaths...) {
		for _, method := range []string{"GET", "POST"} {
			a := s.Request(method, path, "")
			if a.Status != http.StatusUnauthorized {
				t.Errorf("%s %s: status %d, want 401", method, path, a.Status)
			}
			for _, name := range []string{"getTrip", "Trips", "/mcp", "trips"} {
				if strings.Contains(a.Body, name) {
					t.Errorf("%s %s: the response names %q", method, path, name)
				}
			}
		}
	}
	s.Logged("authenticates", "console", "401")
}

// TestConsole_serves_this_machine checks who is local: not clients that a proxy forwards, and no page of
// another host whose name leads to this machine.
func TestConsole_serves_this_machine(t *testing.T) {
	s := sitetest.Run(t, "agents {\n\tstore bolt DIR/store.db\n}\ndefault_bind 127.0.0.1", "agents_console\nmcp TRIPS\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
	for rule, c := range map[string]struct {
		header, value string
		want          int
	}{
		"local":                {"X-Nothing", "1", http.StatusOK},
		"forwarded":            {"X-Forwarded-For", "203.0.113.7", http.StatusUnauthorized},
		"forwarded, RFC 7239":  {"Forwarded", "for=203.0.113.7", http.StatusUnauthorized},
		"via a proxy":          {"Via", "1.1 proxy", http.StatusUnauthorized},
		"forwarded by a proxy": {"X-Real-Ip", "203.0.113.7", http.StatusUnauthorized},
		"scheme of a proxy":    {"X-Forwarded-Proto", "https", http.StatusUnauthorized},
		"tunnel":               {"Cf-Connecting-Ip", "203.0.113.7", http.StatusUnauthorized},
		"client of a tunnel":   {"True-Client-Ip", "203.0.113.7", http.StatusUnauthorized},
	} {
		if a := s.Request("GET", "/console", "", c.header, c.value); a.Status != c.want {
			t.Errorf("%s: status %d, want %d", rule, a.Status, c.want)
		}
	}
	for version, want := range map[string]string{"1.1": "200", "1.0": "401"} { // nginx forwards with 1.0 and without headers
		if status := rawStatus(t, s, "GET /console HTTP/"+version+"\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"); status != want {
			t.Errorf("HTTP/%s: status %s, want %s", version, status, want)
		}
	}
	if s.HasLogged("authenticates", "console", "401") {
		t.Error("there is a warning, although the site listens on a loopback address only")
	}
	wild := sitetest.Run(t, "agents {\n\tstore bolt DIR/store2.db\n}", "agents_console\nmcp TRIPS\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
	if a := wild.Get("/console"); a.Status != http.StatusUnauthorized {
		t.Errorf("a server that listens on all addresses: status %d, want 401", a.Status)
	}
}

// rawStatus sends the bytes of a request and returns the status of the response.
func rawStatus(t *testing.T, s *sitetest.Site, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	response, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	_, status, _ := strings.Cut(string(response), " ")
	status, _, _ = strings.Cut(status, " ")
	return status
}

// TestConsole_rejects_rebound_names requests the console under the name of another host.
func TestConsole_rejects_rebound_names(t *testing.T) {
	s := sitetest.NewSite(t)
	config := bytes.ReplaceAll(s.Config("agents {\n\tstore bolt DIR/store.db\n}\ndefault_bind 127.0.0.1", "agents_console\nmcp TRIPS\nrespond ok"),
		[]byte(`"host":["127.0.0.1"]`), []byte(`"path":["/*"]`))
	if err := caddy.Load(config, true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = caddy.Stop() })
	for host, want := range map[string]int{
		"localhost": 200, "127.0.0.1:1234": 200, "[::1]:80": 200, "a.localhost": 200,
		"attacker.example": 401, "localhost.attacker.example": 401, "127.0.0.1.attacker.example": 401, "10.0.0.1": 401,
	} {
		r, err := http.NewRequest("GET", s.URL+"/console", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		if a := s.Do(r); a.Status != want {
			t.Errorf("host %s: status %d, want %d", host, a.Status, want)
		}
	}
}

// TestConsole_headers checks the headers against scripts of others, frames, and caches, on every page.
func TestConsole_headers(t *testing.T) {
	s := consoleSite(t, "", "mcp TRIPS\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
	for _, path := range append([]string{"/console/nothing"}, consolePaths...) {
		a := s.Request("GET", path, "", "X-Test-User", "ada")
		policy := a.Header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: the policy %q lacks %s", path, policy, part)
			}
		}
		if strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy %q has unsafe parts", path, policy)
		}
		got := [...]string{a.Header.Get("X-Frame-Options"), a.Header.Get("Cache-Control"), a.Header.Get("X-Content-Type-Options")}
		if want := [...]string{"DENY", "no-store", "nosniff"}; got != want {
			t.Errorf("%s: got the headers %q, want %q", path, got, want)
		}
	}
}

// TestConsole_rejects_requests_of_other_sites sends forms as a browser sends those of another site's page.
func TestConsole_rejects_requests_of_other_sites(t *testing.T) {
	called := 0
	s := consoleSite(t, "", "mcp TRIPS\nreverse_proxy "+sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		called++
		sitetest.Echo(w, r)
	}))
	const path = "/console/tools/mcp/getTrip"
	for rule, c := range map[string]struct {
		header []string
		want   int
	}{
		"cross-site":       {[]string{"Sec-Fetch-Site", "cross-site"}, 403},
		"same-site":        {[]string{"Sec-Fetch-Site", "same-site"}, 403},
		"other origin":     {[]string{"Origin", "https://attacker.example"}, 403},
		"opaque origin":    {[]string{"Origin", "null"}, 403},
		"plain text":       {[]string{"Content-Type", "text/plain"}, 415},
		"multipart":        {[]string{"Content-Type", "multipart/form-data; boundary=x"}, 415},
		"JSON to the page": {[]string{"Content-Type", "application/json"}, 415},
	} {
		if a := form(s, path, "arg.id=7&do=send", append(c.header, "X-Test-User", "ada")...); a.Status != c.want {
			t.Errorf("%s: status %d, want %d", rule, a.Status, c.want)
		}
	}
	if a := form(s, "/console/api/tools/mcp/getTrip", "arguments={}", "X-Test-User", "ada"); a.Status != 415 {
		t.Errorf("a form to the API: status %d, want 415", a.Status)
	}
	if called != 0 {
		t.Errorf("the API was called %d times", called)
	}
	if a := form(s, path, "arg.id=7&do=send", "X-Test-User", "ada", "Sec-Fetch-Site", "same-origin"); a.Status != 200 || called != 1 {
		t.Errorf("the console's own form: status %d, %d calls", a.Status, called)
	}
}

// TestConsole_redirects_nowhere_else requests paths that look like other hosts.
func TestConsole_redirects_nowhere_else(t *testing.T) {
	s := consoleSite(t, "", "mcp TRIPS\nrespond 404")
	for _, path := range []string{"//attacker.example", "/console//attacker.example", "/console/%2F%2Fattacker.example/", "/console/\\attacker.example", "/console/tools?endpoint=//attacker.example"} {
		if a := s.Request("GET", path, "", "X-Test-User", "ada"); a.Header.Get("Location") != "" {
			t.Errorf("%s: redirected to %s", path, a.Header.Get("Location"))
		}
	}
}

// hostile is a document whose texts are HTML and script, and whose names try to leave what they are in.
const hostile = `{"openapi":"3.1.0","info":{"title":"<script>alert(1)</script>","version":"\"><img src=x onerror=alert(2)>","description":"</main><script>alert(3)</script>"},
"tags":[{"name":"<b>"}],
"paths":{"/a/{x}":{"get":{"operationId":"evil_<script>alert(4)</script>","summary":"<img src=x onerror=alert(5)>","description":"</p></pre></textarea><script>alert(6)</script> {{.}} ${7} javascript:alert(8)","tags":["<svg onload=alert(9)>"],
"parameters":[{"name":"x","in":"path","required":true,"description":"\"><script>alert(10)</script>","schema":{"type":"string","examples":["\" autofocus onfocus=alert(11) x=\""]}},
{"name":"\"><script>alert(12)</script>","in":"query","schema":{"type":"string","enum":["</select><script>alert(13)</script>","\" onmouseover=alert(14)"]}},
{"name":"hx","in":"query","description":"<div hx-get=/ hx-trigger=load>","schema":{"type":"string","default":"<script>alert(15)</script>"}}],
"responses":{"200":{"description":"<script>alert(16)</script>"}}}},
"/<script>alert(17)</script>":{"get":{"operationId":"two","responses":{"200":{"description":"ok"}}}}}}`

// ownElements are the scripts and styles that a page of the console may have, and checkHTML accepts no
// others, no handlers of events, and no styles in attributes.
func checkHTML(t *testing.T, where, body string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		attributes := make(map[string]string)
		for _, a := range n.Attr {
			attributes[a.Key] = a.Val
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || strings.Contains(strings.ToLower(a.Val), "javascript:") && a.Key != "content" && a.Key != "value" {
				t.Errorf("%s: <%s %s=%q>", where, n.Data, a.Key, a.Val)
			}
			if strings.HasPrefix(a.Key, "hx-") && (n.Data == "div" && attributes["id"] == "") {
				t.Errorf("%s: <%s %s=%q>", where, n.Data, a.Key, a.Val)
			}
		}
		switch n.Data {
		case "script":
			if !strings.HasPrefix(attributes["src"], "/console/assets/") || n.FirstChild != nil {
				t.Errorf("%s: a script that is not of the console: %v", where, attributes)
			}
		case "img":
			if !strings.HasPrefix(attributes["src"], "/console/assets/") {
				t.Errorf("%s: an image that is not of the console: %v", where, attributes)
			}
		case "svg":
			if class := attributes["class"]; class != "lane" && class != "axis" && class != "spark" || attributes["aria-hidden"] != "true" {
				t.Errorf("%s: an svg that is not of the console: %v", where, attributes)
			}
		case "style", "iframe", "object", "embed", "base":
			t.Errorf("%s: <%s>", where, n.Data)
		}
	}
}

// TestConsole_escapes_hostile_documents checks every page about a hostile document, and the answers of a
// hostile API.
func TestConsole_escapes_hostile_documents(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("hostile.json", hostile)
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", "route {\ntest_user\nagents_console {\nauditors ada\n}\nmcp DIR/hostile.json\nreverse_proxy "+
		sitetest.Upstream(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"a":"</pre><script>alert(1)</script>"}`))
		})+"\n}")
	list := sitetest.ConsoleJSON[struct {
		Tools []struct{ Name, Title string }
	}](s, "ada", "/console/api/tools")
	if len(list.Tools) != 2 || !strings.Contains(list.Tools[0].Title, "<img") {
		t.Fatalf("got %+v", list)
	}
	paths := []string{
		"/console", "/console/tools", "/console/tools?q=%3Cscript%3Ealert(1)%3C/script%3E", "/console/connect", "/console/calls", "/console/agents", "/console/reviews",
		"/console/calls?tool=%22%3E%3Cscript%3Ealert(1)%3C/script%3E", "/console/reviews?decided=%3Cscript%3E",
	}
	for _, tool := range list.Tools {
		paths = append(paths, "/console/tools/mcp/"+tool.Name)
	}
	for _, path := range paths {
		checkHTML(t, path, s.View("ada", path).Body)
	}
	answered := form(s, "/console/tools/mcp/"+list.Tools[0].Name, "arg.x=%3Cscript%3E&do=send&json=", "X-Test-User", "ada")
	if checkHTML(t, "answer", answered.Body); answered.Status != 200 || !strings.Contains(answered.Body, "&lt;script&gt;alert(1)") {
		t.Errorf("answer: status %d: %s", answered.Status, answered.Body)
	}
	wrong := form(s, "/console/tools/mcp/"+list.Tools[0].Name, "json=%7B%22%3Cscript%3Ealert(1)%3C/script%3E%22:1%7D&do=send", "X-Test-User", "<script>")
	checkHTML(t, "invalid arguments, and a hostile user", wrong.Body)
}

// TestConsole_tries_tools checks the request that is shown, the answer, and that the guards of the site
// apply.
func TestConsole_tries_tools(t *testing.T) {
	for _, protocol := range []string{"mcp", "otc"} {
		t.Run(protocol, func(t *testing.T) {
			var got *http.Request
			s := consoleSite(t, "", protocol+" TRIPS {\n\tcredential header X-Api-Key hunter22\n}\nreverse_proxy "+sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
				got = r
				sitetest.Echo(w, r)
			}))
			type tried struct {
				Problem string
				Request *struct {
					Method, Target string
					Headers        http.Header
				}
				Answer *struct {
					Outcome, Text string
					Status        int
					Tokens        int
					Shaped        struct {
						Text   string
						Tokens int
					}
				}
				Copies []struct{ Text string }
			}
			try := func(tool, body string) (out tried) {
				t.Helper()
				a := s.Request("POST", "/console/api/tools/"+protocol+"/"+tool, body, "X-Test-User", "ada", "Cookie", "session=1")
				if err := json.Unmarshal([]byte(a.Body), &out); err != nil || a.Status != 200 {
					t.Fatal(a.Status, err, a.Body)
				}
				if strings.Contains(a.Body, "hunter22") && (out.Answer == nil || !strings.Contains(out.Answer.Text, "hunter22")) {
					t.Errorf("the response has the credential: %s", a.Body)
				}
				return out
			}
			out := try("getTrip", `{"arguments":{"id":"a b"},"dry_run":true}`)
			if out.Request == nil || out.Answer != nil || got != nil {
				t.Fatalf("dry run: got %+v and the request %v to the API, want only the request of the dry run", out, got)
			}
			if target, key := out.Request.Target, out.Request.Headers.Get("X-Api-Key"); target != "/trips/a%20b" || key != "***" {
				t.Errorf("dry run: got %s with the key %q, want /trips/a%%20b with ***", target, key)
			}
			out = try("getTrip", `{"arguments":{"id":"7"}}`)
			if out.Answer == nil || got == nil {
				t.Fatalf("send: got %+v and the request %v to the API, want both", out, got)
			}
			if a := out.Answer; a.Outcome != "ok" || a.Status != 200 || a.Tokens == 0 {
				t.Errorf("send: got %s with status %d and %d tokens, want ok with 200 and some", a.Outcome, a.Status, a.Tokens)
			}
			// Neither the user nor the cookie is beside the credential of the gateway.
			sent := [...]string{got.URL.Path, got.Header.Get("X-Api-Key"), got.Header.Get("X-Test-User"), got.Header.Get("Cookie")}
			if want := [...]string{"/trips/7", "hunter22", "", ""}; sent != want {
				t.Errorf("send: got the request %q, want %q", sent, want)
			}
			out = try("getTrip", `{"arguments":{"id":"7"},"shape":{"select":".uri","max_tokens":500}}`)
			if a := out.Answer; a == nil || a.Shaped.Text != `"/trips/7"` || a.Shaped.Tokens >= a.Tokens {
				t.Fatalf(`shape: got %+v, want "/trips/7" with fewer tokens`, a)
			}
			if last := out.Copies[len(out.Copies)-1].Text; !strings.Contains(last, "max_tokens 500") {
				t.Errorf("shape: got the directive %s, want one with max_tokens 500", last)
			}
			for body, want := range map[string]string{`{"shape":{"select":".["}}`: "select: jq", `{"shape":{"max_tokens":1}}`: "max_tokens 1 is out of range"} {
				if out := try("getTrip", body); out.Answer != nil || !strings.Contains(out.Problem, want) {
					t.Errorf("%s: %+v", body, out)
				}
			}
			out = try("getTrip", `{"arguments":{}}`)
			if out.Answer == nil || out.Answer.Outcome != "invalid" || !strings.Contains(out.Answer.Text, "/id") {
				t.Errorf("invalid arguments: %+v", out)
			}
			page := form(s, "/console/tools/"+protocol+"/createTrip", "arg.to=Bern+%22x%22&do=send", "X-Test-User", "ada")
			if page.Status != 200 || !strings.Contains(page.Body, "POST /trips") || strings.Contains(page.Body, "hunter22") && !strings.Contains(page.Body, "X-Api-Key") {
				t.Errorf("form: %d %s", page.Status, page.Body)
			}
		})
	}
}

// TestConsole_tries_tools_only checks that no URL, path or method of a client's choice is requested (SSRF).
func TestConsole_tries_tools_only(t *testing.T) {
	reached := 0
	s := consoleSite(t, "", "mcp TRIPS\nreverse_proxy "+sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		reached++
		sitetest.Echo(w, r)
	}))
	for _, path := range []string{
		"/console/api/tools/mcp/http:%2F%2F169.254.169.254", "/console/api/tools/http:%2F%2F169.254.169.254/getTrip", "/console/api/tools/mcp/..%2Fadmin",
		"/console/api/tools/mcp/next_page", "/console/api/tools/mcp/search_tools", "/console/api/tools/%2Fmcp/getTrip",
	} {
		if a := s.Request("POST", path, `{"arguments":{"id":"1"}}`, "X-Test-User", "ada"); a.Status != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", path, a.Status)
		}
	}
	for _, body := range []string{`{"url":"http://169.254.169.254"}`, `{"arguments":[]}`, `{"arguments":{},"method":"DELETE"}`, `[]`, ``, `{"arguments":{}} x`} {
		a := s.Request("POST", "/console/api/tools/mcp/getTrip", body, "X-Test-User", "ada")
		if strings.Contains(a.Body, `"answer"`) {
			t.Errorf("%s: sent: %s", body, a.Body)
		}
	}
	a := s.Request("POST", "/console/api/tools/mcp/getTrip", `{"arguments":{"id":"../../admin"}}`, "X-Test-User", "ada")
	if strings.Contains(a.Body, `"target":"/admin"`) || reached > 1 {
		t.Errorf("left the path: %s", a.Body)
	}
}

// TestConsole_sends_as_the_viewer checks that a tool endpoint with a login of its own does not trust the
// login to the console.
func TestConsole_sends_as_the_viewer(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", "route {\nroute /console* {\ntest_user\n}\nagent_auth /mcp* {\napi_key {\nkey bob bobs-secret-key\n}\n}\nagents_console\nmcp TRIPS\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo)+"\n}")
	a := s.Request("POST", "/console/api/tools/mcp/getTrip", `{"arguments":{"id":"7"}}`, "X-Test-User", "ada")
	if a.Status != 200 || strings.Contains(a.Body, `"outcome":"ok"`) {
		t.Errorf("without the key of the endpoint: got %d %s, want 200 and another outcome than ok", a.Status, a.Body)
	}
	for _, want := range []string{`"http_status":401`, "pass_through"} {
		if !strings.Contains(a.Body, want) {
			t.Errorf("without the key of the endpoint: got %s, want %s", a.Body, want)
		}
	}
	a = s.Request("POST", "/console/api/tools/mcp/getTrip", `{"arguments":{"id":"7"}}`, "X-Test-User", "ada", "X-Api-Key", "bobs-secret-key")
	if !strings.Contains(a.Body, `"outcome":"ok"`) || strings.Contains(a.Body, "pass_through") {
		t.Errorf("with the key of the endpoint: %s", a.Body)
	}
}

// TestConsole_shows_deeply_nested_answers tries a tool whose response would have gigabytes if it were
// indented.
func TestConsole_shows_deeply_nested_answers(t *testing.T) {
	nested := strings.Repeat("[", 900) + strings.Repeat("1,", 20_000) + "1" + strings.Repeat("]", 900)
	s := localConsole(t, "", "mcp TRIPS\nreverse_proxy "+sitetest.Upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, nested)
	}))
	a := form(s, "/console/tools/mcp/getTrip", "do=send&arg.id=7")
	if a.Status != http.StatusOK || !strings.Contains(a.Body, "[[[[") || len(a.Body) > 10*len(nested) {
		t.Errorf("status %d, a page of %d bytes for a response of %d", a.Status, len(a.Body), len(nested))
	}
}

// TestConsole_at_the_root checks that a console at / hides nothing of the API but its page for browsers.
func TestConsole_at_the_root(t *testing.T) {
	s := localConsole(t, "/", "mcp TRIPS\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
	if a := s.Request("GET", "/", "", "Accept", "text/html,*/*"); a.Status != 200 || !strings.Contains(a.Body, "Overview") {
		t.Errorf("/ in a browser: %d %.300s", a.Status, a.Body)
	}
	for _, path := range []string{"/", "/tools", "/calls", "/agents", "/reviews", "/api", "/trips/7", "/assets/console.css"} {
		if a := s.Get(path); !strings.Contains(a.Body, `"path"`) && !strings.Contains(a.Body, path) {
			t.Errorf("%s does not reach the API: %d %.200s", path, a.Status, a.Body)
		}
	}
	if a := s.Request("POST", "/", "x", "Accept", "text/html"); a.Header.Get("X-Frame-Options") != "" {
		t.Error("POST / does not reach the API")
	}
}

// TestConsole_shows_what_is_no_tool checks what auditors see of a document that others do not.
func TestConsole_shows_what_is_no_tool(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("odd.yaml", "openapi: 3.1.0\ninfo: {title: Odd, version: 1.0.0}\npaths:\n  /a:\n    get: {operationId: fine, responses: {'200': {description: ok}}}\n    post:\n      operationId: lost\n      parameters: [{name: x, in: nowhere, required: true, schema: {type: string}}]\n      responses: {'200': {description: ok}}\n")
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", "route {\ntest_user\nagents_console {\nauditors eve\n}\nmcp DIR/odd.yaml\nrespond ok\n}")
	if a := s.View("eve", "/console/tools"); !strings.Contains(a.Body, "POST /a") {
		t.Errorf("an auditor does not see the lost operation: %s", a.Body)
	}
	if a := s.View("ada", "/console/tools"); strings.Contains(a.Body, "POST /a") || strings.Contains(a.Body, s.Dir) {
		t.Errorf("a user sees what is for auditors: %s", a.Body)
	}
}

// TestConsole_shows_an_endpoint_of_several_toolsets_once checks that such an endpoint is not listed for each of its toolsets.
func TestConsole_shows_an_endpoint_of_several_toolsets_once(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("trains.yaml", sitetest.Timetable("Trains", "list"))
	s.Write("buses.yaml", sitetest.Timetable("Buses", "ride"))
	s.Start("agents {\n\tstore bolt DIR/store.db\n\ttoolset trains DIR/trains.yaml\n\ttoolset buses DIR/buses.yaml\n}",
		"route {\ntest_user\nagents_console\nmcp /mcp trains buses\nrespond ok\n}")
	list := sitetest.ConsoleJSON[struct {
		Endpoints []struct{ Toolsets []struct{ Name string } }
	}](s, "ada", "/console/api/tools")
	if len(list.Endpoints) != 1 || len(list.Endpoints[0].Toolsets) != 2 {
		t.Errorf("got endpoints %+v, want one with two toolsets", list.Endpoints)
	}
}

// TestConsole_is_responsive_with_large_documents shows and searches the tools of a large document.
func TestConsole_is_responsive_with_large_documents(t *testing.T) {
	s := sitetest.NewSite(t)
	if err := os.WriteFile(filepath.Join(s.Dir, "github.json"), testkit.ReadDocument(t, "openapi/github-api.github.com.json.gz"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", "route {\ntest_user\nagents_console\nmcp DIR/github.json\nrespond ok\n}")
	list := sitetest.ConsoleJSON[struct {
		Pages     int
		Endpoints []struct{ Tools int }
		Tools     []struct{ Name string }
	}](s, "ada", "/console/api/tools")
	if len(list.Endpoints) != 1 || list.Endpoints[0].Tools < 1000 {
		t.Fatalf("got the endpoints %+v, want one with 1000 tools or more", list.Endpoints)
	}
	if list.Pages < 10 || len(list.Tools) != 100 {
		t.Fatalf("got %d pages and %d tools on the first, want 10 or more and 100", list.Pages, len(list.Tools))
	}
	s.View("ada", "/console/tools?q=warm")
	for _, path := range []string{"/console", "/console?page=5", "/console?q=close+the+ticket", "/console/tools/mcp/" + list.Tools[0].Name} {
		began := time.Now()
		if a := s.View("ada", path); len(a.Body) > 512<<10 {
			t.Errorf("%s has %d bytes", path, len(a.Body))
		}
		if took := time.Since(began); took > 20*time.Second { // it takes milliseconds; a loaded machine may pause the test
			t.Errorf("%s took %s", path, took)
		}
	}
	found := sitetest.ConsoleJSON[struct {
		Tools []struct{ Name string }
	}](s, "ada", "/console/api/tools?q=create+an+issue")
	if len(found.Tools) == 0 || !strings.Contains(found.Tools[0].Name, "issue") {
		t.Errorf("search found %+v", found.Tools)
	}
	for _, page := range []string{"0", "-1", "99", "x"} {
		if a := s.Request("GET", "/console/tools?page="+page, "", "X-Test-User", "ada"); a.Status != http.StatusNotFound {
			t.Errorf("page %s: status %d, want 404", page, a.Status)
		}
	}
}

// secured has a tool that is for callers with credentials.
const secured = `{"openapi":"3.1.0","info":{"title":"Secured","version":"1.0.0"},"components":{"securitySchemes":{"key":{"type":"apiKey","in":"header","name":"X-Own-Key"}}},
"paths":{"/a":{"get":{"operationId":"secured","security":[{"key":[]}],"responses":{"200":{"description":"ok"}}}},"/b":{"get":{"operationId":"secret","responses":{"200":{"description":"ok"}}}}}}`

// TestConsole_calls_under_the_rules_of_the_endpoint tries tools that a client of the endpoint could not call: by the rules of the endpoint itself, and by
// those of handlers before and after it.
func TestConsole_calls_under_the_rules_of_the_endpoint(t *testing.T) {
	for name, c := range map[string]struct {
		rest, path, arguments string
		want                  []string
	}{
		"withheld tool":      {"mcp TRIPS {\nexclude operation getTrip\n}", "mcp/getTrip", `{"id":"7"}`, []string{`"status":404`}},
		"handler before":     {"route /mcp {\nerror 429\n}\nmcp TRIPS", "mcp/getTrip", `{"id":"7"}`, []string{`"http_status":429`, `"outcome":"rate_limited"`, `"is_error":true`}},
		"handler before otc": {"route /otc/call {\nerror 403\n}\notc TRIPS", "otc/getTrip", `{"id":"7"}`, []string{`"http_status":403`, `"outcome":"refused"`}},
		"handler after":      {"mcp TRIPS\nrespond /trips/7 blocked 403", "mcp/getTrip", `{"id":"7"}`, []string{`"http_status":200`, `"status":403`, `"outcome":"refused"`, "blocked"}},
		"invalid arguments":  {"mcp TRIPS", "mcp/getTrip", `{}`, []string{`"outcome":"invalid"`, "/id"}},
		"OTC requirement":    {"otc DIR/secured.json", "otc/secured", `{}`, []string{`"outcome":"unauthorized"`, "key"}},
		"the user's value":   {"mcp TRIPS {\nnon_inferrable id\n}", "mcp/getTrip", `{"id":"7"}`, []string{`"outcome":"invalid"`, "must not set id"}},
	} {
		t.Run(name, func(t *testing.T) {
			reached := 0
			s := sitetest.NewSite(t)
			s.Write("secured.json", secured)
			s.Start("agents {\n\tstore bolt DIR/store.db\n}", "route {\ntest_user\nagents_console\n"+c.rest+"\nreverse_proxy "+sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
				reached++
				sitetest.Echo(w, r)
			})+"\n}")
			a := s.Request("POST", "/console/api/tools/"+c.path, `{"arguments":`+c.arguments+`}`, "X-Test-User", "ada")
			if !sitetest.ContainsAll(a.Body, c.want) {
				t.Errorf("got %d %s, want %q", a.Status, a.Body, c.want)
			}
			if reached > 0 {
				t.Error("the call reached the API")
			}
		})
	}
}
