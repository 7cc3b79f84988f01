package run

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

// Runner runs hosted agents on this node. It is safe for concurrent use.
type Runner struct {
	options Options
	storage *storage
	index   index
	memory  memory
	terms   lease.Terms // of the leases of this node
	nodes   presence
	queue   *scheduler // the jobs that this node works on next
	shares  *admission
	texts   store.Hub[Event] // what models write, by run, for its subscribers on this node

	leave context.CancelFunc // ends the announcements that this node is alive
	left  sync.WaitGroup     // those announcements

	running context.Context // ends with Close
	stop    context.CancelFunc
	working context.Context // ends when Close no longer waits
	abort   context.CancelFunc
	ended   sync.WaitGroup

	waiting, queued atomic.Int64 // runs that waited, and that were queued, at the last sweep
	began           time.Time

	active activities
}

// NewRunner returns a Runner and starts its goroutines. Close stops them.
func NewRunner(options Options) *Runner {
	options.setDefaults()
	s := &storage{store: options.Store, realm: realmPrefix(options.Realm), ttl: options.TTL, now: options.Now, notices: options.Notices}
	r := &Runner{
		options: options, storage: s, index: index{s}, memory: memory{s}, began: options.Now(),
		terms: lease.Terms{Duration: options.Lease, Node: options.Node, Process: options.Process, Now: options.Now},
		queue: newScheduler(options.Workers), shares: newAdmission(&options), active: activities{runs: make(map[string]*activity)},
	}
	r.nodes = presence{s, &r.terms}
	r.running, r.stop = context.WithCancel(context.Background())
	r.working, r.abort = context.WithCancel(context.Background())
	r.ended.Go(r.dispatch)
	if options.Queue != nil {
		r.ended.Go(func() { r.feed(r.queue.awaitFree, r.queue.holds) })
		r.ended.Go(func() { r.feed(func(context.Context) {}, func(int) bool { return true }) }) // only jobs for this node
	}
	var present context.Context
	present, r.leave = context.WithCancel(context.Background())
	r.left.Go(func() { r.nodes.announceRegularly(present, func(err error) { r.report("", err) }) })
	r.ended.Go(r.sweepRegularly)
	return r
}

