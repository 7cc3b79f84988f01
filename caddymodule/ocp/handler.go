package ocp

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/enhance"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/match"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// defaultMaxEnhanced is the default limit of a response that gets further properties.
const defaultMaxEnhanced = 1 << 20 // bytes, decompressed

// Handler adds context support to the API after it (Open Context Protocol 1.0, Level 2). It
// reads the OCP headers of requests, forwards the valid ones, and adds context to the
// responses.
//
// Requests. An invalid header never breaks a request. Each invalid header is ignored, counted
// and not forwarded. A request has a valid context if both OCP-Context-ID and OCP-Agent-Type
// are valid. If it has none, its response is the upstream's, byte for byte. Exception: if the
// response would be enhanced for a request with a context, its Vary names the OCP headers, so
// that shared caches distinguish the two.
//
// The conditions If-None-Match and If-Modified-Since of a GET with a valid context are checked
// here instead of by the upstream if the response may be enhanced.
//
// Responses. The response to a request with a valid context has OCP-Context-ID, OCP-Version and
// an OCP-Session with the changes: the time, a history entry for this call, and what the
// operation declares to update (x-ocp-context, updates_context). A change that succeeded adds a
// line to recent_changes. A call that failed adds one to error_context. Only the upstream
// itself changes the goal and the summary, with an OCP-Session of its own. Vary lists the
// headers that the response depends on, and browsers may read the OCP headers.
//
// Tool calls. The calls of mcp and otc after this handler are treated like requests to it. The
// API's responses are enhanced, and the response to the client has one history entry for each
// call. An MCP call may bring its own context in _meta (org.opencontextprotocol/context-id and
// so on, one key for each header). Its result then has the reply in _meta.
//
// Go handlers get the context with ocp.FromContext. The upstream gets it as `forward` says.
//
// Placeholders, in the request and in those of its tool calls:
//
// Placeholder | Description
// ------------|------------
// `{http.ocp.valid}` | Whether there is a valid context: `true` or `false`
// `{http.ocp.context_id}` | OCP-Context-ID; empty if it is absent or was ignored
// `{http.ocp.agent_type}` | OCP-Agent-Type; empty as above
// `{http.ocp.current_goal}` | OCP-Current-Goal; empty as above
// `{http.ocp.user}` | OCP-User; empty as above. The agent chooses it: do not use it as an identity
// `{http.ocp.workspace}` | OCP-Workspace; empty as above
// `{http.ocp.version}` | OCP-Version; empty as above
// `{http.ocp.session.<field>}` | A field of the decoded OCP-Session. A text is unchanged, anything else is JSON; control characters become spaces
//
// The placeholders have values for the handlers after this one. Handlers before it, such as
// `header` in the default order, use their literal text; a warning is logged at start. `header
// >Name` works, because it sets the header when the response is written.
//
// A compressed session is only decompressed if something reads its content: a placeholder,
// `log` or a matcher with a field of the session, an expression of `enhance`, `forward json`,
// or `strict`. Otherwise only its length, its Base64, its gzip header and its declared size are
// checked, and it is forwarded undecoded. An uncompressed session is always checked. Only
// `forward json` and `strict` compare a session with the context schema. A reply repeats
// created_at of a session that was read; otherwise created_at is the time of the reply.
//
// This handler only logs the fields of `log`. However, Caddy's access log contains all headers
// of requests and responses. To keep the OCP headers out of it, delete Ocp-Session, Ocp-User
// and the others from request>headers and resp_headers with `format filter`.
type Handler struct {
	// The toolset whose x-ocp-* extensions are read: the name of a toolset of the agents app,
	// or the address of an OpenAPI document as in `openapi` of a toolset. Default: none;
	// requests then belong to no known operation.
	Toolset string `json:"toolset,omitempty"`

	// The options of the toolset, if it is not one of the agents app. Default: none.
	Document *app.ToolsetConfig `json:"document,omitempty"`

	// The properties to add to JSON responses, and the expressions that compute them. A
	// property that a response already has is not changed. Default: none.
	Enhance []enhance.Property `json:"enhance,omitempty"`

	// How responses are enhanced.
	enhance.Options

	// The largest response that is enhanced, in bytes, compressed or not. Larger responses pass
	// unchanged. Default: 1 MiB.
	MaxEnhanced int64 `json:"max_enhanced,omitempty"`

	// What the upstream gets of the context. "headers": the valid headers, unchanged. "strip":
	// nothing. "json": the context as ASCII JSON of at most 8 KiB in one header, OCP-Context.
	// If the context is too long, detail is removed in this order: all but the newest ten
	// entries of the history, the rest of the history, everything that no header contains.
	// Default: headers.
	Forward string `json:"forward,omitempty"`

	// Whether to omit the OCP headers from responses. Bodies are enhanced as usual. Default:
	// false.
	NoReply bool `json:"no_reply,omitempty"`

	// Whether to follow the context schema where it contradicts the text of the protocol:
	// context ids match ^ocp-[a-f0-9]{8,}$, and a session that violates the schema or
	// contradicts the headers is ignored as a whole. Default: false.
	Strict bool `json:"strict,omitempty"`

	// Whether to respond with 428 if an operation declares requires_context and the request has
	// no valid context. Default: false; such requests are handled normally, as the protocol
	// requires.
	Require bool `json:"require,omitempty"`

	// The fields of the context to add to the access log: context_id, agent_type, current_goal,
	// user, workspace, version, valid, and session.<field>. The log fields are named
	// ocp_context_id and so on. Default: none.
	Log []string `json:"log,omitempty"`

	// The path at which the toolset's document is served, with the x-ocp-* flags that apply to
	// this site, and with this site as its server. Requires a toolset. The form is YAML for the
	// same path with the extension .yaml, or if the client prefers YAML (Accept). Otherwise it
	// is JSON. An extension takes precedence over Accept. Default: none.
	Discovery string `json:"discovery,omitempty"`

	readOptions       ocp.ReadOptions
	validatesSessions bool // every session is decoded and compared with the schema
	toolset           *app.Toolset
	routes            match.Latest
	enhancer          *enhancer
	document          *discovery
	fields            []logField
	metrics           *metrics
	logger            *zap.Logger
}

