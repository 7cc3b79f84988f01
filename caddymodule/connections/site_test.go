package connections_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/connections"
	"github.com/fairwayhq/fairway/internal/audit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// call calls listTrips in 2025-06-18.
func call(s *sitetest.Site, user string) sitetest.Result {
	s.T.Helper()
	r := s.CallRequest("listTrips", "")
	r.Header.Set("X-Test-User", user)
	return s.Result(s.Do(r))
}

var findLink = regexp.MustCompile(`http://[^ "\\]+/connections/connect/[A-Za-z0-9_-]+`)

// linkOf returns the link in the failure of a call.
func linkOf(s *sitetest.Site, user string) string {
	s.T.Helper()
	result := call(s, user)
	link := findLink.FindString(result.Text())
	if !result.IsError || link == "" {
		s.T.Fatalf("no link: %+v", result)
	}
	return link
}

// succeed calls with a connection.
func succeed(s *sitetest.Site, user string) {
	s.T.Helper()
	if result := call(s, user); result.IsError || !strings.Contains(result.Text(), "token_length") {
		s.T.Fatalf("the call of %s failed: %+v", user, result)
	}
}

// noPlanted fails if a secret is in the logs, in the store or in another file of the site.
func noPlanted(t *testing.T, s *sitetest.Site) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(s.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		files++
		for line := range strings.Lines(string(content)) {
			// reverse_proxy logs the requests that it sends at level DEBUG.
			if strings.Contains(line, "planted") && !strings.Contains(line, `"http.handlers.reverse_proxy"`) {
				t.Errorf("%s has a secret: %.300s", filepath.Base(path), line)
			}
		}
		return err
	})
	if err != nil || files < 2 {
		t.Errorf("%d files, %v", files, err)
	}
}

