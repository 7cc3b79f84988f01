package inspectors_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// reviewing are the inspectors of a toolset that require reviews of arguments, and mask everything else.
const reviewing = "inspect secrets\ninspect pii review {\nreviewer privacy\n}\ninspect pii mask\n"

// reviewOptions are the options of oagent for reviews.
const reviewOptions = `review_wait off
	reviews     /reviews
	engagements /engagements
	auditors    eve
	reviewer privacy {
		people ann dora
	}
	originals dora {
		secret 0123456789abcdef0123456789abcdef
	}`

// A reviewedSite is a site whose API gets what people have approved.
type reviewedSite struct {
	*sitetest.Site
	received []string // by the API: bodies and queries
}

func newReviewedSite(t *testing.T, inspectors, capabilities string) *reviewedSite {
	t.Helper()
	s := &reviewedSite{Site: sitetest.NewSite(t)}
	s.Write("agent.yaml", sitetest.AgentDocument("desk", capabilities))
	s.start(inspectors, reviewOptions)
	return s
}

// start starts the site, also with another configuration.
func (s *reviewedSite) start(inspectors, options string) {
	s.T.Helper()
	api := sitetest.Upstream(s.T, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.received = append(s.received, string(body)+r.URL.RawQuery)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"7"}`)
	})
	s.Start("agents {\n\tstore bolt DIR/store.db\naudit {\nsink file DIR/audit.jsonl\n}\ncalls {\narguments to\nresults\n}\ntoolset trips {\nopenapi TRIPS\n"+inspectors+"}\n}",
		"route {\ntest_user\nagents_console\nmcp trips\notc /otc trips\noagent DIR/agent.yaml {\n"+options+"\n}\nreverse_proxy "+api+"\n}")
}

// as sends a request as a user.
func (s *reviewedSite) as(user, method, path, body string) sitetest.Response {
	s.T.Helper()
	return s.Request(method, path, body, "X-Test-User", user)
}

// pending returns the only review of a reviewer.
func (s *reviewedSite) pending(reviewer string) (id string) {
	s.T.Helper()
	list := sitetest.Decode[struct{ Reviews []struct{ ID string } }](s.T, s.as(reviewer, "GET", "/reviews", ""))
	if len(list.Reviews) != 1 {
		s.T.Fatalf("%s has the reviews %+v", reviewer, list)
	}
	return list.Reviews[0].ID
}

// originalStatus returns the status of a request for an original.
func (s *reviewedSite) originalStatus(id string) int {
	return s.as("dora", "GET", "/reviews/"+id+"/original", "").Status
}

const createTrip = "\n  create-trip: {user_identity: false}\n"

// passed is all as the API gets it: secrets are masked before.
var passed = strings.Replace(all, planted[1], "[aws-access-key]", 1)

// TestReview_of_arguments approves a call that an inspector requires a review of, over MCP, OTC and as a plain request.
func TestReview_of_arguments(t *testing.T) {
	for protocol, send := range map[string]func(s *reviewedSite, to string) string{
		"MCP": func(s *reviewedSite, to string) string { return call(s.Site, "createTrip", `{"to":`+quoted(to)+`}`) },
		"OTC": func(s *reviewedSite, to string) string {
			return s.as("ada", "POST", "/otc/call", `{"request":{"tool_id":"Trips.createTrip","input":{"to":`+quoted(to)+`}}}`).Body
		},
		"plain": func(s *reviewedSite, to string) string {
			return s.as("ada", "POST", "/trips", `{"to":`+quoted(to)+`}`).Body
		},
	} {
		t.Run(protocol, func(t *testing.T) {
			s := newReviewedSite(t, reviewing, createTrip)
			value, want := all, passed
			if protocol == "plain" { // nothing of it can be masked
				value = planted[0] + " and " + planted[2]
				want = value
			}
			refused := send(s, value)
			without(t, "the response", refused)
			if len(s.received) != 0 || !strings.Contains(refused, "review") {
				t.Fatalf("before the review, the API received %q: %s", s.received, refused)
			}
			id := s.pending("ann")
			review := s.as("ann", "GET", "/reviews/"+id, "").Body
			without(t, "the review", review)
			if !strings.Contains(review, `"found":["card","email"]`) || !strings.Contains(review, `"inspector":"pii"`) || !strings.Contains(review, "[email]") {
				t.Errorf("the review is %s", review)
			}
			page := s.as("dora", "GET", "/console/reviews/"+id, "").Body
			without(t, "the page of the console", page)
			if !strings.Contains(page, `href="/reviews/`+id+`/original"`) {
				t.Errorf("the page of the console does not lead to the original: %s", page)
			}
			for user, status := range map[string]int{"ann": 403, "eve": 404, "ada": 404, "dora": 200} {
				if a := s.as(user, "GET", "/reviews/"+id+"/original", ""); a.Status != status {
					t.Errorf("%s reads the original: status %d, want %d", user, a.Status, status)
				} else if status == 200 && !strings.Contains(a.Body, `"inputs":{"to":`+quoted(want)+`}`) {
					t.Errorf("the original is %s", a.Body)
				}
			}
			filesWithout(t, s.Site)
			if a := s.as("ann", "POST", "/reviews/"+id+"/approve", ""); a.Status != 200 {
				t.Fatalf("the decision: %d %s", a.Status, a.Body)
			}
			if status := s.originalStatus(id); status != http.StatusGone {
				t.Errorf("the original after the decision: status %d", status)
			}
			if send(s, value+" more"); len(s.received) != 0 {
				t.Errorf("changed arguments reach the API: %q", s.received)
			}
			if got := send(s, value); len(s.received) != 1 || s.received[0] != `{"to":`+quoted(want)+`}` {
				t.Errorf("the API received %q: %s", s.received, got)
			}
			if send(s, value); len(s.received) != 1 {
				t.Errorf("one approval let two calls pass: %q", s.received)
			}
			if protocol != "plain" {
				calls := s.as("eve", "GET", "/console/api/calls", "").Body
				without(t, "the log of calls", calls)
				if !strings.Contains(calls, "create-trip") && !strings.Contains(calls, "createTrip") {
					t.Errorf("the log of calls is %s", calls)
				}
			}
			record := s.record()
			if !strings.Contains(record, "[email]") || !strings.Contains(record, `"what":"original"`) || !strings.Contains(record, `"dora"`) {
				t.Errorf("the record is %s", record)
			}
			without(t, "the record", record)
			s.Logged("a reviewer has read the original inputs of a review", "dora", id)
			read := 0
			for _, e := range sitetest.Archived(s.Site) {
				if e.Type == "review" && e.Event == "original" && e.Review == id && e.DecidedBy == "dora" {
					read++
				}
			}
			if read != 1 {
				t.Errorf("the archive has %d readings of the original", read)
			}
			filesWithout(t, s.Site)
		})
	}
}

// record returns the records of all Engagements.
func (s *reviewedSite) record() string {
	s.T.Helper()
	var all strings.Builder
	for _, e := range sitetest.Decode[struct{ Engagements []struct{ Key string } }](s.T, s.as("eve", "GET", "/engagements", "")).Engagements {
		all.WriteString(s.as("eve", "GET", "/engagements/"+e.Key+"/audit", "").Body)
	}
	return all.String()
}

// TestReview_is_denied deletes the original, and refuses the call from then on.
func TestReview_is_denied(t *testing.T) {
	s := newReviewedSite(t, reviewing, createTrip)
	arguments := `{"to":` + quoted(all) + `}`
	call(s.Site, "createTrip", arguments)
	id := s.pending("dora")
	if s.originalStatus(id) != 200 || s.as("dora", "POST", "/reviews/"+id+"/deny", `{"comment":"no"}`).Status != 200 || s.originalStatus(id) != http.StatusGone {
		t.Error("the original is not there until the decision")
	}
	if got := call(s.Site, "createTrip", arguments); !strings.Contains(got, "denied") || len(s.received) != 0 {
		t.Errorf("after the decision, the API received %q: %s", s.received, got)
	}
	without(t, "the record", s.record())
}

// TestReview_by_two_reviewers lets a call pass that the agent's document and an inspector require reviews of, when both have approved it.
func TestReview_by_two_reviewers(t *testing.T) {
	s := newReviewedSite(t, reviewing, "\n  create-trip: {user_identity: false, input_restriction: {assertion: 'recent[\"create-trip\"].inputs.to.contains(\"@example.com\")', require_review: grace}}\n")
	arguments := `{"to":` + quoted(all) + `}`
	for _, reviewer := range []string{"grace", "ann"} {
		if got := call(s.Site, "createTrip", arguments); len(s.received) != 0 {
			t.Fatalf("before %s has approved, the API received %q: %s", reviewer, s.received, got)
		}
		id := s.pending(reviewer)
		without(t, "the review of "+reviewer, s.as(reviewer, "GET", "/reviews/"+id, "").Body)
		if a := s.as(reviewer, "POST", "/reviews/"+id+"/approve", ""); a.Status != 200 {
			t.Fatalf("%s: %d %s", reviewer, a.Status, a.Body)
		}
	}
	if got := call(s.Site, "createTrip", arguments); len(s.received) != 1 || s.received[0] != `{"to":`+quoted(passed)+`}` {
		t.Errorf("the API received %q: %s", s.received, got)
	}
	without(t, "the record", s.record())
	filesWithout(t, s.Site)
}

// TestReview_values_stay_out_of_failures plants values in arguments that are not valid, and in an expression that cannot be evaluated.
func TestReview_values_stay_out_of_failures(t *testing.T) {
	s := newReviewedSite(t, reviewing, "\n  create-trip: {user_identity: false, input_restriction: {assertion: '{\"Bern\": 1}[recent[\"create-trip\"].inputs.to] == 1'}}\n")
	for _, arguments := range []string{
		`{"to":` + quoted(all) + `}`, `{"to":[` + quoted(all) + `]}`, `{"to":` + quoted("x") + `,` + quoted(planted[0]) + `:1}`,
		`{"to":"x",` + quoted(planted[0]) + `:1,` + quoted(strings.ToUpper(planted[0][:1])+planted[0][1:]) + `:1}`,
	} {
		got := call(s.Site, "createTrip", arguments)
		if !strings.Contains(got, `"isError":true`) || len(s.received) != 0 {
			t.Errorf("%s: the API received %q: %s", arguments, s.received, got)
		}
		without(t, "the response", got)
	}
	without(t, "the record", s.record())
	filesWithout(t, s.Site)
}

// TestReview_without_oagent refuses calls that no agent governs.
func TestReview_without_oagent(t *testing.T) {
	received := 0
	api := sitetest.Upstream(t, func(http.ResponseWriter, *http.Request) { received++ })
	const warning = "no oagent handler after the endpoint has them"
	for name, block := range map[string]string{
		"no oagent":     "mcp trips\n",
		"another path":  "mcp trips\nroute /other/* {\noagent DIR/agent.yaml {\n" + reviewOptions + "\n}\n}\n",
		"behind an API": "mcp trips\nreverse_proxy /trips " + api + "\noagent DIR/agent.yaml {\n" + reviewOptions + "\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewSite(t)
			s.Write("agent.yaml", sitetest.AgentDocument("desk", createTrip))
			s.Start("agents {\n\tstore bolt DIR/store.db\ntoolset trips {\nopenapi TRIPS\n"+reviewing+"}\n}", "route {\ntest_user\n"+block+"reverse_proxy "+api+"\n}")
			got := call(s, "createTrip", `{"to":`+quoted(all)+`}`)
			if received != 0 || !strings.Contains(got, "requires a review") || !strings.Contains(got, `"isError":true`) {
				t.Errorf("the API received %d requests: %s", received, got)
			}
			without(t, "the response", got)
			s.Logged("an inspector requires a review", "add oagent")
			if !s.HasLogged(warning) {
				t.Error("no warning at the start")
			}
			filesWithout(t, s)
		})
	}
}

// TestReview_of_a_webhook lets a server decide for a review, with and without masked content.
func TestReview_of_a_webhook(t *testing.T) {
	decide := map[string]string{
		"masked":     `{"decision":"review","content":{"to":"***"},"labels":["city"]}`,
		"original":   `{"decision":"review"}`,
		"no object":  `{"decision":"review","content":[1]}`,
		"in results": `{"decision":"pass"}`,
	}
	c := &checker{}
	address := sitetest.Upstream(t, c.ServeHTTP)
	for name, decision := range decide {
		t.Run(name, func(t *testing.T) {
			c.respond = func(w http.ResponseWriter, _ *http.Request, phase, _ string) {
				if phase == "result" {
					_, _ = io.WriteString(w, map[bool]string{true: `{"decision":"review"}`, false: `{"decision":"pass"}`}[name == "in results"])
					return
				}
				_, _ = io.WriteString(w, decision)
			}
			s := newReviewedSite(t, "inspect webhook http://"+address+"/check {\nsecret 0123456789abcdef0123456789abcdef\nphases arguments result\nreviewer privacy\n}\n", createTrip)
			got := call(s.Site, "createTrip", `{"to":"Bern"}`)
			switch name {
			case "in results":
				if len(s.received) != 1 || !strings.Contains(got, "withheld") {
					t.Errorf("the API received %q: %s", s.received, got)
				}
				return
			case "no object":
				if len(s.received) != 0 || !strings.Contains(got, `"isError":true`) || strings.Contains(s.as("ann", "GET", "/reviews", "").Body, `"id"`) {
					t.Errorf("the API received %q: %s", s.received, got)
				}
				return
			}
			id := s.pending("ann")
			review := s.as("ann", "GET", "/reviews/"+id, "").Body
			if strings.Contains(review, "Bern") == (name == "masked") {
				t.Errorf("the review is %s", review)
			}
			if status := s.originalStatus(id); (status == 200) != (name == "masked") {
				t.Errorf("the original: status %d", status)
			}
			s.as("ann", "POST", "/reviews/"+id+"/approve", "")
			if got := call(s.Site, "createTrip", `{"to":"Bern"}`); len(s.received) != 1 || s.received[0] != `{"to":"Bern"}` {
				t.Errorf("the API received %q: %s", s.received, got)
			}
		})
	}
}

// TestReview_of_a_hosted_agent keeps the original for the call while the run waits, and out of the conversation.
func TestReview_of_a_hosted_agent(t *testing.T) {
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", createTrip),
		sitetest.Play(sitetest.Calls("create-trip", `{"to":`+quoted(all)+`}`), modelserver.Step{Text: "Created."}))
	var received string
	s.API.Respond = func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		received = string(body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"7"}`)
	}
	options := "reviews /reviews\nreviewer privacy {\npeople ann dora\n}\noriginals dora {\nsecret 0123456789abcdef0123456789abcdef\n}"
	s.Start("agents {\n\tstore bolt DIR/store.db\ntoolset trips {\nopenapi TRIPS\n"+reviewing+"}\n}", strings.ReplaceAll(s.Block(options), "toolset TRIPS", "toolset trips"))
	location := s.Begin("ada", "desk", "Create it")
	sitetest.Eventually(t, "the run waits for a review", func() bool { return s.State("ada", location).Status == "awaiting-verification" })
	list := sitetest.Decode[struct{ Reviews []struct{ ID string } }](t, s.As("ann", "GET", "/reviews", ""))
	if len(list.Reviews) != 1 || received != "" {
		t.Fatalf("the API received %q; reviews %+v", received, list)
	}
	path := "/reviews/" + list.Reviews[0].ID
	if a := s.As("dora", "GET", path+"/original", ""); a.Status != 200 || !strings.Contains(a.Body, quoted(passed)) {
		t.Errorf("the original: %d %s", a.Status, a.Body)
	}
	filesWithout(t, s.Site)
	if a := s.As("ann", "POST", path+"/approve", ""); a.Status != 200 {
		t.Fatalf("the decision: %d %s", a.Status, a.Body)
	}
	sitetest.Eventually(t, "the run ends", func() bool { return s.State("ada", location).Status == "complete" })
	if received != `{"to":`+quoted(passed)+`}` {
		t.Errorf("the API received %s", received)
	}
	requests := s.Models.Requests()
	if last := string(requests[len(requests)-1].Body); !strings.Contains(last, "[email]") {
		t.Errorf("the model got %s", last)
	} else {
		without(t, "the model", last)
	}
	without(t, "the run", s.As("ada", "GET", location, "").Body)
	filesWithout(t, s.Site)
}

