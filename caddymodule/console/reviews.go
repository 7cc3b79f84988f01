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
func (q recordsRequest) serveReviews() (*page, error) {
	switch {
	case len(q.rest) == 2 && q.r.Method == http.MethodPost:
		return q.decideReview(q.rest[1])
	case q.r.Method != http.MethodGet && q.r.Method != http.MethodHead:
		return nil, errNotFound
	case len(q.rest) == 2:
		m := new(reviewPage)
		if _, err := q.any(http.MethodGet, "/reviews/"+url.PathEscape(q.rest[1]), nil, &m.Review); err != nil {
			return nil, err
		}
		return &page{view: "reviews", template: "review", title: "Review of " + m.Review.Name, model: m}, nil
	case len(q.rest) > 2:
		return nil, errNotFound
	}
	m := &reviewsModel{Reviews: []reviewModel{}, Guards: len(q.app.GuardsAt(q.site))}
	if done := q.r.URL.Query().Get("decided"); done == "approved" || done == "denied" {
		m.Done = done
	}
	for n := range q.app.GuardsAt(q.site) {
		var list struct {
			Reviews []reviewModel `json:"reviews"`
			Next    string        `json:"next"`
		}
		if _, err := q.do(n, http.MethodGet, "/reviews", nil, &list); err != nil {
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
func (q recordsRequest) decideReview(id string) (*page, error) {
	if q.api {
		return nil, errNotFound // programs use oagent/{n}/reviews
	}
	q.r.Body = http.MaxBytesReader(q.w, q.r.Body, maxForm)
	if err := q.r.ParseForm(); err != nil {
		return nil, &failure{http.StatusRequestEntityTooLarge, "Too large", "The comment is too long."}
	}
	m := &reviewPage{Comment: text.Cut(q.r.PostForm.Get("comment"), 2*review.MaxComment)}
	decision := q.r.PostForm.Get("decision")
	done := map[string]string{"approve": "approved", "deny": "denied"}[decision]
	if done == "" {
		return nil, &failure{http.StatusBadRequest, "No decision", "Approve or deny the review."}
	}
	n, err := q.any(http.MethodGet, "/reviews/"+url.PathEscape(id), nil, &m.Review)
	if err != nil {
		return nil, err
	}
	body := append([]byte(`{"decision":`), strictjson.AppendString(nil, decision)...)
	body = append(strictjson.AppendString(append(body, `,"comment":`...), m.Comment), '}')
	if status, err := q.do(n, http.MethodPost, "/reviews/"+url.PathEscape(id), body, nil); err != nil {
		if m.Problem = err.Error(); status == http.StatusNotFound || status == http.StatusServiceUnavailable {
			return nil, err
		}
		if f := new(failure); errors.As(err, &f) && f.detail != "" {
			m.Problem = f.detail
		}
		return &page{view: "reviews", template: "review", title: "Review of " + m.Review.Name, model: m, status: status}, nil
	}
	return &page{redirect: q.base + "/reviews?decided=" + done}, nil
}
