package oagent_test

import (
	"context"
	"fmt"
	"math/bits"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/store"
)

// counted counts what is read of logs.
type counted struct {
	store.Store
	reads, entries atomic.Int64
}

func (c *counted) Read(ctx context.Context, key string, from int64, limit int) ([][]byte, error) {
	entries, err := c.Store.Read(ctx, key, from, limit)
	c.reads.Add(1)
	c.entries.Add(int64(len(entries)))
	return entries, err
}

// TestLogReads wants a call to read of the log only what its assertions look at, and
// that once.
func TestLogReads(t *testing.T) {
	const calls = 20 // 2 entries each
	for assertion, entries := range map[string]int64{
		"history._total < 1000":                               0,
		"recent._name == 'find' || true":                      0,
		"history.find.size() < 1000":                          0,
		"'find' in history._list && !('other' in history)":    0,
		"recent.act.inputs.n == 1":                            0,
		"recent.find.outputs.ok":                              2,
		"recent.find.inputs.n >= 0 && recent.find.outputs.ok": 2,
		"history.find.all(f, f.outputs.ok)":                   2 * calls,
		"history._list[0] == 'find'":                          2 * calls,
	} {
		t.Run(assertion, func(t *testing.T) {
			a := agent(t, "capabilities:\n  find: {}\n  other: {}\n  act:\n    input_restriction:\n      assertion: \""+assertion+"\"\n")
			s := &counted{Store: openBolt(t)}
			g := newGuard(t, oagent.GuardOptions{Store: s})
			for i := range calls {
				want(t, "find", outcomeOf(t, g, call(a, "find", fmt.Sprintf(`{"n":%d}`, i)), `{"ok":true}`), "")
			}
			g = newGuard(t, oagent.GuardOptions{Store: s})
			for range 5 {
				want(t, "act", outcomeOf(t, g, call(a, "act", `{"n":1}`), `{}`), "")
				want(t, "find", outcomeOf(t, g, call(a, "find", `{"n":1}`), `{"ok":true}`), "")
			}
			if read := s.entries.Load(); read != entries {
				t.Errorf("%d entries read in %d reads, want %d", read, s.reads.Load(), entries)
			}
		})
	}
}

// TestCache wants little memory to cost time, and nothing else.
func TestCache(t *testing.T) {
	a := agent(t, "capabilities:\n  act:\n    input_restriction:\n      assertion: \"!('act' in history) || history.act.all(c, c.outputs.ok) && history.act.size() < 3\"\n")
	g := newGuard(t, oagent.GuardOptions{CacheSize: 1})
	for i := range 4 {
		for id := range 5 {
			c := call(a, "act", `{}`)
			c.Engagement = strconv.Itoa(id)
			wanted := engagement.Kind("")
			if i == 3 {
				wanted = engagement.KindInputRestriction
			}
			want(t, c.Engagement, outcomeOf(t, g, c, `{"ok":true}`), wanted)
		}
	}
}

const benchmarked = `
capabilities:
  act:
    input_restriction:
      assertion: recent.act.inputs.path.startsWith("public") && history._total < 10000000
    output_restriction:
      assertion: recent.act.outputs.status == "ok"
`

// BenchmarkCall is a call with an input and an output assertion, at several
// lengths of the history, in an Engagement that is in memory, by one caller and
// by many, each with one of its own. It waits for the disk.
func BenchmarkCall(b *testing.B) {
	a := agent(b, benchmarked)
	circuit := agent(b, benchmarked+"  other: {}\nlifespan: {short_circuit: 3}\n")
	tried := agent(b, benchmarked) // its rules hold in both modes, so that both make the same calls
	for i := range tried.Capabilities {
		tried.Capabilities[i].LogOnly = true
	}
	history := agent(b, "capabilities:\n  act:\n    input_restriction:\n      assertion: \"!('act' in history) || history.act[0].inputs.path == 'public/1' && history._list[0] == 'act'\"\n")
	for _, length := range []int{10, 1000, 100_000} {
		b.Run(strconv.Itoa(length), func(b *testing.B) {
			s := openBolt(b)
			g := newGuard(b, oagent.GuardOptions{Store: s})
			fill(b, s, a, length)
			b.Run("one caller", func(b *testing.B) { run(b, g, a) })
			b.Run("no wait", func(b *testing.B) { run(b, newGuard(b, oagent.GuardOptions{Store: hasty{s}}), a) })
			b.Run("no wait, log only", func(b *testing.B) { run(b, newGuard(b, oagent.GuardOptions{Store: hasty{s}}), tried) })
			b.Run("no wait, short_circuit", func(b *testing.B) { run(b, newGuard(b, oagent.GuardOptions{Store: hasty{s}}), circuit) })
			b.Run("no wait, history", func(b *testing.B) { run(b, newGuard(b, oagent.GuardOptions{Store: hasty{s}}), history) })
			b.Run("32 callers", func(b *testing.B) {
				var callers atomic.Int64
				b.SetParallelism(16)
				b.RunParallel(func(pb *testing.PB) {
					c := call(a, "act", `{"path":"public/1","n":17}`)
					c.Engagement = strconv.FormatInt(callers.Add(1), 10)
					for pb.Next() {
						step(b, g, c)
					}
				})
			})
		})
	}
}