// TestReview_of_a_hosted_agent_stays_required refuses the call if the inspectors no longer require the review: because they pass the
// same arguments later, or because a reload removes them.
func TestReview_of_a_hosted_agent_stays_required(t *testing.T) {
	for _, name := range []string{"passes later", "removed"} {
		t.Run(name, func(t *testing.T) {
			decided := 0
			c := &checker{respond: func(w http.ResponseWriter, _ *http.Request, _, _ string) {
				if decided++; decided > 1 && name == "passes later" {
					_, _ = io.WriteString(w, `{"decision":"pass"}`)
					return
				}
				_, _ = io.WriteString(w, `{"decision":"review","content":{"to":"***"}}`)
			}}
			webhook := "inspect webhook http://" + sitetest.Upstream(t, c.ServeHTTP) + "/check {\nsecret 0123456789abcdef0123456789abcdef\nphases arguments\nreviewer privacy\n}\n"
			s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", createTrip),
				sitetest.Play(sitetest.Calls("create-trip", `{"to":`+quoted(planted[0])+`}`), modelserver.Step{Text: "Not created."}))
			block := strings.ReplaceAll(s.Block("reviews /reviews\nreviewer privacy {\npeople ann dora\n}\noriginals dora {\nsecret 0123456789abcdef0123456789abcdef\n}"),
				"toolset TRIPS", "toolset trips")
			start := func(inspectors string) {
				s.Start("agents {\n\tstore bolt DIR/store.db\ncalls {\narguments to\n}\ntoolset trips {\nopenapi TRIPS\n"+inspectors+"}\n}", block)
			}
			start(webhook)
			location := s.Begin("ada", "desk", "Create it")
			if name == "removed" {
				sitetest.Eventually(t, "the run waits for a review", func() bool { return s.State("ada", location).Status == "awaiting-verification" })
				start("")
				id := sitetest.Decode[struct{ Reviews []struct{ ID string } }](t, s.As("ann", "GET", "/reviews", "")).Reviews[0].ID
				if a := s.As("ann", "POST", "/reviews/"+id+"/deny", ""); a.Status != 200 {
					t.Fatalf("the decision: %d %s", a.Status, a.Body)
				}
			}
			sitetest.Eventually(t, "the run ends", func() bool { return s.State("ada", location).Status == "complete" })
			for _, r := range s.API.Received() {
				t.Errorf("the API received %s %s", r.Method, r.URL)
			}
			without(t, "the run", s.As("ada", "GET", location, "").Body)
			filesWithout(t, s.Site)
		})
	}
}

