package run_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
	"github.com/fairwayhq/fairway/store"
)

// allNotices are the options for notices of all kinds.
func allNotices() *run.NoticeOptions {
	return &run.NoticeOptions{Wants: func(run.NoticeKind) bool { return true }, Added: func() {}, Dropped: func(*run.OperatorNotice) {}}
}

// noticesOf returns the notices in the outbox of a store.
func noticesOf(t testing.TB, s store.Store) []run.OperatorNotice {
	t.Helper()
	all, err := run.NewOutbox(s, "").List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// awaitNotice waits until the outbox has a notice of that kind.
func awaitNotice(t testing.TB, s store.Store, kind run.NoticeKind) (found run.OperatorNotice) {
	t.Helper()
	testkit.Eventually(t, "the notice "+string(kind), func() bool {
		for _, n := range noticesOf(t, s) {
			if n.Kind == kind {
				found = n
				return true
			}
		}
		return false
	})
	return found
}

// TestNotices_kinds checks which notices the events of a run have, and what is in them.
func TestNotices_kinds(t *testing.T) {
	failed := func(context.Context, *model.Request) (*model.Response, error) {
		return nil, model.Errorf(model.KindRejected, "secret-text")
	}
	for name, c := range map[string]struct {
		respond func(context.Context, *model.Request) (*model.Response, error)
		cancel  bool
		kind    run.NoticeKind
		reason  run.EndKind
		waits   int
	}{
		"complete": {script(says("secret-text")), false, run.NoticeComplete, "", 0},
		"failed":   {failed, false, run.NoticeFailed, run.EndModel, 0},
		"canceled": {script(wants("ask-user", `{"question":"secret-text?"}`)), true, run.NoticeCanceled, run.EndCanceled, 0},
		"question": {script(wants("ask-user", `{"question":"secret-text?"}`)), false, run.NoticeQuestion, "", 1},
		"review":   {script(wants("pay", `{"sum":"secret-text"}`)), false, run.NoticeReview, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t)
			agent := readAgent(t, "capabilities:\n  pay: {input_restriction: {require_review: boss}}\n")
			n := newNode(t, s, agent, c.respond, func(_ *node, o *run.Options) { o.Notices = allNotices() })
			id := n.start("secret-text").ID
			st := n.idle(id)
			if c.cancel {
				if _, err := n.Cancel(t.Context(), id); err != nil {
					t.Fatal(err)
				}
				st = n.idle(id)
			}
			got := awaitNotice(t, s, c.kind)
			about := [...]any{got.Run.ID, got.Agent, got.User, got.Run.Status, got.Run.Reason, len(got.Run.WaitsFor)}
			if want := [...]any{id, "desk", "ada", st.Status, c.reason, c.waits}; about != want {
				t.Errorf("got the notice %v, want %v", about, want)
			}
			if !got.Run.StartedAt.Equal(st.Started) || got.At.Before(st.Started) {
				t.Errorf("got a notice at %s of a run started at %s, want one later than the start at %s", got.At, got.Run.StartedAt, st.Started)
			}
			if c.reason != run.EndModel && got.Run.Usage.InputTokens != 10 {
				t.Errorf("usage %+v", got.Run.Usage)
			}
			if strings.Contains(fmt.Sprintf("%+v", got), "secret-text") {
				t.Errorf("the notice has a text: %+v", got)
			}
		})
	}
}

