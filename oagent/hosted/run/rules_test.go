package run_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

// TestOAgentRun has a case for each rule of OpenAgentSpec v1 about the flow of an agent, by its
// number in the text.
func TestOAgentRun(t *testing.T) {
	type respond = func(context.Context, *model.Request) (*model.Response, error)
	type check struct {
		status run.Status
		text   string // of the answer
		kind   run.EndKind
		calls  []string // that were made
		model  string   // a word that the results for the model contain
		user   string   // a word that the message for the user contains
	}
	checkedBy := func(passes func(engagement.Side, string) bool) func(*node) {
		return func(n *node) {
			n.tools.check = func(side engagement.Side, text string) string {
				return fmt.Sprintf(`{"ok":%t}`, passes(side, text))
			}
		}
	}
	const guardrails = "guardrails: {input: {tool_name: scan, assertion: ok}, output: {tool_name: scan, assertion: ok}}\n"
	done := says("Done.")
	for _, test := range []struct {
		rule    string
		body    string
		respond respond
		prepare func(*node)
		want    check
	}{
		{"agent/4-intent", "capabilities: {}\n", func(_ context.Context, r *model.Request) (*model.Response, error) {
			return says(strings.SplitN(r.System, "\n", 2)[0]), nil
		}, nil, check{status: run.StatusComplete, text: "You answer."}},
		{"agent/6-described", "capabilities: {get-trip: {}}\n", func(_ context.Context, r *model.Request) (*model.Response, error) {
			return says(fmt.Sprint(slices.ContainsFunc(r.Tools, func(t model.Tool) bool { return t.Name == "get-trip" }))), nil
		}, nil, check{status: run.StatusComplete, text: "true"}},
		{
			"agent/6-invoked", "capabilities: {get-trip: {}}\n", script(wants("get-trip", `{"id":1}`), done), nil,
			check{status: run.StatusComplete, text: "Done.", calls: []string{`get-trip {"id":1}`}, model: `{"ok":true}`},
		},
		{
			"agent/6-not-a-capability", "capabilities: {get-trip: {}}\n", script(wants("book", `{}`), done), nil,
			check{status: run.StatusComplete, text: "Done.", model: "no tool book"},
		},
		{
			"agent/10-input_restriction", "capabilities: {pay: {input_restriction: {assertion: recent.pay.inputs.sum < 10}}}\n",
			script(wants("pay", `{"sum":10}`), wants("pay", `{"sum":9}`), done), nil,
			check{status: run.StatusComplete, text: "Done.", calls: []string{`pay {"sum":9}`}, model: "not made"},
		},
		{
			"agent/11-output_restriction", "capabilities: {get-trip: {output_restriction: {assertion: '!recent[\"get-trip\"].outputs.ok'}}}\n",
			script(wants("get-trip", `{}`), done), nil,
			check{status: run.StatusComplete, text: "Done.", calls: []string{"get-trip {}"}, model: "withheld"},
		},
		{
			"agent/13.1-before-the-call", "capabilities: {get-trip: {}, pay: {input_restriction: {assertion: history._total > 0}}}\n",
			script(wants("pay", `{}`), wants("get-trip", `{}`), wants("pay", `{}`), done), nil,
			check{status: run.StatusComplete, text: "Done.", calls: []string{"get-trip {}", "pay {}"}},
		},
		{"agent/15.3-input", "capabilities: {}\n" + guardrails, script(done), checkedBy(func(side engagement.Side, text string) bool {
			return side == engagement.SideOutput || text != "Hello"
		}), check{status: run.StatusError, kind: "guardrail"}},
		{
			"agent/15.3-input-passes", "capabilities: {}\n" + guardrails, script(done), checkedBy(func(engagement.Side, string) bool { return true }),
			check{status: run.StatusComplete, text: "Done."},
		},
		{"agent/15.4-output", "capabilities: {}\n" + guardrails, script(done), checkedBy(func(side engagement.Side, text string) bool {
			return side == engagement.SideInput || text != "Done."
		}), check{status: run.StatusError, kind: "guardrail"}},
		{"agent/15.4-output-question", "capabilities: {}\n" + guardrails, script(wants("ask-user", `{"question":"Secret?"}`), done), checkedBy(func(_ engagement.Side, text string) bool {
			return text != "Secret?"
		}), check{status: run.StatusError, kind: "guardrail"}},
		{"agent/15.5-tool-fails", "capabilities: {}\n" + guardrails, script(done), func(n *node) {
			n.tools.check = func(engagement.Side, string) string { return "" }
		}, check{status: run.StatusError, kind: "unchecked"}},
		{"agent/15.6-no-more-tools", "capabilities: {get-trip: {}}\n" + guardrails, script(wants("get-trip", `{}`), done), checkedBy(func(side engagement.Side, _ string) bool {
			return side == engagement.SideOutput
		}), check{status: run.StatusError, kind: "guardrail"}},
		{
			"agent/17.2-short_circuit", "capabilities: {get-trip: {}}\nlifespan: {short_circuit: 3}\n",
			script(wants("get-trip", `{}`), wants("get-trip", `{}`), wants("get-trip", `{}`), done), nil,
			check{status: run.StatusError, kind: "short_circuit", calls: []string{"get-trip {}", "get-trip {}"}},
		},
		{
			"agent/17.2-short_circuit-two-tools", "capabilities: {get-trip: {}, book: {}}\nlifespan: {short_circuit: 3}\n",
			script(wants("get-trip", `{}`, "book", `{}`), wants("get-trip", `{}`, "book", `{}`), wants("get-trip", `{}`, "book", `{}`), done), nil,
			check{status: run.StatusError, kind: "short_circuit", calls: []string{"get-trip {}", "book {}", "get-trip {}", "book {}", "get-trip {}"}},
		},

		{
			"call/arguments-not-json", "capabilities: {get-trip: {}}\n", script(wants("get-trip", `{"id":`), done), nil,
			check{status: run.StatusComplete, text: "Done.", model: "JSON"},
		},
		{
			"call/arguments-not-an-object", "capabilities: {get-trip: {}}\n", script(wants("get-trip", `[1]`), done), nil,
			check{status: run.StatusComplete, text: "Done.", model: "object"},
		},
		{
			"call/arguments-absent", "capabilities: {get-trip: {}}\n", script(wants("get-trip", ``), done), nil,
			check{status: run.StatusComplete, text: "Done.", calls: []string{"get-trip {}"}},
		},
		{
			"call/in-order", "capabilities: {book: {}, pay: {}}\n", script(wants("book", `{"n":1}`, "pay", `{}`, "book", `{"n":2}`), done), nil,
			check{status: run.StatusComplete, text: "Done.", calls: []string{`book {"n":1}`, "pay {}", `book {"n":2}`}},
		},
		{"call/tool-fails", "capabilities: {get-trip: {}}\n", script(wants("get-trip", ``), done), func(n *node) {
			n.tools.tools["get-trip"] = func(context.Context, *run.Invocation) (string, error) { return "", errors.New("the server is down") }
		}, check{status: run.StatusComplete, text: "Done.", calls: []string{"get-trip {}"}, model: "down"}},
		{"call/tool-panics", "capabilities: {get-trip: {}}\n", script(wants("get-trip", ``), done), func(n *node) {
			n.tools.tools["get-trip"] = func(context.Context, *run.Invocation) (string, error) { panic("oops") }
		}, check{status: run.StatusComplete, text: "Done.", calls: []string{"get-trip {}"}, model: "unknown whether"}},
		{"call/result-cut", "capabilities: {get-trip: {}}\n", script(wants("get-trip", ``), done), func(n *node) {
			n.tools.tools["get-trip"] = func(context.Context, *run.Invocation) (string, error) {
				return `"` + strings.Repeat("x", 100_000) + `"`, nil
			}
		}, check{status: run.StatusComplete, text: "Done.", calls: []string{"get-trip {}"}, model: "32000 of 100002"}},
		{"call/response-cut", "capabilities: {book: {}}\n", func(ctx context.Context, r *model.Request) (*model.Response, error) {
			response, err := script(wants("book", `{}`), done)(ctx, r)
			if err == nil && len(response.Calls) > 0 {
				response.Stop = model.StopLength
			}
			return response, err
		}, nil, check{status: run.StatusComplete, text: "Done.", model: "limit of tokens"}},

		{"model/never-stops", "capabilities: {get-trip: {}}\n", func(_ context.Context, r *model.Request) (*model.Response, error) {
			return wants("get-trip", fmt.Sprintf(`{"n":%d}`, len(r.Messages))), nil
		}, nil, check{status: run.StatusError, kind: run.EndLimit}},
		{"model/tokens", "capabilities: {get-trip: {}}\n", func(context.Context, *model.Request) (*model.Response, error) {
			r := wants("get-trip", `{}`)
			r.Usage.InputTokens = run.DefaultTokens
			return r, nil
		}, nil, check{status: run.StatusError, kind: run.EndLimit, calls: []string{"get-trip {}"}}},
		{"model/refuses", "capabilities: {}\n", func(context.Context, *model.Request) (*model.Response, error) {
			return &model.Response{Stop: model.StopRefused, Text: "No."}, nil
		}, nil, check{status: run.StatusError, kind: run.EndRefused}},
		{"model/fails", "capabilities: {}\n", func(context.Context, *model.Request) (*model.Response, error) {
			return nil, model.Errorf(model.KindCredentials, "bad key")
		}, nil, check{status: run.StatusError, kind: run.EndModel}},
		{"model/context", "capabilities: {}\n", func(context.Context, *model.Request) (*model.Response, error) {
			return nil, model.Errorf(model.KindContextTooLong, "too long")
		}, nil, check{status: run.StatusError, kind: run.EndContext}},
		{"model/too-large", "capabilities: {}\n", func(context.Context, *model.Request) (*model.Response, error) {
			return says(strings.Repeat("x", run.MaxMessage+1)), nil
		}, nil, check{status: run.StatusError, kind: run.EndModel, user: "too large"}},
		{"model/control-characters", "capabilities: {}\n", func(context.Context, *model.Request) (*model.Response, error) {
			return says(strings.Repeat("\x01", run.MaxMessage)), nil
		}, nil, check{status: run.StatusError, kind: run.EndModel}},
		{"model/too-many-calls", "capabilities: {get-trip: {}}\n", func(context.Context, *model.Request) (*model.Response, error) {
			return wants(slices.Repeat([]string{"get-trip", "{}"}, model.MaxCalls+1)...), nil
		}, nil, check{status: run.StatusError, kind: run.EndModel, user: "128 tool calls"}},
		{"model/invalid-utf8", "capabilities: {}\n", script(says("a\xffb")), nil, check{status: run.StatusComplete, text: "a\ufffdb"}},
	} {
		t.Run(test.rule, func(t *testing.T) {
			n := newNode(t, openStore(t), readAgent(t, test.body), test.respond, func(n *node, _ *run.Options) {
				if test.prepare != nil {
					test.prepare(n)
				}
			})
			st := n.idle(n.start("Hello").ID)
			if st.Status != test.want.status || st.Text != test.want.text {
				t.Errorf("status %s, text %.50q, ending %+v", st.Status, st.Text, st.Ending)
			}
			if kind := endOf(st); kind != test.want.kind {
				t.Errorf("ended with %q, want %q", kind, test.want.kind)
			}
			if calls := n.tools.calls(); test.rule != "model/never-stops" && !slices.Equal(calls, test.want.calls) {
				t.Errorf("calls %q, want %q", calls, test.want.calls)
			}
			if test.want.user != "" && (st.Ending == nil || !strings.Contains(st.Ending.Message, test.want.user)) {
				t.Errorf("ending %+v, want %q", st.Ending, test.want.user)
			}
			if test.want.model != "" && !strings.Contains(n.results(), test.want.model) {
				t.Errorf("the model got %.300s, want %s", n.results(), test.want.model)
			}
			if test.rule == "model/never-stops" && len(n.model.all()) != run.DefaultTurns {
				t.Errorf("%d requests", len(n.model.all()))
			}
		})
	}
}

