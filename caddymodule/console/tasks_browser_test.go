package console_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// task is something that an operator does in a browser, with its clicks counted.
type task struct {
	*browser
	clicks int
}

// click clicks an element. One click is one tap on a phone.
func (k *task) click(selector string) chromedp.Action {
	k.clicks++
	return chromedp.Click(selector, chromedp.BySearch, chromedp.NodeVisible)
}

// atMost checks the number of clicks since the last check.
func (k *task) atMost(maximum int) {
	k.t.Helper()
	if k.clicks > maximum {
		k.t.Errorf("%d clicks, want at most %d", k.clicks, maximum)
	}
	k.clicks = 0
}

// open opens a page.
func (k *task) open(path string) {
	k.t.Helper()
	k.run(chromedp.EmulateViewport(1440, 900), chromedp.Navigate(k.site.URL+path), chromedp.WaitVisible("main h1", chromedp.ByQuery))
}

// moody is an API that rejects, and fails.
func moody(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/closed"):
		http.Error(w, `{"message":"trip is sold out"}`, http.StatusForbidden)
	case strings.HasSuffix(r.URL.Path, "/broken"):
		http.Error(w, "no connection to the database", http.StatusInternalServerError)
	default:
		sitetest.Echo(w, r)
	}
}

// operatedConsole runs a site whose auditor is eve: a document that cannot be loaded, and an upstream that fails.
func operatedConsole(t *testing.T) *sitetest.Site {
	t.Helper()
	s := sitetest.NewSite(t)
	api := sitetest.Upstream(t, moody)
	startOperated(s, api)
	for user, calls := range map[string][][2]string{
		"ada":   {{"listTrips", `{}`}, {"getTrip", `{"id":"ic-801"}`}, {"getTrip", `{"id":"closed"}`}, {"getTrip", `{"id":"broken"}`}, {"listTrips", `{"limit":5}`}},
		"carol": {{"getTrip", `{}`}, {"bookTrip", `{}`}},
		"dan":   {{"deleteTrip", `{"id":"7"}`}},
	} {
		for _, call := range calls {
			callAs(s, user, call[0], call[1])
		}
	}
	return s
}

// startOperated starts the site of operatedConsole.
func startOperated(s *sitetest.Site, api string) {
	s.T.Helper()
	s.Start("agents {\n\ttoolset trips TRIPS\n\ttoolset lost http://127.0.0.1:1/openapi.yaml\n\tstore bolt DIR/store.db\n\tcalls {\n\t\targuments *\n\t}\n}",
		"route {\ntest_user\nagents_console {\nauditors eve\n}\nmcp /mcp trips\nmcp /lost lost\n@down method DELETE\nreverse_proxy @down 127.0.0.1:1 {\nfail_duration 1h\n}\nreverse_proxy "+api+"\n}")
}

func callAs(s *sitetest.Site, user, tool, arguments string) {
	s.T.Helper()
	r := s.CallRequest(tool, arguments)
	r.Header.Set("X-Test-User", user)
	s.Do(r)
}

// TestConsole_tasks_of_operators does what operators do most, from the first page, with at most as many clicks as said.
// Other tests have the tasks of runs (TestConsole_follows_a_run_in_a_browser), approvals on a phone
// (TestConsole_approves_on_a_phone), and changed tools (TestConsole_approves_tools_in_a_browser).
func TestConsole_tasks_of_operators(t *testing.T) {
	s := operatedConsole(t)
	k := &task{browser: newBrowser(t, s, "eve")}

	// Why was a call refused?
	k.open("/console")
	k.run(k.click(`//a[@data-key="g c"]`), k.click(`//a[contains(@class, "chip") and starts-with(., "refused")]`),
		k.click(`//td[@class="reason"]/a[contains(., "sold out")]`), chromedp.WaitVisible(`//p[@class="reason" and contains(., "sold out")]`, chromedp.BySearch))
	k.atMost(3)
	k.check("task-call")

	// Who calls most, what fails, which tools are slow?
	k.open("/console")
	k.wait(`document.querySelectorAll(".chart canvas").length === 2`)
	for what, script := range map[string]string{
		"ada calls most":                     `section("Users").querySelector("tbody tr").cells[0].textContent === "ada" && section("Users").querySelector("tbody tr").cells[1].textContent === "5"`,
		"getTrip fails most":                 `section("Tools with the most failures").querySelector("tbody tr").cells[0].textContent.includes("getTrip")`,
		"slow tools have a duration":         `/\d/.test(section("Slowest tools").querySelector("tbody tr").cells[4].textContent)`,
		"the failures are counted":           `[...document.querySelectorAll(".figures div")].some(d => d.textContent.startsWith("Failures") && d.querySelector("dd").textContent.startsWith("5"))`,
		"the document that cannot be loaded": `document.querySelector(".notice.bad").textContent.includes("lost") && document.querySelector(".notice.bad").textContent.includes("refused")`,
		"the upstream that fails":            `section("Upstreams of this node").querySelector(".tag.bad").closest("tr").textContent.includes("127.0.0.1:1")`,
		"the node":                           `section("Nodes").querySelectorAll("tbody tr").length === 1`,
	} {
		var ok bool
		k.run(chromedp.Evaluate(`var section = name => [...document.querySelectorAll("section")].find(s => s.querySelector("h2") && s.querySelector("h2").textContent === name); Boolean(`+script+`)`, &ok))
		if !ok {
			t.Errorf("the overview does not show: %s", what)
		}
	}
	k.check("task-overview")
	k.run(chromedp.EmulateViewport(1440, 900), k.click(`//section[h2="Users"]//a[text()="ada"]`), chromedp.WaitVisible("#ended table", chromedp.ByQuery))
	k.wait(`document.querySelectorAll("#ended tbody tr").length === 5`)
	k.atMost(1)

	// A client to connect.
	k.open("/console")
	k.run(k.click(`//nav//a[text()="Connect"]`), chromedp.WaitVisible(`//*[contains(text(), "claude mcp add")]`, chromedp.BySearch))
	k.atMost(1)

	k.open("/console/calls")
	k.check("task-calls")
}

