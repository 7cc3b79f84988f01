package oagent

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/fairwayhq/fairway/caddymodule/oagent/hosting"
	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// Limits on values in the audit log, in bytes.
const (
	maxLoggedID    = 128 // of an Engagement's id as sent by the client
	maxLoggedInput = 256 // of the value of one argument
	maxLoggedCause = 500
)

// logDecision counts a decision and writes it to the audit log. note describes the result of a call
// that was made. refusal is nil if the request passed.
func (g *governedRequest) logDecision(decision string, refusal *refusalError, note string) {
	took := time.Since(g.began)
	name := ""
	if g.agent != nil {
		name = g.agent.Name
	}
	outcomes := g.handler.metrics.of(name)
	outcomes.count(decision)
	outcomes.duration.Observe(took.Seconds())
	if g.call == nil {
		g.setAccessLog(refusal)
	}
	rule := ""
	if refusal != nil {
		rule = refusal.Rule
	}
	calltrace.Decision(g.r.Context(), calltrace.EventDecision, name, decision, rule)

	entry := g.handler.logger.Check(zapcore.InfoLevel, "decision")
	if entry == nil {
		return
	}
	fields := make([]zap.Field, 0, 20)
	add := func(key, value string) {
		if value != "" {
			fields = append(fields, zap.String(key, value))
		}
	}
	add("decision", decision)
	if g.agent != nil {
		add("agent", g.agent.Name)
	}
	add("engagement", g.engagementKey())
	add("engagement_id", text.Cut(g.binding.Engagement, maxLoggedID))
	add("user", g.binding.User.ID)
	add("tool", g.name)
	if g.operation != nil {
		add("toolset", g.operation.Toolset.Name)
	}
	add("protocol", g.protocol())
	if g.operation == nil && g.w != nil {
		add("method", text.Cut(g.r.Method, maxLoggedID))
		add("path", text.Cut(g.r.URL.Path, maxLoggedInput))
	}
	if g.ticket != nil {
		fields = append(fields, zap.Int64("call", g.ticket.Number))
		add("review", g.ticket.Review)
	}
	if g.status != 0 {
		fields = append(fields, zap.Int("status", g.status))
	}
	if refusal != nil {
		add("rule", refusal.Rule)
		add("reason", refusal.loggedReason())
		add("review", refusal.Review)
		fields = append(fields, zap.Bool("made", refusal.Made))
	}
	add("note", note)
	fields = append(fields, zap.Duration("duration", took))
	if inputs := g.loggedInputs(); len(inputs) > 0 {
		fields = append(fields, zap.Dict("inputs", inputs...))
	}
	entry.Write(fields...)
	g.logCause(refusal)
}

// logAgentCall is logDecision for a call of an agent by a hosted agent. It makes no request.
func logAgentCall(ctx context.Context, o *Handler, d *hosting.Decision) {
	repl := caddy.NewReplacer()
	repl.Set("http.tool.protocol", hosting.Protocol)
	g := governedRequest{
		handler: o, r: new(http.Request).WithContext(ctx), repl: repl, call: new(tool.Call), began: time.Now().Add(-d.Took),
		agent: o.agents.Current().Agents[d.Agent.Name], binding: d.Binding, name: d.Name, inputs: d.Inputs, ticket: d.Ticket, status: d.Status,
	}
	refusal := asRefusalError(d.Err)
	if refusal == nil {
		g.logDecision(allowed, nil, d.Note)
		return
	}
	g.logDecision(string(refusal.Kind), refusal, d.Note)
}

// loggedReason returns the reason of a refusal for the log. It leaves out messages that quote
// arguments.
func (r *refusalError) loggedReason() string {
	if r.Kind == kindUnreadable || r.Kind == kindUndeclared || r.Kind == kindAmbiguous {
		return title(r.Kind)
	}
	return r.Message
}

// logCause logs the cause of a refusal that an operator must look into. It does not log inputs
// and outputs that an assertion quotes.
func (g *governedRequest) logCause(refusal *refusalError) {
	if refusal == nil || refusal.status < 500 {
		return
	}
	if cause := refusal.loggedCause(); cause != nil {
		g.handler.logger.Error("a request of an agent was refused because of an error of the gateway", zap.String("tool", g.name),
			zap.String("kind", string(refusal.Kind)), zap.String("error", text.Cut(cause.Error(), maxLoggedCause)))
	}
}

// protocol returns the protocol of the request: mcp, otc, or http for a plain request.
func (g *governedRequest) protocol() string {
	if g.call == nil {
		return "http"
	}
	if g.repl != nil {
		if protocol, _ := g.repl.GetString("http.tool.protocol"); protocol != "" {
			return protocol
		}
	}
	return "tool"
}

// loggedInputs returns the arguments that may be logged, as JSON.
func (g *governedRequest) loggedInputs() (fields []zap.Field) {
	if len(g.handler.LogInputs) == 0 || g.inputs.Kind() != '{' {
		return nil
	}
	_ = wire.Split(g.inputs, func(name, value jsontext.Value) {
		plain, err := jsontext.AppendUnquote(nil, name)
		if err == nil && slices.Contains(g.handler.LogInputs, string(plain)) {
			fields = append(fields, zap.String(string(plain), text.Cut(string(value), maxLoggedInput)))
		}
	})
	return fields
}
