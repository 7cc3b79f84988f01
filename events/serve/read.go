package serve

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/events"
	"github.com/fairwayhq/fairway/internal/identity"
)

// Limits of what a receiver gets at once, and of how long a request waits.
const (
	maxEvents  = 100
	maxBytes   = 1 << 20          // of payloads
	readBatch  = 64               // events of the log that are read at once
	maxScan    = 4096             // events of the log that are read for one result
	maxWait    = 30 * time.Second // of a poll
	heartbeat  = 20 * time.Second // between messages of a stream
	maxPolls   = 20               // of a user that wait; further ones respond at once
	nextPoll   = 1000             // milliseconds
	maxRecent  = 20               // events of a resource
	recentScan = 512              // events of the log that are read for a resource
	retry      = 5 * time.Second  // after an error of the store
)

// occurrence is an event as clients get it.
type occurrence struct {
	ID        string         `json:"eventId"`
	Name      string         `json:"name"`
	Timestamp time.Time      `json:"timestamp"`
	Data      jsontext.Value `json:"data"`
	Cursor    events.Cursor  `json:"cursor"`
}

// batch is what a receiver gets at once. It is the result of events/poll.
type batch struct {
	Events    []occurrence  `json:"events"`
	Cursor    events.Cursor `json:"cursor"`
	Truncated bool          `json:"truncated"`
	HasMore   bool          `json:"hasMore"`
	NextPoll  int           `json:"nextPollMs"`
}

// start returns the position of the cursor. Without one it is that after the newest event.
func (r *receiver) start(ctx context.Context) (after events.Cursor, truncated bool, err error) {
	if r.Cursor == "" {
		after, err = r.Source.Log().End(ctx)
		return after, false, err
	}
	_, _, truncated, err = r.Source.Log().Read(ctx, events.Cursor(r.Cursor), 1)
	if errors.Is(err, events.ErrCursor) {
		err = invalid("params.cursor is not one that this server has returned")
	}
	return events.Cursor(r.Cursor), truncated, err
}

// read returns at most limit events after the cursor. It passes over those that the receiver does not get.
func (r *receiver) read(ctx context.Context, after events.Cursor, limit int) (b batch, err error) {
	b = batch{Events: []occurrence{}, Cursor: after, NextPoll: nextPoll}
	log, maxAge := r.Source.Log(), time.Duration(r.MaxAge)*time.Millisecond
	for scanned, size := 0, 0; scanned < maxScan && len(b.Events) < limit && size < maxBytes; {
		found, next, truncated, err := log.Read(ctx, b.Cursor, readBatch)
		b.Truncated = b.Truncated || truncated
		if err != nil || len(found) == 0 {
			b.Cursor = next
			return b, err
		}
		for i := 0; i < len(found) && len(b.Events) < limit && size < maxBytes; i++ {
			e := &found[i]
			b.Cursor, scanned = e.Next, scanned+1
			data, ok := r.data(ctx, e)
			switch {
			case !ok:
			case maxAge > 0 && time.Since(e.Received) > maxAge:
				b.Truncated = true
			default:
				size += len(data)
				b.Events = append(b.Events, occurrence{e.ID, e.Name, e.Received.UTC(), data, e.Next})
			}
		}
	}
	end, err := log.End(ctx)
	b.HasMore = end != b.Cursor
	return b, err
}

// data returns what the receiver gets of an event; false for nothing.
func (r *receiver) data(ctx context.Context, e *events.Event) (data jsontext.Value, ok bool) {
	if e.Name != r.Name || !r.Source.Visible(ctx, e, r.user) {
		return nil, false
	}
	if data, ok = r.Source.Data(ctx, e, r.user); ok && data.Kind() != '{' {
		data = slices.Concat([]byte(`{"value":`), data, []byte{'}'})
	}
	return data, ok && r.filter.passes(data)
}

// Poll serves events/poll. It responds at once if there are events, and at the latest after timeoutMs.
func (s *Server) Poll(ctx context.Context, user *identity.User, raw []byte) (any, error) {
	r, err := s.receive(user, raw)
	if err != nil {
		return nil, err
	}
	after, _, err := r.start(ctx)
	if err != nil {
		return nil, err
	}
	if r.MaxEvents == 0 || r.MaxEvents > maxEvents {
		r.MaxEvents = maxEvents
	}
	wait := min(time.Duration(r.Timeout)*time.Millisecond, maxWait)
	if s.countPoll(user.ID, +1) > maxPolls {
		wait = 0
	}
	defer s.countPoll(user.ID, -1)
	within, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		b, err := r.read(ctx, after, int(r.MaxEvents))
		if err == nil && len(b.Events) > 0 {
			err = r.delivered(ctx, "poll", b.Events...)
		}
		if err != nil || len(b.Events) > 0 || b.Truncated || b.HasMore || within.Err() != nil {
			return b, err
		}
		after = b.Cursor
		if err := s.Source.Log().Wait(within, after); err != nil && within.Err() == nil {
			return nil, err
		}
	}
}