// Values of Forward.
const (
	forwardHeaders = "headers"
	forwardStrip   = "strip"
	forwardJSON    = "json"
)

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.ocp",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision resolves the toolset and compiles the expressions.
func (h *Handler) Provision(ctx caddy.Context) (err error) {
	h.logger = ctx.Logger()
	h.metrics = processMetrics
	if err := h.metrics.register(ctx.GetMetricsRegistry()); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	h.Forward = cmp.Or(h.Forward, forwardHeaders)
	h.MaxEnhanced = cmp.Or(h.MaxEnhanced, defaultMaxEnhanced)
	h.readOptions = ocp.ReadOptions{Strict: h.Strict}
	if h.Toolset != "" || h.Document != nil {
		agents, err := app.Of(ctx)
		if err != nil {
			return err
		}
		if h.toolset, err = route.ResolveToolset(ctx, agents, h.Toolset, h.Document); err != nil {
			return err
		}
	}
	if h.enhancer, err = newEnhancer(h); err != nil {
		return err
	}
	if h.fields, err = logFields(h.Log); err != nil {
		return err
	}
	if h.Discovery != "" {
		if h.document, err = newDiscovery(ctx, h); err != nil {
			return err
		}
	}
	h.setUpReading()
	warnIfPlaceholderUsedBefore(ctx, h.logger)
	return nil
}

// Validate returns an error for invalid options.
func (h *Handler) Validate() error {
	switch h.Forward {
	case forwardHeaders, forwardStrip, forwardJSON:
	default:
		return fmt.Errorf("forward %q is not valid; use headers, strip or json", h.Forward)
	}
	if h.toolset == nil && h.Require {
		return errors.New("require needs a toolset, whose document declares which operations require a context")
	}
	if h.Discovery != "" {
		if h.toolset == nil {
			return errors.New("discovery needs a toolset, whose document is served")
		}
	}
	return directive.NotNegative("max_enhanced", h.MaxEnhanced)
}

// setUpReading decides whether every session is decoded before the request is forwarded.
func (h *Handler) setUpReading() {
	h.validatesSessions = h.Strict || h.Forward == forwardJSON
	h.readOptions.Cache = new(ocp.SessionCache)
}

// ServeHTTP reads the context of the request and adds context to the response.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if h.document != nil {
		if form := h.document.requestedForm(r); form != "" {
			return h.document.serve(w, r, next, form)
		}
	}
	if h.Forward == forwardJSON {
		delete(r.Header, contextHeader) // a client must not forge this handler's header
	}
	in := ocp.ReadIncoming(r.Header, h.readOptions)
	if in == nil {
		return h.serveWithoutContext(w, r, next)
	}
	r = h.withContext(r, in)
	h.logContext(in, r)

	x := &contextWriter{handler: h, in: in}
	setContextLayer(r, x)
	defer h.countLateFault(in)
	return x.serve(w, r, next, h.operation(r, next))
}

// withContext returns the request with a context, which it checks and forwards, and with its placeholders.
func (h *Handler) withContext(r *http.Request, in *ocp.Incoming) *http.Request {
	h.checkHeaders(in)
	h.forwardContext(in, r.Header)
	r = r.WithContext(ocp.ContextWithIncoming(r.Context(), in))
	if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		repl.Map(placeholders(in))
	}
	return r
}

// serveWithoutContext handles a request without OCP headers.
func (h *Handler) serveWithoutContext(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	setContextLayer(r, h)
	if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		repl.Map(emptyPlaceholders)
	}
	if !h.Require && h.enhancer == nil {
		return next.ServeHTTP(w, r)
	}
	tool := h.operation(r, next)
	if h.Require && requiresContext(tool) {
		return rejectWithoutContext(w, tool, nil)
	}
	if v := h.newVaryWriter(w, r, tool); v != nil {
		setContextLayer(r, v)
		w = v
	}
	return next.ServeHTTP(w, r)
}

