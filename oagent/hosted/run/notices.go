package run

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

// A notice about a run is recorded in the state of the run, in the same transaction as the change that it reports. So it is not
// lost if the node dies. Then it moves to the Outbox of the realm, from which a node sends it. A run stays in the
// index until its last notice has moved: if the node dies before, a sweep moves it.

// NoticeKind is a kind of OperatorNotice.
type NoticeKind string

// Kinds of notices. The ends of runs that agents start, and of runs that decide reviews, have no notices.
const (
	NoticeComplete    NoticeKind = "run.complete"    // the run has an answer
	NoticeFailed      NoticeKind = "run.failed"      // the run has ended without an answer
	NoticeCanceled    NoticeKind = "run.canceled"    // the run was canceled
	NoticeQuestion    NoticeKind = "run.question"    // the run waits for answers of its user
	NoticeCredentials NoticeKind = "run.credentials" // the run waits for credentials of its user
	NoticeReview      NoticeKind = "run.review"      // the run waits for reviewers
)

// NoticeKinds returns all kinds of notices.
func NoticeKinds() []NoticeKind {
	return []NoticeKind{NoticeComplete, NoticeFailed, NoticeCanceled, NoticeQuestion, NoticeCredentials, NoticeReview}
}

// Limits of notices.
const (
	// NoticeTTL is how long after an OperatorNotice it may be sent.
	NoticeTTL = 24 * time.Hour

	maxListed  = 128            // notices of one list of an Outbox, which has indexShards lists
	maxPending = 16             // notices of a run that have not moved to the Outbox
	maxText    = 512            // bytes of each text in a notice
	maxIDs     = 32             // ids in a notice
	outboxTTL  = 2 * NoticeTTL  // of a list, after its last change: nodes find what has expired, and log it
	noticesKey = "run-notices/" // followed by the number of the list
)

// OperatorNotice reports a change of a run. It contains no inputs, no answers, no texts of the conversation and no messages: it
// leaves the server, and is not subject to the rules about who may see an Engagement.
type OperatorNotice struct {
	ID    string     `json:"id"` // the same if the notice is sent again
	Kind  NoticeKind `json:"kind"`
	Agent string     `json:"agent"`
	User  string     `json:"user,omitzero"` // id
	At    time.Time  `json:"at"`
	Run   NoticeRun  `json:"run"`
}

// NoticeRun is the run of an OperatorNotice, as it was then.
type NoticeRun struct {
	ID        string    `json:"id"`
	Root      string    `json:"root,omitzero"` // see State.Root
	Status    Status    `json:"status"`
	Reason    EndKind   `json:"reason,omitzero"`    // why it ended without an answer
	Rule      string    `json:"rule,omitzero"`      // see Ending.Rule
	WaitsFor  []string  `json:"waits_for,omitzero"` // ids of the questions or reviews that are new
	StartedAt time.Time `json:"started_at"`
	Usage     usageView `json:"usage"`
}

// NoticeOptions configures the notices of a Runner.
type NoticeOptions struct {
	// Wants reports whether notices of that kind are recorded.
	Wants func(NoticeKind) bool
	// Added is called after notices were added to the Outbox. It must return quickly.
	Added func()
	// Dropped is called with a notice that is not sent, because too many wait. Its kind may be unknown (""). It must return quickly.
	Dropped func(*OperatorNotice)
}

// noticeState is the part of a State about its notices.
type noticeState struct {
	Count   int              `json:"count,omitzero"`    // of all notices so far
	Pending []OperatorNotice `json:"pending,omitempty"` // not yet in the Outbox; beyond maxPending, the oldest are dropped
	Dropped int              `json:"dropped,omitzero"`  // that are not yet reported
	Noted   []string         `json:"noted,omitempty"`   // what the run waits for since the last notice
}

// note records the notices of a change of the state. wasFinal is Status.IsFinal before it.
func (o *NoticeOptions) note(st *State, wasFinal bool, now time.Time) {
	switch {
	case st.Status.IsFinal():
		if !wasFinal && st.Parent == "" && st.Review == "" {
			o.add(st, endNotice(st), nil, now)
		}
	case st.isWaiting():
		o.noteWaits(st, now)
	}
}