// TestReview_of_an_MCP_server approves a call of a tool of an MCP server.
func TestReview_of_an_MCP_server(t *testing.T) {
	type note struct {
		Text string `json:"text"`
	}
	var received []string
	server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "keep", Description: "Keeps a note."}, func(_ context.Context, _ *mcp.CallToolRequest, in note) (*mcp.CallToolResult, any, error) {
		received = append(received, in.Text)
		return nil, nil, nil
	})
	h := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(h.Close)
	s := &reviewedSite{Site: sitetest.NewSite(t)}
	s.Write("agent.yaml", sitetest.AgentDocument("desk", "\n  keep: {user_identity: false}\n"))
	s.Start("agents {\n\tstore bolt DIR/store.db\ntoolset notes {\nmcp_server "+h.URL+"\n"+reviewing+"}\n}",
		"route {\ntest_user\nmcp\noagent DIR/agent.yaml {\n"+reviewOptions+"\n}\nmcp_servers\nrespond 418\n}")
	keep := func() string { return call(s.Site, "keep", `{"text":`+quoted(all)+`}`) }
	sitetest.Eventually(t, "the tools are loaded", func() bool { return strings.Contains(keep(), "needs a review") })
	id := s.pending("ann")
	if a := s.as("dora", "GET", "/reviews/"+id+"/original", ""); a.Status != 200 || !strings.Contains(a.Body, quoted(passed)) {
		t.Errorf("the original: %d %s", a.Status, a.Body)
	}
	if a := s.as("ann", "POST", "/reviews/"+id+"/approve", ""); a.Status != 200 || len(received) != 0 {
		t.Fatalf("the decision: %d %s; before, the server received %q", a.Status, a.Body, received)
	}
	if got := keep(); len(received) != 1 || received[0] != passed {
		t.Errorf("the server received %q: %s", received, got)
	}
	without(t, "the record", s.record())
	filesWithout(t, s.Site)
}

