package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"github.com/fairwayhq/fairway/store"
)

// crashSeeds is the number of random runs, unless FAIRWAY_CRASH_SEEDS sets it.
const crashSeeds = 300

// crashOptions are options with which all that writes to the disk happens often.
func crashOptions(d disk) Options {
	return Options{
		MaxRecords: 14, MaxBytes: 30_000,
		sweepInterval: 40 * time.Millisecond, flushInterval: 5 * time.Millisecond, memtableChanges: 8, maxBufferedChanges: 24,
		walGrowth: 2 * zerosAtOnce, disk: d,
	}
}

// TestCrashes runs random changes on a simulated disk, and lets the disk fail and the machine or the process crash.
// After each crash the store must open, and have all durable changes and none by half. To repeat a seed that
// fails, set FAIRWAY_CRASH_SEED.
func TestCrashes(t *testing.T) {
	first, seeds := 1, crashSeeds
	if n, err := strconv.Atoi(os.Getenv("FAIRWAY_CRASH_SEEDS")); err == nil {
		seeds = n
	}
	if n, err := strconv.Atoi(os.Getenv("FAIRWAY_CRASH_SEED")); err == nil {
		first, seeds = n, 1
	}
	failed := 0
	for seed := first; seed < first+seeds && failed < 10; seed++ {
		var r *crashRun
		synctest.Test(t, func(t *testing.T) {
			r = newCrashRun(t, uint64(seed))
			r.all(t)
		})
		if len(r.model.faults) > 0 {
			failed++
			t.Errorf("%s\nrepeat it: FAIRWAY_CRASH_SEED=%d go test -run '^TestCrashes$' ./store/embedded\nit ended with %s", r.model.faults[0], seed, r.story)
		}
	}
}

// crashRun is a sequence of processes on one simulated disk, each of which crashes.
type crashRun struct {
	random *rand.Rand
	disk   *simDisk
	model  *model
	keys   []string
	number [crashWorkers]int
	story  []string
}

const (
	crashWorkers = 3
	crashKeys    = 7 // for each worker
)

func newCrashRun(t *testing.T, seed uint64) *crashRun {
	r := &crashRun{random: rand.New(rand.NewPCG(seed, 0)), model: newModel()}
	r.disk = newSimDisk(t, rand.New(rand.NewPCG(seed, 1)))
	for i := range crashWorkers * crashKeys {
		r.keys = append(r.keys, fmt.Sprintf("k%02d", i))
	}
	return r
}

func (r *crashRun) tell(format string, arguments ...any) {
	r.story = append(r.story, fmt.Sprintf(format, arguments...))
}

// all runs some processes, and checks at the end what is left.
func (r *crashRun) all(t *testing.T) {
	for range 2 + r.random.IntN(3) {
		r.disk.makeAfter = r.disk.powerLoss
		crash := "loss of power"
		if r.random.IntN(3) == 0 {
			r.disk.makeAfter = r.disk.kill
			crash = "kill"
		}
		r.disk.crashAt = []int{0, 1 + r.random.IntN(40), 1 + r.random.IntN(150), 1 + r.random.IntN(400)}[r.random.IntN(4)]
		r.disk.failFrom = 0
		if r.random.IntN(3) == 0 {
			r.disk.failFrom = 1 + r.random.IntN(200)
			r.disk.failTo = r.disk.failFrom + []int{1, 1, 5, 40, 10_000}[r.random.IntN(5)]
			r.disk.failWith = []error{syscall.EIO, syscall.ENOSPC}[r.random.IntN(2)]
		}
		r.tell("%s at operation %d, %v at operations %d to %d", crash, r.disk.crashAt, r.disk.failWith, r.disk.failFrom, r.disk.failTo)
		r.process(t)
		if len(r.model.faults) > 0 {
			return
		}
		r.disk = r.disk.crash()
	}
	r.disk.crashAt, r.disk.failFrom = 0, 0
	r.disk.makeAfter = r.disk.powerLoss
	r.process(t)
	_ = os.RemoveAll(r.disk.folder)
}