// hasty does not wait for the disk, so that what is measured is the guard.
type hasty struct{ store.Store }

func (h hasty) Update(ctx context.Context, key string, change func(store.Record) (store.Change, error)) error {
	return h.Store.Update(ctx, key, func(old store.Record) (store.Change, error) {
		c, err := change(old)
		c.Async = true
		return c, err
	})
}

// fill makes calls until the Engagement has so many.
func fill(b *testing.B, s store.Store, a *oagent.Agent, length int) {
	b.Helper()
	quick := newGuard(b, oagent.GuardOptions{Store: hasty{s}})
	for range length {
		step(b, quick, call(a, "act", `{"path":"public/1","n":17}`))
	}
}

func run(b *testing.B, g *oagent.Guard, a *oagent.Agent) {
	b.Helper()
	b.ReportAllocs()
	c := call(a, "act", `{"path":"public/1","n":17}`)
	other := call(a, "other", `{}`)
	step(b, g, c) // it is in memory then
	i := 0
	for b.Loop() {
		if a.ShortCircuit > 0 && bits.OnesCount(uint(i))%2 == 1 { // nothing three times in a row
			step(b, g, other)
		} else {
			step(b, g, c)
		}
		i++
	}
}

func step(b *testing.B, g *oagent.Guard, c oagent.Call) {
	ticket, err := g.Begin(context.Background(), c)
	if err == nil {
		err = ticket.Finish(context.Background(), jsontext.Value(`{"status":"ok","trip":{"id":"7","from":"Berlin","to":"Paris"}}`), 200)
	}
	if err != nil {
		refusal, _ := engagement.AsRefusal(err)
		b.Fatalf("%v: %v", err, refusal.Unwrap())
	}
}

// TestLong_checks_have_shares has one user make several calls at a time whose assertions run until their
// limit. Some of them are refused with 429. Another user's calls and cheap calls are not, and neither is a call
// that was made.
func TestLong_checks_have_shares(t *testing.T) {
	const long = "recent.act.inputs.a.all(x, recent.act.inputs.a.all(y, recent.act.inputs.a.all(z, x + y + z >= 0)))"
	a := agent(t, "capabilities:\n  cheap: {input_restriction: {assertion: \"recent.cheap.inputs.a.all(x, x > 0)\"}}\n"+
		"  act: {input_restriction: {assertion: \""+long+"\"}}\n"+
		"  made: {output_restriction: {assertion: \""+strings.ReplaceAll(long, "act", "made")+"\"}}\n")
	g := newGuard(t, oagent.GuardOptions{})
	inputs := `{"a":[` + strings.Repeat("1,", 2000) + `1]}`
	var engagements atomic.Int64
	of := func(user, name string) oagent.Call {
		c := call(a, name, inputs)
		c.User, c.Engagement = engagement.User{ID: user}, strconv.FormatInt(engagements.Add(1), 10)
		return c
	}
	stop, refused := make(chan struct{}), make(chan *engagement.Refusal, 1)
	var flood sync.WaitGroup
	for range 2 + 2*runtime.GOMAXPROCS(0) {
		flood.Go(func() {
			for {
				_, err := g.Begin(t.Context(), of("ada", "act"))
				r, _ := engagement.AsRefusal(err)
				if r == nil || r.Kind != engagement.KindShare && r.Kind != engagement.KindInputRestriction {
					t.Errorf("a long call: %v", err)
					return
				}
				if r.Kind == engagement.KindShare {
					select {
					case refused <- r:
					default:
					}
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	defer flood.Wait()
	defer close(stop)
	r := <-refused
	if r.Status() != http.StatusTooManyRequests || r.RetryAfter <= 0 || r.Made {
		t.Errorf("refused with %d, retry after %s, made %v", r.Status(), r.RetryAfter, r.Made)
	}
	want(t, "another user's long call", outcomeOf(t, g, of("bob", "act"), `{}`), engagement.KindInputRestriction)
	cheap := of("ada", "cheap")
	cheap.Inputs = jsontext.Value(`{"a":[1,2,3]}`)
	want(t, "a cheap call", outcomeOf(t, g, cheap, `{}`), "")
	want(t, "the result of a call that was made", outcomeOf(t, g, of("ada", "made"), `{}`), engagement.KindOutputRestriction)
}
