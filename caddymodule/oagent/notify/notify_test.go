package notify

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/review"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
)

// slowNotifier sends each notice when it may.
type slowNotifier struct {
	entered, proceed chan struct{}
}

func (n *slowNotifier) Notify(ctx context.Context, _ *Notice) error {
	close(n.entered)
	<-n.proceed
	return ctx.Err()
}

func (*slowNotifier) MaxDuration() time.Duration { return time.Minute }
func (*slowNotifier) Target() string             { return "slow" }

// TestService_Stop checks that a notice that is accepted while the Service stops is not sent again, and that
// another node or configuration sends one at once that was canceled.
func TestService_Stop(t *testing.T) {
	for name, c := range map[string]struct {
		abort bool
		again bool
	}{
		"accepted": {abort: false, again: false},
		"canceled": {abort: true, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			st, err := embedded.Open(filepath.Join(t.TempDir(), "records.db"), embedded.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = st.Close() })
			n := &slowNotifier{entered: make(chan struct{}), proceed: make(chan struct{})}
			s := New(Options{
				Notifiers: []Notifier{n}, Logger: zap.NewNop(),
				Guard: func(context.Context) (*oagent.Guard, error) { return nil, errors.New("the test begins the notice") },
				Store: func(context.Context) (store.Store, error) { return st, nil },
			})
			s.Start(agents.ReviewPace{ScanInterval: time.Hour})
			r := &review.Summary{ID: "r1", ExpiresAt: time.Now().Add(time.Hour)}
			s.begin(0, r)
			<-n.entered
			end := s.cancel
			s.cancel = func() {
				end()
				if c.abort {
					s.abort()
				}
				close(n.proceed)
			}
			s.Stop()
			claimed, err := s.claim(t.Context(), 0, r)
			if err != nil || claimed.mine != c.again || claimed.Done == c.again {
				t.Errorf("after Stop, the notice is sent again: %t, want %t (done %t, error %v)", claimed.mine, c.again, claimed.Done, err)
			}
		})
	}
}
