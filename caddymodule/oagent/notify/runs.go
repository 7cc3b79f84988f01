package notify

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

// runTypes are the types of the notices about runs: the kinds of package run.
var runTypes = []string{"run.complete", "run.failed", "run.canceled", "run.question", "run.credentials", "run.review"}

// runTTL is how long after its time a notice about a run may be sent.
const runTTL = 24 * time.Hour

// Run is what a notice says of a run of a hosted agent.
type Run struct {
	ID        string    `json:"id"`
	Root      string    `json:"root,omitzero"` // id of the run that the user has started; "" for this one
	Status    string    `json:"status"`
	Reason    string    `json:"reason,omitzero"`    // why it ended without an answer
	Rule      string    `json:"rule,omitzero"`      // the limit or the budget that it has reached
	WaitsFor  []string  `json:"waits_for,omitzero"` // ids of the questions or reviews that are new
	StartedAt time.Time `json:"started_at"`
	Usage     RunUsage  `json:"usage"`
}

// RunUsage is what a run has used so far.
type RunUsage struct {
	Turns        int     `json:"turns"`
	ToolCalls    int     `json:"tool_calls"`
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	CachedTokens int64   `json:"cached_tokens,omitzero"`        // the part of InputTokens that the API read from its cache
	CalledAgents int64   `json:"called_agents_tokens,omitzero"` // tokens of the agents that it called, which are included
	Estimated    bool    `json:"estimated,omitzero"`            // the model's API did not report its tokens
	Cost         float64 `json:"cost,omitzero"`                 // in the currency of the prices; 0 if there are none
}

// Outbox has the notices about runs until they are sent.
type Outbox interface {
	// List returns the notices, the oldest first.
	List(ctx context.Context) ([]*Notice, error)
	// Remove removes a notice of List.
	Remove(ctx context.Context, n *Notice) error
}

// Dropped logs that a notice about a run was removed without having been sent.
func (s *Service) Dropped(n *Notice, reason string) {
	s.options.Logger.Warn("a notice about a run was dropped", zap.String("reason", reason), zap.String("notice", n.ID), zap.String("type", n.Type),
		zap.String("agent", n.Agent), zap.String("engagement_id", n.Run.ID))
}

// scanRuns finds the notices about runs.
func (s *Service) scanRuns(ctx context.Context, visit func(lease.Job)) (all bool) {
	notices, err := s.options.Outbox.List(ctx)
	for _, notice := range notices {
		wanted := s.wanted(notice.Type)
		if time.Now().After(notice.expiry()) {
			if err = errors.Join(err, s.options.Outbox.Remove(ctx, notice)); err == nil {
				s.Dropped(notice, "it was not sent in time")
			}
			continue
		}
		for _, number := range wanted { // none if only nodes with another configuration want it
			visit(lease.Job{Lane: strconv.Itoa(number), ID: notice.Key(), Do: func(ctx context.Context) time.Time {
				if again := s.send(ctx, number, notice); !again.IsZero() {
					return again
				}
				return s.settle(ctx, notice, wanted)
			}})
		}
	}
	if err != nil && ctx.Err() == nil {
		s.options.Logger.Error("reading the notices about runs failed; they are sent later", zap.Error(err))
	}
	return err == nil
}

// settle removes a notice that all Notifiers of this configuration have sent, or have given up. It returns the time of the next check; zero for none. The
// claims remain for doneTTL: if a node died after it had added the notice to the Outbox, another one may add the notice again.
func (s *Service) settle(ctx context.Context, notice *Notice, wanted []int) (again time.Time) {
	isOpen, err := s.settleOnce(ctx, notice, wanted)
	if isOpen {
		return time.Time{} // the end of the other Notifier's work settles it
	}
	if err != nil && ctx.Err() == nil {
		s.options.Logger.Error("removing a notice that was sent failed; it is tried again", zap.String("notice", notice.ID), zap.Error(err))
	}
	return time.Now().Add(s.pace.OtherNodeDelay)
}

// settleOnce is settle once. It reports whether a Notifier has not sent the notice yet.
func (s *Service) settleOnce(ctx context.Context, notice *Notice, wanted []int) (isOpen bool, err error) {
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
	if err := s.options.Outbox.Remove(ctx, notice); err != nil {
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
