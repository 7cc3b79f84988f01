package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	sampleEvery = 2 * time.Second
	window      = 5 * time.Second // of which there is one percentile
	maxFiles    = 64 << 20        // bytes of the data of a node
	maxRedis    = 128 << 20       // bytes in use by Redis; half of its maxmemory
	maxFaults   = 20              // kinds that are printed

	// The growth in the second half is noise up to this part of the mean, or up to these numbers. A short run still
	// fills caches then. In the half hour of a whole run, 8 MB are 50 bytes for each call.
	maxGrowth           = 0.15
	maxGrowthHeap       = 8 << 20 // bytes
	maxGrowthRedis      = 8 << 20 // bytes, of keys that live less than half of the run
	maxGrowthGoroutines = 150     // streams and connections of users come and go, most of all at a reload

	maxLeft = 30 // goroutines that a node has without users after the run, more than before it
)

// report collects what happened.
type report struct {
	site  *site
	began time.Time

	mu       sync.Mutex
	outcomes map[string]map[string]int // by action and outcome
	took     map[int][]time.Duration   // of successful quick actions without troubles, by the number of the window
	things   map[string]thing          // by name
	events   map[string]int
	troubles []period          // when nodes or Redis are down
	faults   map[string]*fault // by the beginning of the message
	count    int               // of faults
	samples  []sample
	stored   []stored
	length   time.Duration
	idle     [2]float64 // goroutines of the first node without users, before and after the run
}

type period struct{ from, to time.Time }

// thing is what an action creates at the API.
type thing struct {
	action    string
	confirmed bool // to the client
}

// fault is the first of similar faults.
type fault struct {
	at    time.Duration
	text  string
	count int
}

// sample is the state of the first node, which is never killed, and of Redis.
type sample struct {
	at                      time.Duration
	goroutines, heap, redis float64 // heap: what was left by the last garbage collection
	redisTook               time.Duration
}

func newReport(s *site) *report {
	return &report{site: s, began: time.Now(), outcomes: make(map[string]map[string]int), took: make(map[int][]time.Duration), things: make(map[string]thing), events: make(map[string]int), faults: make(map[string]*fault)}
}

func (r *report) fault(format string, arguments ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	text := fmt.Sprintf(format, arguments...)
	kind := text[:min(len(text), 60)]
	if f := r.faults[kind]; f != nil {
		f.count++
	} else if len(r.faults) < maxFaults {
		r.faults[kind] = &fault{time.Since(r.began), text, 1}
	}
}

func (r *report) event(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events[name]++
}

// trouble notes that errors are to be expected from now on for d.
func (r *report) trouble(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.troubles = append(r.troubles, period{time.Now(), time.Now().Add(d)})
}

// troubled reports whether errors were to be expected at some time since from.
func (r *report) troubled(from time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.troubles, func(p period) bool { return p.to.After(from) && p.from.Before(time.Now()) })
}

// tried notes that the action may create the thing from now on.
func (r *report) tried(action, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.things[name] = thing{action: action}
}

// confirmed notes that a client has a response that says that the thing was created.
func (r *report) confirmed(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.things[name] = thing{r.things[name].action, true}
}

// slowActions have no part in the percentiles.
var slowActions = []string{"MCP stream", "MCP task", "slow API", "hosted run", "hosted run with a review", "MCP tools/list of a document"}