// process opens the store, checks it, and changes it until the disk crashes.
func (r *crashRun) process(t *testing.T) {
	d := r.disk
	r.model.crashed = d.crashed
	options := crashOptions(d)
	options.Failed = func(err error) {
		if !errors.Is(err, errCrashed) && !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.ENOSPC) {
			r.model.fault("failed: %v", err)
		}
	}
	var s *Store
	for {
		var err error
		before := d.count()
		s, err = Open(d.path(), options)
		if err == nil {
			break
		}
		r.tell("open: %v", err)
		switch {
		case d.crashed():
			return
		case d.failFrom == 0 || d.count() < d.failFrom || d.count() == before:
			r.model.fault("the store does not open: %v", err)
			return
		case d.count() >= d.failTo:
			d.mu.Lock()
			d.failFrom = 0 // the next attempt must not fail
			d.mu.Unlock()
		case d.failTo > d.count()+1000:
			return // the disk stays broken until the crash
		}
	}
	r.model.check(t.Context(), s, r.keys, !d.crashed())
	r.model.checkFile(s)
	r.work(t, s)
	if !d.crashed() && d.failFrom > 0 && d.count() >= d.failTo { // the store recovers
		err := errors.New("not tried")
		for range 10 {
			time.Sleep(flushRetry)
			if err = s.Put(t.Context(), "probe", store.Change{TTL: time.Millisecond}); err == nil || errors.Is(err, store.ErrFull) {
				err = nil
				break
			}
		}
		if !d.crashed() && err != nil {
			r.model.fault("after the disk works again: %v", err)
		}
	}
	if d.crashed() || r.random.IntN(3) > 0 { // else the crash comes while the store is open
		err := s.Close()
		switch {
		case err == nil && !d.crashed() && (d.failFrom == 0 || d.count() < d.failFrom):
			r.model.ackAll()
		case err != nil && !d.crashed() && d.count() < d.failFrom:
			r.model.fault("close: %v", err)
		}
		return
	}
	d.mu.Lock()
	d.after = d.makeAfter()
	d.mu.Unlock()
	_ = s.Close()
}

// work makes random changes until the disk crashes, or for some time.
func (r *crashRun) work(t *testing.T, s *Store) {
	changes := 5 + r.random.IntN(60)
	var all sync.WaitGroup
	for i := range crashWorkers {
		w := worker{
			random: rand.New(rand.NewPCG(r.random.Uint64(), 0)), store: s, model: r.model,
			keys: r.keys[i*crashKeys : (i+1)*crashKeys], number: &r.number[i], pause: 10 * time.Millisecond,
		}
		all.Go(func() {
			for range changes {
				if err := w.change(t.Context()); errors.Is(err, errCrashed) {
					return
				}
				if w.random.IntN(3) == 0 {
					time.Sleep(time.Duration(w.random.Int64N(int64(w.pause))))
				}
			}
		})
	}
	all.Wait()
	r.model.check(t.Context(), s, r.keys, false)
}

// TestEachError fails each operation on the disk in turn, and checks that the store works again afterwards and
// after a loss of power.
func TestEachError(t *testing.T) {
	run := func(t *testing.T, failAt int, with error) (r *crashRun, operations int) {
		synctest.Test(t, func(t *testing.T) {
			r = newCrashRun(t, 1)
			r.disk.makeAfter = r.disk.powerLoss
			r.disk.failFrom, r.disk.failTo, r.disk.failWith = failAt, failAt+1, with
			r.process(t)
			operations = r.disk.count()
			r.tell("%v at operation %d", with, failAt)
			if failAt > 0 && failAt <= operations {
				r.tell("which is: %s", r.disk.kinds[failAt-1])
			}
			r.disk = r.disk.crash()
			r.disk.makeAfter = r.disk.powerLoss
			r.process(t)
		})
		return r, operations
	}
	r, operations := run(t, 0, nil)
	if len(r.model.faults) > 0 || operations < 100 {
		t.Fatalf("%d operations without errors: %q", operations, r.model.faults)
	}
	for _, with := range []error{syscall.EIO, syscall.ENOSPC} {
		for at := 1; at <= operations; at++ {
			if r, _ := run(t, at, with); len(r.model.faults) > 0 {
				t.Fatalf("%s\nit ended with %s", r.model.faults[0], r.story)
			}
		}
	}
}

