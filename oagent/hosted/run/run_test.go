package run_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
)

var ada = engagement.User{ID: "ada", Email: "ada@example.com"}

func readAgent(t testing.TB, body string) *oagent.Agent {
	t.Helper()
	head := "kind: openagentspec:v1/agent\nname: desk\ndescription: Answers.\nintent: You answer.\nowner: team\n"
	a, err := oagent.ReadAgent([]byte(head+body), "desk.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func openStore(t testing.TB) store.Store {
	t.Helper()
	s, err := embedded.Open(filepath.Join(t.TempDir(), "records.db"), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// fakeModel decides the response to each request.
type fakeModel struct {
	mu       sync.Mutex
	requests []*model.Request
	respond  func(ctx context.Context, r *model.Request) (*model.Response, error)
}

func (m *fakeModel) Generate(ctx context.Context, r *model.Request, onText func(string)) (*model.Response, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.requests = append(m.requests, &model.Request{System: r.System, Messages: slices.Clone(r.Messages), Tools: r.Tools, MaxTokens: r.MaxTokens, Once: r.Once})
	m.mu.Unlock()
	response, err := m.respond(ctx, r)
	if err == nil && onText != nil && response.Text != "" {
		onText(response.Text)
	}
	return response, err
}

func (m *fakeModel) all() []*model.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

func says(text string) *model.Response {
	return &model.Response{Text: text, Stop: model.StopEnd, Usage: model.Usage{InputTokens: 10, OutputTokens: 5}}
}

// wants returns a response with calls, each a name and arguments.
func wants(calls ...string) *model.Response {
	r := &model.Response{Stop: model.StopTools, Usage: model.Usage{InputTokens: 10, OutputTokens: 5}}
	for i := 0; i < len(calls); i += 2 {
		r.Calls = append(r.Calls, model.ToolCall{ID: fmt.Sprintf("c%d", i/2), Name: calls[i], Arguments: calls[i+1]})
	}
	return r
}

// script returns responses by the number of messages of the model so far in the run, so that it plays
// the same after a restart.
func script(responses ...*model.Response) func(context.Context, *model.Request) (*model.Response, error) {
	return func(_ context.Context, r *model.Request) (*model.Response, error) {
		n := 0
		for i := range r.Messages {
			if r.Messages[i].Role == model.RoleAssistant && !strings.HasPrefix(r.Messages[i-1].Text, "Earlier conversation") {
				n++
			}
		}
		if n >= len(responses) {
			return nil, model.Errorf(model.KindRejected, "the script is over")
		}
		return responses[n], nil
	}
}

// fakeTools has a function for each tool. Tools with names that begin with "get" are idempotent.
type fakeTools struct {
	guard *oagent.Guard
	tools map[string]func(ctx context.Context, i *run.Invocation) (string, error)
	check func(side engagement.Side, text string) string // the output of the guardrail's tool

	mu   sync.Mutex
	made []string // name and inputs
}

func (f *fakeTools) Describe(*oagent.Agent) (all []run.Tool) {
	for name := range f.tools {
		all = append(all, run.Tool{Tool: model.Tool{Name: name}, Idempotent: strings.HasPrefix(name, "get")})
	}
	return all
}

func (f *fakeTools) Call(ctx context.Context, i *run.Invocation) run.Result {
	return run.Guarded(ctx, f.guard, nil, i, func(ctx context.Context, i *run.Invocation, _ *oagent.Capability) (jsontext.Value, int, error) {
		f.mu.Lock()
		f.made = append(f.made, i.Name+" "+string(i.Inputs))
		f.mu.Unlock()
		outputs, err := f.tools[i.Name](ctx, i)
		return jsontext.Value(outputs), 200, err
	})
}

func (f *fakeTools) CheckText(ctx context.Context, b oagent.Binding, side engagement.Side, text string) error {
	output := f.check(side, text)
	if output == "" {
		return f.guard.FailGuardrail(ctx, b, side, errors.New("down"))
	}
	return f.guard.CheckGuardrail(ctx, b, side, jsontext.Value(output))
}

func (f *fakeTools) calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.made)
}

func (f *fakeTools) count(name string) (n int) {
	for _, made := range f.calls() {
		if strings.HasPrefix(made, name+" ") {
			n++
		}
	}
	return n
}

// node is a Runner with all that it needs.
type node struct {
	t     testing.TB
	agent *oagent.Agent
	guard *oagent.Guard
	model *fakeModel
	tools *fakeTools
	store store.Store
	*run.Runner
}

// newNode starts a node on a store. Each tool of the agent returns {"ok":true}.
func newNode(t testing.TB, s store.Store, agent *oagent.Agent, respond func(context.Context, *model.Request) (*model.Response, error), more ...func(*node, *run.Options)) *node {
	t.Helper()
	n := &node{t: t, agent: agent, store: s, model: &fakeModel{respond: respond}}
	var err error
	n.guard, err = oagent.NewGuard(oagent.GuardOptions{Store: s, Notify: func(e oagent.Event) {
		if e.Kind == oagent.EventReviewDecided && n.Runner != nil {
			go func() { _ = n.Wake(context.Background(), e.Review.Engagement) }()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	n.tools = &fakeTools{guard: n.guard, tools: make(map[string]func(context.Context, *run.Invocation) (string, error))}
	for i := range agent.Capabilities {
		n.tools.tools[agent.Capabilities[i].Reference.Name] = func(context.Context, *run.Invocation) (string, error) { return `{"ok":true}`, nil }
	}
	options := run.Options{
		Store: s, Guard: n.guard, Tools: n.tools,
		Agent: func(name string) *oagent.Agent {
			if name != agent.Name {
				return nil
			}
			return agent
		},
		Model:  func(*oagent.Agent) (model.Model, error) { return n.model, nil },
		Report: func(id string, err error) { t.Logf("run %s: %v", id, err) },
		Trace: func(ctx context.Context, _ *run.State) (context.Context, func(*run.State)) {
			return ctx, func(*run.State) {}
		},

		Budgets:       func(*run.Assignment) []run.Budget { return nil },
		Groups:        func(*run.Assignment) []string { return nil },
		BudgetChecked: func(*run.Budget, model.Usage, bool) {},
		Decide:        func(context.Context, *run.State, string, string) error { return nil },
		Ended:         func(string, int) {},
		Handover:      func(string) {},
	}
	for _, m := range more {
		m(n, &options)
	}
	n.Runner = run.NewRunner(options)
	t.Cleanup(n.close)
	return n
}

func (n *node) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = n.Close(ctx)
}

func (n *node) start(input string) *run.State {
	n.t.Helper()
	st, err := n.Start(n.t.Context(), run.StartOptions{Agent: n.agent, User: ada, Input: input})
	if err != nil {
		n.t.Fatal(err)
	}
	return st
}

// until waits until the run satisfies a condition.
func (n *node) until(id string, what string, done func(*run.State) bool) *run.State {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	st, err := n.Await(ctx, id, done)
	if err != nil {
		n.t.Fatalf("%s: error %v", what, err)
	}
	if !done(st) {
		n.t.Fatalf("%s: status %s, phase %s, calls %+v, lease %+v", what, st.Status, st.Phase, st.Calls, st.Lease)
	}
	return st
}

func (n *node) idle(id string) *run.State {
	n.t.Helper()
	return n.until(id, "waits or ends", run.NotBusy)
}

// results returns the results of tools in the last request to the model, joined.
func (n *node) results() string {
	all := n.model.all()
	var b strings.Builder
	for _, m := range all[len(all)-1].Messages {
		for _, r := range m.Results {
			fmt.Fprintln(&b, r.Content)
		}
	}
	return b.String()
}

// TestLoop is the plain path: an input, a tool call, an answer.
func TestLoop(t *testing.T) {
	n := newNode(t, openStore(t), readAgent(t, "capabilities: {get-trip: {}}\n"), script(wants("get-trip", `{"id":7}`), says("It leaves at 9.")))
	st := n.idle(n.start("When does trip 7 leave?").ID)
	if st.Status != run.StatusComplete || st.Text != "It leaves at 9." {
		t.Fatalf("status %s, text %q, ending %+v", st.Status, st.Text, st.Ending)
	}
	if st.Turns != 2 || st.CallsMade != 1 || st.Usage.Total() != 30 {
		t.Errorf("turns %d, calls %d, usage %+v", st.Turns, st.CallsMade, st.Usage)
	}
	if got := n.tools.calls(); !slices.Equal(got, []string{`get-trip {"id":7}`}) {
		t.Errorf("calls %q", got)
	}
	if !strings.Contains(n.results(), `{"ok":true}`) {
		t.Errorf("the model got %s", n.results())
	}
}

// drained waits until the node works on no run.
func (n *node) drained() {
	n.t.Helper()
	testkit.Eventually(n.t, "the end of the work", func() bool { return n.Counts().Working == 0 })
}
