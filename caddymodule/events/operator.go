package events

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/events"
	"github.com/fairwayhq/fairway/events/serve"
	"github.com/fairwayhq/fairway/internal/audit"
	"github.com/fairwayhq/fairway/store"
)

// Limits of an overview, in events.
const (
	maxShown  = 100
	maxRecent = 1000 // the newest, which are searched for a name
)

// overview is what operators see of a source, in the console and on the admin endpoint.
type overview struct {
	Sources   []string              `json:"sources"`
	Source    string                `json:"source"`
	Name      string                `json:"name,omitempty"` // that the names of the events begin with
	Events    []shownEvent          `json:"events"`         // the newest first
	Refused   []refused             `json:"refused"`        // the latest first
	Receivers []*serve.Subscription `json:"receivers"`

	Redelivered string `json:"-"` // the id of a receiver that gets events again
}

// shownEvent is an event in an overview.
type shownEvent struct {
	ID       string         `json:"id"`
	Name     string         `json:"name"`
	Received time.Time      `json:"received"`
	Size     int            `json:"size"`
	Before   events.Cursor  `json:"before"`
	Body     jsontext.Value `json:"body,omitempty"` // what may be shown of it
}

// refused are the requests that were refused for one reason, by this node since it has loaded the configuration.
type refused struct {
	Reason string    `json:"reason"`
	Count  int64     `json:"count"`
	Latest time.Time `json:"latest"`
}

func (s *Source) addRefused(reason string) {
	s.refusing.Lock()
	defer s.refusing.Unlock()
	s.refused[reason] = refused{reason, s.refused[reason].Count + 1, time.Now()}
}

// SourcesAt returns the names of the sources of a site, or of all sites.
func (s *Section) SourcesAt(at *site.Site) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.sources)), func(name string) bool { return at != nil && !s.sources[name].site.SameSite(*at) })
}

// Overview returns what operators see of the source in query, or of the first one. It returns nil if there is none. Show returns what may be
// shown of a body.
func (s *Section) Overview(ctx context.Context, at *site.Site, query url.Values, show func([]byte) jsontext.Value) (any, error) {
	m := &overview{Sources: s.SourcesAt(at), Name: query.Get("name"), Events: []shownEvent{}, Receivers: []*serve.Subscription{}, Redelivered: query.Get("redelivered")}
	m.Source = cmp.Or(query.Get("source"), append(m.Sources, "")[0])
	source := s.sources[m.Source]
	if !slices.Contains(m.Sources, m.Source) {
		return nil, nil
	}
	before, err := source.log.Recent(ctx, maxRecent)
	var found []events.Event
	for left := maxRecent; left > 0 && err == nil; left -= len(found) {
		if found, _, _, err = source.log.Read(ctx, before, maxShown); len(found) == 0 {
			break
		}
		for _, e := range found {
			if strings.HasPrefix(e.Name, m.Name) {
				m.Events = append(m.Events, shownEvent{e.ID, e.Name, e.Received, len(e.Body), before, show(e.Body)})
			}
			before = e.Next
		}
		m.Events = m.Events[max(len(m.Events)-maxShown, 0):]
	}
	if err != nil {
		return nil, err
	}
	slices.Reverse(m.Events)
	for _, server := range source.servers {
		found, err := server.Subscriptions(ctx, "")
		if err != nil {
			return nil, err
		}
		m.Receivers = append(m.Receivers, found...)
	}
	source.refusing.Lock()
	defer source.refusing.Unlock()
	m.Refused = slices.SortedFunc(maps.Values(source.refused), func(a, b refused) int { return b.Latest.Compare(a.Latest) })
	return m, nil
}

// Redeliver delivers the events after a cursor to a receiver again. It returns false if there is no such receiver. By is the user who wants it.
func (s *Section) Redeliver(ctx context.Context, at *site.Site, by, name, after, receiver string) (bool, error) {
	if !slices.Contains(s.SourcesAt(at), name) || after == "" {
		return false, nil
	}
	found, _, _, err := s.sources[name].log.Read(ctx, events.Cursor(after), 1)
	if errors.Is(err, events.ErrCursor) || len(found) == 0 {
		return false, nil
	}
	for _, server := range s.sources[name].servers {
		if err := server.Redeliver(ctx, receiver, events.Cursor(after)); !errors.Is(err, store.ErrNotFound) {
			s.sources[name].logger.Info("delivering events again", zap.String("toolset", name), zap.String("after", after),
				zap.String("receiver", receiver), zap.String("by", by), zap.Error(err))
			if err == nil {
				err = s.archive(ctx, name, audit.Entry{Event: "redelivered", User: by, Name: found[0].Name, EventID: found[0].ID, Comment: "to " + receiver})
			}
			return true, err
		}
	}
	return false, nil
}
