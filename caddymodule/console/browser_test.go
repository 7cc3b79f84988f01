package console_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// screenshots is the environment variable with the directory that screenshots are written to.
const screenshots = "FAIRWAY_SCREENSHOTS"

// browser is a page in a real browser.
type browser struct {
	t    *testing.T
	ctx  context.Context
	site *sitetest.Site

	mu     sync.Mutex
	faults []string // exceptions, violated policies and dialogs
}

// chromium starts Chromium once for all tests: a start takes more CPU than most tests.
var chromium = sync.OnceValues(func() (context.Context, error) {
	program, err := exec.LookPath("chromium")
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.Flag("hide-scrollbars", true))
	allocator, cancelAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	endChromium = func() { cancel(); cancelAllocator() }
	return ctx, chromedp.Run(ctx)
})

// endChromium ends the browser, if a test has started it.
var endChromium = func() {}

// newBrowser opens a page with cookies, storage and a cache of its own. Requests are those of the user.
func newBrowser(t *testing.T, s *sitetest.Site, user string) *browser {
	t.Helper()
	program, err := chromium()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		testkit.Missing(t, "chromium is not installed")
	case err != nil:
		t.Fatal(err)
	}
	browserWide := cdp.WithExecutor(program, chromedp.FromContext(program).Browser)
	own, err := target.CreateBrowserContext().Do(browserWide)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := target.CreateTarget("about:blank").WithBrowserContextID(own).WithNewWindow(true).Do(browserWide)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(program, chromedp.WithTargetID(tab))
	ctx, cancelTime := context.WithTimeout(ctx, 3*time.Minute)
	t.Cleanup(func() {
		cancelTime()
		cancel()
		if err := target.DisposeBrowserContext(own).Do(browserWide); err != nil {
			t.Error(err)
		}
	})
	b := &browser{t: t, ctx: ctx, site: s}
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.fault("exception: " + e.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			if e.Entry.Level == log.LevelError && !strings.Contains(e.Entry.Text, "status of 4") && !strings.Contains(e.Entry.Text, "status of 503") {
				b.fault(e.Entry.Text)
			}
		case *page.EventJavascriptDialogOpening:
			b.fault("dialog: " + e.Message)
			go func() { _ = chromedp.Run(ctx, page.HandleJavaScriptDialog(false)) }()
		}
	})
	b.run(log.Enable(), network.Enable(), b.as(user))
	return b
}

// as makes the next requests those of the user.
func (b *browser) as(user string) chromedp.Action {
	return network.SetExtraHTTPHeaders(network.Headers{"X-Test-User": user})
}

func (b *browser) fault(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, text)
}

// run runs actions.
func (b *browser) run(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatalf("%v; faults: %q", err, b.faults)
	}
}

// visit opens a page, and checks it.
func (b *browser) visit(path, name string) {
	b.t.Helper()
	b.run(chromedp.Navigate(b.site.URL+path), chromedp.WaitVisible("main h1", chromedp.ByQuery))
	b.check(name)
}

// axeResult is a violation that axe-core finds.
type axeResult struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML string }
}

