package run_test

import (
	"context"
	"errors"
	"testing"

	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

// TestQuestions_answer_by_id asks two questions in one message of the model. Each answer reaches the
// question that it names.
func TestQuestions_answer_by_id(t *testing.T) {
	n := newNode(t, openStore(t), readAgent(t, "capabilities: {}\n"),
		script(wants("ask-user", `{"question":"Delete all?"}`, "ask-user", `{"question":"Your name?"}`), says("Done.")))
	id := n.start("Hello").ID
	open := n.idle(id).Questions()
	if len(open) != 2 || open[0].ID == open[1].ID {
		t.Fatalf("got the questions %+v, want two with their own ids", open)
	}
	if got, want := [...]string{open[0].Text, open[1].Text}, [...]string{"Delete all?", "Your name?"}; got != want {
		t.Fatalf("got the questions %q, want %q", got, want)
	}
	for _, wrong := range []string{"", "other"} {
		var refused *run.QuestionError
		if _, err := n.Conversation(id).AddInput(t.Context(), "Smith", wrong); !errors.As(err, &refused) || len(refused.Open) != 2 {
			t.Errorf("in reply to %q: error %v, want one that lists both questions", wrong, err)
		}
	}
	if _, err := n.Conversation(id).AddInput(t.Context(), "Smith", open[1].ID); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Conversation(id).AddInput(t.Context(), "Smith again", open[1].ID); err == nil {
		t.Error("a second answer to the same question was accepted")
	}
	st := n.until(id, "waits for the other answer", func(st *run.State) bool { return st.Status == run.StatusAwaitingInput && len(st.Inputs) == 0 })
	if open := st.Questions(); len(open) != 1 || open[0].Text != "Delete all?" {
		t.Fatalf("questions after one answer %+v", open)
	}
	if _, err := n.Conversation(id).AddInput(t.Context(), "No", ""); err != nil {
		t.Fatalf("without an id, the only question: %v", err)
	}
	n.until(id, "ends", func(st *run.State) bool { return st.Status.IsFinal() })
	if got := n.results(); got != "No\nSmith\n" {
		t.Errorf("the model got %q, want the answers in the order of its questions", got)
	}
}

// TestQuestions_input_before sends a message while the model writes a question. The message is no
// answer to the question, which the user has not seen.
func TestQuestions_input_before(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	steps := script(wants("ask-user", `{"question":"Delete all?"}`), says("Done."), says("Done again."))
	n := newNode(t, openStore(t), readAgent(t, "capabilities: {}\n"), func(ctx context.Context, r *model.Request) (*model.Response, error) {
		if len(r.Messages) == 1 {
			close(entered)
			<-release
		}
		return steps(ctx, r)
	})
	id := n.start("Hello").ID
	<-entered
	if _, err := n.Conversation(id).AddInput(t.Context(), "Yes", ""); err != nil {
		t.Fatal(err)
	}
	close(release)
	open := n.idle(id).Questions()
	if len(open) != 1 {
		t.Fatalf("questions %+v, want one without an answer", open)
	}
	if _, err := n.Conversation(id).AddInput(t.Context(), "No", open[0].ID); err != nil {
		t.Fatal(err)
	}
	n.until(id, "ends", func(st *run.State) bool { return st.Status.IsFinal() })
	all := n.model.all()
	messages := all[len(all)-1].Messages
	if n.results() != "No\n" || messages[len(messages)-1].Text != "Yes" {
		t.Errorf("the model got %+v", messages)
	}
}
