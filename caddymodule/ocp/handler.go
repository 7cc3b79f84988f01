package ocp

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/ocp"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// DefaultMaxEnhanced is how large an answer may be that gets further properties.
const DefaultMaxEnhanced = 1 << 20 // bytes, decompressed

// Handler makes what stands behind it context-enhanced (Open Context Protocol 1.0,
// Level 2): it reads the OCP headers of requests, passes on what is good of them,
// and answers with context.
//
// Nothing that is wrong with a header breaks a request. Wrong headers are ignored
// one by one, counted, and not passed on. A request has a valid context if both
// OCP-Context-ID and OCP-Agent-Type are good; without one, the answer is the
// upstream's, byte for byte, with one exception: if it would be enhanced for a request
// with a context, its Vary names the OCP headers, so that shared caches tell both apart.
//
// The conditions If-None-Match and If-Modified-Since of a GET with a valid context are
// checked here and not by the upstream if the answer may be enhanced.
//
// The answer to a request with a valid context has OCP-Context-ID, OCP-Version
// and an OCP-Session with what is new: the time, a history entry for this call,
// and what the operation declares to update (x-ocp-context, updates_context).
// recent_changes gets a line for a change that succeeded, error_context one for a
// call that failed; the goal and the summary are the upstream's own to change, in
// an OCP-Session of its own. The answer says in Vary which headers it was made
// from, and browsers may read it.
//
// The calls of mcp and otc behind this handler are treated like requests that come
// to it: the answers of the API are enhanced, and the answer to the client has
// one history entry for each call. An MCP call may bring a context of its own in
// _meta (org.opencontextprotocol/context-id and so on, one key for each header); its
// result then has the reply in _meta.
//
// Handlers find the context with ocp.FromContext, and the upstream as `forward` says.
//
// Placeholders, in the request and in those of its tool calls:
//
// Placeholder | Description
// ------------|------------
// `{http.ocp.valid}` | Whether there is a valid context: `true` or `false`
// `{http.ocp.context_id}` | OCP-Context-ID, empty if it is absent or was ignored
// `{http.ocp.agent_type}` | OCP-Agent-Type, likewise
// `{http.ocp.current_goal}` | OCP-Current-Goal, likewise
// `{http.ocp.user}` | OCP-User, likewise: what the agent says, never an identity
// `{http.ocp.workspace}` | OCP-Workspace, likewise
// `{http.ocp.version}` | OCP-Version, likewise
// `{http.ocp.session.<field>}` | A field of the decoded OCP-Session: a text as it is, anything else as JSON, with spaces for line breaks and other control characters
//
// The placeholders have values for the handlers behind this one. Handlers before it, such as
// `header` in the default order, use their literal text, of which a warning is logged at
// start; `header >Name` sets a header when the response is written, and works.
//
// A compressed session is decompressed only when something reads its content: a
// placeholder, `log` or a matcher with a field of the session, an expression of
// `enhance`, `forward json`, or `strict`. Otherwise only its length, its Base64, its gzip
// header and its declared size are checked, and it is forwarded undecoded. An
// uncompressed session is always checked. Only `forward json` and `strict` compare a
// session with the context schema. A reply repeats created_at of a session that was read;
// otherwise created_at is the time of the reply.
//
// This handler logs nothing of a context but the fields of `log`. Caddy's access
// log, however, has all headers of requests and answers, and is written without
// asking any handler: where they are not to be kept, delete Ocp-Session, Ocp-User
// and the others from request>headers and resp_headers with `format filter`.
type Handler struct {
	// Which document's x-ocp-* extensions are read: the name of a toolset of
	// the agents app, or else the address of an OpenAPI document as in `openapi`
	// of a toolset. Default: none, and requests belong to no known operation.
	Toolset string `json:"toolset,omitempty"`

	// The toolset's options, where it is not one of the agents app.
	Document *agents.ToolsetConfig `json:"document,omitempty"`

	// The properties that JSON answers get, and the expressions that compute
	// them. A property that an answer has already stays as it is.
	Enhance []Enhancement `json:"enhance,omitempty"`

	// What becomes of answers that are JSON arrays: "each" enhances every object
	// in them; "wrap" makes the array a member of an object that has the
	// properties; "leave" leaves them as they are. Default: each.
	Lists string `json:"lists,omitempty"`

	// The member that holds an array which is wrapped. Default: items.
	WrapName string `json:"wrap_name,omitempty"`

	// Enhances answers of 4xx and 5xx too. Default: those of 2xx only.
	EnhanceErrors bool `json:"enhance_errors,omitempty"`

	// The largest answer that is enhanced, in bytes, compressed or not. Larger
	// ones pass untouched. Default: 1 MiB.
	MaxEnhanced int64 `json:"max_enhanced,omitempty"`

	// What the upstream sees of the context: "headers", those that are good as
	// they came; "strip", nothing; "json", the context as JSON in one header,
	// OCP-Context, in ASCII and of at most 8 KiB. Detail is left out of it where it
	// is longer: all but the newest ten entries of the history, then the
	// history, then the rest of what no header has. Default: headers.
	Forward string `json:"forward,omitempty"`

	// Leaves answers without OCP headers. Enhanced bodies are not affected.
	NoReply bool `json:"no_reply,omitempty"`

	// Follows the context schema where it and the text of the protocol
	// disagree: context ids match ^ocp-[a-f0-9]{8,}$, and a session that does not
	// conform, or does not agree with the headers, is ignored as a whole.
	Strict bool `json:"strict,omitempty"`

	// Answers 428 where an operation declares requires_context and the request
	// has no valid context. Default: such requests are answered normally, as
	// the protocol demands.
	Require bool `json:"require,omitempty"`

	// What the access log tells of the context: context_id, agent_type,
	// current_goal, user, workspace, version, valid, and session.<field>. The log
	// fields are named ocp_context_id and so on. Default: nothing.
	Log []string `json:"log,omitempty"`

	// A path where the toolset's document is served with the x-ocp-* flags that
	// are true of this site, and with this site as its server. It is JSON, unless
	// the client asks for YAML (Accept), or for the same path with the ending .yaml;
	// what a path ends in counts more. Needs a toolset. Default: none.
	Discovery string `json:"discovery,omitempty"`

	read     ocp.ReadOptions
	judges   bool // every session is decoded, and compared with the schema
	toolset  *agents.Toolset
	routes   atomic.Pointer[operations]
	enhancer *enhancer
	document *discovery
	fields   []logField
	metrics  *ocpMetrics
	logger   *zap.Logger
}

