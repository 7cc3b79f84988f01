package loader

import (
	"maps"
	"slices"
)

// OnChange registers changed to be called whenever the Toolset is replaced, including the
// first one. It is called after the Observer, in the goroutine that loads, so it must
// return quickly and must not call Load or Stop. Cancel removes it and does not wait for a
// running call.
func (l *Loader) OnChange(changed func()) (cancel func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.subscribers == nil {
		l.subscribers = make(map[*func()]struct{})
	}
	l.subscribers[&changed] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.subscribers, &changed)
	}
}

// notify calls all registered functions.
func (l *Loader) notify() {
	l.mu.Lock()
	subscribers := slices.Collect(maps.Keys(l.subscribers))
	l.mu.Unlock()
	for _, changed := range subscribers {
		(*changed)()
	}
}
