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
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/internal/task"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
	"github.com/fairwayhq/fairway/tools"
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
	if !errors.Is(err, task.ErrFull) && !errors.Is(err, task.ErrTooLarge) && !errors.Is(err, store.ErrShare) {
		s.tasks.Failed(err)
	}
}

// A taskRequest is a request about a task.
type taskRequest struct{ *request }

// attemptWait is how long a request about a task waits for an attempt that it has started.
const attemptWait = 2 * time.Second

// findTask returns the task that the request names.
func findTask(q *request, method string) (t taskRequest, r *task.Record, f *protocol.Fault) {
	if q.server.tasks == nil {
		return t, nil, unknownMethod(method, q.version)
	}
	if q.version.SupportsExtensions() && !q.capabilities.Has(protocol.CanTask) {
		return t, nil, missingTasks()
	}
	id := strictjson.MemberOf(q.params.raw, "taskId")
	if id.Kind() != '"' {
		return t, nil, protocol.BadParams("params.taskId must be a string that names a task, not %s", strictjson.KindName(id.Kind()))
	}
	r, err := q.server.tasks.Get(q.ctx, q.site.taskOwner(), strictjson.Text(id))
	if err != nil {
		return t, nil, q.server.taskFault(err)
	}
	calltrace.Link(q.ctx, r.Trace)
	return taskRequest{q}, r, nil
}

// taskFault returns the fault for an error of the tasks.
func (s *Server) taskFault(err error) *protocol.Fault {
	switch {
	case errors.Is(err, task.ErrUnknown):
		return protocol.BadParams("unknown task: there is none with this id, or it has expired")
	case errors.Is(err, task.ErrFull):
		return protocol.Faultf(http.StatusOK, protocol.InternalError, "there are too many tasks: call without a task, or wait until older tasks expire")
	case errors.Is(err, store.ErrShare):
		return protocol.Faultf(http.StatusTooManyRequests, protocol.InternalError, "no task was created: %s", store.ShareUsed)
	case errors.Is(err, task.ErrTooLarge):
		return protocol.BadParams("the request is larger than a task can store: call without a task, or send less data")
	}
	s.reportTaskError(err)
	return protocol.Faultf(http.StatusServiceUnavailable, protocol.InternalError, "the record of the task is not available; try again later")
}

// getTask serves tasks/get.
func getTask(q *request, w *response) *protocol.Fault {
	t, r, f := findTask(q, "tasks/get")
	if f != nil {
		return f
	}
	r = t.advance(q.ctx, r, attemptWait)
	if q.version.SupportsExtensions() {
		w.end(r.AppendDetails(w.result("complete", nil)))
	} else {
		w.end(r.AppendTask(w.begin(), false))
	}
	return nil
}

// createdTask writes the result that names a new task.
func (w *response) createdTask(r *task.Record) {
	if w.version.SupportsExtensions() {
		w.end(r.AppendTask(w.result("task", nil), true))
		return
	}
	w.end(append(r.AppendTask(append(w.begin(), `"task":{`...), false), '}'))
}

// acknowledge writes the empty result of tasks/update and tasks/cancel in the extension.
func (w *response) acknowledge() { w.end(append(w.begin(), w.complete...)) }

// updateTask serves tasks/update, with which a client responds to requests of a task.
func updateTask(q *request, w *response) *protocol.Fault {
	t, r, f := findTask(q, "tasks/update")
	if f != nil {
		return f
	}
	responses := strictjson.MemberOf(q.params.raw, "inputResponses")
	if responses.Kind() != '{' {
		return protocol.BadParams("params.inputResponses must be an object with the responses, not %s", strictjson.KindName(responses.Kind()))
	}
	for walk := strictjson.Into(responses); walk.Next(); {
		if walk.Value.Kind() != '{' {
			return protocol.BadParams("each member of params.inputResponses must be the result of a request, an object, not %s", strictjson.KindName(walk.Value.Kind()))
		}
	}
	if r, f = t.respond(r, responses); f != nil {
		return f
	}
	t.advance(q.ctx, r, 0)
	w.acknowledge()
	return nil
}

// respond records responses of the client.
func (q taskRequest) respond(r *task.Record, responses jsontext.Value) (*task.Record, *protocol.Fault) {
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

// cancelTask serves tasks/cancel. The node that runs the call notices the change of the record.
func cancelTask(q *request, w *response) *protocol.Fault {
	t, r, f := findTask(q, "tasks/cancel")
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
		return protocol.BadParams("the task cannot be cancelled: it has ended")
	case !ended && handle != "":
		t.cancelCall(r)
	}
	if q.version.SupportsExtensions() {
		w.acknowledge()
		return nil
	}
	w.end(changed.AppendTask(w.begin(), false))
	return nil
}