// check checks the page with axe-core in each size and color scheme: no findings, no faults, and
// no horizontal scrolling on a phone. It writes screenshots of both sizes, if a directory for them is given.
func (b *browser) check(name string) {
	b.t.Helper()
	axe, err := os.ReadFile("../../testdata/npm/node_modules/axe-core/axe.min.js")
	if err != nil {
		testkit.Missing(b.t, "axe-core is not installed: run npm ci --ignore-scripts in testdata/npm")
	}
	b.run(chromedp.Evaluate(string(axe)+"; 0", nil))
	for _, view := range []struct {
		size, scheme  string
		width, height int64
		pictured      bool
	}{{"wide", "light", 1280, 800, true}, {"wide", "dark", 1280, 800, false}, {"phone", "light", 390, 844, false}, {"phone", "dark", 390, 844, true}} {
		var found []axeResult
		var overflow int
		b.run(
			chromedp.EmulateViewport(view.width, view.height),
			emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: view.scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}),
			chromedp.Evaluate(`axe.run({resultTypes: ["violations"], rules: {"target-size": {enabled: true}}}).then(r => r.violations.map(v => ({ID: v.id, Impact: v.impact, Help: v.help, Nodes: v.nodes.slice(0, 3).map(n => ({HTML: n.html}))})))`, &found,
				func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }),
			chromedp.Evaluate(`(nav => Math.max(document.documentElement.scrollWidth - window.innerWidth, nav ? nav.scrollWidth - nav.clientWidth : 0))(document.querySelector("nav"))`, &overflow),
		)
		for _, violation := range found {
			b.t.Errorf("%s (%s, %s): axe-core: %s, %s: %s: %+v", name, view.size, view.scheme, violation.Impact, violation.ID, violation.Help, violation.Nodes)
		}
		if overflow > 0 {
			b.t.Errorf("%s (%s, %s): the page or its navigation is %d pixels wider than the window", name, view.size, view.scheme, overflow)
		}
		if view.pictured && os.Getenv(screenshots) != "" {
			var picture []byte
			b.run(chromedp.FullScreenshot(&picture, 100))
			b.write(fmt.Sprintf("%s-%s-%s.png", name, view.size, view.scheme), picture)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, fault := range b.faults {
		b.t.Errorf("%s: %s", name, fault)
	}
	b.faults = nil
}

// write writes a screenshot, if a directory for them is given.
func (b *browser) write(name string, picture []byte) {
	b.t.Helper()
	dir := os.Getenv(screenshots)
	if dir == "" {
		return
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), picture, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// TestConsole_in_a_browser visits each view, calls a tool, and approves and denies a review.
func TestConsole_in_a_browser(t *testing.T) {
	s := governedConsole(t)
	b := newBrowser(t, s, "ada")
	b.visit("/console/tools", "tools")
	b.run(chromedp.SendKeys("#q", "delete a trip", chromedp.ByQuery), chromedp.WaitVisible(`//p[contains(., "best first")]`, chromedp.BySearch))
	b.check("search")
	b.visit("/console/tools/mcp/getTrip", "tool")
	b.run(
		chromedp.SendKeys("#a-id", "ic-801", chromedp.ByQuery),
		chromedp.Click(`//button[@value="send"]`, chromedp.BySearch),
		chromedp.WaitVisible("#answer-text", chromedp.ByQuery),
	)
	b.check("try")
	b.run(chromedp.Click(`//button[@value="preview"]`, chromedp.BySearch), chromedp.WaitNotPresent("#answer-text", chromedp.ByQuery), chromedp.WaitVisible("#request-text", chromedp.ByQuery))
	b.visit("/console/connect", "connect")
	first, second := sitetest.ReviewsOf(s).Ask("Bern"), sitetest.ReviewsOf(s).Ask("Basel")
	b.run(b.as("boss"))
	b.visit("/console/reviews", "reviews")
	for id, c := range map[string]struct{ button, word string }{first: {"approve", "approved"}, second: {"deny", "denied"}} {
		b.visit("/console/reviews/"+id, "review")
		b.run(
			chromedp.SendKeys("#comment", "as agreed", chromedp.ByQuery),
			chromedp.Click(`//button[@value="`+c.button+`"]`, chromedp.BySearch),
			chromedp.WaitVisible(`//p[@role="status" and contains(., "`+c.word+`")]`, chromedp.BySearch),
		)
	}
	if a := s.Request("POST", "/trips", `{"to":"Bern"}`, "X-Test-User", "ada"); a.Status != 200 {
		t.Errorf("the approved call: status %d %s", a.Status, a.Body)
	}
	if p := s.Problem(s.Request("POST", "/trips", `{"to":"Basel"}`, "X-Test-User", "ada")); p.Kind != "review_denied" || !strings.Contains(p.Detail, "as agreed") {
		t.Errorf("the denied call: %+v", p)
	}
	b.run(b.as("eve"))
	b.visit("/console/agents", "agents")
	b.visit("/console/agents/desk", "agent")
	b.run(chromedp.Navigate(s.URL+"/console/agents"), chromedp.Click(`//td[@class="title"]/a`, chromedp.BySearch), chromedp.WaitVisible(".timeline", chromedp.ByQuery))
	b.check("engagement")
	b.visit("/console/calls", "calls")
	r := s.CallRequest("listTrips", `{}`)
	r.Header.Set("X-Test-User", "carol")
	s.Do(r)
	b.run(chromedp.WaitVisible(`//td[contains(., "carol")]`, chromedp.BySearch)) // without a reload of the page
}

// TestConsole_shows_hostile_documents_in_a_browser looks for scripts that run.
func TestConsole_shows_hostile_documents_in_a_browser(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("hostile.json", hostile)
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", "route {\ntest_user\nagents_console {\nauditors ada\n}\nmcp DIR/hostile.json\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo)+"\n}")
	b := newBrowser(t, s, "ada")
	list := sitetest.ConsoleJSON[struct{ Tools []struct{ Name string } }](s, "ada", "/console/api/tools")
	b.visit("/console/tools", "hostile-tools")
	for _, tool := range list.Tools {
		b.visit("/console/tools/mcp/"+tool.Name, "hostile-tool")
		b.run(chromedp.Click(`//button[@value="preview"]`, chromedp.BySearch), chromedp.WaitVisible("#result section, #result p", chromedp.ByQuery))
	}
	b.check("hostile-result")
}