func endNotice(st *State) NoticeKind {
	switch {
	case st.Status == StatusComplete:
		return NoticeComplete
	case st.Ending.Kind == EndCanceled:
		return NoticeCanceled
	}
	return NoticeFailed
}

// noteWaits records what the run now waits for. A run that is woken repeats calls that go on waiting: they have no second notice.
func (o *NoticeOptions) noteWaits(st *State, now time.Time) {
	var before, noted []string
	if st.Notices != nil {
		before = st.Notices.Noted
	}
	added := make(map[NoticeKind][]string)
	for _, w := range st.Waits() {
		kind, id := w.Kind.notice(), w.ID
		if kind == NoticeCredentials {
			id = "turn " + strconv.Itoa(st.Turns)
		}
		if kind == "" || slices.Contains(noted, id) {
			continue
		}
		noted = append(noted, id)
		if !slices.Contains(before, id) {
			added[kind] = append(added[kind], id)
		}
	}
	for _, kind := range NoticeKinds() {
		if ids := added[kind]; ids != nil {
			if kind == NoticeCredentials {
				ids = nil
			}
			o.add(st, kind, ids, now)
		}
	}
	if st.Notices != nil {
		st.Notices.Noted = noted
	}
}

// notice returns the kind of the notice about a wait, or "" for none.
func (k WaitKind) notice() NoticeKind {
	switch k {
	case WaitQuestion:
		return NoticeQuestion
	case WaitCredentials:
		return NoticeCredentials
	case WaitReview:
		return NoticeReview
	}
	return ""
}

// add adds a notice to the state, if it is wanted.
func (o *NoticeOptions) add(st *State, kind NoticeKind, waitsFor []string, now time.Time) {
	if !o.Wants(kind) {
		return
	}
	if st.Notices == nil {
		st.Notices = new(noticeState)
	}
	st.Notices.Count++
	e := OperatorNotice{
		ID: st.ID + "-" + strconv.Itoa(st.Notices.Count), Kind: kind, Agent: st.Agent, User: text.Cut(st.User.ID, maxText), At: now,
		Run: NoticeRun{
			ID: st.ID, Root: st.Root, Status: st.Status, WaitsFor: waitsFor[:min(len(waitsFor), maxIDs)], StartedAt: st.Started, Usage: st.Used.view(),
		},
	}
	if st.Ending != nil {
		e.Run.Reason, e.Run.Rule = st.Ending.Kind, text.Cut(st.Ending.Rule, maxText)
	}
	st.Notices.Pending = append(st.Notices.Pending, e)
	if n := len(st.Notices.Pending) - maxPending; n > 0 {
		st.Notices.Pending, st.Notices.Dropped = st.Notices.Pending[n:], st.Notices.Dropped+n
	}
}

// move moves the pending notices of a run to the Outbox. If the node dies in between, they are moved again with the same ids.
func (o *NoticeOptions) move(ctx context.Context, s *storage, st *State) error {
	if st.Notices == nil || len(st.Notices.Pending) == 0 {
		return nil
	}
	moved, lost := slices.Clone(st.Notices.Pending), st.Notices.Dropped
	for i := range moved {
		if err := (spending{s}).addCalled(ctx, st, &moved[i].Run.Usage); err != nil {
			return err
		}
	}
	outbox := Outbox{s.store, s.realm}
	dropped, err := outbox.Add(ctx, st.ID, moved)
	if err != nil {
		return err
	}
	for range lost {
		dropped = append(dropped, OperatorNotice{Agent: st.Agent, User: st.User.ID, Run: NoticeRun{ID: st.ID}})
	}
	for i := range dropped {
		o.Dropped(&dropped[i])
	}
	_, err = s.change(ctx, st.ID, func(now *State) ([]entry, error) {
		if now.Notices == nil {
			return nil, errUnchanged
		}
		now.Notices.Dropped = max(0, now.Notices.Dropped-lost)
		now.Notices.Pending = slices.DeleteFunc(now.Notices.Pending, func(e OperatorNotice) bool { return hasNotice(moved, e.ID) })
		return nil, nil
	})
	if isNotFound(err) { // its user has deleted it, or was erased, perhaps before the Outbox had the notices
		err = nil
		for i := range moved {
			err = errors.Join(err, outbox.Remove(ctx, &moved[i]))
		}
		return err
	}
	o.Added()
	return err
}

