package mcpadapter

import (
	"github.com/fairwayhq/fairway/mcpadapter/internal/subscription"
	"slices"
)

// watch registers a stream of the client. Notifications go to the latest stream only: a message must
// not be sent on two streams (MCP 2025-11-25, Streamable HTTP, Multiple Connections), and the older
// ones may be broken.
func (l *clientState) watch(w *subscription.Watcher) (forget func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.watchers) > 0 {
		l.watchers[len(l.watchers)-1].HandOver(w)
	}
	l.watchers = append(l.watchers, w)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		at := slices.Index(l.watchers, w)
		if at < 0 {
			return
		}
		last := at == len(l.watchers)-1
		if l.watchers = slices.Delete(l.watchers, at, at+1); last && at > 0 {
			w.HandOver(l.watchers[at-1])
		}
	}
}

// watchedBy returns the subscribed resources if w is the stream that sends notifications, otherwise
// nil.
func (l *clientState) watchedBy(w *subscription.Watcher) []string {
	l.mu.Lock()
	sends := len(l.watchers) > 0 && l.watchers[len(l.watchers)-1] == w
	l.mu.Unlock()
	if !sends {
		return nil
	}
	return l.watched()
}

// watched returns the URIs of the resources that the client has subscribed to.
func (l *clientState) watched() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	uris := make([]string, 0, len(l.watching))
	for uri := range l.watching {
		uris = append(uris, uri)
	}
	slices.Sort(uris)
	return uris
}

func (l *clientState) subscribe(uri string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.watching[uri] && len(l.watching) >= subscription.MaxWatched {
		return false
	}
	if l.watching == nil {
		l.watching = make(map[string]bool)
	}
	l.watching[uri] = true
	return true
}

func (l *clientState) unsubscribe(uri string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.watching, uri)
}
