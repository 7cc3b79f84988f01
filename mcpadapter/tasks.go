package mcpadapter

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/admission"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/mcpadapter/internal/task"
	"github.com/fairwayhq/fairway/ocp/tool"
	"github.com/fairwayhq/fairway/store"
)

// TaskOptions configure MCP Tasks.
type TaskOptions struct {
	// After is how long a call runs before it becomes a task.
	After time.Duration

	// TTL is how long a task is kept after its creation. Default: 1 hour.
	TTL time.Duration

	// Lease is the time after which a node that runs a call and no longer renews its lease counts as
	// dead. The clocks of the nodes must differ by less. Default: 15 seconds.
	Lease time.Duration

	// Open returns the store of the tasks. It is called for each request for a task. Required.
	Open func(context.Context) (store.Store, error)

	// Endpoint separates the tasks of several endpoints in one store.
	Endpoint string

	// Failed is called with errors that are not returned to a client. May be nil.
	Failed func(error)
}

// openTasks sets up the tasks if the options enable them.
func (s *Server) openTasks() {
	if o := s.options.Tasks; o != nil {
		s.tasks = task.New(task.Options{Open: o.Open, Endpoint: o.Endpoint, TTL: o.TTL, Lease: o.Lease, Failed: o.Failed})
	}
}

// reportTaskError reports an error of the store or of an attempt to the operator.
func (s *Server) reportTaskError(err error) {
	if !errors.Is(err, task.ErrFull) && !errors.Is(err, task.ErrTooLarge) {
		s.tasks.Failed(err)
	}
}

// A taskRequest is a request about a task.
type taskRequest struct{ *message }

// attemptWait is how long a request about a task waits for an attempt that it has started.
const attemptWait = 2 * time.Second

// find returns the task that the request names.
func (q taskRequest) find(method string) (*task.Record, *jsonrpc.Fault) {
	if q.server.tasks == nil {
		return nil, q.unknownMethod(method)
	}
	if q.version.SupportsExtensions() && !q.client.Has(elicit.CanTask) {
		return nil, missingTasks()
	}
	id := wire.MemberOf(q.params.raw, "taskId")
	if id.Kind() != '"' {
		return nil, jsonrpc.BadParams("params.taskId must be a string that names a task, not %s", wire.KindName(id.Kind()))
	}
	r, err := q.server.tasks.Get(q.ctx, q.site.taskOwner(), wire.Text(id))
	if err != nil {
		return nil, q.server.taskFault(err)
	}
	calltrace.Link(q.ctx, r.Trace)
	return r, nil
}

// taskFault returns the fault for an error of the tasks.
func (s *Server) taskFault(err error) *jsonrpc.Fault {
	switch {
	case errors.Is(err, task.ErrUnknown):
		return jsonrpc.BadParams("unknown task: there is none with this id, or it has expired")
	case errors.Is(err, task.ErrFull):
		return jsonrpc.Faultf(http.StatusOK, jsonrpc.InternalError, "there are too many tasks: call without a task, or wait until older tasks expire")
	case errors.Is(err, task.ErrTooLarge):
		return jsonrpc.BadParams("the request is larger than a task can store: call without a task, or send less data")
	}
	s.reportTaskError(err)
	return jsonrpc.Faultf(http.StatusServiceUnavailable, jsonrpc.InternalError, "the record of the task is not available; try again later")
}

// get serves tasks/get.
func (q taskRequest) get() *jsonrpc.Fault {
	r, f := q.find("tasks/get")
	if f != nil {
		return f
	}
	r = q.advance(r, attemptWait)
	if q.version.SupportsExtensions() {
		b := q.appendResultHead(q.beginResult(), "complete", nil)
		q.out.B = append(r.AppendDetails(b), "}}"...)
		return nil
	}
	q.out.B = append(r.AppendTask(q.beginResult(), false), "}}"...)
	return nil
}

// writeCreated writes the result that names a new task.
func (m *message) writeCreated(r *task.Record) {
	if m.version.SupportsExtensions() {
		b := m.appendResultHead(m.beginResult(), "task", nil)
		m.out.B = append(r.AppendTask(b, true), "}}"...)
		return
	}
	b := append(m.beginResult(), `"task":{`...)
	m.out.B = append(r.AppendTask(b, false), "}}}"...)
}

