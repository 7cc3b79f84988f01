package run

import (
	"context"
	"maps"
	"math"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

// scheduler holds the queued jobs of this node and divides the workers among their owners. The owners take
// turns, and shares bind as package share describes: an owner with many long runs leaves workers for others.
type scheduler struct {
	limit   int
	workers *share.Bound

	mu      sync.Mutex
	changed sync.Cond // a job was added, or a worker became free
	jobs    map[share.Owner][]*job
	turns   []share.Owner // with jobs; the first has the next turn
	queued  map[string]bool
	lanes   [store.Lanes]int // number of jobs
	running int              // workers in use
	closed  bool
}

// job is a run to claim.
type job struct {
	id    string
	owner share.Owner
	ack   func()
}

func (j *job) shared() store.Job { return store.Job{ID: j.id, Owner: string(j.owner)} }

func newScheduler(workers int) *scheduler {
	s := &scheduler{
		limit: workers, workers: share.NewBound(share.Options{Name: "workers", Limit: int64(workers)}),
		jobs: make(map[share.Owner][]*job), queued: make(map[string]bool),
	}
	s.changed.L = &s.mu
	return s
}

// push adds a job, unless the run is already queued. It returns false if the scheduler is closed.
func (s *scheduler) push(j *job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.queued[j.id] {
		j.ack()
		return true
	}
	s.queued[j.id] = true
	s.lanes[j.shared().Lane()]++
	if len(s.jobs[j.owner]) == 0 {
		s.turns = append(s.turns, j.owner)
	}
	s.jobs[j.owner] = append(s.jobs[j.owner], j)
	s.changed.Broadcast()
	return true
}

// next waits for a job whose owner may have a worker, and takes both. It returns nil if ctx ends.
func (s *scheduler) next(ctx context.Context) (next *job) {
	s.await(ctx, func() bool {
		i := s.eligible()
		if i < 0 {
			return false
		}
		owner := s.turns[i]
		_ = s.workers.Take(owner, 1) // only this goroutine takes workers, so it succeeds as Check did
		s.running++
		next = s.jobs[owner][0]
		s.turns = slices.Delete(s.turns, i, i+1)
		if s.jobs[owner] = s.jobs[owner][1:]; len(s.jobs[owner]) > 0 {
			s.turns = append(s.turns, owner)
		} else {
			delete(s.jobs, owner) // releases the memory of a long queue
		}
		delete(s.queued, next.id)
		s.lanes[next.shared().Lane()]--
		s.changed.Broadcast()
		return true
	})
	return next
}

// eligible returns the position in turns of the next owner that may have a worker, or -1.
func (s *scheduler) eligible() int {
	return slices.IndexFunc(s.turns, func(o share.Owner) bool { return s.workers.Check(o, 1) == nil })
}

// awaitFree waits until a worker has nothing to do, or ctx ends.
func (s *scheduler) awaitFree(ctx context.Context) {
	s.await(ctx, func() bool { return s.running < s.limit && s.eligible() < 0 })
}

// await waits until ready returns true, or ctx ends. ready is called with s.mu held.
func (s *scheduler) await(ctx context.Context, ready func() bool) {
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})()
	s.mu.Lock()
	defer s.mu.Unlock()
	for ctx.Err() == nil && !ready() {
		s.changed.Wait()
	}
}

// done returns the worker of a job.
func (s *scheduler) done(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workers.Give(j.owner, 1)
	s.running--
	s.changed.Broadcast()
}

// close makes push add no more jobs. It returns those that no worker has taken.
func (s *scheduler) close() (jobs []*job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, queued := range s.jobs {
		jobs = append(jobs, queued...)
	}
	return jobs
}

// isFree reports whether a job that is added now gets a worker at once.
func (s *scheduler) isFree(owner share.Owner) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.turns) == 0 && s.workers.Check(owner, 1) == nil
}

// holds reports whether jobs of a lane are queued.
func (s *scheduler) holds(lane int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lanes[lane] > 0
}

// Len returns the number of queued jobs.
func (s *scheduler) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queued)
}

// admission counts the runs in progress by user: those that are queued, or that a node works on. Runs that
// wait for someone do not count, those that wait for their model do. Runs of other nodes are counted by the sweep.
type admission struct {
	bound *share.Bound

	mu   sync.Mutex
	held map[string]share.Owner // by run
}

func newAdmission(o *Options) *admission {
	return &admission{
		bound: share.NewBound(share.Options{Name: "runs of agents in progress", Limit: int64(o.Workers) * runsPerWorker, Warn: o.Warn}),
		held:  make(map[string]share.Owner),
	}
}

// admit counts a new run, or returns a *share.FullError. A run that another run starts is not refused,
// because that one is in progress already.
func (a *admission) admit(of *Assignment) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.held[of.ID]; ok {
		return nil
	}
	err := a.bound.Take(of.owner(), 1)
	if err == nil {
		a.held[of.ID] = of.owner()
	}
	if of.Parent != "" {
		return nil
	}
	return err
}

// hold counts a run that was admitted before, if there is room.
func (a *admission) hold(of *Assignment) { _ = a.admit(of) }

// release stops counting a run, because it waits or has ended.
func (a *admission) release(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if owner, ok := a.held[id]; ok {
		delete(a.held, id)
		a.bound.Give(owner, 1)
	}
}

// ids returns the runs that are counted.
func (a *admission) ids() map[string]share.Owner {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.held)
}

// activities are the runs that this node works on.
type activities struct {
	mu   sync.Mutex
	runs map[string]*activity
}

// activity is the work of this node on one run.
type activity struct {
	execution *execution // nil while the run is claimed
	again     bool       // there was another job for the run
}

// begin reports whether this is the only work on the run at the moment.
func (a *activities) begin(id string) (first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if current := a.runs[id]; current != nil {
		current.again = true
		return false
	}
	a.runs[id] = new(activity)
	return true
}

// set sets the execution of a run whose work has begun; nil if there is none.
func (a *activities) set(id string, e *execution) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs[id].execution = e
}

// end ends the work on a run. It reports whether there was another job for the run in the meantime.
func (a *activities) end(id string) (again bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	again = a.runs[id].again
	delete(a.runs, id)
	return again
}

// interrupt aborts the current step of a run, because the round of the run has ended.
func (a *activities) interrupt(id string, round int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if current := a.runs[id]; current != nil && current.execution != nil && current.execution.round <= round {
		current.execution.cancel(lease.ErrLost)
	}
}

// count returns the number of runs that have an execution.
func (a *activities) count() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, current := range a.runs {
		if current.execution != nil {
			n++
		}
	}
	return n
}

const (
	minWorkers   = 64 // of defaultWorkers
	maxWorkers   = 1024
	workerMemory = 16 << 20 // bytes of the limit for each worker; an average run needs about 1.4 MB
)

// defaultWorkers returns the default number of runs that a node works on at the same time. A run mostly waits
// for its model, so the number depends on the memory limit of the process (GOMEMLIMIT, which Caddy sets from
// the cgroup or the system): one run for each 16 MiB, at least 64 and at most 1024. Without a limit it is 64.
func defaultWorkers() int {
	memory := debug.SetMemoryLimit(-1) // a negative limit only reads it
	if memory == math.MaxInt64 {
		return minWorkers
	}
	return int(min(max(memory/workerMemory, minWorkers), maxWorkers))
}
