package caddymodule

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/oagent"
)

// maxDecision is the largest body that decides a review, in bytes.
const maxDecision = 16 << 10

// agentScheme is what stands before an agent's name in a reference to it.
const agentScheme = "oagent://"

// listedReview is a review in the list of those to decide. The inputs and outputs
// are shown by the review itself.
type listedReview struct {
	ID        string      `json:"id"`
	Reviewer  string      `json:"reviewer"`
	Side      oagent.Side `json:"side"`
	Rule      string      `json:"rule"`
	Agent     string      `json:"agent"`
	User      oagent.User `json:"user"`
	Name      string      `json:"name"`
	AskedAt   time.Time   `json:"asked_at"`
	ExpiresAt time.Time   `json:"expires_at"`
	Location  string      `json:"location"`
}

// serveReview serves reviews to those who decide them.
func (q *pageRequest) serveReview() {
	reviewers, err := q.reviewersOf()
	if err != nil {
		q.refuseReviewer(err)
		return
	}
	switch {
	case len(q.rest) == 0:
		if q.allow(http.MethodGet) {
			q.listReviews(reviewers)
		}
	case len(q.rest) == 1 && q.r.Method == http.MethodPost:
		q.decide(reviewers, "")
	case len(q.rest) == 1:
		if q.allow(http.MethodGet, http.MethodPost) {
			q.showReview(reviewers)
		}
	case len(q.rest) == 2 && (q.rest[1] == decisionApprove || q.rest[1] == decisionDeny):
		if q.allow(http.MethodPost) {
			q.decide(reviewers, q.rest[1])
		}
	default:
		q.notFound()
	}
}

// Decisions.
const (
	decisionApprove = "approve"
	decisionDeny    = "deny"
)

// reviewersOf returns the names under which the request may decide: that of its
// user, and that of the agent that governs it, if the user answers for the agent
// and the agent's own Engagement goes on. A name that is an agent's is no user's:
// nobody becomes a reviewer by being called like an agent.
func (q *pageRequest) reviewersOf() ([]string, error) {
	var names []string
	isAgent := strings.HasPrefix(q.user.ID, agentScheme) ||
		slices.ContainsFunc(q.hostedAgents(), func(a *oagent.Agent) bool { return a.Name == q.user.ID })
	if _, answered := q.Reviewers[q.user.ID]; !isAgent && !answered {
		names = append(names, q.user.ID)
	}
	p, refusal := q.beside(q.w, q.r, nil)
	if answers := refusal == nil && slices.Contains(q.Reviewers[p.agent.Name], q.user.ID); !answers {
		return names, nil
	}
	if err := q.guard.CheckActive(q.r.Context(), p.binding); err != nil {
		return nil, err
	}
	return append(names, p.agent.Name, agentScheme+p.agent.Name), nil
}

func (q *pageRequest) refuseReviewer(err error) {
	if refusal, ok := oagent.AsRefusal(err); ok && refusal.Status() != http.StatusServiceUnavailable {
		q.problem(refusal.Status(), "The agent cannot decide", sentence(refusal.Message))
		return
	}
	q.fail(err)
}

func (q *pageRequest) listReviews(reviewers []string) {
	listed := []listedReview{}
	for _, reviewer := range reviewers {
		reviews, err := q.guard.Reviews(q.r.Context(), reviewer)
		if err != nil {
			q.fail(err)
			return
		}
		for _, r := range reviews {
			listed = append(listed, listedReview{
				r.ID, r.Reviewer, r.Side, r.Rule, r.Agent, r.User, r.Name, r.AskedAt, r.ExpiresAt,
				q.oagentPages.reviews + "/" + r.ID,
			})
		}
	}
	q.write(struct {
		Reviews []listedReview `json:"reviews"`
	}{listed})
}

// findReview returns a review and under which name it is decided. It answers and
// returns nil if there is none.
func (q *pageRequest) findReview(reviewers []string) (*oagent.Review, string) {
	for _, reviewer := range reviewers {
		review, err := q.guard.Review(q.r.Context(), q.rest[0], reviewer)
		switch {
		case err == nil:
			return review, reviewer
		case !isNothing(err):
			q.fail(err)
			return nil, ""
		}
	}
	q.notFound()
	return nil, ""
}

func (q *pageRequest) showReview(reviewers []string) {
	if review, _ := q.findReview(reviewers); review != nil {
		q.write(review)
	}
}

// decide approves or denies. Decision is "" if the body has it.
func (q *pageRequest) decide(reviewers []string, decision string) {
	review, reviewer := q.findReview(reviewers)
	if review == nil {
		return
	}
	members := []string{"comment"}
	if decision == "" {
		members = []string{"decision", "comment"}
	}
	said, ok := q.jsonObject(members...)
	if !ok {
		return
	}
	if decision == "" {
		decision = said["decision"]
	}
	if decision != decisionApprove && decision != decisionDeny {
		q.problem(http.StatusBadRequest, "There is no decision", "decision is approve or deny.")
		return
	}
	if len(said["comment"]) > oagent.MaxComment {
		q.problem(http.StatusBadRequest, "The comment is too long", "It may have "+strconv.Itoa(oagent.MaxComment)+" bytes.")
		return
	}
	decided, err := q.guard.Decide(q.r.Context(), review.ID, reviewer, decision == decisionApprove, said["comment"])
	switch {
	case errors.Is(err, oagent.ErrDecided):
		q.problem(http.StatusConflict, "The review was decided before", "It was decided in another way, which stays.")
	case isNothing(err):
		q.problem(http.StatusGone, "The review is over", "It has expired, or was used up.")
	case err != nil:
		q.fail(err)
	default:
		q.write(decided)
	}
}

// readSmall reads a body of at most maxDecision bytes.
func readSmall(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxDecision))
	if err != nil {
		return nil, buffer.ErrTooLarge
	}
	return body, nil
}
