package hosted_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// hostedRule is a rule of the text as it shows when the server runs the agent: what happens, and what
// must be seen in the state, at the API and at the model.
type hostedRule struct {
	rule    string // its number, and what the case is about
	body    string // of the agent's document; AGENT is replaced by its name
	options string // of the model, in place of "retries 0"

	// respond is the model. Every agent has a conversation of its own.
	respond func(*modelserver.Request) modelserver.Step
	// act is what happens, up to a state that waits or has ended. Default: an input by the user ann.
	act func(*hostedTalk)

	status  string // default: complete
	kind    string // of the error
	text    string // default: "Done.", if the status is complete
	exposes string
	api     []string // requests that the API received: method, path, Authorization
	checked string   // texts that guardrails have checked
	model   string   // words in the results that the model got
	unseen  string   // what the model must not get
	turns   int      // requests that the model received; 0 is any number
}

// hostedRulesSite runs each rule with both wire formats, as agents of one site.
type hostedRulesSite struct {
	*sitetest.HostedSite
	checker *sitetest.Checker
	rules   map[string]*hostedRule // by agent

	mu       sync.Mutex
	received map[string][]string // by agent
}

var wireFormats = []string{"openai", "anthropic"}

// talk is an agent of a site, and what a test does with it.
type hostedTalk struct {
	*hostedRulesSite
	t        *testing.T
	agent    string
	location string
	last     sitetest.RunView
}

// begin begins an Engagement of ann, who has credentials, unless the header says something else, and
// waits until it needs something or has ended.
func (k *hostedTalk) begin(input string, header ...string) {
	k.t.Helper()
	header = append([]string{"Authorization", "Bearer ann"}, header...)
	k.location = k.with(k.t).Begin("ann", k.agent, input, header...)
	k.wait()
}

func (k *hostedTalk) with(t *testing.T) *sitetest.HostedSite {
	s := *k.HostedSite
	s.Site = k.Site.With(t)
	return &s
}

func (k *hostedTalk) wait() {
	k.t.Helper()
	k.last = k.with(k.t).State("ann", k.location)
}

// add adds input, and waits.
func (k *hostedTalk) add(input string) {
	k.t.Helper()
	k.last = k.with(k.t).View(k.with(k.t).As("ann", "POST", k.location, fmt.Sprintf(`{"input":%q}`, input), "Prefer", "wait=60"))
}

// decideAs decides the review that the Engagement waits for as a user, and waits.
func (k *hostedTalk) decideAs(user, decision string, header ...string) {
	k.t.Helper()
	review := pending(k.with(k.t), "ann", k.location)
	if a := k.with(k.t).As(user, "POST", review+"/"+decision, "", header...); a.Status != http.StatusOK {
		k.t.Fatalf("decision: status %d, %s", a.Status, a.Body)
	}
	k.wait()
}

// requests returns what the model of the agent received.
func (k *hostedTalk) requests() (own []*modelserver.Request) {
	for _, r := range k.Models.Requests() {
		if agentOf(r) == k.agent {
			own = append(own, r)
		}
	}
	return own
}

// agentOf returns the agent of a request to a model: the intent in the documents of these tests is
// the agent's name.
func agentOf(r *modelserver.Request) string {
	name, _, _ := strings.Cut(r.System, "\n")
	return name
}

// results returns the results of calls, and what comes from the user, that the model of the agent got.
func (k *hostedTalk) results() string {
	own := k.requests()
	if len(own) == 0 {
		return ""
	}
	var all []string
	for _, m := range own[len(own)-1].Messages {
		if m.Role != "assistant" {
			all = append(all, m.Text)
		}
	}
	return strings.Join(all, "\n")
}

// hostedDocument returns the document of an agent whose intent is its name.
func hostedDocument(name, body string) string {
	return fmt.Sprintf("---\nkind: openagentspec:v1/agent\nname: %s\ndescription: Says what %s knows.\nintent: %s\nowner: tests\n%s\n",
		name, name, name, strings.TrimSpace(strings.ReplaceAll(body, "AGENT", name)))
}

