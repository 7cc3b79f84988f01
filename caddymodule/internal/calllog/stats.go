package calllog

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/caddymodule/internal/keptcall"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
)

// Limits of statistics.
const (
	maxPoints  = 240             // points of a chart
	maxNamed   = 10_000          // tools, users or agents that are counted by name; further ones are counted as others
	maxTop     = 20              // tools, users or agents that are returned
	maxStats   = 64              // statistics that are kept for further requests
	statsTime  = 5 * time.Second // after which a computation ends with what it has
	sparkCount = 24              // values of Usage.Spark
)

// otherName is the name of the tools, users or agents beyond the limit.
const otherName = "(others)"

// StatsQuery selects the calls of Stats.
type StatsQuery struct {
	Site  string // "" for all
	User  string // the only user, if Own is set
	Own   bool
	Range time.Duration // until now

	Report bool // with Stats.Report
}

// Stats are the statistics of the calls of all nodes in a time range.
type Stats struct {
	From     time.Time    `json:"from"`
	To       time.Time    `json:"to"`
	Step     float64      `json:"step_seconds"` // of the points
	Outcomes []string     `json:"outcomes"`     // most frequent first; Point.Calls has the same order
	Points   []Point      `json:"points"`
	Total    Usage        `json:"total"`
	Tools    []Usage      `json:"tools"`   // those with the most calls first
	Slowest  []Usage      `json:"slowest"` // tools with the highest P95 first
	Failing  []Usage      `json:"failing"` // tools with the most failures first
	Users    []Usage      `json:"users"`
	Agents   []Usage      `json:"agents"`
	Report   []ToolReport `json:"report,omitzero"`  // those with the most failures first
	Partial  bool         `json:"partial,omitzero"` // the oldest calls are missing, because counting took too long
}

// Point has the calls that have ended in one step of time.
type Point struct {
	At    time.Time `json:"at"` // begin of the step
	Calls []int     `json:"calls"`
	P50   float64   `json:"p50_ms"`
	P95   float64   `json:"p95_ms"`
}

// End returns the end of the step of a point.
func (s *Stats) End(p Point) time.Time { return p.At.Add(time.Duration(s.Step * float64(time.Second))) }

// Usage counts the calls of a tool, a user or an agent.
type Usage struct {
	Name     string  `json:"name"` // "" for an unknown tool, for callers without authentication, for no agent
	Toolset  string  `json:"toolset,omitzero"`
	Calls    int     `json:"calls"`
	Failures int     `json:"failures"` // calls that did not succeed
	P50      float64 `json:"p50_ms"`
	P95      float64 `json:"p95_ms"`
	Size     int64   `json:"size"`                     // bytes of the responses
	Spark    []int   `json:"calls_over_time,omitzero"` // calls in equal parts of the time range
}

// statsCache holds statistics, so that pages need not wait for their computation.
type statsCache struct {
	mu  sync.Mutex
	all map[StatsQuery]*cachedStats

	counting sync.Mutex // held while one query is computed, so that many users do not read the store at once
}

type cachedStats struct {
	stats    *Stats // nil until the first computation has ended
	err      error
	computed time.Time
	took     time.Duration // of the last computation
	used     time.Time
	done     chan struct{} // closed at the end of the computation; nil if there is none
}

// Statistics are computed again after statsAge, or if that takes long, after statsShare times as long. A request waits statsWait for it,
// and gets those of an earlier request then.
const (
	statsAge   = 5 * time.Second
	statsShare = 10
	statsWait  = 2 * time.Second
)

// Stats returns the statistics of the calls. The first request of a query waits for their computation, and others for statsWait.
func (l *Log) Stats(ctx context.Context, q StatsQuery) (*Stats, error) {
	c := &l.stats
	c.mu.Lock()
	q.User = text.Cut(q.User, keptcall.MaxText)
	entry := c.all[q]
	if entry == nil {
		entry = new(cachedStats)
		c.makeRoom()
		c.all[q] = entry
	}
	now := time.Now()
	entry.used = now
	if entry.done == nil && now.Sub(entry.computed) >= max(statsAge, statsShare*entry.took) {
		entry.done = make(chan struct{})
		go l.compute(q, entry) //nolint:gosec // goes on after the request, for the next one
	}
	stats, err, done := entry.stats, entry.err, entry.done
	c.mu.Unlock()
	if done == nil {
		return stats, err
	}
	var waited <-chan time.Time // never for the first request
	if stats != nil {
		waited = time.After(statsWait)
	}
	select {
	case <-done:
	case <-waited:
		return stats, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return entry.stats, entry.err
}

// makeRoom removes the entry that was used least recently if there are too many.
func (c *statsCache) makeRoom() {
	if c.all == nil {
		c.all = make(map[StatsQuery]*cachedStats)
	}
	if len(c.all) < maxStats {
		return
	}
	oldest := slices.MinFunc(slices.Collect(maps.Keys(c.all)), func(a, b StatsQuery) int { return c.all[a].used.Compare(c.all[b].used) })
	delete(c.all, oldest)
}

// errTooMany reports that other requests have replaced an entry that waited for its computation.
var errTooMany = errors.New("too many statistics are requested at the same time")

// has reports whether the entry is still that of the query.
func (c *statsCache) has(entry *cachedStats, q StatsQuery) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[q] == entry
}

