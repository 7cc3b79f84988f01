package oagent

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
)

// Limits on values in the audit log, in bytes.
const (
	maxLoggedID    = 128 // of an Engagement's id as sent by the client
	maxLoggedInput = 256 // of the value of one argument
	maxLoggedCause = 500
)

// tell counts a decision and writes it to the audit log. note describes the result of a call
// that was made. refusal is nil if the request passed.
func (p *passage) tell(decision string, refusal *refused, note string) {
	took := time.Since(p.began)
	name := ""
	if p.agent != nil {
		name = p.agent.Name
	}
	outcomes := p.metrics.of(name)
	outcomes.count(decision)
	outcomes.duration.Observe(took.Seconds())
	if p.call == nil {
		p.recordPlainRequest(refusal)
	}

	entry := p.logger.Check(zapcore.InfoLevel, "decision")
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
	if p.agent != nil {
		add("agent", p.agent.Name)
	}
	add("engagement", p.engagementKey())
	add("engagement_id", text.Cut(p.binding.Engagement, maxLoggedID))
	add("user", p.binding.User.ID)
	add("tool", p.name)
	if p.operation != nil {
		add("toolset", p.operation.Toolset.Name)
	}
	add("protocol", p.protocol())
	if p.operation == nil {
		add("method", text.Cut(p.r.Method, maxLoggedID))
		add("path", text.Cut(p.r.URL.Path, maxLoggedInput))
	}
	if p.ticket != nil {
		fields = append(fields, zap.Int64("call", p.ticket.Number))
		add("review", p.ticket.Review)
	}
	if p.status != 0 {
		fields = append(fields, zap.Int("status", p.status))
	}
	if refusal != nil {
		add("rule", refusal.Rule)
		add("reason", refusal.loggedReason())
		add("review", refusal.Review)
		fields = append(fields, zap.Bool("made", refusal.Made))
	}
	add("note", note)
	fields = append(fields, zap.Duration("duration", took))
	if inputs := p.loggedInputs(); len(inputs) > 0 {
		fields = append(fields, zap.Dict("inputs", inputs...))
	}
	entry.Write(fields...)
	p.logCause(refusal)
}

// loggedReason returns the reason of a refusal for the log. It leaves out messages that quote
// arguments.
func (r *refused) loggedReason() string {
	if r.Kind == kindUnreadable || r.Kind == kindUndeclared || r.Kind == kindAmbiguous {
		return title(r.Kind)
	}
	return r.Message
}

// logCause logs the cause of a refusal that an operator must look into. It does not log inputs
// and outputs that an assertion quotes.
func (p *passage) logCause(refusal *refused) {
	if refusal == nil || refusal.status < 500 {
		return
	}
	if cause := refusal.causeOf(); cause != nil {
		p.logger.Error("a request of an agent was refused as the gateway has a fault", zap.String("tool", p.name),
			zap.String("kind", string(refusal.Kind)), zap.String("error", text.Cut(cause.Error(), maxLoggedCause)))
	}
}

// protocol returns the protocol of the request: mcp, otc, or http for a plain request.
func (p *passage) protocol() string {
	if p.call == nil {
		return "http"
	}
	if p.repl != nil {
		if protocol, _ := p.repl.GetString("http.tool.protocol"); protocol != "" {
			return protocol
		}
	}
	return "tool"
}

// loggedInputs returns the arguments that may be logged, as JSON.
func (p *passage) loggedInputs() (fields []zap.Field) {
	if len(p.LogInputs) == 0 || p.inputs.Kind() != '{' {
		return nil
	}
	_ = wire.Split(p.inputs, func(name, value jsontext.Value) {
		plain, err := jsontext.AppendUnquote(nil, name)
		if err == nil && slices.Contains(p.LogInputs, string(plain)) {
			fields = append(fields, zap.String(string(plain), text.Cut(string(value), maxLoggedInput)))
		}
	})
	return fields
}