// writeAcknowledged writes the empty result of tasks/update and tasks/cancel in the extension.
func (q taskRequest) writeAcknowledged() {
	b := q.appendComplete(q.beginResult())
	q.out.B = append(b, "}}"...)
}

// update serves tasks/update, with which a client responds to requests of a task.
func (q taskRequest) update() *jsonrpc.Fault {
	r, f := q.find("tasks/update")
	if f != nil {
		return f
	}
	responses := wire.MemberOf(q.params.raw, "inputResponses")
	if responses.Kind() != '{' {
		return jsonrpc.BadParams("params.inputResponses must be an object with the responses, not %s", wire.KindName(responses.Kind()))
	}
	for walk := wire.Into(responses); walk.Next(); {
		if walk.Value.Kind() != '{' {
			return jsonrpc.BadParams("each member of params.inputResponses must be the result of a request, an object, not %s", wire.KindName(walk.Value.Kind()))
		}
	}
	if r, f = q.respond(r, responses); f != nil {
		return f
	}
	q.advance(r, 0)
	q.writeAcknowledged()
	return nil
}

// respond records responses of the client.
func (q taskRequest) respond(r *task.Record, responses jsontext.Value) (*task.Record, *jsonrpc.Fault) {
	changed, err := q.server.tasks.Change(q.ctx, q.site.taskOwner(), r.ID, func(r *task.Record) error {
		if !r.Respond(responses) {
			return task.ErrUnchanged
		}
		return nil
	})
	if err != nil {
		return nil, q.server.taskFault(err)
	}
	return changed, nil
}

// cancel serves tasks/cancel. The node that runs the call notices the change of the record.
func (q taskRequest) cancel() *jsonrpc.Fault {
	r, f := q.find("tasks/cancel")
	if f != nil {
		return f
	}
	ended := false
	handle := ""
	changed, err := q.server.tasks.Change(q.ctx, q.site.taskOwner(), r.ID, func(r *task.Record) error {
		if ended = r.Status.Final(); ended {
			return task.ErrUnchanged
		}
		handle = r.Handle
		r.End(task.Cancelled, "the task was cancelled by request")
		return nil
	})
	switch {
	case err != nil:
		return q.server.taskFault(err)
	case ended && !q.version.SupportsExtensions():
		return jsonrpc.BadParams("the task cannot be cancelled: it has ended")
	case !ended && handle != "":
		q.cancelCall(r)
	}
	if q.version.SupportsExtensions() {
		q.writeAcknowledged()
		return nil
	}
	q.out.B = append(changed.AppendTask(q.beginResult(), false), "}}"...)
	return nil
}

// cancelCall cancels the pending call of a task that was cancelled, such as the run of an agent.
func (q taskRequest) cancelCall(r *task.Record) {
	a, err := q.attemptOf(r, true)
	if err != nil {
		return // the tool no longer exists
	}
	a.start()
	go func() {
		timer := time.AfterFunc(cancelTimeout, a.cancel)
		defer timer.Stop()
		<-a.done
		a.cancel()
	}()
}

// cancelTimeout is the time limit of cancelCall.
const cancelTimeout = 30 * time.Second

// errNoTool means that the tool of a task no longer exists or is hidden.
var errNoTool = errors.New("the tool of the task no longer exists")

// attemptOf returns an attempt that continues, or cancels, the call of a task with the credentials of
// this request.
func (q taskRequest) attemptOf(r *task.Record, cancel bool) (*attempt, error) {
	c := q.wholeCatalog().Callable(r.Tool)
	if c == nil || c.Hidden {
		return nil, errNoTool
	}
	arguments, err := q.server.sealer().Unseal(r.Arguments, sealedArguments)
	if err != nil {
		return nil, errors.New("the arguments of the task cannot be decrypted: configure the same secret on all nodes")
	}
	var object wire.ObjectBuilder
	object.Add("name", wire.AppendString(nil, r.Tool))
	if r.Meta != nil {
		object.Add("_meta", r.Meta)
	}
	if r.Responses != nil {
		object.Add("inputResponses", r.Responses)
	}
	if r.State != "" {
		object.Add("requestState", wire.AppendString(nil, r.State))
	}
	m := *q.message
	m.ctx = calltrace.ContextWithOrigin(m.ctx, r.Trace)
	m.version, m.client, m.channel = revision.Of(r.Revision), elicit.Capabilities(r.Client), nil
	return m.newAttempt(invocation{method: "tools/call", target: r.Tool, name: r.Tool, callable: c, arguments: arguments},
		tool.LongRunning{Handle: r.Handle, Cancel: cancel}, object.Close()), nil
}

