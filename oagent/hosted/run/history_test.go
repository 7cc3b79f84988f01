package run_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

// sizeOf estimates the tokens of a request.
func sizeOf(r *model.Request) int64 { return model.EstimateUsage(r, new(model.Response)).InputTokens }

// talkative plays a model that calls get-page once for each input, and rejects requests above most tokens.
func talkative(most int64) func(context.Context, *model.Request) (*model.Response, error) {
	return func(_ context.Context, r *model.Request) (*model.Response, error) {
		if sizeOf(r) > most {
			return nil, model.Errorf(model.KindContextTooLong, "too long")
		}
		if last := r.Messages[len(r.Messages)-1]; last.Role == model.RoleUser {
			return wants("get-page", `{"id":1}`), nil
		}
		return says("An answer."), nil
	}
}

// pages makes get-page return 4,000 bytes.
func pages(n *node, _ *run.Options) {
	n.tools.tools["get-page"] = func(context.Context, *run.Invocation) (string, error) {
		return fmt.Sprintf(`{"page":%q}`, strings.Repeat("word ", 800)), nil
	}
	n.tools.check = func(engagement.Side, string) string { return `{"ok":true}` }
}

func TestHistory_is_shortened(t *testing.T) {
	const limit = 5000
	for name, c := range map[string]struct {
		context int
		most    int64
	}{
		"to the limit of the configuration": {limit, 1 << 40},
		"to what the model can read":        {0, limit},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, openStore(t), readAgent(t, "capabilities: {get-page: {}}\n"), talkative(c.most), pages,
				func(_ *node, o *run.Options) { o.Limits = run.Limits{Context: c.context, Tokens: 1 << 40} })
			id := n.idle(n.start("Input 0").ID).ID
			for i := 1; i < 60; i++ {
				if st := n.say(id, fmt.Sprint("Input ", i)); st.Status != run.StatusComplete {
					t.Fatalf("input %d: %s %+v", i, st.Status, st.Ending)
				}
			}
			shortened, omitted, prefixes := false, false, 0
			requests := n.model.all() // each passed Request.Check, so calls have their results
			for i, r := range requests {
				first := r.Messages[0]
				if first.Role != model.RoleUser {
					t.Fatalf("request %d begins with a message of the %s", i, first.Role)
				}
				if c.context > 0 && sizeOf(r) > limit {
					t.Errorf("request %d has %d tokens", i, sizeOf(r))
				}
				omitted = omitted || strings.Contains(first.Text, "left out earlier messages")
				if i > 0 && requests[i-1].Messages[0].Text == first.Text {
					prefixes++
				}
				last := r.Messages[len(r.Messages)-1]
				for _, m := range r.Messages {
					for _, result := range m.Results {
						isShort := strings.Contains(result.Content, "shortened this older result")
						if shortened = shortened || isShort; isShort && m.Results[0].Content == last.Text {
							t.Error("the latest result is shortened")
						}
					}
				}
			}
			if !shortened || !omitted {
				t.Errorf("results shortened: %t, messages left out: %t", shortened, omitted)
			}
			if prefixes < len(requests)*3/4 {
				t.Errorf("only %d of %d requests begin like the one before, so APIs cannot cache them", prefixes, len(requests))
			}
			st, err := n.Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if trace, err := n.Trace(t.Context(), st); err != nil || len(trace.Turns) != 180 {
				t.Errorf("the record of the conversation has %d turns, error %v; want all 180", len(trace.Turns), err)
			}
		})
	}
}

func TestHistory_that_cannot_be_shortened_ends_the_run(t *testing.T) {
	n := newNode(t, openStore(t), readAgent(t, "capabilities: {get-page: {}}\n"), talkative(100), pages)
	if st := n.idle(n.start("Go").ID); endOf(st) != run.EndContext {
		t.Errorf("status %s, ending %+v", st.Status, st.Ending)
	}
}

// A single input with many calls keeps the input.
func TestHistory_keeps_the_input(t *testing.T) {
	n := newNode(t, openStore(t), readAgent(t, "capabilities: {get-page: {}}\n"), func(_ context.Context, r *model.Request) (*model.Response, error) {
		if !strings.HasSuffix(r.Messages[0].Text, "The task") {
			t.Errorf("the first message is %q", r.Messages[0].Text)
		}
		if strings.Contains(r.Messages[0].Text, "left out") {
			return says("Done."), nil
		}
		return wants("get-page", `{"id":1}`), nil
	}, pages, func(_ *node, o *run.Options) { o.Limits = run.Limits{Context: 3000, Tokens: 1 << 40, Turns: 1000} })
	if st := n.idle(n.start("The task").ID); st.Status != run.StatusComplete {
		t.Errorf("status %s, ending %+v", st.Status, st.Ending)
	}
}
