package mcpadapter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/internal/task"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/store/lease"
	"github.com/fairwayhq/fairway/tools"
)

// maxAttempts is the maximum number of attempts of tasks that one server runs at once. At the limit,
// new calls do not become tasks, and calls of existing tasks are resumed later.
const maxAttempts = 4096

// attempts are the running attempts of a server.
type attempts struct {
	count       atomic.Int64
	supervising sync.WaitGroup  // those whose outcome is recorded when they end
	calling     context.Context // ends when they are interrupted
	interrupt   context.CancelFunc
}

// callAsTask serves a tools/call that may become a task. It returns served = false if the call cannot
// become a task and must be served as an ordinary call:
//
//   - In 2026-07-28 the server decides. A client that supports tasks gets one if the call lasts longer
//     than TaskOptions.After, or if the call waits for the API, an agent or a reviewer.
//   - In 2025-11-25 the client requests a task with the parameter task, and gets one at once.
func callAsTask(q *request, c *toolCall, w *response) (served bool, f *protocol.Fault) {
	if c.callable == nil {
		return false, nil
	}
	support := c.callable.Task
	switch {
	case q.version.SupportsTaskParameter():
		requested := strictjson.MemberOf(q.params.raw, "task")
		switch {
		case requested == nil && support == library.TaskRequired:
			return true, protocol.Faultf(http.StatusOK, protocol.MethodNotFound, "%s is a long-running tool: call it as a task, with the parameter task", c.callable.Tool.Name)
		case requested == nil:
			return false, nil
		case requested.Kind() != '{':
			return true, protocol.BadParams("params.task must be an object, not %s", strictjson.KindName(requested.Kind()))
		case support == library.TaskForbidden:
			return true, protocol.Faultf(http.StatusOK, protocol.MethodNotFound, "%s cannot be called as a task: call it without the parameter task", c.callable.Tool.Name)
		}
		if f := c.checkScopes(); f != nil {
			return true, f
		}
		return true, taskMaker{q, w}.create(c, taskTTL(strictjson.MemberOf(requested, "ttl")))
	case !q.version.SupportsExtensions() || support == library.TaskForbidden:
		return false, nil
	case q.capabilities.Has(protocol.CanTask):
		return true, taskMaker{q, w}.callOrCreate(c)
	case support == library.TaskRequired:
		return true, missingTasks()
	}
	return false, nil
}

// taskTTL reads the lifetime that a client requests, in milliseconds. It is 0 if there is none.
func taskTTL(raw jsontext.Value) time.Duration {
	ms, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || ms <= 0 || ms > float64(task.DefaultTTL.Milliseconds())*1e4 {
		return 0
	}
	return max(time.Duration(ms)*time.Millisecond, minTaskTTL)
}

// minTaskTTL is the shortest lifetime of a task that a client can choose.
const minTaskTTL = 10 * time.Second

// missingTasks returns the fault for a request that needs tasks, of a client that does not support them
// (SEP-2663, Capability Negotiation).
func missingTasks() *protocol.Fault {
	f := protocol.Faultf(http.StatusBadRequest, protocol.MissingClientCapability,
		"this request needs the extension %s, which the client has not declared in _meta[%q]", protocol.TasksExtension, protocol.MetaCapabilities)
	f.Data = []byte(`{"requiredCapabilities":{"extensions":{"` + protocol.TasksExtension + `":{}}}}`)
	return f
}

// A taskMaker makes a task of a call for a request.
type taskMaker struct {
	request  *request
	response *response
}

