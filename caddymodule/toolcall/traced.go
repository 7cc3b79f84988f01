package toolcall

import (
	"context"
	"errors"
	"net/http"

	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// executeTraced is execute within the span of the call. It starts the span, unless the adapter for MCP has
// already started it.
func (c *Caller) executeTraced(ctx context.Context, tools *tool.Toolset, name string, arguments []byte) tool.Outcome {
	if calltrace.FromContext(ctx) != nil {
		return c.execute(ctx, tools, name, arguments) // the adapter ends the span
	}
	called := ""
	if t, ok := tools.Tool(name); ok {
		called = t.Name
	}
	ctx, span := calltrace.Begin(ctx, called)
	defer span.End()
	outcome := c.execute(ctx, tools, name, arguments)
	span.Ended(called, outcome.Name())
	return outcome
}

// serveTraced sends an inner request within its own span. Template is the path of its operation, or "" for a
// poll.
func (d *dispatch) serveTraced(ctx context.Context, call *tool.Call, template string, rec *Recorder, r *http.Request) (*tool.Result, error) {
	span := calltrace.BeginRequest(ctx, r, template)
	failed := string(tool.Internal) // unless the request ends
	defer func() { calltrace.EndRequest(span, rec.Status, failed) }()
	err := Serve(d.handlerChain(), rec, r)
	result, err := d.conclude(ctx, call, rec, err)
	failed = ""
	if failure, ok := errors.AsType[*tool.Failure](err); ok {
		failed = string(failure.Kind)
	} else if err != nil {
		failed = string(tool.Internal)
	}
	return result, err
}
