package route

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/fairwayhq/fairway/caddymodule/internal/metrics"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/callid"
	"github.com/fairwayhq/fairway/tools/inspect"
	"github.com/fairwayhq/fairway/tools/logonly"
	"github.com/fairwayhq/fairway/tools/result"
)

// Caller is the tools.Caller of one incoming request. It runs the request's tool calls through
// the handler chain and records them in the metrics, in the request's access log entry and in
// its placeholders.
type Caller struct {
	dispatch
	tools    *tools.Toolset
	part     *Part          // whose limits and metrics the calls have
	own      *tools.Toolset // toolset of part, if tools combines several
	calls    *RequestCalls
	only     RequestCalls        // storage for calls, if they belong to this caller alone
	isMerged bool                // the tools are those of all parts of the endpoint, and there are several
	CallID   string              // the client's id of the call, for repeating it; "" if there is none
	Agent    string              // name of the hosted agent that makes the calls; "" if a client does
	Conceal  func(string) string // removes the secrets that came with the call from a text; nil if there are none
}

// init sets the fields of a zero Caller.
func (c *Caller) init(e *Endpoint, part *Part, next caddyhttp.Handler, r *http.Request, set *tools.Toolset, calls *RequestCalls) {
	c.dispatch.init(next, r, e, part.Toolset)
	c.part, c.tools, c.calls = part, set, calls
	c.isMerged = part == e.Parts.whole && len(e.Parts.All) > 1
}

// begin sets the {http.tool.*} placeholders and the log fields of the client's request.
func (c *Caller) begin() {
	if c.client.repl != nil {
		for _, name := range toolPlaceholders {
			c.client.repl.Delete(name) // an earlier endpoint may have set it
		}
		c.client.repl.Map(c.placeholder)
	}
	c.calls.Begin(AccessLogFields(c.client.Request), c.toolset, c.protocol)
}

// AccessLogFields returns the fields of the request's access log entry, nil if the server
// writes none.
func AccessLogFields(r *http.Request) *caddyhttp.ExtraLogFields {
	if server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok && server.Logs == nil {
		return nil
	}
	fields, _ := r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields)
	return fields
}

// placeholder returns the {http.tool.*} placeholders of the request. If a request calls several
// tools, name and outcome are those of the latest call.
func (c *Caller) placeholder(key string) (any, bool) {
	toolset, name, outcome := c.calls.latest()
	if key == PlaceholderOutcome {
		return outcome, true
	}
	toolset = cmp.Or(toolset, c.toolset)
	return toolPlaceholder(key, name, toolset, c.protocol)
}

// PlaceholderOutcome is the placeholder for the outcome of a call.
const PlaceholderOutcome = "http.tool.outcome"

// Call runs the tool and records its outcome.
func (c *Caller) Call(ctx context.Context, tool string, arguments []byte) tools.Outcome {
	return c.read(ctx, tool, arguments, nil)
}

// read reads the arguments of a call, which is known if they were read before, and runs it.
func (c *Caller) read(ctx context.Context, tool string, arguments []byte, known *tools.Call) tools.Outcome {
	if c.isMerged {
		if called, ok := c.tools.Tool(tool); ok {
			return c.callPart(ctx, called, arguments, known)
		}
	}
	return c.callPrepared(ctx, c.tools, c.readArguments(c.tools, tool, arguments, known))
}

// callPart runs a tool of an endpoint that serves several toolsets. The call has the limits and the
// credentials of the tool's own toolset. Handlers after the endpoint, metrics and logs see it as a call of that toolset.
func (c *Caller) callPart(ctx context.Context, called *tools.Tool, arguments []byte, known *tools.Call) tools.Outcome {
	part, own := c.partOf(called)
	if part == c.part {
		return c.callPrepared(ctx, c.tools, c.readArguments(c.tools, called.Name, arguments, known))
	}
	d := c.dispatch
	d.serve(part.Toolset)
	p := &Caller{dispatch: d, tools: c.tools, own: c.tools.PartOf(called), part: part, calls: c.calls, CallID: c.CallID, Agent: c.Agent, Conceal: c.Conceal}
	outcome := p.callPrepared(ctx, p.own, p.readArguments(p.own, own.Name, arguments, known))
	if outcome.Tool == own {
		outcome.Tool = called
	}
	return outcome
}

