package loader

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/source"
)

// maxSiteWait is how long a request waits for the first load of a document on the site
// itself.
const maxSiteWait = 10 * time.Second

// background is the state between Start and Stop.
type background struct {
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

// Start starts to load and watch the document in the background, and enables Ensure to
// load. If the Loader is started already, Start does nothing. A stopped Loader can be
// started again.
func (l *Loader) Start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run != nil {
		return
	}
	run := &background{}
	run.ctx, run.cancel = context.WithCancel(context.Background())
	l.run = run
	if _, onSite := l.options.Source.(*source.Site); !onSite {
		run.tasks.Go(func() { l.watch(run.ctx) })
	}
}

// Stop stops the background goroutines and waits for them to end, which a running build
// may delay. The Toolset stays. If the Loader is stopped already, Stop does nothing.
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

// watch loads the document whenever it is due.
func (l *Loader) watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case <-time.After(time.Until(time.Unix(0, l.due.Load()))):
		}
		// Load may have run in the meantime; loading once more is cheap.
		_ = l.Load(ctx) // the observer has received the error
	}
}

// Ensure returns the Toolset. If the document is on the site itself, fetch is how the
// current request can fetch it:
//
//   - The first requests share one load and wait for it, at most ten seconds.
//   - Later requests start a refresh in the background if one is due.
//
// If there is no Toolset, the error is ErrNotLoaded, with the cause if it is known.
func (l *Loader) Ensure(ctx context.Context, fetch source.SiteFetch) (*tools.Toolset, error) {
	current := l.Toolset()
	site, onSite := l.options.Source.(*source.Site)
	if onSite && fetch != nil && l.Due() && !isWithin(ctx, l) {
		running := l.startLoad(site, fetch)
		if current == nil && running != nil {
			await(ctx, running)
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

// startLoad starts a load through the site unless one is running. It returns a channel that
// is closed when the load ends, or nil if the Loader is stopped.
func (l *Loader) startLoad(site *source.Site, fetch source.SiteFetch) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	run := l.run
	if run == nil || l.running != nil {
		return l.running
	}
	site.Use(fetch)
	running := make(chan struct{})
	l.running = running
	run.tasks.Go(func() {
		_ = l.Load(context.WithValue(run.ctx, loadKey{}, l)) // the observer has received the error
		l.mu.Lock()
		l.running = nil
		l.mu.Unlock()
		close(running)
	})
	return running
}

// loadKey marks the context of a load. If the load's own request comes back to the
// endpoint that loads the document, it must not wait for itself.
type loadKey struct{}

func isWithin(ctx context.Context, l *Loader) bool {
	loading, _ := ctx.Value(loadKey{}).(*Loader)
	return loading == l
}

func await(ctx context.Context, running <-chan struct{}) {
	select {
	case <-running:
	case <-time.After(maxSiteWait):
	case <-ctx.Done():
	}
}