// checkHeaders counts and logs the ignored headers of a new message, and drops an invalid session. A
// compressed session is only screened unless the configuration needs its content.
func (h *Handler) checkHeaders(in *ocp.Incoming) {
	var err error
	if in.Session != nil && !h.validatesSessions {
		err = in.Session.Screen()
	}
	switch {
	case err != nil:
		h.ignoreSession(in, err)
	case in.Session == nil:
		h.metrics.countVerdict("none")
	case h.validatesSessions:
		h.validateSession(in)
	default:
		h.metrics.countVerdict("unjudged")
	}
	for _, fault := range in.Faults {
		h.countIgnored(fault)
	}
}

// countIgnored counts and logs one ignored header.
func (h *Handler) countIgnored(fault ocp.Fault) {
	h.metrics.ignored.WithLabelValues(fault.Field, string(fault.Reason)).Inc()
	if c := h.logger.Check(zapcore.DebugLevel, "ignored an OCP header"); c != nil {
		c.Write(zap.String("header", fault.Field), zap.String("reason", string(fault.Reason)))
	}
}

// countLateFault counts a session that passed the screening but proved invalid when its content was
// read.
func (h *Handler) countLateFault(in *ocp.Incoming) {
	if in.Session == nil {
		return
	}
	if fault, ok := errors.AsType[ocp.Fault](in.Session.Err()); ok {
		fault.Field = ocp.HeaderName(ocp.HeaderSession)
		h.countIgnored(fault)
	}
}

// validateSession compares the session with the schema and the headers.
func (h *Handler) validateSession(in *ocp.Incoming) {
	judgement := in.Judge()
	if judgement.Verdict == ocp.Conforming {
		h.metrics.countVerdict(string(ocp.Conforming))
		return
	}
	if c := h.logger.Check(zapcore.DebugLevel, "OCP session does not conform"); c != nil {
		c.Write(zap.String("verdict", string(judgement.Verdict)), zap.Strings("faults", faultTexts(judgement.Faults)))
	}
	if judgement.Verdict == ocp.Ignored {
		h.ignoreSession(in, judgement.Faults[0])
		return
	}
	h.metrics.countVerdict(string(judgement.Verdict))
}

// ignoreSession drops a session and adds it to the ignored headers.
func (h *Handler) ignoreSession(in *ocp.Incoming, err error) {
	h.metrics.countVerdict(string(ocp.Ignored))
	fault := ocp.Fault{Field: ocp.HeaderName(ocp.HeaderSession)}
	if reason, ok := errors.AsType[ocp.Fault](err); ok {
		fault.Reason = reason.Reason
	}
	in.Session = nil
	in.Faults = append(in.Faults, fault)
}

// faultTexts describes faults for the log, without values and without names that the client
// chose.
func faultTexts(faults []ocp.Fault) []string {
	texts := make([]string, 0, len(faults))
	for _, fault := range faults {
		switch field, _, _ := strings.Cut(fault.Field, "/"); {
		case fault.Reason == ocp.ReasonUnknown && field != "history":
			fault.Field = "a field"
		case fault.Reason == ocp.ReasonUnknown, field == "api_specs":
			fault.Field = field
		}
		texts = append(texts, fault.Error())
	}
	return texts
}

// operation returns the tool for a request. It returns nil if there is none. A HEAD that the
// document does not declare is treated as a GET.
func (h *Handler) operation(r *http.Request, next caddyhttp.Handler) *tools.Tool {
	if call := tools.CallFromContext(r.Context()); call != nil {
		return call.Tool
	}
	if h.toolset == nil {
		return nil
	}
	toolset := route.DeclaredTools(h.toolset, r, next)
	if toolset == nil {
		return nil
	}
	routes := h.routes.Of(toolset)
	tool := routes.ToolOf(r)
	if tool == nil && r.Method == http.MethodHead {
		get := *r
		get.Method = http.MethodGet
		tool = routes.ToolOf(&get)
	}
	return tool
}

// requiresContext reports whether the operation declares that it requires a context.
func requiresContext(tool *tools.Tool) bool {
	return tool != nil && tool.OCP != nil && tool.OCP.RequiresContext
}

// rejectWithoutContext responds that the operation requires a context (RFC 6585, section 3). In
// has the request's OCP headers; it is nil if there are none.
func rejectWithoutContext(w http.ResponseWriter, tool *tools.Tool, in *ocp.Incoming) error {
	detail := tool.Plan.Method + " " + tool.Plan.Path + " requires an OCP context; send the headers OCP-Context-ID and OCP-Agent-Type."
	if in != nil && len(in.Faults) > 0 {
		detail += " Ignored: " + strings.Join(faultTexts(in.Faults), "; ") + "."
	}
	header := w.Header()
	header["Vary"] = append(slices.Clip(header["Vary"]), varyRequired)
	respond.WriteProblem(w, http.StatusPreconditionRequired, "OCP context required", detail)
	return nil
}

// setContextLayer stores the layer for tool calls in the request's variables.
func setContextLayer(r *http.Request, value any) {
	if vars, ok := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any); ok {
		vars[route.ContextVar] = value
	}
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.Validator             = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
