package oagent

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/internal/keptcall"
	"github.com/fairwayhq/fairway/caddymodule/oagent/reviewers"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/logonly"
)

// decision is what the phases of a request have returned; zero for a phase that was not reached. No phase before passOn
// gets it. It is also made for requests to a model, and for calls of agents by hosted agents.
type decision struct {
	request   request // zero for a call of an agent, which makes none
	caller    caller
	op        requestedOperation
	admission admission
	key       string // see engagementKey
}

// outcome is what came of a decision: the refusal, or the response.
type outcome struct {
	refusal *refusalError     // nil if the request passed
	status  int               // of the response; 0 if there is none
	failed  tools.FailureKind // failure of a next handler; "" if none
	note    string            // why a call that was made has no result
	would   logonly.Would     // what a rule in log only would have done, if there is no Ticket
}

// decision returns allowed, or the kind and the rule of the refusal.
func (e outcome) decision() (kind, rule string) {
	if e.refusal != nil {
		return string(e.refusal.Kind), e.refusal.Rule
	}
	return allowed, ""
}

// agentName returns the name of the agent, or "" if no agent governs the request.
func (d *decision) agentName() string {
	if d.caller.agent == nil {
		return ""
	}
	return d.caller.agent.Name
}

// engagementKey returns the key of the Engagement, or "" if no agent governs the request.
func (d *decision) engagementKey() string {
	switch {
	case d.key != "" || d.caller.agent == nil:
	case d.admission.ticket != nil:
		d.key = d.admission.ticket.Key
	default:
		d.key = d.caller.binding.Key()
	}
	return d.key
}

// Limits on values in the audit log, in bytes.
const (
	maxLoggedID    = 128 // of an Engagement's id as sent by the client
	maxLoggedInput = 256 // of the value of one argument
	maxLoggedCause = 500
)

// log counts the decision about a request and writes it to the logs.
func (d *decision) log(e outcome) {
	if d.request.call == nil {
		d.setAccessLog(e)
	}
	d.audit(d.request.r.Context(), d.request.handler, d.request.protocol(), time.Since(d.request.began), e)
}

// ProtocolHosted is the value of {http.tool.protocol} for the tool calls of hosted agents.
const ProtocolHosted = "oagent"

// AgentCall is a decision of the Guard about a call of an agent by a hosted agent. Calls of tools pass the handler, which logs
// the decisions about them itself.
type AgentCall struct {
	Binding oagent.Binding // of the agent that calls
	Name    string
	Inputs  jsontext.Value
	Ticket  *oagent.Ticket // nil if it is not known
	Err     error          // of the Guard; nil if the call was allowed
	Status  int            // HTTP status of the result; 0 if there is none
	Note    string         // why an allowed call has no result
	Took    time.Duration
	Would   logonly.Would // what a rule in log only would have done, if the Ticket does not have it
}

// LogAgentCall counts a decision and writes it to the logs, as that about a request.
func (o *Handler) LogAgentCall(ctx context.Context, made *AgentCall) {
	d := decision{
		caller:    caller{agent: o.Loader.Current().Agents[made.Binding.Agent.Name], binding: made.Binding},
		op:        requestedOperation{name: made.Name},
		admission: admission{inputs: made.Inputs, ticket: made.Ticket},
	}
	d.audit(ctx, o, ProtocolHosted, made.Took, outcome{refusal: asRefusalError(made.Err), status: made.Status, note: made.Note, would: made.Would})
}

