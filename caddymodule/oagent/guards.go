package oagent

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/caddymodule/stores"
	"github.com/fairwayhq/fairway/internal/audit"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
	"github.com/fairwayhq/fairway/store/keyedhash"
	"github.com/fairwayhq/fairway/tools"
)

func init() {
	site.Register(func() site.Section { return new(Guards) })
}

// Guards is the part of the app `agents` that the oagent handlers of a configuration share.
type Guards struct {
	// Allows the store to evict Engagements in which every call was refused, to make room for others. Default: false, they
	// are kept until they expire.
	EvictRefusedEngagements bool `json:"evict_refused_engagements,omitempty"`

	Handlers []*Handler `json:"-"` // in the order in which they are provisioned; complete once the app has started

	pace review.Pace

	working      []*Handler // those that Start has started
	app          *app.App
	recorder     audit.Recorder // nil without an archive
	endpoints    []*app.AgentEndpoint
	changed      []func()          // see OnChange
	callerHashes keyedhash.Callers // hashes of the credentials of callers that no site authenticates
	latest       *atomic.Pointer[Guards]

	mu     sync.Mutex
	guards map[guardKey]*oagent.Guard
}

// Options implements site.Section.
func (g *Guards) Options(b *directive.Block) directive.Options {
	return directive.Options{"evict_refused_engagements": directive.To(b.Flag, &g.EvictRefusedEngagements)}
}

// Provision implements site.Section.
func (g *Guards) Provision(_ caddy.Context, a *site.App) (err error) {
	g.pace = review.DefaultPace()
	if g.app, err = site.Get[*app.App](a); err != nil {
		return err
	}
	if g.recorder, err = site.RecorderOf(a); err != nil {
		return err
	}
	g.app.Users.Add("engagements", engagement.UserData{})
	g.app.Users.Add("reviews", review.UserData{})
	g.latest = stores.Keep(g.app.Handle, func(*stores.Handle) *atomic.Pointer[Guards] { return new(atomic.Pointer[Guards]) })
	a.OnStarted(func() { g.latest.Store(g) })
	return nil
}

