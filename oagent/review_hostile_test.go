package oagent_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
)

// TestRefusals_are_not_evicted_without_an_option wants the record of a refusal kept until it expires.
func TestRefusals_are_not_evicted_without_an_option(t *testing.T) {
	s, err := embedded.Open(filepath.Join(t.TempDir(), "records.db"), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	kept := &keeping{Store: s}
	g, a := newGuard(t, oagent.GuardOptions{Store: kept}), agent(t, "capabilities: {find: {}}")
	refused := oagent.Call{Binding: oagent.Binding{Agent: a, Engagement: "refused", User: alice}, Name: "delete"}
	want(t, "the guard", outcomeOf(t, g, refused, `{}`), engagement.KindNotAllowed)
	if c := kept.change.Load(); c.Evictable {
		t.Error("the store may evict a refusal")
	}
}

// TestStrays wants Engagements in which all was refused to make room for others: a
// client can begin as many of them as there are ids. The option EvictRefusals allows it.
func TestStrays(t *testing.T) {
	const most = 200
	s, err := embedded.Open(filepath.Join(t.TempDir(), "records.db"), embedded.Options{MaxRecords: most})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	kept := &keeping{Store: s}
	g, a := newGuard(t, oagent.GuardOptions{Store: kept, EvictRefusals: true}), agent(t, "capabilities: {find: {}, pay: {input_restriction: {require_review: boss}}}")
	in := func(name, id string, user engagement.User) oagent.Call {
		return oagent.Call{Binding: oagent.Binding{Agent: a, Engagement: id, User: user}, Name: name}
	}
	called, asking := in("find", "called", alice), in("pay", "asking", alice)
	want(t, "a call", outcomeOf(t, g, called, `{}`), "")
	want(t, "a review", outcomeOf(t, g, asking, `{}`), engagement.KindReviewPending)
	unknown := &engagement.Refusal{Kind: "unknown_operation", Message: "there is no such operation"}
	for i := range 3 * most {
		stray := in("delete", fmt.Sprint("stray-", i), engagement.User{})
		if i%2 == 0 {
			want(t, "the guard", outcomeOf(t, g, stray, `{}`), engagement.KindNotAllowed)
		} else if err := g.Refuse(t.Context(), stray.Binding, unknown, nil, ""); err != nil {
			t.Fatal(err)
		}
		if c := kept.change.Load(); !c.Evictable || c.TTL > time.Hour {
			t.Fatalf("stray %d is kept for %s, spare %t", i, c.TTL, c.Evictable)
		}
	}
	for _, c := range []oagent.Call{called, asking} {
		if _, err := g.Engagements.Get(t.Context(), c.Key()); err != nil {
			t.Errorf("%s: %v", c.Engagement, err)
		}
	}
	want(t, "of a user", outcomeOf(t, g, in("delete", "stray", alice), `{}`), engagement.KindNotAllowed)
	if c := kept.change.Load(); !c.Evictable || c.TTL != oagent.DefaultTTL {
		t.Errorf("it is kept for %s, spare %t", c.TTL, c.Evictable)
	}
	want(t, "and then a call", outcomeOf(t, g, in("find", "stray", alice), `{}`), "")
	if c := kept.change.Load(); c.Evictable {
		t.Error("what was called is spare")
	}
}

// keeping is a store that keeps the latest change of an Engagement.
type keeping struct {
	store.Store
	change atomic.Pointer[store.Change]
}

func (k *keeping) Update(ctx context.Context, key string, change func(store.Record) (store.Change, error)) error {
	return k.Store.Update(ctx, key, func(old store.Record) (store.Change, error) {
		c, err := change(old)
		if err == nil && strings.HasPrefix(key, "engagement/") {
			k.change.Store(&c)
		}
		return c, err
	})
}

// interposed is a store that does something once, before a review is changed.
type interposed struct {
	store.Store
	before atomic.Pointer[func()]
}

func (i *interposed) interpose(key string) {
	if strings.HasPrefix(key, "review/") {
		if before := i.before.Swap(nil); before != nil {
			(*before)()
		}
	}
}

func (i *interposed) Update(ctx context.Context, key string, change func(store.Record) (store.Change, error)) error {
	i.interpose(key)
	return i.Store.Update(ctx, key, change)
}

func (i *interposed) Put(ctx context.Context, key string, change store.Change) error {
	i.interpose(key)
	return i.Store.Put(ctx, key, change)
}

// TestApproved_and_taken has a result taken before its approval has been written: what
// was given must not stay in the store, and the review not be pending again.
func TestApproved_and_taken(t *testing.T) {
	s := &interposed{Store: openBolt(t)}
	var decided atomic.Int64
	g := newGuard(t, oagent.GuardOptions{Store: s, Notify: func(e oagent.Event) {
		if e.Kind == oagent.EventReviewDecided {
			decided.Add(1)
		}
	}})
	c := call(agent(t, "capabilities: {send: {output_restriction: {require_review: boss}}}"), "send", `{}`)
	ticket, err := g.Begin(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	id := refusal(t, ticket.Finish(t.Context(), jsontext.Value(`{"sent":true}`), 200)).Review
	taken := func() {
		ticket, err := g.Begin(t.Context(), c)
		if err != nil || ticket.Replayed == nil || string(ticket.Replayed.Outputs) != `{"sent":true}` {
			t.Errorf("%+v, %v", ticket, err)
		}
	}
	s.before.Store(&taken)
	if _, err := g.Reviews.Decide(t.Context(), id, "boss", true, ""); err != nil {
		t.Fatal(err)
	}
	r, err := g.Reviews.Get(t.Context(), id, "boss")
	if err != nil || r.Status != engagement.ReviewApproved || r.Outputs != nil {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := g.Reviews.Decide(t.Context(), id, "boss", true, ""); err != nil {
		t.Errorf("once more: %v", err)
	}
	if n := decided.Load(); n != 1 {
		t.Errorf("got %d times that it is decided", n)
	}
}
