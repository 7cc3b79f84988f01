package agents

import (
	"sync"
	"sync/atomic"

	"github.com/fairwayhq/fairway/ocp/tool"
)

// filledPair is a toolset as declared by its document, and the same toolset without the
// arguments that credentials fill.
type filledPair struct{ declared, filled *tool.Toolset }

// filledToolsets caches the filledPair of the current document.
type filledToolsets struct {
	mu      sync.Mutex
	current atomic.Pointer[filledPair]
}

// Filled returns the tools without the arguments that the toolset's credentials fill. Toolsets
// that share a document each have their own view. Filled returns nil for nil.
func (t *Toolset) Filled(declared *tool.Toolset) *tool.Toolset {
	if declared == nil || t.filledToolsets == nil {
		return declared
	}
	if view := t.filledToolsets.current.Load(); view != nil && view.declared == declared {
		return view.filled
	}
	t.filledToolsets.mu.Lock()
	defer t.filledToolsets.mu.Unlock()
	view := t.filledToolsets.current.Load()
	if view == nil || view.declared != declared {
		view = &filledPair{declared, t.Credentials.Filled(declared)}
		t.filledToolsets.current.Store(view)
	}
	return view.filled
}