func (r *report) acted(action, outcome string, began time.Time, cause error) {
	troubled := r.troubled(began)
	if outcome != done && !troubled && (action != "failing API" || outcome == refused) {
		r.fault("%s: %s while all was well; the last error of a connection: %v", action, outcome, cause)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outcomes[action] == nil {
		r.outcomes[action] = make(map[string]int)
	}
	r.outcomes[action][outcome]++
	if outcome == done && !troubled && !slices.Contains(slowActions, action) {
		n := int(time.Since(r.began) / window)
		r.took[n] = append(r.took[n], time.Since(began))
	}
}

// sample samples until the context ends.
func (r *report) sample(ctx context.Context) {
	deadline, _ := ctx.Deadline()
	r.mu.Lock()
	r.length = time.Until(deadline)
	r.mu.Unlock()
	for wait(ctx, sampleEvery); ctx.Err() == nil; wait(ctx, sampleEvery) {
		metrics, err := r.site.nodes[0].metrics(ctx)
		if err != nil {
			if ctx.Err() == nil {
				r.fault("metrics: %v", err)
			}
			continue
		}
		s := sample{at: time.Since(r.began), goroutines: metrics["go_goroutines"], heap: metrics["go_memstats_next_gc_bytes"] / 2, redis: math.NaN()}
		asked := time.Now()
		info, err := r.site.client.Info(ctx).Result()
		s.redisTook = time.Since(asked)
		if err == nil {
			if _, after, found := strings.Cut(info, "used_memory:"); found {
				line, _, _ := strings.Cut(after, "\r")
				s.redis, _ = strconv.ParseFloat(line, 64)
			}
		}
		r.mu.Lock()
		r.samples = append(r.samples, s)
		r.mu.Unlock()
		if s.at < r.length*time.Duration(len(r.stored)+1)/storedTimes {
			continue
		}
		if kinds, err := r.site.stored(ctx); err == nil { // Redis is down from time to time
			r.stored = append(r.stored, stored{s.at, kinds})
		}
	}
}

// before counts the goroutines of the first node before the run.
func (r *report) before(ctx context.Context) error {
	metrics, err := r.site.nodes[0].metrics(ctx)
	r.idle[0] = metrics["go_goroutines"]
	return err
}

// after counts them when all users have ended, without idle connections to the API. Requests and streams may take some
// time to end.
func (r *report) after(ctx context.Context) {
	for _, server := range r.site.served {
		server.SetKeepAlivesEnabled(false)
	}
	for range 20 {
		metrics, err := r.site.nodes[0].metrics(ctx)
		if r.idle[1] = metrics["go_goroutines"]; err == nil && r.idle[1] <= r.idle[0]+maxLeft {
			return
		}
		wait(ctx, time.Second)
	}
}

// metrics returns the metrics of the node that have no labels.
func (n *node) metrics(ctx context.Context) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.admin+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if errors.Is(err, syscall.ECONNRESET) { // a reload ends the admin endpoint of the old configuration, as in user.do
		response, err = http.DefaultClient.Do(request)
	}
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err != nil {
		return nil, err
	}
	values := make(map[string]float64)
	for line := range strings.Lines(string(body)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil && !strings.HasPrefix(line, "#") {
			values[name] = v
		}
	}
	return values, nil
}

// trend fits a line to the values of the second half, and returns their mean, the growth in that time, and twice
// its standard error.
func trend(samples []sample, value func(sample) float64) (mean, growth, noise float64) {
	var at, v []float64
	for _, s := range samples[len(samples)/2:] {
		if x := value(s); !math.IsNaN(x) {
			at, v = append(at, s.at.Seconds()), append(v, x)
		}
	}
	n := float64(len(v))
	if n < 3 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	var sumT, sumV float64
	for i := range v {
		sumT, sumV = sumT+at[i], sumV+v[i]
	}
	meanT, mean := sumT/n, sumV/n
	var tt, tv float64
	for i := range v {
		tt, tv = tt+(at[i]-meanT)*(at[i]-meanT), tv+(at[i]-meanT)*(v[i]-mean)
	}
	slope, rest := tv/tt, 0.0
	for i := range v {
		d := v[i] - mean - slope*(at[i]-meanT)
		rest += d * d
	}
	span := at[len(at)-1] - at[0]
	return mean, slope * span, 2 * math.Sqrt(rest/(n-2)/tt) * span
}

// verdict is a line of the table.
func verdict(ok bool, name, format string, arguments ...any) bool {
	text := "ok"
	if !ok {
		text = "FAILED"
	}
	fmt.Printf("%-7s %-44s %s\n", text, name, fmt.Sprintf(format, arguments...))
	return ok
}