// partOf returns the part of the endpoint that a tool belongs to, and the tool of that part. For built-in
// tools, and for endpoints with one toolset, these are the part of the caller and the same tool.
func (c *Caller) partOf(t *tools.Tool) (*Part, *tools.Tool) {
	if part, own := c.tools.Original(t); part >= 0 {
		return c.endpoint.Parts.All[part], own
	}
	return c.part, t
}

// Prepare implements tools.PreparingCaller. A panic, for example of the schema validator, fails this call only, as a panic in a
// handler does.
func (c *Caller) Prepare(tool string, arguments []byte) tools.Prepared {
	p := c.readArguments(c.tools, tool, arguments, nil)
	p.Resumes = c.part.IsAgents() && c.CallID != "" // the id of the run is made from CallID
	if p.Tool == nil || !c.isMerged && c.part.Toolset.Allow == nil {
		return p
	}
	if part, own := c.partOf(p.Tool); part.Toolset.Allow != nil {
		read := c.readArguments(c.tools.PartOf(p.Tool), own.Name, p.Arguments, p.Call())
		if call := read.Call(); call != nil {
			p.Refusal, _ = errors.AsType[*tools.Failure](checkRule(part.Toolset, c.client.Request, call, c.logger))
		}
	}
	return p
}

// readArguments reads the arguments of a call, which is known if it was read before.
func (c *Caller) readArguments(set *tools.Toolset, name string, arguments []byte, known *tools.Call) (p tools.Prepared) {
	defer func() {
		if value := recover(); value != nil {
			p = tools.Unprepared(name, arguments, c.panicFailure("the call", &PanicError{Value: value, Stack: debug.Stack()}))
		}
	}()
	if uploads := c.endpoint.uploads; uploads != nil && (known != nil && known.Files != nil || uploads.Names(arguments)) {
		t, _ := set.Tool(name)
		return uploads.Read(UploaderOf(c), newInspection(c.client.Context(), &c.dispatch, t), known, set, name, arguments)
	}
	return tools.Prepare(set, name, arguments)
}

// CallPrepared implements tools.PreparingCaller.
func (c *Caller) CallPrepared(ctx context.Context, p tools.Prepared) tools.Outcome {
	if c.isMerged {
		return c.read(ctx, p.Name, p.Arguments, p.Call())
	}
	return c.callPrepared(ctx, c.tools, p)
}

// callPrepared runs a tool of a toolset and records the outcome. Inspectors and the log of calls get the arguments as the tool reads them.
func (c *Caller) callPrepared(ctx context.Context, set *tools.Toolset, p tools.Prepared) tools.Outcome {
	run := callRun{caller: c, set: set}
	if c.inspectors != nil || c.logOnly.Inspect != nil {
		c.agent = c.Agent
		t, _ := set.Tool(p.Name)
		var passed []byte
		i := newInspection(ctx, &c.dispatch, t)
		if ctx, passed = i.arguments(ctx, p.Name, p.Arguments); !bytes.Equal(passed, p.Arguments) {
			p = c.readArguments(set, p.Name, passed, p.Call())
		}
		p.Started, run.would = time.Now(), cmp.Or(i.Would, wouldOfFiles(p.Call()))
	}
	run.call = p
	var outcome tools.Outcome
	recorder := c.endpoint.calls.Active()
	if recorder == nil && (c.logOnly.Allow != nil || c.logOnly.Inspect != nil) {
		recorder = unkept{}
	}
	if recorder == nil {
		outcome = run.run(ctx)
		c.conceal(&outcome)
	} else {
		outcome = run.logged(ctx, recorder)
	}
	outcome.ID = p.ID
	if outcome.AwaitsAccount(ctx) {
		return outcome
	}
	addID(&outcome)
	c.part.metrics.Observe(nameOf(outcome.Tool), outcome.Name(), outcome.Duration)
	if callers := c.part.callers; callers != nil {
		observeCaller(callers, c, &outcome)
	}
	c.calls.record(p.ID, c.toolset, outcome.Tool, outcome.Name())
	tellListener(c.client.Request, outcome.Name(), &outcome)
	if entry := c.logger.Check(zapcore.DebugLevel, "tool call"); entry != nil {
		entry.Write(outcomeFields(p.Name, c.toolset, c.protocol, &outcome)...)
	}
	return outcome
}

