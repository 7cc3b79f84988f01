package oagent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/caddymodule/hosted"
	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/caddymodule/internal/siteroutes"
	"github.com/fairwayhq/fairway/caddymodule/oagent/endpoints"
	"github.com/fairwayhq/fairway/caddymodule/oagent/notify"
	"github.com/fairwayhq/fairway/caddymodule/oagent/reviewers"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
	"github.com/fairwayhq/fairway/tools/security"
)

// provisionAgents reads the agents and starts to watch their files.
func (o *Handler) provisionAgents() (err error) {
	if len(o.Files) == 0 {
		return errors.New("no files: give the file of an agent's document")
	}
	repl := caddy.NewReplacer()
	var paths []string
	for _, file := range o.Files {
		path, err := filepath.Abs(repl.ReplaceAll(file, ""))
		if err != nil {
			return err
		}
		if slices.Contains(paths, path) {
			return fmt.Errorf("%s is given twice", file)
		}
		paths = append(paths, path)
	}
	o.agents, err = agentset.Load(agentset.Options{
		Files: paths, Matched: o.toolsets, Others: o.otherToolsets, Logger: o.logger,
		Hosted:      func(name string) bool { return hosted.Hosted(o.Models, name) },
		Check:       func(read []*oagent.Agent) error { return checkDocuments(o, read) },
		CheckRemote: checkRemote(o), Permit: func(a *oagent.Agent, names *agentset.Names) error {
			return errors.Join(checkPeople(o, a), o.accepted.Permit(a, names))
		},
	})
	if err != nil {
		return err
	}
	for _, a := range o.agents.Documents() {
		o.app.Site.AddDigest(a.Hash)
	}
	showMetrics(o)
	o.agents.Watch(func() {
		showMetrics(o)
		o.guards.notifyEndpoints()
	})
	return nil
}

// showMetrics creates the metrics of all agents, so that they are exported before the first
// request.
func showMetrics(o *Handler) {
	for _, name := range o.agents.Last().AgentNames() {
		o.metrics.of(name)
	}
}

// provisionRecords sets up the reviewing agents and the endpoints. Agents and toolsets must be known.
func (o *Handler) provisionRecords(ctx caddy.Context) (err error) {
	o.guardrails = &agentset.GuardrailCaller{Logger: o.logger}
	if o.chat != nil {
		o.guardrails = o.chat.Guardrails()
	}
	o.reviewers, err = reviewers.New(ctx, reviewers.Options{
		Agents: o.Reviewers, TTL: time.Duration(cmp.Or(o.EngagementTTL, caddy.Duration(oagent.DefaultTTL))), Path: strings.TrimRight(o.Reviews, "/"), Set: o.agents.Current, Guard: o.guard,
		Guardrails: o.guardrails, Logger: o.logger, Spans: &processSpans, Host: o.host,
	})
	if err != nil {
		return err
	}
	o.background = o.host != nil
	for name := range o.Reviewers {
		o.background = o.background || o.reviewers.HasProgram(name)
	}
	o.endpoints = endpoints.New(endpoints.Options{
		Documents: o.Serve, Engagements: o.Engagements, Reviews: o.Reviews, Auditors: o.Auditors,
		Set: o.agents.Current, Guard: o.guard, Reviewers: o.reviewers, Originals: o.Originals.mayRead, Host: o.host, Accept: o.accepted, Logger: o.logger,
		StoreFailed: o.app.StoreErrors(o.logger, "reading the store of Engagements failed"),
		BoundBody:   func(r *http.Request) func() { return route.BoundBody(o.app, r) },
		User:        func(r *http.Request) engagement.User { return bind(o, r, nil).User },
		Govern: func(w http.ResponseWriter, r *http.Request) (oagent.Binding, bool) {
			c, refusal := identify(newRequest(o, w, r), o.agents.Current())
			return c.binding, refusal == nil
		},
	})
	return checkLinked(o, siteroutes.IsAuthenticatedBefore(ctx, "oagent", o.Reviews))
}

