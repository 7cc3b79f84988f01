package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
	"github.com/fairwayhq/fairway/tools"
)

// reviewModel is a review as the endpoint for reviews describes it.
type reviewModel struct {
	review.Summary

	Status     string    `json:"status"`
	Inputs     raw       `json:"inputs,omitzero"`
	Outputs    raw       `json:"outputs,omitzero"`
	Result     int       `json:"result,omitzero"`
	DecidedAt  time.Time `json:"decided_at,omitzero"`
	Comment    string    `json:"comment,omitzero"`
	Engagement raw       `json:"engagement,omitzero"`

	Inspector   string   `json:"inspector,omitzero"`
	Found       []string `json:"found,omitzero"`
	HasOriginal bool     `json:"original,omitzero"`
	Location    string   `json:"location,omitzero"` // of the review at the endpoint of the site

	DecidedBy engagement.Decider `json:"decided_by,omitzero"`

	MayEdit bool   `json:"may_edit,omitzero"` // the viewer may change the arguments
	Edited  raw    `json:"edited,omitzero"`
	Changed string `json:"changed,omitzero"`

	Request string             `json:"request,omitzero"` // of the user
	Task    string             `json:"task,omitzero"`    // of the agent that called this one
	Entries []engagement.Entry `json:"entries,omitzero"`
}

// reviewsModel are the reviews that wait for the viewer, and decisions.
type reviewsModel struct {
	Reviews []reviewModel    `json:"reviews"`
	More    bool             `json:"more,omitzero"` // there are more than those
	Open    []review.Summary `json:"open,omitzero"` // of others; only for auditors
	Decided []review.Decided `json:"decided"`
	Done    *reviewModel     `json:"-"` // the review that the viewer has just decided
	Guards  int              `json:"-"`
}

// reviewPage is one review.
type reviewPage struct {
	Review   reviewModel    `json:"review"`
	Sent     *tools.Preview `json:"-"` // the request that the call becomes; nil if it is not known
	Rules    []rule         `json:"-"` // of the capability, explained
	Timeline []entryModel   `json:"-"`
	MaySee   bool           `json:"-"` // the viewer may see the Engagement
	Problem  string         `json:"-"`
	Comment  string         `json:"-"`
	Inputs   string         `json:"-"` // in the form, if the viewer may change them
}

