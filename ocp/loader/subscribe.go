package loader

// A subscription is a function to be called when the Toolset changes.
type subscription struct{ changed func() }

// OnChange registers changed to be called whenever the Toolset is replaced, including the
// first one. It is called after the Observer, in the goroutine that loads, so it must
// return quickly and must not call Load or Stop. Cancel removes it and does not wait for a
// running call.
func (l *Loader) OnChange(changed func()) (cancel func()) {
	s := &subscription{changed}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.subscribers == nil {
		l.subscribers = make(map[*subscription]struct{})
	}
	l.subscribers[s] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.subscribers, s)
	}
}

// notify calls all registered functions.
func (l *Loader) notify() {
	l.mu.Lock()
	subscribers := make([]*subscription, 0, len(l.subscribers))
	for s := range l.subscribers {
		subscribers = append(subscribers, s)
	}
	l.mu.Unlock()
	for _, s := range subscribers {
		s.changed()
	}
}