func endOf(st *run.State) run.EndKind {
	if st.Ending == nil {
		return ""
	}
	return st.Ending.Kind
}

// TestOAgentRun_15_each_time checks that the guardrails check each input and each
// answer of an Engagement (OpenAgentSpec v1, Agent, 15.3 and 15.4).
func TestOAgentRun_15_each_time(t *testing.T) {
	body := "capabilities: {}\nguardrails: {input: {tool_name: scan, assertion: ok}, output: {tool_name: scan, assertion: ok}}\n"
	var checked []string
	n := newNode(t, openStore(t), readAgent(t, body), script(wants("ask-user", `{"question":"Where?"}`), says("There.")), func(n *node, _ *run.Options) {
		n.tools.check = func(side engagement.Side, text string) string {
			checked = append(checked, string(side)+" "+text)
			return `{"ok":true}`
		}
	})
	id := n.start("Hello").ID
	st := n.idle(id)
	if v := st.View(); st.Status != run.StatusAwaitingInput || len(v.Questions) != 1 || v.Questions[0].Text != "Where?" {
		t.Fatalf("status %s, view %+v", st.Status, v)
	}
	if _, err := n.Conversation(id).AddInput(t.Context(), "Here", ""); err != nil {
		t.Fatal(err)
	}
	n.until(id, "ends", func(st *run.State) bool { return st.Status.IsFinal() })
	if want := []string{"input Hello", "output Where?", "input Here", "output There."}; !slices.Equal(checked, want) {
		t.Errorf("checked %q, want %q", checked, want)
	}
	if n.results() != "Here\n" {
		t.Errorf("the model got %q", n.results())
	}
}

