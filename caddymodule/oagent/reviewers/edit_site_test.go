package reviewers_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	_ "github.com/fairwayhq/fairway/caddymodule/archive"
	_ "github.com/fairwayhq/fairway/caddymodule/inspectors"
	_ "github.com/fairwayhq/fairway/caddymodule/otc"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// payments is the document of the API.
const payments = `openapi: 3.1.0
info: {title: Payments, version: "1"}
paths:
  /payments:
    post:
      operationId: pay
      requestBody:
        required: true
        content: {application/json: {schema: {type: object, additionalProperties: false, required: [to, amount], properties: {
          to: {type: string}, amount: {type: integer, maximum: 9999}, currency: {type: string}, note: {type: string}}}}}
      responses: {"200": {description: ok, content: {application/json: {schema: {type: object}}}}}
`

// checkPayment is an inspector. It requires a review of amounts from 1000 on, which the reviewer sees, and of cards, which the reviewer
// does not see. It rejects a note with "forbidden", and masks one with "secret".
func checkPayment(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Content struct {
			Amount int
			Note   string
		}
	}
	_ = json.NewDecoder(r.Body).Decode(&asked)
	answer := `{"decision":"pass"}`
	switch c := asked.Content; {
	case strings.Contains(c.Note, "forbidden"):
		answer = `{"decision":"reject","message":"no such note"}`
	case strings.Contains(c.Note, "secret"):
		answer = `{"decision":"mask","content":{"to":"x","amount":1,"currency":"EUR","note":"***"}}`
	case strings.Contains(c.Note, "4111"):
		answer = `{"decision":"review","content":{"to":"x","amount":1,"currency":"EUR","note":"[card]"}}`
	case c.Amount >= 1000:
		answer = `{"decision":"review","labels":["large"]}`
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, answer)
}

// editSite is a site with an API for payments. ann and bob may change arguments, and uma may not.
type editSite struct {
	*sitetest.Site
	bodies chan string // that the API has received
}

func newEditSite(t *testing.T, rules string) *editSite {
	t.Helper()
	s := &editSite{sitetest.NewSite(t), make(chan string, 100)}
	api := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.bodies <- string(body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"paid":true}`)
	})
	s.Write("payments.yaml", payments)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", "\n  pay: {user_identity: false, "+rules+"}\n"))
	s.Start(`agents {
	toolset payments {
		openapi DIR/payments.yaml
		inspect webhook http://`+sitetest.Upstream(t, checkPayment)+`/ {
			secret 0123456789abcdef0123456789abcdef
			phases arguments
			reviewer audit
		}
	}
	store bolt DIR/store.db
	audit {
		sink file DIR/audit.jsonl
	}
}`, `route {
	test_user
	agents_console
	mcp payments
	otc payments
	oagent DIR/agent.yaml {
		review_wait off
		reviews     /reviews
		engagements /engagements
		auditors    eve
		originals {
			secret 0123456789abcdef0123456789abcdef
		}
		reviewer boss {
			people ann bob
			may_edit
		}
		reviewer audit {
			people ann ben
			may_edit
		}
		reviewer clerk {
			people uma
		}
	}
	reverse_proxy `+api+"\n}")
	return s
}

// as sends a request as a user.
func (s *editSite) as(user, method, path, body string) sitetest.Response {
	s.T.Helper()
	return s.Request(method, path, body, "X-Test-User", user)
}

// mcp calls the tool over MCP, and returns the response.
func (s *editSite) mcp(arguments string) string {
	s.T.Helper()
	message := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":` + arguments + `}}`
	return s.Post("/mcp", message, map[string]string{"X-Test-User": "ada"}).Body
}

// otc calls the tool over OTC, and returns the response with its header.
func (s *editSite) otc(arguments string) string {
	s.T.Helper()
	a := s.as("ada", "POST", "/otc/call", `{"request":{"tool_id":"Payments.pay","input":`+arguments+`}}`)
	var header strings.Builder
	_ = a.Header.Write(&header)
	return a.Body + header.String()
}

// rest makes the request to the API itself.
func (s *editSite) rest(arguments string) string {
	s.T.Helper()
	return s.as("ada", "POST", "/payments", arguments).Body
}