// print prints the table. The error says that a check has failed.
func (r *report) print() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := 0
	fmt.Printf("\n%-32s %8s  %s\n", "action", "count", "outcomes")
	for _, a := range actions {
		sum, texts := 0, []string{}
		for _, outcome := range slices.Sorted(maps.Keys(r.outcomes[a.name])) {
			n := r.outcomes[a.name][outcome]
			sum += n
			texts = append(texts, fmt.Sprintf("%s %d", outcome, n))
		}
		calls += sum
		fmt.Printf("%-32s %8d  %s\n", a.name, sum, strings.Join(texts, ", "))
	}
	fmt.Printf("\n%.0f s, %.0f actions a second, %v\n\n", r.length.Seconds(), float64(calls)/r.length.Seconds(), r.events)

	ok := r.printCounts()
	ok = printTrend(r.samples, "goroutines of the first node", 1, maxGrowthGoroutines, func(s sample) float64 { return s.goroutines }) && ok
	ok = verdict(r.idle[1] > 0 && r.idle[1] <= r.idle[0]+maxLeft, "the same without users, before and after", "%.0f %.0f", r.idle[0], r.idle[1]) && ok
	ok = printTrend(r.samples, "live heap of the first node, MB", 1<<20, maxGrowthHeap, func(s sample) float64 { return s.heap }) && ok
	ok = r.printRedis() && ok
	for i, n := range r.site.nodes {
		size := folderSize(n.dir)
		ok = verdict(size < maxFiles, fmt.Sprintf("files of node %d", i+1), "%.1f MB, limit %d", float64(size)/(1<<20), maxFiles>>20) && ok
		log, err := os.ReadFile(n.logPath())
		panics := bytes.Count(log, []byte("panic"))
		ok = verdict(err == nil && panics == 0, fmt.Sprintf("panics of node %d", i+1), "%d, in %d bytes of log", panics, len(log)) && ok
	}
	ok = r.printPercentile(0.5, 2, 5*time.Millisecond) && ok
	ok = r.printPercentile(0.99, 3, 100*time.Millisecond) && ok
	ok = verdict(r.count == 0, "other faults", "%d", r.count) && ok
	for _, kind := range slices.Sorted(maps.Keys(r.faults)) {
		f := r.faults[kind]
		fmt.Printf("%7d times, first after %.0fs: %s\n", f.count, f.at.Seconds(), f.text)
	}
	if !ok {
		return errors.New("a check has failed")
	}
	return nil
}

// printRedis prints the memory of Redis, and its slowest answer while it ran, which explains errors of the store.
func (r *report) printRedis() bool {
	most, slowest := 0.0, sample{}
	for _, s := range r.samples {
		if math.IsNaN(s.redis) {
			continue
		}
		most = max(most, s.redis)
		if s.redisTook > slowest.redisTook {
			slowest = s
		}
	}
	ok := verdict(most > 0 && most < maxRedis, "memory of Redis", "%.1f MB at most, limit %d", most/(1<<20), maxRedis>>20)
	ok = r.printStored() && ok
	verdict(true, "slowest answer of Redis", "%s after %.0fs", slowest.redisTook.Round(time.Millisecond), slowest.at.Seconds())
	return ok
}

// printCounts compares the responses to clients with what the API has counted.
func (r *report) printCounts() bool {
	confirmed, lost, twice := 0, []string{}, []string{}
	for name, t := range r.things {
		n := r.site.api.count(name)
		if t.confirmed {
			confirmed++
		}
		if t.confirmed && n == 0 {
			lost = append(lost, t.action+" "+name)
		}
		if n > 1 {
			twice = append(twice, t.action+" "+name)
		}
	}
	ok := verdict(len(lost) == 0, "confirmed and lost", "%d of %d %q", len(lost), confirmed, lost[:min(5, len(lost))])
	return verdict(len(twice) == 0, "done twice", "%d of %d %q", len(twice), len(r.things), twice[:min(5, len(twice))]) && ok
}

func printTrend(samples []sample, name string, unit, most float64, value func(sample) float64) bool {
	mean, growth, noise := trend(samples, value)
	return verdict(growth <= max(maxGrowth*mean, noise, most), name, "%.1f on average, %+.1f in the second half, ± %.1f", mean/unit, growth/unit, noise/unit)
}

// percentile returns the median of the percentiles of the windows, so that a load on the machine that lasts some seconds does
// not count.
func (r *report) percentile(p float64, from, to int) time.Duration {
	var each []time.Duration
	for n := from; n < to; n++ {
		if len(r.took[n]) > 0 {
			each = append(each, percentile(r.took[n], p))
		}
	}
	return percentile(each, 0.5)
}

// printPercentile compares the first and the last third of the run. The percentile may grow by the factor, and by more
// time. With twice as many processes as cores, p99 alone varies by a factor of 4.
func (r *report) printPercentile(p, factor float64, more time.Duration) bool {
	third := int(r.length / window / 3)
	first, last := r.percentile(p, 0, third), r.percentile(p, 2*third, 3*third)
	name := fmt.Sprintf("p%.0f of quick calls, first and last third", 100*p)
	return verdict(last <= time.Duration(factor*float64(first))+more, name, "%s %s", first, last)
}

func percentile(all []time.Duration, p float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[int(p*float64(len(all)-1))].Round(100 * time.Microsecond)
}

func folderSize(dir string) (size int64) {
	filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size
}
