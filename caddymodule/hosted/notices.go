package hosted

import (
	"context"

	"github.com/fairwayhq/fairway/caddymodule/oagent/notify"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

// notices returns the options for the notices about runs; nil if no Notifier wants any.
func (h *Host) notices() *run.NoticeOptions {
	service, all := h.options.Handler.Notices, make([]string, 0, len(run.NoticeKinds()))
	for _, kind := range run.NoticeKinds() {
		all = append(all, string(kind))
	}
	if !service.Wants(all...) {
		return nil
	}
	return &run.NoticeOptions{
		Wants:   func(kind run.NoticeKind) bool { return service.Wants(string(kind)) },
		Added:   service.Wake,
		Dropped: func(n *run.OperatorNotice) { service.Dropped(outbox{h}.notice(n), "too many notices wait") },
	}
}

// outbox is the notify.Outbox of a Host.
type outbox struct{ host *Host }

// Outbox implements guard.Host.
func (h guardHost) Outbox() notify.Outbox { return outbox(h) }

func (b outbox) open(ctx context.Context) (*run.Outbox, error) {
	st, err := b.host.options.App.OpenStore(ctx)
	if err != nil {
		return nil, err
	}
	return run.NewOutbox(st, b.host.options.Realm()), nil
}

// List implements notify.Outbox.
func (b outbox) List(ctx context.Context) (all []*notify.Notice, err error) {
	opened, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	listed, err := opened.List(ctx)
	for i := range listed {
		all = append(all, b.notice(&listed[i]))
	}
	return all, err
}

// Remove implements notify.Outbox.
func (b outbox) Remove(ctx context.Context, n *notify.Notice) error {
	opened, err := b.open(ctx)
	if err != nil {
		return err
	}
	return opened.Remove(ctx, &run.OperatorNotice{ID: n.ID, Run: run.NoticeRun{ID: n.Run.ID}})
}

// notice returns the notice that Notifiers get.
func (b outbox) notice(n *run.OperatorNotice) *notify.Notice {
	r := &n.Run
	return &notify.Notice{
		ID: n.ID, Type: string(n.Kind), Agent: n.Agent, User: n.User, Location: b.host.options.Engagements + "/" + r.ID, At: n.At,
		Run: &notify.Run{
			ID: r.ID, Root: r.Root, Status: string(r.Status), Reason: string(r.Reason), Rule: r.Rule, WaitsFor: r.WaitsFor, StartedAt: r.StartedAt,
			Usage: notify.RunUsage(r.Usage),
		},
	}
}
