package otc

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/otcadapter"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Handler offers the operations of OpenAPI documents as the tools of an Open Tool
// Calling server: GET /health, GET /tools, POST /call, and in the form of OXP, as
// OTC was renamed, POST /tools/call, below one path of the site, all of which is
// its own. A tool call is an ordinary request to the handlers that stand behind
// this one, which see the API's own method, path and body, and the headers by
// which the caller identifies itself. Requests for other paths pass by untouched.
//
// Tool calls do not run the site's error routes (handle_errors): what a handler
// refuses becomes the result of the call.
//
// A tool whose operation has security needs the credentials that OTC calls
// requirements. They come with the call (context.authorization and
// context.secrets, by the name of the document's security scheme), or in the
// caller's own headers, or the gateway holds them (credentials of the toolset):
// then they are neither listed nor asked for.
//
// Placeholders, in this request and in those of its tool calls:
//
// Placeholder | Description
// ------------|------------
// `{http.tool.name}` | The tool that is called
// `{http.tool.toolset}` | The toolset
// `{http.tool.protocol}` | `otc`
// `{http.tool.outcome}` | How the call ended: `ok`, or why it failed; empty before its end, and in the requests of tool calls
// `{http.otc.call_id}` | The call's id, as the client gave it or made here
// `{http.otc.trace_id}` | The trace id that the client gave
// `{http.otc.user_id_unverified}` | For whom the client says it calls. Anybody can say anything: it is no identity
//
// The request's access log has the fields `tool`, `toolset`, `protocol` and `outcome`.
type Handler struct {
	// The path below which the endpoints are. Default: /otc.
	Path string `json:"path,omitempty"`

	// What is offered: the name of a toolset of the agents app, or else the
	// address of an OpenAPI document as in `openapi` of a toolset. Default: the
	// only toolset there is.
	Toolset string `json:"toolset,omitempty"`

	// What is offered beside it, likewise. Documents of one title, or all if
	// there is a toolkit, are versions of one toolkit; others are further
	// toolkits.
	Toolsets []string `json:"toolsets,omitempty"`

	// The toolset's options, where it is not one of the agents app.
	Document *agents.ToolsetConfig `json:"document,omitempty"`

	// The first part of tool ids, Toolkit.Tool@Version. Default: the document's
	// title.
	Toolkit string `json:"toolkit,omitempty"`

	// The last part of tool ids, x.y.z, if there is one toolset only. Default: the
	// document's version as x.y.z.
	Version string `json:"version,omitempty"`

	// The largest request body, in bytes. Default: 4 MiB.
	MaxBody int64 `json:"max_body,omitempty"`

	// How calls are kept that their client has given a call_id, so that each of
	// them runs once.
	Idempotency *Idempotency `json:"idempotency,omitempty"`

	// Adds developer_message to errors: the step that failed, the operation, and
	// the status of the API. Nothing of a request is in it.
	DeveloperMessages bool `json:"developer_messages,omitempty"`

	// A path on the API that answers 2xx or 3xx to GET while the API is well.
	// The health of the server is that of the API then. It is asked through the
	// handlers behind this one, without the caller's credentials, at most once in
	// five seconds. Default: the API is not asked.
	HealthUpstream string `json:"health_upstream,omitempty"`

	// Neither lists requirements nor asks for them: for an API whose credentials
	// are added by a handler behind this one, such as header_up of reverse_proxy.
	// Credentials that a call brings are sent nevertheless.
	NoRequirements bool `json:"no_requirements,omitempty"`

	// Where a user gets what a requirement asks for, by its id. Clients are told
	// if it is missing. Placeholders such as {env.URL} are replaced. Default: the
	// authorizationUrl of the document.
	AuthorizationURLs map[string]string `json:"authorization_urls,omitempty"`

	// Offers only what the agent of this name may use, of an oagent handler behind.
	// Default: all tools.
	Agent string `json:"agent,omitempty"`

	// Says that anonymous callers may use the gateway's own credentials, and so
	// silences the warning at start about an endpoint without authentication before
	// it. It opens and closes nothing. Default: false.
	AllowAnonymous bool `json:"allow_anonymous,omitempty"`

	endpoint  *toolcall.Endpoint
	endpoints []*toolcall.Endpoint // endpoint, and its twins for Toolsets
	server    *otcadapter.Server
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.otc",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision finds the toolsets and makes the server.
func (o *Handler) Provision(ctx caddy.Context) (err error) {
	if o.Path == "" {
		o.Path = "/otc"
	}
	if o.endpoint, err = toolcall.NewEndpoint(ctx, "otc", o.Path, o.Toolset, agents.WithAnswers(o.Document)); err != nil {
		return err
	}
	o.endpoint.Bind(o.Agent)
	o.endpoints = []*toolcall.Endpoint{o.endpoint}
	for _, reference := range o.Toolsets {
		twin, err := o.endpoint.Beside(ctx, reference, agents.WithAnswers(nil))
		if err != nil {
			return err
		}
		o.endpoints = append(o.endpoints, twin)
	}
	if !o.AllowAnonymous {
		injects := func(e *toolcall.Endpoint) bool { return len(e.Toolset.Credentials) > 0 }
		o.endpoint.WarnIfOpen(ctx, o.NoRequirements || slices.ContainsFunc(o.endpoints, injects))
	}
	idempotency, err := o.Idempotency.provision(ctx, o)
	if err != nil {
		return err
	}
	repl := caddy.NewReplacer()
	urls := make(map[string]string, len(o.AuthorizationURLs))
	for id, url := range o.AuthorizationURLs {
		urls[id] = repl.ReplaceAll(url, "")
	}
	logger := o.endpoint.Logger
	o.server = otcadapter.New(otcadapter.Options{
		Toolkit:           o.Toolkit,
		Version:           o.Version,
		MaxBody:           o.MaxBody,
		RetryAfter:        o.retryAfter,
		DeveloperMessages: o.DeveloperMessages,
		AuthorizationURLs: urls,
		Idempotency:       idempotency,
		Warn:              func(message string) { logger.Warn(message, zap.String("path", o.Path)) },
	})
	return nil
}

// Validate refuses options that make no sense.
func (o *Handler) Validate() error {
	if o.endpoint.Path == "" {
		return errors.New("path / would take the whole site: give the endpoints a path of their own, such as /otc")
	}
	if o.Version != "" {
		if err := otcadapter.CheckVersion(o.Version); err != nil {
			return err
		}
	}
	if o.Version != "" && len(o.endpoints) > 1 {
		return fmt.Errorf("version %s is for one toolset, and there are %d: the version of each is that of its document", o.Version, len(o.endpoints))
	}
	for i, e := range o.endpoints {
		if slices.ContainsFunc(o.endpoints[:i], func(other *toolcall.Endpoint) bool { return other.Toolset.Document == e.Toolset.Document }) {
			return fmt.Errorf("toolset %s is given twice", e.Toolset.Name)
		}
	}
	if err := o.checkHealthUpstream(); err != nil {
		return err
	}
	if err := o.checkAuthorizationURLs(); err != nil {
		return err
	}
	if err := o.Idempotency.validate(); err != nil {
		return err
	}
	return directive.NotNegative("max_body", o.MaxBody)
}

// retryAfter says how long a client should wait for the tools.
func (o *Handler) retryAfter() (wait time.Duration) {
	for _, e := range o.endpoints {
		wait = max(wait, e.RetryAfter())
	}
	return wait
}

// ServeHTTP answers requests for the endpoints and passes all others on.
func (o *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	rest, owned := o.endpoint.Owns(r)
	if !owned {
		return toolcall.PassBy(w, r, next)
	}
	o.server.ServeHTTP(w, r, rest, o.site(r, next))
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.Validator             = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
