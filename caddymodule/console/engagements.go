package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

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
	Run       *runModel          `json:"run,omitzero"` // of a hosted agent
	Ended     *engagement.Ending `json:"-"`
}

// serveEngagements serves an Engagement, and ends one.
func (q recordsRequest) serveEngagements() (*page, error) {
	if len(q.rest) != 2 || q.rest[1] == "" {
		return nil, errNotFound
	}
	path := "/engagements/" + url.PathEscape(q.rest[1])
	if q.r.Method == http.MethodPost && !q.api {
		if err := q.endEngagement(path); err != nil {
			return nil, err
		}
		return &page{redirect: q.base + "/engagements/" + url.PathEscape(q.rest[1])}, nil
	}
	if q.r.Method != http.MethodGet && q.r.Method != http.MethodHead {
		return nil, errNotFound
	}
	m := &engagementModel{Key: q.rest[1]}
	var err error
	if m.Directive, err = q.any(http.MethodGet, path, nil, &m.State); err != nil {
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
	if _, err := q.do(m.Directive, http.MethodGet, path+"/audit?limit="+strconv.Itoa(shownEntries)+"&from="+strconv.Itoa(m.From), nil, &log); err != nil {
		return nil, err
	}
	m.Entries = log.Entries
	if len(m.Entries) == shownEntries {
		m.Next = m.From + shownEntries
	}
	m.Ended = m.Summary.Ended
	if m.Run == nil {
		m.Run = q.runOf(m.Directive, m.Summary.ID)
	}
	m.MayEnd = m.Run != nil && !m.Run.Over() || m.Summary.Key != "" && (q.viewer.Auditor || m.Ended != nil)
	return &page{view: "agents", template: "engagement", title: "Engagement", model: m}, nil
}

// runOf returns the run of the hosted agent that makes the calls of an Engagement, or nil. ID is the id
// of the Engagement.
func (q recordsRequest) runOf(directive int, id string) *runModel {
	if id == "" || strings.ContainsAny(id, "/?#%") {
		return nil
	}
	var state raw
	if _, err := q.do(directive, http.MethodGet, "/engagements/"+id, nil, &state); err != nil {
		return nil
	}
	if run := decodeRun(state); run != nil && run.ID == id {
		return run
	}
	return nil
}

// endEngagement cancels the run of an Engagement, if a hosted agent runs. Otherwise it renews the
// Engagement.
func (q recordsRequest) endEngagement(path string) error {
	m := new(engagementModel)
	n, err := q.any(http.MethodGet, path, nil, &m.State)
	if err == nil {
		err = decodeState(m)
	}
	if err != nil {
		return err
	}
	if run := q.runOf(n, m.Summary.ID); run != nil && !run.Over() {
		path = "/engagements/" + run.ID
	}
	_, err = q.do(n, http.MethodDelete, path, nil, nil)
	return err
}