// TestConsole_shows_long_names_in_a_browser looks at pages with long names, paths and users.
func TestConsole_shows_long_names_in_a_browser(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("github.json", string(testkit.ReadDocument(t, "openapi/github-api.github.com.json.gz")))
	const user = "carol-with-a-really-long-name@engineering.example.com"
	agent := "release-and-dependency-maintenance-coordinator-for-all-repositories"
	s.Write("agent.yaml", sitetest.AgentDocument(agent, `
  actions-create-workflow-dispatch: {user_identity: false, input_restriction: {require_review: boss}}
  packages-list-docker-migration-conflicting-packages-for-user: {user_identity: false, input_restriction: {require_review: boss}}
`))
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", "route {\ntest_user\nagents_console {\nauditors eve\n}\nmcp DIR/github.json\noagent DIR/agent.yaml {\nreview_wait off\nreviews /reviews\n}\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo)+"\n}")
	for _, call := range [][2]string{
		{"packages_list_docker_migration_conflicting_packages_for_user", `{"username":"ann"}`},
		{"actions_create_workflow_dispatch", `{"owner":"o","repo":"r","workflow_id":"1","ref":"main"}`},
		{"no_such_tool", `{}`},
	} {
		r := s.CallRequest(call[0], call[1])
		r.Header.Set("X-Test-User", user)
		s.Do(r)
	}
	b := newBrowser(t, s, "eve")
	for name, path := range map[string]string{
		"agents": "/console/agents", "agent": "/console/agents/" + agent, "calls": "/console/calls", "no-calls": "/console/calls?tool=none",
		"tool": "/console/tools/mcp/packages_list_docker_migration_conflicting_packages_for_user",
	} {
		b.visit(path, "long-"+name)
		for _, width := range []int64{1280, 700, 390} {
			var broken []string
			b.run(chromedp.EmulateViewport(width, 800), chromedp.Evaluate(overflowing, &broken))
			if len(broken) > 0 {
				b.t.Errorf("%s, %d pixels wide: content is outside of its box, or a label is broken: %q", path, width, broken)
			}
		}
	}
	// The result of a long form is in view, though its place is at the top of the page.
	b.visit("/console/tools/mcp/issues_create", "long-form")
	b.run(
		chromedp.EmulateViewport(1280, 800),
		chromedp.Click(`//button[@value="preview"]`, chromedp.BySearch),
		chromedp.WaitVisible("#result .notice", chromedp.ByQuery),
		chromedp.Poll(`(top => top >= document.querySelector(".bar").offsetHeight && top < innerHeight)(document.querySelector("#result").getBoundingClientRect().top)`, nil),
	)
}