// The values of Forward.
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

// Provision finds the toolset and compiles the expressions.
func (h *Handler) Provision(ctx caddy.Context) (err error) {
	h.logger = ctx.Logger()
	h.metrics = collectedOCP
	if err := h.metrics.register(ctx.GetMetricsRegistry()); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	if h.Forward == "" {
		h.Forward = forwardHeaders
	}
	if h.MaxEnhanced == 0 {
		h.MaxEnhanced = DefaultMaxEnhanced
	}
	h.read = ocp.ReadOptions{Strict: h.Strict}
	if h.Toolset != "" || h.Document != nil {
		app, err := ctx.App("agents")
		if err != nil {
			return err
		}
		if h.toolset, err = toolcall.ResolveToolset(ctx, app.(*agents.App), h.Toolset, h.Document); err != nil {
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
	h.plan()
	warnIfTooEarly(ctx, h.logger)
	return nil
}

// Validate refuses options that make no sense.
func (h *Handler) Validate() error {
	switch h.Forward {
	case forwardHeaders, forwardStrip, forwardJSON:
	default:
		return fmt.Errorf("forward %q: it is headers, strip or json", h.Forward)
	}
	if h.toolset == nil && h.Require {
		return errors.New("require needs a toolset, whose document says which operations require a context")
	}
	if h.Discovery != "" {
		if h.toolset == nil {
			return errors.New("discovery needs a toolset, whose document is served")
		}
	}
	return directive.NotNegative("max_enhanced", h.MaxEnhanced)
}

// plan decides whether every session is decoded before the request goes on.
func (h *Handler) plan() {
	h.judges = h.Strict || h.Forward == forwardJSON
	h.read.Cache = new(ocp.SessionCache)
}

// ServeHTTP reads the context of the request and sees to that of the answer.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if h.document != nil {
		if form := h.document.asked(r); form != "" {
			return h.document.serve(w, r, next, form)
		}
	}
	if h.Forward == forwardJSON {
		delete(r.Header, contextHeader) // nobody else may speak in this handler's name
	}
	in := ocp.ReadIncoming(r.Header, h.read)
	if in == nil {
		return h.serveWithout(w, r, next)
	}
	h.accept(in)
	h.forward(in, r.Header)
	r = r.WithContext(ocp.ContextWithIncoming(r.Context(), in))
	if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		repl.Map(toolcall.PlaceholdersOf(in))
	}
	h.log(in, r)

	x := &exchange{handler: h, in: in}
	mark(r, x)
	defer h.countLate(in)
	return x.serve(w, r, next, h.operation(r, next))
}

