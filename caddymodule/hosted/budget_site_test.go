package hosted_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/caddymodule/commands"
	config "github.com/fairwayhq/fairway/caddymodule/hosted"
	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestBudget_says_whose_it_is(t *testing.T) {
	s := hosted(t, sitetest.AgentDocument("desk", tripAgent), "budget {\n\tuser 1\n\tuser bob 1000000\n}", func(*modelserver.Request) modelserver.Step {
		return modelserver.Step{Text: "Done."}
	})
	first := s.Begin("ann", "desk", "Hello")
	if v := s.State("ann", first); v.Status != "complete" {
		t.Fatalf("the first: %+v", v)
	}
	v := say(s, "ann", first, "Go on")
	if v.Error == nil || v.Error.Kind != "budget" || v.Error.Rule != "user ann" {
		t.Fatalf("over the budget: %+v", v)
	}
	if v := s.View(s.As("ann", "POST", first, `{"retry":true}`, "Prefer", "wait=60")); v.Error == nil || v.Error.Kind != "budget" {
		t.Errorf("retried on the same day: %+v", v)
	}
	for range 2 {
		if v := s.State("bob", s.Begin("bob", "desk", "Hello")); v.Status != "complete" {
			t.Errorf("bob has a budget of his own: %+v", v)
		}
	}
	if a := s.As("bob", "POST", s.Begin("bob", "desk", "Hello"), `{"retry":true}`); a.Status != http.StatusConflict {
		t.Errorf("nothing to retry: %d %s", a.Status, a.Body)
	}
	if a := s.As("ann", "POST", first, `{"retry":true,"input":"x"}`); a.Status != http.StatusBadRequest {
		t.Errorf("both: %d %s", a.Status, a.Body)
	}
}

func TestBudget_rejects_bad_configurations(t *testing.T) {
	for block, word := range map[string]string{
		"user many":   "number",
		"user cost x": "money",
		"user cost 0": "cost",
		"user a b 5":  "argument",
		"user 0":      "more than 0",
		"group 5":     "name",
		"total all 5": "name",
		"team x 5":    "team",
	} {
		_, _, err := sitetest.Adapt(":80 {\n\toagent agents.yaml {\n\t\tbudget {\n\t\t\t" + block + "\n\t\t}\n\t}\n}\n")
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: got %v, want an error with %q", block, err, word)
		}
	}
	twice := []config.Budget{{Of: "user", Name: "ada", Tokens: 5}, {Of: "user", Name: "ada", Tokens: 6}}
	if err := (&config.Config{Budgets: twice}).Validate(); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("two budgets of a user: %v", err)
	}
	if err := (&config.Config{Budgets: []config.Budget{{Of: "total", Cost: 5}}}).Validate(); err == nil || !strings.Contains(err.Error(), "prices") {
		t.Errorf("a cost without prices: %v", err)
	}
	if err := (&config.Config{Prices: []config.Price{{Model: "m", Input: -1}}}).Validate(); err == nil || !strings.Contains(err.Error(), "price") {
		t.Errorf("a negative price: %v", err)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url) //nolint:noctx // ends with the test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s, error %v", url, res.StatusCode, body, err)
	}
	return string(body)
}

// Prices give runs a cost, budgets of cost end them, and the metrics and the admin endpoint have both.
func TestBudget_of_cost(t *testing.T) {
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", tripAgent), func(*modelserver.Request) modelserver.Step {
		return modelserver.Step{Text: "Done.", InputTokens: 1_000_000, OutputTokens: 500_000}
	})
	admin := sitetest.StartAdmin(s.Site, strings.ReplaceAll(`{
	admin ADMIN
	metrics
	persist_config off
	auto_https off
	storage file_system DIR/storage
	agents {
		store bolt DIR/store.db
		toolset trips DIR/trips.yaml
	}
}
http://127.0.0.1:PORT {
	bind 127.0.0.1
	BLOCK
}
`, "BLOCK", strings.ReplaceAll(s.Block("limits {\n\ttokens 100000000\n}\nprices {\n\ttest 2 10 0.5\n}\nbudget {\n\ttotal 100000000\n\ttotal cost 12.5\n}"), "TRIPS", "trips")))
	first := s.Begin("ann", "desk", "Hello")
	if v := s.State("ann", first); v.Status != "complete" || v.Usage.Cost != 6.25 {
		t.Fatalf("the first: %+v", v)
	}
	if v := say(s, "ann", first, "Go on"); v.Usage.Cost != 12.5 {
		t.Fatalf("the second: %+v", v)
	}
	if a := s.As("ann", "GET", first, ""); !strings.Contains(a.Body, `"cached_tokens":1000000`) {
		t.Errorf("the usage has no cached tokens: %s", a.Body)
	}
	v := say(s, "ann", first, "Go on")
	if v.Error == nil {
		t.Fatalf("over the budget: got %+v, want an error", v)
	}
	if e := v.Error; e.Kind != "budget" || e.Rule != "total" || !strings.Contains(e.Message, "12.5 (cost") {
		t.Fatalf("over the budget: got %+v, want the total budget, 12.5 (cost", e)
	}
	for by, want := range map[string]string{
		"user": `[{"name":"ann","requests":2,"input_tokens":2000000,"cached_tokens":1000000,"output_tokens":1000000,"cost":12.5}]`, "group": "[]",
		"agent": `[{"name":"desk","requests":2,"input_tokens":2000000,"cached_tokens":1000000,"output_tokens":1000000,"cost":12.5}]`,
	} {
		if got := strings.TrimSpace(get(t, "http://"+admin+"/agents/usage?by="+by)); got != want {
			t.Errorf("by %s: %s, want %s", by, got, want)
		}
	}
	var printed strings.Builder
	cmd := commands.UsageCommand()
	cmd.SetArgs([]string{"--address", admin, "--by", "day", "--days", "2", "--json=false"})
	cmd.SetOut(&printed)
	if err := cmd.ExecuteContext(t.Context()); err != nil || !strings.Contains(printed.String(), "12.5000") || !strings.Contains(printed.String(), "REQUESTS") {
		t.Errorf("caddy agents usage: %v, %s", err, printed.String())
	}
	metrics := get(t, "http://"+admin+"/metrics")
	for _, line := range []string{
		`fairway_agent_budget_refusals_total{of="total"} `, `fairway_agent_budget_spent{name="",of="total",unit="cost"} 12.5`,
		`fairway_agent_budget_limit{name="",of="total",unit="cost"} 12.5`, `fairway_agent_budget_spent{name="",of="total",unit="tokens"} 3e+06`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("the metrics have no %s", line)
		}
	}
	if got := get(t, "http://"+admin+"/agents/users/export?user=ann"); !strings.Contains(got, `"used":{"day":`) {
		t.Errorf("the export of the user has no usage: %s", got)
	}
	res, err := http.Post("http://"+admin+"/agents/users/erase?user=ann", "", nil) //nolint:noctx // ends with the test
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if got := get(t, "http://"+admin+"/agents/usage?by=user"); strings.TrimSpace(got) != "[]" {
		t.Errorf("usage after the user was erased: %s", got)
	}
}