// overflowing is a script that returns the texts that are wider than the box around them, and the labels that take
// more than one line.
const overflowing = `[...document.querySelectorAll("main .card, main .list, main td, main th, main h1, main h3, main .crumb")]
	.filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== "inline")
	.concat([...document.querySelectorAll("td .tag, td[data-label=Record] a")].filter(e => e.getClientRects().length > 1 || e.offsetHeight > 30))
	.map(e => e.tagName + " " + e.textContent.slice(0, 60))`

// TestConsole_shows_large_documents_in_a_browser searches 1,223 tools as a user types.
func TestConsole_shows_large_documents_in_a_browser(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("github.json", string(testkit.ReadDocument(t, "openapi/github-api.github.com.json.gz")))
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", "route {\ntest_user\nagents_console\nmcp DIR/github.json\nrespond ok\n}")
	b := newBrowser(t, s, "ada")
	b.visit("/console/tools", "github")
	b.run(chromedp.SendKeys("#q", "close the ticket", chromedp.ByQuery), chromedp.WaitVisible(`//p[contains(., "best first")]`, chromedp.BySearch))
	b.check("github-search")
}

// TestConsole_follows_a_run_in_a_browser opens the page of a run in progress. It updates without a reload, and keeps
// the selection and the scroll position. A stream that breaks is reported.
func TestConsole_follows_a_run_in_a_browser(t *testing.T) {
	calls, answer := make(chan struct{}), make(chan struct{})
	steps := sitetest.Play(
		modelserver.Step{Text: "I look up the trip.", Calls: []modelserver.Call{{ID: "a", Name: "get-trip", Arguments: `{"id":"7"}`}, {ID: "b", Name: "get-trip", Arguments: `no JSON`}}},
		modelserver.Step{Text: "Not yet.", Wait: calls, Calls: []modelserver.Call{{ID: "c", Name: "get-trip", Arguments: `{"id":"8"}`}}},
		modelserver.Step{Text: "It departs at eight, from platform seven.", WaitMidStream: answer},
	)
	s := hostedConsole(t, "\n  get-trip: {user_identity: false}\n", func(r *modelserver.Request) modelserver.Step {
		if strings.HasPrefix(r.Messages[len(r.Messages)-1].Text, "Who?") {
			return sitetest.Calls("ask-user", `{"question":"Which one?"}`)
		}
		return steps(r)
	})
	b := newBrowser(t, s.Site, "ada")
	s.Begin("ada", "desk", strings.Repeat("When does trip 7 depart?\n", 30))
	k := &task{browser: b}
	k.open("/console")
	b.run(k.click(`//nav//a[text()="Agents"]`), k.click(`//a[contains(@href, "/console/engagements/")]`), chromedp.WaitVisible(`#turn-2`, chromedp.ByQuery), chromedp.WaitVisible(`//li[@id="turn-1"]//span[text()="rejected"]`, chromedp.BySearch))
	k.atMost(2)
	b.check("run")
	var before, after struct {
		Top      float64
		Selected string
	}
	const look = `({Top: document.querySelector("#turn-1").getBoundingClientRect().top, Selected: String(getSelection())})`
	b.run(
		chromedp.EmulateViewport(1280, 400),
		chromedp.Evaluate(`scrollTo(0, 300); getSelection().selectAllChildren(document.querySelector("#turn-1 .prose")); document.querySelector("#turn-1 details").open = true; 0`, nil),
		chromedp.Evaluate(look, &before),
	)
	close(calls)
	b.run(chromedp.WaitVisible(`#turn-3 #writing`, chromedp.ByQuery), chromedp.Poll(`document.querySelector("#writing").textContent.startsWith("It departs")`, nil), chromedp.Evaluate(look, &after))
	if before.Selected != "I look up the trip." || after != before {
		t.Errorf("before the update %+v, after it %+v", before, after)
	}
	var open bool
	b.run(chromedp.Evaluate(`document.querySelector("#turn-1 details").open`, &open))
	if !open {
		t.Error("the update closes what was open")
	}
	close(answer)
	b.run(chromedp.WaitVisible(`//section[@id="run-head"]//span[text()="complete"]`, chromedp.BySearch), chromedp.WaitNotPresent("#writing", chromedp.ByQuery))
	b.check("run-complete")

	third := s.Begin("ada", "desk", "Who?")
	notice := `document.querySelector("#disconnected").hidden`
	b.run(chromedp.Navigate(s.URL+"/console"+third), chromedp.WaitVisible("#turn-1", chromedp.ByQuery), chromedp.Poll(notice, nil))
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", "respond broken 503")
	b.run(chromedp.Poll("!"+notice, nil))
	b.check("run-disconnected")
	startHostedConsole(s)
	b.run(chromedp.Poll(notice, nil))
}