// advance continues the call of a task if its next poll is due and no node is working on it. It waits
// up to wait for the outcome, and returns the latest record of the task.
func (q taskRequest) advance(r *task.Record, wait time.Duration) *task.Record {
	now := time.Now()
	due := r.Status == task.Working && !r.Runs(now) && (r.Died(now) || !now.Before(r.Next))
	if !due || q.server.attempts.Load() > maxAttempts {
		return r
	}
	a, failure := q.attemptOf(r, false)
	key := ""
	if failure == nil {
		if admission.CheckScopes(q.site.Access, a.call.callable.Tool, q.tools) != nil {
			a.cancel()
			return r // another token of the same owner may allow the call
		}
		key = a.key
	}
	changed, err := q.server.tasks.Change(q.ctx, q.site.taskOwner(), r.ID, func(now *task.Record) error {
		switch {
		case now.Status != task.Working || now.Attempt != r.Attempt || !now.Lease.Equal(r.Lease) || !now.Next.Equal(r.Next):
			return errLostAttempt // a concurrent request has started an attempt
		case now.Attempt != "" && !now.CanRepeat():
			fail(now, jsonrpc.Faultf(http.StatusOK, jsonrpc.InternalError,
				"the node that ran %s has stopped: it is unknown whether the call had an effect, so check the current state before you repeat it", r.Tool))
		case failure != nil:
			fail(now, jsonrpc.Faultf(http.StatusOK, jsonrpc.InternalError, "the call of %s cannot be continued: %v", r.Tool, failure))
		default:
			now.Attempt, now.Lease, now.Next = key, time.Now().Add(q.server.tasks.Lease), time.Time{}
		}
		return nil
	})
	switch {
	case errors.Is(err, errLostAttempt):
		return r
	case err != nil:
		q.server.reportTaskError(err)
		return r
	case failure != nil || changed.Status.Final() || changed.Attempt != key:
		return changed
	}
	a.start()
	stored := make(chan struct{})
	go func() {
		defer close(stored)
		a.supervise(q.site.taskOwner(), changed)
	}()
	if wait <= 0 {
		return changed
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-stored:
	case <-timer.C:
	case <-q.ctx.Done():
	}
	if latest, err := q.server.tasks.Get(q.ctx, q.site.taskOwner(), r.ID); err == nil {
		return latest
	}
	return changed
}

// follow advances a task and calls changed after each change of its record, until the task has ended,
// changed returns false, or the context ends. It returns the latest record.
func (q taskRequest) follow(ctx context.Context, r *task.Record, changed func(*task.Record) bool) (*task.Record, error) {
	for {
		r = q.advance(r, attemptWait)
		if !changed(r) || r.Status.Final() {
			return r, nil
		}
		until := time.Now().Add(q.server.options.KeepAlive)
		if due := r.Due(); due.Before(until) {
			until = due
		}
		next, err := q.server.tasks.Wait(ctx, q.site.taskOwner(), r, until)
		if err != nil {
			return r, err
		}
		r = next
	}
}