// addID adds the id of a call to the message of a failure that only the operator can explain.
func addID(outcome *tools.Outcome) {
	f := outcome.Failure
	if f == nil {
		return
	}
	switch f.Kind {
	case tools.Restricted:
		if f.Status < http.StatusInternalServerError {
			return
		}
	case tools.Internal, tools.Failed, tools.Unreachable, tools.Unanswered, tools.Unreadable:
	default:
		return
	}
	f.Message += callid.ForOperator(outcome.ID)
}

// observeCaller counts a call by who made it.
func observeCaller(of *metrics.Callers, c *Caller, outcome *tools.Outcome) {
	call := metrics.CallBy{
		User: UserOf(c.client.Request), Agent: c.Agent, Toolset: c.toolset, Tool: nameOf(outcome.Tool), Outcome: outcome.Name(), Duration: outcome.Duration,
	}
	if outcome.Result != nil {
		call.Size = len(outcome.Result.Body)
	}
	of.Observe(&call)
}

// nameOf returns the name of a tool, or "" for nil.
func nameOf(tool *tools.Tool) string {
	if tool == nil {
		return ""
	}
	return tool.Name
}

// conceal removes the secrets that came with the call from the message of a failure.
func (c *Caller) conceal(outcome *tools.Outcome) {
	if c.Conceal != nil && outcome.Failure != nil {
		outcome.Failure.Message = c.Conceal(outcome.Failure.Message)
	}
}

// A callRun runs one tool of a toolset.
type callRun struct {
	caller *Caller
	set    *tools.Toolset
	call   tools.Prepared // no pointer, which would escape with caller
	would  logonly.Would  // what inspectors in log only would have done to the arguments
}

// run runs the tool, in a span if the site has tracing.
func (r callRun) run(ctx context.Context) tools.Outcome {
	if r.caller.traced {
		return r.traced(ctx)
	}
	return r.execute(ctx)
}

// RecordCall records a call that an adapter handled without running it, and returns its id. It implements
// tools.CallRecorder.
func (c *Caller) RecordCall(tool *tools.Tool, outcome, reason string) callid.ID {
	part, toolset := c.part, c.toolset
	if tool != nil && c.isMerged {
		part, tool = c.partOf(tool)
		toolset = part.Toolset.Name
	}
	if part.Toolset.Inspect != nil && outcome == string(tools.InvalidArguments) && part.Toolset.Inspect.Has(inspect.Arguments) {
		reason = "" // the inspectors have not seen the arguments, which it can quote
	}
	part.metrics.Count(nameOf(tool), outcome)
	id := callid.New()
	c.calls.record(id, toolset, tool, outcome)
	if recorder := c.endpoint.calls.Active(); recorder != nil {
		call := c.loggedCall(id, toolset, tool, outcome)
		call.Reason = reason
		if c.Conceal != nil {
			call.Reason = c.Conceal(reason)
		}
		recorder.Record(call, nil, nil)
	}
	tellListener(c.client.Request, outcome, nil)
	return id
}

// AmendCall replaces the recorded outcome of the latest call. It implements tools.CallRecorder.
func (c *Caller) AmendCall(outcome string) {
	c.calls.amend(outcome)
}

// execute runs the tool. A panic fails this call only, as a panic in a handler does.
func (r callRun) execute(ctx context.Context) (outcome tools.Outcome) {
	defer func() {
		if value := recover(); value != nil {
			outcome = tools.Outcome{Failure: r.caller.panicFailure("the call", &PanicError{Value: value, Stack: debug.Stack()})}
		}
	}()
	if r.caller.inspectors != nil {
		if outcome, rejected := rejectedOutcome(ctx, r.set, r.call.Name); rejected {
			return outcome
		}
	}
	outcome = r.call.Execute(ctx, r.caller)
	if outcome.Failure != nil && outcome.Failure.Edited != nil {
		r.edited(ctx, &outcome)
	}
	if outcome.Result != nil && outcome.Result.Changed != "" {
		noteChanged(&outcome)
	}
	if r.caller.inspectors != nil {
		hideValues(ctx, r.call.Name, &outcome)
	}
	return outcome
}

