package console_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// view sets the size of the window, and writes a screenshot of what it shows.
func (b *browser) view(name string, width, height int64) {
	b.t.Helper()
	var picture []byte
	b.run(chromedp.EmulateViewport(width, height), chromedp.CaptureScreenshot(&picture))
	b.write(name+".png", picture)
}

// wait waits until a script returns true.
func (b *browser) wait(script string) {
	b.t.Helper()
	b.run(chromedp.Poll(script, nil))
}

// press presses a key. Other than by chromedp.KeyEvent, the page can prevent that it writes its character.
func press(key string) chromedp.Action {
	return chromedp.Tasks{input.DispatchKeyEvent(input.KeyDown).WithKey(key).WithText(key), input.DispatchKeyEvent(input.KeyUp).WithKey(key)}
}

// githubConsole runs a site with the tools of GitHub.
func githubConsole(t *testing.T) *sitetest.Site {
	t.Helper()
	s := sitetest.NewSite(t)
	s.Write("github.json", string(testkit.ReadDocument(t, "openapi/github-api.github.com.json.gz")))
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", "route {\ntest_user\nagents_console\nmcp DIR/github.json\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo)+"\n}")
	return s
}

// TestConsole_tool_list_in_a_browser checks the size of rows, and that the search and the filters are in the URL and survive Back.
func TestConsole_tool_list_in_a_browser(t *testing.T) {
	b := newBrowser(t, githubConsole(t), "ada")
	b.run(chromedp.EmulateViewport(1440, 900), chromedp.Navigate(b.site.URL+"/console/tools"), chromedp.WaitVisible(".list", chromedp.ByQuery))
	b.view("github-list-wide", 1440, 900)
	var rows, height int
	b.run(chromedp.Evaluate(`[...document.querySelectorAll(".list .row")].filter(r => r.getBoundingClientRect().bottom <= innerHeight).length`, &rows))
	if rows < 25 {
		t.Errorf("%d rows at 1440 × 900, want at least 25", rows)
	}
	b.view("github-list-phone", 390, 844)
	b.run(chromedp.Evaluate(`Math.max(...[...document.querySelectorAll(".list .row")].map(r => r.offsetHeight))`, &height))
	if height > 62 {
		t.Errorf("a row has %d pixels on a phone, which is more than two lines", height)
	}
	b.run(chromedp.EmulateViewport(1440, 900), press("/"), chromedp.KeyEvent("close the issue"))
	b.wait(`document.querySelector("#found").textContent.includes("The best 30") && new URLSearchParams(location.search).get("q") === "close the issue"`)
	b.run(chromedp.Click(`//a[contains(@class, "chip") and starts-with(., "PATCH")]`, chromedp.BySearch))
	b.wait(`location.search.includes("method=PATCH") && new URLSearchParams(location.search).get("q") === "close the issue" && [...document.querySelectorAll(".list .method")].every(m => m.textContent === "PATCH")`)
	b.view("github-filtered-wide", 1440, 900)
	b.check("github-filtered")
	b.run(chromedp.EmulateViewport(1440, 900), chromedp.Click(".list .name", chromedp.ByQuery), chromedp.WaitVisible("#try-title", chromedp.ByQuery), chromedp.NavigateBack(), chromedp.WaitVisible("#q", chromedp.ByQuery))
	b.wait(`document.querySelector("#q") && document.querySelector("#q").value === "close the issue" && document.querySelector(".chip[aria-current]").textContent.startsWith("PATCH")`)
	b.run(chromedp.NavigateBack(), chromedp.WaitVisible("#q", chromedp.ByQuery))
	b.wait(`document.querySelector("#q") && !location.search.includes("method") && document.querySelector("#q").value === "close the issue" && document.querySelectorAll(".list .row").length === 30`)
}