// provisionHosting sets up the Host of the agents that have a model.
func (o *Handler) provisionHosting(ctx caddy.Context) error {
	if len(o.Models) == 0 {
		if o.Limits != nil || o.AgentLimits != nil || o.Workers != 0 || o.Budgets != nil || o.Prices != nil {
			return errors.New("limits, budget, prices and workers have no effect without model: add the model of the agents")
		}
		return nil
	}
	if o.Serve == "" || o.Engagements == "" {
		return errors.New("model needs the endpoints through which the agents are used: add serve /agents and engagements /engagements")
	}
	models, err := hosted.LoadModels(ctx, o.Models, o.Prices)
	if err != nil {
		return err
	}
	if err := models.CheckNames(o.AgentLimits, o.agents.Last().AgentNames()); err != nil {
		return err
	}
	chain := siteroutes.CallChainOf(ctx)
	if chain == nil || o.server == nil {
		return errors.New("agents cannot be hosted here, because the handlers for their tool calls cannot be determined: " +
			"move oagent out of named routes and error routes into the site")
	}
	o.realm = realmOf(ctx, o, o.Serve, o.Engagements)
	o.host = hosted.New(hosted.Options{
		App: o.app, Site: o.site, Server: o.server, Chain: chain, Logger: o.logger, Realm: o.realm, Set: o.agents.CurrentFor, Toolsets: o.toolsets,
		Guard: o.guard, Guardrails: &agentset.GuardrailCaller{Logger: o.logger}, Model: models.Of,
		Remote: o.remote, StaticIdentity: o.staticIdentity, Originals: o.Originals.sealer(),
		Decided: func(ctx context.Context, d *hosted.Decision) { logAgentCall(ctx, o, d) },
		Decide: func(ctx context.Context, st *run.State, decision, comment string) error {
			return o.reviewers.DecideRun(ctx, st, decision, comment)
		},
		Notices: func() *run.NoticeOptions { return o.notices.RunNotices() },
		Spans:   &processSpans, Recorder: route.RecorderOf(o.app),
		Limits: o.Limits.Run(), AgentLimits: hosted.AgentLimits(o.AgentLimits), Budgets: o.Budgets, Workers: o.Workers,
		TTL: time.Duration(o.EngagementTTL), Grace: func() time.Duration { return site.GracePeriod(ctx) },
		Serve: strings.TrimRight(o.Serve, "/"), Engagements: strings.TrimRight(o.Engagements, "/"),
	})
	o.server.RegisterOnShutdown(o.host.EndServing)
	return nil
}

// provisionNotices loads the notifiers of the handler.
func (o *Handler) provisionNotices(ctx caddy.Context) error {
	if len(o.NotifiersRaw) == 0 {
		return nil
	}
	loaded, err := ctx.LoadModule(o, "NotifiersRaw")
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	var notifiers []notify.Notifier
	for _, module := range loaded.([]any) {
		notifier, ok := module.(notify.Notifier)
		if !ok {
			return fmt.Errorf("notify: the module %T is not a notifier", module)
		}
		if o.host == nil {
			if err := notify.CheckHosted(notifier); err != nil {
				return fmt.Errorf("notify: %w", err)
			}
		}
		notifiers = append(notifiers, notifier)
	}
	var outbox func(context.Context) (*run.Outbox, error)
	if o.host != nil {
		outbox = func(ctx context.Context) (*run.Outbox, error) {
			st, err := o.app.OpenStore(ctx)
			if err != nil {
				return nil, err
			}
			return run.NewOutbox(st, o.realm()), nil
		}
	}
	o.notices = notify.New(notify.Options{
		Notifiers: notifiers, Reviews: strings.TrimRight(o.Reviews, "/"), Set: o.agents.Current, Guard: o.guard, Store: o.app.OpenStore,
		Runs: strings.TrimRight(o.Engagements, "/"), Outbox: outbox, Skip: o.reviewers.DecidesAlone, Due: o.reviewers.Due, Logger: o.logger,
	})
	return nil
}

// provisionRemote sets up the calls of agents of other servers.
func (o *Handler) provisionRemote(ctx caddy.Context) (err error) {
	if len(o.RemoteAgents) == 0 {
		return nil
	}
	if len(o.Models) == 0 {
		return errors.New("remote_agents has no effect without model: only hosted agents call agents of other servers")
	}
	o.remote, err = hosted.NewRemoteClient(ctx, o.RemoteAgents, o.logger)
	return err
}

// checkRemote returns the function that rejects agents of other servers which must not be called;
// nil if none may be.
func checkRemote(o *Handler) func(oagent.Reference) error {
	if o.remote == nil {
		return nil
	}
	return o.remote.Check
}

// provisionAccept sets up the acceptance of agent documents.
func (o *Handler) provisionAccept(ctx caddy.Context) error {
	if o.Accept == nil {
		return nil
	}
	if err := o.Accept.Validate(o.Serve, func(identity string) bool { return o.Identities[identity] != nil }); err != nil {
		return err
	}
	o.accepted = hosted.NewAcceptService(hosted.AcceptOptions{
		Config: o.Accept, Logger: o.logger, Realm: realmOf(ctx, o, o.Serve), OpenStore: o.app.OpenStore, Set: o.agents.Current,
		Check: func(a *oagent.Agent, set *agentset.Set) error {
			return cmp.Or(checkPeople(o, a), checkGuardrails(o, set, a))
		},
		Replace: func(accepted []*oagent.Agent) {
			o.agents.Accept(accepted)
			showMetrics(o)
			o.guards.notifyEndpoints()
		},
	})
	return nil
}

