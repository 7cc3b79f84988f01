// Package loader keeps the Toolset of one document current. A [Loader] fetches the document from its
// source, builds a Toolset from it, and replaces the Toolset atomically when the document changes.
//
// A document that is a file is checked every second, and a URL is fetched again at an interval. A
// document on the site itself is fetched by the requests that need it (see [Loader.Ensure]). If a
// document cannot be read or built, the earlier Toolset stays in use, and the Loader tries again
// after a delay that grows with each failure.
package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairwayhq/fairway/internal/watch"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/source"
)

const (
	// DefaultRefresh is how often to re-fetch a document that is not a file.
	DefaultRefresh = 5 * time.Minute

	// minBackoff and maxBackoff are the shortest and longest delay before a retry while
	// there is no Toolset.
	minBackoff = time.Second
	maxBackoff = time.Minute

	never = 100 * 365 * 24 * time.Hour
)

// ErrNotLoaded reports that the document is not loaded yet.
var ErrNotLoaded = errors.New("the document is not loaded yet")

// A BuildFunc builds a Toolset from a document. Location is where the document was read.
// Previous is the Toolset to be replaced, nil at first. It returns the other files that
// the document refers to, even if it fails, so that the Loader notices changes in them.
type BuildFunc func(ctx context.Context, data []byte, location string, previous *tools.Toolset) (toolset *tools.Toolset, files []string, err error)

// An Observer receives the results of loading. Its functions may be nil. They are
// called one at a time and must not call the Loader's Stop.
type Observer struct {
	Loaded func(toolset *tools.Toolset, took time.Duration) // a new Toolset is in use
	Failed func(err error)                                  // the previous Toolset, if any, stays in use
}

// Options configure a Loader.
type Options struct {
	Source source.Source
	Build  BuildFunc

	// Prepare changes the text of a document before it is built, and before KeepDocument
	// keeps it. It may be nil. Call Rebuild when it starts to give another result.
	Prepare func(data []byte) ([]byte, error)

	// Refresh is how often to re-fetch a document that is not a file. 0 means
	// DefaultRefresh; a negative value means that the document is not fetched again once
	// it is loaded. Files are checked every second.
	Refresh  time.Duration
	Observer Observer
}

// A Loader keeps the Toolset of one document current. When the document changes, it builds
// a new Toolset and replaces the old one atomically. If the document cannot be read or
// built, the old Toolset stays in use.
//
// How a document is loaded depends on its source:
//
//   - A file is loaded with Load, then watched between Start and Stop.
//   - A URL is loaded and refreshed between Start and Stop.
//   - A document on the site itself is loaded by Ensure, because only a request can fetch
//     it through the site's handlers.
type Loader struct {
	options Options // Refresh is the time between successful loads; negative means never again
	polled  bool    // the source is a file, which is cheap to check

	toolset atomic.Pointer[tools.Toolset]
	keep    atomic.Bool   // keep the text of the document
	stale   atomic.Bool   // fetch and build the document even if it has not changed
	wake    chan struct{} // holds a value if the background goroutine must load at once
	kept    atomic.Pointer[Document]
	due     atomic.Int64 // when the next load may begin, in Unix nanoseconds

	turn chan struct{} // holds one value while a load runs
	last lastLoad      // guarded by turn

	mu          sync.Mutex
	subscribers map[*func()]struct{} // notified of a new Toolset
	err         error
	failedSince time.Time     // when the first load of those that have failed since the last success ended
	run         *background   // nil unless started
	running     chan struct{} // closed when the load that requests wait for ends; nil if none runs
}

// lastLoad is what the next load needs to know of the last one.
type lastLoad struct {
	snapshot *source.Snapshot // of the last document fetched
	rejected error            // why that document could not be built
	missing  bool             // the last fetch found no file
	used     bool             // the Toolset is that of Use
	failures int              // consecutive failures
}