// open returns the paths of the reviews that a user can decide.
func (s *editSite) open(user string) (paths []string) {
	s.T.Helper()
	for _, id := range sitetest.Decode[struct{ IDs []string }](s.T, s.as(user, "GET", "/reviews?list=ids", "")).IDs {
		paths = append(paths, "/reviews/"+id)
	}
	return paths
}

// review returns the path of the only review that a user can decide.
func (s *editSite) review(user string) string {
	s.T.Helper()
	open := s.open(user)
	if len(open) != 1 {
		s.T.Fatalf("%s has the reviews %v, want one", user, open)
	}
	return open[0]
}

// received returns the bodies that the API has received since the last time.
func (s *editSite) received() (all []string) {
	for len(s.bodies) > 0 {
		all = append(all, <-s.bodies)
	}
	return all
}

const bossReviews = "input_restriction: {require_review: boss, assertion: recent.pay.inputs.amount < 5000}"

// TestEdit_over_MCP_and_OTC makes one call with the arguments of the reviewer when the client repeats its own. The result says so, and
// the record, the archive and the review have both versions and who changed them.
func TestEdit_over_MCP_and_OTC(t *testing.T) {
	for name, call := range map[string]func(*editSite, string) string{"MCP": (*editSite).mcp, "OTC": (*editSite).otc} {
		t.Run(name, func(t *testing.T) {
			s := newEditSite(t, bossReviews)
			const original = `{"to":"x","amount":480,"note":"now"}`
			if a := call(s, original); !strings.Contains(a, "review") {
				t.Fatalf("the first call: %s", a)
			}
			path := s.review("ann")
			if shown := s.as("ann", "GET", path, "").Body; !strings.Contains(shown, `"may_edit":true`) {
				t.Errorf("the review is not offered for changes: %s", shown)
			}
			decided := s.as("ann", "POST", path, `{"decision":"approve","inputs":{"to":"x","amount":300},"comment":"less"}`)
			if decided.Status != 200 || !strings.Contains(decided.Body, `"changed":"amount from 480 to 300, note removed"`) ||
				!strings.Contains(decided.Body, `"edited":{"to":"x","amount":300}`) {
				t.Fatalf("the decision: %d %s", decided.Status, decided.Body)
			}
			a := call(s, original)
			if !strings.Contains(a, "A reviewer changed the arguments before the call: amount from 480 to 300, note removed.") || !strings.Contains(a, "paid") {
				t.Errorf("the result: %s", a)
			}
			if _, id, found := strings.Cut(a, `"io.github.fairwayhq/call":"`); found { // MCP
				s.Logged(`"decision":"allowed"`, `"call_id":"`+id[:16]+`"`)
			}
			if got := s.received(); !slices.Equal(got, []string{`{"to":"x","amount":300}`}) {
				t.Errorf("the API received %q", got)
			}
			if a := call(s, original); !strings.Contains(a, "review") || len(s.received()) > 0 {
				t.Errorf("a further identical call: %s", a)
			}
			if again := s.review("ann"); again == path {
				t.Error("the approval is used twice")
			}
			list := sitetest.Decode[struct{ Engagements []struct{ Key string } }](t, s.as("eve", "GET", "/engagements", ""))
			record := s.as("eve", "GET", "/engagements/"+list.Engagements[0].Key+"/audit", "").Body
			for _, want := range []string{`"amount":480,"note":"now"`, `"inputs":{"to":"x","amount":300}`, `"decided_by":{"user":"ann","entry":"ann"}`, `"why":"changed amount, note"`} {
				if !strings.Contains(record, want) {
					t.Errorf("the record lacks %s: %s", want, record)
				}
			}
			sitetest.Eventually(t, "the change in the archive", func() bool {
				for _, e := range sitetest.Archived(s.Site) {
					if e.Event == "decided" && e.DecidedBy == "ann" && e.Why == "changed amount, note" {
						return true
					}
				}
				return false
			})
		})
	}
}