// TestOAgentRun_16_exposes checks that the view has the exposed values (OpenAgentSpec v1, Agent, 16).
func TestOAgentRun_16_exposes(t *testing.T) {
	n := newNode(t, openStore(t), readAgent(t, "capabilities: {get-trip: {}}\nexposes: {trip: 'recent[\"get-trip\"].inputs.id'}\n"),
		script(wants("get-trip", `{"id":7}`), says("Done.")))
	st := n.idle(n.start("Hello").ID)
	if v := n.View(t.Context(), st); string(v.Exposes) != `{"trip":7}` {
		t.Errorf("exposes %s", v.Exposes)
	}
}

// TestOAgentRun_15_exposes checks that the output guardrail sees the exposed values, and that they are not
// returned before (OpenAgentSpec v1, Agent, 15.4).
func TestOAgentRun_15_exposes(t *testing.T) {
	body := "capabilities: {get-trip: {}}\nexposes: {trip: 'recent[\"get-trip\"].inputs.id'}\nguardrails: {output: {tool_name: scan, assertion: ok}}\n"
	for _, passes := range []bool{true, false} {
		n := newNode(t, openStore(t), readAgent(t, body), script(wants("get-trip", `{"id":"BADWORD"}`), wants("ask-user", `{"question":"Sure?"}`), says("Fine.")),
			func(n *node, _ *run.Options) {
				n.tools.check = func(_ engagement.Side, text string) string {
					return fmt.Sprintf(`{"ok":%t}`, passes || !strings.Contains(text, "BADWORD"))
				}
			})
		st := n.idle(n.start("Hello").ID)
		if v := n.View(t.Context(), st); st.Status != run.StatusAwaitingInput || v.Exposes != nil {
			t.Errorf("before the check: status %s, exposes %s", st.Status, v.Exposes)
		}
		if _, err := n.Conversation(st.ID).AddInput(t.Context(), "Yes", ""); err != nil {
			t.Fatal(err)
		}
		st = n.until(st.ID, "ends", func(st *run.State) bool { return st.Status.IsFinal() })
		v := n.View(t.Context(), st)
		if passes && (st.Text != "Fine." || string(v.Exposes) != `{"trip":"BADWORD"}`) {
			t.Errorf("checked: %+v, exposes %s", st.Ending, v.Exposes)
		}
		if !passes && (endOf(st) != "guardrail" || v.Exposes != nil || v.Text != "") {
			t.Errorf("rejected: %+v, text %q, exposes %s", st.Ending, v.Text, v.Exposes)
		}
	}
}