// TestNotices_once checks that a run that is woken while it waits has no second notice, and that the notice about a further wait has
// only what is new.
func TestNotices_once(t *testing.T) {
	s := openStore(t)
	agent := readAgent(t, "capabilities:\n  pay: {input_restriction: {require_review: boss}}\n  book: {input_restriction: {require_review: boss}}\n")
	n := newNode(t, s, agent, script(wants("pay", `{}`, "book", `{}`), says("Done.")), func(_ *node, o *run.Options) { o.Notices = allNotices() })
	id := n.start("Go").ID
	waiting := n.until(id, "waits for both", func(st *run.State) bool { return st.Status == run.StatusAwaitingReview && len(st.Waits()) == 2 })
	for range 3 {
		before := waiting.Lease.Seq
		if err := n.Wake(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		waiting = n.until(id, "waits again", func(st *run.State) bool { return st.Status == run.StatusAwaitingReview && st.Lease.Seq > before })
	}
	for _, w := range waiting.Waits() {
		n.decide(w.ID, true)
	}
	n.ends(id)
	awaitNotice(t, s, run.NoticeComplete)
	reviews := 0
	for _, notice := range noticesOf(t, s) {
		if notice.Kind == run.NoticeReview {
			reviews += len(notice.Run.WaitsFor)
		}
	}
	if reviews != 2 {
		t.Errorf("notices about %d reviews, want 2: %+v", reviews, noticesOf(t, s))
	}
}

// TestNotices_only_what_is_wanted checks that other notices are not recorded, and that no notice is recorded about the end of a run
// that another one has started.
func TestNotices_only_what_is_wanted(t *testing.T) {
	s := openStore(t)
	options := allNotices()
	options.Wants = func(kind run.NoticeKind) bool { return kind != run.NoticeQuestion }
	n := newNode(t, s, readAgent(t, "capabilities: {}\n"), func(_ context.Context, r *model.Request) (*model.Response, error) {
		if r.Messages[0].Text == "Ask" {
			return wants("ask-user", `{"question":"Who?"}`), nil
		}
		return says("Done."), nil
	}, func(_ *node, o *run.Options) { o.Notices = options })
	deciding, err := n.Start(t.Context(), run.StartOptions{Agent: n.agent, User: ada, Input: "Decide", Review: "R"})
	if err != nil {
		t.Fatal(err)
	}
	n.ends(deciding.ID)
	asking := n.start("Ask").ID
	n.until(asking, "asks", func(st *run.State) bool { return st.Status == run.StatusAwaitingInput })
	if _, err := n.Cancel(t.Context(), asking); err != nil {
		t.Fatal(err)
	}
	awaitNotice(t, s, run.NoticeCanceled)
	n.drained()
	if all := noticesOf(t, s); len(all) != 1 || all[0].Run.ID != asking {
		t.Errorf("notices %+v, want one about the cancellation", all)
	}
}

// boxOutage is a store that rejects writes of the outbox while it is down.
type boxOutage struct {
	store.Store
	down     atomic.Bool
	rejected atomic.Int64
}

func (o *boxOutage) Update(ctx context.Context, key string, change func(store.Record) (store.Change, error)) error {
	if o.down.Load() && strings.HasPrefix(key, "run-notices/") {
		o.rejected.Add(1)
		return errors.New("the store is down")
	}
	return o.Store.Update(ctx, key, change)
}

// TestNotices_after_an_outage checks that the notices of runs that wait, and of those that have ended, are not lost if the outbox
// cannot be written: sweeps move them later, once.
func TestNotices_after_an_outage(t *testing.T) {
	s := &boxOutage{Store: openStore(t)}
	s.down.Store(true)
	n := newNode(t, s, readAgent(t, "capabilities: {}\n"), func(_ context.Context, r *model.Request) (*model.Response, error) {
		if r.Messages[0].Text == "Ask" {
			return wants("ask-user", `{"question":"Who?"}`), nil
		}
		return says("Done."), nil
	}, func(_ *node, o *run.Options) { o.Notices, o.Sweep = allNotices(), 5*time.Millisecond })
	asking, done := n.start("Ask").ID, n.start("Go").ID
	n.idle(asking)
	n.ends(done)
	testkit.Eventually(t, "two sweeps", func() bool { return s.rejected.Load() >= 6 })
	if all := noticesOf(t, s); len(all) > 0 {
		t.Fatalf("the outbox has %+v", all)
	}
	s.down.Store(false)
	if got := awaitNotice(t, s, run.NoticeQuestion); got.Run.ID != asking {
		t.Errorf("got %+v", got)
	}
	if got := awaitNotice(t, s, run.NoticeComplete); got.Run.ID != done {
		t.Errorf("got %+v", got)
	}
	if all := noticesOf(t, s); len(all) != 2 {
		t.Errorf("notices %+v", all)
	}
}

// vanishing is a store in which the record of a run is deleted when the outbox gets the first notice about it.
type vanishing struct {
	store.Store
	deleted atomic.Bool
}

func (v *vanishing) Update(ctx context.Context, key string, change func(store.Record) (store.Change, error)) error {
	err := v.Store.Update(ctx, key, change)
	if strings.HasPrefix(key, "run-notices/") && v.deleted.CompareAndSwap(false, true) {
		err = errors.Join(err, store.Scan(ctx, v.Store, "run/", func(key string, _ store.Record) error { return v.Store.Delete(ctx, key) }))
	}
	return err
}

// TestNotices_of_a_deleted_run checks that no notice remains if the run is deleted, or its user is erased, while the notice moves.
func TestNotices_of_a_deleted_run(t *testing.T) {
	s := &vanishing{Store: openStore(t)}
	n := newNode(t, s, readAgent(t, "capabilities: {}\n"), script(says("Done.")), func(_ *node, o *run.Options) { o.Notices = allNotices() })
	n.start("Go")
	testkit.Eventually(t, "the outbox to be empty after the deletion", func() bool { return s.deleted.Load() && len(noticesOf(t, s)) == 0 })
}

// TestOutbox_is_bounded checks that a list drops the oldest notices of the user and agent that have most, and that Remove makes room.
func TestOutbox_is_bounded(t *testing.T) {
	box := run.NewOutbox(openStore(t), "realm")
	add := func(user string, i int) []run.OperatorNotice {
		dropped, err := box.Add(t.Context(), "R", []run.OperatorNotice{{ID: fmt.Sprintf("%s-%d", user, i), User: user, Agent: "desk", Run: run.NoticeRun{ID: "R"}}})
		if err != nil {
			t.Fatal(err)
		}
		return dropped
	}
	add("bob", 0)
	dropped := 0
	const added = 200
	for i := range added {
		for _, d := range add("ada", i) {
			if want := fmt.Sprintf("ada-%d", dropped); d.ID != want {
				t.Errorf("%s was dropped, want %s", d.ID, want)
			}
			dropped++
		}
	}
	all, err := box.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != run.MaxListed || len(all)+dropped != added+1 || all[0].ID != "bob-0" {
		t.Errorf("%d notices, %d dropped, the first is %s", len(all), dropped, all[0].ID)
	}
	for i := range all {
		if err := box.Remove(t.Context(), &all[i]); err != nil {
			t.Fatal(err)
		}
	}
	if all, err = box.List(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("after Remove, %d notices, error %v", len(all), err)
	}
}

func TestErase_removes_notices(t *testing.T) {
	s := openStore(t)
	for _, realm := range []string{"", "realm"} {
		for _, user := range []string{"ada", "bob"} {
			n := run.OperatorNotice{ID: user, User: user, At: time.Now(), Run: run.NoticeRun{ID: user}}
			if _, err := run.NewOutbox(s, realm).Add(t.Context(), user, []run.OperatorNotice{n}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := (run.UserData{}).Erase(t.Context(), s, "ada"); err != nil {
		t.Fatal(err)
	}
	for _, realm := range []string{"", "realm"} {
		left, err := run.NewOutbox(s, realm).List(t.Context())
		if err != nil || len(left) != 1 || left[0].User != "bob" {
			t.Errorf("realm %q: %+v, error %v", realm, left, err)
		}
	}
}
