package archive

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

// Limits of deliveries.
const (
	maxBatch      = 500       // entries
	maxBatchBytes = 512 << 10 // bytes, about
	minPause      = time.Second
	maxPause      = time.Minute
	adoptInterval = 15 * time.Second // between two looks for chains of nodes that have ended
)

// delivery writes the entries of chains to one sink.
type delivery struct {
	sink    Sink
	id      string // of its cursors
	name    string // of the module
	archive *Archive
	wakeup  chan struct{}
	failing bool
}

func newDelivery(sink Sink, a *Archive) *delivery {
	sum := sha256.Sum256([]byte(sink.Target()))
	const size = 12
	d := &delivery{sink: sink, id: base64.RawURLEncoding.EncodeToString(sum[:size]), name: "sink", archive: a, wakeup: make(chan struct{}, 1)}
	if module, ok := sink.(caddy.Module); ok {
		d.name = module.CaddyModule().ID.Name()
	}
	failures.WithLabelValues(d.name) // exported before the first one
	return d
}

// wake makes the sinks look for entries.
func (q *Queue) wake() {
	q.worker.Lock()
	defer q.worker.Unlock()
	if q.user == nil {
		return
	}
	for _, d := range q.user.sinks {
		select {
		case d.wakeup <- struct{}{}:
		default:
		}
	}
}

// Start begins to deliver entries, in place of the Archive of an earlier configuration.
func (a *Archive) Start() {
	if a == nil {
		return
	}
	q := a.queue
	q.end()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, d := range a.sinks {
		all.Go(func() { d.run(ctx) })
	}
	all.Go(func() { a.adopt(ctx) })
	q.worker.Lock()
	defer q.worker.Unlock()
	q.user = a
	q.stop = func() {
		cancel()
		all.Wait()
	}
}

// Stop ends the deliveries, unless another Archive has taken over. Entries that were not delivered stay in the store.
func (a *Archive) Stop() {
	if a == nil {
		return
	}
	a.queue.worker.Lock()
	isUser := a.queue.user == a
	a.queue.worker.Unlock()
	if isUser {
		a.queue.end()
		a.queue.release(context.Background())
	}
}

// end ends the deliveries of the current Archive.
func (q *Queue) end() {
	q.worker.Lock()
	stop := q.stop
	q.user, q.stop = nil, nil
	q.worker.Unlock()
	if stop != nil {
		stop()
	}
}

// run delivers the entries of this node until ctx ends.
func (d *delivery) run(ctx context.Context) {
	pause := minPause
	for ctx.Err() == nil {
		c, err := d.archive.queue.chain(ctx)
		n := 0
		if err == nil {
			n, err = d.deliver(ctx, c)
		}
		d.report(ctx, err)
		switch {
		case err != nil:
			sleep(ctx, nil, pause)
			pause = min(2*pause, maxPause)
		case n == 0:
			sleep(ctx, d.wakeup, adoptInterval)
			fallthrough
		default:
			pause = minPause
		}
	}
}

// sleep waits for the time, or until there is something to do.
func sleep(ctx context.Context, wakeup <-chan struct{}, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wakeup:
	case <-timer.C:
	}
}

// report logs that deliveries fail, and that they succeed again.
func (d *delivery) report(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case err != nil:
		failures.WithLabelValues(d.name).Inc()
		if !d.failing {
			d.failing = true
			d.archive.logger.Error("a sink of the audit archive failed; its entries wait in the store", zap.String("sink", d.name), zap.Error(err))
		}
	case d.failing:
		d.failing = false
		d.archive.logger.Info("a sink of the audit archive works again", zap.String("sink", d.name))
	}
}

// deliver writes a batch of a chain to the sink, and returns the number of entries.
func (d *delivery) deliver(ctx context.Context, c *chain) (int, error) {
	at := c.cursorOf(d.id)
	entries, err := c.read(ctx, &at)
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	var lines []byte
	count := 0
	for _, entry := range entries {
		if count++; count > 1 && len(lines)+len(entry) > maxBatchBytes {
			count--
			break
		}
		lines = at.seal(lines, c.name, entry)
		at.Index++
	}
	if err := d.sink.Write(ctx, c.name+"-"+strconv.FormatInt(at.Seq, 10), lines); err != nil {
		return 0, err
	}
	err = c.advance(ctx, d.id, at, d.archive.sinkIDs())
	waiting.WithLabelValues().Set(float64(c.waiting()))
	return count, err
}

