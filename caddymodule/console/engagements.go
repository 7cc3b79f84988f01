package console

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/fairwayhq/fairway/oagent/engagement"
)

// shownEntries is the number of entries of a record on one page.
const shownEntries = 200

// engagementModel is an Engagement with its timeline.
type engagementModel struct {
	Key       string             `json:"key"`
	State     raw                `json:"state"` // as the endpoint for Engagements describes it
	Summary   engagement.Summary `json:"-"`
	Results   raw                `json:"-"`
	Entries   []engagement.Entry `json:"entries"`
	From      int                `json:"from"`
	Next      int                `json:"next,omitzero"` // number of the first entry of the next page
	Directive int                `json:"oagent"`
	MayEnd    bool               `json:"-"`
	Ended     *engagement.Ending `json:"-"`
}

// serveEngagements serves an Engagement, and ends one.
func (q *request) serveEngagements() (*page, error) {
	if len(q.rest) != 2 || q.rest[1] == "" {
		return nil, errNotFound
	}
	path := "/engagements/" + url.PathEscape(q.rest[1])
	if q.r.Method == http.MethodPost && !q.api {
		n, err := q.anyRecord(http.MethodGet, path, nil, nil)
		if err == nil {
			_, err = q.record(n, http.MethodDelete, path, nil, nil)
		}
		if err != nil {
			return nil, err
		}
		return &page{redirect: q.base + "/engagements/" + url.PathEscape(q.rest[1])}, nil
	}
	if q.r.Method != http.MethodGet && q.r.Method != http.MethodHead {
		return nil, errNotFound
	}
	m := &engagementModel{Key: q.rest[1]}
	var err error
	if m.Directive, err = q.anyRecord(http.MethodGet, path, nil, &m.State); err != nil {
		return nil, err
	}
	if err := decodeState(m); err != nil {
		return nil, err
	}
	m.From, _ = strconv.Atoi(q.r.URL.Query().Get("from"))
	m.From = max(m.From, 0)
	var log struct {
		Entries []engagement.Entry `json:"entries"`
	}
	if _, err := q.record(m.Directive, http.MethodGet, path+"/audit?limit="+strconv.Itoa(shownEntries)+"&from="+strconv.Itoa(m.From), nil, &log); err != nil {
		return nil, err
	}
	m.Entries = log.Entries
	if len(m.Entries) == shownEntries {
		m.Next = m.From + shownEntries
	}
	m.Ended = m.Summary.Ended
	m.MayEnd = q.viewer.Auditor || m.Ended != nil
	return &page{view: "agents", template: "engagement", title: "Engagement", model: m}, nil
}