// callOrCreate makes a call. If it ends within TaskOptions.After, callOrCreate writes its result;
// otherwise the call becomes a task.
func (m taskMaker) callOrCreate(c *toolCall) *protocol.Fault {
	a, server := newAttempt(c, tools.LongRunning{}), c.server
	a.start()
	select {
	case <-a.done:
	case <-time.After(server.options.Tasks.After):
		r, err := m.record(a, true, 0)
		if err == nil {
			a.stopNotifications()
			select {
			case <-a.done: // has recorded its outcome
			default:
				tools.RecordCall(c.caller, c.callable.Tool, tools.OutcomePending, "")
			}
			server.attempts.supervising.Go(func() { a.supervise(c.site.taskOwner(), r) })
			m.response.createdTask(r)
			return nil
		}
		server.reportTaskError(err)
		select { // without a task, the client waits for the end of the call
		case <-a.done:
		case <-c.ctx.Done():
		}
	case <-c.ctx.Done():
	}
	a.cancel() // the call has ended, or the client has disconnected
	<-a.done
	a.stopNotifications()
	if o, ok := c.caller.(*observedCaller); ok {
		o.tool, o.outcome = a.observed.tool, a.observed.outcome
	}
	switch {
	case a.pending != nil && c.ctx.Err() != nil:
		return nil
	case a.pending != nil:
		r, err := m.record(a, false, 0)
		if err != nil {
			server.reportTaskError(err)
			return protocol.Faultf(http.StatusOK, protocol.InternalError, "%s was started, but its task could not be recorded, so its result cannot be retrieved: check the current state before you repeat the call", c.callable.Tool.Name)
		}
		if a.awaitsAccount { // other calls that are pending are recorded
			tools.RecordCall(c.caller, c.callable.Tool, tools.OutcomePending, "")
		}
		m.response.createdTask(r)
	case a.fault != nil:
		return a.fault
	case a.inputRequired != nil:
		m.response.inputRequired(a.inputRequired)
	default:
		m.response.out.B = append(append(m.response.begin(), a.result[1:]...), '}')
	}
	return nil
}

// create makes a call as a task.
func (m taskMaker) create(c *toolCall, ttl time.Duration) *protocol.Fault {
	a := newAttempt(c, tools.LongRunning{})
	a.startOwnSpan()
	r, err := m.record(a, true, ttl)
	if err != nil {
		a.cancel()
		return c.server.taskFault(err)
	}
	tools.RecordCall(c.caller, c.callable.Tool, tools.OutcomePending, "")
	a.start()
	c.server.attempts.supervising.Go(func() { a.supervise(c.site.taskOwner(), r) })
	m.response.createdTask(r)
	return nil
}

// record stores a new task for the attempt, which runs or has returned that the call is pending.
func (m taskMaker) record(a *attempt, runs bool, ttl time.Duration) (*task.Record, error) {
	c := &a.call
	if len(c.arguments) > task.MaxArguments {
		return nil, task.ErrTooLarge
	}
	if c.server.attempts.count.Load() > maxAttempts {
		return nil, task.ErrFull
	}
	sealer, f := c.server.taskSealer(m.request.ctx)
	if f != nil {
		return nil, errors.New(f.Message)
	}
	r := &task.Record{
		Revision: c.version.String(), Status: task.Working, Tool: c.callable.Tool.Name, Meta: c.meta, Client: uint16(c.capabilities),
		Inputs:     task.Inputs{Responses: strictjson.MemberOf(c.params, "inputResponses").Clone(), State: strictjson.Text(strictjson.MemberOf(c.params, "requestState"))},
		Repeatable: c.callable.Tool.Idempotent(), Trace: calltrace.Parent(m.request.ctx), Arguments: sealer.Seal(c.arguments, sealedArguments),
	}
	if runs {
		c.server.tasks.Terms.Take(&r.Lease)
	} else {
		a.applyTo(r)
	}
	return r, c.server.tasks.Create(m.request.ctx, c.site.taskOwner(), m.request.owner(c.site), r, ttl)
}

// sealedArguments is the purpose for which the arguments of tasks are sealed.
const sealedArguments = "arguments of a task"

// An attempt makes the call of a task, or polls once for its outcome. It uses the credentials of the
// request that started it, and may outlive that request: of the request, it has only the call.
type attempt struct {
	call     toolCall
	observed observedCaller // caller of the call, if the request is observed
	borrowed *borrowedChannel
	cancel   context.CancelFunc
	done     chan struct{} // closed when the attempt has ended

	awaitsAccount bool // whether it is pending because the user has not connected an account

	// The result of the attempt. Exactly one of these fields is set.
	fault         *protocol.Fault
	inputRequired []byte // members of a result of the type input_required
	pending       *tools.Pending
	result        jsontext.Value
}