// Close claims no more runs, and stops each run after its current step. When ctx ends, it
// interrupts the steps. Another node, or the next Runner on this store, resumes the runs.
func (r *Runner) Close(ctx context.Context) error {
	// First other nodes give no more jobs to this one. Then its own streams and queue go to them.
	r.leave()
	r.left.Wait()
	r.report("", r.nodes.end(context.WithoutCancel(ctx)))
	r.stop()
	ended := make(chan struct{})
	go func() {
		r.ended.Wait()
		close(ended)
	}()
	var err error
	select {
	case <-ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	r.abort()
	<-ended
	for _, j := range r.queue.close() {
		r.handOver(j)
	}
	if r.options.Queue != nil {
		r.report("", r.options.Queue.Leave(context.WithoutCancel(ctx), r.options.Node))
	}
	return err
}

// StartOptions describes a run to start.
type StartOptions struct {
	ID    string // see NewID; "" for a new one
	Agent *oagent.Agent
	User  engagement.User
	Input string // the user's first message
	Title string // "" for the beginning of the input

	Forgets bool // see Assignment.Forgets

	Parent *Invocation // the tool call that starts the run, or that the run reviews, if it is one of a run

	Review, Reviewed string // see State.Review

	// Origin is data for Tools about the request that started the run: JSON of at most maxOrigin
	// bytes. It is stored, so it must not contain credentials.
	Origin jsontext.Value

	// Home keeps the run on this node as long as the node is alive, because this node has the
	// user's credentials.
	Home bool
}

// NewID returns an id for a run.
func NewID() string { return rand.Text() }

// ErrTooDeep means that a run would have more than MaxDepth runs above it.
var ErrTooDeep = fmt.Errorf("agents that call agents are nested deeper than %d levels", MaxDepth)

// Start starts a run and returns its state. The error wraps a *share.FullError if the node has no room
// for a further run of the user.
func (r *Runner) Start(ctx context.Context, n StartOptions) (*State, error) {
	if err := checkInput(n.Input); err != nil {
		return nil, err
	}
	if len(n.Origin) > maxOrigin {
		return nil, fmt.Errorf("the origin of the run has %d bytes; the limit is %d", len(n.Origin), maxOrigin)
	}
	if n.ID == "" {
		n.ID = NewID()
	}
	now := r.options.Now().UTC()
	st := &State{
		Assignment: Assignment{ID: n.ID, Agent: n.Agent.Name, User: n.User, Review: n.Review, Reviewed: n.Reviewed, Forgets: n.Forgets, Started: now, Origin: n.Origin},
		Changed:    now, Title: titleOf(cmp.Or(n.Title, n.Input)),
		Status: StatusAwaitingModel, Phase: phaseInput, Inputs: []input{{ID: rand.Text(), Text: n.Input}},
	}
	if n.Parent != nil {
		if st.Parent, st.Depth = n.Parent.Engagement, n.Parent.Depth+1; st.Depth > MaxDepth {
			return nil, ErrTooDeep
		}
		parent, err := r.storage.get(ctx, st.Parent)
		if err != nil && !isNotFound(err) {
			return nil, err
		}
		if err == nil {
			st.Root = cmp.Or(parent.Root, parent.ID)
		}
	}
	if n.Home {
		st.Home = r.options.Node
	}
	if err := r.shares.admit(&st.Assignment); err != nil {
		return nil, err
	}
	if err := r.storage.create(ctx, st); err != nil {
		r.shares.release(st.ID)
		return nil, err
	}
	if err := r.index.add(ctx, st.indexed()); err != nil {
		r.shares.release(st.ID)
		return nil, errors.Join(err, r.options.Store.Delete(context.WithoutCancel(ctx), r.storage.realm+stateKey+st.ID))
	}
	r.report(st.ID, r.options.Guard.Open(ctx, st.binding(n.Agent))) // only lists need it now: the first call repeats it
	r.push(ctx, st)
	return st, nil
}

func checkInput(text string) error {
	switch {
	case text == "":
		return errors.New("the input is empty")
	case len(text) > MaxInput:
		return fmt.Errorf("the input has %d bytes; the limit is %d", len(text), MaxInput)
	}
	return nil
}

// Get returns the state of a run, or ErrNotFound. The caller decides who may see it.
func (r *Runner) Get(ctx context.Context, id string) (*State, error) {
	return r.storage.get(ctx, id)
}

// View returns the representation for clients, with the exposed values. Values that cannot be
// computed are omitted. So are those that the output guardrail of the agent has not checked yet.
func (r *Runner) View(ctx context.Context, st *State) *View {
	v := st.View()
	if err := (spending{r.storage}).addCalled(ctx, st, &v.Usage); err != nil {
		r.report(st.ID, err)
	}
	if agent := r.options.Agent(st.Agent); agent != nil && st.IsChecked(agent) {
		if exposed, err := r.options.Guard.Exposed(ctx, st.binding(agent)); err == nil && len(agent.Exposes) > 0 {
			v.Exposes = exposed.Object
		}
	}
	return v
}

// IsChecked reports whether the output guardrail of the agent has checked all that the model has written so
// far. Without a guardrail, there is nothing to check.
func (s *State) IsChecked(agent *oagent.Agent) bool {
	return !agent.Enforces(engagement.SideOutput) || s.Status == StatusComplete
}

func (a *Assignment) binding(agent *oagent.Agent) oagent.Binding {
	return oagent.Binding{Agent: agent, Engagement: a.ID, User: a.User, Reviewed: a.Reviewed}
}

// Cancel ends a run and interrupts its current step. A step on another node is interrupted by a
// job in that node's queue, or when the node renews its lease, which happens within a third of
// Options.Lease. The error is ErrEnded if the run has ended.
func (r *Runner) Cancel(ctx context.Context, id string) (*State, error) {
	var tasks []string
	var held lease.Lease
	st, err := r.storage.change(ctx, id, func(st *State) ([]entry, error) {
		if st.Status.IsFinal() {
			return nil, ErrEnded
		}
		tasks, held = st.tasks(), st.Lease
		st.end(StatusError, &Ending{Kind: EndCanceled, Message: "the Engagement was canceled"})
		return []entry{{Kind: entryEnded, Status: st.Status, Ending: st.Ending}}, nil
	})
	if err != nil {
		return nil, err
	}
	r.active.interrupt(id, st.Round)
	if held.Token != "" && held.Node != r.options.Node && r.options.Queue != nil {
		r.report(id, r.options.Queue.Push(context.WithoutCancel(ctx), st.job().shared(), held.Node))
	}
	for _, task := range tasks {
		r.cancelTask(ctx, task)
	}
	r.finalize(ctx, st)
	return st, nil
}

// Wake makes a node resume a run whose calls wait. It must be called when a review was decided,
// the user's credentials have arrived, or a task has ended; for oagent.EventReviewDecided with the
// Engagement of the review. If the run does not wait, Wake has no effect.
func (r *Runner) Wake(ctx context.Context, id string) error {
	st, err := r.storage.get(ctx, id)
	if err != nil {
		return err
	}
	if !st.Status.IsFinal() {
		r.push(ctx, st)
	}
	return nil
}

// wakeAt wakes a run when the time of its next request to the model has come. If the node dies before, a sweep of another one
// finds the run.
func (r *Runner) wakeAt(id string, at time.Time) {
	time.AfterFunc(at.Sub(r.options.Now())+clockSlack, func() {
		if err := r.Wake(context.Background(), id); !isNotFound(err) {
			r.report(id, err)
		}
	})
}

// clockSlack is how much the clock may be set back while a run waits, without delay of its next request.
const clockSlack = 20 * time.Millisecond

// Rehome makes this node the home of a run, because the user's credentials have arrived here,
// and wakes it.
func (r *Runner) Rehome(ctx context.Context, id string) error {
	st, err := r.storage.change(ctx, id, func(st *State) ([]entry, error) {
		if st.Status.IsFinal() {
			return nil, ErrEnded
		}
		st.Home = r.options.Node
		return nil, nil
	})
	if err != nil {
		return err
	}
	r.push(ctx, st)
	return nil
}

// Remembered returns what is retained of a user's earlier runs of an agent, the latest last.
func (r *Runner) Remembered(ctx context.Context, agent string, user engagement.User) ([]Retained, error) {
	return r.memory.get(ctx, agent, user)
}

// Forget deletes what is retained of a user's earlier runs of an agent.
func (r *Runner) Forget(ctx context.Context, agent string, user engagement.User) error {
	return r.memory.forget(ctx, agent, user)
}

// push adds a job for the run. If that fails, a sweep finds the run.
//
// The next call of a tool may need the user's credentials, so it is made by the home of the run. Any node
// can make the request to the model: if this node has no free worker, it leaves the run to all nodes.
func (r *Runner) push(ctx context.Context, st *State) {
	j := st.job()
	isHere := r.options.Queue == nil || st.Home == r.options.Node && (st.Phase == phaseTools || r.queue.isFree(j.owner))
	if isHere && !r.IsClosing() && r.queue.push(j) {
		return
	}
	if !isHere && st.Home != "" && st.Phase == phaseTools && r.isAlive(ctx, st.Home) {
		r.report(st.ID, r.options.Queue.Push(context.WithoutCancel(ctx), j.shared(), st.Home))
		if r.isAlive(ctx, st.Home) {
			return
		}
		// The home has ended in the meantime, perhaps before it could see the job.
	}
	r.handOver(j)
}

// isAlive reports whether a node may be alive.
func (r *Runner) isAlive(ctx context.Context, node string) bool {
	alive, _ := r.nodes.isAlive(ctx, node) // if the store fails, it counts as alive
	return alive
}

// job returns a job for the run.
func (a *Assignment) job() *job { return &job{id: a.ID, owner: a.owner(), ack: func() {}} }

func (a *Assignment) owner() share.Owner { return share.OwnerOf(a.User.ID, "") }

func (r *Runner) report(id string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, store.ErrClosed) {
		r.options.Report(id, err)
	}
}

