package engagement

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Past rebuilds the earlier states of an Engagement from the entries of its record, so that rules can be evaluated over
// them again. It writes nothing, and is not safe for concurrent use.
type Past struct {
	records *Records
	tx      Tx
}

// Past returns the state of an Engagement before the first entry of its record.
func (s *Records) Past(of *Summary) *Past {
	started := of.StartedAt
	if of.Renewals > 0 {
		started = time.Time{} // of the first Engagement in the record; its first entry says it
	}
	p := &Past{records: s}
	p.tx = Tx{options: &s.options, record: newRecord(of.Key), State: NewState(Ref{Agent: of.Agent, ID: of.ID, User: of.User, Reviewed: of.Reviewed}, started)}
	p.tx.record.state = p.tx.State
	return p
}

// Apply adds the next entry of the record.
func (p *Past) Apply(e *Entry) {
	s, r := p.tx.State, p.tx.record
	at := r.length
	if at == 0 && s.Started < 0 {
		s.Started = e.At.UnixMilli()
	}
	r.length++
	switch i := s.Find(e.Name); {
	case e.Event == EntryRenewed:
		p.renew(e)
		return
	case e.Event == EntryBegun:
		s.Recent = s.IndexOf(e.Name)
		s.Total = e.Call
		s.Names[s.Recent] = CallSummary{Name: e.Name, Count: e.Nth, Call: e.Call, Begun: at}
	case (e.Event == EntryFinished || e.Event == EntryReleased) && e.Kind == "" && i >= 0 && s.Names[i].Call == e.Call:
		s.Names[i].Done = at
	}
	r.applyLatest(e, at)
	if r.history != nil && r.history.applied == at {
		r.applyHistory(e)
	}
}

// renew begins the next Engagement in the record.
func (p *Past) renew(e *Entry) {
	renewals, length := p.tx.State.Earlier.Renewals, p.tx.record.length
	s := NewState(p.tx.State.Ref, e.At)
	s.Earlier = earlier{Renewals: renewals + 1, Entries: length}
	p.tx.State, p.tx.record.state = s, s
	p.tx.record.latest, p.tx.record.history = nil, nil
}

// Read calls read with the current state. If read returns an UnreadError, the entries that it needs are read from the store, and
// read is called again.
func (p *Past) Read(ctx context.Context, read func(*Tx) error) error {
	for range MaxTries {
		var more *UnreadError
		if err := read(&p.tx); !errors.As(err, &more) {
			return err
		}
		if err := p.tx.record.load(ctx, p.records.store, &more.Unread); err != nil {
			return fmt.Errorf("reading an Engagement: %w", err)
		}
	}
	return ErrContended
}
