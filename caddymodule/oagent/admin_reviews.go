package oagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/oagent/reviewers"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
)

// adminEntry is the Entry of a Decider who has decided by the admin endpoint.
const adminEntry = "admin endpoint"

const (
	maxDecision = 16 << 10 // bytes of a request that decides a review
	maxDecider  = 256      // bytes of the id of a user
)

// runningGuard returns a Guard of the running configuration. All of them share a store. It is nil if there is none.
func runningGuard(r *http.Request) (*oagent.Guard, error) {
	guards := RunningGuards()
	if guards == nil || len(guards.Handlers) == 0 {
		return nil, nil
	}
	guard, err := guards.Handlers[0].OpenGuard(r.Context())
	if err != nil {
		return nil, caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: err}
	}
	return guard, nil
}

// adminEngagements is a page of Engagements.
type adminEngagements struct {
	Engagements []*engagement.Summary `json:"engagements"`
	Next        string                `json:"next,omitempty"` // value of the parameter after for the next page
}

// newest returns the Engagements with the latest change first, filtered by the parameters user, agent and status. A page
// can have fewer Engagements than limit, and a next page.
func newest(r *http.Request, guard *oagent.Guard, limit int) (any, error) {
	query := r.URL.Query()
	isWanted := func(name, value string) bool { return query.Get(name) == "" || query.Get(name) == value }
	page := adminEngagements{Engagements: []*engagement.Summary{}}
	found, next, err := guard.Engagements.Newest(r.Context(), query.Get("user"), query.Get("after"), limit, func(e *engagement.Summary) bool {
		if !isWanted("agent", e.Agent) {
			return false
		}
		setRunStatus(r.Context(), e)
		return isWanted("status", e.Status)
	})
	switch {
	case errors.Is(err, engagement.ErrNotFound):
		return nil, caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: errors.New("after must be next of the previous page")}
	case err != nil:
		return nil, caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: err}
	}
	page.Engagements, page.Next = append(page.Engagements, found...), next
	return page, nil
}

// setRunStatus sets the status of an Engagement to that of its run, if this server runs the agent.
func setRunStatus(ctx context.Context, e *engagement.Summary) {
	for _, o := range RunningGuards().Handlers {
		a := o.Loader.Current().Agents[e.Agent]
		if a == nil || !o.Runs(a.Agent) {
			continue
		}
		if r := o.Host.Find(ctx, e.ID); r != nil && r.Agent == e.Agent && r.User.ID == e.User.ID {
			e.Status = r.Status
		}
		return
	}
}

// adminReviews are the reviews on the admin endpoint.
type adminReviews struct {
	Open []review.Summary `json:"open"` // oldest first
}

// reviews lists the reviews that wait for a decision.
func (a *adminAgents) reviews(r *http.Request) (any, error) {
	list := adminReviews{Open: []review.Summary{}}
	guard, err := runningGuard(r)
	if guard == nil {
		return list, err
	}
	open, _, err := guard.Reviews.All(r.Context())
	if err != nil {
		return nil, caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: err}
	}
	list.Open = append(list.Open, open...)
	return list, nil
}

// decide decides a review: POST /agents/reviews/<id>/approve or deny. The admin endpoint does not know who sends the
// request, so the body names the user who decides: {"as": "grace", "comment": "…"}. The record has this user, with
// adminEntry.
func (a *adminAgents) decide(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: fmt.Errorf("method %s is not allowed: use POST", r.Method)}
	}
	id, decision, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/agents/reviews/"), "/")
	if decision != reviewers.Approve && decision != reviewers.Deny {
		return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: errors.New("a review is decided at /agents/reviews/<id>/approve or deny")}
	}
	var said struct{ As, Comment string }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxDecision)).Decode(&said); err != nil {
		return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: fmt.Errorf("the body must be a JSON object with as and comment: %w", err)}
	}
	switch {
	case said.As == "" || len(said.As) > maxDecider || text.HasControl(said.As):
		return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: errors.New("name the user who decides (--as), because the admin endpoint has no logins")}
	case len(said.Comment) > review.MaxComment:
		return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: fmt.Errorf("a comment may have at most %d bytes", review.MaxComment)}
	}
	guard, err := runningGuard(r)
	if err == nil && guard == nil {
		err = caddy.APIError{HTTPStatus: http.StatusNotFound, Err: errors.New("the configuration has no agents")}
	}
	if err != nil {
		return err
	}
	decided, err := decideAs(r.Context(), guard, id, said.As, decision == reviewers.Approve, said.Comment)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(decided)
}

// decideAs decides an open review for a user.
func decideAs(ctx context.Context, guard *oagent.Guard, id, user string, approve bool, comment string) (*review.Review, error) {
	open, _, err := guard.Reviews.All(ctx)
	if err != nil {
		return nil, caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: err}
	}
	i := slices.IndexFunc(open, func(r review.Summary) bool { return r.ID == id })
	switch {
	case i < 0:
		return nil, caddy.APIError{HTTPStatus: http.StatusNotFound, Err: errors.New("no review with this id waits: it was decided, has expired, or never existed")}
	case strings.HasPrefix(open[i].Reviewer, review.AgentScheme):
		return nil, caddy.APIError{HTTPStatus: http.StatusForbidden, Err: fmt.Errorf("the agent %s decides this review", open[i].Reviewer)}
	case user == open[i].Editor:
		return nil, caddy.APIError{HTTPStatus: http.StatusForbidden, Err: fmt.Errorf("the user %s has changed the arguments, so another one must approve them", user)}
	case user == open[i].User.ID && user != open[i].Reviewer:
		return nil, caddy.APIError{HTTPStatus: http.StatusForbidden, Err: fmt.Errorf("the call is one of the user %s, who cannot decide its review", user)}
	}
	decided, err := guard.Reviews.DecideBy(ctx, id, open[i].Reviewer, engagement.Decider{User: user, Entry: adminEntry}, approve, comment)
	switch {
	case errors.Is(err, review.ErrDecided):
		return nil, caddy.APIError{HTTPStatus: http.StatusConflict, Err: errors.New("the review has the opposite decision, which cannot be changed")}
	case errors.Is(err, review.ErrNotFound):
		return nil, caddy.APIError{HTTPStatus: http.StatusGone, Err: errors.New("the review is over: it has expired, or its approval was used")}
	case err != nil:
		return nil, caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: err}
	}
	decided.Inputs, decided.Outputs = nil, nil
	return decided, nil
}
