package run_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
	"github.com/fairwayhq/fairway/oagent/review"
	"github.com/fairwayhq/fairway/store"
)

var errDead = errors.New("this node is dead")

// mortal is a store as a node sees it that dies at one of its writes: before or after the write
// is made. Afterwards nothing reaches the store.
type mortal struct {
	store.Store
	at    int  // number of the last write, from 1; 0 is never
	after bool // the last write is made

	mu     sync.Mutex
	writes int
	dead   chan struct{}
}

func newMortal(s store.Store, at int, after bool) *mortal {
	return &mortal{Store: s, at: at, after: after, dead: make(chan struct{})}
}

func (m *mortal) isDead() bool {
	select {
	case <-m.dead:
		return true
	default:
		return false
	}
}

// write makes a write, unless the node is dead.
func (m *mortal) write(write func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isDead() {
		return errDead
	}
	if m.writes++; m.writes != m.at {
		return write()
	}
	if m.after {
		_ = write()
	}
	close(m.dead)
	return errDead
}

func (m *mortal) Update(ctx context.Context, key string, change func(store.Record) (store.Change, error)) error {
	return m.write(func() error { return m.Store.Update(ctx, key, change) })
}

func (m *mortal) Put(ctx context.Context, key string, c store.Change) error {
	return m.write(func() error { return m.Store.Put(ctx, key, c) })
}

func (m *mortal) Delete(ctx context.Context, keys ...string) error {
	return m.write(func() error { return m.Store.Delete(ctx, keys...) })
}

func (m *mortal) Get(ctx context.Context, key string) (store.Record, error) {
	if m.isDead() {
		return store.Record{}, errDead
	}
	return m.Store.Get(ctx, key)
}

func (m *mortal) Read(ctx context.Context, key string, from int64, limit int) ([][]byte, error) {
	if m.isDead() {
		return nil, errDead
	}
	return m.Store.Read(ctx, key, from, limit)
}

func (m *mortal) Wait(ctx context.Context, key string, seen []byte) (store.Record, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-m.dead:
			cancel()
		case <-ctx.Done():
		}
	}()
	r, err := m.Store.Wait(ctx, key, seen)
	if m.isDead() {
		return r, errDead
	}
	return r, err
}

const crashAgent = `
capabilities:
  get-trip: {}
  get-seat: {}
  book: {}
  pay: {input_restriction: {require_review: boss}}
  refund: {output_restriction: {require_review: boss}}
guardrails:
  input: {tool_name: scan, assertion: ok}
  output: {tool_name: scan, assertion: ok}
x-fairway: {output_schema: {type: string}}
`

// crashScript uses all that a run can do. The model is unavailable at the first request for each message.
func crashScript() func(context.Context, *model.Request) (*model.Response, error) {
	respond := script(
		wants("get-trip", `{"id":1}`, "get-seat", `{"id":1}`, "book", `{"id":1}`),
		wants("pay", `{"sum":5}`),
		wants("refund", `{"sum":5}`),
		wants("ask-user", `{"question":"Window or aisle?"}`, "get-seat", `{"id":2}`, "ask-user", `{"question":"Front or rear?"}`),
		says("Done."), // is no JSON
		says(`"Done."`),
	)
	return func(ctx context.Context, r *model.Request) (*model.Response, error) {
		if !r.Once {
			return nil, model.Errorf(model.KindUnavailable, "overloaded")
		}
		return respond(ctx, r)
	}
}

// serve plays the reviewer and the user until the run has ended, and adds the ids of what the run waits for to seen. It returns nil
// if the node dies before.
func serve(n *node, m *mortal, id string, seen map[string]bool) *run.State {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	for {
		st, err := n.Await(ctx, id, run.NotBusy)
		switch {
		case m.isDead():
			return nil
		case err != nil || st.Status.IsBusy():
			n.t.Fatalf("the run stands still: error %v, state %+v", err, st)
		case st.Status.IsFinal():
			return st
		}
		for _, w := range st.Waits() {
			seen[w.ID] = true
			switch w.Kind {
			case run.WaitReview:
				_, err = n.guard.Reviews.Decide(ctx, w.ID, "boss", true, "")
				if errors.Is(err, review.ErrNotFound) { // decided before the crash, and used since st was read; otherwise the run waits on
					err = nil
				}
			case run.WaitQuestion:
				_, err = n.Conversation(id).AddInput(ctx, "Window", w.ID)
			}
			if err != nil && !m.isDead() && !errors.Is(err, run.ErrEnded) {
				n.t.Fatalf("%s: error %v", w.Kind, err)
			}
		}
		before := st.Lease.Seq
		_, _ = n.Await(ctx, id, func(st *run.State) bool { return st.Lease.Seq != before || m.isDead() })
	}
}

