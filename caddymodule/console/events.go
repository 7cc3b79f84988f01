package console

import (
	"context"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/site"
)

// eventLog has the events that sites receive. Package events implements it.
type eventLog interface {
	SourcesAt(at *site.Site) []string
	Overview(ctx context.Context, at *site.Site, query url.Values, show func([]byte) jsontext.Value) (model any, err error)
	Redeliver(ctx context.Context, at *site.Site, by, source, after, receiver string) (found bool, err error)
}

// hasEvents reports whether there is a page of events for the viewer.
func (s *siteOf) hasEvents(v *viewer) bool {
	return s.events != nil && v.seesAll() && len(s.events.SourcesAt(&s.id)) > 0
}

// serveEvents serves the events that the site has received. Auditors deliver them again.
func serveEvents(s *siteOf, q *request) (shown *page, err error) {
	if len(q.rest) > 1 || !s.hasEvents(&q.viewer) || q.Method == http.MethodDelete || !q.isRead() && !q.viewer.Auditor || q.ParseForm() != nil {
		return nil, errNotFound
	}
	shown, show := &page{view: "events", template: "events", title: "Events"}, func([]byte) jsontext.Value { return nil }
	if q.viewer.Auditor {
		show = s.calls.Shown
	}
	found := true
	if !q.isRead() {
		source, receiver := q.Form.Get("source"), q.Form.Get("receiver")
		found, err = s.events.Redeliver(q.Context(), &s.id, q.viewer.User, source, q.Form.Get("after"), receiver)
		shown.redirect = s.base + "/events?" + url.Values{"source": {source}, "redelivered": {receiver}}.Encode()
	}
	if err == nil && found {
		shown.model, err = s.events.Overview(q.Context(), &s.id, q.Form, show)
	}
	if err == nil && shown.model == nil {
		err = errNotFound
	}
	return shown, err
}
