package oagent

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/hosted"
	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
	"github.com/fairwayhq/fairway/caddymodule/oagent/reviewers"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/tools"
)

// decision is what is known about a request that agents govern, and what was decided about it. Each phase of the
// request adds what it finds out, and may refuse the request. The decision is recorded, counted, logged and
// answered here, for requests to the API, for those to a model, and for calls of agents by hosted agents.
type decision struct {
	handler  *Handler
	w        http.ResponseWriter // nil, like r, for a call of an agent
	r        *http.Request
	repl     *caddy.Replacer // nil if the request has none
	call     *tools.Call     // nil if the request is not a tool call
	rec      *route.Recorder // of the tool call; nil if there is none
	protocol string          // "" for that of the request
	began    time.Time

	caller             // set by identify
	requestedOperation // set by operationReader

	inspected *oagent.Inspected // the reviews that inspectors require; nil without any

	ticket *oagent.Ticket    // set by admission; nil until the Guard has allowed the call
	status int               // of the response
	failed tools.FailureKind // failure of a next handler; "" if none
}

// newDecision returns a decision about which nothing is known but the request. next may be nil.
func newDecision(o *Handler, w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) *decision {
	d := &decision{handler: o, w: w, r: r, began: time.Now(), call: tools.CallFromContext(r.Context()), rec: recorderOf(w)}
	d.repl, _ = r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if o.host != nil {
		d.hosted = o.host.CallOf(r.Context())
	}
	if next == nil {
		d.agents = o.agents.Current()
	} else {
		d.agents = o.agents.CurrentFor(r, next)
	}
	return d
}

// recorderOf returns the recorder of a tool call, or nil if there is none.
func recorderOf(w http.ResponseWriter) *route.Recorder {
	for {
		if rec, ok := w.(*route.Recorder); ok {
			return rec
		}
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return nil
		}
		w = wrapper.Unwrap()
	}
}

// Limits on values in the audit log, in bytes.
const (
	maxLoggedID    = 128 // of an Engagement's id as sent by the client
	maxLoggedInput = 256 // of the value of one argument
	maxLoggedCause = 500
)

// log counts a decision and writes it to the audit log. note describes the result of a call
// that was made. refusal is nil if the request passed.
func (d *decision) log(ctx context.Context, refusal *refusalError, note string) {
	took, outcome, rule := time.Since(d.began), allowed, ""
	if refusal != nil {
		outcome, rule = string(refusal.Kind), refusal.Rule
	}
	name := ""
	if d.agent != nil {
		name = d.agent.Name
	}
	counters := d.handler.metrics.of(name)
	counters.count(outcome)
	counters.duration.Observe(took.Seconds())
	if d.r != nil && d.call == nil {
		d.setAccessLog(refusal)
	}
	calltrace.Decision(ctx, calltrace.EventDecision, name, outcome, rule)
	d.describe(route.CallEntry(ctx), name, refusal)

	entry := d.handler.logger.Check(zapcore.InfoLevel, "decision")
	if entry == nil {
		return
	}
	fields := make([]zap.Field, 0, 20)
	add := func(key, value string) {
		if value != "" {
			fields = append(fields, zap.String(key, value))
		}
	}
	add("decision", outcome)
	add("agent", name)
	add("engagement", d.engagementKey())
	add("engagement_id", text.Cut(d.binding.Engagement, maxLoggedID))
	add("user", d.binding.User.ID)
	add("tool", d.name)
	if d.operation != nil {
		add("toolset", d.operation.Toolset.Name)
	}
	add("protocol", d.protocolName())
	if d.operation == nil && d.r != nil && (d.rec == nil || d.rec.Review == nil) {
		add("method", text.Cut(d.r.Method, maxLoggedID))
		add("path", text.Cut(d.r.URL.Path, maxLoggedInput))
	}
	if d.ticket != nil {
		fields = append(fields, zap.Int64("call", d.ticket.Number))
		add("review", d.ticket.Review)
	}
	if d.status != 0 {
		fields = append(fields, zap.Int("status", d.status))
	}
	if refusal != nil {
		add("rule", refusal.Rule)
		add("reason", refusal.loggedReason())
		add("review", refusal.Review)
		fields = append(fields, zap.Bool("made", refusal.Made))
	}
	add("note", note)
	fields = append(fields, zap.Duration("duration", took))
	if inputs := d.loggedInputs(); len(inputs) > 0 {
		fields = append(fields, zap.Dict("inputs", inputs...))
	}
	entry.Write(fields...)
	d.logCause(refusal)
}

// logAgentCall is decision.log for a call of an agent by a hosted agent. It makes no request.
func logAgentCall(ctx context.Context, o *Handler, made *hosted.Decision) {
	d := decision{
		handler: o, protocol: hosted.Protocol, began: time.Now().Add(-made.Took), ticket: made.Ticket, status: made.Status,
		caller:             caller{agent: o.agents.Current().Agents[made.Agent.Name], binding: made.Binding},
		requestedOperation: requestedOperation{name: made.Name, inputs: made.Inputs},
	}
	d.log(ctx, asRefusalError(made.Err), made.Note)
}