// Start checks what endpoints need of the agents, and begins the work of the handlers.
func (g *Guards) Start() error {
	if err := g.Check(); err != nil {
		return err
	}
	for _, h := range g.Handlers {
		g.working = append(g.working, h) // it may start in part
		if err := h.startWork(); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends the work of the handlers that have started.
func (g *Guards) Stop() {
	for _, h := range g.working {
		h.stopWork()
	}
}

// guardKey identifies a guard of one configuration by its options. Handlers with equal options share one guard, and so one
// cache of the records in the store.
type guardKey struct {
	TTL, ReviewWait time.Duration
	MaxRecorded     int64 // bytes
}

// guard returns the guard with those options. It opens the store.
func (g *Guards) guard(ctx context.Context, key guardKey) (*oagent.Guard, error) {
	s, err := g.app.OpenStore(ctx)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.guards[key]; known != nil {
		return known, nil
	}
	created, err := oagent.NewGuard(oagent.GuardOptions{
		Store: s, TTL: key.TTL, ReviewWait: key.ReviewWait, MaxPayload: int(key.MaxRecorded), RetryPause: g.pace.RetryPause, Notify: g.emit,
		Archive: archiveOf(g.recorder), EvictRefusals: g.EvictRefusedEngagements,
	})
	if err != nil {
		return nil, err
	}
	if g.guards == nil {
		g.guards = make(map[guardKey]*oagent.Guard)
	}
	g.guards[key] = created
	return created, nil
}

// workingHandlers returns the handlers of this configuration, and of one that has replaced it. A server ends
// its requests after the work of its configuration has stopped, so the handlers of the next configuration must
// know of what such a request does.
func (g *Guards) workingHandlers() []*Handler {
	if latest := g.latest.Load(); latest != nil && latest != g {
		return slices.Concat(g.Handlers, latest.Handlers)
	}
	return g.Handlers
}

// Names of the events that guards emit to Caddy. A name begins with its subject.
const (
	eventReviewAsked   = "oagent_review_asked"
	eventReviewDecided = "oagent_review_decided"
	eventEnded         = "oagent_engagement_ended"
)

// emit forwards an event of a guard to Caddy's events app. Events carry no inputs and no
// outputs of tools.
func (g *Guards) emit(guardEvent oagent.Event) {
	var name string
	values := map[string]any{"user": guardEvent.User.ID}
	switch guardEvent.Kind {
	case oagent.EventReviewAsked:
		name = eventReviewAsked
	case oagent.EventReviewDecided:
		name = eventReviewDecided
	case oagent.EventEnded:
		name = eventEnded
	default:
		return
	}
	if r := guardEvent.Review; r != nil {
		values["review"], values["reviewer"], values["status"] = r.ID, r.Reviewer, r.Status
		values["agent"], values["engagement"], values["name"] = r.Agent, r.Key, r.Name
		values["side"], values["rule"] = string(r.Side), r.Rule
		if r.DecidedBy.User != "" {
			values["decided_by"] = r.DecidedBy.User
		}
	}
	for _, h := range g.workingHandlers() {
		switch guardEvent.Kind {
		case oagent.EventReviewAsked:
			h.wakeReviewRequests()
		case oagent.EventReviewDecided:
			h.reviewDecided(guardEvent.Review.Engagement)
		}
	}
	if r := guardEvent.Refusal; r != nil {
		values["agent"], values["name"], values["rule"] = r.Agent, r.Name, r.Rule
		values["kind"] = string(r.Kind)
	}
	g.app.Site.Emit(name, values)
}

// SetPace changes how often reviewing agents are contacted. It is for tests.
func (g *Guards) SetPace(pace review.Pace) { g.pace = pace }

// AddEndpoint implements app.Agents.
func (g *Guards) AddEndpoint(e *app.AgentEndpoint) { g.endpoints = append(g.endpoints, e) }

// At returns the oagent handlers of a site. It is complete once the configuration has started.
func (g *Guards) At(at site.Site) (handlers []*Handler) {
	for _, h := range g.Handlers {
		if h.site.SameSite(at) {
			handlers = append(handlers, h)
		}
	}
	return handlers
}

// of returns the handler that defines the agent. A handler of the same site takes
// precedence. The result is nil if no handler defines the agent.
func (g *Guards) of(at site.Site, agent string) *Handler {
	var found *Handler
	for _, h := range g.Handlers {
		if h.Loader.Last().Agents[agent] == nil {
			continue
		}
		if h.site.SameSite(at) {
			return h
		}
		if found == nil {
			found = h
		}
	}
	return found
}

// hasEndpoint reports whether an endpoint of the site is limited to an agent. Only endpoints that are already provisioned
// are included.
func (g *Guards) hasEndpoint(at site.Site) bool {
	return slices.ContainsFunc(g.endpoints, func(b *app.AgentEndpoint) bool { return b.Site.SameSite(at) })
}

// Check implements app.Agents.
func (g *Guards) Check() error {
	for _, b := range g.endpoints {
		if g.of(b.Site, b.Agent) == nil {
			return fmt.Errorf("%s %s: no oagent handler defines the agent %q%s", b.Protocol, b.Path, b.Agent, g.suggest(b.Agent))
		}
	}
	return nil
}

// suggest returns the end of an error message: the nearest agent name, or all agent
// names.
func (g *Guards) suggest(name string) string {
	var names []string
	for _, h := range g.Handlers {
		names = append(names, h.Loader.Last().AgentNames()...)
	}
	if len(names) == 0 {
		return "; there is no oagent handler, which loads the agent documents"
	}
	slices.Sort(names)
	return directive.DidYouMean(name, slices.Compact(names))
}

// OnChange adds a function that is called when the agents have changed after the start.
func (g *Guards) OnChange(f func()) { g.changed = append(g.changed, f) }

// notifyEndpoints calls the functions of OnChange, and ToolsChanged of the endpoints that are limited to an agent.
func (g *Guards) notifyEndpoints() {
	if !g.app.Site.Started() {
		return
	}
	for _, f := range g.changed {
		f()
	}
	for _, b := range g.endpoints {
		if b.ToolsChanged != nil {
			b.ToolsChanged()
		}
	}
}

// LimitTools implements app.Agents.
func (g *Guards) LimitTools(at site.Site, agent string, t *app.Toolset, toolset *tools.Toolset) *tools.Toolset {
	if h := g.of(at, agent); h != nil {
		if a := h.Loader.Current().Agents[agent]; a != nil {
			return a.Narrow(t, toolset)
		}
	}
	return toolset.Only(func(*tools.Tool) bool { return false })
}

// Interface guards
var (
	_ app.Agents   = (*Guards)(nil)
	_ site.Starter = (*Guards)(nil)
	_ site.Stopper = (*Guards)(nil)
)
