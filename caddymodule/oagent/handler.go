package oagent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/dustin/go-humanize"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/caddymodule/internal/siteroutes"
	"github.com/fairwayhq/fairway/caddymodule/oagent/endpoints"
	"github.com/fairwayhq/fairway/caddymodule/oagent/reviewers"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/oagent"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Defaults of the oagent handler.
const (
	defaultMaxInput  = 1 << 20 // bytes of a plain request's body
	defaultMaxOutput = 1 << 20 // bytes of a response that is recorded or checked
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
	// The files of the agents' documents, with one or more documents in each, or patterns such as
	// agents/*.yaml. Relative paths start at Caddy's working directory. Placeholders such as
	// {env.NAME} are replaced. All files must be valid when the configuration is loaded. Afterwards
	// they are watched: a valid change replaces the agents, an invalid one is logged. If a file is
	// deleted, calls of its agents are refused. Required. Default: none.
	Files []string `json:"files,omitempty"`

	// The name of the agent that governs a request, with placeholders. If the endpoint of a tool
	// call has the option agent, that agent governs, and a call for which guard names another
	// one is refused. If guard is empty and there is exactly one agent, that agent governs. If
	// there are several, the request is refused. Default: empty.
	Guard string `json:"guard,omitempty"`

	// The id of the Engagement of a request, with placeholders. An Engagement always belongs
	// to one user and one agent, too. Default: empty, so one Engagement for each user and
	// agent.
	Engagement string `json:"engagement,omitempty"`

	// The credentials for each static_identity in the documents, by name. Default: none.
	Identities map[string]*StaticIdentity `json:"identities,omitempty"`

	// Headers of the caller, and of handlers before this one, that a request carries although it does not have
	// the caller's credentials. Only parameters of the operation and headers that describe the message pass
	// without being listed here (Accept, Content-Type, If-Match, Traceparent, User-Agent, ...). Default: none.
	ForwardHeaders []string `json:"forward_headers,omitempty"`

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

	// The users who may see every Engagement and its record. An entry group:NAME is for the members of a
	// group. Default: none.
	Auditors []string `json:"auditors,omitempty"`

	// Who decides the reviews of a name that documents give as the reviewer, by this name: people, or an agent.
	// Default: none; a name is the id of the user who decides.
	Reviewers map[string]*reviewers.Agent `json:"reviewers,omitempty"`

	// How the original arguments of reviews that inspectors require are encrypted, and who may read them. Required if an inspector of a
	// toolset has the action review. Default: none.
	Originals *Originals `json:"originals,omitempty"`

	// The modules that send notices about pending reviews and runs. Default: none; reviewers list their
	// reviews themselves.
	NotifiersRaw []json.RawMessage `json:"notifiers,omitempty" caddy:"namespace=oagent.notifiers inline_key=notifier"`

	// The arguments whose values may be logged. Default: none.
	LogInputs []string `json:"log_inputs,omitempty"`

	// Rules of agents that are not enforced: calls go on, and what the rules would have done is recorded. AGENT/CAPABILITY is for the
	// restrictions and reviews of a capability, AGENT/guardrails for the guardrails, AGENT for all of these, and * for those of all
	// agents. Default: none; all rules are enforced.
	LogOnly LogOnly `json:"log_only,omitempty"`

	Shared `json:"-"`
	parts  []Part // with the other options

	app           *app.App
	guards        *Guards
	logger        *zap.Logger
	site          site.Site
	otherToolsets []*app.Toolset // further toolsets whose tools agents may name
	signs         bool           // a handler after the guard signs requests
	openedGuard   atomic.Pointer[oagent.Guard]

	identities     map[string]credential.Set
	forwardHeaders []string // canonical names

	metrics    *agentMetrics
	guardrails *agentset.GuardrailCaller
	endpoints  *endpoints.Endpoints
	server     *caddyhttp.Server // nil outside of a server
	serving    context.Context   // ends when the process ends and the server completes its last requests; nil outside of a server
	background bool              // the handler works without requests: runs of agents, or calls of reviewing agents' programs
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.oagent",
		New: func() caddy.Module { return newHandler() },
	}
}

func newHandler() *Handler { return &Handler{parts: parts.New()} }