// serveWithout serves a request that has no OCP headers.
func (h *Handler) serveWithout(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	mark(r, h)
	if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		repl.Map(noPlaceholders)
	}
	if !h.Require && h.enhancer == nil {
		return next.ServeHTTP(w, r)
	}
	tool := h.operation(r, next)
	if h.Require && requiresContext(tool) {
		return refuseWithoutContext(w, tool, nil)
	}
	if v := h.varying(w, r, tool); v != nil {
		mark(r, v)
		w = v
	}
	return next.ServeHTTP(w, r)
}

// accept counts and logs the headers of a new message that were ignored, and drops a
// session that is invalid. A compressed session is only screened unless the configuration
// needs its content.
func (h *Handler) accept(in *ocp.Incoming) {
	var err error
	if in.Session != nil && !h.judges {
		err = in.Session.Screen()
	}
	switch {
	case err != nil:
		h.ignore(in, err)
	case in.Session == nil:
		h.metrics.verdict("none")
	case h.judges:
		h.judge(in)
	default:
		h.metrics.verdict("unjudged")
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

// countLate counts a session that passed the screening and turned out to be invalid when
// something read its content.
func (h *Handler) countLate(in *ocp.Incoming) {
	if in.Session == nil {
		return
	}
	if fault, ok := errors.AsType[ocp.Fault](in.Session.Err()); ok {
		h.countIgnored(fault)
	}
}

// judge holds the session against the schema and the headers.
func (h *Handler) judge(in *ocp.Incoming) {
	judgement := in.Judge()
	if judgement.Verdict == ocp.Conforming {
		h.metrics.verdict(string(ocp.Conforming))
		return
	}
	if c := h.logger.Check(zapcore.DebugLevel, "OCP session does not conform"); c != nil {
		c.Write(zap.String("verdict", string(judgement.Verdict)), zap.Strings("faults", faultTexts(judgement.Faults)))
	}
	if judgement.Verdict == ocp.Ignored {
		h.ignore(in, judgement.Faults[0])
		return
	}
	h.metrics.verdict(string(judgement.Verdict))
}

// ignore makes a session one of the headers that were ignored.
func (h *Handler) ignore(in *ocp.Incoming, err error) {
	h.metrics.verdict(string(ocp.Ignored))
	fault := ocp.Fault{Field: ocp.HeaderName(ocp.HeaderSession)}
	if reason, ok := errors.AsType[ocp.Fault](err); ok {
		fault.Reason = reason.Reason
	}
	in.Session = nil
	in.Faults = append(in.Faults, fault)
}

// faultTexts names what is wrong, without values and without names that are the
// client's own words.
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

// operations is a toolset and the way back from requests to its tools.
type operations struct {
	tools  *ocp.Toolset
	routes *ocp.Routes
}

// operations returns those of the toolset of the moment, nil if there is none.
func (h *Handler) operations(r *http.Request, next caddyhttp.Handler) *operations {
	if h.toolset == nil {
		return nil
	}
	tools := toolcall.DeclaredTools(h.toolset, r, next)
	if tools == nil {
		return nil
	}
	known := h.routes.Load()
	if known == nil || known.tools != tools {
		known = &operations{tools, ocp.NewRoutes(tools)}
		h.routes.Store(known)
	}
	return known
}

// operation returns the tool that a request means, nil if there is none. A HEAD
// that the document does not declare is a GET without a body.
func (h *Handler) operation(r *http.Request, next caddyhttp.Handler) *ocp.Tool {
	if call := ocp.CallFromContext(r.Context()); call != nil {
		return call.Tool
	}
	operations := h.operations(r, next)
	if operations == nil {
		return nil
	}
	tool := operations.routes.ToolOf(r)
	if tool == nil && r.Method == http.MethodHead {
		get := *r
		get.Method = http.MethodGet
		tool = operations.routes.ToolOf(&get)
	}
	return tool
}

func requiresContext(tool *ocp.Tool) bool {
	return tool != nil && tool.OCP != nil && tool.OCP.RequiresContext
}

// refuseWithoutContext answers that an operation needs a context (RFC 6585,
// section 3). In is what the request has of one, nil if that is nothing.
func refuseWithoutContext(w http.ResponseWriter, tool *ocp.Tool, in *ocp.Incoming) error {
	detail := tool.Method + " " + tool.Path + " needs an OCP context: send the headers OCP-Context-ID and OCP-Agent-Type."
	if in != nil && len(in.Faults) > 0 {
		detail += " Ignored: " + strings.Join(faultTexts(in.Faults), "; ") + "."
	}
	header := w.Header()
	header["Vary"] = append(slices.Clip(header["Vary"]), varyRequired)
	agents.WriteProblem(w, http.StatusPreconditionRequired, "An OCP context is required", detail)
	return nil
}

func mark(r *http.Request, value any) {
	if vars, ok := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any); ok {
		vars[toolcall.ContextVar] = value
	}
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.Validator             = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
