package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestConsole_answers_questions_of_operators does tasks that need an id, a time, a file or a report.
func TestConsole_answers_questions_of_operators(t *testing.T) {
	s := operatedConsole(t)
	r := s.CallRequest("getTrip", `{"id":"broken"}`)
	r.Header.Set("X-Test-User", "ada")
	_, id, _ := strings.Cut(s.Result(s.Do(r)).Content[0].Text, "finds this call as ")
	k := &task{browser: newBrowser(t, s, "eve")}

	// A user tells the id of an error.
	k.open("/console/calls")
	k.run(chromedp.SendKeys("#f-text", id, chromedp.ByQuery), k.click(`//form[@role="search"]//button[text()="Filter"]`), chromedp.WaitVisible(`//a[text()="Clear"]`, chromedp.BySearch))
	k.wait(`location.search.includes("` + id + `") && document.querySelectorAll("#ended tbody tr").length === 1`)
	k.run(k.click(`//td[@class="reason"]/a`), chromedp.WaitVisible(`//code[@id="call" and text()="`+id+`"]`, chromedp.BySearch), chromedp.WaitVisible(`//p[@class="reason" and contains(., "database")]`, chromedp.BySearch))
	k.atMost(2)

	// What happened at an exact time? The first call is 5 minutes old at most.
	k.open("/console/calls")
	format := func(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05") }
	k.run(chromedp.SetValue("#f-from", format(time.Now().Add(-5*time.Minute)), chromedp.ByQuery), chromedp.SetValue("#f-to", format(time.Now().Add(time.Minute)), chromedp.ByQuery), k.click(`//form[@role="search"]//button[text()="Filter"]`), chromedp.WaitVisible(`//a[text()="Clear"]`, chromedp.BySearch))
	k.wait(`location.search.includes("from=") && document.querySelectorAll("#ended tbody tr").length === 9 && document.querySelector("#f-from").value && document.querySelector("#f-to").value`)
	k.run(chromedp.SetValue("#f-to", format(time.Now().Add(-4*time.Minute)), chromedp.ByQuery), k.click(`//form[@role="search"]//button[text()="Filter"]`), chromedp.WaitVisible(`//h2[text()="No call fits the filter"]`, chromedp.BySearch))
	k.run(chromedp.Evaluate(`document.querySelector("#f-since").value = "1h"; document.querySelector("#f-since").dispatchEvent(new Event("change", {bubbles: true}))`, nil), k.click(`//form[@role="search"]//button[text()="Filter"]`), chromedp.WaitVisible(`//a[text()="CSV" and contains(@href, "since=1h")]`, chromedp.BySearch))
	k.wait(`document.querySelectorAll("#ended tbody tr").length === 9 && !document.querySelector("#f-from").value`)
	k.atMost(3)

	// A link keeps the filter.
	var link string
	k.run(chromedp.AttributeValue(`//a[text()="Link to this filter"]`, "href", &link, nil, chromedp.BySearch))
	k.open(link)
	k.wait(`location.search === "?since=1h" && document.querySelectorAll("#ended tbody tr").length === 9`)

	// A click on a chart shows the calls of its time.
	k.open("/console")
	k.wait(`document.querySelectorAll(".chart canvas").length === 2`)
	var center []float64
	k.run(chromedp.Evaluate(`(b => [b.x + b.width / 2, b.y + b.height / 2])(document.querySelector(".chart .u-over").getBoundingClientRect())`, &center))
	k.run(chromedp.MouseEvent(input.MouseMoved, center[0], center[1]), chromedp.MouseClickXY(center[0], center[1]), chromedp.WaitVisible("#f-from", chromedp.ByQuery))
	k.wait(`(q => Date.parse(q.get("until")) - Date.parse(q.get("since")) === 15000)(new URLSearchParams(location.search)) && document.querySelector("#f-to").value > document.querySelector("#f-from").value`)

	// Which API should be mended, and how?
	k.open("/console")
	k.run(k.click(`//a[text()="What to mend, by tool"]`), k.click(`//table//a[code="getTrip"]`), chromedp.WaitVisible(`//h3[text()="Wrong arguments"]/following::td[text()="/id"]`, chromedp.BySearch))
	k.atMost(2)
	k.check("task-report")
	k.open("/console/report")
	k.check("task-reports")
}

// TestConsole_fills_in_a_skeleton calls a tool with a nested body.
func TestConsole_fills_in_a_skeleton(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("orders.yaml", `openapi: 3.1.0
info: {title: Orders, version: 1.0.0}
paths:
  /orders:
    post:
      operationId: createOrder
      requestBody: {required: true, content: {application/json: {schema: {type: object, required: [address], properties: {address: {type: object, required: [city, lines],
        properties: {city: {type: string}, lines: {type: array, items: {type: string}}, note: {type: string}}}}}}}}
      responses: {"200": {description: ok}}
`)
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", "route {\ntest_user\nagents_console\nmcp DIR/orders.yaml\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo)+"\n}")
	k := &task{browser: newBrowser(t, s, "ada")}
	k.open("/console/tools/mcp/createOrder")
	k.run(k.click(`//button[text()="Fill in a skeleton"]`))
	k.wait(`JSON.stringify(JSON.parse(document.querySelector("#a-address").value)) === '{"city":"","lines":[""]}'`)
	k.check("task-skeleton")
	k.run(chromedp.EmulateViewport(1440, 900), k.click(`//button[@value="send"]`), chromedp.WaitVisible("#answer-text", chromedp.ByQuery))
	k.wait(`document.querySelector("#result .tag").textContent === "ok"`)
	k.atMost(2)
}