// TestConsole_keys_in_a_browser uses the console with keys alone.
func TestConsole_keys_in_a_browser(t *testing.T) {
	s := consoleSite(t, "", "mcp TRIPS\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
	b := newBrowser(t, s, "ada")
	b.run(chromedp.Navigate(s.URL+"/console/tools"), chromedp.WaitVisible(".list", chromedp.ByQuery), press("g"), press("c"),
		chromedp.WaitVisible("#ended", chromedp.ByQuery), press("g"), press("t"), chromedp.WaitVisible(".list.tools", chromedp.ByQuery), press("/"))
	b.wait(`document.activeElement.id === "q"`)
	b.run(chromedp.KeyEvent("gc?"))
	b.wait(`document.querySelector("#q").value === "gc?" && !document.querySelector("#keys").open`)
	b.run(chromedp.Evaluate(`document.activeElement.blur()`, nil), press("?"))
	b.wait(`document.querySelector("#keys").open && document.querySelector("#key-list").textContent.includes("g r")`)
	b.check("keys")
	b.run(chromedp.Evaluate(`document.querySelector("#use-keys").click()`, nil), chromedp.KeyEvent(kb.Escape), chromedp.Navigate(s.URL+"/console/tools"), chromedp.WaitVisible(".list", chromedp.ByQuery), press("?"), press("/"))
	b.wait(`!document.querySelector("#keys").open && document.activeElement.id !== "q"`)
}

// TestConsole_try_in_a_browser fills fields for unions and lists, and checks where messages and the focus are.
func TestConsole_try_in_a_browser(t *testing.T) {
	b := newBrowser(t, githubConsole(t), "ada")
	b.run(
		chromedp.EmulateViewport(1440, 900), chromedp.Navigate(b.site.URL+"/console/tools/mcp/issues_create"), chromedp.WaitVisible("#a-title", chromedp.ByQuery),
		chromedp.SendKeys("#a-owner", "o", chromedp.ByQuery), chromedp.SendKeys("#a-title", "It fails", chromedp.ByQuery), chromedp.SendKeys("#a-labels", "bug\nui", chromedp.ByQuery),
		chromedp.SendKeys("#a-milestone", "soon", chromedp.ByQuery), chromedp.Click(`//button[@value="send"]`, chromedp.BySearch),
	)
	b.wait(`document.querySelector("#a-repo").getAttribute("aria-invalid") === "true" && document.querySelector("#a-repo-problem").textContent.includes("required")`)
	b.wait(`document.activeElement.id === "answer-title" && !document.querySelector("#a-title").hasAttribute("aria-invalid")`)
	b.view("try-invalid", 1440, 900)
	b.check("try-invalid")
	b.run(
		chromedp.EmulateViewport(1440, 900), chromedp.SendKeys("#a-repo", "r", chromedp.ByQuery), chromedp.Evaluate(`document.querySelector("#a-milestone").value = ""`, nil), chromedp.Click(`//button[@value="send"]`, chromedp.BySearch),
	)
	b.wait(`!document.querySelector("#a-repo").hasAttribute("aria-invalid") && (request => request && request.textContent.includes('"It fails"') && request.textContent.replace(/\s/g, "").includes('["bug","ui"]'))(document.querySelector("#request-text"))`)
}

// TestConsole_approves_tools_in_a_browser approves a changed tool, and then all others.
func TestConsole_approves_tools_in_a_browser(t *testing.T) {
	s := lockedConsole(t)
	b := newBrowser(t, s, "eve")
	k := &task{browser: b}
	k.open("/console")
	b.run(k.click(`//a[@data-key="g t"]`), k.click(`//details[contains(@class, "fold")]/summary`), chromedp.WaitVisible(".diff ins", chromedp.ByQuery))
	b.view("lock", 1440, 900)
	b.check("lock")
	b.run(k.click(`//button[@value="listTrips"]`), chromedp.WaitVisible(`//p[@role="status" and contains(., "Approved: 1")]`, chromedp.BySearch))
	k.atMost(3)
	sitetest.Eventually(t, "the approved tool", func() bool {
		return strings.Contains(s.ToolList(), "listTrips") && !strings.Contains(s.ToolList(), `"book"`)
	})
	b.run(chromedp.Click("details.fold summary", chromedp.ByQuery), chromedp.Click(`//button[@name="all"]`, chromedp.BySearch), chromedp.WaitVisible(`//p[@role="status" and contains(., "Approved: 2")]`, chromedp.BySearch))
	sitetest.Eventually(t, "all tools", func() bool { return strings.Contains(s.ToolList(), `"book"`) })
	s.Logged("approved", `"user":"eve"`, filepath.Base("tools.lock"), `"level":"info"`)
}

// TestConsole_live_lists_in_a_browser checks lists that update themselves: rows at the top, and the loss of the connection.
func TestConsole_live_lists_in_a_browser(t *testing.T) {
	s := consoleSite(t, "", "mcp TRIPS\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
	b := newBrowser(t, s, "ada")
	b.run(chromedp.Navigate(s.URL+"/console/calls"), chromedp.WaitVisible("#ended", chromedp.ByQuery))
	b.run(network.EmulateNetworkConditions(true, 0, -1, -1))
	b.wait(`document.querySelector("#ended.stale") && document.querySelector(".disconnected").textContent.includes("Disconnected since")`)
	b.run(network.EmulateNetworkConditions(false, 0, -1, -1))
	b.wait(`!document.querySelector("#ended.stale") && !document.querySelector(".disconnected")`)
	b.mu.Lock()
	b.faults = nil // of the lost connection
	b.mu.Unlock()
	b.run(chromedp.EmulateViewport(1280, 800), chromedp.Evaluate(`
		document.querySelector("#ended").remove();
		window.list = document.createElement("div");
		list.dataset.live = "rows";
		list.dataset.max = "60";
		list.innerHTML = "<ul data-rows>" + Array.from({length: 50}, (_, i) => "<li id='r" + i + "'>row " + i + "<br><time datetime='2026-01-01T00:00:00Z'>x</time></li>").join("") + "</ul>";
		document.querySelector("main").append(list);
		scrollTo(0, 600);
		getSelection().selectAllChildren(document.querySelector("#r30"));
		window.seen = document.querySelector("#r30").getBoundingClientRect().top;
		window.kept = document.querySelector("#r31");
		window.rows = Array.from({length: 20}, (_, i) => { let li = document.createElement("li"); li.id = "n" + i; li.textContent = "new " + i; return li; });
		let changed = document.querySelector("#r32").cloneNode(true); changed.firstChild.textContent = "changed";
		let same = document.querySelector("#r31").cloneNode(true); same.querySelector("time").textContent = "y";
		window.began = performance.now();
		consoleRows(list, [...rows, same, changed]);
	`, nil))
	b.wait(`document.querySelector("#n0") && (window.took = window.took || performance.now() - began)`)
	for what, script := range map[string]string{
		"20 rows take two seconds":           `took >= 1800`,
		"rows are newest first":              `list.querySelector("[data-rows]").firstElementChild.id === "n0" && document.querySelector("#n0").nextElementSibling.id === "n1"`,
		"the row in view stays":              `Math.abs(document.querySelector("#r30").getBoundingClientRect().top - seen) < 2`,
		"the selection stays":                `getSelection().toString().includes("row 30")`,
		"rows that are the same stay":        `document.querySelector("#r31") === kept`,
		"changed rows are replaced":          `document.querySelector("#r32").textContent.startsWith("changed")`,
		"the list has no more rows than max": `list.querySelectorAll("li").length === 60`,
	} {
		var ok bool
		if b.run(chromedp.Evaluate(script, &ok)); !ok {
			t.Errorf("it is not true that %s", what)
		}
	}
}