// TestEdit_errors refuses changes that are not possible. The review stays open.
func TestEdit_errors(t *testing.T) {
	const original = `{"to":"x","amount":480}`
	approve := func(inputs string) string { return `{"decision":"approve","inputs":` + inputs + `}` }
	for name, c := range map[string]struct {
		rules     string
		call      func(*editSite, string) string
		arguments string
		user      string
		body      string
		status    int
		detail    string
	}{
		"no right":            {"input_restriction: {require_review: clerk}", (*editSite).mcp, original, "uma", approve(`{"to":"x","amount":3}`), 403, "may_edit"},
		"a user":              {"input_restriction: {require_review: kim}", (*editSite).mcp, original, "kim", approve(`{"to":"x","amount":3}`), 403, "may_edit"},
		"a plain request":     {bossReviews, (*editSite).rest, original, "ann", approve(`{"to":"x","amount":3}`), 409, "tool call"},
		"masked values":       {bossReviews, (*editSite).mcp, `{"to":"x","amount":1,"note":"4111"}`, "bob", approve(`{"to":"x","amount":3}`), 409, "masked"},
		"a result":            {"output_restriction: {require_review: boss}", (*editSite).mcp, original, "ann", approve(`{"to":"x","amount":3}`), 409, "not made"},
		"a denial":            {bossReviews, (*editSite).mcp, original, "ann", `{"decision":"deny","inputs":{"to":"x","amount":3}}`, 400, "approve"},
		"a wrong type":        {bossReviews, (*editSite).mcp, original, "ann", approve(`{"to":"x","amount":"much"}`), 400, "amount"},
		"too much":            {bossReviews, (*editSite).mcp, original, "ann", approve(`{"to":"x","amount":10000}`), 400, "amount"},
		"a missing argument":  {bossReviews, (*editSite).mcp, original, "ann", approve(`{"amount":3}`), 400, "to"},
		"an unknown argument": {bossReviews, (*editSite).mcp, original, "ann", approve(`{"to":"x","amount":3,"extra":1}`), 400, "extra"},
		"no object":           {bossReviews, (*editSite).mcp, original, "ann", approve(`[1]`), 400, "object"},
		"too large":           {bossReviews, (*editSite).mcp, original, "ann", approve(`{"to":"x","amount":3,"note":"` + strings.Repeat("n", 65<<10) + `"}`), 413, "max_recorded"},
		"much too large":      {bossReviews, (*editSite).mcp, original, "ann", approve(`{"to":"x","amount":3,"note":"` + strings.Repeat("n", 300<<10) + `"}`), 413, "bytes"},
		"rejected":            {bossReviews, (*editSite).mcp, original, "ann", approve(`{"to":"x","amount":3,"note":"forbidden"}`), 400, "no such note"},
		"masked by a change":  {bossReviews, (*editSite).mcp, original, "ann", approve(`{"to":"x","amount":3,"note":"secret"}`), 400, "masks"},
		"a new card":          {bossReviews, (*editSite).mcp, original, "ann", approve(`{"to":"x","amount":3,"note":"4111"}`), 400, "masks"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newEditSite(t, c.rules)
			c.call(s, c.arguments)
			path := s.review(c.user)
			if shown := s.as(c.user, "GET", path, "").Body; strings.Contains(shown, `"may_edit":true`) != (c.status == 400 || c.status == 413) {
				t.Errorf("the review says: %s", shown)
			}
			a := s.as(c.user, "POST", path, c.body)
			if a.Status != c.status || !strings.Contains(s.Problem(a).Detail, c.detail) {
				t.Errorf("got %d %s, want %d with %q", a.Status, a.Body, c.status, c.detail)
			}
			if s.review(c.user) != path {
				t.Error("the review is not open any more")
			}
		})
	}
}