// loggedReason returns the reason of a refusal for the log. It leaves out messages that quote
// arguments.
func (r *refusalError) loggedReason() string {
	if r.Kind == kindUnreadable || r.Kind == kindUndeclared || r.Kind == kindAmbiguous {
		return title(r.Kind)
	}
	return r.Message
}

// describe adds to the entry of a tool call in the log of calls what governs the call. Entry may be nil.
func (d *decision) describe(entry *calllog.Call, agent string, refusal *refusalError) {
	if entry == nil {
		return
	}
	entry.Agent, entry.Engagement = cmp.Or(agent, entry.Agent), d.engagementKey()
	if d.ticket != nil {
		entry.Review = d.ticket.Review
	}
	if refusal != nil {
		entry.Rule, entry.Review = refusal.Rule, cmp.Or(refusal.Review, entry.Review)
	}
}

// logCause logs the cause of a refusal that an operator must look into. It does not log inputs
// and outputs that an assertion quotes.
func (d *decision) logCause(refusal *refusalError) {
	if refusal == nil || refusal.status < 500 {
		return
	}
	if cause := refusal.loggedCause(); cause != nil {
		d.handler.logger.Error("a request of an agent was refused because of an error of the gateway", zap.String("tool", d.name),
			zap.String("kind", string(refusal.Kind)), zap.String("error", text.Cut(cause.Error(), maxLoggedCause)))
	}
}

// protocolName returns the protocol of the request: mcp, otc, oagent, or http for a plain request.
func (d *decision) protocolName() string {
	switch {
	case d.protocol != "":
		return d.protocol
	case d.call == nil:
		return "http"
	}
	if d.repl != nil {
		if protocol, _ := d.repl.GetString("http.tool.protocol"); protocol != "" {
			return protocol
		}
	}
	return "tool"
}

// recordedInputs returns the arguments for logs and for the record.
func (d *decision) recordedInputs() jsontext.Value {
	if d.inspected != nil {
		return d.inspected.Inputs
	}
	return d.inputs
}

// loggedInputs returns the arguments that may be logged, as JSON.
func (d *decision) loggedInputs() (fields []zap.Field) {
	inputs := d.recordedInputs()
	if len(d.handler.LogInputs) == 0 || inputs.Kind() != '{' {
		return nil
	}
	_ = strictjson.Split(inputs, func(name, value jsontext.Value) {
		plain, err := jsontext.AppendUnquote(nil, name)
		if err == nil && slices.Contains(d.handler.LogInputs, string(plain)) {
			fields = append(fields, zap.String(string(plain), text.Cut(string(value), maxLoggedInput)))
		}
	})
	return fields
}

// setAccessLog sets the placeholder {http.tool.outcome} and the access log fields of a
// plain request. refusal is nil if the request was allowed.
func (d *decision) setAccessLog(refusal *refusalError) {
	outcome := d.plainOutcome(refusal)
	if d.repl != nil {
		d.repl.Set(route.PlaceholderOutcome, outcome)
	}
	fields := route.AccessLogFields(d.r)
	if fields == nil {
		return
	}
	if d.operation != nil {
		fields.Set(zap.String("tool", d.operation.Tool.Name))
		fields.Set(zap.String("toolset", d.operation.Toolset.Name))
	}
	fields.Set(zap.String("protocol", d.protocolName()))
	fields.Set(zap.String("outcome", outcome))
}

// plainOutcome returns the outcome of the request. It uses the same names as the outcomes of
// tool calls.
func (d *decision) plainOutcome(refusal *refusalError) string {
	switch {
	case refusal != nil:
		return string(tools.Restricted)
	case d.failed != "":
		return string(d.failed)
	case d.status == 0:
		return string(tools.Unanswered)
	}
	return tools.OutcomeOfStatus(d.status)
}

// allowed is the decision for a request that passes. The other decisions are the kinds of
// refusals.
const allowed = "allowed"

// setPlaceholders sets the {http.oagent.*} placeholders. A request that passes usually gets them
// once, so they are looked up when they are needed. Any later decision replaces them, also one of
// another oagent handler in the chain: static values take precedence over looked-up ones.
func (d *decision) setPlaceholders(outcome string) {
	if d.repl == nil {
		return
	}
	if _, decided := d.repl.Get(placeholderDecision); !decided && outcome == allowed {
		d.key = d.engagementKey() // not at the first lookup, which may be in another goroutine
		d.repl.Map(d.allowedPlaceholder)
		return
	}
	if d.agent != nil {
		d.repl.Set(placeholderAgent, d.agent.Name)
	}
	d.repl.Set(placeholderEngagement, d.engagementKey())
	d.repl.Set(placeholderDecision, outcome)
}

