package run

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/store"
)

// Runner runs hosted agents on this node. It is safe for concurrent use.
type Runner struct {
	options Options
	storage *storage
	index   index
	memory  memory
	local   *localQueue // jobs that this node made for itself
	texts   textBroadcaster
	workers chan struct{} // semaphore: has an element for each run in progress

	running context.Context // ends with Close
	stop    context.CancelFunc
	working context.Context // ends when Close no longer waits
	abort   context.CancelFunc
	ended   sync.WaitGroup

	waiting atomic.Int64 // runs that waited at the last sweep

	mu     sync.Mutex
	active map[string]*execution // by run
}

// NewRunner returns a Runner and starts its goroutines. Close stops them.
func NewRunner(options Options) (*Runner, error) {
	if err := options.setDefaults(); err != nil {
		return nil, err
	}
	s := &storage{store: options.Store, ttl: options.TTL, now: options.Now}
	slots := options.Workers // each dispatcher occupies a slot while it waits for a job
	if options.Queue != nil {
		slots++
	}
	r := &Runner{
		options: options, storage: s, index: index{s}, memory: memory{s},
		local: newLocalQueue(), workers: make(chan struct{}, slots), active: make(map[string]*execution),
	}
	r.running, r.stop = context.WithCancel(context.Background())
	r.working, r.abort = context.WithCancel(context.Background())
	r.ended.Go(func() { r.dispatch(r.local) })
	if options.Queue != nil {
		r.ended.Go(func() { r.dispatch(options.Queue) })
	}
	r.ended.Go(presence{r}.announceRegularly)
	r.ended.Go(sweeper{r}.sweepRegularly)
	return r, nil
}

// Close claims no more runs, and stops each run after its current step. When ctx ends, it
// interrupts the steps. Another node, or the next Runner on this store, resumes the runs.
func (r *Runner) Close(ctx context.Context) error {
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
	r.report("", r.options.Store.Delete(context.WithoutCancel(ctx), nodeKey+r.options.Node))
	return err
}

// StartOptions describes a run to start.
type StartOptions struct {
	ID    string // see NewID; "" for a new one
	Agent *oagent.Agent
	User  engagement.User
	Input string // the user's first message

	Parent *Invocation // the tool call that starts the run, if a run starts it

	// Origin is data for Tools about the request that started the run: JSON of at most MaxOrigin
	// bytes. It is stored, so it must not contain credentials.
	Origin jsontext.Value

	// Home keeps the run on this node as long as the node is alive, because this node has the
	// user's credentials.
	Home bool
}

// NewID returns an id for a run.
func NewID() string { return rand.Text() }