// StaticIdentity is a set of credentials that a document's static_identity names.
type StaticIdentity struct {
	// The credentials to send to the API. Default: none; at least one is required.
	Credentials []json.RawMessage `json:"credentials,omitempty" caddy:"namespace=agents.credentials inline_key=in"`
}

// provisionIdentities checks the credentials, and which headers accompany them. The toolsets are known.
func (o *Handler) provisionIdentities(ctx caddy.Context) error {
	o.identities = make(map[string]credential.Set, len(o.Identities))
	for name, identity := range o.Identities {
		if name == "" || identity == nil || len(identity.Credentials) == 0 {
			return fmt.Errorf("identity %q: an identity needs a name and credentials", name)
		}
		checked, err := credential.Load(ctx, identity.Credentials, o.logger)
		if err != nil {
			return fmt.Errorf("identity %q: %w", name, err)
		}
		o.identities[name] = checked
	}
	var err error
	for _, name := range o.ForwardHeaders {
		if canonical := http.CanonicalHeaderKey(name); httpheader.MayAccompany(canonical, nil) && !httpheader.Forwarded(canonical, nil) {
			return fmt.Errorf("forward_headers %s has no effect here: plain requests carry it anyway, and tool calls only if forward_headers of their toolset lists it", name)
		}
	}
	if o.forwardHeaders, err = credential.Forwarded(o.ForwardHeaders); err != nil || len(o.identities) == 0 {
		return err
	}
	forwarded := slices.Clone(o.forwardHeaders)
	for _, t := range o.toolsets {
		forwarded = append(forwarded, t.ForwardHeaders...)
	}
	siteroutes.WarnIfDropped(ctx, "oagent", forwarded, o.logger)
	return nil
}

// currentIdentity returns the credentials of a static_identity. A run that an earlier configuration has
// started may name one that is not configured.
func (o *Handler) currentIdentity(ctx context.Context, name string) (*security.Supplement, error) {
	credentials, ok := o.identities[name]
	if !ok {
		return nil, fmt.Errorf("identity %s is not configured", name)
	}
	return credentials.Current(ctx)
}

// staticIdentity returns a function that adds the credentials of a static_identity to a request.
func (o *Handler) staticIdentity(name string) func(*http.Request) error {
	return func(r *http.Request) error {
		with, err := o.currentIdentity(r.Context(), name)
		with.Apply(r)
		return err
	}
}

// A realm separates the stored data of a handler from that of other handlers: the runs of its agents and
// the accepted documents. Its name consists of settings that rarely change: the hosts of the site and the
// paths of endpoints. Realms with the same name, such as those of two sites that differ only in the port,
// are numbered.
type realm struct {
	name   string
	listen string // addresses of the server
}

// realms has the realms of a configuration by name. Those of one server are in the order of its routes.
// Caddy provisions the servers in a random order.
type realms struct {
	mu     sync.Mutex
	byName map[string][]*realm
}

type realmsKey struct{}

// realmOf returns the function that returns the unique name of the realm of a handler. The name is known
// when all handlers are provisioned, and is the same after a restart and on other nodes.
func realmOf(ctx caddy.Context, o *Handler, paths ...string) func() string {
	parts := make([]string, 1, 1+len(paths))
	if chain := siteroutes.CallChainOf(ctx); chain != nil {
		parts[0] = fmt.Sprintf("%q", chain.Hosts())
	}
	for _, path := range paths {
		parts = append(parts, strings.TrimRight(path, "/"))
	}
	r := &realm{name: engagement.Digest(parts...)}
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		r.listen = strings.Join(server.Listen, " ")
	}
	all := site.Share(o.app.Site, realmsKey{}, func() *realms { return &realms{byName: make(map[string][]*realm)} })
	all.mu.Lock()
	defer all.mu.Unlock()
	all.byName[r.name] = append(all.byName[r.name], r)
	return func() string { return all.unique(r) }
}

// unique returns the name of a realm with its number among the realms of that name, ordered by the
// addresses of their servers. The first one has no number.
func (all *realms) unique(r *realm) string {
	all.mu.Lock()
	defer all.mu.Unlock()
	same := slices.Clone(all.byName[r.name])
	slices.SortStableFunc(same, func(a, b *realm) int { return cmp.Compare(a.listen, b.listen) })
	if i := slices.Index(same, r); i > 0 {
		return r.name + "-" + strconv.Itoa(i+1)
	}
	return r.name
}
