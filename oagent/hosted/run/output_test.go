package run_test

import (
	"context"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

const dayAgent = "capabilities: {get-trip: {}}\nx-fairway: {output_schema: {type: object, required: [day], properties: {day: {enum: [Mon, Tue]}}}}\n"

func TestOutput_is_a_value(t *testing.T) {
	n := newNode(t, openStore(t), readAgent(t, dayAgent), script(wants("get-trip", "{}"), says("```json\n{\"day\":\"Mon\"}\n```"), says(`{"day":"Tue"}`)))
	st := n.idle(n.start("When?").ID)
	if v := st.View(); st.Status != run.StatusComplete || string(v.Value) != `{"day":"Mon"}` || v.Text != `{"day":"Mon"}` {
		t.Fatalf("state %+v, ending %+v", st, st.Ending)
	}
	if system := n.model.all()[0].System; !strings.HasSuffix(system, string(n.agent.OutputSchema.JSON)) {
		t.Errorf("the system text has no schema: %s", system)
	}
	if v := n.say(st.ID, "And after that?").View(); string(v.Value) != `{"day":"Tue"}` {
		t.Errorf("second round: %+v", v)
	}
}

func TestOutput_is_repaired_once(t *testing.T) {
	n := newNode(t, openStore(t), readAgent(t, dayAgent), script(
		says("On Monday."), says(`{"day":"Mon"}`), says(`{"day":"Sun"}`), says(""), says(`{"day":"Tue"}`)))
	st := n.idle(n.start("When?").ID)
	if string(st.View().Value) != `{"day":"Mon"}` || st.Turns != 2 || st.Usage.Total() != 30 {
		t.Fatalf("state %+v, ending %+v", st, st.Ending)
	}
	messages := n.model.all()[1].Messages
	if last := messages[len(messages)-1]; last.Role != model.RoleUser || !strings.Contains(last.Text, "not JSON") {
		t.Errorf("the model got %+v", last)
	}
	failed := n.say(st.ID, "And then?")
	if failed.Ending == nil || failed.View().Value != nil {
		t.Fatalf("two bad answers: got the ending %+v and the value %s, want no value", failed.Ending, failed.View().Value)
	}
	if e := failed.Ending; e.Kind != run.EndOutput || e.Rule != "x-fairway.output_schema" {
		t.Fatalf("two bad answers: got %+v, want %s by x-fairway.output_schema", e, run.EndOutput)
	}
	again, err := n.Conversation(st.ID).Say(t.Context(), run.NewInput{Retry: true})
	if err != nil {
		t.Fatal(err)
	}
	if st := n.idle(again.ID); string(st.View().Value) != `{"day":"Tue"}` {
		t.Errorf("after the retry: %+v, ending %+v", st, st.Ending)
	}
}

// The reason must not tell the user what the output guardrail has not checked.
func TestOutput_problems_pass_no_guardrail(t *testing.T) {
	agent := readAgent(t, "capabilities: {}\nguardrails: {output: {tool_name: check-text, assertion: \"ok\"}}\n"+
		"x-fairway: {output_schema: {type: object, properties: {a: {type: object, additionalProperties: false}}}}\n")
	bad := says(`{"a":{"secret-word":1}}`)
	n := newNode(t, openStore(t), agent, script(bad, bad), func(n *node, _ *run.Options) {
		n.tools.check = func(engagement.Side, string) string { return `{"ok":true}` }
	})
	st := n.idle(n.start("When?").ID)
	if st.Ending == nil || st.Ending.Kind != run.EndOutput || strings.Contains(st.Ending.Message, "secret-word") {
		t.Errorf("ending %+v", st.Ending)
	}
}

// A crash between the bad answer and the good one repeats neither.
func TestOutput_repair_survives_a_crash(t *testing.T) {
	s := openStore(t)
	reached := make(chan struct{})
	first := newNode(t, s, readAgent(t, dayAgent), func(ctx context.Context, r *model.Request) (*model.Response, error) {
		if len(r.Messages) == 1 {
			return says("On Monday."), nil
		}
		close(reached)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	id := first.start("When?").ID
	<-reached
	first.close()
	second := newNode(t, s, readAgent(t, dayAgent), script(says("NOT AGAIN"), says("still not JSON")))
	if st := second.idle(id); st.Ending == nil || st.Ending.Kind != run.EndOutput || st.Turns != 2 {
		t.Errorf("state %+v, ending %+v", st, st.Ending)
	}
}
