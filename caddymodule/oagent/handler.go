package oagent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/dustin/go-humanize"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/oagent"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Defaults of the oagent handler.
const (
	DefaultMaxInput  = 1 << 20 // bytes of a plain request's body
	DefaultMaxOutput = 1 << 20 // bytes of an answer that is looked at
)

// Handler decides, for every request that goes to the API, whether the agent that
// it belongs to may make it now (OpenAgentSpec v1), and keeps the record. It is a
// tool call of mcp or otc, or a plain request, which is matched to its operation
// of the toolsets' documents; what is no operation, or could be taken for two, is
// refused. The handler stands last before the API: all that reaches it is on its
// way there.
//
// Refusals are problem documents (application/problem+json) and, of tool calls,
// errors of the tool. The API is not called then, and of an answer that an output
// restriction withholds, nobody sees anything.
//
// Placeholders:
//
// Placeholder | Description
// ------------|------------
// `{http.oagent.agent}` | The agent that governs the request
// `{http.oagent.engagement}` | The key of its Engagement: 40 hexadecimal digits
// `{http.oagent.decision}` | `allowed`, or why the request was refused; empty before
// `{http.tool.outcome}` | Of a request that is not a tool call: how it ended
type Handler struct {
	// The files of the agents' documents, one or more in each. A relative path
	// starts at Caddy's working directory; placeholders such as {env.NAME} are
	// replaced. They must be good when the configuration is loaded, and are
	// watched then: a change that is good replaces the agents, another one is
	// logged. Required.
	Files []string `json:"files,omitempty"`

	// Which agent governs a request: its name, of placeholders. Where that is
	// empty it is the only agent, and of several none: the request is refused.
	Guard string `json:"guard,omitempty"`

	// Which Engagement a request belongs to, of placeholders. It is always bound
	// to the user, and to the agent. Default: one for each user and agent.
	Engagement string `json:"engagement,omitempty"`

	// The credentials that static_identity of a capability names.
	Identities map[string]*StaticIdentity `json:"identities,omitempty"`

	// Further headers that say who the caller is. They are removed, as
	// Authorization, cookies, the API keys of the document and well-known headers
	// that name a user (X-Forwarded-User, Remote-User, ...) are, where a request is
	// not made with the caller's credentials. Default: none.
	CallerHeaders []string `json:"caller_headers,omitempty"`

	// What happens to a plain request with a query parameter or a body property that
	// the document does not declare. "refuse": it is refused, as the same tool call
	// is. "allow": it passes, and assertions find the undeclared values in
	// inputs._query and inputs._body. Default: refuse.
	Undeclared string `json:"undeclared,omitempty"`

	// The toolsets whose operations requests are matched to, and whose tools
	// agents may name: names of toolsets of the agents app, or addresses of
	// OpenAPI documents. Default: those of the mcp and otc handlers that stand
	// before this one on the site, and where there are none, all of the agents
	// app. Agents may name the tools of all others of the app too, for guardrails.
	Toolsets []string `json:"toolsets,omitempty"`

	// How long a call waits for its reviewer. Default: 30s. Negative ("off" in the
	// Caddyfile) means not at all.
	ReviewWait caddy.Duration `json:"review_wait,omitempty"`

	// How long an Engagement lives after its last call. Default: 7d.
	EngagementTTL caddy.Duration `json:"engagement_ttl,omitempty"`

	// The largest body of a plain request, in bytes. Default: 1 MiB.
	MaxInput int64 `json:"max_input,omitempty"`

	// The largest answer that is looked at, in bytes: a larger one is withheld if
	// it must be checked, and otherwise passed on and left out of the record.
	// Default: 1 MiB.
	MaxOutput int64 `json:"max_output,omitempty"`

	// The largest inputs of a call, and the largest outputs, that the record of an
	// Engagement keeps, in bytes of JSON: of what is larger it has the size alone,
	// and an assertion that looks at it later fails. At most 256 KiB. Default: 64
	// KiB.
	MaxRecorded int64 `json:"max_recorded,omitempty"`

	// How what an agent exposes is told: "header", in the header OAgent-Exposes of
	// the answer; "off", not. Default: header.
	Exposes string `json:"exposes,omitempty"`

	// The path below which the documents of the agents are served. Default: they
	// are not.
	Serve string `json:"serve,omitempty"`

	// The path below which Engagements are served to those they belong to.
	// Default: they are not.
	Engagements string `json:"engagements,omitempty"`

	// The path below which reviewers find what they are asked, and decide.
	// Default: there is none.
	Reviews string `json:"reviews,omitempty"`

	// The users who may see every Engagement, and the record of each. Default: none.
	Auditors []string `json:"auditors,omitempty"`

	// Who decides for an agent that is asked to review, by its name. Default: nobody
	// does.
	Reviewers map[string]*ReviewingAgent `json:"reviewers,omitempty"`

	// The traffic to a model API, on which the guardrails of agents are put.
	// Default: there is none.
	Chat *Chat `json:"chat,omitempty"`

	// The arguments whose values may be in the log. Default: none.
	LogInputs []string `json:"log_inputs,omitempty"`

	app      *agents.App
	logger   *zap.Logger
	place    agents.Site
	toolsets []*agents.Toolset // that requests are matched to
	others   []*agents.Toolset // whose tools agents may name beside those
	paths    []string          // of Files
	stop     func()            // ends the watching of the files
	guarding atomic.Pointer[oagent.Guard]

	identities    map[string]agents.Credentials
	callerHeaders []string // canonical

	mu      sync.Mutex // guards the making of linked
	read    []*oagent.Agent
	linked  atomic.Pointer[linked]
	metrics *agentMetrics

	extras oagentExtras
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
	o.app, o.logger, o.place = app.(*agents.App), ctx.Logger(), agents.SiteOf(ctx)
	o.metrics = collectedAgents
	if err := o.metrics.register(ctx.GetMetricsRegistry()); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	o.setDefaults()
	if err := o.provisionIdentities(); err != nil {
		return err
	}
	if err := o.provisionToolsets(ctx); err != nil {
		return err
	}
	if err := o.app.ProvisionEvents(ctx); err != nil {
		return err
	}
	if err := o.provisionFiles(); err != nil {
		return err
	}
	if err := o.provisionExtras(ctx); err != nil {
		return err
	}
	o.app.GuardHandlers = append(o.app.GuardHandlers, o)
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

// The values of exposes.
const (
	exposesHeader = "header"
	exposesOff    = "off"
)

// The values of undeclared.
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
	named := make([]*agents.Toolset, 0, len(o.app.Named))
	for _, name := range slices.Sorted(maps.Keys(o.app.Named)) {
		named = append(named, o.app.Named[name])
	}
	if len(o.toolsets) == 0 {
		o.toolsets = o.app.OfferedAt(o.place)
	}
	if len(o.toolsets) == 0 {
		o.toolsets = named
	}
	if len(o.toolsets) == 0 {
		return errors.New("there is no toolset, so that no request can be matched to an operation: " +
			"put mcp or otc before oagent, or name the API's document by toolset, as in: toolset openapi.yaml")
	}
	for _, t := range named {
		if !slices.ContainsFunc(o.toolsets, func(other *agents.Toolset) bool { return other.Name == t.Name }) {
			o.others = append(o.others, t)
		}
	}
	return nil
}

