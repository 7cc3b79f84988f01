package hosting

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/oagent/run"
)

// shared is what the Hosts of successive configurations share: a Host that ends hands its runs
// over to the next one.
type shared struct {
	sessions sessions
	current  atomic.Pointer[Host] // the latest that was opened
}

// Destruct implements caddy.Destructor.
func (*shared) Destruct() error { return nil }

// hosts has what the Hosts of each realm share.
var hosts = caddy.NewUsagePool()

func acquireShared(realm string) *shared {
	s, _, _ := hosts.LoadOrNew(realm, func() (caddy.Destructor, error) { return new(shared), nil })
	return s.(*shared)
}

func releaseShared(realm string) { _, _ = hosts.Delete(realm) }

// next returns the Host of the configuration that replaces this one, nil if there is none.
func (h *Host) next() *Host {
	if next := h.shared().current.Load(); next != h {
		return next
	}
	return nil
}

// wakeNext gives a run that this Host could go on with to the next Host.
func (h *Host) wakeNext(id string) {
	if next := h.next(); next != nil {
		next.Wake(id)
	}
}

// handOver makes this node, under the name of the next Host's Runner, the home of the runs whose
// users' credentials it has.
func (h *Host) handOver() {
	next := h.next()
	if next == nil {
		return
	}
	runner, err := next.Runner(next.running)
	if err != nil {
		return // the sweep of its Runner finds the runs
	}
	for _, id := range h.shared().sessions.runs() {
		if err := runner.Rehome(context.WithoutCancel(next.running), id); errors.Is(err, run.ErrNotFound) || errors.Is(err, run.ErrEnded) {
			h.shared().sessions.remove(id)
		} else if err != nil {
			next.report(id, err)
		}
	}
}
