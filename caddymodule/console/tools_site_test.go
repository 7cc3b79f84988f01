package console_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/audit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// transferred returns the response to a request of a client that accepts gzip, and its size as it is sent.
func transferred(s *sitetest.Site, method, path string, header ...string) (response *http.Response, body []byte) {
	s.T.Helper()
	r, err := http.NewRequest(method, s.URL+path, http.NoBody)
	if err != nil {
		s.T.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err = (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		s.T.Fatal(err)
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err != nil {
		s.T.Fatal(err)
	}
	return response, body
}

// TestConsole_is_compressed checks the size of a first load, and what is not compressed.
func TestConsole_is_compressed(t *testing.T) {
	s := githubConsole(t)
	page, body := transferred(s, "GET", "/console/tools", "X-Test-User", "ada")
	if page.Header.Get("Content-Encoding") != "gzip" || !strings.Contains(page.Header.Get("Vary"), "Accept-Encoding") {
		t.Errorf("header %v", page.Header)
	}
	total := len(body)
	reader, err := gzip.NewReader(strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range assetLinks.FindAllStringSubmatch(string(text), -1) {
		_, asset := transferred(s, "GET", link[1], "X-Test-User", "ada")
		total += len(asset)
	}
	t.Logf("a first load has %d bytes", total)
	if total > 50<<10 {
		t.Errorf("the first load has %d bytes", total)
	}
	for name, header := range map[string][]string{
		"not accepted":         {"Accept-Encoding", "br"},
		"refused":              {"Accept-Encoding", "gzip;q=0"},
		"link of another site": {"Sec-Fetch-Site", "cross-site"},
	} {
		if a, _ := transferred(s, "GET", "/console/tools", append(header, "X-Test-User", "ada")...); a.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: encoding %q", name, a.Header.Get("Content-Encoding"))
		}
	}
	if a := form(s, "/console/tools/mcp/meta_root", "do=send", "X-Test-User", "ada", "Accept-Encoding", "gzip"); a.Header.Get("Content-Encoding") != "" {
		t.Error("the answer of an API is compressed")
	}
}

// TestConsole_tools_have_true_numbers compares the list that a model gets with the numbers of the page.
func TestConsole_tools_have_true_numbers(t *testing.T) {
	s := githubConsole(t)
	list := sitetest.ConsoleJSON[struct {
		Endpoints []struct {
			Tools, Tokens, Listed int
			ListedTokens          int `json:"listed_tokens"`
			Searches              bool
		}
	}](s, "ada", "/console/api/endpoints")
	e := list.Endpoints[0]
	// ToolNames leaves next_page out.
	if names := s.ToolNames(); e.Listed != len(names)+1 || e.Tools != 1223 || !e.Searches {
		t.Errorf("got %+v, want 1223 tools with a search; the endpoint lists %d: %q", e, len(names)+1, names)
	}
	if e.ListedTokens < 100 || e.ListedTokens > 2000 {
		t.Errorf("got %d tokens of the list, want 100 to 2000", e.ListedTokens)
	}
	if page := s.View("ada", "/console/tools").Body; !strings.Contains(page, "search tools, about") || !strings.Contains(page, "they find 1,223 tools") {
		t.Error("the page does not have the numbers")
	}
}

// TestConsole_tools_of_several_toolsets are shown and called, whatever the protocol is.
func TestConsole_tools_of_several_toolsets(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("trains.yaml", sitetest.Timetable("Trains", "list", "book"))
	s.Write("buses.yaml", sitetest.Timetable("Buses", "list", "ride"))
	s.Start("agents {\ntoolset trains DIR/trains.yaml\ntoolset buses DIR/buses.yaml\n}", "route {\ntest_user\nagents_console\notc /otc trains buses\nmcp /mcp trains buses\nrespond {http.tool.toolset}\n}")
	if page := s.View("ada", "/console/tools"); page.Status != http.StatusOK || !strings.Contains(page.Body, "/console/tools/otc/buses_list") {
		t.Errorf("the tools: %d %s", page.Status, page.Body)
	}
	if list := s.View("ada", "/console/api/endpoints"); list.Status != http.StatusOK || strings.Count(list.Body, `"tools":4`) != 2 {
		t.Errorf("the endpoints: %d %s", list.Status, list.Body)
	}
	for _, endpoint := range []string{"otc", "mcp"} {
		a := form(s, "/console/tools/"+endpoint+"/buses_list", "do=send", "X-Test-User", "ada")
		if a.Status != http.StatusOK || !strings.Contains(a.Body, "buses") || strings.Contains(a.Body, "unknown") {
			t.Errorf("%s: the call: %d %s", endpoint, a.Status, a.Body)
		}
		if endpoint == "otc" && !strings.Contains(a.Body, "Buses.list@1.0.0") {
			t.Errorf("the message to copy has not the id of OTC: %s", a.Body)
		}
	}
}

// TestConsole_filters_tools checks filters, sorting and pages of the list.
func TestConsole_filters_tools(t *testing.T) {
	s := githubConsole(t)
	type list struct {
		Tools []struct {
			Name, Method string
			Tokens       int
			Tags         []string
		}
		Facets []struct {
			Name   string
			Values []struct {
				Value    string
				Count    int
				Selected bool
			}
		}
		Found, Pages int
		Next         string
	}
	get := func(query string) list { return sitetest.ConsoleJSON[list](s, "ada", "/console/api/tools?"+query) }
	deletes := get("method=DELETE&tag=repos&sort=tokens")
	if deletes.Found == 0 || deletes.Found != len(deletes.Tools) {
		t.Fatalf("got %+v", deletes)
	}
	for i, tool := range deletes.Tools {
		if tool.Method != "DELETE" || tool.Tags[0] != "repos" || i > 0 && tool.Tokens > deletes.Tools[i-1].Tokens {
			t.Errorf("got %+v", tool)
		}
	}
	for _, f := range deletes.Facets {
		for _, v := range f.Values {
			if f.Name == "tag" && v.Value == "repos" && (!v.Selected || v.Count != deletes.Found) {
				t.Errorf("tag repos: %+v, want %d", v, deletes.Found)
			}
		}
	}
	if names := get("sort=name"); names.Tools[0].Name > names.Tools[1].Name || names.Found != 1223 || names.Pages != 13 {
		t.Errorf("by name: %+v", names.Tools[:2])
	}
	if next := get("kind=reads&page=2"); !strings.Contains(next.Next, "kind=reads") || !strings.Contains(next.Next, "page=3") {
		t.Errorf("next is %q", next.Next)
	}
	if found := get("q=delete+a+repository&kind=destructive"); len(found.Tools) == 0 || found.Tools[0].Method != "DELETE" {
		t.Errorf("search with a filter: %+v", found.Tools)
	}
	if none := get("tag=%3Cscript%3E"); none.Found != 0 {
		t.Errorf("an unknown tag: %+v", none)
	}
	checkHTML(t, "filters", s.View("ada", "/console/tools?tag=%22%3E%3Cscript%3E&sort=%3Cb%3E&approved=%3Cscript%3E").Body)
}

// lockedConsole runs a site whose document differs from its lock in three tools. eve is an auditor.
func lockedConsole(t *testing.T) *sitetest.Site {
	t.Helper()
	s := sitetest.NewSite(t)
	file := filepath.Join(s.Dir, "tools.lock")
	if out, _, err := sitetest.CaddyTools("lock", filepath.Join(s.Dir, "trips.yaml"), "--lock", file); err != nil {
		t.Fatal(err, out)
	}
	s.Write("trips.yaml", strings.NewReplacer("summary: Lists trips", "summary: Lists all trips", "    head:\n      operationId: probeTrips", "    put:\n      operationId: probeTrips").
		Replace(sitetest.Trips)+"  /seats:\n    post: {operationId: book, responses: {}}\n")
	s.Start("agents {\n\tstore bolt DIR/store.db\n\taudit {\n\t\tsink file DIR/audit.jsonl\n\t}\n\ttoolset trips TRIPS {\n\t\tlock DIR/tools.lock\n\t}\n}", "route {\ntest_user\nagents_console {\nauditors eve\n}\nmcp /mcp trips\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo)+"\n}")
	return s
}

// TestConsole_approves_tools checks who may approve what, and that only changes that were read can be approved.
func TestConsole_approves_tools(t *testing.T) {
	s := lockedConsole(t)
	type endpoints struct {
		Endpoints []struct {
			Toolsets []struct {
				Seen    string `json:"lock_digest"`
				Changes []struct {
					Tool string
				} `json:"lock_changes"`
			}
		}
	}
	state := func() (seen string, changes int) {
		got := sitetest.ConsoleJSON[endpoints](s, "eve", "/console/api/endpoints").Endpoints[0].Toolsets[0]
		return got.Seen, len(got.Changes)
	}
	seen, changes := state()
	if changes != 3 || seen == "" {
		t.Fatalf("%d changes, digest %q", changes, seen)
	}
	const path = "/console/approve/mcp/0"
	before, err := os.ReadFile(filepath.Join(s.Dir, "tools.lock"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path, form string
		header     []string
		want       int
	}{
		"no auditor":       {path, "seen=" + seen + "&all=yes", []string{"X-Test-User", "ada"}, 404},
		"another site":     {path, "seen=" + seen + "&all=yes", []string{"X-Test-User", "eve", "Sec-Fetch-Site", "cross-site"}, 403},
		"changed since":    {path, "seen=0&all=yes", []string{"X-Test-User", "eve"}, 409},
		"nothing read":     {path, "all=yes", []string{"X-Test-User", "eve"}, 409},
		"nothing selected": {path, "seen=" + seen, []string{"X-Test-User", "eve"}, 400},
		"unknown tool":     {path, "seen=" + seen + "&tool=none", []string{"X-Test-User", "eve"}, 409},
		"no such toolset":  {"/console/approve/mcp/1", "seen=" + seen + "&all=yes", []string{"X-Test-User", "eve"}, 404},
	} {
		if a := form(s, c.path, c.form, c.header...); a.Status != c.want {
			t.Errorf("%s: status %d, want %d", name, a.Status, c.want)
		}
	}
	after, err := os.ReadFile(filepath.Join(s.Dir, "tools.lock"))
	if err != nil || string(after) != string(before) {
		t.Fatalf("the lock file changed: %v", err)
	}
	a := s.Request("POST", "/console/api/approve/mcp/0", `{"seen":"`+seen+`","tools":["book"]}`, "X-Test-User", "eve")
	if a.Status != 200 || !strings.Contains(a.Body, `"approved":1`) {
		t.Fatalf("status %d %s", a.Status, a.Body)
	}
	if _, left := state(); left != 2 {
		t.Errorf("%d changes are left, want 2", left)
	}
	sitetest.Eventually(t, "the approved tool", func() bool { return strings.Contains(s.ToolList(), `"book"`) })
	s.Logged("approved", `"user":"eve"`, "book", `"level":"info"`)
	sitetest.Eventually(t, "the approval in the audit archive", func() bool {
		return slices.ContainsFunc(sitetest.Archived(s), func(e audit.Entry) bool {
			return e.Type == audit.TypeTools && e.User == "eve" && slices.Equal(e.Tools, []string{"book"})
		})
	})
	if out, _, err := sitetest.CaddyTools("diff", filepath.Join(s.Dir, "trips.yaml"), "--lock", filepath.Join(s.Dir, "tools.lock")); err == nil || strings.Contains(out, "book") || !strings.Contains(out, "listTrips") {
		t.Errorf("the command prints %s", out)
	}
}

// TestConsole_shows_why_a_document_is_not_loaded checks the error of a document, which is for auditors.
func TestConsole_shows_why_a_document_is_not_loaded(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	defer gone.Close()
	s := consoleSite(t, "auditors eve", "mcp "+gone.URL+"/openapi.json\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
	sitetest.Eventually(t, "the error", func() bool { return strings.Contains(s.View("eve", "/console/tools").Body, "cannot be loaded") })
	if page := s.View("eve", "/console/tools").Body; !sitetest.ContainsAll(page, []string{"404", "next attempt <time", "First failure <time"}) || strings.Contains(page, "not loaded yet") {
		t.Errorf("the page of an auditor: %s", page)
	}
	if page := s.View("ada", "/console/tools").Body; !strings.Contains(page, "cannot be loaded") || strings.Contains(page, "404") {
		t.Errorf("the page of a user: %s", page)
	}
}

// TestConsole_install_links checks the links that add an endpoint to a client: only without a header that the user must fill in.
func TestConsole_install_links(t *testing.T) {
	s := consoleSite(t, "", "mcp TRIPS\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
	page := s.View("ada", "/console/connect").Body
	for _, link := range []string{`href="cursor://anysphere.cursor-deeplink/mcp/install?name=trips`, `href="vscode:mcp/install?%7B%22name%22%3A%22trips`} {
		if !strings.Contains(page, link) {
			t.Errorf("%s is missing: %s", link, page)
		}
	}
	if strings.Contains(page, "endpoint-card") {
		t.Error("a single endpoint is folded")
	}
	several := consoleSite(t, "", "mcp TRIPS\notc TRIPS\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo)).View("ada", "/console/connect").Body
	if strings.Count(several, `endpoint-card" open`) != 1 || strings.Count(several, "endpoint-card") != 2 {
		t.Error("of several endpoints, not only the first is open")
	}
	closed := sitetest.Run(t, "agents {\n\tstore bolt DIR/store.db\n}", "route {\ntest_user\nagents_console\nbasic_auth /mcp {\nada $2a$04$MhTq1Kq2O2zgTPPQOjvTzeBvXBFoFuHDzPrsNfSJtLrq7pzFYZtQ2\n}\nmcp TRIPS\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo)+"\n}")
	if page := closed.View("ada", "/console/connect").Body; strings.Contains(page, "cursor://") || strings.Contains(page, "vscode:mcp") {
		t.Errorf("an endpoint with a header has links: %s", page)
	}
}
