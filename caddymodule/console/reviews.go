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
)

// reviewModel is a review as the endpoint for reviews describes it.
type reviewModel struct {
	ID         string          `json:"id"`
	Reviewer   string          `json:"reviewer"`
	Status     string          `json:"status"`
	Side       engagement.Side `json:"side"`
	Rule       string          `json:"rule"`
	Agent      string          `json:"agent"`
	Key        string          `json:"key"`
	User       engagement.User `json:"user"`
	Name       string          `json:"name"`
	Inputs     raw             `json:"inputs,omitzero"`
	Outputs    raw             `json:"outputs,omitzero"`
	Result     int             `json:"result,omitzero"`
	AskedAt    time.Time       `json:"asked_at"`
	ExpiresAt  time.Time       `json:"expires_at"`
	DecidedAt  time.Time       `json:"decided_at,omitzero"`
	Comment    string          `json:"comment,omitzero"`
	Engagement raw             `json:"engagement,omitzero"`

	DecidedBy engagement.Decider `json:"decided_by,omitzero"`
}

// reviewsModel are the reviews that wait for the viewer.
type reviewsModel struct {
	Reviews []reviewModel `json:"reviews"`
	More    bool          `json:"more,omitzero"` // there are more than those
	Done    string        `json:"-"`             // the decision that the viewer has just made
	Guards  int           `json:"-"`
}

// reviewPage is one review.
type reviewPage struct {
	Review  reviewModel `json:"review"`
	Problem string      `json:"-"`
	Comment string      `json:"-"`
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
		if _, err := p.any(http.MethodGet, "/reviews/"+url.PathEscape(p.in.rest[1]), nil, &m.Review); err != nil {
			return nil, err
		}
		return &page{view: "reviews", template: "review", title: "Review of " + m.Review.Name, model: m}, nil
	case len(p.in.rest) > 2:
		return nil, errNotFound
	}
	m := &reviewsModel{Reviews: []reviewModel{}, Guards: len(p.site.guards())}
	if done := p.in.URL.Query().Get("decided"); done == "approved" || done == "denied" {
		m.Done = done
	}
	for n := range p.site.guards() {
		var list struct {
			Reviews []reviewModel `json:"reviews"`
			Next    string        `json:"next"`
		}
		if _, err := p.do(n, http.MethodGet, "/reviews", nil, &list); err != nil {
			return nil, err
		}
		m.More = m.More || list.Next != ""
		for _, r := range list.Reviews {
			// Handlers that share a store list the same reviews of a user.
			if !slices.ContainsFunc(m.Reviews, func(other reviewModel) bool { return other.ID == r.ID }) {
				m.Reviews = append(m.Reviews, r)
			}
		}
	}
	return &page{view: "reviews", template: "reviews", title: "Reviews", model: m}, nil
}

// decideReview approves or denies a review, as the form says.
func (p *recordPages) decideReview(id string) (*page, error) {
	if p.in.api {
		return nil, errNotFound // programs use oagent/{n}/reviews
	}
	if err := p.in.ParseForm(); err != nil {
		return nil, &failure{http.StatusRequestEntityTooLarge, "Too large", "The comment is too long."}
	}
	m := &reviewPage{Comment: text.Cut(p.in.PostForm.Get("comment"), 2*review.MaxComment)}
	decision := p.in.PostForm.Get("decision")
	done := map[string]string{"approve": "approved", "deny": "denied"}[decision]
	if done == "" {
		return nil, &failure{http.StatusBadRequest, "No decision", "Approve or deny the review."}
	}
	n, err := p.any(http.MethodGet, "/reviews/"+url.PathEscape(id), nil, &m.Review)
	if err != nil {
		return nil, err
	}
	body := append([]byte(`{"decision":`), strictjson.AppendString(nil, decision)...)
	body = append(strictjson.AppendString(append(body, `,"comment":`...), m.Comment), '}')
	if status, err := p.do(n, http.MethodPost, "/reviews/"+url.PathEscape(id), body, nil); err != nil {
		if m.Problem = err.Error(); status == http.StatusNotFound || status == http.StatusServiceUnavailable {
			return nil, err
		}
		if f := new(failure); errors.As(err, &f) && f.detail != "" {
			m.Problem = f.detail
		}
		return &page{view: "reviews", template: "review", title: "Review of " + m.Review.Name, model: m, status: status}, nil
	}
	return &page{redirect: p.site.base + "/reviews?decided=" + done}, nil
}
