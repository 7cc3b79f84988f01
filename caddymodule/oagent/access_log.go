package oagent

import (
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// setAccessLog sets the placeholder {http.tool.outcome} and the access log fields of a
// plain request. refusal is nil if the request was allowed.
func (g *governedRequest) setAccessLog(refusal *refusalError) {
	outcome := g.plainOutcome(refusal)
	if g.repl != nil {
		g.repl.Set(toolcall.PlaceholderOutcome, outcome)
	}
	fields := toolcall.AccessLogFields(g.r)
	if fields == nil {
		return
	}
	if g.operation != nil {
		fields.Set(zap.String("tool", g.operation.Tool.Name))
		fields.Set(zap.String("toolset", g.operation.Toolset.Name))
	}
	fields.Set(zap.String("protocol", g.protocol()))
	fields.Set(zap.String("outcome", outcome))
}

// plainOutcome returns the outcome of the request. It uses the same names as the outcomes of
// tool calls.
func (g *governedRequest) plainOutcome(refusal *refusalError) string {
	switch {
	case refusal != nil:
		return string(tool.Restricted)
	case g.failed != "":
		return string(g.failed)
	case g.status == 0:
		return string(tool.Unanswered)
	}
	return tool.OutcomeOfStatus(g.status)
}