// delivered records a delivery.
func (r *receiver) delivered(ctx context.Context, mode string, all ...occurrence) error {
	d := &Delivery{Mode: mode, User: r.user.ID, Event: r.Name}
	for i := range all {
		d.IDs = append(d.IDs, all[i].ID)
	}
	return r.Delivered(ctx, d)
}

// countPoll adds to the polls of a user, and returns how many there are.
func (s *Server) countPoll(user string, n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.polls[user] += n; s.polls[user] == 0 {
		delete(s.polls, user)
		return 0
	}
	return s.polls[user]
}

// Recent returns the newest events of a type that the user may see, in JSON.
func (s *Server) Recent(ctx context.Context, user *identity.User, name string) ([]byte, error) {
	r, err := s.readParams(user, []byte("{}"))
	if err != nil {
		return nil, err
	}
	after, err := s.Source.Log().Recent(ctx, recentScan)
	r.Name = name
	recent, more := []occurrence{}, true
	for more && err == nil {
		var b batch
		b, err = r.read(ctx, after, maxEvents)
		recent, after, more = append(recent, b.Events...), b.Cursor, b.HasMore
		recent = recent[max(len(recent)-maxRecent, 0):]
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"events": recent})
}

// follow passes what the receiver gets after a cursor to emit, in order, until ctx ends or emit returns an error. The kinds are those of
// notifications/events: "event" with the event, "active" if events after the cursor are gone, "heartbeat" if there was nothing for a while,
// "error" if the store fails, and "terminated" at the end, because the type does not exist any more.
func (r *receiver) follow(ctx context.Context, after events.Cursor, emit func(kind string, at events.Cursor, o *occurrence) error) (err error) {
	for sent := time.Now(); err == nil && ctx.Err() == nil; {
		if r.Source.Types() != nil && r.typeOf(r.Name) == nil {
			return emit("terminated", after, nil)
		}
		b, failed := r.read(ctx, after, maxEvents)
		if failed != nil && ctx.Err() == nil {
			r.Failed(failed)
			err = emit("error", after, nil)
			pause(ctx, retry)
			continue
		}
		if b.Truncated {
			err = emit("active", after, nil)
		}
		for i := 0; i < len(b.Events) && err == nil; i++ {
			err, sent = emit("event", b.Events[i].Cursor, &b.Events[i]), time.Now()
		}
		if after = b.Cursor; err == nil && time.Since(sent) >= heartbeat {
			err, sent = emit("heartbeat", after, nil), time.Now()
		}
		if err == nil && !b.HasMore {
			within, cancel := context.WithDeadline(ctx, sent.Add(heartbeat))
			_ = r.Source.Log().Wait(within, after) // read reports errors
			cancel()
		}
	}
	return err
}

// Stream serves events/stream: run sends notifications until ctx ends, the client does not take them, or the type is gone.
func (s *Server) Stream(ctx context.Context, user *identity.User, raw []byte) (run func(context.Context, func(method string, params []byte) error), err error) {
	r, err := s.receive(user, raw)
	if err != nil {
		return nil, err
	}
	after, truncated, err := r.start(ctx)
	return func(ctx context.Context, send func(string, []byte) error) {
		emit := func(kind string, at events.Cursor, o *occurrence) error {
			var params any = map[string]any{"cursor": at}
			switch kind {
			case "active":
				params, truncated = map[string]any{"cursor": at, "truncated": truncated}, true // a further one reports a gap
			case "event":
				if err := r.delivered(ctx, "push", *o); err != nil {
					s.Failed(err)
					return err
				}
				params = o
			case "error":
				params = map[string]any{"error": ErrUnavailable}
			case "terminated":
				params = map[string]any{"error": s.noType(r.Name)}
			}
			members, err := json.Marshal(params)
			if err != nil {
				return err
			}
			return send("notifications/events/"+kind, members[1:len(members)-1])
		}
		if truncated || emit("active", after, nil) == nil { // follow reports a gap
			_ = r.follow(ctx, after, emit)
		}
	}, err
}

// ErrUnavailable is what clients get of errors of the store.
var ErrUnavailable = &Error{Code: -32603, Message: "the events are not available at the moment; try again later"}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
