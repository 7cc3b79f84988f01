package route

import (
	"context"
	"errors"
	"net/http"

	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/tools"
)

// executeTraced is execute within the span of the call. It starts the span, unless the adapter for MCP has
// already started it.
func (c *Caller) executeTraced(ctx context.Context, toolset *tools.Toolset, name string, arguments []byte) tools.Outcome {
	if calltrace.FromContext(ctx) != nil {
		return c.execute(ctx, toolset, name, arguments) // the adapter ends the span
	}
	called := ""
	if t, ok := toolset.Tool(name); ok {
		called = t.Name
	}
	ctx, span := calltrace.Begin(ctx, called)
	defer span.End()
	outcome := c.execute(ctx, toolset, name, arguments)
	span.Ended(called, outcome.Name())
	return outcome
}

// serveTraced sends an inner request within its own span. Template is the path of its operation, or "" for a
// poll.
func (d *dispatch) serveTraced(ctx context.Context, call *tools.Call, template string, rec *Recorder, r *http.Request) (*tools.Result, error) {
	span := calltrace.BeginRequest(ctx, r, template)
	failed := string(tools.Internal) // unless the request ends
	defer func() { calltrace.EndRequest(span, rec.Status, failed) }()
	err := Serve(d.handlerChain(), rec, r)
	result, err := d.conclude(ctx, call, rec, err)
	failed = ""
	if failure, ok := errors.AsType[*tools.Failure](err); ok {
		failed = string(failure.Kind)
	} else if err != nil {
		failed = string(tools.Internal)
	}
	return result, err
}