// Validate refuses options that make no sense.
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
	if o.Exposes != exposesHeader && o.Exposes != exposesOff {
		return fmt.Errorf("exposes %q: it is header or off", o.Exposes)
	}
	if o.Undeclared != undeclaredRefuse && o.Undeclared != undeclaredAllow {
		return fmt.Errorf("undeclared %q: it is refuse or allow", o.Undeclared)
	}
	for _, option := range o.ownPaths() {
		if err := toolcall.CheckPath(option.path); err != nil {
			return fmt.Errorf("%s %q: %w", option.name, option.path, err)
		}
		if strings.Trim(option.path, "/") == "" {
			return fmt.Errorf("%s / would take the whole site: give it a path of its own", option.name)
		}
	}
	return o.checkPathsApart()
}

// An ownPath is where the handler answers itself.
type ownPath struct{ name, path string }

// ownPaths returns those that there are, in the order in which they are looked at.
func (o *Handler) ownPaths() []ownPath {
	all := []ownPath{{"serve", o.Serve}, {"engagements", o.Engagements}, {"reviews", o.Reviews}}
	return slices.DeleteFunc(all, func(p ownPath) bool { return p.path == "" })
}

// checkPathsApart refuses a path that another takes the requests of.
func (o *Handler) checkPathsApart() error {
	paths := o.ownPaths()
	for i, p := range paths {
		for _, other := range paths[:i] {
			if p.isIn(other) || other.isIn(p) {
				return fmt.Errorf("%s %s and %s %s: one of them would take the requests of the other: give each a path of its own",
					other.name, other.path, p.name, p.path)
			}
		}
		if o.Chat == nil {
			continue
		}
		for _, chat := range o.Chat.Paths {
			if (ownPath{"chat", chat}).isIn(p) {
				return fmt.Errorf("%s %s would take the requests of chat %s: give it a path of its own", p.name, p.path, chat)
			}
		}
	}
	return nil
}

// isIn reports whether the path is the other, or below it.
func (p ownPath) isIn(other ownPath) bool {
	return strings.HasPrefix(strings.TrimRight(p.path, "/")+"/", strings.TrimRight(other.path, "/")+"/")
}

// checkMaxRecorded refuses what the store could not take.
func checkMaxRecorded(size int64) error {
	if size > oagent.LargestMaxPayload {
		return fmt.Errorf("%s is the most that one value in the record may have", humanize.IBytes(oagent.LargestMaxPayload))
	}
	return nil
}

// Cleanup ends the watching of the files.
func (o *Handler) Cleanup() error {
	if o.stop != nil {
		o.stop()
	}
	return o.cleanupExtras()
}

// guard returns the Guard, which its first use makes, as that opens the store.
func (o *Handler) guard(r *http.Request) (*oagent.Guard, error) {
	return o.guardFor(r.Context())
}

// guardFor is guard where there is no request.
func (o *Handler) guardFor(ctx context.Context) (*oagent.Guard, error) {
	if g := o.guarding.Load(); g != nil {
		return g, nil
	}
	g, err := o.app.Guard(ctx, agents.GuardKey{
		TTL: time.Duration(o.EngagementTTL), ReviewWait: time.Duration(o.ReviewWait), MaxRecorded: o.MaxRecorded,
	})
	if err != nil {
		return nil, err
	}
	o.guarding.Store(g)
	return g, nil
}

// ServeHTTP passes on what the agent may do.
func (o *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if toolcall.IsGatewayRequest(r.Context()) {
		return next.ServeHTTP(w, r)
	}
	if answered, err := o.serveExtras(w, r, next); answered {
		return err
	}
	p := passage{Handler: o, w: w, r: r, next: next, began: time.Now()}
	return p.serve()
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.Validator             = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
