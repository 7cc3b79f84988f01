package oagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/dustin/go-humanize"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/caddymodule/agents/credential"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/oagent/accept"
	"github.com/fairwayhq/fairway/caddymodule/oagent/agentset"
	"github.com/fairwayhq/fairway/caddymodule/oagent/chat"
	"github.com/fairwayhq/fairway/caddymodule/oagent/endpoints"
	"github.com/fairwayhq/fairway/caddymodule/oagent/guardrail"
	"github.com/fairwayhq/fairway/caddymodule/oagent/hosting"
	"github.com/fairwayhq/fairway/caddymodule/oagent/notify"
	"github.com/fairwayhq/fairway/caddymodule/oagent/remoteagents"
	"github.com/fairwayhq/fairway/caddymodule/oagent/reviewers"
	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/remote"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Defaults of the oagent handler.
const (
	DefaultMaxInput  = 1 << 20 // bytes of a plain request's body
	DefaultMaxOutput = 1 << 20 // bytes of a response that is recorded or checked
)

// Handler decides for every request to the API whether the governing agent may make it now,
// and records it (OpenAgentSpec v1). A request is a tool call from mcp or otc, or a plain
// request. A plain request is matched to an operation of the toolsets' documents; a request
// that matches none, or several, is refused.
//
// Place the handler last before the API, because it treats every request that reaches it as a
// call of the API.
//
// A refusal is a problem document (application/problem+json), or for tool calls an error of
// the tool. The API is not called then. If an output restriction fails after the call, the
// response is withheld completely.
//
// Placeholders:
//
// Placeholder | Description
// ------------|------------
// `{http.oagent.agent}` | The agent that governs the request
// `{http.oagent.engagement}` | The key of its Engagement: 40 hexadecimal digits
// `{http.oagent.decision}` | `allowed`, or the kind of the refusal; empty before the decision
// `{http.tool.outcome}` | The outcome of a request that is not a tool call
type Handler struct {
	// The files of the agents' documents, with one or more documents in each. Relative paths
	// start at Caddy's working directory. Placeholders such as {env.NAME} are replaced. All
	// files must be valid when the configuration is loaded. Afterwards they are watched: a
	// valid change replaces the agents, an invalid one is logged. Required. Default: none.
	Files []string `json:"files,omitempty"`

	// The name of the agent that governs a request, with placeholders. If it is empty and
	// there is exactly one agent, that agent governs. If there are several, the request is
	// refused. Default: empty.
	Guard string `json:"guard,omitempty"`

	// The id of the Engagement of a request, with placeholders. An Engagement always belongs
	// to one user and one agent, too. Default: empty, so one Engagement for each user and
	// agent.
	Engagement string `json:"engagement,omitempty"`

	// The credentials for each static_identity in the documents, by name. Default: none.
	Identities map[string]*StaticIdentity `json:"identities,omitempty"`

	// Further headers that identify the caller. They are removed if a request is not made with
	// the caller's credentials. Authorization, cookies, the API keys of the OpenAPI document
	// and well-known headers that name a user (X-Forwarded-User, Remote-User, ...) are always
	// removed then. Default: none.
	CallerHeaders []string `json:"caller_headers,omitempty"`

	// How to handle a plain request with a query parameter or a body property that the
	// document does not declare. "refuse" refuses it, like the same tool call. "allow" lets it
	// pass, and assertions find the undeclared values in inputs._query and inputs._body.
	// Default: refuse.
	Undeclared string `json:"undeclared,omitempty"`

	// The toolsets whose operations requests are matched to, and whose tools agents may name:
	// names of toolsets of the agents app, or locations of OpenAPI documents. For guardrails,
	// agents may also name the tools of all other toolsets of the app. Default: the toolsets
	// of the mcp and otc handlers before this one on the site; if there are none, all toolsets
	// of the app.
	Toolsets []string `json:"toolsets,omitempty"`

	// How long a call waits for its reviewer. A negative value ("off" in the Caddyfile)
	// disables waiting. Default: 30s.
	ReviewWait caddy.Duration `json:"review_wait,omitempty"`

	// The lifetime of an Engagement after its last call. Default: 7d.
	EngagementTTL caddy.Duration `json:"engagement_ttl,omitempty"`

	// The maximum size of the body of a plain request, in bytes. Default: 1 MiB.
	MaxInput int64 `json:"max_input,omitempty"`

	// The maximum size of a response that is recorded or checked, in bytes. If a larger
	// response must be checked, it is withheld. Otherwise it is passed on and omitted from the
	// record. Default: 1 MiB.
	MaxOutput int64 `json:"max_output,omitempty"`

	// The maximum size that the record of an Engagement keeps of the inputs of one call, and
	// of its outputs, in bytes of JSON. Of larger values it keeps only the size, and an
	// assertion that reads them later fails. Maximum: 256 KiB. Default: 64 KiB.
	MaxRecorded int64 `json:"max_recorded,omitempty"`

	// How exposed values are returned: "header" sends them in the response header
	// OAgent-Exposes, "off" does not send them. Default: header.
	Exposes string `json:"exposes,omitempty"`

	// The path below which the agents' documents are served. Default: not served.
	Serve string `json:"serve,omitempty"`

	// The path below which Engagements are served to their users. Default: not served.
	Engagements string `json:"engagements,omitempty"`

	// The path below which reviewers read and decide reviews. Default: not served.
	Reviews string `json:"reviews,omitempty"`

	// The users who may see every Engagement and its record. Default: none.
	Auditors []string `json:"auditors,omitempty"`

	// Who decides when an agent must review, by the agent's name. Default: none.
	Reviewers map[string]*reviewers.Agent `json:"reviewers,omitempty"`

	// The modules that notify reviewers about pending reviews. Default: none; reviewers list their
	// reviews themselves.
	NotifiersRaw []json.RawMessage `json:"notifiers,omitempty" caddy:"namespace=oagent.notifiers inline_key=notifier"`

	// Applies the agents' guardrails to traffic to a model API. Default: no guardrails on
	// model traffic.
	Chat *chat.Handler `json:"chat,omitempty"`

	// The models of the agents. An agent with a model is hosted: this server runs it, and POST to
	// its document begins an Engagement. Default: no agent is hosted.
	Models []*hosting.Model `json:"models,omitempty"`

	// Limits on each run of a hosted agent. Default: see the limits.
	Limits *hosting.Limits `json:"limits,omitempty"`

	// Accepts agent documents over HTTP. Default: all documents are from files.
	Accept *accept.Config `json:"accept,omitempty"`

	// The servers whose agents hosted agents may call. Default: none.
	RemoteAgents []*remoteagents.Servers `json:"remote_agents,omitempty"`

	// The arguments whose values may be logged. Default: none.
	LogInputs []string `json:"log_inputs,omitempty"`

	app           *agents.App
	logger        *zap.Logger
	site          agents.Site
	toolsets      []*agents.Toolset // that requests are matched to
	otherToolsets []*agents.Toolset // further toolsets whose tools agents may name
	agents        *agentset.Loader
	openedGuard   atomic.Pointer[oagent.Guard]

	identities    map[string]credential.Set
	callerHeaders []string // canonical names

	metrics    *agentMetrics
	guardrails *guardrail.Caller
	reviewers  *reviewers.Service
	notices    *notify.Service // nil if there are no notifiers
	endpoints  *endpoints.Endpoints
	accepted   *accept.Service   // nil if no documents are accepted
	remote     *remote.Client    // nil if no agents of other servers may be called
	host       *hosting.Host     // nil if no agent is hosted
	server     *caddyhttp.Server // nil outside of a server
	background bool              // the handler works without requests: runs of agents, or calls of reviewing agents' programs
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.oagent",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision reads the agents and links them to the tools.
func (o *Handler) Provision(ctx caddy.Context) error {
	app, err := ctx.App("agents")
	if err != nil {
		return err
	}
	o.app, o.logger, o.site = app.(*agents.App), ctx.Logger(), agents.SiteOf(ctx)
	o.server, _ = ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	o.metrics = processMetrics
	if err := o.metrics.register(ctx.GetMetricsRegistry()); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	o.setDefaults()
	if err := o.provisionIdentities(ctx); err != nil {
		return err
	}
	if err := o.provisionToolsets(ctx); err != nil {
		return err
	}
	if err := o.app.ProvisionEvents(ctx); err != nil {
		return err
	}
	if err := provisionRemote(ctx, o); err != nil {
		return err
	}
	if err := o.provisionAgents(); err != nil {
		return err
	}
	if err := provisionHosting(ctx, o); err != nil {
		return err
	}
	if err := provisionAccept(ctx, o); err != nil {
		return err
	}
	if err := o.provisionParts(ctx); err != nil {
		return err
	}
	if err := provisionNotices(ctx, o); err != nil {
		return err
	}
	o.app.GuardHandlers = append(o.app.GuardHandlers, guardHandler{o})
	return nil
}

func (o *Handler) setDefaults() {
	if o.MaxInput == 0 {
		o.MaxInput = DefaultMaxInput
	}
	if o.MaxOutput == 0 {
		o.MaxOutput = DefaultMaxOutput
	}
	if o.MaxRecorded == 0 {
		o.MaxRecorded = oagent.DefaultMaxPayload
	}
	if o.Exposes == "" {
		o.Exposes = exposesHeader
	}
	if o.Undeclared == "" {
		o.Undeclared = undeclaredRefuse
	}
}

// Values of exposes.
const (
	exposesHeader = "header"
	exposesOff    = "off"
)

// Values of undeclared.
const (
	undeclaredRefuse = "refuse"
	undeclaredAllow  = "allow"
)

// provisionToolsets finds the toolsets.
func (o *Handler) provisionToolsets(ctx caddy.Context) error {
	for _, reference := range o.Toolsets {
		t, err := toolcall.ResolveToolset(ctx, o.app, reference, nil)
		if err != nil {
			return err
		}
		o.toolsets = append(o.toolsets, t)
	}
	named := make([]*agents.Toolset, 0, len(o.app.ToolsetsByName))
	for _, name := range slices.Sorted(maps.Keys(o.app.ToolsetsByName)) {
		named = append(named, o.app.ToolsetsByName[name])
	}
	if len(o.toolsets) == 0 {
		o.toolsets = o.app.ServedAt(o.site)
	}
	if len(o.toolsets) == 0 {
		o.toolsets = named
	}
	if len(o.toolsets) == 0 {
		return errors.New("no toolset, so requests cannot be matched to operations: " +
			"put mcp or otc before oagent, or name the API's document by toolset, as in: toolset openapi.yaml")
	}
	for _, t := range named {
		if !slices.ContainsFunc(o.toolsets, func(other *agents.Toolset) bool { return other.Name == t.Name }) {
			o.otherToolsets = append(o.otherToolsets, t)
		}
	}
	return nil
}

// Validate rejects invalid options.
func (o *Handler) Validate() error {
	for _, option := range []struct {
		name  string
		value int64
	}{{"engagement_ttl", int64(o.EngagementTTL)}, {"max_input", o.MaxInput}, {"max_output", o.MaxOutput}, {"max_recorded", o.MaxRecorded}} {
		if err := directive.NotNegative(option.name, option.value); err != nil {
			return err
		}
	}
	if err := checkMaxRecorded(o.MaxRecorded); err != nil {
		return fmt.Errorf("max_recorded %d: %w", o.MaxRecorded, err)
	}
	if err := o.Limits.Check(); err != nil {
		return err
	}
	if o.Exposes != exposesHeader && o.Exposes != exposesOff {
		return fmt.Errorf("exposes %q: must be header or off", o.Exposes)
	}
	if o.Undeclared != undeclaredRefuse && o.Undeclared != undeclaredAllow {
		return fmt.Errorf("undeclared %q: must be refuse or allow", o.Undeclared)
	}
	for _, option := range o.endpointPaths() {
		if err := toolcall.CheckPath(option.path); err != nil {
			return fmt.Errorf("%s %q: %w", option.name, option.path, err)
		}
		if strings.Trim(option.path, "/") == "" {
			return fmt.Errorf("%s / is the whole site: use a path of its own", option.name)
		}
	}
	return o.checkEndpointPaths()
}

// endpointPath is the path of an endpoint of the handler.
type endpointPath struct{ name, path string }

// endpointPaths returns the enabled endpoints, in the order in which requests are matched.
func (o *Handler) endpointPaths() []endpointPath {
	all := []endpointPath{{"serve", o.Serve}, {"engagements", o.Engagements}, {"reviews", o.Reviews}}
	return slices.DeleteFunc(all, func(p endpointPath) bool { return p.path == "" })
}

// checkEndpointPaths rejects a path whose requests another endpoint would handle.
func (o *Handler) checkEndpointPaths() error {
	paths := o.endpointPaths()
	for i, p := range paths {
		for _, other := range paths[:i] {
			if p.isIn(other) || other.isIn(p) {
				return fmt.Errorf("%s %s and %s %s overlap: use paths that do not contain each other",
					other.name, other.path, p.name, p.path)
			}
		}
		if o.Chat == nil {
			continue
		}
		for _, chat := range o.Chat.Paths {
			if (endpointPath{"chat", chat}).isIn(p) {
				return fmt.Errorf("%s %s overlaps chat %s: use another path", p.name, p.path, chat)
			}
		}
	}
	return nil
}

// isIn reports whether the path equals the other path or is below it.
func (p endpointPath) isIn(other endpointPath) bool {
	return strings.HasPrefix(strings.TrimRight(p.path, "/")+"/", strings.TrimRight(other.path, "/")+"/")
}

// checkMaxRecorded rejects a size that the store cannot hold.
func checkMaxRecorded(size int64) error {
	if size > oagent.LargestMaxPayload {
		return fmt.Errorf("the maximum is %s", humanize.IBytes(oagent.LargestMaxPayload))
	}
	return nil
}

// Cleanup stops watching the files.
func (o *Handler) Cleanup() error {
	o.agents.Stop()
	if o.remote != nil {
		o.remote.Close()
	}
	if o.host != nil {
		o.host.Release()
	}
	return nil
}

// guard returns the Guard. It is created at its first use, because that opens the store.
func (o *Handler) guard(ctx context.Context) (*oagent.Guard, error) {
	if g := o.openedGuard.Load(); g != nil {
		return g, nil
	}
	g, err := o.app.Guard(ctx, agents.GuardKey{
		TTL: time.Duration(o.EngagementTTL), ReviewWait: time.Duration(o.ReviewWait), MaxRecorded: o.MaxRecorded,
	})
	if err != nil {
		return nil, err
	}
	o.openedGuard.Store(g)
	return g, nil
}

// ServeHTTP passes a request on if the agent may make it.
func (o *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if toolcall.IsGatewayRequest(r.Context()) {
		return next.ServeHTTP(w, r)
	}
	if o.background {
		processSpans.Note(r.Context())
	}
	if o.accepted != nil { // the accepted agents are known from the start on
		if err := o.app.AwaitStart(r.Context()); err != nil {
			return caddyhttp.Error(http.StatusServiceUnavailable, err)
		}
	}
	if call := toolcall.AgentCallOf(r.Context()); call != nil {
		return serveExposedAgent(o, call, w, r, next)
	}
	if o.endpoints.Serve(w, r) {
		return nil
	}
	if handled, err := serveModel(o, w, r, next); handled {
		return err
	}
	g := guardedRequest{governedRequest: governedRequest{handler: o, w: w, r: r, next: next, began: time.Now()}}
	return g.serve()
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.Validator             = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
