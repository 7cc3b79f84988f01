package caddymodule

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/fairwayhq/fairway/ocp"
)

// caller is the ocp.Caller of one incoming request. It runs calls through the
// chain and tells of them: in the metrics, in the access log of the request and
// in its placeholders.
type caller struct {
	dispatch
	tools   *ocp.Toolset
	metrics *callMetrics
	tool    atomic.Pointer[ocp.Tool] // of the latest call; nil before one
	conceal func(string) string      // takes what came with the call in confidence out of a text; nil if nothing did

	mu  sync.Mutex // guards log
	log *caddyhttp.ExtraLogFields
}

// newCaller returns the caller of the request that d dispatches for, and makes
// the request's {http.tool.*} placeholders and log fields known.
func newCaller(d dispatch, tools *ocp.Toolset, m *callMetrics) *caller {
	c := &caller{dispatch: d, tools: tools, metrics: m}
	if c.repl != nil {
		c.repl.Map(c.placeholder)
	}
	if c.server == nil || c.server.Logs != nil {
		c.log, _ = c.outer.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields)
	}
	if c.log != nil {
		c.log.Set(zap.String("toolset", c.toolset))
		c.log.Set(zap.String("protocol", c.protocol))
	}
	return c
}

// newStreamCaller returns the caller of one message of a request that carries
// many, at the same time: its log entry and its placeholders speak of no single
// call.
func newStreamCaller(d dispatch, tools *ocp.Toolset, m *callMetrics) *caller {
	return &caller{dispatch: d, tools: tools, metrics: m}
}

// placeholder returns the {http.tool.*} placeholders of the request; in one that
// calls several tools, the name is that of the latest.
func (c *caller) placeholder(key string) (any, bool) {
	name := ""
	if tool := c.tool.Load(); tool != nil {
		name = tool.Name
	}
	return toolPlaceholder(key, name, c.toolset, c.protocol)
}

// Call runs the tool.
func (c *caller) Call(ctx context.Context, tool string, arguments []byte) ocp.Outcome {
	outcome := c.execute(ctx, tool, arguments)
	if c.conceal != nil && outcome.Failure != nil {
		outcome.Failure.Message = c.conceal(outcome.Failure.Message)
	}
	c.metrics.observe(&outcome)
	if outcome.Tool != nil {
		c.tool.Store(outcome.Tool)
		c.mu.Lock()
		if c.log != nil {
			c.log.Set(zap.String("tool", outcome.Tool.Name))
		}
		c.mu.Unlock()
	}
	if entry := c.logger.Check(zapcore.DebugLevel, "tool call"); entry != nil {
		entry.Write(outcomeFields(tool, c.toolset, c.protocol, &outcome)...)
	}
	return outcome
}

// execute runs the tool. A panic on the way, of the validator on some schema,
// say, is an error of this call alone, as one in a handler is.
func (c *caller) execute(ctx context.Context, tool string, arguments []byte) (outcome ocp.Outcome) {
	defer func() {
		if value := recover(); value != nil {
			p := &panicked{value: value, stack: debug.Stack()}
			outcome = ocp.Outcome{Failure: c.panicked("the call", p)}
		}
	}()
	return ocp.Execute(ctx, c.tools, tool, arguments, &c.dispatch)
}

func outcomeFields(tool, toolset, protocol string, outcome *ocp.Outcome) []zap.Field {
	const longestName = 128 // bytes; a client may ask for any name
	fields := []zap.Field{
		zap.String("tool", tool[:min(len(tool), longestName)]),
		zap.String("toolset", toolset),
		zap.String("protocol", protocol),
		zap.Duration("duration", outcome.Duration),
	}
	if outcome.Result != nil {
		fields = append(fields, zap.Int("status", outcome.Result.Status), zap.Int("size", len(outcome.Result.Body)))
	}
	if outcome.Failure != nil {
		fields = append(fields, zap.String("failure", string(outcome.Failure.Kind)), zap.String("message", outcome.Failure.Message))
	}
	return fields
}

var _ ocp.Caller = (*caller)(nil)