// The {http.oagent.*} placeholders.
const (
	placeholderAgent      = "http.oagent.agent"
	placeholderEngagement = "http.oagent.engagement"
	placeholderDecision   = "http.oagent.decision"
)

// allowedPlaceholder returns the {http.oagent.*} placeholders of a request that passes.
func (d *decision) allowedPlaceholder(key string) (any, bool) {
	switch key {
	case placeholderAgent:
		if d.agent == nil {
			return nil, false
		}
		return d.agent.Name, true
	case placeholderEngagement:
		return d.key, true
	case placeholderDecision:
		return allowed, true
	}
	return nil, false
}

// headerExposes is the response header with the exposed values, as a JSON object in ASCII.
// This is its canonical form as a key of http.Header.
const headerExposes = "Oagent-Exposes"

// maxExposes is the maximum length of the header's value, in bytes. Servers and clients
// commonly reject longer lines.
const maxExposes = 16 << 10

// exposesAny reports whether responses carry exposed values.
func (d *decision) exposesAny() bool {
	return d.handler.Exposes == exposesHeader && len(d.agent.Agent.Exposes) > 0
}

// expose sets the header with the exposed values (OpenAgentSpec v1, exposes).
func (d *decision) expose(header http.Header) {
	if !d.exposesAny() {
		return
	}
	guard, err := d.handler.guard(d.r.Context())
	if err != nil {
		return
	}
	exposed, err := guard.Exposed(d.r.Context(), d.binding)
	if err != nil {
		d.handler.logger.Error("reading the exposed values of an agent failed", zap.String("agent", d.agent.Name), zap.Error(err))
		return
	}
	if c := d.handler.logger.Check(zapcore.DebugLevel, "some exposed values of an agent are not set yet"); c != nil && len(exposed.Missing) > 0 {
		c.Write(zap.String("agent", d.agent.Name), zap.Int("missing", len(exposed.Missing)))
	}
	value := asciiJSON(exposed.Object)
	if len(value) > maxExposes {
		d.handler.logger.Warn("the exposed values of an agent are too long for a header and were omitted", zap.String("agent", d.agent.Name), zap.Int("size", len(value)))
		return
	}
	header[headerExposes] = []string{string(value)}
	if d.rec != nil {
		d.rec.Exposed = string(value)
	}
}

// asciiJSON returns JSON as a text for a header: on one line, with all characters beyond ASCII escaped.
func asciiJSON(value []byte) []byte {
	ascii := strictjson.AppendASCII(make([]byte, 0, len(value)), value)
	for i, c := range ascii {
		if c == '\n' || c == '\r' || c == '\t' {
			ascii[i] = ' ' // between tokens; in strings they are escaped
		}
	}
	return ascii
}

// agentMetrics are the collectors of the oagent handlers. They survive a reload. The label
// agent has only names of documents, or "" for requests that no agent governs, so clients
// cannot create label values.
type agentMetrics struct {
	decisions *prometheus.CounterVec   // agent, outcome
	duration  *prometheus.HistogramVec // agent

	outcomes sync.Map // agent name → *agentOutcomes
}

// processMetrics is the only set of these collectors in the process.
var processMetrics = newAgentMetrics()

// processSpans makes the spans of work without a request. There is one in the process, like Caddy's tracer
// provider, so that runs have spans after a reload too.
var processSpans calltrace.Source

func newAgentMetrics() *agentMetrics {
	return &agentMetrics{
		decisions: directive.Counter("agent_decisions_total",
			"Decisions about requests that agents govern, by agent and by outcome: allowed, or the kind of the refusal.", "agent", "outcome"),
		duration: directive.CallDuration("agent_call_duration_seconds",
			"Duration of requests that agents govern, by agent. It includes the time that the reviewer and the API take.", "agent"),
	}
}

func (m *agentMetrics) register(registry prometheus.Registerer) error {
	return errors.Join(directive.RegisterMetrics(registry, m.decisions, m.duration), reviewers.RegisterMetrics(registry), hosted.RegisterMetrics(registry))
}

// agentOutcomes are the collectors of one agent.
type agentOutcomes struct {
	allowed   prometheus.Counter
	decisions *prometheus.CounterVec // outcome
	duration  prometheus.Observer
}

// of returns the collectors of an agent. The name must be one of a document, or "" for requests
// that no agent governs.
func (m *agentMetrics) of(agent string) *agentOutcomes {
	if known, ok := m.outcomes.Load(agent); ok {
		return known.(*agentOutcomes)
	}
	decisions := m.decisions.MustCurryWith(prometheus.Labels{"agent": agent})
	known, _ := m.outcomes.LoadOrStore(agent, &agentOutcomes{decisions.WithLabelValues(allowed), decisions, m.duration.WithLabelValues(agent)})
	return known.(*agentOutcomes)
}

func (o *agentOutcomes) count(decision string) {
	if decision == allowed {
		o.allowed.Inc()
		return
	}
	o.decisions.WithLabelValues(decision).Inc()
}
