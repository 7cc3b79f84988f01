package oagent_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/store"
)

// faulty lets each change run twice, and then fails some of them: before they are
// made, or after.
type faulty struct {
	store.Store
	updates atomic.Int64
	fails   bool
}

var errFault = errors.New("the disk is on fire")

func (f *faulty) Update(ctx context.Context, key string, change func(store.Record) (store.Change, error)) error {
	n := f.updates.Add(1)
	err := f.Store.Update(ctx, key, func(old store.Record) (store.Change, error) {
		if _, err := change(old); err != nil {
			return store.Change{}, err
		}
		c, err := change(old)
		if err == nil && f.fails && n%3 == 0 {
			err = errFault
		}
		return c, err
	})
	if err == nil && f.fails && n%7 == 0 {
		err = errFault
	}
	return err
}

// TestFaults wants the record to be right whatever the store makes of a change,
// and what failed to be refused.
func TestFaults(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprint(fails), func(t *testing.T) {
			a := agent(t, `
capabilities:
  act:
    input_restriction:
      assertion: "!('act' in history) || history.act.filter(c, c.inputs.n >= 0).size() == history._total && history.act.size() < 50"
lifespan: {short_circuit: 1000}
`)
			s := &faulty{Store: openBolt(t), fails: fails}
			g := newGuard(t, oagent.GuardOptions{Store: s})
			var passed atomic.Int64
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					for i := range 100 {
						switch kind := outcomeOf(t, g, call(a, "act", fmt.Sprintf(`{"n":%d}`, i)), `{}`); kind {
						case "":
							passed.Add(1)
						case engagement.KindInputRestriction, engagement.KindStore:
						default:
							t.Errorf("refused as %s", kind)
						}
					}
				})
			}
			all.Wait()
			b := binding(a)
			e, err := g.Engagements.Get(t.Context(), b.Key())
			if err != nil || e.Total != 50 {
				t.Errorf("%+v, error %v", e, err)
			}
			if n := passed.Load(); n > 50 || n < 50 && !fails {
				t.Errorf("%d passed", n)
			}
			begun := int64(0)
			for _, entry := range audit(t, g, b.Key()) {
				if entry.Event == engagement.EntryBegun {
					if begun++; entry.Call != begun {
						t.Errorf("call %d is the entry of call %d", begun, entry.Call)
					}
				}
			}
			if begun != 50 {
				t.Errorf("the record has %d calls", begun)
			}
		})
	}
}

// TestColdTogether wants many who need the same of a long record to wait for one
// who reads it.
func TestColdTogether(t *testing.T) {
	a := agent(t, "capabilities:\n  act: {}\n  look:\n    input_restriction:\n      assertion: history.act.all(c, c.outputs.ok) && history._list[0] == 'act'\n")
	s := &counted{Store: openBolt(t)}
	quick := newGuard(t, oagent.GuardOptions{Store: hasty{s}})
	for range 2000 {
		outcomeOf(t, quick, call(a, "act", `{}`), `{"ok":true}`)
	}
	g := newGuard(t, oagent.GuardOptions{Store: s})
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() { want(t, "look", outcomeOf(t, g, call(a, "look", `{}`), `{}`), "") })
	}
	all.Wait()
	if read := s.entries.Load(); read > 2*4000+1000 {
		t.Errorf("%d entries were read", read)
	}
}