// serveReviews serves the reviews that wait for the viewer, and their decision.
func (p *recordPages) serveReviews() (*page, error) {
	switch {
	case len(p.in.rest) == 2 && p.in.Method == http.MethodPost:
		return p.decideReview(p.in.rest[1])
	case !p.in.isRead():
		return nil, errNotFound
	case len(p.in.rest) == 2:
		m := new(reviewPage)
		if _, err := p.readReview(m, p.in.rest[1]); err != nil {
			return nil, err
		}
		return m.page(), nil
	case len(p.in.rest) > 2:
		return nil, errNotFound
	}
	m := &reviewsModel{Reviews: []reviewModel{}, Decided: []review.Decided{}, Guards: len(p.site.guards())}
	shown := &page{view: "reviews", template: "reviews", part: "list", title: "Reviews", model: m}
	if p.in.URL.Query().Has("count") {
		shown.part = "waiting"
		return shown, nil
	}
	if id := p.in.URL.Query().Get("decided"); id != "" {
		done := new(reviewModel)
		if _, err := p.any(http.MethodGet, "/reviews/"+url.PathEscape(id), nil, done); err == nil && done.Status != engagement.ReviewPending {
			m.Done = done
		}
	}
	for n := range p.site.guards() {
		if err := p.addReviews(m, n); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(m.Decided, func(a, b review.Decided) int { return b.DecidedAt.Compare(a.DecidedAt) })
	m.Open = slices.DeleteFunc(m.Open, func(r review.Summary) bool {
		return slices.ContainsFunc(m.Reviews, func(own reviewModel) bool { return own.ID == r.ID })
	})
	return shown, nil
}

// addReviews adds the reviews and decisions of the n-th oagent handler. Handlers that share a store list the same ones.
func (p *recordPages) addReviews(m *reviewsModel, n int) error {
	var list struct {
		Reviews []reviewModel `json:"reviews"`
		Next    string        `json:"next"`
	}
	var decisions struct {
		Open    []review.Summary `json:"open"`
		Decided []review.Decided `json:"decided"`
	}
	if _, err := p.do(n, http.MethodGet, "/reviews", nil, &list); err != nil {
		return err
	}
	if _, err := p.do(n, http.MethodGet, "/reviews?list=decisions", nil, &decisions); err != nil {
		return err
	}
	m.More = m.More || list.Next != ""
	m.Reviews = appendNew(m.Reviews, list.Reviews, func(r reviewModel) string { return r.ID })
	m.Open = appendNew(m.Open, decisions.Open, func(r review.Summary) string { return r.ID })
	m.Decided = appendNew(m.Decided, decisions.Decided, func(r review.Decided) string { return r.ID })
	return nil
}

// appendNew appends the elements whose id is not in the list.
func appendNew[E any](list, more []E, id func(E) string) []E {
	for _, e := range more {
		if !slices.ContainsFunc(list, func(other E) bool { return id(other) == id(e) }) {
			list = append(list, e)
		}
	}
	return list
}

// waiting returns the number of reviews that wait for the viewer; 0 if it is not known.
func (p *recordPages) waiting() int {
	var all []string
	for n := range p.site.guards() {
		var list struct {
			IDs []string `json:"ids"`
		}
		if _, err := p.do(n, http.MethodGet, "/reviews?list=ids", nil, &list); err == nil {
			all = appendNew(all, list.IDs, func(id string) string { return id })
		}
	}
	return len(all)
}

// readReview reads a review and what helps to decide it. It returns the number of the oagent handler.
func (p *recordPages) readReview(m *reviewPage, id string) (int, error) {
	n, err := p.any(http.MethodGet, "/reviews/"+url.PathEscape(id), nil, &m.Review)
	if err != nil {
		return n, err
	}
	calls := p.callsOf(n, m.Review.Agent)
	if m.MaySee = p.in.viewer.Auditor || p.in.viewer.User == m.Review.User.ID; !m.MaySee {
		calls.base = ""
	}
	if capability, _ := calls.find(m.Review.Name); capability != nil {
		m.Rules = capabilityRules(capability)
	}
	m.Sent = calls.sent(p.in.Context(), m.Review.Name, m.Review.Inputs)
	m.Timeline = calls.entries(m.Review.Entries)
	return n, nil
}

// Refused returns the number of refused calls among the latest entries.
func (m *reviewPage) Refused() (n int) {
	for i := range m.Timeline {
		if m.Timeline[i].Event == engagement.EntryRefused {
			n++
		}
	}
	return n
}

// page returns the page of a review.
func (m *reviewPage) page() *page {
	return &page{view: "reviews", template: "review", title: "Review of " + m.Review.Name, model: m}
}

// decideReview approves or denies a review, as the form says.
func (p *recordPages) decideReview(id string) (*page, error) {
	if p.in.api {
		return nil, errNotFound // programs use oagent/{n}/reviews
	}
	if err := p.in.readBody(nil, ""); err != nil {
		return nil, err
	}
	m := &reviewPage{Comment: text.Cut(p.in.PostForm.Get("comment"), 2*review.MaxComment)}
	decision := p.in.PostForm.Get("decision")
	if decision != "approve" && decision != "deny" {
		return nil, &failure{http.StatusBadRequest, "No decision", "Approve or deny the review."}
	}
	n, err := p.readReview(m, id)
	if err != nil {
		return nil, err
	}
	body := append([]byte(`{"decision":`), strictjson.AppendString(nil, decision)...)
	body = strictjson.AppendString(append(body, `,"comment":`...), m.Comment)
	if m.Inputs = p.in.PostForm.Get("inputs"); decision == "approve" && m.Review.MayEdit && m.Inputs != "" {
		if !strictjson.Valid([]byte(m.Inputs)) {
			m.Problem = "The arguments are not valid JSON."
			shown := m.page()
			shown.status = http.StatusBadRequest
			return shown, nil
		}
		body = append(append(body, `,"inputs":`...), m.Inputs...)
	}
	body = append(body, '}')
	if status, err := p.do(n, http.MethodPost, "/reviews/"+url.PathEscape(id), body, nil); err != nil {
		m.Problem = err.Error()
		if status == http.StatusNotFound || status == http.StatusServiceUnavailable {
			return nil, err
		}
		if f := new(failure); errors.As(err, &f) && f.detail != "" {
			m.Problem = f.detail
		}
		shown := m.page()
		shown.status = status
		return shown, nil
	}
	return &page{redirect: p.site.base + "/reviews?decided=" + url.QueryEscape(id)}, nil
}
