package app

import (
	"slices"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/oagent"
)

// maxEvents limits how many events wait to be delivered. Further events are dropped and the
// drop is logged.
const maxEvents = 1024

// Names of the events that Fairway emits to Caddy. A name begins with its subject.
const (
	eventReviewAsked   = "oagent_review_asked"
	eventReviewDecided = "oagent_review_decided"
	eventEnded         = "oagent_engagement_ended"
	eventNamesMoved    = "toolset_names_withdrawn"
)

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

// workingHandlers returns the handlers of this configuration, and of one that has replaced it. A server ends
// its requests after the work of its configuration has stopped, so the handlers of the next configuration must
// know of what such a request does.
func workingHandlers(a *App) []GuardHandler {
	if latest := a.store.latest.Load(); latest != nil && latest != a {
		return slices.Concat(a.GuardHandlers, latest.GuardHandlers)
	}
	return a.GuardHandlers
}

// emitGuardEvent forwards an event of a guard to Caddy's events app. Events carry no inputs and no
// outputs of tools.
func (a *App) emitGuardEvent(guardEvent oagent.Event) {
	next := event{values: map[string]any{"user": guardEvent.User.ID}}
	switch guardEvent.Kind {
	case oagent.EventReviewAsked:
		next.name = eventReviewAsked
	case oagent.EventReviewDecided:
		next.name = eventReviewDecided
	case oagent.EventEnded:
		next.name = eventEnded
	default:
		return
	}
	if r := guardEvent.Review; r != nil {
		next.values["review"], next.values["reviewer"], next.values["status"] = r.ID, r.Reviewer, r.Status
		next.values["agent"], next.values["engagement"], next.values["name"] = r.Agent, r.Key, r.Name
		next.values["side"], next.values["rule"] = string(r.Side), r.Rule
		if r.DecidedBy.User != "" {
			next.values["decided_by"] = r.DecidedBy.User
		}
	}
	for _, h := range workingHandlers(a) {
		switch guardEvent.Kind {
		case oagent.EventReviewAsked:
			h.WakeReviewRequests()
		case oagent.EventReviewDecided:
			h.ReviewDecided(guardEvent.Review.Engagement)
		}
	}
	if r := guardEvent.Refusal; r != nil {
		next.values["agent"], next.values["name"], next.values["rule"] = r.Agent, r.Name, r.Rule
		next.values["kind"] = string(r.Kind)
	}
	a.events.emit(next)
}

// EmitNamesWithdrawn emits the event that names of tools of an endpoint mean no tool, because they would mean one of
// another toolset.
func EmitNamesWithdrawn(a *App, path, toolsets string, names []string) {
	a.events.emit(event{eventNamesMoved, map[string]any{"path": path, "toolsets": toolsets, "names": names}})
}

// emit queues an event. A nil emitter is allowed.
func (e *eventEmitter) emit(next event) {
	if e == nil {
		return
	}
	select {
	case e.queue <- next:
	default:
		e.logger.Error("event dropped: the queue is full", zap.String("event", next.name))
	}
}