// TestReview_configuration wants configurations to be rejected that could not review anything.
func TestReview_configuration(t *testing.T) {
	oagent := func(options string) string {
		return "route {\nmcp trips\noagent DIR/agent.yaml {\n" + options + "\n}\nrespond OK\n}"
	}
	for name, test := range map[string]struct{ inspector, options, want string }{
		"no reviewer":             {"inspect pii review", reviewOptions, "reviewer"},
		"a reviewer who does not": {"inspect pii mask {\nreviewer ann\n}", reviewOptions, "review"},
		"results":                 {"inspect pii review {\nreviewer ann\nphases arguments result\n}", reviewOptions, "arguments"},
		"no originals":            {"inspect pii review {\nreviewer ann\n}", "", "originals"},
		"no secret":               {"inspect pii review {\nreviewer ann\n}", "originals ann", "secret"},
		"a short secret":          {"inspect pii review {\nreviewer ann\n}", "originals ann {\nsecret short\n}", "bytes"},
		"a webhook":               {"inspect webhook http://localhost/ {\nsecret 0123456789abcdef\nreviewer ann\nphases result\n}", reviewOptions, "arguments"},
	} {
		s := sitetest.NewSite(t)
		s.Write("agent.yaml", sitetest.AgentDocument("desk", createTrip))
		err := s.Load("agents {\n\tstore bolt DIR/store.db\ntoolset trips {\nopenapi TRIPS\n"+test.inspector+"\n}\n}", oagent(test.options))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}
