package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
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
	Status    string             `json:"status"`
	Trace     *run.Trace         `json:"trace,omitzero"` // of a hosted agent
	Ended     *engagement.Ending `json:"-"`
	Axis      *traceModel        `json:"-"`
	Timeline  []entryModel       `json:"-"`
	Stream    string             `json:"-"` // path of the events of the run; "" if it has ended
}

// serveEngagements serves an Engagement, and ends one.
func (p *recordPages) serveEngagements() (*page, error) {
	if len(p.in.rest) != 2 || p.in.rest[1] == "" {
		return nil, errNotFound
	}
	path := "/engagements/" + url.PathEscape(p.in.rest[1])
	if p.in.Method == http.MethodPost && !p.in.api {
		if err := p.endEngagement(path); err != nil {
			return nil, err
		}
		return &page{redirect: p.site.base + "/engagements/" + url.PathEscape(p.in.rest[1])}, nil
	}
	if !p.in.isRead() {
		return nil, errNotFound
	}
	m := &engagementModel{Key: p.in.rest[1]}
	var err error
	if m.Directive, err = p.any(http.MethodGet, path, nil, &m.State); err != nil {
		return nil, err
	}
	if err := decodeState(m); err != nil {
		return nil, err
	}
	m.From, _ = strconv.Atoi(p.in.URL.Query().Get("from"))
	m.From = max(m.From, 0)
	var log struct {
		Entries []engagement.Entry `json:"entries"`
	}
	if _, err := p.do(m.Directive, http.MethodGet, path+"/audit?limit="+strconv.Itoa(shownEntries)+"&from="+strconv.Itoa(m.From), nil, &log); err != nil {
		return nil, err
	}
	m.Entries = log.Entries
	if len(m.Entries) == shownEntries {
		m.Next = m.From + shownEntries
	}
	m.Ended = m.Summary.Ended
	if m.Run == nil {
		m.Run = p.runOf(m.Directive, m.Summary.ID)
	}
	if err := p.addTrace(m, path); err != nil {
		return nil, err
	}
	m.MayEnd = m.Run != nil && !m.Run.Over() || m.Summary.Key != "" && (p.in.viewer.Auditor || m.Ended != nil)
	return &page{view: "agents", template: "engagement", part: "live", title: "Engagement", model: m}, nil
}

// addTrace adds what the hosted agent of an Engagement did, and the status and the links that depend on it.
func (p *recordPages) addTrace(m *engagementModel, path string) error {
	agent := m.Summary.Agent
	m.Status = m.Summary.Status
	if m.Run != nil {
		agent, m.Status = m.Run.Agent, m.Run.Status
		if !m.Run.Over() {
			m.Stream = p.path(m.Directive) + "/engagements/" + m.Run.ID
		}
		m.Trace = new(run.Trace)
		if status, err := p.do(m.Directive, http.MethodGet, path+"/trace", nil, m.Trace); status == http.StatusNotFound {
			m.Trace = nil // the viewer decides for the agent, and may not see what it read
		} else if err != nil {
			return err
		}
	}
	calls := p.callsOf(m.Directive, agent)
	m.Axis, m.Timeline = newTrace(m.Trace, time.Now(), calls.link), calls.entries(m.Entries)
	return nil
}

// runOf returns the run of the hosted agent that makes the calls of an Engagement, or nil. ID is the id
// of the Engagement.
func (p *recordPages) runOf(directive int, id string) *runModel {
	if id == "" || strings.ContainsAny(id, "/?#%") {
		return nil
	}
	var state raw
	if _, err := p.do(directive, http.MethodGet, "/engagements/"+id, nil, &state); err != nil {
		return nil
	}
	if hosted := decodeRun(state); hosted != nil && hosted.ID == id {
		return hosted
	}
	return nil
}

// endEngagement cancels the run of an Engagement, if a hosted agent runs. Otherwise it renews the
// Engagement.
func (p *recordPages) endEngagement(path string) error {
	m := new(engagementModel)
	n, err := p.any(http.MethodGet, path, nil, &m.State)
	if err == nil {
		err = decodeState(m)
	}
	if err != nil {
		return err
	}
	if hosted := p.runOf(n, m.Summary.ID); hosted != nil && !hosted.Over() {
		path = "/engagements/" + hosted.ID
	}
	_, err = p.do(n, http.MethodDelete, path, nil, nil)
	return err
}