// TestCrash kills a node at each write of a run, before and after it is made, and lets another
// node finish the run.
func TestCrash(t *testing.T) { //nolint:tparallel // the cases run at the same time in goroutines, see below
	t.Parallel()
	var writes int
	t.Run("none", func(t *testing.T) { writes = crash(t, 0, false) })
	if writes < 30 {
		t.Fatalf("the run takes only %d writes", writes)
	}
	// Most of the time is pauses between attempts, so more cases run at the same time than the machine has CPUs.
	var all sync.WaitGroup
	slots := make(chan struct{}, 16)
	for k := 1; k <= writes; k += caseStep(writes) {
		for _, after := range []bool{false, true} {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				t.Run(fmt.Sprintf("write-%d,made-%t", k, after), func(t *testing.T) { crash(t, k, after) })
			})
		}
	}
	all.Wait()
}

// caseStep returns the distance of the writes at which a node is killed: at night each one, otherwise some of them.
func caseStep(writes int) int {
	if testkit.Night() {
		return 1
	}
	return max(1, writes/8)
}

// crash kills a node at write k, lets another one finish the run, and returns the number of writes
// of the first.
func crash(t *testing.T, k int, after bool) int {
	s := openStore(t)
	agent := readAgent(t, crashAgent)
	passes := func(n *node, o *run.Options) {
		o.ModelPause, o.Notices = 5*time.Millisecond, allNotices()
		n.tools.check = func(engagement.Side, string) string { return `{"ok":true}` }
	}
	m := newMortal(s, k, after)
	first := newNode(t, m, agent, crashScript(), passes, func(_ *node, o *run.Options) { o.Report = func(string, error) {} })
	defer first.close()
	st, err := first.Start(t.Context(), run.StartOptions{Agent: agent, User: ada, Input: "Book trip 1."})
	if err != nil {
		if !m.isDead() {
			t.Fatal(err)
		}
		return k // the user knows that it has not started
	}
	made := func(name string) int { return first.tools.count(name) }
	seen := make(map[string]bool)
	end := serve(first, m, st.ID, seen)
	dead, cancel := context.WithCancel(context.Background())
	if cancel(); end != nil {
		dead = context.Background() // the node may have died after the end of the run
	}
	_ = first.Close(dead)
	second := newNode(t, s, agent, crashScript(), passes, func(_ *node, o *run.Options) {
		o.Now = func() time.Time { return time.Now().Add(run.DefaultLease) }
	})
	defer second.close()
	if end == nil {
		made = func(name string) int { return first.tools.count(name) + second.tools.count(name) }
		end = serve(second, newMortal(s, 0, false), st.ID, seen)
	}
	reader, err := oagent.NewGuard(oagent.GuardOptions{Store: s}) // the first node may die after the end of the run
	if err != nil {
		t.Fatal(err)
	}
	checkRecord(t, reader, agent, st.ID, made)
	checkNotices(t, s, seen)
	if k == 0 && len(seen) != 4 {
		t.Errorf("the run waited for %d reviews and answers, want 4", len(seen))
	}
	if end.Status != run.StatusComplete || end.Text != `"Done."` {
		t.Errorf("write %d: status %s, text %q, ending %+v", k, end.Status, end.Text, end.Ending)
	}
	for _, name := range []string{"book", "pay", "refund"} {
		if n := made(name); n > 1 || k == 0 && n != 1 {
			t.Errorf("write %d: %s was made %d times", k, name, n)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writes
}

// checkNotices checks that the outbox has one notice about the end of the run, and one about each review and answer that it waited
// for.
func checkNotices(t *testing.T, s store.Store, seen map[string]bool) {
	t.Helper()
	awaitNotice(t, s, run.NoticeComplete)
	about := make(map[string]int)
	for _, n := range noticesOf(t, s) {
		about[n.ID]++
		if n.Run.WaitsFor == nil {
			about[string(n.Kind)]++
		}
		for _, id := range n.Run.WaitsFor {
			about[id]++
		}
	}
	for what, n := range about {
		if n != 1 {
			t.Errorf("%d notices about %s", n, what)
		}
	}
	for id := range seen {
		if about[id] == 0 {
			t.Errorf("no notice about %s, which the run waited for", id)
		}
	}
}

// checkRecord checks that the record of the Engagement has the beginning of each call that was made.
func checkRecord(t *testing.T, g *oagent.Guard, agent *oagent.Agent, id string, made func(string) int) {
	t.Helper()
	b := oagent.Binding{Agent: agent, Engagement: id, User: ada}
	entries, err := g.Engagements.Entries(t.Context(), b.Key(), 0, engagement.MaxPage)
	if err != nil {
		t.Error(fmt.Errorf("the record cannot be read: %w", err))
	}
	begun, reviewed := make(map[string]int), make(map[string]bool)
	for i := range entries {
		switch entries[i].Event {
		case engagement.EntryBegun:
			begun[entries[i].Name]++
		case engagement.EntryReview:
			reviewed[entries[i].Name] = true
		}
	}
	if reviewed["pay"] && begun["pay"] == 0 {
		t.Error("pay was approved and never begun")
	}
	for i := range agent.Capabilities {
		name := agent.Capabilities[i].Reference.Name
		if begun[name] < made(name) {
			t.Errorf("%s was made %d times, and the record has %d", name, made(name), begun[name])
		}
	}
}

// unlocked is a mortal store whose writes do not exclude each other. It is for tests with a fake clock, which does not advance while a
// goroutine waits for a mutex.
type unlocked struct{ mortal }

func (u *unlocked) write(write func() error) error {
	if u.isDead() {
		return errDead
	}
	return write()
}

func (u *unlocked) Update(ctx context.Context, key string, change func(store.Record) (store.Change, error)) error {
	return u.write(func() error { return u.Store.Update(ctx, key, change) })
}

func (u *unlocked) Put(ctx context.Context, key string, c store.Change) error {
	return u.write(func() error { return u.Store.Put(ctx, key, c) })
}

// TestCrash_takeover_is_as_fast_as_documented runs with the default times, on a clock of its own.
func TestCrash_takeover_is_as_fast_as_documented(t *testing.T) {
	const limit = run.DefaultLease + run.DefaultSweep
	for _, page := range []string{"hosting.md", "scaling.md"} {
		text, err := os.ReadFile(filepath.Join("../../../docs", page))
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("up to %d seconds", int(limit.Seconds())); !strings.Contains(string(text), want) {
			t.Errorf("%s does not say that a run of a dead node is continued after %s", page, want)
		}
	}
	for range 30 { // sweeps are spread
		synctest.Test(t, func(t *testing.T) {
			s := openStore(t)
			agent := readAgent(t, "capabilities: {get-trip: {}}\n")
			steps := script(wants("get-trip", "{}"), says("Done."))
			m, called := &unlocked{mortal{Store: s, dead: make(chan struct{})}}, make(chan struct{})
			first := newNode(t, m, agent, steps, func(n *node, o *run.Options) {
				n.tools.tools["get-trip"] = func(ctx context.Context, _ *run.Invocation) (string, error) {
					close(called)
					<-ctx.Done()
					return "{}", ctx.Err()
				}
				o.Report = func(string, error) {}
			})
			second := newNode(t, s, agent, steps)
			time.Sleep(time.Minute) // the sweeps of both are at any time
			id := first.start("Go").ID
			<-called
			close(m.dead)
			died := time.Now()
			if st := second.ends(id); st.Text != "Done." || time.Since(died) > limit {
				t.Errorf("text %q after %s, want %s at most", st.Text, time.Since(died), limit)
			}
			first.close()
			second.close()
		})
	}
}
