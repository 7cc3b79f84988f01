package run_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
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

// TestQuestion_of_a_call checks a call that asks the user, as the agents of other servers do: the run waits, and the call goes on with the
// answer. The Guard has allowed it once. With questions off, the call may not ask.
func TestQuestion_of_a_call(t *testing.T) {
	for _, questions := range []run.Questions{run.QuestionsAllowed, run.QuestionsNone} {
		t.Run(string(questions), func(t *testing.T) {
			var answers []string
			n := newNode(t, openStore(t), readAgent(t, "capabilities: {book: {}}\n"), script(wants("book", `{}`), says("Done.")), func(n *node, o *run.Options) {
				o.Limits.Questions = questions
				n.tools.tools["book"] = func(_ context.Context, i *run.Invocation) (string, error) {
					switch {
					case !i.MayAsk:
						return "", errors.New("it may not ask")
					case i.Waited == nil:
						return "", cmp.Or[error](i.Note("at 7"), &run.AskError{ID: "1", Question: "Which?"})
					}
					if answers = append(answers, i.Noted+" "+i.Waited.Answer); len(answers) == 1 {
						return "", &run.AskError{ID: "2", Question: "Sure?"}
					}
					return `{"ok":true}`, nil
				}
			})
			st := n.idle(n.start("Go.").ID)
			if questions == run.QuestionsNone {
				if st.Status != run.StatusComplete || !strings.Contains(n.results(), "may not ask") {
					t.Errorf("status %s, the model got %s", st.Status, n.results())
				}
				return
			}
			for _, want := range []string{"Which?", "Sure?"} {
				open := st.Questions()
				if st.Status != run.StatusAwaitingInput || len(open) != 1 || open[0].Text != want {
					t.Fatalf("status %s, questions %+v", st.Status, open)
				}
				if _, err := n.Conversation(st.ID).AddInput(t.Context(), "Answer to "+want, open[0].ID); err != nil {
					t.Fatal(err)
				}
				st = n.until(st.ID, "goes on", func(st *run.State) bool {
					return st.Status.IsFinal() || len(st.Questions()) == 1 && st.Questions()[0].ID != open[0].ID
				})
			}
			if st.Status != run.StatusComplete || !slices.Equal(answers, []string{"at 7 Answer to Which?", "at 7 Answer to Sure?"}) {
				t.Errorf("status %s, answers %q", st.Status, answers)
			}
			if calls, results := n.recorded(st.ID); len(calls) != 1 || len(results) != 1 {
				t.Errorf("recorded calls %q, results %q", calls, results)
			}
		})
	}
}
