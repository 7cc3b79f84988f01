package hosted

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
	"github.com/fairwayhq/fairway/store/embedded"
)

func TestRunner_waits_for_Open(t *testing.T) {
	h := New(Options{Config: new(Config), Realm: func() string { return t.Name() }})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := h.Runner(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("before Open: error %v, want the end of the context", err)
	}
	h.Release()
	if _, err := h.Runner(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("after Release: error %v, want %v", err, errClosed)
	}
}

// TestRunner_after_Close checks that requests that a server still serves after its configuration has ended get
// the Runner of the next configuration.
func TestRunner_after_Close(t *testing.T) {
	st, err := embedded.Open(filepath.Join(t.TempDir(), "records.db"), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	guard, err := oagent.NewGuard(oagent.GuardOptions{Store: st})
	if err != nil {
		t.Fatal(err)
	}
	opened := func() (*Host, *run.Runner) {
		h := New(Options{Config: new(Config), Realm: t.Name})
		t.Cleanup(h.Release)
		runner := run.NewRunner(run.Options{
			Store: st, Guard: guard, Tools: agentTools{h}, Agent: func(string) *oagent.Agent { return nil },
			Model:  func(*oagent.Agent) (model.Model, error) { return nil, errors.New("there is no agent") },
			Report: h.report, Handover: h.wakeNext,
		})
		close(h.open)
		h.shared().current.Store(h)
		h.opened.Store(runner)
		return h, runner
	}
	first, own := opened()
	second, next := opened()
	unopened := New(Options{Config: new(Config), Realm: t.Name})
	t.Cleanup(unopened.Release)
	close(unopened.open)
	if r, err := first.Runner(t.Context()); r != own || err != nil {
		t.Errorf("before Close: another Runner, or error %v", err)
	}
	first.Close()
	unopened.Close()
	for name, h := range map[string]*Host{"opened": first, "never opened": unopened} {
		if r, err := h.Runner(t.Context()); r != next || err != nil {
			t.Errorf("%s: not the Runner of the next configuration, error %v", name, err)
		}
	}
	second.Close()
	if r, err := second.Runner(t.Context()); r != next || err != nil {
		t.Errorf("without a next configuration: not its own Runner, which reads the store, or error %v", err)
	}
}
