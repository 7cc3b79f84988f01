package notify

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/oagent/hosted/run"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

// RunNotices returns the options for the notices about runs; nil if no Notifier wants any. A nil Service has none.
func (s *Service) RunNotices() *run.NoticeOptions {
	if s == nil || s.wanted(runTypes()...) == nil {
		return nil
	}
	return &run.NoticeOptions{
		Wants:   func(kind run.NoticeKind) bool { return s.wanted(string(kind)) != nil },
		Added:   s.Wake,
		Dropped: func(n *run.OperatorNotice) { s.dropped(n, "too many notices wait") },
	}
}

// runTypes returns the types of the notices about runs.
func runTypes() (all []string) {
	for _, kind := range run.NoticeKinds() {
		all = append(all, string(kind))
	}
	return all
}

func (s *Service) dropped(n *run.OperatorNotice, reason string) {
	s.options.Logger.Warn("a notice about a run was dropped", zap.String("reason", reason), zap.String("notice", n.ID), zap.String("type", string(n.Kind)),
		zap.String("agent", n.Agent), zap.String("engagement_id", n.Run.ID))
}

// scanRuns finds the notices about runs.
func (s *Service) scanRuns(ctx context.Context, visit func(lease.Job)) (all bool) {
	outbox, err := s.options.Outbox(ctx)
	var notices []run.OperatorNotice
	if err == nil {
		notices, err = outbox.List(ctx)
	}
	for i := range notices {
		n := &notices[i]
		notice, wanted := s.runNotice(n), s.wanted(string(n.Kind))
		if time.Now().After(notice.expiry()) {
			if err = errors.Join(err, outbox.Remove(ctx, n)); err == nil {
				s.dropped(n, "it was not sent in time")
			}
			continue
		}
		for _, number := range wanted { // none if only nodes with another configuration want it
			visit(lease.Job{Lane: strconv.Itoa(number), ID: notice.Key(), Do: func(ctx context.Context) time.Time {
				if again := s.send(ctx, number, notice); !again.IsZero() {
					return again
				}
				return s.settle(ctx, outbox, n, notice, wanted)
			}})
		}
	}
	if err != nil && ctx.Err() == nil {
		s.options.Logger.Error("reading the notices about runs failed; they are sent later", zap.Error(err))
	}
	return err == nil
}

// runNotice returns the notice that Notifiers get.
func (s *Service) runNotice(n *run.OperatorNotice) *Notice {
	return &Notice{ID: n.ID, Type: string(n.Kind), Agent: n.Agent, User: n.User, Location: s.options.Runs + "/" + n.Run.ID, At: n.At, Run: &n.Run}
}

// settle removes a notice that all Notifiers of this configuration have sent, or have given up. It returns the time of the next check; zero for none. The
// claims remain for doneTTL: if a node died after it had added the notice to the Outbox, another one may add the notice again.
func (s *Service) settle(ctx context.Context, outbox *run.Outbox, n *run.OperatorNotice, notice *Notice, wanted []int) (again time.Time) {
	isOpen, err := s.settleOnce(ctx, outbox, n, notice, wanted)
	if isOpen {
		return time.Time{} // the end of the other Notifier's work settles it
	}
	if err != nil && ctx.Err() == nil {
		s.options.Logger.Error("removing a notice that was sent failed; it is tried again", zap.String("notice", n.ID), zap.Error(err))
	}
	return time.Now().Add(s.pace.OtherNodeDelay)
}

// settleOnce is settle once. It reports whether a Notifier has not sent the notice yet.
func (s *Service) settleOnce(ctx context.Context, outbox *run.Outbox, n *run.OperatorNotice, notice *Notice, wanted []int) (isOpen bool, err error) {
	st, err := s.options.Store(ctx)
	if err != nil {
		return false, err
	}
	done := make(map[string][]byte, len(wanted))
	for _, number := range wanted {
		key := s.key(number, notice)
		r, err := st.Get(ctx, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return false, err
		}
		if state, err := decodeSendState(key, r.Value); err != nil || !state.Done {
			return err == nil, err
		}
		done[key] = r.Value
	}
	if err := outbox.Remove(ctx, n); err != nil {
		return false, err
	}
	for key, value := range done {
		if err := st.Put(ctx, key, store.Change{Value: value, TTL: doneTTL, Async: true}); err != nil {
			return false, err
		}
	}
	return false, nil
}

// isRunType reports whether notices of that type are about runs.
func isRunType(kind string) bool { return strings.HasPrefix(kind, "run.") }
