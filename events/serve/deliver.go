package serve

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"time"

	"github.com/fairwayhq/fairway/events"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

// Times and limits of deliveries.
const (
	scanInterval = 10 * time.Second
	leaseTime    = time.Minute
	suspendAfter = time.Hour // in which a receiver has accepted nothing
)

// Start begins to deliver events to subscriptions.
func (s *Server) Start() {
	if s.Sealer == nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.working.Go(func() {
		for ctx.Err() == nil {
			if err := s.scan(ctx); err != nil && ctx.Err() == nil {
				s.Failed(err)
			}
			select {
			case <-ctx.Done():
			case <-s.wake:
			case <-time.After(scanInterval):
			}
		}
	})
}

// Stop ends the deliveries. It waits for requests in progress.
func (s *Server) Stop() {
	if s.stop != nil {
		s.stop()
		s.working.Wait()
	}
}

// changed makes this node use a subscription that has changed. Others notice it before the next event.
func (s *Server) changed(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.running[key]; cancel != nil {
		cancel()
	}
	select {
	case s.wake <- struct{}{}:
	default: // already awake
	}
}

// scan begins deliveries to the subscriptions that have none. A node delivers to those of which it has the lease.
func (s *Server) scan(ctx context.Context) error {
	st, err := s.Open(ctx)
	if err != nil || s.Source.Types() == nil {
		return err
	}
	all, err := s.list(ctx, st)
	process := lease.ProcessOf(st)
	terms := &lease.Terms{Duration: leaseTime, Node: process, Process: process, Failed: s.Failed}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, sub := range all {
		if !sub.Status.Active || s.running[key] != nil || !terms.IsFree(&sub.Lease) || time.Now().After(sub.Expires) {
			continue
		}
		running, cancel := context.WithCancel(ctx)
		s.running[key] = cancel
		s.working.Go(func() {
			defer cancel()
			if err := s.deliver(running, st, key, terms); err != nil && running.Err() == nil {
				s.Failed(err)
				pause(ctx, retry)
			}
			s.mu.Lock()
			delete(s.running, key)
			s.mu.Unlock()
			s.changed(key)
		})
	}
	return err
}

// errOutdated ends a delivery because the subscription has changed. The next scan begins again.
var errOutdated = errors.New("the subscription has changed")

// A delivery delivers to one subscription.
type delivery struct {
	*Server
	store store.Store
	key   string
	claim *lease.Claim[*Subscription]
	sub   Subscription
	to    target
}

// deliver delivers events to a subscription until it changes, or another node delivers.
func (s *Server) deliver(ctx context.Context, st store.Store, key string, terms *lease.Terms) (err error) {
	d := &delivery{Server: s, store: st, key: key}
	d.claim, err = lease.Take(ctx, terms, s.update(st, key), func(sub *Subscription) bool { d.sub = *sub; return sub.Status.Active })
	if err != nil || d.claim == nil {
		return err
	}
	working, lost := context.WithDeadline(ctx, d.sub.Expires)
	defer lost()
	stop := d.claim.Keep(ctx, lost)
	defer func() {
		stop()
		_ = d.claim.End(ctx, func(*Subscription, *lease.Lease) error { return nil }) // otherwise the lease expires
	}()
	if d.to, err = s.unseal(&d.sub); err != nil {
		return err
	}
	r, err := s.receive(d.to.User, d.to.Params)
	switch {
	case s.typeOf(d.sub.Name) == nil:
		return d.terminate(working, s.noType(d.sub.Name))
	case err != nil:
		return d.terminate(working, s.refuse(unsupported, map[string]any{"reason": "schema_changed"}, "the arguments do not fit the event any more"))
	}
	err = r.follow(working, d.sub.Cursor, func(kind string, at events.Cursor, o *occurrence) error {
		switch kind {
		case "event":
			return d.send(working, o.ID, o, at)
		case "heartbeat":
			if err := d.current(working); err != nil {
				return err
			}
			return d.change(working, func(sub *Subscription) { sub.Cursor = at })
		case "active":
			return d.send(working, "msg_gap_"+rand.Text(), map[string]any{"type": "gap", "cursor": at}, d.sub.Cursor)
		case "terminated":
			return d.terminate(working, s.noType(r.Name))
		}
		return nil
	})
	if errors.Is(err, errOutdated) || errors.Is(err, lease.ErrLost) || errors.Is(err, store.ErrNotFound) || working.Err() != nil {
		return nil
	}
	return err
}

// terminate ends the subscription, and reports it to the receiver.
func (d *delivery) terminate(ctx context.Context, why *Error) error {
	d.post(ctx, d.to, d.sub.ID, "msg_terminated_"+rand.Text(), map[string]any{"type": "terminated", "error": why})
	return d.store.Delete(ctx, d.key)
}

// send sends a message until it is accepted or given up, and records that the receiver has what is before next.
func (d *delivery) send(ctx context.Context, id string, body any, next events.Cursor) error {
	for try := 0; ; try++ {
		if err := d.current(ctx); err != nil {
			return err
		}
		_, reason, final := d.post(ctx, d.to, d.sub.ID, id, body)
		done := reason == "" || final || try == len(d.pauses)
		if done { // also if the subscription has ended meanwhile
			d.Delivered("webhook", 1, reason == "")
		}
		if err := d.change(ctx, func(sub *Subscription) {
			if sub.count(reason); done {
				sub.Cursor = next
			}
		}); err != nil {
			return err
		}
		switch {
		case !d.sub.Status.Active:
			return errOutdated
		case done:
			return nil
		}
		pause(ctx, time.Duration(float64(d.pauses[try])*(0.8+0.4*mathrand.Float64()))) //nolint:gosec // only spreads requests
	}
}

// current returns an error if the subscription has changed, so that only the latest identity and secrets are used.
func (d *delivery) current(ctx context.Context) error {
	record, err := d.store.Get(ctx, d.key)
	if err != nil {
		return err
	}
	now, err := decode(d.key, record.Value)
	if err == nil && (now.Sealed != d.sub.Sealed || now.Cursor != d.sub.Cursor) {
		err = errOutdated
	}
	return err
}

// change changes the record.
func (d *delivery) change(ctx context.Context, change func(*Subscription)) error {
	return d.claim.Change(ctx, func(sub *Subscription, _ *lease.Lease) error {
		sealed := d.sub.Sealed
		change(sub)
		d.sub = *sub
		d.sub.Sealed = sealed // of d.to
		return nil
	})
}

// count records an attempt. A receiver that has accepted nothing for suspendAfter is suspended, until its client subscribes again.
func (sub *Subscription) count(reason string) {
	now, status := time.Now().UTC(), &sub.Status
	switch status.LastError = reason; {
	case reason == "":
		status.LastDelivery, status.FailedSince = now, time.Time{}
	case status.FailedSince.IsZero():
		status.FailedSince = now
	default:
		status.Active = now.Sub(status.FailedSince) < suspendAfter
	}
}
