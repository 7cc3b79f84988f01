package ocp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairwayhq/fairway/ocp/openapi"
)

const (
	// DefaultRefresh is how often a document is asked for that does not come
	// from a file.
	DefaultRefresh = 5 * time.Minute

	// filePoll is how often the files of a document are looked at.
	filePoll = time.Second

	// minBackoff and maxBackoff are the first and the longest pause after a
	// failure while there is no Toolset to serve.
	minBackoff = time.Second
	maxBackoff = time.Minute

	never = 100 * 365 * 24 * time.Hour
)

// ErrNotLoaded reports a document that has not been loaded yet.
var ErrNotLoaded = errors.New("the document is not loaded yet")

// A BuildFunc turns a document into a Toolset. Location is where the document was
// read, previous the Toolset it replaces, nil at first. It returns the other files
// that the document refers to, also when it fails, so that a change of theirs is
// noticed.
type BuildFunc func(ctx context.Context, data []byte, location string, previous *Toolset) (toolset *Toolset, files []string, err error)

// A LoadObserver is told how loading goes. Its functions may be nil; they are
// called one at a time and must not call the Loader's Stop.
type LoadObserver struct {
	Loaded func(toolset *Toolset, took time.Duration) // a new Toolset is in place
	Failed func(err error)                            // the previous Toolset, if any, stays
}

// LoaderOptions say what a Loader loads.
type LoaderOptions struct {
	Source openapi.Source
	Build  BuildFunc

	// Refresh is how often a document that is not a file is asked for; 0 means
	// DefaultRefresh, negative means never once it is loaded. Files are looked at
	// every second.
	Refresh  time.Duration
	Observer LoadObserver
}

// A Loader keeps the Toolset of one document current. A document that changes is
// built and replaces the Toolset in one step; one that cannot be read or built
// leaves the Toolset as it was.
//
// A file is loaded with Load and then watched between Start and Stop; a URL is
// loaded and refreshed between Start and Stop. A document on the site itself is
// loaded by Ensure, because only a request knows the way through the site.
type Loader struct {
	source   openapi.Source
	build    BuildFunc
	observer LoadObserver
	interval time.Duration // between successful looks; negative means never again
	polled   bool          // the source is a file: looking costs next to nothing

	toolset atomic.Pointer[Toolset]
	keep    atomic.Bool   // the text of the document is wanted
	stale   atomic.Bool   // so it must be fetched though it may not have changed
	wake    chan struct{} // holds a value when the background is to look at once
	kept    atomic.Pointer[LoadedDocument]
	due     atomic.Int64 // when the next look may begin, in Unix nanoseconds

	turn     chan struct{}     // holds one value while somebody loads
	snapshot *openapi.Snapshot // of the last document seen; guarded by turn
	rejected error             // why that document could not be built; guarded by turn
	missing  bool              // the last look found no file; guarded by turn
	failures int               // in a row; guarded by turn

	mu     sync.Mutex
	told   map[*subscription]struct{} // who is told of a new Toolset
	err    error
	run    *background   // nil unless started
	flight chan struct{} // closed when the load that requests wait for ends; nil if none runs
}

// NewLoader returns a Loader that has loaded nothing yet.
func NewLoader(options LoaderOptions) *Loader {
	l := &Loader{
		source:   options.Source,
		build:    options.Build,
		observer: options.Observer,
		interval: options.Refresh,
		turn:     make(chan struct{}, 1),
		wake:     make(chan struct{}, 1),
	}
	if l.interval == 0 {
		l.interval = DefaultRefresh
	}
	if _, l.polled = options.Source.(*openapi.FileSource); l.polled {
		l.interval = filePoll
	}
	return l
}

// A LoadedDocument is the text of a document that a Loader has loaded.
type LoadedDocument struct {
	Data     []byte // must not be changed
	Location string // where it was read
	Toolset  *Toolset
}

// KeepDocument makes the Loader keep the document's text from now on, beside the
// Toolset that was built from it. What it has loaded already is loaded anew when
// it is next looked at, by Load or in the background.
func (l *Loader) KeepDocument() {
	if !l.keep.Swap(true) {
		l.stale.Store(true)
	}
}

