package site

import (
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"
)

// maxEvents limits how many events wait to be delivered. Further events are dropped and the
// drop is logged.
const maxEvents = 1024

// eventEmitter delivers events to Caddy's events app one at a time, in a goroutine of its own,
// so that no request waits for subscribers.
type eventEmitter struct {
	queue  chan event
	logger *zap.Logger
	once   sync.Once
	closed chan struct{}
}

// event is one event that waits to be delivered.
type event struct {
	name   string
	values map[string]any
}

// ProvisionEvents creates the emitter at its first call.
func (a *App) ProvisionEvents(ctx caddy.Context) error {
	if a.events != nil {
		return nil
	}
	app, err := ctx.App("events")
	if err != nil {
		return err
	}
	e := &eventEmitter{queue: make(chan event, maxEvents), logger: a.logger, closed: make(chan struct{})}
	a.events = e
	go func() {
		for {
			select {
			case <-e.closed:
				return
			case next := <-e.queue:
				app.(*caddyevents.App).Emit(ctx, next.name, next.values)
			}
		}
	}()
	return nil
}

// close stops the emitter. A nil emitter is allowed.
func (e *eventEmitter) close() {
	if e != nil {
		e.once.Do(func() { close(e.closed) })
	}
}

// Emit queues an event for Caddy's events app. It does nothing unless ProvisionEvents was called.
func (a *App) Emit(name string, values map[string]any) {
	e, next := a.events, event{name, values}
	if e == nil {
		return
	}
	select {
	case e.queue <- next:
	default:
		e.logger.Error("event dropped: the queue is full", zap.String("event", next.name))
	}
}
