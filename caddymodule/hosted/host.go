package hosted

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/caddymodule/internal/keptcall"
	"github.com/fairwayhq/fairway/caddymodule/internal/siteroutes"
	guard "github.com/fairwayhq/fairway/caddymodule/oagent"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/remote"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

const (
	openRetry = time.Second      // delay after the store could not be opened
	closeTime = 10 * time.Second // for the steps in progress when the configuration ends
	replyTime = time.Second      // of the grace period, for the responses to calls of agents that have not ended
)

// Options are what a Host needs of its handler and of the site.
type Options struct {
	*Config
	Handler *guard.Handler
	App     *app.App
	Site    site.Site
	Server  *caddyhttp.Server
	Chain   *siteroutes.CallChain // that tool calls pass
	Logger  *zap.Logger

	Model      *models
	Remote     *remote.Client            // nil if no agents of other servers may be called
	Guardrails *agentset.GuardrailCaller // calls the tools of guardrails

	// Realm returns the name that separates the runs of the handlers that share a store. It is the same
	// after a reload and on other nodes. It is called when all handlers are provisioned.
	Realm func() string

	// Grace returns how long requests may go on when the server stops; 0 means that there is no limit.
	Grace func() time.Duration

	// Serve and Engagements are the paths of the endpoints, without a trailing slash.
	Serve, Engagements string
}

// Host runs the agents of one oagent handler.
type Host struct {
	options   Options
	shared    func() *shared // with the Hosts of other configurations
	endpoints callEndpoints
	kept      keptcall.Source   // set by Open
	calls     caddyhttp.Handler // that tool calls pass; set by Open
	documents caddyhttp.Handler // that requests for documents of the site pass; set by Open
	open      chan struct{}     // closed by Open

	mu     sync.Mutex
	opened atomic.Pointer[run.Runner]
	closed bool

	serving    context.Context // ends when the server no longer serves requests
	endServing context.CancelFunc
	waiting    context.Context // ends when calls of agents no longer wait for runs
	endWaiting context.CancelFunc
	running    context.Context // ends with Close
	stop       context.CancelFunc
	background sync.WaitGroup
}

// New returns a Host. Release frees it.
func New(options Options) *Host {
	options.Realm = sync.OnceValue(options.Realm)
	h := &Host{options: options, open: make(chan struct{})}
	h.shared = sync.OnceValue(func() *shared { return acquireShared(options.Realm()) })
	h.serving, h.endServing = context.WithCancel(context.Background())
	h.waiting, h.endWaiting = context.WithCancel(context.Background())
	h.running, h.stop = context.WithCancel(context.Background())
	return h
}

// Open begins to work on the runs of the Host, including those from before a restart. All handlers of
// the site must be provisioned. If the store cannot be opened, Open tries again in the background.
func (h *Host) Open() (err error) {
	if h.calls, h.documents, err = h.options.Chain.Compile(h.options.Serve); err != nil {
		return fmt.Errorf("finding the handlers that the calls of hosted agents pass: %w", err)
	}
	h.kept = route.CallsOf(h.options.App)
	close(h.open)
	h.shared().current.Store(h)
	processMetrics.open(h)
	h.background.Go(func() {
		for h.running.Err() == nil {
			if _, err := h.Runner(h.running); err == nil {
				return
			}
			select {
			case <-time.After(openRetry):
			case <-h.running.Done():
			}
		}
	})
	return nil
}

// EndServing ends the requests that wait for a run. Calls of agents whose clients cannot come back have most of the
// grace period if the process ends: another node may go on with their runs. Later calls have no effect.
func (h *Host) EndServing() {
	h.endServing()
	if caddy.Exiting() {
		time.AfterFunc(h.options.Grace()-replyTime, h.endWaiting) // at once if there is no grace period
		return
	}
	h.endWaiting()
}

