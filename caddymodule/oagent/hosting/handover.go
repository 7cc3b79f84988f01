package hosting

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/oagent/run"
)

// shared is the state that the Hosts of successive configurations share. A Host that ends hands its runs
// over to the next one.
type shared struct {
	sessions sessions
	current  atomic.Pointer[Host] // the Host that was opened last
}

// Destruct implements caddy.Destructor.
func (*shared) Destruct() error { return nil }

// hosts has the shared state of the Hosts, by realm.
var hosts = caddy.NewUsagePool()

func acquireShared(realm string) *shared {
	s, _, _ := hosts.LoadOrNew(realm, func() (caddy.Destructor, error) { return new(shared), nil })
	return s.(*shared)
}

func releaseShared(realm string) { _, _ = hosts.Delete(realm) }

// next returns the Host of the configuration that replaces this one, or nil if there is none.
func (h *Host) next() *Host {
	if next := h.shared().current.Load(); next != h {
		return next
	}
	return nil
}

// wakeNext makes the next Host resume a run that this Host has interrupted.
func (h *Host) wakeNext(id string) {
	if next := h.next(); next != nil {
		next.Wake(id)
	}
}

// handOver moves the home of the runs whose users' credentials are on this node to the Runner of the next
// Host.
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
