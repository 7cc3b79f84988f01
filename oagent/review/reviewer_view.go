package review

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent/engagement"
)

// Limits on the Engagement that a reviewer sees.
const (
	maxShownCalls = 100       // the latest calls, in history
	maxShownNames = 32        // the names that were called most recently, in recent
	maxShownBytes = 128 << 10 // of inputs and outputs in history, and separately in recent; others are omitted

	maxShownEntries = 1024 // entries of the record that are searched for these calls
	shownChunk      = 32   // entries per read
)

// reviewerView is the view of a reviewer of the Engagement under review: the fields that expressions
// see, within the limits.
type reviewerView struct {
	queue   *Queue
	key     string
	state   *engagement.State
	length  int64
	review  *Review
	request engagement.RequestedReview // the review in the Engagement; the zero value if it is no longer valid

	calls  []*viewedCall                   // the latest calls, in order
	latest map[string]*engagement.Payloads // by name
	ended  map[int64]jsontext.Value        // call number → outputs, for calls whose beginning was not read yet
}

type viewedCall struct {
	number int64
	name   string
	engagement.Payloads
}

// Engagement returns the Engagement that a review is about: a JSON object with the fields that
// expressions see (OpenAgentSpec v1, Engagement).
//
//   - recent.<name> is the call under review. It has outputs if the review is about them.
//   - history contains the latest maxShownCalls calls. If there were more, history._omitted is
//     the number of earlier ones.
//   - Inputs and outputs beyond maxShownBytes are replaced by {"_shed": <bytes>}.
//
// The error is engagement.ErrNotFound if the Engagement no longer exists.
func (q *Queue) Engagement(ctx context.Context, r *Review) (jsontext.Value, error) {
	s := &reviewerView{queue: q, key: r.Key, review: r, latest: make(map[string]*engagement.Payloads), ended: make(map[int64]jsontext.Value)}
	err := q.options.Records.Read(ctx, r.Key, func(t *engagement.Tx) error {
		s.state, s.length = t.State, t.Length()
		if i := q.Requests(t).Find(func(a *engagement.RequestedReview) bool { return a.ID == r.ID }); i >= 0 {
			s.request = t.State.Reviews[i]
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if s.request.Call > 0 && s.request.Status != engagement.ReviewReleased {
		s.ended[s.request.Call] = r.Outputs
	}
	if err := s.read(ctx); err != nil {
		return nil, fmt.Errorf("reading the record of an Engagement: %w", err)
	}
	return s.encode()
}

// read reads the log backwards from its end.
func (s *reviewerView) read(ctx context.Context) error {
	room := maxShownBytes
	for to := s.length; to > max(s.state.Earlier.Entries, s.length-maxShownEntries) && len(s.calls) < maxShownCalls && room > 0; {
		from := max(s.state.Earlier.Entries, to-shownChunk)
		entries, err := s.queue.options.Records.Log(ctx, s.key, from, int(to-from))
		if err != nil {
			return err
		}
		for i := len(entries) - 1; i >= 0 && len(s.calls) < maxShownCalls; i-- {
			s.take(&entries[i], &room)
		}
		to = from
	}
	slices.Reverse(s.calls)
	return s.readRecent(ctx)
}

// take processes an entry. The later entries were processed before.
func (s *reviewerView) take(e *engagement.Entry, room *int) {
	switch e.Event {
	case engagement.EntryFinished, engagement.EntryReleased:
		if _, known := s.ended[e.Call]; !known {
			s.ended[e.Call] = e.Outputs
		}
	case engagement.EntryBegun:
		call := &viewedCall{number: e.Call, name: e.Name, Payloads: engagement.Payloads{Inputs: fit(e.Inputs, room), Outputs: fit(s.ended[e.Call], room)}}
		s.calls = append(s.calls, call)
		delete(s.ended, e.Call)
	}
}

// fit returns inputs or outputs if there is space for it, and its placeholder otherwise.
func fit(p jsontext.Value, room *int) jsontext.Value {
	if len(p) > *room {
		return engagement.Omitted{Bytes: int64(len(p))}.JSON()
	}
	*room -= len(p)
	return p
}

// readRecent finds the latest call of each name.
func (s *reviewerView) readRecent(ctx context.Context) error {
	names := slices.Clone(s.state.Names)
	slices.SortFunc(names, func(a, b engagement.CallSummary) int { return cmp.Compare(b.Call, a.Call) })
	room := maxShownBytes
	for _, n := range names[:min(len(names), maxShownNames)] {
		call, err := s.queue.options.Records.Call(ctx, s.key, n)
		switch {
		case err != nil:
			return err
		case call == nil:
			continue
		}
		call.Inputs, call.Outputs = fit(call.Inputs, &room), fit(call.Outputs, &room)
		s.latest[n.Name] = call
	}
	// The call under review is the latest of its name, even if it was not made.
	s.latest[s.review.Name] = &engagement.Payloads{Inputs: s.review.Inputs, Outputs: s.review.Outputs}
	return nil
}

// encode returns the view as JSON.
func (s *reviewerView) encode() (jsontext.Value, error) {
	latest := ""
	if s.state.Total > 0 {
		latest = s.state.Names[s.state.Recent].Name
	}
	recent := map[string]any{"_name": latest}
	for name, call := range s.latest {
		recent[name] = shownCall(*call)
	}
	list, byName := make([]string, len(s.calls)), make(map[string][]shownCall)
	for i, c := range s.calls {
		list[i] = c.name
		byName[c.name] = append(byName[c.name], shownCall(c.Payloads))
	}
	history := map[string]any{"_total": s.state.Total, "_list": list}
	if omitted := s.state.Total - int64(len(s.calls)); omitted > 0 {
		history["_omitted"] = omitted
	}
	for name, calls := range byName {
		history[name] = calls
	}
	return json.Marshal(struct {
		StartedAt time.Time       `json:"started_at"`
		User      engagement.User `json:"user"`
		Recent    map[string]any  `json:"recent"`
		History   map[string]any  `json:"history"`
	}{engagement.Milliseconds(s.state.Started), s.state.User, recent, history}, json.Deterministic(true))
}

// shownCall is a call as expressions see it.
type shownCall struct {
	Inputs  jsontext.Value `json:"inputs"`
	Outputs jsontext.Value `json:"outputs"`
}