// TestConsole_finds_calls_of_before_a_restart finds a call that was made before the server was stopped.
func TestConsole_finds_calls_of_before_a_restart(t *testing.T) {
	s := operatedConsole(t)
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	startOperated(s, sitetest.Upstream(t, moody))
	k := &task{browser: newBrowser(t, s, "eve")}
	k.open("/console")
	k.run(k.click(`//a[@data-key="g c"]`), chromedp.WaitVisible("#f-since", chromedp.ByQuery), chromedp.SetValue("#f-since", "24h", chromedp.ByQuery), chromedp.SetValue("#f-text", "sold out", chromedp.ByQuery),
		k.click(`//form[@role="search"]//button[text()="Filter"]`), chromedp.WaitVisible(`//a[text()="Clear"]`, chromedp.BySearch))
	k.wait(`location.search.includes("since=24h") && document.querySelectorAll("#ended tbody tr").length === 1`)
	k.run(k.click(`//td[@class="reason"]/a`), chromedp.WaitVisible("#why", chromedp.ByQuery))
	k.atMost(3)
}

// TestConsole_finds_a_tool_to_try finds one of GitHub's 1,223 tools and calls it.
func TestConsole_finds_a_tool_to_try(t *testing.T) {
	k := &task{browser: newBrowser(t, githubConsole(t), "ada")}
	k.open("/console")
	k.run(k.click(`//a[@data-key="g t"]`), chromedp.WaitVisible("#q", chromedp.ByQuery), chromedp.SendKeys("#q", "list repository languages", chromedp.ByQuery))
	k.wait(`document.querySelector("#found").textContent.includes("The best 30")`)
	k.run(k.click(`//a[contains(@class, "name") and contains(@href, "repos_list_languages")]`), chromedp.WaitVisible("#a-owner", chromedp.ByQuery),
		chromedp.SendKeys("#a-owner", "o", chromedp.ByQuery), chromedp.SendKeys("#a-repo", "r", chromedp.ByQuery), k.click(`//button[@value="send"]`), chromedp.WaitVisible("#answer-text", chromedp.ByQuery))
	k.atMost(3)
}

// TestConsole_shows_the_effect_of_a_shape calls a tool, selects a part of its answer, and copies the block of the Caddyfile.
func TestConsole_shows_the_effect_of_a_shape(t *testing.T) {
	k := &task{browser: newBrowser(t, operatedConsole(t), "ada")}
	k.open("/console")
	k.run(k.click(`//a[@data-key="g t"]`), k.click(`//a[contains(@class, "name") and contains(., "getTrip")]`), chromedp.WaitVisible("#a-id", chromedp.ByQuery), chromedp.SendKeys("#a-id", "ic-801", chromedp.ByQuery),
		k.click(`//details[@id="shape"]/summary`), chromedp.SendKeys("#select", ".uri", chromedp.ByQuery), k.click(`//button[@value="send"]`), chromedp.WaitVisible("#shaped-text", chromedp.ByQuery))
	k.wait(`document.querySelector("#shaped-text").textContent.includes("/trips/ic-801") && document.querySelector("#shaped-title").parentElement.textContent.includes("instead of")`)
	k.run(k.click(`//summary[text()="Caddyfile tool block"]`), chromedp.WaitVisible("#copy-caddyfile", chromedp.ByQuery))
	k.wait(`document.querySelector("#copy-caddyfile").textContent.includes("select .uri")`)
	k.atMost(5)
	k.check("task-shape")
}

