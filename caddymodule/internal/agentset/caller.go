package agentset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/logonly"
)

// GuardrailCaller calls the tools of guardrails.
type GuardrailCaller struct {
	Upstream string // origin of the tools' API; "" for the server in its OpenAPI document
	Chat     bool   // the guardrails are on model traffic, so the operator can set Upstream
	Logger   *zap.Logger
}

// GuardrailText is the text that a guardrail checks.
type GuardrailText struct {
	Input  string // to the model
	Output string // of the model; "" for an input guardrail
}

// Check calls the tool of the guardrail of binding's agent, and evaluates the guardrail's
// assertion over its output. The error is a *engagement.Refusal if the assertion does not hold or
// the tool cannot be called.
func (c *GuardrailCaller) Check(ctx context.Context, guard *oagent.Guard, binding oagent.Binding, names *Names, side engagement.Side, text GuardrailText) error {
	if binding.Agent.GuardrailsLogOnly {
		c.try(ctx, guard, binding, names, side, text)
		return nil
	}
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

// maxTrial is how long a guardrail in log only may take.
const maxTrial = 2 * time.Second

// try is Check for a guardrail in log only: it refuses nothing, and reports what the guardrail would have done.
func (c *GuardrailCaller) try(ctx context.Context, guard *oagent.Guard, binding oagent.Binding, names *Names, side engagement.Side, text GuardrailText) {
	agent, guardrail := binding.Agent.Name, binding.Agent.Guardrail(side)
	ctx, cancel := context.WithTimeout(ctx, maxTrial)
	defer cancel()
	op := names.Find(guardrail.Tool)
	ctx, span := beginSpan(ctx, op)
	defer span.End()
	var would logonly.Would
	outputs, err := c.invoke(ctx, op, side, text)
	if err == nil {
		would, err = guard.TryGuardrail(ctx, binding, side, outputs)
	}
	switch {
	case err != nil:
		route.ReportIncomplete(c.Logger, agent, guardrail.Assertion.Rule, err.Error())
	case would.Effect != "":
		route.ReportWould(ctx, agent, would)
		c.Logger.Info("a text passed that "+would.String(), zap.String("agent", agent), zap.String("rule", would.Rule), zap.String("reason", would.Why))
	}
}

// CheckTool reports why an operation cannot be the tool of a guardrail; nil if it can.
func (c *GuardrailCaller) CheckTool(op *Operation, side engagement.Side) error {
	if _, err := argumentsOf(op.Tool, side); err != nil {
		return err
	}
	_, err := c.invoker(op)
	return err
}

// argumentsOf returns how the text is passed to the tool.
func argumentsOf(tool *tools.Tool, side engagement.Side) (textArguments, error) {
	if side == engagement.SideOutput {
		return outputArguments(tool)
	}
	return inputArguments(tool)
}

// invoke sends the tool call directly to the tool's API. It cannot use the next handlers,
// because they lead to the model API.
func (c *GuardrailCaller) invoke(ctx context.Context, op *Operation, side engagement.Side, text GuardrailText) (jsontext.Value, error) {
	if op == nil {
		return nil, errors.New("its toolset is not loaded")
	}
	toolset := op.Toolset.Filled(op.Set)
	t, ok := toolset.Tool(op.Tool.Name)
	if !ok {
		return nil, errors.New("an inspector of its toolset withholds it")
	}
	arguments, err := argumentsOf(t, side)
	if err != nil {
		return nil, err
	}
	invoker, err := c.invoker(op)
	if err != nil {
		return nil, err
	}
	outcome := tools.Execute(ctx, toolset, t.Name, arguments.JSON(text.Input, text.Output), resolving{invoker})
	defer outcome.Release()
	calltrace.FromContext(ctx).Ended(t.Name, outcome.Name())
	if outcome.Failure != nil {
		route.ConcealCredentials(ctx, outcome.Failure, op.Toolset.Credentials)
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
func outputOf(op *Operation, result *tools.Result) (jsontext.Value, error) {
	body := result.Body
	switch {
	case result.MediaType() == "text/html" && !slices.Contains(op.Tool.Output.MediaTypes, "text/html"):
		return nil, errHTML
	case len(body) == 0:
		return jsontext.Value("null"), nil
	case strictjson.Check(body) == nil:
		return append(jsontext.Value(nil), body...), nil
	case op.ReturnsJSON():
		return nil, errNotJSON
	case utf8.Valid(body):
		return strictjson.AppendString(nil, body), nil
	}
	return nil, errNotText
}

// invoker returns the client for calls to the API of a toolset. It uses the credentials that
// the gateway has for the API, and none of the caller's.
func (c *GuardrailCaller) invoker(op *Operation) (*tools.HTTPInvoker, error) {
	origin := cmp.Or(c.Upstream, op.Set.Origin)
	if origin == "" {
		hint := "add servers to the document, for example with an overlay"
		if c.Chat {
			hint = "set upstream in the chat block"
		}
		return nil, fmt.Errorf("the OpenAPI document of toolset %s has no server with an absolute URL: %s", op.Toolset.Name, hint)
	}
	invoker, err := tools.NewHTTPInvoker(origin)
	if err != nil {
		return nil, err
	}
	invoker.MaxResponse = op.Toolset.Limits.MaxResponse
	invoker.Client.Timeout = max(op.Toolset.Limits.Timeout, 0)
	invoker.Client.Transport = withCredentials{op.Toolset.Credentials}
	return invoker, nil
}

// resolving is a tools.Invoker that sets fixed values with placeholders. There is no request of a caller, so
// that only placeholders such as {env.…} have a value.
type resolving struct{ *tools.HTTPInvoker }

// Invoke implements tools.Invoker.
func (i resolving) Invoke(ctx context.Context, call *tools.Call) (*tools.Result, error) {
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

// beginSpan starts the span of the call of a guardrail's tool. It is nil if the text that is checked belongs to
// no trace.
func beginSpan(ctx context.Context, op *Operation) (context.Context, *calltrace.Call) {
	if op == nil || !calltrace.Active(ctx) {
		return ctx, nil
	}
	return calltrace.Begin(ctx, op.Tool.Name)
}

// traceDecision adds to the span what the guardrail has decided.
func traceDecision(ctx context.Context, agent string, err error) {
	if calltrace.FromContext(ctx) == nil {
		return
	}
	decision, rule := "allowed", ""
	if refusal, ok := engagement.AsRefusal(err); ok {
		decision, rule = string(refusal.Kind), refusal.Rule
	} else if err != nil {
		decision = string(tools.Internal)
	}
	calltrace.Decision(ctx, calltrace.EventDecision, agent, decision, rule)
}

// invokeTraced sends the request of the call with a span of its own.
func (i resolving) invokeTraced(ctx context.Context, call *tools.Call) (*tools.Result, error) {
	ctx, span := calltrace.BeginClientRequest(ctx, call.Tool.Plan.Method, call.Tool.Plan.Path)
	result, err := i.HTTPInvoker.Invoke(ctx, call)
	status, failed := 0, ""
	if failure, ok := errors.AsType[*tools.Failure](err); ok {
		failed = string(failure.Kind)
	} else if err != nil {
		failed = string(tools.Internal)
	} else {
		status = result.Status
	}
	calltrace.EndRequest(span, status, failed)
	return result, err
}