// compute computes the statistics of an entry, unless others have replaced it.
func (l *Log) compute(q StatsQuery, entry *cachedStats) {
	l.stats.counting.Lock()
	began := time.Now()
	var stats *Stats
	err := errTooMany
	if l.stats.has(entry, q) {
		ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
		stats, err = l.count(ctx, q)
		cancel()
	}
	l.stats.counting.Unlock()
	l.stats.mu.Lock()
	defer l.stats.mu.Unlock()
	entry.computed, entry.took = time.Now(), time.Since(began)
	if err == nil || entry.stats == nil {
		entry.stats = stats
	}
	entry.err = err
	close(entry.done)
	entry.done = nil
}

// count reads the calls of a time range, the newest first, and counts them.
func (l *Log) count(ctx context.Context, q StatsQuery) (*Stats, error) {
	now := time.Now()
	c := newCounter(q, now)
	c.succeeded = l.Options().Succeeded
	var memory []byte
	if err := l.waiting().backward(ctx, &memory, nil, c.add); err != nil {
		return nil, err
	}
	records, err := l.keeper.open(ctx)
	if err != nil {
		return nil, err
	}
	places, err := placesIn(ctx, records, c.from)
	if err != nil {
		return nil, err
	}
	for _, p := range slices.Backward(places) {
		if p.until < c.from.UnixMicro() {
			continue
		}
		if time.Since(now) > statsTime {
			c.partial = true
			break
		}
		b, err := readBlock(ctx, records, p)
		if err == nil {
			err = b.backward(ctx, &memory, nil, c.add)
		}
		if err != nil {
			return nil, err
		}
	}
	return c.stats(), nil
}

// counter counts calls.
type counter struct {
	query     StatsQuery
	succeeded func(outcome string) bool
	from, to  time.Time
	step      time.Duration
	partial   bool

	total  tally
	points []pointTally
	tools  map[toolName]*tally
	users  map[string]*tally
	agents map[string]*tally

	reports map[toolName]*toolTally // nil without StatsQuery.Report
}

type toolName struct{ toolset, tool string }

// pointTally counts the calls of one point.
type pointTally struct {
	calls map[string]int // by outcome
	took  histogram
}

// tally counts the calls of one tool, user or agent.
type tally struct {
	calls, failures int
	size            int64
	took            histogram
	spark           [sparkCount]int
}

// newCounter returns the counter of a time range that ends now. Its steps are whole minutes, hours or parts of them.
func newCounter(q StatsQuery, now time.Time) *counter {
	step := 10 * time.Second
	for _, wider := range []time.Duration{15 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour} {
		if q.Range/step <= maxPoints {
			break
		}
		step = wider
	}
	to := now.Truncate(step).Add(step)
	from := to.Add(-q.Range)
	c := &counter{
		query: q, from: from, to: to, step: step, points: make([]pointTally, (q.Range+step-1)/step),
		tools: make(map[toolName]*tally), users: make(map[string]*tally), agents: make(map[string]*tally),
	}
	if q.Report {
		c.reports = make(map[toolName]*toolTally)
	}
	return c
}

// add counts a call. It reads only what it needs from the JSON, which decoding would take three times as long.
func (c *counter) add(line []byte) (next bool) {
	var call Call
	var took float64
	for walk := strictjson.Into(line); walk.Next(); {
		switch string(walk.Key()) {
		case "ended":
			call.Ended, _ = time.Parse(time.RFC3339Nano, strictjson.Text(walk.Value))
		case "site":
			call.Site = strictjson.Text(walk.Value)
		case "user":
			call.User = strictjson.Text(walk.Value)
		case "agent":
			call.Agent = strictjson.Text(walk.Value)
		case "toolset":
			call.Toolset = strictjson.Text(walk.Value)
		case "tool":
			call.Tool = strictjson.Text(walk.Value)
		case "outcome":
			call.Outcome = strictjson.Text(walk.Value)
		case "reason":
			if c.reports != nil {
				call.Reason = strictjson.Text(walk.Value)
			}
		case "size":
			call.Size, _ = strconv.Atoi(string(walk.Value))
		case "duration_ms":
			took, _ = strconv.ParseFloat(string(walk.Value), 64)
		}
	}
	at := call.Ended.Sub(c.from)
	if at < 0 || at >= c.to.Sub(c.from) || c.query.Site != "" && call.Site != c.query.Site || c.query.Own && call.User != c.query.User {
		return true
	}
	counts := counted{size: int64(call.Size), bucket: bucketOf(int64(took * 1000)), spark: int(at * sparkCount / c.to.Sub(c.from)), failed: !c.succeeded(call.Outcome)}
	p := &c.points[at/c.step]
	if p.calls == nil {
		p.calls = make(map[string]int)
	}
	p.calls[call.Outcome]++
	p.took[counts.bucket]++
	c.total.add(&counts)
	tallyOf(c.tools, toolName{call.Toolset, call.Tool}, toolName{"", otherName}).add(&counts)
	tallyOf(c.users, call.User, otherName).add(&counts)
	if c.reports != nil {
		c.report(&call, counts.failed)
	}
	if call.Agent != "" {
		tallyOf(c.agents, call.Agent, otherName).add(&counts)
	}
	return true
}