// Rebuild has the document built anew though it may not have changed, because the
// BuildFunc makes another Toolset of it from now on: by Load, in the background at
// once, or of a document of the site when it is next asked for.
func (l *Loader) Rebuild() {
	l.stale.Store(true)
	if l.Toolset() == nil {
		return // it has yet to be built
	}
	l.due.Store(0)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Document returns the text of the current document, nil unless KeepDocument was
// called and a document has been loaded since.
func (l *Loader) Document() *LoadedDocument {
	return l.kept.Load()
}

// Toolset returns the current Toolset, nil until one has been loaded.
func (l *Loader) Toolset() *Toolset {
	return l.toolset.Load()
}

// Err returns why the last look at the document failed, nil if the Toolset is
// that of the document as it was then.
func (l *Loader) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Location names the document: a path or a URL without its secrets.
func (l *Loader) Location() string {
	return l.source.Location()
}

// RetryAfter returns how long a client that found no Toolset should wait: until
// the next attempt to load, in whole seconds, at least one.
func (l *Loader) RetryAfter() time.Duration {
	wait := time.Until(time.Unix(0, l.due.Load()))
	return max(wait.Truncate(time.Second)+time.Second, time.Second)
}

// Load reads the document now, and builds it if it has changed. Its error is also
// what Err returns then.
func (l *Loader) Load(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.turn }()

	began := time.Now()
	toolset, news, err := l.look(ctx)
	if err != nil && ctx.Err() != nil {
		// Given up, which says nothing about the document.
		return fmt.Errorf("loading %s: %w", l.Location(), err)
	}
	l.conclude(err)
	switch {
	case err != nil && news && l.observer.Failed != nil:
		l.observer.Failed(err)
	case toolset != nil && l.observer.Loaded != nil:
		l.observer.Loaded(toolset, time.Since(began))
	}
	if toolset != nil {
		l.tell()
	}
	return err
}

// look fetches the document and, if it has changed, puts its Toolset in place and
// returns it. An error is news unless an earlier look found the same.
func (l *Loader) look(ctx context.Context) (toolset *Toolset, news bool, err error) {
	snapshot, changed, err := l.fetch(ctx)
	if errors.Is(err, fs.ErrNotExist) && l.Toolset() != nil && !l.missing {
		// Between an editor's remove and its rename there is no file for a moment.
		l.missing = true
		return nil, false, l.rejected
	}
	if err != nil {
		earlier := l.Err()
		return nil, !l.polled || earlier == nil || earlier.Error() != err.Error(), err
	}
	l.missing = false
	if !changed {
		l.snapshot = snapshot
		return nil, false, l.rejected
	}
	toolset, files, err := l.assemble(ctx, snapshot)
	if err != nil && ctx.Err() != nil {
		return nil, false, err
	}
	if err != nil {
		// What the document referred to when it was whole may be what is wrong.
		files = append(files, snapshot.Files()...)
	}
	l.snapshot, l.rejected = snapshot.Keep(files), err
	if err != nil {
		return nil, true, err
	}
	if current := l.Toolset(); current != nil && current.Hash != "" && current.Hash == toolset.Hash {
		l.keepText(snapshot, current)
		return nil, false, nil
	}
	l.keepText(snapshot, toolset)
	l.toolset.Store(toolset)
	return toolset, true, nil
}

func (l *Loader) keepText(snapshot *openapi.Snapshot, toolset *Toolset) {
	if l.keep.Load() {
		l.kept.Store(&LoadedDocument{Data: snapshot.Data, Location: snapshot.Location, Toolset: toolset})
	}
}

// fetch asks the source. A SiteSource runs handlers, which may panic.
func (l *Loader) fetch(ctx context.Context) (snapshot *openapi.Snapshot, changed bool, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("fetching %s: panic: %v", l.Location(), cause)
		}
	}()
	if !l.stale.Load() {
		return l.source.Fetch(ctx, l.snapshot)
	}
	if snapshot, changed, err = l.source.Fetch(ctx, nil); err == nil {
		l.stale.Store(false)
	}
	return snapshot, changed, err
}

// assemble builds the Toolset. The libraries that read documents may panic on some.
func (l *Loader) assemble(ctx context.Context, snapshot *openapi.Snapshot) (toolset *Toolset, files []string, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			toolset, err = nil, fmt.Errorf("building the tools of %s: panic: %v", l.Location(), cause)
		}
	}()
	toolset, files, err = l.build(ctx, snapshot.Data, snapshot.Location, l.toolset.Load())
	if err == nil && toolset == nil {
		err = fmt.Errorf("building the tools of %s gave none", l.Location())
	}
	return toolset, files, err
}

// conclude notes how a look ended and when the next one is due.
func (l *Loader) conclude(err error) {
	if err == nil {
		l.failures = 0
	} else {
		l.failures++
	}
	l.due.Store(time.Now().Add(l.pause()).UnixNano())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// pause returns how long to wait for the next look: spread, so that the nodes of
// a site do not ask all at once, and growing while there is no Toolset at all.
func (l *Loader) pause() time.Duration {
	switch {
	case l.polled:
		return l.interval
	case l.failures > 0 && l.Toolset() == nil:
		return jitter(min(minBackoff<<min(l.failures-1, 16), maxBackoff))
	case l.interval < 0:
		return never
	}
	return jitter(l.interval)
}

// jitter returns d, a tenth more or less.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1) //nolint:gosec // spreads load, guards nothing
}