// newAttempt returns an attempt of the call c. It copies what c shares with its request.
func newAttempt(c *toolCall, longRunning tools.LongRunning) *attempt {
	a := &attempt{done: make(chan struct{}), borrowed: &borrowedChannel{out: c.events.channel}}
	ctx, cancel := context.WithCancel(tools.ContextWithLongRunning(context.WithoutCancel(c.ctx), longRunning))
	stop := context.AfterFunc(c.server.attempts.calling, cancel)
	a.cancel = func() { stop(); cancel() }
	params := c.params.Clone() // the buffer of the request is reused
	a.call = toolCall{
		scope: c.scope, ctx: ctx, caller: c.caller, params: params, meta: strictjson.MemberOf(params, "_meta"),
		method: c.method, target: c.target, callable: c.callable, arguments: c.arguments, isTask: true,
	}
	a.call.events.call = &a.call
	if c.events.channel != nil {
		a.call.events.channel = a.borrowed
	}
	request, observed := c.caller.(*observedCaller)
	if observed {
		a.call.caller = request.Caller
	}
	if c.site.Detach != nil {
		a.call.caller = c.site.Detach(c.tools)
	}
	if observed {
		a.observed = observedCaller{Caller: a.call.caller, span: request.span}
		a.call.caller = &a.observed
	}
	return a
}

// startOwnSpan starts a child span for the attempt. The request ends at once, so its own span cannot
// record the outcome of the call.
func (a *attempt) startOwnSpan() {
	if a.observed.span != nil {
		a.observed.span = nil
		a.call.ctx = calltrace.ContextWithoutCall(a.call.ctx)
	}
}

// start runs the attempt in the background.
func (a *attempt) start() {
	a.call.server.attempts.count.Add(1)
	go func() {
		defer a.call.server.attempts.count.Add(-1)
		defer close(a.done)
		defer func() {
			if value := recover(); value != nil {
				a.call.server.reportTaskError(fmt.Errorf("panic in the call of %s: %v\n%s", a.call.callable.Tool.Name, value, debug.Stack()))
				a.fault = protocol.Faultf(http.StatusOK, protocol.InternalError, "the call of %s failed inside the gateway; its log says why", a.call.callable.Tool.Name)
			}
		}()
		a.run()
	}()
}

// run makes the call.
func (a *attempt) run() {
	r, f := a.call.run()
	if f != nil {
		a.fault = f
		return
	}
	defer r.Release()
	if r.InputRequired != nil {
		a.inputRequired = bytes.Clone(r.InputRequired)
		return
	}
	if a.pending = r.Pending(); a.pending != nil {
		a.awaitsAccount = r.Failure != nil && r.Failure.Connection != nil
		return
	}
	w := response{out: new(buffer.Buffer), id: jsontext.Value("0")}
	w.prepare(&a.call.scope, a.call.meta)
	if a.fault = a.call.answer(&w, r); a.fault == nil {
		a.result = strictjson.MemberOf(w.out.B, "result")
	}
}

// stopNotifications ends the notifications to the request that the attempt was started for.
func (a *attempt) stopNotifications() {
	a.borrowed.mu.Lock()
	defer a.borrowed.mu.Unlock()
	a.borrowed.out = nil
}

// supervise extends the lease of the attempt, cancels the attempt if its task is cancelled, and stores
// the result of the attempt.
func (a *attempt) supervise(owner task.Owner, r *task.Record) {
	defer a.cancel()
	defer time.AfterFunc(time.Until(r.Expires), a.cancel).Stop()
	claim := a.call.server.tasks.Hold(owner, r)
	defer claim.Keep(context.Background(), a.cancel)()
	watching, stop := context.WithCancel(context.Background())
	defer stop()
	go a.watch(watching, owner, r)
	<-a.done
	a.finish(claim)
}

// storePause is the pause after an error of the store.
const storePause = time.Second