// TestErrorThenCrash fails some operations on the disk and then loses the power, at each combination of places in
// a short sequence of changes and flushes. Some faults need just that: what an error leaves must not matter later.
func TestErrorThenCrash(t *testing.T) {
	run := func(t *testing.T, seed uint64, failFrom, failTo, crashAt int) (operations int) {
		synctest.Test(t, func(t *testing.T) {
			r := newCrashRun(t, seed)
			r.disk.makeAfter = r.disk.powerLoss
			options := crashOptions(r.disk)
			options.flushInterval = time.Hour
			s, err := Open(r.disk.path(), options)
			if err != nil {
				t.Fatal(err)
			}
			opened := r.disk.count()
			r.model.crashed = r.disk.crashed
			r.disk.mu.Lock()
			r.disk.failFrom, r.disk.failTo, r.disk.failWith = opened+failFrom, opened+failTo, syscall.EIO
			r.disk.crashAt = opened + crashAt
			r.disk.mu.Unlock()
			w := worker{random: rand.New(rand.NewPCG(1, 0)), store: s, model: r.model, keys: r.keys[:3], number: &r.number[0]}
			for range 5 {
				_ = w.change(t.Context()) // the model has what this means
				_ = w.change(t.Context())
				_ = s.buffer.waitForFlush(t.Context())
				if failed := r.disk.count() >= r.disk.failFrom; failed {
					time.Sleep(2 * flushRetry)
				}
			}
			operations = r.disk.count() - opened
			r.disk.mu.Lock()
			if r.disk.after == nil {
				r.disk.after = r.disk.powerLoss()
			}
			r.disk.mu.Unlock()
			_ = s.Close()
			r.disk = r.disk.crash()
			r.disk.makeAfter = r.disk.powerLoss
			r.process(t)
			if len(r.model.faults) > 0 {
				t.Fatalf("operations %d to %d fail, loss of power at %d, seed %d: %s\n%q", failFrom, failTo, crashAt, seed, r.model.faults[0], r.story)
			}
		})
		return operations
	}
	const never = 10_000
	operations := run(t, 1, never, never, never)
	if operations < 20 {
		t.Fatalf("the sequence has %d operations", operations)
	}
	for failFrom := 1; failFrom <= operations; failFrom++ {
		for _, length := range []int{1, 4} {
			for crashAt := failFrom + length; crashAt < failFrom+length+12; crashAt++ {
				run(t, uint64(100*failFrom+crashAt), failFrom, failFrom+length, crashAt)
			}
		}
	}
}

// TestErrorOfTransaction fails the last sync of a transaction of the store file, and loses the power at each
// operation of the next one.
func TestErrorOfTransaction(t *testing.T) {
	const failAt = 5 // after two writes and a sync of data and a write of a meta page
	for seed := range 40 {
		for crashAt := 1; crashAt <= 6; crashAt++ {
			synctest.Test(t, func(t *testing.T) {
				r := newCrashRun(t, uint64(100*seed+crashAt))
				d := r.disk
				d.makeAfter = d.powerLoss
				s, err := Open(d.path(), crashOptions(d))
				if err != nil {
					t.Fatal(err)
				}
				r.model.crashed = d.crashed
				w := worker{random: rand.New(rand.NewPCG(1, 0)), store: s, model: r.model, keys: r.keys, number: &r.number[0]}
				for range 8 {
					if err := errors.Join(w.change(t.Context()), s.buffer.waitForFlush(t.Context())); err != nil {
						t.Fatal(err)
					}
				}
				put := func(n int) {
					_ = s.file.update(func(tx *bbolt.Tx) error {
						return tx.Bucket(bucketDeleted).Put(idKey(uint64(1000+n)), make([]byte, 3*pageSize))
					})
				}
				d.mu.Lock()
				d.failFrom, d.failTo, d.failWith = d.operations+failAt, d.operations+failAt+1, syscall.EIO
				d.mu.Unlock()
				put(1)
				d.mu.Lock()
				if last := d.kinds[len(d.kinds)-1]; d.operations != d.failFrom || last != "sync records.db" {
					t.Errorf("the last of the operations %q is not the sync of a meta page", d.kinds[d.operations-failAt:])
				}
				d.failFrom, d.crashAt = 0, d.operations+crashAt
				d.mu.Unlock()
				put(2)
				put(3)
				_ = s.Close()
				r.disk = d.crash()
				r.disk.makeAfter = r.disk.powerLoss
				r.process(t)
				if len(r.model.faults) > 0 {
					t.Errorf("seed %d, loss of power at %d: %s", seed, crashAt, r.model.faults[0])
				}
			})
		}
	}
}