// New returns a Loader without loading the document.
func New(options Options) *Loader {
	l := &Loader{options: options, turn: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
	l.options.Refresh = cmp.Or(l.options.Refresh, DefaultRefresh)
	if _, l.polled = options.Source.(*source.File); l.polled {
		l.options.Refresh = watch.Interval()
	}
	return l
}

// A Document is the text of a document that a Loader has loaded.
type Document struct {
	Data     []byte // must not be changed
	Location string // where it was read
	Toolset  *tools.Toolset
}

// KeepDocument makes the Loader keep the document's text from now on, in addition to the
// Toolset. If a document is loaded already, the next load, by Load or in the background,
// fetches it again.
func (l *Loader) KeepDocument() {
	if !l.keep.Swap(true) {
		l.stale.Store(true)
	}
}

// Rebuild makes the Loader build the document again even if it has not changed. Call it
// when the BuildFunc starts to make different Toolsets. Load rebuilds when it is called,
// the background goroutine at once, and a document on the site on the next request for it.
func (l *Loader) Rebuild() {
	l.stale.Store(true)
	if l.Toolset() == nil {
		return // it has not been built yet
	}
	l.due.Store(0)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Document returns the text of the current document. It is nil unless a document was
// loaded after KeepDocument was called.
func (l *Loader) Document() *Document {
	return l.kept.Load()
}

// Use makes the tools of an earlier version of the document current until a later load
// succeeds. The data is as Options.Prepare has returned it. Use may be called while
// there is no Toolset, by Observer.Failed or before Start.
func (l *Loader) Use(ctx context.Context, data []byte) error {
	snapshot := &source.Snapshot{Data: data, Location: l.Location()}
	toolset, _, err := l.runBuild(ctx, snapshot, nil)
	if err == nil {
		l.last.used = true
		l.keepDocument(snapshot, toolset)
		l.toolset.Store(toolset)
		l.notify()
	}
	return err
}

// Toolset returns the current Toolset, or nil if none is loaded yet.
func (l *Loader) Toolset() *tools.Toolset {
	return l.toolset.Load()
}

// Err returns the error of the last load. It is nil if the Toolset is that of the document
// as last fetched.
func (l *Loader) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// A Fault says why the document as it is now is not in use.
type Fault struct {
	Err   error
	Since time.Time // of the first failure after the last load that succeeded
	Next  time.Time // when the document is loaded again
}

// Fault returns the error of the last load with its times, or nil if it succeeded.
func (l *Loader) Fault() *Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		return nil
	}
	return &Fault{l.err, l.failedSince, time.Unix(0, l.due.Load())}
}

// Location returns the path or the URL of the document, without secrets.
func (l *Loader) Location() string {
	return l.options.Source.Location()
}

// RetryAfter returns how long a client should wait if there is no Toolset: the time until
// the next attempt to load, in whole seconds, at least one.
func (l *Loader) RetryAfter() time.Duration {
	wait := time.Until(time.Unix(0, l.due.Load()))
	return max(wait.Truncate(time.Second)+time.Second, time.Second)
}

// Load reads the document now and builds it if it has changed. Err returns the same error
// afterwards.
func (l *Loader) Load(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.turn }()

	began := time.Now()
	toolset, isNews, err := l.poll(ctx)
	if err != nil && ctx.Err() != nil {
		// The load was canceled, so the error does not concern the document.
		return fmt.Errorf("loading %s: %w", l.Location(), err)
	}
	l.recordResult(err)
	switch {
	case err != nil && isNews && l.options.Observer.Failed != nil:
		l.options.Observer.Failed(err)
	case toolset != nil && l.options.Observer.Loaded != nil:
		l.options.Observer.Loaded(toolset, time.Since(began))
	}
	if toolset != nil {
		l.notify()
	}
	return err
}