// watch ends the attempt if its task is cancelled or gone, at once instead of when its lease is extended.
func (a *attempt) watch(ctx context.Context, owner task.Owner, claimed *task.Record) {
	for r := claimed; ctx.Err() == nil; {
		next, err := a.call.server.tasks.Wait(ctx, owner, r, r.Expires)
		switch {
		case errors.Is(err, task.ErrUnknown), err == nil && next.Lease.Token != claimed.Lease.Token:
			a.cancel()
			return
		case err == nil:
			r = next
		default: // the store failed
			select {
			case <-ctx.Done():
			case <-time.After(storePause):
			}
		}
	}
}

// finish stores the result of the attempt.
func (a *attempt) finish(claim *lease.Claim[*task.Record]) {
	tasks := a.call.server.tasks
	ctx, cancel := context.WithTimeout(context.Background(), tasks.Terms.Duration)
	defer cancel()
	end := func() error {
		return claim.End(ctx, func(r *task.Record, _ *lease.Lease) error {
			a.applyTo(r)
			return nil
		})
	}
	err := tasks.Terms.Repeat(ctx, end)
	if errors.Is(err, task.ErrTooLarge) {
		a.fault, a.inputRequired, a.pending, a.result = protocol.Faultf(http.StatusOK, protocol.InternalError, "the result of %s, or its requests to the client, are larger than a task can store", a.call.callable.Tool.Name), nil, nil, nil
		err = tasks.Terms.Repeat(ctx, end)
	}
	if err != nil && !errors.Is(err, lease.ErrLost) && !errors.Is(err, task.ErrUnknown) {
		a.call.server.reportTaskError(err)
	}
}

// applyTo updates the record of the task with the result of the attempt.
func (a *attempt) applyTo(r *task.Record) {
	r.Message = ""
	stopped := a.call.server.attempts.calling.Err() != nil && a.call.ctx.Err() != nil
	switch {
	case stopped && r.CanRepeat():
		r.Lease.Until = time.Now() // another node can resume the task at once
	case stopped:
		fail(r, protocol.Faultf(http.StatusOK, protocol.InternalError, "the gateway stopped while %s was running: it is unknown whether the call had an effect, so check the current state before you repeat it", r.Tool))
	case a.fault != nil:
		fail(r, a.fault)
	case a.inputRequired != nil:
		requests, state := strictjson.MemberOf(members(a.inputRequired), "inputRequests"), strictjson.Text(strictjson.MemberOf(members(a.inputRequired), "requestState"))
		if len(requests) > len("{}") {
			r.Ask(requests, state)
		} else { // the API only requests another call
			r.State, r.Responses, r.Lease.Until = state, nil, time.Now().Add(task.PollInterval)
		}
	case a.pending != nil:
		r.Handle, r.Message = a.pending.Handle, a.pending.Message
		r.Lease.Until = time.Now().Add(max(a.pending.After, minPollInterval))
	case len(a.result) > task.MaxResult:
		fail(r, protocol.Faultf(http.StatusOK, protocol.InternalError, "the result of %s has %d bytes, and the limit of a task is %d: call it with arguments that request less data", r.Tool, len(a.result), task.MaxResult))
	default:
		r.End(task.Completed, "")
		r.Result, r.IsError = a.result, strictjson.MemberOf(a.result, "isError").Kind() == 't'
	}
}

// minPollInterval is the minimum interval between two polls of a pending call.
const minPollInterval = 500 * time.Millisecond

// members returns the object with these members.
func members(list []byte) jsontext.Value {
	return append(append([]byte{'{'}, list...), '}')
}

// fail ends the task with a JSON-RPC error.
func fail(r *task.Record, f *protocol.Fault) {
	r.End(task.Failed, f.Message)
	r.Error = f.AppendTo(nil)
}

// A borrowedChannel is the channel of a request, which an attempt uses until the response of the
// request is written.
type borrowedChannel struct {
	mu  sync.Mutex
	out protocol.Channel // nil after the response is written
}

// Send implements protocol.Channel.
func (c *borrowedChannel) Send(message []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out == nil {
		return errors.New("the response of the request is already written")
	}
	return c.out.Send(message)
}
