package tool

// A subscription is a function to be called when the Toolset changes.
type subscription struct{ changed func() }

// OnChange registers changed to be called whenever the Toolset is replaced, including the
// first one. It is called after the LoadObserver, in the goroutine that loads, so it must
// return quickly and must not call Load or Stop. Cancel removes it and does not wait for a
// running call.
func (l *Loader) OnChange(changed func()) (cancel func()) {
	s := &subscription{changed}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told == nil {
		l.told = make(map[*subscription]struct{})
	}
	l.told[s] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.told, s)
	}
}

// tell calls all registered functions.
func (l *Loader) tell() {
	l.mu.Lock()
	told := make([]*subscription, 0, len(l.told))
	for s := range l.told {
		told = append(told, s)
	}
	l.mu.Unlock()
	for _, s := range told {
		s.changed()
	}
}