// Provision reads the agents and links them to the tools.
func (o *Handler) Provision(ctx caddy.Context) error {
	var err error
	if o.guards, err = site.SectionOf[*Guards](ctx); err != nil {
		return err
	}
	o.app, o.logger, o.site = o.guards.app, ctx.Logger(), site.At(ctx)
	if o.server, _ = ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); o.server != nil {
		var end context.CancelFunc
		o.serving, end = context.WithCancel(context.Background())
		o.server.RegisterOnShutdown(func() {
			if caddy.Exiting() { // after a reload, the calls go on
				end()
			}
		})
	}
	o.app.Site.AddDigest(o)
	o.metrics = processMetrics
	if err := o.metrics.register(ctx.GetMetricsRegistry()); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	o.setDefaults()
	o.signs = siteroutes.Signs(ctx, "oagent")
	if err := o.provisionToolsets(ctx); err != nil {
		return err
	}
	if err := o.provisionOriginals(); err != nil {
		return err
	}
	if err := o.provisionIdentities(ctx); err != nil {
		return err
	}
	if err := o.app.Site.ProvisionEvents(ctx); err != nil {
		return err
	}
	if err := eachPart(o, func(p Part) error { return p.Provision(ctx, o) }); err != nil {
		return err
	}
	if err := o.provisionAgents(); err != nil {
		return err
	}
	if err := o.provisionRecords(ctx); err != nil {
		return err
	}
	if err := o.provisionNotices(ctx); err != nil {
		return err
	}
	o.guards.Handlers = append(o.guards.Handlers, o)
	siteroutes.AddGuard(ctx, o.app, o)
	bases := make([]string, 0, len(o.Matched))
	for _, t := range o.Matched {
		bases = append(bases, t.Key.BasePath)
	}
	siteroutes.WarnIfChanged(ctx, "oagent", bases, o.logger)
	return nil
}

func (o *Handler) setDefaults() {
	o.MaxInput = cmp.Or(o.MaxInput, defaultMaxInput)
	o.MaxOutput = cmp.Or(o.MaxOutput, defaultMaxOutput)
	o.MaxRecorded = cmp.Or(o.MaxRecorded, oagent.DefaultMaxPayload)
	o.Exposes = cmp.Or(o.Exposes, exposesHeader)
	o.Undeclared = cmp.Or(o.Undeclared, undeclaredRefuse)
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
		t, err := route.ResolveToolset(ctx, o.app, reference, nil)
		if err != nil {
			return err
		}
		o.Matched = append(o.Matched, t)
	}
	named := make([]*app.Toolset, 0, len(o.app.ToolsetsByName))
	for _, name := range slices.Sorted(maps.Keys(o.app.ToolsetsByName)) {
		named = append(named, o.app.ToolsetsByName[name])
	}
	if len(o.Matched) == 0 {
		o.Matched = o.app.ServedAt(o.site)
	}
	if len(o.Matched) == 0 {
		o.Matched = named
	}
	if len(o.Matched) == 0 {
		return errors.New("no toolset, so requests cannot be matched to operations: " +
			"put mcp or otc before oagent, or name the API's document by toolset, as in: toolset openapi.yaml")
	}
	for _, t := range named {
		if !slices.ContainsFunc(o.Matched, func(other *app.Toolset) bool { return other.Name == t.Name }) {
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
	if err := eachPart(o, caddy.Validator.Validate); err != nil {
		return err
	}
	if o.Exposes != exposesHeader && o.Exposes != exposesOff {
		return fmt.Errorf("exposes %q: must be header or off", o.Exposes)
	}
	if err := o.LogOnly.check(); err != nil {
		return err
	}
	if o.Undeclared != undeclaredRefuse && o.Undeclared != undeclaredAllow {
		return fmt.Errorf("undeclared %q: must be refuse or allow", o.Undeclared)
	}
	for _, option := range o.endpointPaths() {
		if err := route.CheckPath(option.path); err != nil {
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
		err := eachPart(o, func(part pathServer) error {
			option, served := part.ServedPaths()
			for _, path := range served {
				if (endpointPath{option, path}).isIn(p) {
					return fmt.Errorf("%s %s overlaps %s %s: use another path", p.name, p.path, option, path)
				}
			}
			return nil
		})
		if err != nil {
			return err
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
	o.Loader.Stop()
	return eachPart(o, caddy.CleanerUpper.Cleanup)
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.Validator             = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