// TestConsole_notices_a_server_that_hangs stops to respond, and responds again.
func TestConsole_notices_a_server_that_hangs(t *testing.T) {
	s := operatedConsole(t)
	target, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	var hangs atomic.Bool
	proxy := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hangs.Load() {
			<-r.Context().Done()
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	b := newBrowser(t, s, "eve")
	b.run(chromedp.Navigate(front.URL+"/console/calls"), chromedp.WaitVisible("#ended table", chromedp.ByQuery))
	hangs.Store(true)
	began := time.Now()
	b.run(chromedp.WaitVisible(`//p[contains(@class, "disconnected") and contains(., "Disconnected since")]`, chromedp.BySearch))
	if took := time.Since(began); took > 12*time.Second {
		t.Errorf("the page noticed it after %s, want 10 s", took)
	}
	hangs.Store(false)
	b.wait(`!document.querySelector(".disconnected")`)
}

// TestConsole_shows_the_ends_of_long_names cuts names in the middle, and keeps underscores visible.
func TestConsole_shows_the_ends_of_long_names(t *testing.T) {
	s := sitetest.NewSite(t)
	document := "openapi: 3.1.0\ninfo: {title: Long, version: 1.0.0}\npaths:\n"
	for _, end := range []string{"ById", "ByName", "Settings"} {
		document += "  /" + end + ":\n    get: {operationId: retrieveOrganizationDepartmentResourceCollection" + end + ", responses: {\"200\": {description: ok}}}\n"
	}
	s.Write("long.yaml", document)
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", "route {\ntest_user\nagents_console\nmcp DIR/long.yaml\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo)+"\n}")
	for _, end := range []string{"ById", "ByName", "Settings"} {
		callAs(s, "ada", "retrieveOrganizationDepartmentResourceCollection"+end, `{}`)
	}
	b := newBrowser(t, s, "ada")
	for path, names := range map[string]string{"/console/tools": ".row .name", "/console/calls": "#ended td.tool a"} {
		b.run(chromedp.EmulateViewport(1280, 800), chromedp.Navigate(s.URL+path), chromedp.WaitVisible("main h1", chromedp.ByQuery))
		var wrong []string
		b.run(chromedp.Evaluate(`[...document.querySelectorAll("`+names+`")].filter(a => {
			var box = a.getBoundingClientRect(), end = a.querySelector(".middle > :last-child").getBoundingClientRect(), begin = a.querySelector(".middle > :first-child");
			return end.right > box.right + 1 || end.width < 20 || begin.scrollWidth <= begin.clientWidth || !a.title.startsWith("retrieve") || a.textContent !== a.title;
		}).map(a => a.outerHTML)`, &wrong))
		if len(wrong) > 0 {
			t.Errorf("%s: the names do not end visibly: %q", path, wrong)
		}
		b.check("long-names" + strings.ReplaceAll(path, "/", "-"))
	}
}