// killedVariable has the path of the store, in a process that TestKill starts.
const killedVariable = "FAIRWAY_KILLED_STORE"

// report is a line that the child of TestKill prints.
type report struct {
	Tried  *version `json:",omitempty"` // is about to be made
	Acked  string   `json:",omitempty"` // is durable
	Number int
}

// TestKill kills a process that writes at random, and checks what it leaves.
func TestKill(t *testing.T) {
	if path, child := os.LookupEnv(killedVariable); child {
		killedChild(t, path)
	}
	r := &crashRun{random: rand.New(rand.NewPCG(rand.Uint64(), 0)), model: newModel()}
	path := filepath.Join(t.TempDir(), "records.db")
	for i := range crashWorkers * crashKeys {
		r.keys = append(r.keys, fmt.Sprintf("k%02d", i))
	}
	for round := range 12 {
		base, err := json.Marshal(r.model.versions)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+".model", base, 0o600); err != nil {
			t.Fatal(err)
		}
		r.killed(t, path)
		s, err := Open(path, crashOptions(osDisk{}))
		if err != nil {
			t.Fatalf("after kill %d the store does not open: %v", round, err)
		}
		r.model.check(t.Context(), s, r.keys, true)
		r.model.checkFile(s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for _, fault := range r.model.faults {
			t.Fatalf("after kill %d: %s", round, fault)
		}
	}
}

// killed starts a process, adds to the model what it reports, and kills it after some reports.
func (r *crashRun) killed(t *testing.T, path string) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, "-test.run=^TestKill$")
	command.Env = append(os.Environ(), killedVariable+"="+path)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	enough, seen := 1+r.random.IntN(400), 0
	for lines := json.NewDecoder(output); ; {
		var line report
		if err := lines.Decode(&line); err != nil {
			break // the last line may be cut
		}
		if line.Tried != nil {
			r.model.add(line.Tried)
		}
		for _, v := range r.model.versions[line.Acked] {
			v.acked = v.acked || v.Number == line.Number
		}
		if seen++; seen == enough {
			_ = command.Process.Kill()
		}
	}
	_ = command.Wait()
	if seen < enough {
		t.Fatalf("the process ended after %d reports", seen)
	}
}

// killedChild writes until it is killed.
func killedChild(t *testing.T, path string) {
	m := newModel()
	base, err := os.ReadFile(path + ".model")
	if err == nil {
		err = json.Unmarshal(base, &m.versions)
	}
	if err != nil {
		t.Fatal(err)
	}
	number := 0
	for _, all := range m.versions {
		for _, v := range all {
			v.acked = true
			number = max(number, v.Number)
		}
	}
	out := json.NewEncoder(os.Stdout)
	m.tried = func(v *version) { _ = out.Encode(report{Tried: v}) }
	m.acked = func(v *version) { _ = out.Encode(report{Acked: v.Key, Number: v.Number}) }
	s, err := Open(path, crashOptions(osDisk{}))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range crashWorkers {
		own := number
		w := worker{random: rand.New(rand.NewPCG(rand.Uint64(), 0)), store: s, model: m, number: &own}
		for k := range crashKeys {
			w.keys = append(w.keys, fmt.Sprintf("k%02d", i*crashKeys+k))
		}
		all.Go(func() {
			for !m.failed() {
				if err := w.change(t.Context()); err != nil {
					t.Errorf("change: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	t.Fatal(m.faults)
}