func (a *Archive) sinkIDs() map[string]bool {
	ids := make(map[string]bool, len(a.sinks))
	for _, d := range a.sinks {
		ids[d.id] = true
	}
	return ids
}

// cursorOf returns the position of a sink. A new one begins where the one that has got least is.
func (c *chain) cursorOf(id string) cursor {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.state.Cursors[id]; ok {
		return at
	}
	return c.state.oldest()
}

// read returns the next entries, and moves the cursor to their segment.
func (c *chain) read(ctx context.Context, at *cursor) ([][]byte, error) {
	for {
		entries, err := c.store.Read(ctx, c.logKey(at.Segment), at.Index, maxBatch)
		if err != nil || len(entries) > 0 {
			return entries, err
		}
		if _, err = c.store.Get(ctx, c.logKey(at.Segment+1)); errors.Is(err, store.ErrNotFound) {
			return nil, nil
		}
		if err == nil { // the segment is complete, but may have got entries since
			entries, err = c.store.Read(ctx, c.logKey(at.Segment), at.Index, maxBatch)
		}
		if err != nil || len(entries) > 0 {
			return entries, err
		}
		at.Segment, at.Index = at.Segment+1, 0
	}
}

// advance stores the position of a sink, forgets sinks that are not configured, and deletes what all others have got.
func (c *chain) advance(ctx context.Context, id string, at cursor, sinks map[string]bool) error {
	c.advancing.Lock()
	defer c.advancing.Unlock()
	c.mu.Lock()
	before, cursors := c.state.oldest(), make(map[string]cursor)
	for configured := range sinks {
		var ok bool
		if cursors[configured], ok = c.state.Cursors[configured]; !ok {
			cursors[configured] = before
		}
	}
	cursors[id] = at
	c.mu.Unlock()
	err := c.claim.Change(ctx, func(s *state, _ *lease.Lease) error {
		s.Cursors = cursors
		return nil
	})
	c.mu.Lock()
	if err == nil {
		c.state.Cursors = cursors
	}
	after := c.state.oldest()
	c.lost = c.lost || errors.Is(err, lease.ErrLost)
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("storing the position of a sink: %w", err)
	}
	var done []string
	for segment := before.Segment; segment < after.Segment; segment++ {
		done = append(done, c.logKey(segment))
	}
	return c.store.Delete(ctx, done...)
}

// adopt delivers the entries of nodes that have ended.
func (a *Archive) adopt(ctx context.Context) {
	for ctx.Err() == nil {
		if err := a.adoptAll(ctx); err != nil && ctx.Err() == nil {
			a.logger.Warn("entries of the audit archive of other nodes could not be read; trying again", zap.Error(err))
		}
		sleep(ctx, nil, adoptInterval)
	}
}

func (a *Archive) adoptAll(ctx context.Context) error {
	if _, err := a.queue.chain(ctx); err != nil { // so that its own chain is not taken for one of another node
		return err
	}
	st, err := a.queue.open(ctx)
	if err != nil {
		return err
	}
	keys, err := st.Keys(ctx, StatePrefix, "", store.MaxRead)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := a.adoptOne(ctx, st, key); err != nil {
			return err
		}
	}
	return nil
}

// adoptOne delivers the entries of a chain, if there are any and its node has ended.
func (a *Archive) adoptOne(ctx context.Context, st store.Store, key string) error {
	r, err := st.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	look := &chain{store: st}
	if err := json.Unmarshal(r.Value, &look.state); err != nil {
		return fmt.Errorf("the record %s is unreadable: %w", key, err)
	}
	look.name = look.state.Chain
	if err := look.measure(ctx); err != nil || look.waiting() == 0 {
		return err
	}
	c, err := claim(ctx, st, key, look.name)
	if c == nil {
		return err
	}
	defer c.release(context.WithoutCancel(ctx))
	for _, d := range a.sinks {
		for n := -1; n != 0; {
			if n, err = d.deliver(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}