// dispatch works on the runs of queued jobs.
func (r *Runner) dispatch() {
	for j := r.queue.next(r.running); j != nil; j = r.queue.next(r.running) {
		r.ended.Go(func() {
			defer r.queue.done(j)
			r.work(j)
		})
	}
}

// feed takes jobs from the queue of all nodes. It calls ready before each.
func (r *Runner) feed(ready func(context.Context), skip func(lane int) bool) {
	wait := retryPause
	for ready(r.running); r.running.Err() == nil; ready(r.running) {
		next, ack, err := r.options.Queue.Take(r.running, r.options.Node, skip)
		if err != nil {
			r.report("", err)
			wait = min(2*wait, maxRetryPause)
			pause(r.running, wait)
			continue
		}
		wait = retryPause
		r.queue.push(&job{next.ID, share.Owner(next.Owner), ack})
	}
}

const (
	retryPause    = 200 * time.Millisecond // after the first error of the store or of the queue
	maxRetryPause = 5 * time.Second
)

// pause waits, or returns when the context ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// work claims a run, and works on it until the run waits or ends. It acknowledges the job as soon
// as the run is leased: if this node dies later, another node finds the run when the lease expires.
//
// If the store fails, work tries again until the store responds: the node owns the lease, so it need not
// wait for its end.
func (r *Runner) work(j *job) {
	first := r.active.begin(j.id)
	var paused bool // a run that waits for its model goes on by itself, so it is still in progress
	var gaveUp bool
	for wait := retryPause; ; wait = min(2*wait, maxRetryPause) {
		var err error
		paused, err = r.attempt(j, first)
		if wait == retryPause {
			r.report(j.id, err)
		}
		if gaveUp = err != nil && r.IsClosing(); err == nil || gaveUp || errors.Is(err, errUnreadable) {
			break
		}
		pause(r.running, min(wait, r.options.Lease))
	}
	if !first {
		return
	}
	again := r.active.end(j.id)
	if !paused {
		r.shares.release(j.id)
	}
	if again || gaveUp { // the end of the work may have missed the reason for the other job; Close passes on what is queued
		r.queue.push(&job{j.id, j.owner, func() {}})
	}
}