// startHostedRules starts the site with all agents.
func startHostedRules(t *testing.T, rules []hostedRule) *hostedRulesSite {
	t.Helper()
	s := &hostedRulesSite{
		HostedSite: sitetest.NewHostedSite(t, "", nil), checker: sitetest.NewChecker(t),
		rules: make(map[string]*hostedRule), received: make(map[string][]string),
	}
	var documents strings.Builder
	users := make(map[[2]string][]string) // of models: agents by wire format and options
	for i := range rules {
		for _, format := range wireFormats {
			name := ruleAgent(i, format)
			documents.WriteString(hostedDocument(name, rules[i].body))
			s.rules[name] = &rules[i]
			users[[2]string{format, rules[i].options}] = append(users[[2]string{format, rules[i].options}], name)
		}
	}
	for name, body := range calledAgents {
		documents.WriteString(hostedDocument(name, body))
	}
	s.Write("agents.yaml", documents.String())
	s.Write("checks.yaml", fmt.Sprintf(sitetest.Checks, s.checker.URL))
	s.Models.Respond = s.respond
	models := httptest.NewServer(s.Models)
	t.Cleanup(models.Close)
	api := new(sitetest.RulesAPI)
	address := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		call := strings.TrimSpace(r.Method + " " + r.URL.Path + " " + r.Header.Get("Authorization"))
		s.mu.Lock()
		s.received[r.Header.Get("X-Agent")] = append(s.received[r.Header.Get("X-Agent")], call)
		s.mu.Unlock()
		api.ServeHTTP(w, r)
	})
	var providers strings.Builder
	provider := func(format, agents, options string) {
		path := map[string]string{"openai": "/v1", "anthropic": ""}[format]
		if options == "" {
			options = "retries 0"
		}
		fmt.Fprintf(&providers, "\tmodel %s %s {\n\tbase_url %s%s\n\tapi_key key-0123456789abcdef\n\tmodel test\n\t%s\n\t}\n", format, agents, models.URL, path, options)
	}
	provider("openai", "", "")
	for key, agents := range users {
		provider(key[0], strings.Join(agents, " "), key[1])
	}
	s.Start(`agents {
	store bolt DIR/store.db
	toolset trips TRIPS
	toolset checks DIR/checks.yaml {
		credential header X-Checker-Key k1
	}
}`, `route {
test_user
oagent DIR/agents.yaml {
	serve /agents
	engagements /engagements
	reviews /reviews
	reviewer helper robot
	guard {http.request.header.X-Act-As}
	identity OPS header_up Authorization "Bearer ops"
	limits {
		turns 10
	}
`+providers.String()+`}
request_header X-Agent {http.oagent.agent}
reverse_proxy `+address+`
}`)
	return s
}

func ruleAgent(i int, format string) string { return fmt.Sprintf("rule-%d-%s", i, format) }

// respond responds as the model of the agent that a request is for.
func (s *hostedRulesSite) respond(r *modelserver.Request) modelserver.Step {
	name := agentOf(r)
	if rule := s.rules[name]; rule != nil {
		return rule.respond(r)
	}
	return calledModel(r)
}

// TestHosted_numbered_rules has the rules about flow and server for agents that the server runs, over
// the wire formats of both kinds of models, as streams.
func TestHosted_numbered_rules(t *testing.T) {
	rules := slices.Concat(hostedFlowRules(), hostedEngagementRules(), hostedServerRules(), hostedModelFaults())
	s := startHostedRules(t, rules)
	covered := make(map[string]bool)
	for i := range rules {
		number, _, _ := strings.Cut(rules[i].rule, " ")
		covered[number] = true
		for _, format := range wireFormats {
			t.Run(rules[i].rule+"/"+format, func(t *testing.T) {
				s.checker.Asked()
				k := &hostedTalk{hostedRulesSite: s, t: t, agent: ruleAgent(i, format)}
				k.check(&rules[i], format)
			})
		}
	}
	for _, number := range hostedRuleNumbers {
		if !covered[number] {
			t.Errorf("the rule %s has no test", number)
		}
	}
}