// counted is what a tally counts of a call.
type counted struct {
	size   int64
	bucket int
	spark  int
	failed bool
}

// tallyOf returns the tally of a name, or that of others if there are too many names.
func tallyOf[K comparable](all map[K]*tally, name, others K) *tally {
	t := all[name]
	if t == nil {
		if len(all) >= maxNamed {
			if name != others {
				return tallyOf(all, others, others)
			}
		}
		t = new(tally)
		all[name] = t
	}
	return t
}

func (t *tally) add(call *counted) {
	t.calls++
	if call.failed {
		t.failures++
	}
	t.size += call.size
	t.took[call.bucket]++
	t.spark[call.spark]++
}

// usage returns the counts for clients.
func (t *tally) usage(name, toolset string) Usage {
	return Usage{
		Name: name, Toolset: toolset, Calls: t.calls, Failures: t.failures, Size: t.size,
		P50: t.took.quantile(0.5), P95: t.took.quantile(0.95), Spark: t.spark[:],
	}
}

// stats returns what was counted.
func (c *counter) stats() *Stats {
	s := &Stats{From: c.from, To: c.to, Step: c.step.Seconds(), Total: c.total.usage("", ""), Partial: c.partial}
	outcomes := make(map[string]int)
	for i := range c.points {
		for outcome, calls := range c.points[i].calls {
			outcomes[outcome] += calls
		}
	}
	s.Outcomes = slices.SortedFunc(maps.Keys(outcomes), func(a, b string) int {
		return cmp.Or(cmp.Compare(outcomes[b], outcomes[a]), strings.Compare(a, b))
	})
	s.Points = make([]Point, len(c.points))
	for i := range c.points {
		t := &c.points[i]
		p := Point{At: c.from.Add(time.Duration(i) * c.step), Calls: make([]int, len(s.Outcomes)), P50: t.took.quantile(0.5), P95: t.took.quantile(0.95)}
		for n, outcome := range s.Outcomes {
			p.Calls[n] = t.calls[outcome]
		}
		s.Points[i] = p
	}
	byTool := make([]Usage, 0, len(c.tools))
	for name, t := range c.tools {
		byTool = append(byTool, t.usage(name.tool, name.toolset))
	}
	s.Tools = top(byTool, func(u *Usage) float64 { return float64(u.Calls) })
	s.Slowest = top(byTool, func(u *Usage) float64 { return u.P95 })
	s.Failing = top(byTool, func(u *Usage) float64 { return float64(u.Failures) })
	s.Users, s.Agents = topOf(c.users), topOf(c.agents)
	if c.reports != nil {
		s.Report = c.toolReports()
	}
	return s
}

func topOf(all map[string]*tally) []Usage {
	list := make([]Usage, 0, len(all))
	for name, t := range all {
		list = append(list, t.usage(name, ""))
	}
	return top(list, func(u *Usage) float64 { return float64(u.Calls) })
}

// top returns those with the highest values that are not 0.
func top(list []Usage, value func(*Usage) float64) []Usage {
	sorted := slices.SortedFunc(slices.Values(list), func(a, b Usage) int {
		return cmp.Or(cmp.Compare(value(&b), value(&a)), cmp.Compare(b.Calls, a.Calls), strings.Compare(a.Toolset, b.Toolset), strings.Compare(a.Name, b.Name))
	})
	sorted = slices.DeleteFunc(sorted, func(u Usage) bool { return value(&u) == 0 })
	return slices.Clip(sorted[:min(len(sorted), maxTop)])
}

// Parameters of a histogram: its buckets grow by the factor 2^(1/4), from 10 µs on.
const (
	bucketCount    = 100
	bucketsPerPair = 4
	firstBucket    = 10 // µs
)

// histogram counts durations. Its quantiles are exact to about 10 %.
type histogram [bucketCount]uint32

// bucketOf returns the bucket of a duration in microseconds.
func bucketOf(took int64) int {
	if took <= firstBucket {
		return 0
	}
	return min(int(math.Log2(float64(took)/firstBucket)*bucketsPerPair)+1, bucketCount-1)
}

// quantile returns a quantile in milliseconds, 0 if there are no durations.
func (h *histogram) quantile(q float64) float64 {
	total := 0.0
	for _, n := range h {
		total += float64(n)
	}
	if total == 0 {
		return 0
	}
	rest := total * q
	for i, n := range h {
		if rest -= float64(n); rest <= 0 {
			return firstBucket * math.Exp2((float64(i)-0.5)/bucketsPerPair) / 1000 // the middle of the bucket
		}
	}
	return math.Inf(1)
}
