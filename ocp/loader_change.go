package ocp

// A subscription is one who is told of a new Toolset.
type subscription struct{ changed func() }

// OnChange has changed called whenever a new Toolset is in place, the first one
// too. It is called after the LoadObserver, in the goroutine that loads, so that
// it must neither take its time nor call Load or Stop. Cancel ends that; it does
// not wait for a call that is under way.
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

// tell calls those who want to know of a new Toolset.
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
