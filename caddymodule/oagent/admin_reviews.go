package oagent

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/caddymodule/internal/adminapi"
	"github.com/fairwayhq/fairway/caddymodule/oagent/reviewers"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
)

// adminEntry is the Entry of a Decider who has decided by the admin endpoint.
const adminEntry = "admin endpoint"

const (
	reviewsPath = "/agents/reviews/"
	maxDecision = 16 << 10 // bytes of a request that decides a review
	maxDecider  = 256      // bytes of the id of a user
)

// runningGuard returns a Guard of the running configuration. All of them share a store. It is nil if there is none.
func runningGuard(r *http.Request) (*oagent.Guard, error) {
	guards := RunningGuards()
	if guards == nil || len(guards.Handlers) == 0 {
		return nil, nil
	}
	return guards.Handlers[0].OpenGuard(r.Context())
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
	if errors.Is(err, engagement.ErrNotFound) {
		return nil, adminapi.Error(http.StatusBadRequest, "after must be next of the previous page")
	}
	page.Engagements, page.Next = append(page.Engagements, found...), next
	return page, err
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

// listReviews lists the reviews that wait for a decision.
func listReviews(r *http.Request) (any, error) {
	list := adminReviews{Open: []review.Summary{}}
	guard, err := runningGuard(r)
	if guard == nil {
		return list, err
	}
	open, _, err := guard.Reviews.All(r.Context())
	list.Open = append(list.Open, open...)
	return list, err
}

// decideReview decides a review: POST /agents/reviews/<id>/approve or deny. The admin endpoint does not know who sends the
// request, so the body names the user who decides: {"as": "grace", "comment": "…"}. The record has this user, with
// adminEntry.
func decideReview(r *http.Request) (any, error) {
	id, decision, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, reviewsPath), "/")
	if decision != reviewers.Approve && decision != reviewers.Deny {
		return nil, adminapi.Error(http.StatusNotFound, "a review is decided at /agents/reviews/<id>/approve or deny")
	}
	var said struct{ As, Comment string }
	if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
		return nil, adminapi.Error(http.StatusBadRequest, "the body must be a JSON object with as and comment: %w", err)
	}
	switch {
	case said.As == "" || len(said.As) > maxDecider || text.HasControl(said.As):
		return nil, adminapi.Error(http.StatusBadRequest, "name the user who decides (--as), because the admin endpoint has no logins")
	case len(said.Comment) > review.MaxComment:
		return nil, adminapi.Error(http.StatusBadRequest, "a comment may have at most %d bytes", review.MaxComment)
	}
	guard, err := runningGuard(r)
	if err == nil && guard == nil {
		err = adminapi.Error(http.StatusNotFound, "the configuration has no agents")
	}
	if err != nil {
		return nil, err
	}
	return decideAs(r.Context(), guard, id, said.As, decision == reviewers.Approve, said.Comment)
}

// decideAs decides an open review for a user.
func decideAs(ctx context.Context, guard *oagent.Guard, id, user string, approve bool, comment string) (*review.Review, error) {
	open, _, err := guard.Reviews.All(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(open, func(r review.Summary) bool { return r.ID == id })
	switch {
	case i < 0:
		return nil, adminapi.Error(http.StatusNotFound, "no review with this id waits: it was decided, has expired, or never existed")
	case strings.HasPrefix(open[i].Reviewer, review.AgentScheme):
		return nil, adminapi.Error(http.StatusForbidden, "the agent %s decides this review", open[i].Reviewer)
	case user == open[i].Editor:
		return nil, adminapi.Error(http.StatusForbidden, "the user %s has changed the arguments, so another one must approve them", user)
	case user == open[i].User.ID && user != open[i].Reviewer:
		return nil, adminapi.Error(http.StatusForbidden, "the call is one of the user %s, who cannot decide its review", user)
	}
	decided, err := guard.Reviews.DecideBy(ctx, id, open[i].Reviewer, engagement.Decider{User: user, Entry: adminEntry}, approve, comment)
	switch {
	case errors.Is(err, review.ErrDecided):
		return nil, adminapi.Error(http.StatusConflict, "the review has the opposite decision, which cannot be changed")
	case errors.Is(err, review.ErrNotFound):
		return nil, adminapi.Error(http.StatusGone, "the review is over: it has expired, or its approval was used")
	case err != nil:
		return nil, err
	}
	decided.Inputs, decided.Outputs = nil, nil
	return decided, nil
}
