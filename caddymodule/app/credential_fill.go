package app

import (
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/tools"
)

// filledPair is a toolset as declared by its document, and the same toolset without the
// arguments that credentials fill.
type filledPair struct{ declared, filled *tools.Toolset }

// maxDoubtful is the largest number of arguments that one warning names.
const maxDoubtful = 10

// filledToolsets caches the filledPair of the current document.
type filledToolsets struct {
	logger  *zap.Logger
	mu      sync.Mutex
	current atomic.Pointer[filledPair]
}

// Filled returns the tools without the arguments that the toolset's credentials fill, and with the texts that its
// inspectors pass. Toolsets
// that share a document each have their own view. Filled returns nil for nil.
func (t *Toolset) Filled(declared *tools.Toolset) *tools.Toolset {
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
		view = &filledPair{declared, t.inspected(t.Credentials.Filled(declared), t.filledToolsets.logger)}
		if doubtful := t.Credentials.Doubtful(view.filled); len(doubtful) > 0 {
			t.filledToolsets.logger.Warn("required arguments have the name of a credential, and models would make them up; "+
				"if the API takes the toolset's credential there, configure it under that name, as in: credential header token {env.API_TOKEN}",
				zap.String("toolset", t.Name), zap.Strings("arguments", doubtful[:min(len(doubtful), maxDoubtful)]), zap.Int("count", len(doubtful)))
		}
		t.filledToolsets.current.Store(view)
	}
	return view.filled
}