// poll fetches the document. If the document has changed, poll replaces the Toolset and
// returns the new one. IsNews is false if an earlier load found the same error.
func (l *Loader) poll(ctx context.Context) (toolset *tools.Toolset, isNews bool, err error) {
	snapshot, changed, err := l.fetch(ctx)
	if errors.Is(err, fs.ErrNotExist) && l.Toolset() != nil && !l.last.missing {
		// An editor may remove a file before it renames the new one, so ignore the first
		// miss.
		l.last.missing = true
		return nil, false, l.Err()
	}
	if err != nil {
		earlier := l.Err()
		return nil, !l.polled || earlier == nil || earlier.Error() != err.Error(), err
	}
	l.last.missing = false
	if !changed {
		l.last.snapshot = snapshot
		return nil, false, l.last.rejected
	}
	toolset, files, err := l.runBuild(ctx, snapshot, l.options.Prepare)
	if err != nil && ctx.Err() != nil {
		return nil, false, err
	}
	if err != nil {
		// A file that the last good version referred to may be the cause, so keep watching
		// it.
		files = append(files, snapshot.Files()...)
	}
	l.last.snapshot, l.last.rejected = snapshot.Keep(files), err
	if err != nil {
		return nil, true, err
	}
	if current := l.Toolset(); current != nil && current.Hash != "" && current.Hash == toolset.Hash {
		l.keepDocument(snapshot, current)
		return nil, false, nil
	}
	l.keepDocument(snapshot, toolset)
	l.toolset.Store(toolset)
	return toolset, true, nil
}

func (l *Loader) keepDocument(snapshot *source.Snapshot, toolset *tools.Toolset) {
	if l.keep.Load() {
		l.kept.Store(&Document{Data: snapshot.Data, Location: snapshot.Location, Toolset: toolset})
	}
}

// fetch fetches the document from the source. A source.Site runs handlers, which may panic.
func (l *Loader) fetch(ctx context.Context) (snapshot *source.Snapshot, changed bool, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("fetching %s: panic: %v", l.Location(), cause)
		}
	}()
	if !l.stale.Load() {
		return l.options.Source.Fetch(ctx, l.last.snapshot)
	}
	if snapshot, changed, err = l.options.Source.Fetch(ctx, nil); err == nil {
		l.stale.Store(false)
	}
	return snapshot, changed, err
}

// runBuild prepares the document and builds the Toolset. It recovers from panics of the
// libraries that parse documents.
func (l *Loader) runBuild(ctx context.Context, snapshot *source.Snapshot, prepare func([]byte) ([]byte, error)) (toolset *tools.Toolset, files []string, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			toolset, err = nil, fmt.Errorf("building the tools of %s: panic: %v", l.Location(), cause)
		}
	}()
	if prepare != nil {
		if snapshot.Data, err = prepare(snapshot.Data); err != nil {
			return nil, nil, err
		}
	}
	toolset, files, err = l.options.Build(ctx, snapshot.Data, snapshot.Location, l.toolset.Load())
	if err == nil && toolset == nil {
		err = fmt.Errorf("the BuildFunc for %s returned neither a Toolset nor an error", l.Location())
	}
	return toolset, files, err
}

// Due reports whether the time of the next load has come.
func (l *Loader) Due() bool {
	return time.Now().UnixNano() >= l.due.Load()
}

// recordResult records the result of a load and when the next one is due.
func (l *Loader) recordResult(err error) {
	if err == nil {
		l.last.failures, l.last.used = 0, false
	} else {
		l.last.failures++
	}
	l.due.Store(time.Now().Add(l.retryDelay()).UnixNano())
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.failedSince = time.Now()
	}
	l.err = err
}

// retryDelay returns the delay before the next load. It is randomized, so that the nodes of a
// site do not fetch at the same time. While there is no Toolset but that of Use, it grows
// with each failure.
func (l *Loader) retryDelay() time.Duration {
	switch {
	case l.polled:
		return l.options.Refresh
	case l.last.failures > 0 && (l.Toolset() == nil || l.last.used):
		return jitter(min(minBackoff<<min(l.last.failures-1, 16), maxBackoff))
	case l.options.Refresh < 0:
		return never
	}
	return jitter(l.options.Refresh)
}

// jitter returns d changed at random by up to a tenth.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1) //nolint:gosec // spreads load, guards nothing
}