// TestOAgentRun_17_1_retain_memory checks what reaches the model of earlier Engagements
// (OpenAgentSpec v1, Agent, 17.1).
func TestOAgentRun_17_1_retain_memory(t *testing.T) {
	for _, retains := range []bool{true, false} {
		t.Run(fmt.Sprint(retains), func(t *testing.T) {
			n := newNode(t, openStore(t), readAgent(t, fmt.Sprintf("capabilities: {}\nlifespan: {retain_memory: %t}\n", retains)), script(says("Blue.")))
			knows := func(user engagement.User) bool {
				t.Helper()
				st, err := n.Start(t.Context(), run.StartOptions{Agent: n.agent, User: user, Input: "What colour do I like?"})
				if err != nil {
					t.Fatal(err)
				}
				n.idle(st.ID)
				all := n.model.all()
				last := all[len(all)-1]
				if strings.Contains(last.System, "Blue.") {
					t.Error("the memory is in the system text")
				}
				return slices.ContainsFunc(last.Messages, func(m model.Message) bool { return m.Role == model.RoleAssistant && m.Text == "Blue." })
			}
			if knows(ada) {
				t.Error("the first run knows something")
			}
			n.drained()
			if knows(ada) != retains {
				t.Errorf("the second run knows something: %t", !retains)
			}
			n.drained()
			if knows(engagement.User{ID: "bob"}) {
				t.Error("the run of another user knows it")
			}
			n.drained()
			if err := n.Forget(t.Context(), "desk", ada); err != nil {
				t.Fatal(err)
			}
			if knows(ada) {
				t.Error("the run knows what was forgotten")
			}
			n.drained()
			for range 2 {
				if knows(engagement.User{}) {
					t.Error("the run of an unknown user knows something")
				}
				n.drained()
			}
		})
	}
}