// TestEdit_is_decided_again applies the restriction and the inspector to the changed arguments. The user who has changed them does not
// also approve them for another reviewer.
func TestEdit_is_decided_again(t *testing.T) {
	s := newEditSite(t, bossReviews)
	const original = `{"to":"x","amount":480}`
	s.mcp(original)
	s.as("ann", "POST", s.review("ann"), `{"decision":"approve","inputs":{"to":"x","amount":5000}}`)
	if a := s.mcp(original); !strings.Contains(a, "capabilities.pay.input_restriction") && !strings.Contains(a, "5000") || len(s.received()) > 0 {
		t.Errorf("against the restriction: %s", a)
	}

	s = newEditSite(t, bossReviews)
	s.mcp(original)
	s.as("ann", "POST", s.review("ann"), `{"decision":"approve","inputs":{"to":"x","amount":2000}}`)
	if a := s.mcp(original); !strings.Contains(a, "review") || len(s.received()) > 0 {
		t.Errorf("an amount that audit must approve: %s", a)
	}
	if open := s.open("ann"); len(open) != 0 {
		t.Errorf("the user who changed the amount can approve it: %v", open)
	}
	path := s.review("ben")
	if a := s.as("ann", "POST", path, `{"decision":"approve"}`); a.Status != 404 {
		t.Errorf("the user who changed the amount approves it: %d %s", a.Status, a.Body)
	}
	if a := s.as("ben", "GET", path, ""); !strings.Contains(a.Body, `"editor":"ann"`) || !strings.Contains(a.Body, `"changed":"amount from 480 to 2000"`) {
		t.Errorf("the other reviewer sees: %s", a.Body)
	}
	s.as("ben", "POST", path, `{"decision":"approve","inputs":{"to":"x","amount":1500}}`)
	if a := s.mcp(original); !strings.Contains(a, "review") || len(s.received()) > 0 {
		t.Errorf("an amount that boss must approve again: %s", a)
	}
	s.as("bob", "POST", s.review("bob"), `{"decision":"approve"}`)
	a := s.mcp(original)
	if got := s.received(); !strings.Contains(a, "amount from 480 to 1500") || !slices.Equal(got, []string{`{"to":"x","amount":1500}`}) {
		t.Errorf("the API received %q, and the result is %s", got, a)
	}
}

// TestEdit_of_a_held_result collects the result of the changed call with the arguments of the client.
func TestEdit_of_a_held_result(t *testing.T) {
	s := newEditSite(t, bossReviews+", output_restriction: {require_review: clerk}")
	const original = `{"to":"x","amount":480}`
	s.otc(original)
	s.as("ann", "POST", s.review("ann"), `{"decision":"approve","inputs":{"to":"x","amount":30}}`)
	s.otc(original)
	s.as("uma", "POST", s.review("uma"), `{"decision":"approve"}`)
	a := s.otc(original)
	if got := s.received(); len(got) != 1 || !strings.Contains(a, "paid") || !strings.Contains(a, "amount from 480 to 30") {
		t.Errorf("the API received %q, and the result is %s", got, a)
	}
}

// TestEdit_in_the_console changes arguments in the form of the review.
func TestEdit_in_the_console(t *testing.T) {
	s := newEditSite(t, bossReviews)
	const original = `{"to":"x","amount":480}`
	s.mcp(original)
	path := "/console" + s.review("ann")
	if page := s.as("ann", "GET", path, "").Body; !strings.Contains(page, `name="inputs"`) || !strings.Contains(page, "&#34;amount&#34;: 480") {
		t.Errorf("the form has no arguments: %s", page)
	}
	form := func(fields string) sitetest.Response {
		r, err := http.NewRequest("POST", s.URL+path, strings.NewReader(fields))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "X-Test-User": {"ann"}}
		return s.Do(r)
	}
	for inputs, want := range map[string]string{"%7B": "not valid JSON", `%7B"to":"x","amount":"much"%7D`: "amount"} {
		if a := form("decision=approve&inputs=" + inputs); a.Status != 400 || !strings.Contains(a.Body, want) || !strings.Contains(a.Body, `role="alert"`) {
			t.Errorf("%s: %d %s", inputs, a.Status, a.Body)
		}
	}
	form(`decision=approve&inputs=%7B"to":"x","amount":7%7D`)
	if a := s.mcp(original); !strings.Contains(a, "amount from 480 to 7") {
		t.Errorf("the result: %s", a)
	}
	if page := s.as("ann", "GET", path, "").Body; !strings.Contains(page, "amount from 480 to 7") || strings.Contains(page, `name="inputs"`) {
		t.Errorf("the decided review: %s", page)
	}
}
