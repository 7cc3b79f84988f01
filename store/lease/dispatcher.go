package lease

import (
	"context"
	"sync"
	"time"
)

// A Dispatcher does the jobs that scans of the store find: it scans at once, whenever it is woken, and at
// regular intervals. It limits how many jobs run at the same time, and remembers when each is due again. It
// has no state that must be kept: a job claims its record, so that it runs on one node only.
type Dispatcher struct {
	// Scan finds the open jobs, and calls visit with each. It returns false if it could not find all.
	Scan func(ctx context.Context, visit func(Job)) (all bool)
	// Interval is the time between two scans.
	Interval time.Duration
	// PerLane is how many jobs of one lane run at the same time, so that a slow lane does not delay others.
	PerLane int

	wakeups  chan struct{}
	scanning context.Context // ends with Stop
	cancel   context.CancelFunc
	working  context.Context // of the jobs
	abort    context.CancelFunc
	all      sync.WaitGroup

	mu    sync.Mutex
	lanes map[string]int // running jobs
	jobs  map[jobID]*jobState
}

// A Job is something to do about a record.
type Job struct {
	Lane, ID string // together they identify the job
	// Do does the job, and returns when it is due again; zero for never. It is called in a goroutine of its own.
	Do func(ctx context.Context) (again time.Time)
}

type jobID struct{ lane, id string }

// jobState is the state of a job that a scan has found.
type jobState struct {
	isRunning bool
	due       time.Time // zero if the job has ended
	isOpen    bool      // the latest scan has found it
}

// Start starts the Dispatcher.
func (d *Dispatcher) Start() {
	d.wakeups = make(chan struct{}, 1)
	d.lanes, d.jobs = make(map[string]int), make(map[jobID]*jobState)
	d.scanning, d.cancel = context.WithCancel(context.Background())
	d.working, d.abort = context.WithCancel(context.Background())
	d.all.Go(d.run)
}

// Stop ends the Dispatcher, and waits for the running jobs. After the grace time it cancels their context.
func (d *Dispatcher) Stop(grace time.Duration) {
	d.cancel()
	timer := time.AfterFunc(grace, d.abort)
	d.all.Wait()
	timer.Stop()
	d.abort()
}

// Wake makes the Dispatcher scan at once, because there is a new job.
func (d *Dispatcher) Wake() {
	select {
	case d.wakeups <- struct{}{}:
	default: // already signalled
	}
}

func (d *Dispatcher) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-d.scanning.Done():
			return
		case <-d.wakeups:
		case <-timer.C:
		}
		timer.Reset(d.scan())
	}
}

// scan starts the jobs that are due. It returns the time until the next scan.
func (d *Dispatcher) scan() time.Duration {
	next := time.Now().Add(d.Interval)
	d.forEachJob(func(_ jobID, s *jobState) { s.isOpen = false })
	all := d.Scan(d.scanning, func(job Job) {
		if due := d.visit(job); !due.IsZero() && due.Before(next) {
			next = due
		}
	})
	if all {
		d.forEachJob(func(id jobID, s *jobState) {
			if !s.isOpen && !s.isRunning {
				delete(d.jobs, id)
			}
		})
	}
	return max(time.Until(next), time.Millisecond)
}

func (d *Dispatcher) forEachJob(visit func(jobID, *jobState)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, s := range d.jobs {
		visit(id, s)
	}
}

// visit starts a job if it is due. Otherwise it returns when it is due; zero if only the end of another job, or
// nothing, makes it so.
func (d *Dispatcher) visit(job Job) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := jobID{job.Lane, job.ID}
	s := d.jobs[id]
	switch {
	case s == nil:
		s = &jobState{due: time.Now()}
		d.jobs[id] = s
	case s.isRunning, s.due.IsZero(), time.Now().Before(s.due):
		s.isOpen = true
		return s.due
	}
	s.isOpen = true
	if d.lanes[job.Lane] >= d.PerLane {
		return time.Time{}
	}
	d.lanes[job.Lane]++
	s.isRunning, s.due = true, time.Time{}
	d.all.Go(func() {
		again := job.Do(d.working)
		d.mu.Lock()
		d.lanes[job.Lane]--
		s.isRunning, s.due = false, again
		d.mu.Unlock()
		d.Wake()
	})
	return time.Time{}
}