// attempt makes one attempt of work. first is the result of begin. It reports whether the run now waits for its model.
func (r *Runner) attempt(j *job, first bool) (paused bool, err error) {
	e, err := r.claim(r.working, j.id, first)
	j.ack()
	switch {
	case errors.Is(err, ErrEnded), errors.Is(err, ErrNotFound):
		return false, nil
	case e == nil:
		return false, err
	}
	r.shares.hold(&e.state.Assignment)
	r.active.set(j.id, e)
	defer func() {
		r.active.set(j.id, nil)
		e.cancel(nil)
		e.endTrace(e.state)
	}()
	err = e.drive()
	return !e.state.retryAt().IsZero(), err
}

// counts are numbers of runs.
type counts struct {
	Working int // that this node is working on, without those that wait
	Queued  int // that wait for a worker: of this node, or of all nodes that share the store, as of the last sweep of this node
	Waiting int // of all nodes that share the store, as of the last sweep of this node
}

// Counts returns how many runs there are.
func (r *Runner) Counts() counts {
	queued := int(r.queued.Load())
	if r.options.Queue == nil {
		queued = r.queue.Len()
	}
	return counts{r.active.count(), queued, int(r.waiting.Load())}
}

// IsClosing reports whether Close was called.
func (r *Runner) IsClosing() bool { return r.running.Err() != nil }