func TestConnection_of_2025_06_18_begins_with_a_link_in_the_result(t *testing.T) {
	p := newThirdParty(t)
	s := start(t, p, options{})
	b := newBrowser(t, "ann")
	link := linkOf(s, "ann")
	if strings.Contains(link, "ann") {
		t.Errorf("the link has personal data: %s", link)
	}
	shown := b.get(link)
	for _, want := range []string{"acme", "orders.read", "orders.write", "Lists trips"} {
		if !strings.Contains(shown.body, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	if policy := shown.header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || shown.header.Get("Cache-Control") != "no-store" {
		t.Errorf("the headers of the page: %v", shown.header)
	}
	b.connect(s, link)
	succeed(s, "ann")
	if p.scopes != "orders.read orders.write" {
		t.Errorf("scopes %q", p.scopes)
	}
	linkOf(s, "bob") // the account is ann's
	noPlanted(t, s)
}

func TestConnection_of_a_caller_without_a_login_is_refused(t *testing.T) {
	s := start(t, newThirdParty(t), options{})
	if result := call(s, ""); !result.IsError || strings.Contains(result.Text(), "http") || !strings.Contains(result.Text(), "log in") {
		t.Errorf("got %+v", result)
	}
}

const canOpen = `{"elicitation":{"url":{}}}`

// requested returns the URL that an input_required result asks the user to open.
func requested(t *testing.T, body string) string {
	t.Helper()
	var got struct {
		Result struct {
			ResultType    string
			InputRequests map[string]struct {
				Method string
				Params struct{ Mode, URL, Message string }
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	asked := got.Result.InputRequests["fairway_connection"]
	about := [...]string{got.Result.ResultType, asked.Method, asked.Params.Mode}
	if want := [...]string{"input_required", "elicitation/create", "url"}; about != want || asked.Params.Message == "" {
		t.Fatalf("got %q, want %q with a message: %s", about, want, body)
	}
	return asked.Params.URL
}

// newest calls listTrips in 2026-07-28.
func newest(s *sitetest.Site, user, capabilities, more string) string {
	s.T.Helper()
	return s.Request(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"listTrips","arguments":{},`+more+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":`+capabilities+`}}}`,
		"Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "listTrips", "X-Test-User", user).Body
}

const accepted = `"inputResponses":{"fairway_connection":{"action":"accept"}},`

func TestConnection_of_2026_07_28_is_an_input_that_is_required(t *testing.T) {
	p := newThirdParty(t)
	s := start(t, p, options{})
	first := requested(t, newest(s, "ann", canOpen, ""))
	// That the client accepts means that the page was opened, and not that the account is connected.
	if again := requested(t, newest(s, "ann", canOpen, accepted)); again == first {
		t.Errorf("the link is the same: %s", again)
	}
	if got := newest(s, "ann", canOpen, strings.Replace(accepted, "accept", "decline", 1)); !strings.Contains(got, `"isError":true`) || strings.Contains(got, "inputRequests") {
		t.Errorf("after the user has declined: %s", got)
	}
	newBrowser(t, "ann").connect(s, first)
	if got := newest(s, "ann", canOpen, accepted); !strings.Contains(got, "token_length") {
		t.Errorf("got %s", got)
	}
	if got := newest(s, "bob", `{}`, ""); !strings.Contains(got, `"isError":true`) || findLink.FindString(got) == "" {
		t.Errorf("a client that cannot open URLs got %s", got)
	}
}

func TestConnection_of_2025_11_25_is_the_error_32042(t *testing.T) {
	p := newThirdParty(t)
	s := start(t, p, options{})
	body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + canOpen + `,"clientInfo":{"name":"test","version":"1"}}}`
	begun := s.Request(http.MethodPost, "/mcp", body, "Accept", "application/json, text/event-stream", "X-Test-User", "ann")
	session := []string{"Accept", "application/json, text/event-stream", "Mcp-Session-Id", begun.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25", "X-Test-User", "ann"}
	const message = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"listTrips","arguments":{}}}`
	answer := s.Request(http.MethodPost, "/mcp", message, session...).Body
	answer = answer[strings.Index(answer, "{"):]
	var got struct {
		Error struct {
			Code int
			Data struct {
				Elicitations []struct{ Mode, URL, ElicitationID, Message string }
			}
		}
	}
	if err := json.NewDecoder(strings.NewReader(answer)).Decode(&got); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	if got.Error.Code != -32042 || len(got.Error.Data.Elicitations) != 1 {
		t.Fatalf("got the code %d, want -32042 with one elicitation: %s", got.Error.Code, answer)
	}
	if e := got.Error.Data.Elicitations[0]; e.Mode != "url" || e.ElicitationID == "" {
		t.Fatalf("got the elicitation %+v, want one of the mode url with an id", e)
	}
	newBrowser(t, "ann").connect(s, got.Error.Data.Elicitations[0].URL)
	if answer := s.Request(http.MethodPost, "/mcp", message, session...).Body; !strings.Contains(answer, "token_length") {
		t.Errorf("got %s", answer)
	}
}

func TestConnection_of_OTC_is_a_missing_requirement(t *testing.T) {
	p := newThirdParty(t)
	s := start(t, p, options{})
	id := regexp.MustCompile(`"id":"([^"]*listTrips[^"]*)"`).FindStringSubmatch(strings.ReplaceAll(s.Get("/otc/tools").Body, `": "`, `":"`))
	if id == nil {
		t.Fatalf("no tool: %s", s.Get("/otc/tools").Body)
	}
	ask := func() sitetest.Response {
		return s.Request(http.MethodPost, "/otc/call", `{"tool_id":"`+id[1]+`","input":{}}`, "X-Test-User", "ann")
	}
	answer := ask()
	var got struct {
		Missing struct{ Authorization []struct{ ID, URL string } } `json:"missing_requirements"`
	}
	if err := json.Unmarshal([]byte(answer.Body), &got); err != nil || answer.Status != http.StatusBadRequest {
		t.Fatalf("got %d %s, want 400; error %v", answer.Status, answer.Body, err)
	}
	if m := got.Missing.Authorization; len(m) != 1 || m[0].ID != "acme" {
		t.Fatalf("got the missing authorizations %+v, want acme", m)
	}
	newBrowser(t, "ann").connect(s, got.Missing.Authorization[0].URL)
	if answer := ask(); answer.Status != http.StatusOK || !strings.Contains(answer.Body, "token_length") {
		t.Errorf("got %d %s", answer.Status, answer.Body)
	}
}

// MCP 2026-07-28, Elicitation, Phishing: an attacker sends the link of his own call to another user.
func TestLink_of_another_user_connects_nothing(t *testing.T) {
	p := newThirdParty(t)
	s := start(t, p, options{})
	mallory := linkOf(s, "mallory")
	alice := newBrowser(t, "alice")
	if got := alice.get(mallory); got.status != http.StatusForbidden || strings.Contains(got.body, "<form") {
		t.Errorf("the page: %d %s", got.status, got.body)
	}
	form := url.Values{"link": {mallory[strings.LastIndex(mallory, "/")+1:]}}
	if got := alice.do(http.MethodPost, s.URL+"/connections/connect", form); got.status != http.StatusForbidden {
		t.Errorf("the form: %d %s", got.status, got.body)
	}
	// Mallory begins himself, and lets Alice complete it: in her browser, and in a browser with his cookie.
	b := newBrowser(t, "mallory")
	callback := b.callback(s, mallory)
	if got := alice.get(callback); got.status != http.StatusBadRequest {
		t.Errorf("the callback in another browser: %d %s", got.status, got.body)
	}
	b.user = "alice"
	if got := b.get(callback); got.status != http.StatusForbidden {
		t.Errorf("the callback of another user: %d %s", got.status, got.body)
	}
	if p.count("authorization_code") != 0 {
		t.Error("a code was exchanged")
	}
	linkOf(s, "mallory")
	linkOf(s, "alice")
}

func TestLink_state_and_code_work_once(t *testing.T) {
	p := newThirdParty(t)
	s := start(t, p, options{})
	b, link := newBrowser(t, "ann"), linkOf(s, "ann")
	callback := b.callback(s, link)
	if got := b.begin(s, link); got.status != http.StatusBadRequest {
		t.Errorf("the link again: %d %s", got.status, got.body)
	}
	here, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	cookies := b.client.Jar.Cookies(here)
	if got := b.get(callback); got.status != http.StatusSeeOther {
		t.Fatalf("the callback: %d %s", got.status, got.body)
	}
	if got := b.get(callback); got.status != http.StatusBadRequest {
		t.Errorf("the callback again: %d %s", got.status, got.body)
	}
	b.client.Jar.SetCookies(here, cookies)
	if got := b.get(callback); got.status != http.StatusBadRequest {
		t.Errorf("the callback again, with its cookie: %d %s", got.status, got.body)
	}
	if n := p.count("authorization_code"); n != 1 {
		t.Errorf("%d exchanges of codes", n)
	}
}

func TestCallback_of_another_provider_or_with_a_changed_state_is_refused(t *testing.T) {
	p := newThirdParty(t)
	s := start(t, p, options{})
	b := newBrowser(t, "ann")
	callback := b.callback(s, linkOf(s, "ann"))
	for name, changed := range map[string]string{
		"state":    strings.Replace(callback, "state=", "state=A", 1),
		"no state": strings.Replace(callback, "state=", "stat=", 1),
	} {
		if got := b.get(changed); got.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	if got := b.get(strings.Replace(callback, "/callback/acme", "/callback/other", 1)); got.status != http.StatusBadRequest {
		t.Errorf("another provider: %d %s", got.status, got.body)
	}
	if p.count("authorization_code") != 0 {
		t.Error("a code was exchanged")
	}
}

func TestPages_refuse_forms_of_other_sites_and_unknown_users(t *testing.T) {
	s := start(t, newThirdParty(t), options{})
	b := newBrowser(t, "ann")
	form := url.Values{"provider": {"acme"}}
	for _, path := range []string{"connect", "select", "disconnect"} {
		if got := b.do(http.MethodPost, s.URL+"/connections/"+path, form, "Sec-Fetch-Site", "cross-site"); got.status != http.StatusForbidden {
			t.Errorf("%s of another site: %d", path, got.status)
		}
		if got := b.do(http.MethodPost, s.URL+"/connections/"+path, form, "Sec-Fetch-Site", ""); got.status != http.StatusForbidden {
			t.Errorf("%s of no browser: %d", path, got.status)
		}
		if got := b.get(s.URL + "/connections/" + path); got.status != http.StatusNotFound {
			t.Errorf("GET %s: %d", path, got.status)
		}
	}
	if got := newBrowser(t, "").get(s.URL + "/connections"); got.status != http.StatusUnauthorized {
		t.Errorf("without a login: %d", got.status)
	}
	if got := b.do(http.MethodPost, s.URL+"/connections/connect", url.Values{"provider": {strings.Repeat("a", 64<<10)}}); got.status != http.StatusBadRequest {
		t.Errorf("a large form: %d", got.status)
	}
}

func TestToken_is_renewed_a_minute_before_its_end_once_for_all_calls(t *testing.T) {
	p := newThirdParty(t)
	s := start(t, p, options{})
	p.expiresIn = 59
	newBrowser(t, "ann").connect(s, linkOf(s, "ann"))
	p.set(func() { p.expiresIn = 3600 })
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			if result := call(s, "ann"); result.IsError {
				t.Errorf("got %s", result.Text())
			}
		})
	}
	calls.Wait()
	if n := p.count("refresh_token"); n != 1 {
		t.Errorf("%d refreshes", n)
	}
}

func TestToken_that_the_provider_cannot_renew_is_kept(t *testing.T) {
	p := newThirdParty(t)
	s := start(t, p, options{})
	p.expiresIn = 1
	newBrowser(t, "ann").connect(s, linkOf(s, "ann"))
	for _, change := range []func(){func() { p.isDown = true }, func() { p.isDown, p.refuses = false, "invalid_client" }} {
		p.set(change)
		sitetest.Eventually(t, "the token to expire", func() bool {
			result := call(s, "ann")
			return result.IsError && findLink.FindString(result.Text()) == ""
		})
	}
	p.set(func() { p.refuses, p.expiresIn = "", 3600 })
	sitetest.Eventually(t, "the provider to renew the token", func() bool { return !call(s, "ann").IsError })
	s.Logged("renewing", "connection", "acme")
	noPlanted(t, s)
}

func TestToken_that_is_no_longer_valid_at_the_provider_ends_the_connection(t *testing.T) {
	p := newThirdParty(t)
	s := start(t, p, options{})
	p.expiresIn = 30
	b := newBrowser(t, "ann")
	b.connect(s, linkOf(s, "ann"))
	p.set(func() { p.refuses = "invalid_grant" })
	linkOf(s, "ann")
	if page := b.get(s.URL + "/connections"); !strings.Contains(page.body, "Not connected") {
		t.Errorf("got %s", page.body)
	}
}

func TestToken_that_the_API_refuses_is_renewed_once(t *testing.T) {
	p := newThirdParty(t)
	s := start(t, p, options{})
	b := newBrowser(t, "ann")
	b.connect(s, linkOf(s, "ann"))
	// A token that was issued a moment ago is not renewed: the user has to connect the account again.
	p.set(func() { p.tokens = map[string]bool{} })
	linkOf(s, "ann")
	if n := p.count("refresh_token"); n != 0 {
		t.Errorf("%d refreshes", n)
	}
	b.connect(s, linkOf(s, "ann"))
	succeed(s, "ann")
}

func TestToken_that_the_API_refuses_is_renewed_for_the_same_call(t *testing.T) {
	p := newThirdParty(t)
	s := start(t, p, options{more: "test_renew_at_once"})
	newBrowser(t, "ann").connect(s, linkOf(s, "ann"))
	p.set(func() { p.tokens = map[string]bool{} })
	succeed(s, "ann")
	p.set(func() { p.tokens = map[string]bool{} })
	r := s.CallRequest("createTrip", `{"to":"Rome"}`)
	r.Header.Set("X-Test-User", "ann")
	if result := s.Result(s.Do(r)); !result.IsError || !strings.Contains(result.Text(), "call again") {
		t.Errorf("a call that is not idempotent: %s", result.Text())
	}
	succeed(s, "ann")
	if n := p.count("refresh_token"); n != 2 {
		t.Errorf("%d refreshes", n)
	}
}

func TestAPIKey_is_pasted(t *testing.T) {
	p := newThirdParty(t)
	p.tokens["planted-key"] = true
	s := start(t, p, options{provider: "provider acme {\napi_key\nheader X-Their-Key\n}"})
	b, link := newBrowser(t, "ann"), linkOf(s, "ann")
	for _, key := range []string{"", "two\nlines", strings.Repeat("k", 17<<10)} {
		if got := b.begin(s, link, "key", key); got.status != http.StatusBadRequest {
			t.Errorf("%.10q: %d", key, got.status)
		}
	}
	if got := b.begin(s, link, "key", " planted-key "); got.status != http.StatusSeeOther || !strings.Contains(got.location, "connected=acme") {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	succeed(s, "ann")
	noPlanted(t, s)
	p.set(func() { p.tokens = map[string]bool{} })
	linkOf(s, "ann")
}

func TestAccounts_of_a_user_can_be_several(t *testing.T) {
	p := newThirdParty(t)
	s := start(t, p, options{})
	b := newBrowser(t, "ann")
	b.connect(s, linkOf(s, "ann"), "label", "work")
	add := func(label string) visit {
		begun := b.do(http.MethodPost, s.URL+"/connections/connect", url.Values{"provider": {"acme"}, "label": {label}})
		return b.get(b.get(begun.location).location)
	}
	add("private")
	if page := b.get(s.URL + "/connections").body; !strings.Contains(page, "<strong>private</strong>, in use") || !strings.Contains(page, "<strong>work</strong> ") {
		t.Errorf("got %s", page)
	}
	b.do(http.MethodPost, s.URL+"/connections/select", url.Values{"provider": {"acme"}, "label": {"work"}})
	if page := b.get(s.URL + "/connections").body; !strings.Contains(page, "<strong>work</strong>, in use") {
		t.Errorf("got %s", page)
	}
	for i := range 6 {
		add(fmt.Sprint("more-", i))
	}
	if got := add("one too many"); got.status != http.StatusBadRequest {
		t.Errorf("got %d %s", got.status, got.location)
	}
	// Calls use no other account than the selected one.
	b.do(http.MethodPost, s.URL+"/connections/disconnect", url.Values{"provider": {"acme"}, "label": {"more-5"}})
	linkOf(s, "ann")
}

func TestDisconnect_revokes_the_token_and_forgets_it(t *testing.T) {
	p := newThirdParty(t)
	s := start(t, p, options{})
	b := newBrowser(t, "ann")
	b.connect(s, linkOf(s, "ann"))
	form := url.Values{"provider": {"acme"}, "label": {"main"}}
	if got := newBrowser(t, "bob").do(http.MethodPost, s.URL+"/connections/disconnect", form); got.status != http.StatusSeeOther {
		t.Errorf("bob: %d", got.status)
	}
	succeed(s, "ann") // bob has ended nothing
	if got := b.do(http.MethodPost, s.URL+"/connections/disconnect", form); !strings.Contains(got.location, "disconnected=acme") {
		t.Errorf("got %d %s", got.status, got.location)
	}
	if len(p.revoked) != 1 || !strings.HasPrefix(p.revoked[0], "planted-refresh") {
		t.Errorf("revoked %q", p.revoked)
	}
	sitetest.Eventually(t, "both changes in the audit archive", func() bool {
		var changes []string
		for _, e := range sitetest.Archived(s) {
			if e.Type == audit.TypeConnection {
				changes = append(changes, e.Event+" "+e.User+" "+e.Provider)
			}
		}
		return slices.Equal(changes, []string{"made ann acme", "revoked ann acme"})
	})
	linkOf(s, "ann")
	b.connect(s, linkOf(s, "ann"))
	p.Close()
	if got := b.do(http.MethodPost, s.URL+"/connections/disconnect", form); !strings.Contains(got.location, "unrevoked=acme") {
		t.Errorf("got %d %s", got.status, got.location)
	}
	linkOf(s, "ann")
}

func TestConnection_survives_a_restart_and_a_new_secret(t *testing.T) {
	p := newThirdParty(t)
	s := start(t, p, options{})
	b, link := newBrowser(t, "ann"), linkOf(s, "ann")
	callback := b.callback(s, link)
	restart := func(secret string) {
		t.Helper()
		if err := caddy.Stop(); err != nil {
			t.Fatal(err)
		}
		load(t, s, p, options{connections: secret})
	}
	restart("secret planted-vault-secret-1") // in the middle of the flow
	if got := b.get(callback); got.status != http.StatusSeeOther {
		t.Fatalf("after a restart: %d %s", got.status, got.body)
	}
	succeed(s, "ann")
	restart("secret planted-vault-secret-2 planted-vault-secret-1")
	succeed(s, "ann") // seals the record with the new key
	restart("secret planted-vault-secret-2")
	succeed(s, "ann")
	restart("secret planted-vault-secret-3")
	linkOf(s, "ann")
}

// The operator sees who has connected an account, and no token.
func TestAdmin_lists_connections_without_tokens(t *testing.T) {
	p := newThirdParty(t)
	s := start(t, p, options{})
	newBrowser(t, "ann").connect(s, linkOf(s, "ann"), "label", "work")
	newBrowser(t, "bob").connect(s, linkOf(s, "bob"))
	got := connections.List(t, "?user=ann")
	for _, want := range []string{`"user":"ann"`, `"provider":"acme"`, `"account":"work"`, `"in_use":true`, `"renews":true`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if strings.Contains(got, "bob") || strings.Contains(got+connections.List(t, ""), "planted") || !strings.Contains(connections.List(t, ""), "bob") {
		t.Errorf("got %s", got)
	}
}

func TestTask_waits_for_the_connection(t *testing.T) {
	p := newThirdParty(t)
	s := start(t, p, options{more: sitetest.MetricsRoute})
	before := map[string]int{} // sites of other tests have the same metrics
	calls := func(outcome string) int {
		return sitetest.MetricsOf(s).Value(`fairway_tool_calls_total{outcome="`+outcome+`",protocol="mcp",tool="listTrips",toolset="trips"}`) - before[outcome]
	}
	for _, outcome := range []string{"unauthorized", "pending", "ok"} {
		before[outcome] = calls(outcome)
	}
	const capabilities = `{"elicitation":{"url":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	first := requested(t, newest(s, "ann", capabilities, ""))
	var created struct{ Result sitetest.TaskState }
	body := newest(s, "ann", capabilities, accepted)
	if err := json.Unmarshal([]byte(body), &created); err != nil || created.Result.ResultType != "task" || created.Result.Status != "working" {
		t.Fatalf("got %s", body)
	}
	// Only the call that asked for the account was unauthorized. Those that wait for it are not recorded.
	if unauthorized, pending := calls("unauthorized"), calls("pending"); unauthorized != 1 || pending != 1 {
		t.Errorf("recorded %d unauthorized and %d pending calls", unauthorized, pending)
	}
	// The client leaves. The user connects the account meanwhile.
	newBrowser(t, "ann").connect(s, first)
	if got := sitetest.TasksOf(s).EndOf("ann", created.Result.TaskID); got.Status != "completed" || got.Result == nil || !strings.Contains(got.Result.Text(), "token_length") {
		t.Errorf("got %+v", got)
	}
	if ended := calls("ok"); ended != 1 || calls("unauthorized") != 1 || calls("pending") != 1 {
		t.Errorf("recorded %d calls that ended", ended)
	}
}

func TestCookie_of_a_public_site_cannot_be_set_by_other_hosts(t *testing.T) {
	p := newThirdParty(t)
	s := sitetest.NewSite(t)
	s.Start("agents {\nstore bolt DIR/store.db\ntoolset trips TRIPS {\ncredential user {\n"+p.providerBlock()+"\n}\n}\n}",
		"route {\ntest_user\nagent_connections /mine {\norigin https://tools.example.com\nsecret planted-vault-secret\n}\nmcp trips\nreverse_proxy 127.0.0.1:1\n}")
	got := newBrowser(t, "ann").do(http.MethodPost, s.URL+"/mine/connect", url.Values{"provider": {"acme"}})
	cookie := got.header.Get("Set-Cookie")
	for _, want := range []string{"__Host-", "Secure", "HttpOnly", "SameSite=Lax", "Path=/;"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("no %s in %s", want, cookie)
		}
	}
	to, err := url.Parse(got.location)
	if err != nil {
		t.Fatal(err)
	}
	if q := to.Query(); q.Get("code_challenge_method") != "S256" || q.Get("redirect_uri") != "https://tools.example.com/mine/callback/acme" || len(q.Get("state")) < 20 {
		t.Errorf("got %s", got.location)
	}
}

func TestAdapt_errors_say_what_to_write(t *testing.T) {
	for name, test := range map[string]struct {
		text  string
		words []string
	}{
		"no provider":    {"credential user", []string{"provider"}},
		"a name":         {"credential user {\nprovider ACME\n}", []string{"lower-case"}},
		"an option":      {"credential user {\nprovider acme {\nauthorise_url x\n}\n}", []string{"authorize_url"}},
		"key and OAuth":  {"credential user {\nprovider acme {\napi_key\nclient_id a\n}\n}", []string{"api_key", "OAuth"}},
		"header":         {"credential user {\nprovider acme {\napi_key\nheader Host\n}\n}", []string{"Host"}},
		"shell variable": {"credential user {\nprovider github {\nclient_secret $SECRET\n}\n}", []string{"{env.NAME}"}},
	} {
		_, _, err := sitetest.Adapt("http://a.test {\n\tmcp {\n\t\topenapi o.yaml\n\t\t" + test.text + "\n\t}\n}")
		if err == nil || slices.ContainsFunc(test.words, func(w string) bool { return !strings.Contains(err.Error(), w) }) {
			t.Errorf("%s: got %v, want %q", name, err, test.words)
		}
	}
}

func TestProvision_errors_say_what_to_write(t *testing.T) {
	s := sitetest.NewSite(t)
	const complete = "provider acme {\nauthorize_url https://a.example/a\ntoken_url https://a.example/t\nclient_id x\n}"
	for name, test := range map[string]struct {
		provider, connections string
		words                 []string
	}{
		"no addresses": {"provider acme {\nclient_id x\n}", "origin https://a.example\nsecret 0123456789abcdef", []string{"authorize_url", "token_url"}},
		"no https":     {"provider github {\nclient_id x\ntoken_url http://a.example/t\n}", "origin https://a.example\nsecret 0123456789abcdef", []string{"token_url", "https"}},
		"no secret":    {complete, "origin https://a.example", []string{"secret", "openssl"}},
		"no origin":    {complete, "secret 0123456789abcdef", []string{"origin"}},
		"origin":       {complete, "origin http://a.example\nsecret 0123456789abcdef", []string{"origin", "https"}},
	} {
		err := s.Load("agents {\ntoolset trips TRIPS {\ncredential user {\n"+test.provider+"\n}\n}\n}", "agent_connections {\n"+test.connections+"\n}\nmcp trips\nrespond ok")
		if err == nil || slices.ContainsFunc(test.words, func(w string) bool { return !strings.Contains(err.Error(), w) }) {
			t.Errorf("%s: got %v, want %q", name, err, test.words)
		}
	}
}