// Serving returns a context that ends with ctx, and when the server stops.
func (h *Host) Serving(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(h.serving, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// Close stops working on runs. The Host of the next configuration, or of another node, resumes them.
func (h *Host) Close() {
	processMetrics.close(h)
	defer budgetMetrics(h.options.Budgets).forget()
	h.stop()
	h.background.Wait()
	h.mu.Lock()
	h.closed = true
	runner := h.opened.Load()
	h.mu.Unlock()
	if runner == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := runner.Close(ctx); err != nil {
		h.options.Logger.Warn("steps of agents were interrupted, because they did not end within the time limit after the end of the configuration")
	}
	h.handOver()
}

// Release frees what the Host shares with other configurations.
func (h *Host) Release() {
	h.endServing()
	h.endWaiting()
	if h.options.Remote != nil {
		h.options.Remote.Close()
	}
	h.shared() // the first call acquires it, and there may have been none
	releaseShared(h.options.Realm())
}

var errClosed = errors.New("the configuration has ended")

// Runner returns the Runner. It opens the store if it is not open yet. It waits for Open, because
// Caddy may start the servers, and so serve requests, before it starts the `agents` app. After Close, it returns
// the Runner of the next Host, if there is one, because Caddy may stop the `agents` app before the servers.
func (h *Host) Runner(ctx context.Context) (*run.Runner, error) {
	if r := h.opened.Load(); r != nil {
		if r.IsClosing() {
			if next := h.next(); next != nil {
				return next.Runner(ctx)
			}
		}
		return r, nil
	}
	select {
	case <-h.open:
	case <-h.serving.Done():
		return nil, errClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.opened.Load(); r != nil {
		return r, nil
	}
	if h.closed {
		if next := h.next(); next != nil {
			return next.Runner(ctx)
		}
		return nil, errClosed
	}
	opened, err := h.options.Handler.OpenGuard(ctx)
	if err != nil {
		return nil, err
	}
	st, err := h.options.App.OpenStore(ctx)
	if err != nil {
		return nil, err
	}
	r := run.NewRunner(run.Options{
		Store: st, Process: lease.ProcessOf(st), Realm: h.options.Realm(), Queue: queueOf(st, h.options.Realm()),
		Guard: opened, Agent: h.agent, Model: h.options.Model.Of, Tools: agentTools{h}, Groups: groupsOf,

		Limits: h.options.Limits.Run(), AgentLimits: runLimits(h.options.AgentLimits), Workers: h.options.Workers, TTL: time.Duration(h.options.Handler.EngagementTTL),
		Budgets:       func(of *run.Assignment) []run.Budget { return budgetsOf(h.options.Budgets, of) },
		BudgetChecked: budgetMetrics(h.options.Budgets).checked,

		Warn: h.warn, Report: h.report, Trace: h.trace, Notices: h.notices(), Decide: h.decide,
		Ended: h.shared().sessions.remove, Handover: h.wakeNext,
	})
	h.opened.Store(r)
	return r, nil
}

// queueOf returns the queue that distributes runs over the nodes, or nil if only one node uses the store.
func queueOf(st store.Store, realm string) store.Queue {
	if shared, ok := st.(store.Queuer); ok {
		return shared.Queue("oagent-" + realm)
	}
	return nil
}

// trace starts the span of the work on a run, below the request that started the run.
func (h *Host) trace(ctx context.Context, st *run.State) (context.Context, func(*run.State)) {
	ctx, span := guard.Spans().BeginRun(ctx, readOrigin(st.Origin).Trace, st.Agent, st.ID)
	return ctx, func(st *run.State) {
		failed := ""
		if st.Ending != nil {
			failed = string(st.Ending.Kind)
		}
		span.Finish(failed)
	}
}

func (h *Host) report(id string, err error) {
	if errors.Is(err, run.ErrModelWait) {
		h.options.Logger.Warn("the run of an agent waits for its model", zap.String("engagement_id", id), zap.Error(err))
		return
	}
	h.options.Logger.Error("running an agent failed", zap.String("engagement_id", id), zap.Error(err))
}

// warn logs that many runs are in progress.
func (h *Host) warn(u share.Usage) {
	h.options.Logger.Warn("more than 80 % of the runs of agents that can be in progress are; raise workers, or find out why the largest user begins so many",
		zap.Int64("used", u.Used), zap.Int64("limit", u.Limit), zap.String("largest", string(u.Largest)), zap.Int64("largest_used", u.LargestUsed))
}

// agent returns the agent with that name, or nil if the handler has none.
func (h *Host) agent(name string) *oagent.Agent {
	if a := h.options.Handler.Loader.Current().Agents[name]; a != nil {
		return a.Agent
	}
	return nil
}

// decide records the decision of a run about a review, see run.Options.Decide.
func (h *Host) decide(ctx context.Context, st *run.State, decision, comment string) error {
	return h.options.Handler.Reviewing.DecideRun(ctx, st.Agent, st.Review, decision, comment)
}

// Runs reports whether the Host runs an agent.
func (h *Host) Runs(agent *oagent.Agent) bool {
	_, err := h.options.Model.Of(agent)
	return err == nil
}

// Arrived keeps the credentials of a request of the user of a run in memory, and wakes the run if it, or
// an agent that it called, waits for credentials.
func (h *Host) Arrived(r *http.Request, st *run.State) error {
	if st.Status.IsFinal() || !h.identifies(r) && site.CallerOf(r.Context()) == nil {
		return nil
	}
	runner, err := h.Runner(r.Context())
	if err != nil {
		return err
	}
	h.shared().sessions.put(st.ID, st.Round, sessionOf(r))
	for _, w := range st.Waits() {
		switch w.Kind {
		case run.WaitCredentials:
			err = runner.Rehome(r.Context(), st.ID)
		case run.WaitTask:
			called, getErr := runner.Get(r.Context(), w.ID)
			if getErr == nil {
				err = h.Arrived(r, called)
			}
		}
		if err != nil && !errors.Is(err, run.ErrEnded) && !errors.Is(err, run.ErrNotFound) {
			return err
		}
	}
	return nil
}

// Start begins a run of an agent for the user of a request. The title may be "". The error may be one of
// remote.ReadChain or remote.Chain.Enter.
func (h *Host) Start(r *http.Request, agent *oagent.Agent, user engagement.User, input, title string) (*run.State, error) {
	return h.startRun(r, agent, run.StartOptions{ID: run.NewID(), User: user, Input: input, Title: title})
}

// startRun is Start with a given id.
func (h *Host) startRun(r *http.Request, agent *oagent.Agent, start run.StartOptions) (*run.State, error) {
	runner, err := h.Runner(r.Context())
	if err != nil {
		return nil, err
	}
	from, err := h.originOf(r, agent)
	if err != nil {
		return nil, err
	}
	h.shared().sessions.put(start.ID, 0, sessionOf(r))
	start.Agent, start.Origin, start.Home, start.Forgets = agent, from.encode(), from.needsUser(), len(from.Chain) > 1
	st, err := runner.Start(r.Context(), start)
	if err != nil {
		h.shared().sessions.remove(start.ID, 0)
	}
	return st, err
}

// needsUser reports whether calls may need credentials of the request.
func (o *origin) needsUser() bool { return o.Identified || o.Token }

// Say adds an input of the user of a request to a run. If the run has ended with an answer, it goes on with the data and
// the credentials of this request. The error may also be one of Start.
func (h *Host) Say(r *http.Request, st *run.State, in run.NewInput) (*run.State, error) {
	runner, err := h.Runner(r.Context())
	if err != nil {
		return nil, err
	}
	if agent := h.agent(st.Agent); agent != nil {
		from, err := h.originOf(r, agent)
		if err != nil {
			return nil, err
		}
		in.Origin, in.Home = from.encode(), from.needsUser()
	}
	round := st.Round
	if st.MayGoOn() {
		round++
		h.shared().sessions.put(st.ID, round, sessionOf(r))
	}
	changed, err := runner.Conversation(st.ID).Say(r.Context(), in)
	if err == nil && changed.Round > round { // the answer came in the meantime
		h.shared().sessions.put(st.ID, changed.Round, sessionOf(r))
		if err = runner.Rehome(r.Context(), st.ID); errors.Is(err, run.ErrEnded) { // calls may wait for the session
			err = nil
		}
	}
	return changed, err
}

// Wake makes the Runner resume a run whose review or task may have ended, see run.Runner.Wake. An unknown
// id has no effect.
func (h *Host) Wake(id string) {
	runner := h.opened.Load()
	if runner == nil {
		return // the Runner sweeps all runs when it is opened
	}
	if h.running.Err() != nil && h.next() != nil {
		h.wakeNext(id)
		return
	}
	// A Runner that has stopped gives the run to another node.
	if err := runner.Wake(context.WithoutCancel(h.running), id); err != nil && !errors.Is(err, run.ErrNotFound) && h.running.Err() == nil {
		h.report(id, err)
	}
}

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
	for id, round := range h.shared().sessions.runs() {
		if err := runner.Rehome(context.WithoutCancel(next.running), id); errors.Is(err, run.ErrNotFound) || errors.Is(err, run.ErrEnded) {
			h.shared().sessions.remove(id, round)
		} else if err != nil {
			next.report(id, err)
		}
	}
}

// groupsOf returns the groups of the user of a run.
func groupsOf(a *run.Assignment) []string { return readOrigin(a.Origin).user(a.User.ID).Groups }

// guardHost is a Host as the guard knows it.
type guardHost struct{ host *Host }

// CheckAgents implements guard.Host.
func (h guardHost) CheckAgents(names []string) error {
	return h.host.options.Model.checkNames(h.host.options.AgentLimits, names)
}

// CheckRemote implements guard.Host.
func (h guardHost) CheckRemote() func(oagent.Reference) error {
	if h.host.options.Remote == nil {
		return nil
	}
	return h.host.options.Remote.Check
}

// Runs implements guard.Host.
func (h guardHost) Runs(agent *oagent.Agent) bool { return h.host.Runs(agent) }

// Wake implements guard.Host.
func (h guardHost) Wake(id string) { h.host.Wake(id) }