// Invoke runs a built-in tool. It sends the calls of all other tools through the handler chain.
func (c *Caller) Invoke(ctx context.Context, call *tools.Call) (*tools.Result, error) {
	switch call.Tool.Builtin {
	case "":
		if toolset := c.part.Toolset; toolset.Allow != nil {
			logger := c.logger
			if c.inspectors != nil && ReviewOf(ctx) != nil {
				logger = zap.NewNop() // the reason can quote arguments
			}
			if err := checkRule(toolset, c.client.Request, call, logger); err != nil {
				return nil, err
			}
		}
		if c.logOnly.Allow != nil {
			tryRule(ctx, c, call)
		}
		return c.invokeTool(ctx, call)
	case tools.SearchTools:
		return RunSearch(c.tools, call, c.endpoint.allowed(c.client.Request, c.tools)), nil
	case tools.DescribeTools:
		return RunDescribe(c.tools, call, c.endpoint.Access(c.client.Request), c.endpoint.hides), nil
	case tools.NextPage:
		return c.pager().nextPage(ctx, call)
	case tools.CreateUpload:
		return c.endpoint.uploads.Create(ctx, UploaderOf(c), c.tools, call)
	}
	return nil, &tools.Failure{Kind: tools.InvalidArguments, Message: "this endpoint calls tools by their own names: call the tool itself instead of " + call.Tool.Name}
}

// outcomeFields returns the fields of the debug log line of a call.
func outcomeFields(tool, toolset, protocol string, outcome *tools.Outcome) []zap.Field {
	const longestName = 128 // bytes; the client chooses the name
	fields := []zap.Field{
		zap.String("tool", tool[:min(len(tool), longestName)]),
		zap.String("toolset", toolset),
		zap.String("protocol", protocol),
		zap.String("outcome", outcome.Name()),
		zap.String("call", outcome.ID.String()),
		zap.Duration("duration", outcome.Duration),
	}
	if outcome.Result != nil {
		fields = append(fields, zap.Int("status", outcome.Result.Status), zap.Int("size", len(outcome.Result.Body)))
	}
	if outcome.Failure != nil {
		fields = append(fields, zap.String("message", outcome.Failure.Message))
	}
	return fields
}

// EndedCall is a tool call of a client's request that has ended.
type EndedCall struct {
	// Name is the name of the outcome, as in logs.
	Name string

	// Trace is the id of the trace that the request belongs to, "" if there is none.
	Trace string

	// Outcome is what the Caller returned. Its result is valid until the listener returns. It is nil if the adapter ended
	// the call without the Caller; the reason is only in the response then.
	Outcome *tools.Outcome
}

// callListenerKey is the context key of ContextWithCallListener.
type callListenerKey struct{}

// ContextWithCallListener returns a context for a client's request. Listener is called with each of its
// tool calls when it ends.
func ContextWithCallListener(ctx context.Context, listener func(EndedCall)) context.Context {
	return context.WithValue(ctx, callListenerKey{}, listener)
}

// tellListener calls the listener of a client's request, if it has one.
func tellListener(r *http.Request, name string, outcome *tools.Outcome) {
	if listener, ok := r.Context().Value(callListenerKey{}).(func(EndedCall)); ok {
		listener(EndedCall{name, traceID(r), outcome})
	}
}

// Interface guards
var (
	_ tools.PreparingCaller = (*Caller)(nil)
	_ tools.Caller          = (*Caller)(nil)
	_ tools.CallRecorder    = (*Caller)(nil)
	_ tools.Invoker         = (*Caller)(nil)
)

// maxLoggedCalls limits how many calls the access log entry of one request lists. A batch has
// at most this many. For a stream with more, the entry lists the first ones and the total
// number.
const maxLoggedCalls = 64

// RequestCalls holds what the access log entry and the placeholders of one client request
// report about its tool calls. A request carries one call, or several if it is a batch or a
// stream. The zero value reports to the placeholders only.
type RequestCalls struct {
	mu      sync.Mutex
	fields  *caddyhttp.ExtraLogFields // nil if the server writes no access log, or after end
	toolset string                    // of the latest call; of the endpoint before the first one
	tool    string                    // of the latest call; "" before the first one
	outcome string                    // of the latest call
	count   int
	logged  []string // "tool outcome" for the first maxLoggedCalls, if there are several
}

// Begin sets the fields that all calls of the request share. Fields is nil if the server
// writes no access log.
func (c *RequestCalls) Begin(fields *caddyhttp.ExtraLogFields, toolset, protocol string) {
	c.toolset = toolset
	c.fields = fields
	if fields != nil {
		fields.Set(zap.String("toolset", toolset))
		fields.Set(zap.String("protocol", protocol))
	}
}