// TestConsole_approves_on_a_phone decides a review in three taps from the first page, with what is needed on the screen.
func TestConsole_approves_on_a_phone(t *testing.T) {
	s := hostedConsole(t, "\n  create-trip: {user_identity: false, input_restriction: {require_review: boss, assertion: 'recent[\"create-trip\"].inputs.to != \"Rome\"'}}\n",
		func(r *modelserver.Request) modelserver.Step {
			return sitetest.Play(sitetest.Calls("create-trip", `{"to":"Rome"}`), sitetest.Calls("create-trip", `{"to":"Bern"}`), modelserver.Step{Text: "Booked."})(r)
		})
	b := newBrowser(t, s.Site, "boss")
	for button, word := range map[string]string{"approve": "approved", "deny": "denied"} {
		location := s.Begin("ada", "desk", "Please book a trip to Rome, or else to Bern.")
		s.State("ada", location)
		taps := 0
		tap := func(selector string) chromedp.Action {
			taps++
			return chromedp.Click(selector, chromedp.BySearch, chromedp.NodeVisible)
		}
		b.run(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile), chromedp.Navigate(s.URL+"/console"), tap(`//nav//a[contains(., "Reviews")]`), chromedp.WaitVisible("#reviews", chromedp.ByQuery),
			tap(`//a[@class="name" and text()="create-trip"]`), chromedp.WaitVisible(".decide", chromedp.ByQuery))
		var hidden []string
		var height float64
		b.run(
			chromedp.Evaluate(`[...document.querySelectorAll(".decide blockquote, .decide .method, .decide dd pre, .decide .plain, .decide button")].filter(e => { const r = e.getBoundingClientRect(); return r.top < 0 || r.bottom > innerHeight; }).map(e => e.textContent)`, &hidden),
			chromedp.Evaluate(`Math.min(...[...document.querySelectorAll(".decide button")].map(e => e.offsetHeight))`, &height),
		)
		if len(hidden) > 0 || height < 44 {
			t.Errorf("not on the screen: %q; the buttons are %g pixels high", hidden, height)
		}
		b.check("review-" + button)
		b.run(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile), tap(`//button[@value="`+button+`"]`), chromedp.WaitVisible(`//p[@role="status" and contains(., "`+word+`") and contains(., "create-trip")]`, chromedp.BySearch))
		if taps != 3 {
			t.Errorf("%d taps, want 3", taps)
		}
		if v := s.State("ada", location); v.Status != "complete" {
			t.Errorf("%s: state %+v", button, v)
		}
	}
	b.check("decisions")
	s.State("ada", s.Begin("ada", "desk", "Another trip to Bern, please."))
	b.run(
		chromedp.WaitVisible(`//ul[@class="list"]//a[text()="create-trip"]`, chromedp.BySearch), // without a reload of the page
		chromedp.Evaluate(`htmx.ajax("GET", "/console/reviews?count", "#waiting"); 0`, nil),     // as every 30 seconds
		chromedp.Poll(`document.title.startsWith("(1) ") && document.querySelector("#waiting").textContent.includes("1")`, nil),
	)
}
