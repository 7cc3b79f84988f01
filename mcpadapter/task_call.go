package mcpadapter

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/admission"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/stream"
	"github.com/fairwayhq/fairway/mcpadapter/internal/task"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// maxAttempts is the maximum number of attempts of tasks that one server runs at once. At the limit,
// new calls do not become tasks, and calls of existing tasks are resumed later.
const maxAttempts = 4096

// callAsTask serves a tools/call that may become a task. It returns served = false if the call cannot
// become a task and must be served as an ordinary call:
//
//   - In 2026-07-28 the server decides. A client that supports tasks gets one if the call lasts longer
//     than TaskOptions.After, or if the call waits for the API, an agent or a reviewer.
//   - In 2025-11-25 the client requests a task with the parameter task, and gets one at once.
func (q toolRequest) callAsTask(i invocation) (served bool, f *jsonrpc.Fault) {
	if i.callable == nil {
		return false, nil
	}
	support := i.callable.Task
	switch {
	case q.version.SupportsTaskParameter():
		requested := wire.MemberOf(q.params.raw, "task")
		switch {
		case requested == nil && support == library.TaskRequired:
			return true, jsonrpc.Faultf(http.StatusOK, jsonrpc.MethodNotFound, "%s is a long-running tool: call it as a task, with the parameter task", i.name)
		case requested == nil:
			return false, nil
		case requested.Kind() != '{':
			return true, jsonrpc.BadParams("params.task must be an object, not %s", wire.KindName(requested.Kind()))
		case support == library.TaskForbidden:
			return true, jsonrpc.Faultf(http.StatusOK, jsonrpc.MethodNotFound, "%s cannot be called as a task: call it without the parameter task", i.name)
		}
		if f := admission.CheckScopes(q.site.Access, i.callable.Tool, q.tools); f != nil {
			tool.RecordCall(q.caller, i.callable.Tool, string(tool.Unauthorized))
			return true, f
		}
		return true, q.createTask(i, taskTTL(wire.MemberOf(requested, "ttl")))
	case !q.version.SupportsExtensions() || support == library.TaskForbidden:
		return false, nil
	case q.client.Has(elicit.CanTask):
		return true, q.callOrTask(i)
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
func missingTasks() *jsonrpc.Fault {
	f := jsonrpc.Faultf(http.StatusBadRequest, jsonrpc.MissingClientCapability,
		"this request needs the extension %s, which the client has not declared in _meta[%q]", elicit.TasksExtension, elicit.MetaCapabilities)
	f.Data = []byte(`{"requiredCapabilities":{"extensions":{"` + elicit.TasksExtension + `":{}}}}`)
	return f
}

// callOrTask makes a call. If it ends within TaskOptions.After, callOrTask writes its result; otherwise
// the call becomes a task.
func (q toolRequest) callOrTask(i invocation) *jsonrpc.Fault {
	a := q.newAttempt(i, tool.LongRunning{}, q.params.raw)
	a.start()
	timer := time.NewTimer(q.server.options.Tasks.After)
	defer timer.Stop()
	select {
	case <-a.done:
	case <-timer.C:
		r, err := q.record(a)
		if err == nil {
			r.Attempt, r.Lease = a.key, time.Now().Add(q.server.tasks.Lease)
			err = q.server.tasks.Create(q.ctx, q.site.taskOwner(), r, 0)
		}
		if err == nil {
			a.stopNotifications()
			select {
			case <-a.done: // has recorded its outcome
			default:
				tool.RecordCall(q.caller, i.callable.Tool, tool.OutcomePending)
			}
			go a.supervise(q.site.taskOwner(), r)
			q.writeCreated(r)
			return nil
		}
		q.server.reportTaskError(err)
		select { // without a task, the client waits for the end of the call
		case <-a.done:
		case <-q.ctx.Done():
		}
	case <-q.ctx.Done():
	}
	a.cancel() // the call has ended, or the client has disconnected
	<-a.done
	a.stopNotifications()
	q.observed.tool, q.observed.outcome = a.observed.tool, a.observed.outcome
	switch {
	case a.pending != nil && q.ctx.Err() != nil:
		return nil
	case a.pending != nil:
		r, err := q.record(a)
		if err == nil {
			a.applyTo(r)
			err = q.server.tasks.Create(q.ctx, q.site.taskOwner(), r, 0)
		}
		if err != nil {
			q.server.reportTaskError(err)
			return jsonrpc.Faultf(http.StatusOK, jsonrpc.InternalError, "%s was started, but its task could not be recorded, so its result cannot be retrieved: check the current state before you repeat the call", i.name)
		}
		q.writeCreated(r)
	case a.fault != nil:
		return a.fault
	case a.inputRequired != nil:
		q.writeInputRequired(reply{Reply: elicit.Reply{InputRequired: a.inputRequired}})
	default:
		b := append(q.beginResult(), a.result[1:]...)
		q.out.B = append(b, '}')
	}
	return nil
}

// createTask makes a call as a task.
func (q toolRequest) createTask(i invocation, ttl time.Duration) *jsonrpc.Fault {
	a := q.newAttempt(i, tool.LongRunning{}, q.params.raw)
	a.startOwnSpan()
	r, err := q.record(a)
	if err == nil {
		r.Attempt, r.Lease = a.key, time.Now().Add(q.server.tasks.Lease)
		err = q.server.tasks.Create(q.ctx, q.site.taskOwner(), r, ttl)
	}
	if err != nil {
		a.cancel()
		return q.server.taskFault(err)
	}
	tool.RecordCall(q.caller, i.callable.Tool, tool.OutcomePending)
	a.start()
	go a.supervise(q.site.taskOwner(), r)
	q.writeCreated(r)
	return nil
}

// record returns the record of a new task.
func (q toolRequest) record(a *attempt) (*task.Record, error) {
	if len(a.call.arguments) > task.MaxArguments {
		return nil, task.ErrTooLarge
	}
	if q.server.attempts.Load() > maxAttempts {
		return nil, task.ErrFull
	}
	r := &task.Record{
		Revision: q.version.String(), Status: task.Working, Tool: a.call.name, Meta: a.params.meta, Client: uint16(q.client),
		Repeatable: a.call.callable.Tool.Idempotent(), Trace: calltrace.Parent(q.ctx),
	}
	r.Arguments = q.server.sealer().Seal(a.call.arguments, sealedArguments)
	return r, nil
}

// sealedArguments is the purpose for which the arguments of tasks are sealed.
const sealedArguments = "arguments of a task"

// An attempt makes the call of a task, or polls once for its outcome. It uses the credentials of the
// request that started it, and may outlive that request.
type attempt struct {
	message     // of its own: nothing in it is shared with the request or reused after it
	key         string
	call        invocation
	longRunning tool.LongRunning
	cancel      context.CancelFunc
	done        chan struct{} // closed when the attempt has ended

	// The result of the attempt. Exactly one of these fields is set.
	fault         *jsonrpc.Fault
	inputRequired []byte // members of a result of the type input_required
	pending       *tool.Pending
	result        jsontext.Value
}

// newAttempt returns an attempt with the credentials of the request m. Raw are the params of the
// client's tools/call.
func (m *message) newAttempt(i invocation, longRunning tool.LongRunning, raw jsontext.Value) *attempt {
	raw = raw.Clone() // the request's buffer is reused
	i.task = true
	a := &attempt{message: *m, key: rand.Text(), call: i, longRunning: longRunning, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(tool.ContextWithLongRunning(context.WithoutCancel(m.ctx), longRunning))
	stop := context.AfterFunc(m.server.asking, cancel)
	a.ctx, a.cancel = ctx, func() { stop(); cancel() }
	a.id, a.params = jsontext.Value("0"), params{raw: raw, meta: wire.MemberOf(raw, "_meta")}
	a.out, a.trailer, a.header, a.batched = new(buffer.Buffer), nil, nil, false
	a.peer = peer{remote: m.remote}
	if m.channel != nil {
		a.channel = &borrowedChannel{out: m.channel}
	}
	if m.site.Detach != nil {
		a.caller = m.site.Detach(m.tools)
	}
	a.detach(m)
	return a
}

// start runs the attempt in the background.
func (a *attempt) start() {
	a.server.attempts.Add(1)
	go func() {
		defer a.server.attempts.Add(-1)
		defer close(a.done)
		defer func() {
			if value := recover(); value != nil {
				a.server.reportTaskError(fmt.Errorf("panic in the call of %s: %v\n%s", a.call.name, value, debug.Stack()))
				a.fault = jsonrpc.Faultf(http.StatusOK, jsonrpc.InternalError, "the call of %s failed inside the gateway; its log says why", a.call.name)
			}
		}()
		a.run()
	}()
}

// run makes the call.
func (a *attempt) run() {
	r, f := a.invoke(a.call)
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
		return
	}
	if a.fault = (toolRequest{&a.message}).answer(a.call.callable, a.call.name, r); a.fault == nil {
		a.result = wire.MemberOf(a.out.B, "result").Clone()
	}
}

// stopNotifications ends the notifications to the request that the attempt was started for.
func (a *attempt) stopNotifications() {
	if borrowed, ok := a.channel.(*borrowedChannel); ok {
		borrowed.release()
	}
}

// supervise renews the lease of the attempt, cancels the attempt if its task is cancelled, and stores
// the result of the attempt.
func (a *attempt) supervise(owner task.Owner, r *task.Record) {
	defer a.cancel()
	tasks := a.server.tasks
	defer time.AfterFunc(time.Until(r.Expires), a.cancel).Stop()
	watching, stop := context.WithCancel(context.Background())
	defer stop()
	go a.watch(watching, owner, r)
	renew := time.NewTicker(tasks.Lease / leaseRenewals)
	defer renew.Stop()
	for {
		select {
		case <-a.done:
			a.finish(owner, r.ID)
			return
		case <-renew.C:
			if _, err := tasks.Change(context.Background(), owner, r.ID, func(r *task.Record) error {
				if r.Attempt != a.key {
					return errLostAttempt
				}
				r.Lease = time.Now().Add(tasks.Lease)
				return nil
			}); err != nil && !errors.Is(err, errLostAttempt) {
				a.server.reportTaskError(err)
			}
		}
	}
}

const (
	leaseRenewals = 3           // of a lease
	storeRetries  = 5           // to store the result of an attempt
	storePause    = time.Second // between them
)

// errLostAttempt means that the task has ended, or that another attempt has replaced this one.
var errLostAttempt = errors.New("the task has ended or has another attempt")

// watch ends the attempt if its task is cancelled or gone.
func (a *attempt) watch(ctx context.Context, owner task.Owner, r *task.Record) {
	for ctx.Err() == nil {
		next, err := a.server.tasks.Wait(ctx, owner, r, r.Expires)
		switch {
		case errors.Is(err, task.ErrUnknown), err == nil && next.Attempt != a.key:
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
func (a *attempt) finish(owner task.Owner, id string) {
	var err error
	for range storeRetries {
		_, err = a.server.tasks.Change(context.Background(), owner, id, func(r *task.Record) error {
			if r.Attempt != a.key {
				return task.ErrUnchanged
			}
			a.applyTo(r)
			return nil
		})
		if err == nil || errors.Is(err, task.ErrUnknown) {
			return
		}
		if errors.Is(err, task.ErrTooLarge) {
			a.fault, a.inputRequired, a.pending, a.result = jsonrpc.Faultf(http.StatusOK, jsonrpc.InternalError, "the result of %s, or its requests to the client, are larger than a task can store", a.call.name), nil, nil, nil
		}
		select {
		case <-a.server.asking.Done(): // the server closes
		case <-time.After(storePause):
		}
	}
	a.server.reportTaskError(err)
}

// applyTo updates the record of the task with the result of the attempt.
func (a *attempt) applyTo(r *task.Record) {
	r.Attempt, r.Lease, r.Next, r.Message = "", time.Time{}, time.Time{}, ""
	stopped := a.server.asking.Err() != nil && a.ctx.Err() != nil
	switch {
	case stopped && r.CanRepeat():
		r.Next = time.Now() // another node can resume the task at once
	case stopped:
		fail(r, jsonrpc.Faultf(http.StatusOK, jsonrpc.InternalError, "the gateway stopped while %s was running: it is unknown whether the call had an effect, so check the current state before you repeat it", r.Tool))
	case a.fault != nil:
		fail(r, a.fault)
	case a.inputRequired != nil:
		requests, state := wire.MemberOf(members(a.inputRequired), "inputRequests"), wire.Text(wire.MemberOf(members(a.inputRequired), "requestState"))
		if len(requests) > len("{}") {
			r.Ask(requests, state)
		} else { // the API only requests another call
			r.State, r.Responses, r.Next = state, nil, time.Now().Add(task.PollInterval)
		}
	case a.pending != nil:
		r.Handle, r.Message = a.pending.Handle, a.pending.Message
		r.Next = time.Now().Add(max(a.pending.After, minPollInterval))
	case len(a.result) > task.MaxResult:
		fail(r, jsonrpc.Faultf(http.StatusOK, jsonrpc.InternalError, "the result of %s has %d bytes, and the limit of a task is %d: call it with arguments that request less data", r.Tool, len(a.result), task.MaxResult))
	default:
		r.End(task.Completed, "")
		r.Result, r.IsError = a.result, wire.MemberOf(a.result, "isError").Kind() == 't'
	}
}

// minPollInterval is the minimum interval between two polls of a pending call.
const minPollInterval = 500 * time.Millisecond

// members returns the object with these members.
func members(list []byte) jsontext.Value {
	return append(append([]byte{'{'}, list...), '}')
}

// fail ends the task with a JSON-RPC error.
func fail(r *task.Record, f *jsonrpc.Fault) {
	r.End(task.Failed, f.Message)
	b := strconv.AppendInt([]byte(`{"code":`), int64(f.Code), 10)
	b = wire.AppendString(append(b, `,"message":`...), f.Message)
	if f.Data != nil {
		b = append(append(b, `,"data":`...), f.Data...)
	}
	r.Error = append(b, '}')
}

// A borrowedChannel is the channel of a request, which an attempt uses until the response of the
// request is written.
type borrowedChannel struct {
	mu  sync.Mutex
	out stream.Channel // nil after release
}

var errResponded = errors.New("the response of the request is already written")

// Send implements stream.Channel.
func (c *borrowedChannel) Send(message []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out == nil {
		return errResponded
	}
	return c.out.Send(message)
}

func (c *borrowedChannel) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = nil
}