// result serves tasks/result of 2025-11-25: it waits until the task has ended, and returns its result.
// While it waits, it sends the requests of the task to the client.
func (q taskRequest) result() *jsonrpc.Fault {
	r, f := q.find("tasks/result")
	if f != nil {
		return f
	}
	alive := time.Now()
	for {
		var err error
		r, err = q.follow(q.ctx, r, func(r *task.Record) bool {
			if time.Since(alive) >= q.server.options.KeepAlive {
				alive = time.Now()
				_ = clientRequest(q).keepAlive() // an error means that the client has disconnected, which ends the context
			}
			return r.Status != task.InputRequired
		})
		switch {
		case err != nil && q.ctx.Err() != nil:
			return nil
		case err != nil:
			return q.server.taskFault(err)
		case r.Status == task.InputRequired:
			if r, f = q.ask(r); f != nil {
				return f
			}
			continue
		case r.Status == task.Completed:
			q.out.B = append(append(q.beginResult(), r.RelatedResult()...), "}}"...)
			return nil
		case r.Status == task.Cancelled:
			return jsonrpc.Faultf(http.StatusOK, jsonrpc.InvalidRequest, "the task was cancelled, so it has no result")
		}
		failed := jsonrpc.Faultf(http.StatusOK, jsonrpc.InternalError, "%s", r.Message)
		failed.Code, failed.Data = errorOf(r)
		return failed
	}
}

// ask sends the requests of a task to the client, and records the responses.
func (q taskRequest) ask(r *task.Record) (*task.Record, *jsonrpc.Fault) {
	client := clientRequest(q)
	if !client.canAsk() {
		return nil, jsonrpc.Faultf(http.StatusOK, jsonrpc.InvalidRequest,
			"the task needs input from the client: open a session with initialize, and accept text/event-stream")
	}
	t := &tool.Tool{Name: r.Tool}
	if c := q.wholeCatalog().Callable(r.Tool); c != nil {
		t = c.Tool
	}
	asking := &elicit.Request{Revision: q.version, Declared: q.client, User: q.site.User, Ask: func(method string, params jsontext.Value) (jsontext.Value, error) {
		related := r.AppendRelated([]byte(`{"_meta":{`))
		related = append(related, '}')
		for walk := wire.Into(params); walk.Next(); {
			if !walk.Is("_meta") {
				related = append(append(append(append(related, ','), walk.Name...), ':'), walk.Value...)
			}
		}
		return client.ask(method, append(related, '}'))
	}}
	responses, failure := asking.AskAll(t, r.Requests)
	if failure == nil {
		return q.respond(r, responses)
	}
	if q.ctx.Err() != nil {
		return nil, jsonrpc.Faultf(http.StatusOK, jsonrpc.InvalidRequest, "the request was canceled")
	}
	changed, err := q.server.tasks.Change(q.ctx, q.site.taskOwner(), r.ID, func(now *task.Record) error {
		if now.Status != task.InputRequired || now.Round != r.Round {
			return task.ErrUnchanged
		}
		fail(now, jsonrpc.Faultf(http.StatusOK, jsonrpc.InternalError, "%s", failure.Message))
		return nil
	})
	if err != nil {
		return nil, q.server.taskFault(err)
	}
	return changed, nil
}

// errorOf returns the code and the data of a failed task's error.
func errorOf(r *task.Record) (code int, data []byte) {
	var f struct {
		Code int            `json:"code"`
		Data jsontext.Value `json:"data"`
	}
	if json.Unmarshal(r.Error, &f) != nil {
		return jsonrpc.InternalError, nil
	}
	return f.Code, f.Data
}

// tasksPage is the number of tasks on a page of tasks/list.
const tasksPage = 50

// list serves tasks/list of 2025-11-25. The cursor is the id of the last task of the page before.
func (q taskRequest) list() *jsonrpc.Fault {
	if _, known := q.site.identifiedOwner(); q.server.tasks == nil || !known {
		return q.unknownMethod("tasks/list")
	}
	all, err := q.server.tasks.List(q.ctx, q.site.taskOwner())
	if err != nil {
		return q.server.taskFault(err)
	}
	if cursor := wire.Text(q.params.cursor); cursor != "" {
		at := slices.IndexFunc(all, func(r *task.Record) bool { return r.ID == cursor })
		if at < 0 {
			return staleList("tasks")
		}
		all = all[at+1:]
	}
	b := append(q.beginResult(), `"tasks":[`...)
	for i, r := range all[:min(len(all), tasksPage)] {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(r.AppendTask(append(b, '{'), false), '}')
	}
	b = append(b, ']')
	if len(all) > tasksPage {
		b = wire.AppendString(append(b, `,"nextCursor":`...), all[tasksPage-1].ID)
	}
	q.out.B = append(b, "}}"...)
	return nil
}