// hostedRuleNumbers are the rules that an agent which runs here must show. The others are about
// documents, see ruleNumbers.
var hostedRuleNumbers = strings.Fields(`names/4 names/5.1 names/5.2 names/6 agent/4 agent/6 agent/7 agent/8 agent/9 agent/10 agent/11 agent/12
	agent/13 agent/13.1 agent/13.2 agent/13.3 agent/14 agent/15 agent/15.1 agent/15.2 agent/15.3 agent/15.4 agent/15.5 agent/15.6 agent/16
	agent/17 agent/17.1 agent/17.2 engagement/1 engagement/2 engagement/3 server/1 server/3.1 server/3.2 server/3.3 server/3.3.1 server/3.3.2 server/3.3.3`)

// check lets a rule happen and compares what is seen.
func (k *hostedTalk) check(rule *hostedRule, format string) {
	if rule.act == nil {
		k.begin("hello")
	} else {
		rule.act(k)
	}
	v, want := k.last, *rule
	if want.status == "" {
		want.status = "complete"
	}
	if want.text == "" && want.status == "complete" {
		want.text = "Done."
	}
	kind := ""
	if v.Error != nil {
		kind = v.Error.Kind
	}
	if v.Status != want.status || v.Text != want.text || kind != want.kind {
		k.t.Errorf("status %s, text %q, error %+v; want %s, %q, %q", v.Status, v.Text, v.Error, want.status, want.text, want.kind)
	}
	if got := string(v.Exposes); got != want.exposes {
		k.t.Errorf("exposes %s, want %s", got, want.exposes)
	}
	k.mu.Lock()
	got := k.received[k.agent]
	k.mu.Unlock()
	if !slices.Equal(got, want.api) {
		k.t.Errorf("the API received %q, want %q", got, want.api)
	}
	if checked := k.checker.Asked(); checked != want.checked {
		k.t.Errorf("the guardrails checked %q, want %q", checked, want.checked)
	}
	results := k.results()
	if !testkit.ContainsAll(results, want.model) {
		k.t.Errorf("the model got %.1000s\nwant the words %q", results, want.model)
	}
	requests := k.requests()
	if want.turns != 0 && len(requests) != want.turns {
		k.t.Errorf("the model received %d requests, want %d", len(requests), want.turns)
	}
	streams := !strings.Contains(want.body, "output: {tool_name") // a text is shown only after its check
	for _, r := range requests {
		if r.Stream != streams || r.Anthropic != (format == "anthropic") {
			k.t.Errorf("the request has another format: stream %t, Anthropic %t", r.Stream, r.Anthropic)
		}
		if want.unseen != "" && strings.Contains(string(r.Body), want.unseen) {
			k.t.Errorf("the model got %q: %s", want.unseen, r.Body)
		}
	}
	k.checkRecord()
}

// checkRecord checks that the record has each call that the API received.
func (k *hostedTalk) checkRecord() {
	if k.location == "" {
		return
	}
	var page struct{ Entries []sitetest.Recorded }
	a := k.with(k.t).As("ann", "GET", k.location+"/audit?limit=1000", "")
	if err := json.Unmarshal([]byte(a.Body), &page); err != nil {
		k.t.Fatalf("record: status %d, %s: %v", a.Status, a.Body, err)
	}
	begun := 0
	for _, e := range page.Entries {
		if e.What == "begun" {
			begun++
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if begun < len(k.received[k.agent]) && !strings.Contains(k.rules[k.agent].rule, "17.1") {
		k.t.Errorf("the API received %d requests, and the record has %d", len(k.received[k.agent]), begun)
	}
}
