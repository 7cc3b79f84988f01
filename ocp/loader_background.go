package ocp

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/ocp/openapi"
)

// maxSiteWait is how long a request waits for the first load of a document that
// the site itself serves.
const maxSiteWait = 10 * time.Second

// background is what runs between Start and Stop.
type background struct {
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

// Start begins to load and watch the document in the background, and lets Ensure
// load. Starting twice does nothing; a stopped Loader may be started again.
func (l *Loader) Start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run != nil {
		return
	}
	run := &background{}
	run.ctx, run.cancel = context.WithCancel(context.Background())
	l.run = run
	if _, bySite := l.source.(*openapi.SiteSource); !bySite {
		run.tasks.Go(func() { l.watch(run.ctx) })
	}
}

// Stop ends the background and waits until it has ended, which a build that is
// under way may delay. The Toolset stays. Stopping twice does nothing.
func (l *Loader) Stop() {
	l.mu.Lock()
	run := l.run
	l.run = nil
	l.mu.Unlock()
	if run == nil {
		return
	}
	run.cancel()
	run.tasks.Wait()
}

// watch looks at the document whenever it is due.
func (l *Loader) watch(ctx context.Context) {
	for {
		timer := time.NewTimer(time.Until(time.Unix(0, l.due.Load())))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-l.wake:
			timer.Stop()
		case <-timer.C:
		}
		// A Load of somebody else may have come in between; one more look is cheap.
		_ = l.Load(ctx) // the observer has been told
	}
}

// Ensure returns the Toolset. If the document is on the site itself, fetch is the
// way there that the present request knows: the first requests wait for one load
// between them, at most ten seconds, and later ones set off a refresh in the
// background when it is due. Without a Toolset the error is ErrNotLoaded, with the
// cause if one is known.
func (l *Loader) Ensure(ctx context.Context, fetch openapi.SiteFetch) (*Toolset, error) {
	current := l.Toolset()
	site, bySite := l.source.(*openapi.SiteSource)
	if bySite && fetch != nil && time.Now().UnixNano() >= l.due.Load() && !within(ctx, l) {
		flight := l.takeOff(site, fetch)
		if current == nil && flight != nil {
			await(ctx, flight)
		}
	}
	if current = l.Toolset(); current != nil {
		return current, nil
	}
	if err := l.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotLoaded, err)
	}
	return nil, ErrNotLoaded
}

// takeOff starts a load through the site, unless one is under way, and returns
// what is closed when it ends; nil if the Loader is stopped.
func (l *Loader) takeOff(site *openapi.SiteSource, fetch openapi.SiteFetch) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	run := l.run
	if run == nil || l.flight != nil {
		return l.flight
	}
	site.Use(fetch)
	flight := make(chan struct{})
	l.flight = flight
	run.tasks.Go(func() {
		_ = l.Load(context.WithValue(run.ctx, flightKey{}, l)) // the observer has been told
		l.mu.Lock()
		l.flight = nil
		l.mu.Unlock()
		close(flight)
	})
	return flight
}

// flightKey marks the context of a load, so that a request for the document that
// comes back to the endpoint which loads it does not wait for itself.
type flightKey struct{}

func within(ctx context.Context, l *Loader) bool {
	loading, _ := ctx.Value(flightKey{}).(*Loader)
	return loading == l
}

func await(ctx context.Context, flight <-chan struct{}) {
	timer := time.NewTimer(maxSiteWait)
	defer timer.Stop()
	select {
	case <-flight:
	case <-timer.C:
	case <-ctx.Done():
	}
}