// Start starts a run and returns its state.
func (r *Runner) Start(ctx context.Context, n StartOptions) (*State, error) {
	if err := checkInput(n.Input); err != nil {
		return nil, err
	}
	if len(n.Origin) > MaxOrigin {
		return nil, fmt.Errorf("the origin of the run has %d bytes; the limit is %d", len(n.Origin), MaxOrigin)
	}
	if n.ID == "" {
		n.ID = NewID()
	}
	now := r.options.Now().UTC()
	st := &State{
		ID: n.ID, Agent: n.Agent.Name, User: n.User, Started: now, Changed: now,
		Status: StatusAwaitingModel, Phase: phaseInput, Inputs: []Input{{ID: rand.Text(), Text: n.Input}},
		Origin: n.Origin,
	}
	if n.Parent != nil {
		if st.Parent, st.Depth = n.Parent.Engagement, n.Parent.Depth+1; st.Depth > MaxDepth {
			return nil, fmt.Errorf("agents that call agents are nested deeper than %d levels", MaxDepth)
		}
	}
	if n.Home {
		st.Home = r.options.Node
	}
	if err := r.storage.create(ctx, st); err != nil {
		return nil, err
	}
	if err := r.index.add(ctx, st.ID); err != nil {
		return nil, errors.Join(err, r.options.Store.Delete(context.WithoutCancel(ctx), stateKey+st.ID))
	}
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
// computed are omitted.
func (r *Runner) View(ctx context.Context, st *State) *View {
	v := st.View()
	if agent := r.options.Agent(st.Agent); agent != nil {
		if exposed, err := r.options.Guard.Exposed(ctx, st.binding(agent)); err == nil && len(agent.Exposes) > 0 {
			v.Exposes = exposed.Object
		}
	}
	return v
}

func (s *State) binding(agent *oagent.Agent) oagent.Binding {
	return oagent.Binding{Agent: agent, Engagement: s.ID, User: s.User}
}

// AddInput adds a message from the user. The agent reads it in its next step. The error is
// ErrEnded, ErrFull, or describes a problem with the text.
func (r *Runner) AddInput(ctx context.Context, id, text string) (*State, error) {
	if err := checkInput(text); err != nil {
		return nil, err
	}
	in := Input{ID: rand.Text(), Text: text}
	st, err := r.storage.change(ctx, id, func(st *State) ([]entry, error) {
		switch {
		case st.Status.IsFinal():
			return nil, ErrEnded
		case len(st.Inputs) >= MaxInputs:
			return nil, ErrFull
		}
		st.Inputs = append(st.Inputs, in)
		if st.question() >= 0 && st.Status == StatusAwaitingInput {
			st.Status = StatusAwaitingModel // it no longer waits for the user
		}
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	r.push(ctx, st)
	return st, nil
}

// Cancel ends a run and interrupts its current step. A step on another node is interrupted by a
// job in that node's queue, or when the node renews its lease, which happens within a third of
// Options.Lease. The error is ErrEnded if the run has ended.
func (r *Runner) Cancel(ctx context.Context, id string) (*State, error) {
	var tasks []string
	var held *lease
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
	r.interrupt(id)
	if held != nil && held.Node != r.options.Node && r.options.Queue != nil {
		r.report(id, r.options.Queue.Push(context.WithoutCancel(ctx), id, held.Node))
	}
	for _, task := range tasks {
		finalizer{r}.cancelTask(ctx, task)
	}
	finalizer{r}.finalize(ctx, st)
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
func (r *Runner) push(ctx context.Context, st *State) {
	if r.IsClosing() {
		r.handOver(st)
		return
	}
	if r.options.Queue == nil || st.Home == r.options.Node {
		_ = r.local.Push(ctx, st.ID, st.Home)
		return
	}
	ctx = context.WithoutCancel(ctx)
	home := st.Home
	if home != "" {
		if alive, _ := (presence{r}).isAlive(ctx, home); !alive {
			home = "" // any node
		}
	}
	r.report(st.ID, r.options.Queue.Push(ctx, st.ID, home))
}

func (r *Runner) report(id string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, store.ErrClosed) {
		r.options.Report(id, err)
	}
}

// dispatch takes jobs from a queue and works on their runs.
func (r *Runner) dispatch(q store.Queue) {
	for wait := retryPause; r.running.Err() == nil; {
		select {
		case r.workers <- struct{}{}:
		case <-r.running.Done():
			return
		}
		job, ack, err := q.Take(r.running, r.options.Node)
		if err != nil {
			<-r.workers
			r.report("", err)
			wait = min(2*wait, maxRetryPause)
			pause(r.running, wait)
			continue
		}
		wait = retryPause
		r.ended.Go(func() {
			defer func() { <-r.workers }()
			r.work(job, ack)
		})
	}
}

const (
	retryPause    = 200 * time.Millisecond // after the first error of the store or of the queue
	maxRetryPause = 10 * time.Second
)

// pause waits, or returns when the context ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// work claims a run, and works on it until the run waits or ends. It acknowledges the job as soon
// as the run is leased: if this node dies later, another node finds the run when the lease expires.
func (r *Runner) work(id string, ack func()) {
	e, err := r.claim(r.working, id)
	ack()
	if errors.Is(err, ErrEnded) { // another node has canceled it
		r.interrupt(id)
		return
	}
	if e == nil {
		if !errors.Is(err, ErrNotFound) {
			r.report(id, err)
		}
		return
	}
	r.mu.Lock()
	r.active[id] = e
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.active, id)
		r.mu.Unlock()
		e.cancel(nil)
		e.endTrace(e.state)
	}()
	r.report(id, e.drive())
}

// interrupt aborts the current step of a run on this node, because the run has ended.
func (r *Runner) interrupt(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.active[id]; e != nil {
		e.cancel(errLost)
	}
}

// Working returns the number of runs that this node is working on, without those that wait.
func (r *Runner) Working() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.active)
}

// Waiting returns the number of waiting runs of all nodes that share the store, as of the last
// sweep of this node.
func (r *Runner) Waiting() int { return int(r.waiting.Load()) }

// IsClosing reports whether Close was called.
func (r *Runner) IsClosing() bool { return r.running.Err() != nil }