// audit counts a decision and writes it to the audit log.
func (d *decision) audit(ctx context.Context, o *Handler, protocol string, took time.Duration, e outcome) {
	name, refusal := d.agentName(), e.refusal
	kind, rule := e.decision()
	counters := o.metrics.of(name)
	counters.count(kind)
	counters.duration.Observe(took.Seconds())
	calltrace.Decision(ctx, calltrace.EventDecision, name, kind, rule)
	if ticket := d.admission.ticket; refusal == nil && (e.would.Effect != "" || ticket != nil && (ticket.Would.Effect != "" || ticket.Incomplete != "")) {
		d.reportTrial(ctx, o, &e)
	}
	d.describe(route.CallEntry(ctx), refusal)

	entry := o.logger.Check(zapcore.InfoLevel, "decision")
	if entry == nil {
		return
	}
	fields := make([]zap.Field, 0, 23)
	add := func(key, value string) {
		if value != "" {
			fields = append(fields, zap.String(key, value))
		}
	}
	add("decision", kind)
	add("call_id", d.request.id.String())
	add("agent", name)
	add("engagement", d.engagementKey())
	add("engagement_id", text.Cut(d.caller.binding.Engagement, maxLoggedID))
	add("user", d.caller.binding.User.ID)
	add("tool", d.op.name)
	if d.op.operation != nil {
		add("toolset", d.op.operation.Toolset.Name)
	}
	add("protocol", protocol)
	if r := d.request.r; r != nil && d.op.operation == nil && (d.request.rec == nil || d.request.rec.Review == nil) {
		add("method", text.Cut(r.Method, maxLoggedID))
		add("path", text.Cut(r.URL.Path, maxLoggedInput))
	}
	if ticket := d.admission.ticket; ticket != nil {
		fields = append(fields, zap.Int64("call", ticket.Number))
		add("review", ticket.Review)
	}
	if e.status != 0 {
		fields = append(fields, zap.Int("status", e.status))
	}
	if refusal != nil {
		add("rule", rule)
		add("reason", refusal.loggedReason())
		add("review", refusal.Review)
		fields = append(fields, zap.Bool("made", refusal.Made))
	}
	if e.would.Effect != "" {
		add("would", e.would.String())
		add("would_rule", e.would.Rule)
		add("would_reason", e.would.Why)
	}
	add("note", e.note)
	fields = append(fields, zap.Duration("duration", took))
	if inputs := loggedInputs(d.admission.inputs, o.LogInputs); len(inputs) > 0 {
		fields = append(fields, zap.Dict("inputs", inputs...))
	}
	entry.Write(fields...)
	if refusal != nil {
		refusal.logCause(o.logger, d.op.name)
	}
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
func (d *decision) describe(entry *keptcall.Call, refusal *refusalError) {
	if entry == nil {
		return
	}
	entry.Agent, entry.Engagement = cmp.Or(d.agentName(), entry.Agent), d.engagementKey()
	if d.admission.ticket != nil {
		entry.Review = d.admission.ticket.Review
	}
	if refusal != nil {
		entry.Rule, entry.Review = refusal.Rule, cmp.Or(refusal.Review, entry.Review)
	}
}

// logCause logs the cause of a refusal that an operator must look into. It does not log inputs
// and outputs that an assertion quotes.
func (r *refusalError) logCause(logger *zap.Logger, name string) {
	if r.status < 500 {
		return
	}
	if cause := r.loggedCause(); cause != nil {
		logger.Error("a request of an agent was refused because of an error of the gateway", zap.String("tool", name),
			zap.String("kind", string(r.Kind)), zap.String("error", text.Cut(cause.Error(), maxLoggedCause)))
	}
}

// loggedInputs returns the arguments that may be logged, as JSON.
func loggedInputs(inputs jsontext.Value, names []string) (fields []zap.Field) {
	if len(names) == 0 || inputs.Kind() != '{' {
		return nil
	}
	_ = strictjson.Split(inputs, func(name, value jsontext.Value) {
		plain, err := jsontext.AppendUnquote(nil, name)
		if err == nil && slices.Contains(names, string(plain)) {
			fields = append(fields, zap.String(string(plain), text.Cut(string(value), maxLoggedInput)))
		}
	})
	return fields
}

// setAccessLog sets the placeholder {http.tool.outcome} and the access log fields of a
// plain request.
func (d *decision) setAccessLog(e outcome) {
	if d.request.repl != nil {
		d.request.repl.Set(route.PlaceholderOutcome, e.ofPlain())
	}
	fields := route.AccessLogFields(d.request.r)
	if fields == nil {
		return
	}
	if op := d.op.operation; op != nil {
		fields.Set(zap.String("tool", op.Tool.Name))
		fields.Set(zap.String("toolset", op.Toolset.Name))
	}
	fields.Set(zap.String("protocol", d.request.protocol()))
	fields.Set(zap.String("outcome", e.ofPlain()))
	fields.Set(zap.String("call", d.request.id.String()))
}

// ofPlain returns the outcome of a plain request. It uses the same names as the outcomes of
// tool calls.
func (e outcome) ofPlain() string {
	switch {
	case e.refusal != nil && e.refusal.Kind == engagement.KindReviewPending:
		return tools.OutcomePending
	case e.refusal != nil:
		return string(tools.Restricted)
	case e.failed != "":
		return string(e.failed)
	case e.status == 0:
		return string(tools.Unanswered)
	}
	return tools.OutcomeOfStatus(e.status)
}

// allowed is the decision for a request that passes. The other decisions are the kinds of
// refusals.
const allowed = "allowed"

// setPlaceholders sets the {http.oagent.*} placeholders. A request that passes usually gets them
// once, so they are looked up when they are needed. Any later decision replaces them, also one of
// another oagent handler in the chain: static values take precedence over looked-up ones.
func (d *decision) setPlaceholders(outcome string) {
	repl, agent, key := d.request.repl, d.agentName(), d.engagementKey() // a lookup may be in another goroutine
	if repl == nil {
		return
	}
	if _, decided := repl.Get(placeholderDecision); !decided && outcome == allowed {
		repl.Map(func(name string) (any, bool) {
			switch name {
			case placeholderAgent:
				return agent, true
			case placeholderEngagement:
				return key, true
			case placeholderDecision:
				return allowed, true
			}
			return nil, false
		})
		return
	}
	if agent != "" {
		repl.Set(placeholderAgent, agent)
	}
	repl.Set(placeholderEngagement, key)
	repl.Set(placeholderDecision, outcome)
}

// The {http.oagent.*} placeholders.
const (
	placeholderAgent      = "http.oagent.agent"
	placeholderEngagement = "http.oagent.engagement"
	placeholderDecision   = "http.oagent.decision"
)

// headerExposes is the response header with the exposed values, as a JSON object in ASCII.
// This is its canonical form as a key of http.Header.
const headerExposes = "Oagent-Exposes"

// maxExposes is the maximum length of the header's value, in bytes. Servers and clients
// commonly reject longer lines.
const maxExposes = 16 << 10

// exposesAny reports whether responses carry exposed values.
func (d *decision) exposesAny() bool {
	return d.request.handler.Exposes == exposesHeader && len(d.caller.agent.Agent.Exposes) > 0
}

// expose sets the header with the exposed values (OpenAgentSpec v1, exposes).
func (d *decision) expose(header http.Header) {
	if !d.exposesAny() {
		return
	}
	guard, err := d.request.handler.OpenGuard(d.request.r.Context())
	if err != nil {
		return
	}
	exposed, err := guard.Exposed(d.request.r.Context(), d.caller.binding)
	if err != nil {
		d.request.handler.logger.Error("reading the exposed values of an agent failed", zap.String("agent", d.caller.agent.Name), zap.Error(err))
		return
	}
	if c := d.request.handler.logger.Check(zapcore.DebugLevel, "some exposed values of an agent are not set yet"); c != nil && len(exposed.Missing) > 0 {
		c.Write(zap.String("agent", d.caller.agent.Name), zap.Int("missing", len(exposed.Missing)))
	}
	value := asciiJSON(exposed.Object)
	if len(value) > maxExposes {
		d.request.handler.logger.Warn("the exposed values of an agent are too long for a header and were omitted", zap.String("agent", d.caller.agent.Name), zap.Int("size", len(value)))
		return
	}
	header[headerExposes] = []string{string(value)}
	if d.request.rec != nil {
		d.request.rec.Exposed = string(value)
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
	return errors.Join(directive.RegisterMetrics(registry, m.decisions, m.duration), reviewers.RegisterMetrics(registry))
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