// TestConsole_shows_hostile_calls_in_a_browser has texts of clients on the overview, in its charts, and on the pages of calls.
func TestConsole_shows_hostile_calls_in_a_browser(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("hostile.json", hostile)
	const agent = `"><img src=x onerror=alert(20)>`
	s.Start("agents {\n\tstore bolt DIR/store.db\n\tcalls {\n\t\targuments *\n\t\tresults\n\t}\n}", "route {\ntest_user\nagents_console {\nauditors eve\n}\nmcp DIR/hostile.json\nreverse_proxy "+sitetest.Upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"message":"</pre><script>alert(21)</script>"}`)
	})+"\n}")
	for _, tool := range sitetest.ConsoleJSON[struct{ Tools []struct{ Name string } }](s, "eve", "/console/api/tools").Tools {
		callAs(s, `<script>alert(22)</script>`, tool.Name, `{"x":"<svg onload=alert(23)>"}`)
	}
	callAs(s, agent, "<script>alert(24)</script>", `{}`)
	b := newBrowser(t, s, "eve")
	b.run(chromedp.Navigate(s.URL+"/console"), chromedp.WaitVisible(".figures", chromedp.ByQuery))
	b.wait(`document.querySelectorAll(".chart canvas").length === 2`)
	b.check("hostile-overview")
	b.visit("/console/calls", "hostile-calls")
	b.run(chromedp.EmulateViewport(1440, 900), chromedp.Click(`//td[@class="reason"]/a[contains(., "answered 403")]`, chromedp.BySearch), chromedp.WaitVisible("#why", chromedp.ByQuery))
	b.check("hostile-call")
	list := sitetest.ConsoleJSON[struct {
		Calls []struct{ ID string }
	}](s, "eve", "/console/api/calls")
	if len(list.Calls) != 3 {
		t.Errorf("%d calls, want 3", len(list.Calls))
	}
	paths := []string{"/console", "/console/calls"}
	for _, call := range list.Calls {
		paths = append(paths, "/console/calls/"+call.ID)
	}
	for _, path := range paths {
		checkHTML(t, path, s.Request("GET", path, "", "X-Test-User", "eve").Body)
	}
}

// TestConsole_weight checks how much a first visit of a page loads.
func TestConsole_weight(t *testing.T) {
	s := operatedConsole(t)
	b := newBrowser(t, s, "eve")
	for path, limit := range map[string]float64{"/console": 130, "/console/tools": 80, "/console/calls": 80, "/console/agents": 80, "/console/reviews": 80, "/console/connect": 80} {
		var bytes float64
		b.run(clearCache, chromedp.Navigate(s.URL+path), chromedp.WaitVisible("main h1", chromedp.ByQuery), chromedp.Poll(`document.readyState === "complete"`, nil),
			chromedp.Evaluate(`[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")].reduce((sum, e) => sum + e.transferSize, 0)`, &bytes))
		if bytes < 1000 || bytes > limit*1000 {
			t.Errorf("%s: %g bytes, want at most %g kB", path, bytes, limit)
		}
	}
}

// TestConsole_adds_calls_on_top checks that the rows of new calls leave the selection and the scroll position alone.
func TestConsole_adds_calls_on_top(t *testing.T) {
	s := operatedConsole(t)
	for range 60 {
		callAs(s, "ada", "listTrips", `{}`)
	}
	b := newBrowser(t, s, "eve")
	b.run(chromedp.EmulateViewport(1280, 800), chromedp.Navigate(s.URL+"/console/calls"), chromedp.WaitVisible("#ended", chromedp.ByQuery), chromedp.Evaluate(`
		scrollTo(0, 900);
		window.row = document.querySelectorAll("#ended tbody tr")[40];
		getSelection().selectAllChildren(row.cells[1]);
		window.chosen = String(getSelection());
		window.seen = row.getBoundingClientRect().top;
		window.times = [];
		new MutationObserver(list => list.forEach(m => m.addedNodes.forEach(n => n.nodeType === 1 && n.matches("tr") && times.push(performance.now())))).observe(document.querySelector("#ended tbody"), {childList: true}); 0`, nil))
	for range 20 {
		callAs(s, "new-user", "listTrips", `{}`)
	}
	b.wait(`[...document.querySelectorAll("#ended tbody tr")].filter(r => r.textContent.includes("new-user")).length === 20`)
	for what, script := range map[string]string{
		"at most 10 rows a second are added": `times.every((at, i) => i < 11 || at - times[i - 11] >= 900)`,
		"the row in view stays":              `Math.abs(row.getBoundingClientRect().top - seen) < 2`,
		"the selection stays":                `chosen !== "" && String(getSelection()) === chosen`,
	} {
		var ok bool
		if b.run(chromedp.Evaluate(script, &ok)); !ok {
			t.Errorf("it is not true that %s", what)
		}
	}
}

// clearCache makes the next page load everything anew.
var clearCache = network.ClearBrowserCache()