func hasNotice(all []OperatorNotice, id string) bool {
	return slices.ContainsFunc(all, func(e OperatorNotice) bool { return e.ID == id })
}

// An Outbox has the notices of the runs of a realm that are not yet sent, in lists by run. Any node may send them.
type Outbox struct {
	store store.Store
	realm string
}

// NewOutbox returns the Outbox of a realm, see Options.Realm.
func NewOutbox(s store.Store, realm string) *Outbox { return &Outbox{s, realmPrefix(realm)} }

// list returns the lists of the Outbox. Events that have expired remain, so that their end is logged.
func (b *Outbox) list() *lease.List[OperatorNotice] {
	return &lease.List[OperatorNotice]{Store: b.store, TTL: outboxTTL, IsOver: func(*OperatorNotice) bool { return false }}
}

// List returns the notices, in each list the oldest first.
func (b *Outbox) List(ctx context.Context) (all []OperatorNotice, err error) {
	for shard := range indexShards {
		listed, err := b.list().Get(ctx, b.realm+noticesKey+strconv.Itoa(shard))
		if err != nil {
			return nil, err
		}
		all = append(all, listed...)
	}
	return all, nil
}

// Remove removes a notice.
func (b *Outbox) Remove(ctx context.Context, e *OperatorNotice) error {
	return b.list().Change(ctx, b.realm+shardOf(noticesKey, e.Run.ID), "", func(all []OperatorNotice) ([]OperatorNotice, error) {
		return slices.DeleteFunc(all, func(listed OperatorNotice) bool { return listed.ID == e.ID }), nil
	})
}

// Add adds the notices of a run, and returns those that had to be removed to make room.
func (b *Outbox) Add(ctx context.Context, run string, notices []OperatorNotice) (dropped []OperatorNotice, err error) {
	err = b.list().Change(ctx, b.realm+shardOf(noticesKey, run), "", func(all []OperatorNotice) ([]OperatorNotice, error) {
		dropped = nil
		for i := range notices {
			if !hasNotice(all, notices[i].ID) {
				all = append(all, notices[i])
			}
		}
		for len(all) > maxListed {
			i := oldestOfMost(all)
			dropped = append(dropped, all[i])
			all = slices.Delete(all, i, i+1)
		}
		return all, nil
	})
	return dropped, err
}

// oldestOfMost returns the index of the oldest notice of the user and agent that have most notices. So a user with many runs does not
// displace the notices of others.
func oldestOfMost(all []OperatorNotice) (oldest int) {
	type owner struct{ user, agent string }
	counts := make(map[owner]int)
	for i := range all {
		counts[owner{all[i].User, all[i].Agent}]++
	}
	most := 0
	for i := range all {
		if n := counts[owner{all[i].User, all[i].Agent}]; n > most {
			oldest, most = i, n
		}
	}
	return oldest
}

// eraseNotices removes the notices about runs of a user that are not yet sent, from the Outboxes of all realms.
func eraseNotices(ctx context.Context, st store.Store, user string) error {
	for _, prefix := range []string{noticesKey, realmKey} {
		err := store.Scan(ctx, st, prefix, func(key string, _ store.Record) error {
			if !strings.Contains(key, noticesKey) {
				return nil
			}
			return (&Outbox{store: st}).list().Change(ctx, key, "", func(all []OperatorNotice) ([]OperatorNotice, error) {
				return slices.DeleteFunc(all, func(n OperatorNotice) bool { return n.User == text.Cut(user, maxText) }), nil
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
