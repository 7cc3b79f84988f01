package lease_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairwayhq/fairway/store/lease"
)

// board has the jobs that scans find.
type board struct {
	mu    sync.Mutex
	open  []lease.Job
	runs  map[string]int
	scans int
}

func (b *board) scan(_ context.Context, visit func(lease.Job)) bool {
	b.mu.Lock()
	b.scans++
	open := b.open
	b.mu.Unlock()
	for _, job := range open {
		visit(job)
	}
	return true
}

// add adds a job that do does.
func (b *board) add(lane, id string, do func(ctx context.Context, run int) time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = append(b.open, lease.Job{Lane: lane, ID: id, Do: func(ctx context.Context) time.Time {
		b.mu.Lock()
		b.runs[id]++
		run := b.runs[id]
		b.mu.Unlock()
		return do(ctx, run)
	}})
}

func (b *board) wantRuns(t *testing.T, id string, want int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.runs[id] != want {
		t.Errorf("the job %s ran %d times, want %d", id, b.runs[id], want)
	}
}

func once(context.Context, int) time.Time { return time.Time{} }

// startBoard runs a test with a Dispatcher that scans every minute.
func startBoard(t *testing.T, test func(t *testing.T, b *board, d *lease.Dispatcher)) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{runs: make(map[string]int)}
		d := &lease.Dispatcher{Scan: b.scan, Interval: time.Minute, PerLane: 2}
		d.Start()
		synctest.Wait()
		test(t, b, d)
		d.Stop(0)
	})
}

func TestDispatcher_scans_regularly_and_when_woken(t *testing.T) {
	startBoard(t, func(t *testing.T, b *board, d *lease.Dispatcher) {
		b.add("a", "1", once)
		d.Wake()
		synctest.Wait()
		b.wantRuns(t, "1", 1)
		b.add("a", "2", once)
		synctest.Wait()
		b.wantRuns(t, "2", 0)
		time.Sleep(time.Minute)
		synctest.Wait()
		b.wantRuns(t, "2", 1)
		time.Sleep(time.Hour)
		b.wantRuns(t, "1", 1)
	})
}

func TestDispatcher_repeats_a_job_when_it_is_due(t *testing.T) {
	startBoard(t, func(t *testing.T, b *board, d *lease.Dispatcher) {
		b.add("a", "1", func(_ context.Context, run int) time.Time {
			if run == 3 {
				return time.Time{}
			}
			return time.Now().Add(10 * time.Second)
		})
		d.Wake()
		for run, wait := range []time.Duration{0, 10 * time.Second, 10 * time.Second, time.Hour} {
			time.Sleep(wait)
			synctest.Wait()
			b.wantRuns(t, "1", min(run+1, 3))
		}
	})
}

func TestDispatcher_limits_the_jobs_of_a_lane(t *testing.T) {
	startBoard(t, func(t *testing.T, b *board, d *lease.Dispatcher) {
		release := make(chan struct{})
		for i := range 3 {
			b.add("slow", fmt.Sprint(i), func(context.Context, int) time.Time {
				<-release
				return time.Time{}
			})
		}
		b.add("quick", "other", once)
		d.Wake()
		synctest.Wait()
		b.wantRuns(t, "1", 1)
		b.wantRuns(t, "2", 0)
		b.wantRuns(t, "other", 1)
		close(release)
		synctest.Wait()
		b.wantRuns(t, "2", 1)
	})
}

// TestDispatcher_forgets_jobs that a scan no longer finds, so that its memory does not grow.
func TestDispatcher_forgets_jobs(t *testing.T) {
	startBoard(t, func(t *testing.T, b *board, d *lease.Dispatcher) {
		b.add("a", "1", once)
		job := b.open
		d.Wake()
		synctest.Wait()
		b.open = nil
		d.Wake()
		synctest.Wait()
		b.open = job
		d.Wake()
		synctest.Wait()
		b.wantRuns(t, "1", 2)
	})
}

func TestDispatcher_stops(t *testing.T) {
	for _, grace := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			b := &board{runs: make(map[string]int)}
			d := &lease.Dispatcher{Scan: b.scan, Interval: time.Hour, PerLane: 1}
			b.add("a", "1", func(ctx context.Context, _ int) time.Time {
				<-ctx.Done()
				return time.Time{}
			})
			d.Start()
			synctest.Wait()
			start := time.Now()
			d.Stop(grace)
			if took := time.Since(start); took != grace {
				t.Errorf("the job was canceled after %s, want %s", took, grace)
			}
		})
	}
}