// cancelCall cancels the pending call of a task that was cancelled, such as the run of an agent.
func (q taskRequest) cancelCall(r *task.Record) {
	a, err := q.attemptOf(q.ctx, r, true)
	if err != nil {
		return // the tool no longer exists
	}
	a.start()
	q.server.attempts.supervising.Go(func() {
		timer := time.AfterFunc(cancelTimeout, a.cancel)
		defer timer.Stop()
		<-a.done
		a.cancel()
	})
}

// cancelTimeout is the time limit of cancelCall.
const cancelTimeout = 30 * time.Second

// attemptOf returns an attempt that continues, or cancels, the call of a task with the credentials of
// this request.
func (q taskRequest) attemptOf(ctx context.Context, r *task.Record, cancel bool) (*attempt, error) {
	c := q.wholeCatalog().Callable(r.Tool)
	if c == nil || c.Hidden {
		return nil, errors.New("the tool of the task no longer exists")
	}
	sealer, f := q.server.taskSealer(ctx)
	if f != nil {
		return nil, errors.New(f.Message)
	}
	arguments, err := sealer.Unseal(r.Arguments, sealedArguments)
	if err != nil {
		return nil, errors.New("the arguments of the task cannot be decrypted: configure the same secret on all nodes")
	}
	var object strictjson.ObjectBuilder
	object.Add("name", strictjson.AppendString(nil, r.Tool))
	if r.Meta != nil {
		object.Add("_meta", r.Meta)
	}
	if r.Responses != nil {
		object.Add("inputResponses", r.Responses)
	}
	if r.State != "" {
		object.Add("requestState", strictjson.AppendString(nil, r.State))
	}
	ctx = calltrace.ContextWithOrigin(ctx, r.Trace)
	of := scope{q.server, q.site, q.tools, protocol.RevisionOf(r.Revision), protocol.Capabilities(r.Client)}
	return newAttempt(&toolCall{
		scope: of, ctx: ctx, caller: q.caller, params: object.Close(),
		method: methodCallTool, target: r.Tool, callable: c, arguments: arguments,
	}, tools.LongRunning{Handle: r.Handle, Cancel: cancel}), nil
}

// advance continues the call of a task if its next poll is due and no node is working on it. It waits
// up to wait for the outcome, and returns the latest record of the task.
func (q taskRequest) advance(ctx context.Context, r *task.Record, wait time.Duration) *task.Record {
	due := r.Status == task.Working && q.server.tasks.Terms.IsFree(&r.Lease)
	if !due || q.server.attempts.count.Load() > maxAttempts {
		return r
	}
	a, failure := q.attemptOf(ctx, r, false)
	if failure == nil {
		if protocol.CheckScopes(q.site.Access, a.call.callable.Tool, q.tools) != nil {
			a.cancel()
			return r // another token of the same owner may allow the call
		}
	}
	changed, err := q.server.tasks.Change(ctx, q.site.taskOwner(), r.ID, func(now *task.Record) error {
		switch {
		case now.Status != task.Working || now.Lease.Seq != r.Lease.Seq || !q.server.tasks.Terms.IsFree(&now.Lease):
			return lease.ErrLost // a concurrent request has started an attempt
		case now.Lease.Token != "" && !now.CanRepeat():
			fail(now, protocol.Faultf(http.StatusOK, protocol.InternalError,
				"the node that ran %s has stopped: it is unknown whether the call had an effect, so check the current state before you repeat it", r.Tool))
		case failure != nil:
			fail(now, protocol.Faultf(http.StatusOK, protocol.InternalError, "the call of %s cannot be continued: %v", r.Tool, failure))
		default:
			q.server.tasks.Terms.Take(&now.Lease)
		}
		return nil
	})
	switch {
	case errors.Is(err, lease.ErrLost):
		return r
	case err != nil:
		q.server.reportTaskError(err)
		return r
	case failure != nil || changed.Status.Final():
		return changed
	}
	a.start()
	stored := make(chan struct{})
	q.server.attempts.supervising.Go(func() {
		defer close(stored)
		a.supervise(q.site.taskOwner(), changed)
	})
	if wait <= 0 {
		return changed
	}
	select {
	case <-stored:
	case <-time.After(wait):
	case <-ctx.Done():
	}
	if latest, err := q.server.tasks.Get(ctx, q.site.taskOwner(), r.ID); err == nil {
		return latest
	}
	return changed
}

