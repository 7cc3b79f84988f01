package serve

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/events"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

// Times of deliveries.
const (
	indexInterval = 10 * time.Second // in which the index is read again, if nothing changes it
	updateTime    = 5 * time.Second  // of one change of a subscription, which the end of a delivery does not cancel
	suspendAfter  = time.Hour        // in which a receiver has accepted nothing
)

// Start begins to deliver events to subscriptions, whenever no other node does.
func (s *Server) Start() {
	if s.Sealer != nil {
		s.deliverer.Start()
	}
}

// Stop ends the deliveries. It waits for requests in progress.
func (s *Server) Stop() { s.deliverer.Stop() }

// deliverAll delivers to all subscriptions. When the index changes, it begins anew with those that have changed.
func (s *Server) deliverAll(ctx context.Context, st store.Store, _ events.Cursor, _ func(events.Cursor) error) error {
	var working sync.WaitGroup
	defer working.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	records := s.records(st)
	for running := make(map[string]*delivery); ctx.Err() == nil; {
		seen, err := st.Get(ctx, records.indexKey)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		all, err := records.index.Get(ctx, records.indexKey)
		if err != nil {
			return err
		}
		wanted := make(map[string]*delivery, len(all))
		if s.Source.Types() == nil {
			all = nil // the document is not loaded yet
		}
		for _, e := range all {
			d := running[e.ID]
			if d == nil || !d.changed.Equal(e.Changed) {
				d = &delivery{Server: s, stored: records, id: e.ID, changed: e.Changed, before: d, done: make(chan struct{})}
				var within context.Context
				within, d.stop = context.WithDeadline(ctx, e.Expires)
				working.Go(func() { d.run(within) })
			}
			wanted[e.ID] = d
		}
		for id, d := range running {
			if wanted[id] != d {
				d.stop()
			}
		}
		running = wanted
		if _, _, err := lease.Wait(ctx, st, records.indexKey, seen.Value, time.Now().Add(indexInterval)); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}

// errOutdated ends a delivery because the subscription has changed.
var errOutdated = errors.New("the subscription has changed")

// A delivery delivers to one subscription.
type delivery struct {
	*Server
	stored  *subscriptions
	id      string
	changed time.Time // see entry
	before  *delivery // to the same subscription before its change; nil if there is none
	stop    context.CancelFunc
	done    chan struct{}

	sub *Subscription
	to  target
}

// run delivers until the context ends, or the subscription is suspended or deleted.
func (d *delivery) run(ctx context.Context) {
	defer close(d.done)
	defer d.stop()
	if d.before != nil {
		<-d.before.done // so that a receiver gets its events in order
		d.before = nil
	}
	for ctx.Err() == nil {
		switch err := d.deliver(ctx); {
		case err == nil || errors.Is(err, store.ErrNotFound):
			return
		case ctx.Err() == nil && !errors.Is(err, errOutdated):
			d.Failed(err)
			pause(ctx, retry)
		}
	}
}

// deliver delivers until the subscription changes.
func (d *delivery) deliver(ctx context.Context) (err error) {
	if d.sub, err = d.stored.get(ctx, d.id); err != nil || !d.sub.Status.Active {
		return err
	}
	if d.to, err = d.unseal(d.sub); err != nil {
		return err
	}
	r, err := d.receive(d.to.User, d.to.Params)
	switch {
	case d.typeOf(d.sub.Name) == nil:
		return d.terminate(ctx, d.noType(d.sub.Name))
	case err != nil:
		return d.terminate(ctx, d.refuse(unsupported, map[string]any{"reason": "schema_changed"}, "the arguments do not fit the event any more"))
	}
	return r.follow(ctx, d.sub.Cursor, func(kind string, at events.Cursor, o *occurrence) error {
		switch kind {
		case "event":
			return d.send(ctx, o.ID, o, at)
		case "heartbeat":
			return d.change(ctx, func(sub *Subscription) { sub.Cursor = at })
		case "active":
			return d.send(ctx, "msg_gap_"+rand.Text(), map[string]any{"type": "gap", "cursor": at}, d.sub.Cursor)
		case "terminated":
			return d.terminate(ctx, d.noType(r.Name))
		}
		return nil
	})
}

// terminate ends the subscription, and reports it to the receiver.
func (d *delivery) terminate(ctx context.Context, why *Error) error {
	d.post(ctx, d.to, d.id, "msg_terminated_"+rand.Text(), map[string]any{"type": "terminated", "error": why})
	_, err := d.stored.remove(ctx, func(e entry) bool { return e.ID == d.id })
	return err
}

// send sends a message until it is accepted or given up, and records that the receiver has what is before next.
func (d *delivery) send(ctx context.Context, id string, body any, next events.Cursor) error {
	for try := 0; ; try++ {
		now, err := d.stored.get(ctx, d.id)
		if err == nil && (now.Sealed != d.sub.Sealed || now.Cursor != d.sub.Cursor) {
			err = errOutdated // only the latest identity and secrets are used
		}
		if err != nil {
			return err
		}
		_, reason, final := d.post(ctx, d.to, d.id, id, body)
		done := reason == "" || final || try == len(d.pauses)
		if _, isEvent := body.(*occurrence); done && isEvent { // also if the subscription has ended meanwhile
			if err := d.Delivered(ctx, &Delivery{"webhook", d.sub.User, d.sub.Name, []string{id}, reason != ""}); err != nil {
				d.Failed(err)
			}
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

// change changes the record, unless the events are to be delivered again or the subscription has ended.
func (d *delivery) change(ctx context.Context, change func(*Subscription)) error {
	ctx, cancel := store.Detach(ctx, updateTime)
	defer cancel()
	now, err := d.stored.update(ctx, d.id, func(sub *Subscription) error {
		if sub.ID == "" || sub.Cursor != d.sub.Cursor {
			return errOutdated
		}
		change(sub)
		return nil
	})
	if err == nil {
		now.Sealed = d.sub.Sealed // of d.to
		d.sub = now
	}
	return err
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
