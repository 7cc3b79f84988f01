package oagent

import (
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/ocp"
)

// recordPlainRequest sets the placeholder {http.tool.outcome} and the access log fields of a
// plain request. refusal is nil if the request was allowed.
func (p *passage) recordPlainRequest(refusal *refused) {
	outcome := p.plainOutcome(refusal)
	if p.repl != nil {
		p.repl.Set(toolcall.PlaceholderOutcome, outcome)
	}
	fields := toolcall.AccessLogFields(p.r)
	if fields == nil {
		return
	}
	if p.operation != nil {
		fields.Set(zap.String("tool", p.operation.Tool.Name))
		fields.Set(zap.String("toolset", p.operation.Toolset.Name))
	}
	fields.Set(zap.String("protocol", p.protocol()))
	fields.Set(zap.String("outcome", outcome))
}

// plainOutcome returns the outcome of the request. It uses the same names as the outcomes of
// tool calls.
func (p *passage) plainOutcome(refusal *refused) string {
	switch {
	case refusal != nil:
		return string(ocp.Restricted)
	case p.failed != "":
		return string(p.failed)
	case p.status == 0:
		return string(ocp.Unanswered)
	}
	return ocp.OutcomeOfStatus(p.status)
}