// follow advances a task and calls changed after each change of its record, until the task has ended,
// changed returns false, or the context ends. It returns the latest record.
func (q taskRequest) follow(ctx context.Context, r *task.Record, changed func(*task.Record) bool) (*task.Record, error) {
	for {
		r = q.advance(ctx, r, attemptWait)
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

// taskResult serves tasks/result of 2025-11-25: it waits until the task has ended, and returns its result.
// While it waits, it sends the requests of the task to the client.
func taskResult(q *request, w *response) *protocol.Fault {
	t, r, f := findTask(q, "tasks/result")
	if f != nil {
		return f
	}
	ctx, cancel := context.WithCancel(q.ctx)
	defer cancel()
	closed := func() bool { return q.server.asking.Err() != nil && q.server.next.Load() == nil }
	defer context.AfterFunc(q.server.asking, func() {
		if closed() {
			cancel()
		}
	})()
	alive := time.Now()
	for {
		var err error
		r, err = t.follow(ctx, r, func(r *task.Record) bool {
			if time.Since(alive) >= q.server.options.KeepAlive {
				alive = time.Now()
				_ = q.keepAlive() // an error means that the client has disconnected, which ends the context
			}
			return r.Status != task.InputRequired
		})
		switch {
		case err != nil && q.ctx.Err() != nil:
			return nil
		case err != nil && closed():
			return protocol.Faultf(http.StatusServiceUnavailable, protocol.InternalError, "the server is shutting down, and the task goes on: repeat the request")
		case err != nil:
			return q.server.taskFault(err)
		case r.Status == task.InputRequired:
			if r, f = t.askAll(r); f != nil {
				return f
			}
			continue
		case r.Status == task.Completed:
			w.end(append(w.begin(), r.RelatedResult()...))
			return nil
		case r.Status == task.Cancelled:
			return protocol.Faultf(http.StatusOK, protocol.InvalidRequest, "the task was cancelled, so it has no result")
		}
		failed := protocol.Faultf(http.StatusOK, protocol.InternalError, "%s", r.Message)
		failed.Code, failed.Data = errorOf(r)
		return failed
	}
}

// askAll sends the requests of a task to the client, and records the responses.
func (q taskRequest) askAll(r *task.Record) (*task.Record, *protocol.Fault) {
	if !q.canAsk() {
		return nil, protocol.Faultf(http.StatusOK, protocol.InvalidRequest,
			"the task needs input from the client: open a session with initialize, and accept text/event-stream")
	}
	t := &tools.Tool{Name: r.Tool}
	if c := q.wholeCatalog().Callable(r.Tool); c != nil {
		t = c.Tool
	}
	asking := &elicit.Request{Revision: q.version, Declared: q.capabilities, User: q.site.User, Ask: func(method string, params jsontext.Value) (jsontext.Value, error) {
		related := r.AppendRelated([]byte(`{"_meta":{`))
		related = append(related, '}')
		for walk := strictjson.Into(params); walk.Next(); {
			if !walk.Is("_meta") {
				related = append(append(append(append(related, ','), walk.Name...), ':'), walk.Value...)
			}
		}
		return q.ask(method, append(related, '}'))
	}}
	responses, failure := asking.AskAll(t, r.Requests)
	if failure == nil {
		return q.respond(r, responses)
	}
	if q.ctx.Err() != nil {
		return nil, protocol.Faultf(http.StatusOK, protocol.InvalidRequest, "the request was canceled")
	}
	changed, err := q.server.tasks.Change(q.ctx, q.site.taskOwner(), r.ID, func(now *task.Record) error {
		if now.Status != task.InputRequired || now.Round != r.Round {
			return task.ErrUnchanged
		}
		fail(now, protocol.Faultf(http.StatusOK, protocol.InternalError, "%s", failure.Message))
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
		return protocol.InternalError, nil
	}
	return f.Code, f.Data
}

// tasksPage is the number of tasks on a page of tasks/list.
const tasksPage = 50

// listTasks serves tasks/list of 2025-11-25. The cursor is the id of the last task of the page before.
func listTasks(q *request, w *response) *protocol.Fault {
	if _, known := q.site.identifiedOwner(); q.server.tasks == nil || !known {
		return unknownMethod("tasks/list", q.version)
	}
	all, err := q.server.tasks.List(q.ctx, q.site.taskOwner())
	if err != nil {
		return q.server.taskFault(err)
	}
	if cursor := strictjson.Text(strictjson.MemberOf(q.params.raw, "cursor")); cursor != "" {
		at := slices.IndexFunc(all, func(r *task.Record) bool { return r.ID == cursor })
		if at < 0 {
			return staleList("tasks")
		}
		all = all[at+1:]
	}
	b := append(w.begin(), `"tasks":[`...)
	for _, r := range all[:min(len(all), tasksPage)] {
		b = append(r.AppendTask(append(strictjson.Comma(b), '{'), false), '}')
	}
	b = append(b, ']')
	if len(all) > tasksPage {
		b = strictjson.AppendString(append(b, `,"nextCursor":`...), all[tasksPage-1].ID)
	}
	w.end(b)
	return nil
}
