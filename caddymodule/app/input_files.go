package app

import (
	"context"
	"sync"

	"github.com/fairwayhq/fairway/internal/watch"
	"github.com/fairwayhq/fairway/tools/lock"
	"github.com/fairwayhq/fairway/tools/overlay"
)

// inputs returns the files besides the document that the tools depend on.
func (k DocumentKey) inputs() []watch.File {
	files := make([]watch.File, 0, len(k.Overlays)+1)
	for _, path := range k.Overlays {
		files = append(files, watch.File{Path: path, MaxSize: overlay.MaxSize})
	}
	if k.Lock != "" {
		files = append(files, watch.File{Path: k.Lock, MaxSize: lock.MaxSize})
	}
	return files
}

// inputFiles notices changes of the files besides the document that tools depend on.
type inputFiles struct {
	mu     sync.Mutex
	files  []inputFile
	cancel context.CancelFunc // nil unless started
	ended  sync.WaitGroup
}

// An inputFile is one of these files, as it was last read.
type inputFile struct {
	watch.File
	state  *watch.State // nil if it could not be read
	failed int          // attempts to read it since then
}

// newInputFiles reads the files, so that changed reports later changes.
func newInputFiles(files []watch.File) *inputFiles {
	f := &inputFiles{files: make([]inputFile, len(files))}
	for i, file := range files {
		f.files[i].File = file
	}
	f.changed()
	return f
}

// changed reports whether a file has changed since the last call.
func (f *inputFiles) changed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed := false
	for i := range f.files {
		changed = f.files[i].changed() || changed
	}
	return changed
}

func (f *inputFile) changed() bool {
	_, state, changed, err := f.Read(f.state)
	if err != nil {
		// An editor may remove a file before it renames the new one, so the first failure is
		// ignored.
		f.failed++
		return f.failed == 2
	}
	if f.failed > 1 {
		changed = true
	}
	f.state, f.failed = state, 0
	return changed
}

// start calls rebuild at each change, until stop. If it is started already, it does nothing.
func (f *inputFiles) start(rebuild func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cancel != nil || len(f.files) == 0 {
		return
	}
	var ctx context.Context
	ctx, f.cancel = context.WithCancel(context.Background())
	f.ended.Go(func() {
		watch.Poll(ctx, watch.Interval(), func(context.Context) {
			if f.changed() {
				rebuild()
			}
		})
	})
}

// stop ends what start began.
func (f *inputFiles) stop() {
	f.mu.Lock()
	cancel := f.cancel
	f.mu.Unlock()
	if cancel != nil {
		cancel()
		f.ended.Wait()
	}
}