// record adds a call of a tool of the toolset. Tool is nil if the client named a tool that does not
// exist.
func (c *RequestCalls) record(id callid.ID, toolset string, tool *tools.Tool, outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if toolset != c.toolset {
		c.toolset = toolset
		if c.fields != nil {
			c.fields.Set(zap.String("toolset", toolset))
		}
	}
	if c.count == 1 && c.fields != nil {
		c.logged = append(c.logged, c.tool+" "+c.outcome)
	}
	c.count++
	c.tool, c.outcome = "", outcome
	if tool != nil {
		c.tool = tool.Name
	}
	if c.fields == nil {
		return
	}
	if c.count > 1 && c.count <= maxLoggedCalls {
		c.logged = append(c.logged, c.tool+" "+outcome)
	}
	c.fields.Set(zap.String("call", id.String()))
	if tool != nil || c.count > 1 { // in a batch, overwrite the tool of the previous call
		c.fields.Set(zap.String("tool", c.tool))
	}
	c.write()
}

// amend replaces the outcome of the latest call.
func (c *RequestCalls) amend(outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outcome = outcome
	if c.fields == nil {
		return
	}
	if c.count > 1 && c.count <= maxLoggedCalls {
		c.logged[c.count-1] = c.tool + " " + outcome
	}
	c.write()
}

// write sets the fields that change with each call.
func (c *RequestCalls) write() {
	c.fields.Set(zap.String("outcome", c.outcome))
	if c.count > 1 {
		c.fields.Set(zap.Int("tool_call_count", c.count))
		c.fields.Set(zap.Strings("tool_calls", c.logged))
	}
}

// End stops writing to the access log entry, which is about to be written.
func (c *RequestCalls) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fields = nil
}

// latest returns the toolset, the tool and the outcome of the latest call.
func (c *RequestCalls) latest() (toolset, tool, outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.toolset, c.tool, c.outcome
}

// invokeTool sends a call through the handler chain and shortens the response.
func (c *Caller) invokeTool(ctx context.Context, call *tools.Call) (*tools.Result, error) {
	var fields *result.Fields
	if call.Tool.Output.Fields {
		var err error
		if fields, err = requestedFields(call); err != nil {
			return nil, err
		}
	}
	response, err := c.send(ctx, call)
	if err != nil || len(response.Body) == 0 || response.Status < http.StatusOK || response.Status >= http.StatusMultipleChoices {
		return response, err
	}
	limit := c.part.maxBytes(call.Tool)
	if call.Tool.Foreign != nil {
		isShaped := call.Tool.Output.Select != nil || fields != nil || limit > 0 && len(response.Body) > limit && !tools.WantsWholeResponse(ctx)
		if err := unwrap(ctx, call.Tool, response, isShaped); err != nil || response.MediaType() == result.NativeType {
			return response, err
		}
	}
	if c.endpoint.uploads != nil && tools.PurposeOf(ctx) == tools.ForResult {
		c.endpoint.uploads.Link(ctx, UploaderOf(c), response)
	}
	if query := call.Tool.Output.Select; query != nil {
		if err := c.selectParts(ctx, call.Tool, query, response); err != nil {
			response.Release()
			return nil, err
		}
	}
	if fields != nil {
		keepFields(fields, response)
	}
	if limit > 0 && len(response.Body) > limit {
		c.pager().cut(ctx, call.Tool, response, limit)
	}
	return response, nil
}

// send sends a call through the handler chain. If the endpoint polls, send waits for the end of work that
// a 202 announces.
func (c *Caller) send(ctx context.Context, call *tools.Call) (*tools.Result, error) {
	if c.part.agentWait > 0 {
		return c.callAgent(ctx, call)
	}
	if c.endpoint.Polling > 0 {
		return (&poller{caller: c, call: call}).invoke(ctx)
	}
	return c.dispatch.Invoke(ctx, call)
}

// maxBytes returns the largest response of the tool in bytes, 0 for no limit.
func (p *Part) maxBytes(t *tools.Tool) int {
	tokens := cmp.Or(t.Output.MaxTokens, p.maxTokens)
	return max(tokens, 0) * result.BytesPerToken
}
