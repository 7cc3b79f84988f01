package notify

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
	"github.com/fairwayhq/fairway/store/lease"
)

// slowNotifier sends each notice when it may, or fails when its context ends.
type slowNotifier struct {
	entered, proceed chan struct{}
}

func (n *slowNotifier) Notify(ctx context.Context, _ *Notice) error {
	close(n.entered)
	select {
	case <-n.proceed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
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
				Store: func(context.Context) (store.Store, error) { return st, nil },
			})
			r := &Notice{ID: "r1", ExpiresAt: time.Now().Add(time.Hour)}
			stopping := make(chan struct{})
			s.dispatcher = &lease.Dispatcher{Interval: time.Hour, PerLane: 1, Scan: func(ctx context.Context, visit func(lease.Job)) bool {
				context.AfterFunc(ctx, func() { close(stopping) })
				visit(lease.Job{ID: r.ID, Do: func(ctx context.Context) time.Time { return s.send(ctx, 0, r) }})
				return true
			}}
			s.dispatcher.Start()
			<-n.entered
			if c.abort {
				s.dispatcher.Stop(0)
			} else {
				go func() {
					<-stopping
					close(n.proceed)
				}()
				s.Stop()
			}
			claim, _, err := s.claim(t.Context(), 0, r)
			if err != nil {
				t.Fatal(err)
			}
			if again := claim != nil; again != c.again {
				t.Errorf("after Stop, the notice is sent again: %t, want %t", again, c.again)
			}
		})
	}
}
