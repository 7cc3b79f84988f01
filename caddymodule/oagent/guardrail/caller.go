// Package guardrail calls the tools of agents' guardrails (OpenAgentSpec v1, guardrails).
//
// A guardrail checks text that goes to a model or comes from one. It names a tool and has an
// assertion over the tool's output. Data passes through the package in this order:
//
//   - Caller.Check gets the text, finds the tool in the agent's set, and builds its arguments.
//   - The tool call goes directly to the tool's API, with the gateway's credentials. It does not
//     pass the next handlers of the site, because they lead to the model API.
//   - The Guard evaluates the assertion over the tool's output and records the result. If the
//     assertion does not hold, the Engagement ends.
//
// Guardrails on model traffic (package chat) and guardrails of reviewing agents (package review)
// use the same Caller.
package guardrail

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/agents/credential"
	"github.com/fairwayhq/fairway/caddymodule/oagent/agentset"
	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/chat"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/ocp/invoke"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// Caller calls the tools of guardrails.
type Caller struct {
	Upstream string // origin of the tools' API; "" for the server in its OpenAPI document
	Logger   *zap.Logger
}

// Text is the text that a guardrail checks.
type Text struct {
	Input  string // to the model
	Output string // of the model; "" for an input guardrail
}

// Check calls the tool of the guardrail of binding's agent, and evaluates the guardrail's
// assertion over its output. The error is a *engagement.Refusal if the assertion does not hold or
// the tool cannot be called.
func (c *Caller) Check(ctx context.Context, guard *oagent.Guard, binding oagent.Binding, names *agentset.Names, side engagement.Side, text Text) error {
	tool := binding.Agent.Guardrail(side).Tool
	op := names.Find(tool)
	ctx, span := beginSpan(ctx, op)
	defer span.End()
	outputs, err := c.invoke(ctx, op, side, text)
	if err != nil {
		c.Logger.Error("calling the tool of a guardrail failed, so the text is refused",
			zap.String("agent", binding.Agent.Name), zap.String("tool", tool), zap.Error(err))
		err = guard.FailGuardrail(ctx, binding, side, err)
	} else {
		err = guard.CheckGuardrail(ctx, binding, side, outputs)
	}
	traceDecision(ctx, binding.Agent.Name, err)
	return err
}

// CheckTool reports why an operation cannot be the tool of a guardrail; nil if it can.
func (c *Caller) CheckTool(op *agentset.Operation, side engagement.Side) error {
	if _, err := argumentsOf(op.Tool, side); err != nil {
		return err
	}
	_, err := c.invoker(op)
	return err
}

// argumentsOf returns how the text is passed to the tool.
func argumentsOf(tool *tool.Tool, side engagement.Side) (chat.Arguments, error) {
	if side == engagement.SideOutput {
		return chat.OutputArguments(tool)
	}
	return chat.InputArguments(tool)
}

// invoke sends the tool call directly to the tool's API. It cannot use the next handlers,
// because they lead to the model API.
func (c *Caller) invoke(ctx context.Context, op *agentset.Operation, side engagement.Side, text Text) (jsontext.Value, error) {
	if op == nil {
		return nil, errors.New("its toolset is not loaded")
	}
	tools := op.Toolset.Filled(op.Set)
	t, _ := tools.Tool(op.Tool.Name)
	arguments, err := argumentsOf(t, side)
	if err != nil {
		return nil, err
	}
	invoker, err := c.invoker(op)
	if err != nil {
		return nil, err
	}
	outcome := tool.Execute(ctx, tools, t.Name, arguments.JSON(text.Input, text.Output), resolving{invoker})
	defer outcome.Release()
	calltrace.FromContext(ctx).Ended(t.Name, outcome.Name())
	if outcome.Failure != nil {
		outcome.Failure.Message = toolcall.ConcealCredentials(ctx, outcome.Failure.Message, op.Toolset.Credentials)
		return nil, outcome.Failure
	}
	return outputOf(op, outcome.Result)
}

var (
	errNotText = errors.New("its output is neither JSON nor text")
	errNotJSON = errors.New("its output is not JSON, as its document declares")
	errHTML    = errors.New("its output is an HTML page")
)

// outputOf returns the input of the assertion: the JSON of a response, or its text as a
// string. An HTML page, or text from a tool that declares JSON, is an error: it comes from a
// proxy in front of the tool and says nothing about the checked text.
func outputOf(op *agentset.Operation, result *tool.Result) (jsontext.Value, error) {
	body := result.Body
	switch {
	case result.MediaType() == "text/html" && !slices.Contains(op.Tool.Response.MediaTypes, "text/html"):
		return nil, errHTML
	case len(body) == 0:
		return jsontext.Value("null"), nil
	case wire.Check(body) == nil:
		return append(jsontext.Value(nil), body...), nil
	case op.ReturnsJSON():
		return nil, errNotJSON
	case utf8.Valid(body):
		return wire.AppendString(nil, body), nil
	}
	return nil, errNotText
}

// invoker returns the client for calls to the API of a toolset. It uses the credentials that
// the gateway has for the API, and none of the caller's.
func (c *Caller) invoker(op *agentset.Operation) (*invoke.HTTPInvoker, error) {
	origin := c.Upstream
	if origin == "" {
		origin = op.Set.Origin
	}
	if origin == "" {
		return nil, fmt.Errorf("the OpenAPI document of toolset %s has no server: set upstream in the chat block", op.Toolset.Name)
	}
	invoker, err := invoke.NewHTTPInvoker(origin)
	if err != nil {
		return nil, err
	}
	invoker.MaxResponse = op.Toolset.Limits.MaxResponse
	invoker.Client.Timeout = max(op.Toolset.Limits.Timeout, 0)
	invoker.Client.Transport = withCredentials{op.Toolset.Credentials}
	return invoker, nil
}

// resolving is a tool.Invoker that sets fixed values with placeholders. There is no request of a caller, so
// that only placeholders such as {env.…} have a value.
type resolving struct{ *invoke.HTTPInvoker }

// Invoke implements tool.Invoker.
func (i resolving) Invoke(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	err := call.Resolve(func(text string) (string, error) { return caddy.NewReplacer().ReplaceOrErr(text, true, true) })
	if err != nil {
		return nil, err
	}
	if !calltrace.Active(ctx) {
		return i.HTTPInvoker.Invoke(ctx, call)
	}
	return i.invokeTraced(ctx, call)
}

// withCredentials is an http.RoundTripper that injects the gateway's credentials.
type withCredentials struct{ credential.Set }

// RoundTrip implements http.RoundTripper.
func (t withCredentials) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	calltrace.Inject(r.Context(), r.Header)
	if err := t.Apply(r); err != nil {
		return nil, err
	}
	return http.DefaultTransport.RoundTrip(r)
}
