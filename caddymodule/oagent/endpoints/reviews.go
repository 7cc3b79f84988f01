package endpoints

import (
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/oagent/reviewers"
	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
)

// Page sizes of the list of reviews.
const (
	defaultReviewPage = 100
	maxReviewPage     = 1000
	maxListedInputs   = 256 << 10 // bytes of inputs on one page; larger inputs are only in the review itself
)

// listedReview is an entry in the list of open reviews. Outputs are only in the review itself.
// So are inputs that an input guardrail must check first.
type listedReview struct {
	review.Summary
	Status   string         `json:"status"`
	Inputs   jsontext.Value `json:"inputs,omitzero"`
	Location string         `json:"location"`
}

// openReview is an undecided review.
type openReview struct {
	review.Summary
	by decider
}

// reviewPage is one page of the list.
type reviewPage struct {
	Reviews []listedReview `json:"reviews"`
	Next    string         `json:"next,omitempty"` // path of the next page
}

// decider is a name under which a request may decide reviews.
type decider struct {
	name  string        // as review.Queue.Get expects it
	agent *oagent.Agent // nil if a user decides
}

// reviewRequest is a request to the endpoint for reviews.
type reviewRequest struct{ *request }

// serve serves reviews to their reviewers.
func (q reviewRequest) serve() {
	deciders, err := q.decidersOf()
	if err != nil {
		q.refuseReviewer(err)
		return
	}
	switch {
	case len(q.rest) == 0:
		if q.allow(http.MethodGet) {
			q.listReviews(deciders)
		}
	case len(q.rest) == 1 && q.r.Method == http.MethodPost:
		q.decide(deciders, "")
	case len(q.rest) == 1:
		if q.allow(http.MethodGet, http.MethodPost) {
			q.showReview(deciders)
		}
	case len(q.rest) == 2 && (q.rest[1] == reviewers.Approve || q.rest[1] == reviewers.Deny):
		if q.allow(http.MethodPost) {
			q.decide(deciders, q.rest[1])
		}
	default:
		q.notFound()
	}
}

// decidersOf returns the names under which the request may decide reviews:
//
//   - the name of its user,
//   - the name of the agent that governs it, if the user is configured as a reviewer for the
//     agent and the request's Engagement has not ended.
//
// A user whose id is the name of an agent gets no name, so no one becomes a reviewer by having
// an agent's name.
func (q reviewRequest) decidersOf() ([]decider, error) {
	var deciders []decider
	isAgent := strings.HasPrefix(q.user.ID, oagent.Scheme) ||
		slices.ContainsFunc(q.options.Set().Documents(), func(a *oagent.Agent) bool { return a.Name == q.user.ID })
	if q.user.ID != "" && !isAgent && !q.options.Reviewers.Has(q.user.ID) {
		deciders = append(deciders, decider{name: q.user.ID})
	}
	binding, governed := q.options.Govern(q.w, q.r)
	if !governed || !q.options.Reviewers.MayDecideFor(q.user.ID, binding.Agent.Name) {
		return deciders, nil
	}
	if err := q.guard.CheckActive(q.r.Context(), binding); err != nil {
		return nil, err
	}
	return append(deciders, decider{oagent.Scheme + binding.Agent.Name, binding.Agent}), nil
}

// refuseReviewer responds to an agent that cannot read or decide a review.
func (q reviewRequest) refuseReviewer(err error) {
	refusal, ok := engagement.AsRefusal(err)
	if !ok || refusal.Kind == engagement.KindStore {
		q.fail(err)
		return
	}
	if refusal.RetryAfter > 0 {
		q.w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(refusal.RetryAfter.Seconds()))))
	}
	q.problem(refusal.Status(), "The agent cannot decide", text.Sentence(refusal.Message))
}

// listReviews responds with a page of open reviews, oldest first.
func (q reviewRequest) listReviews(deciders []decider) {
	query := q.r.URL.Query()
	limit, ok := q.limit(query, defaultReviewPage, maxReviewPage)
	if !ok {
		return
	}
	after, err := parseReviewCursor(query.Get("after"))
	if err != nil {
		q.problem(http.StatusBadRequest, "Invalid cursor", "after must be the value in the next link of the previous page.")
		return
	}
	var all []openReview
	for _, d := range deciders {
		reviews, err := q.guard.Reviews.List(q.r.Context(), d.name)
		if err != nil {
			q.fail(err)
			return
		}
		for _, r := range reviews {
			all = append(all, openReview{r, d})
		}
	}
	slices.SortFunc(all, func(a, b openReview) int { return a.Compare(b.Summary) })
	if after != nil {
		all = slices.DeleteFunc(all, func(r openReview) bool { return r.Compare(*after) <= 0 })
	}
	page := reviewPage{Reviews: make([]listedReview, 0, min(int(limit), len(all)))}
	if int64(len(all)) > limit {
		all = all[:limit]
		page.Next = q.options.Reviews + "?limit=" + strconv.FormatInt(limit, 10) + "&after=" + reviewCursor(all[limit-1].Summary)
	}
	room := maxListedInputs
	for _, r := range all {
		listed, err := q.listed(r, &room)
		if err != nil {
			q.fail(err)
			return
		}
		page.Reviews = append(page.Reviews, listed)
	}
	q.write(page)
}

// listed returns a review as a list entry. room is the number of bytes of inputs left on the
// page.
func (q reviewRequest) listed(r openReview, room *int) (listedReview, error) {
	listed := listedReview{Summary: r.Summary, Status: engagement.ReviewPending, Location: q.options.Reviews + "/" + r.ID}
	found, err := q.guard.Reviews.Get(q.r.Context(), r.ID, r.by.name)
	switch {
	case isNothing(err):
		return listed, nil
	case err != nil:
		return listed, err
	}
	listed.Status = found.Status
	switch {
	case r.by.agent != nil && r.by.agent.Input != nil:
	case len(found.Inputs) > *room:
		listed.Inputs = engagement.Omitted{Bytes: int64(len(found.Inputs))}.JSON()
	default:
		listed.Inputs = found.Inputs
		*room -= len(found.Inputs)
	}
	return listed, nil
}

// reviewCursor returns the cursor after a review. It stays valid when the review is decided.
func reviewCursor(r review.Summary) string {
	return strconv.FormatInt(r.AskedAt.UnixMilli(), 10) + "." + r.ID
}

// parseReviewCursor parses a cursor; nil for "".
func parseReviewCursor(cursor string) (*review.Summary, error) {
	if cursor == "" {
		return nil, nil
	}
	at, id, ok := strings.Cut(cursor, ".")
	n, err := strconv.ParseInt(at, 10, 64)
	if err != nil || !ok {
		return nil, errors.New("no cursor")
	}
	return &review.Summary{ID: id, AskedAt: time.UnixMilli(n)}, nil
}

// findReview returns a review and its decider. If there is none, it sends an error response
// and returns nil.
func (q reviewRequest) findReview(deciders []decider) (*review.Review, decider) {
	for _, d := range deciders {
		found, err := q.guard.Reviews.Get(q.r.Context(), q.rest[0], d.name)
		switch {
		case err == nil:
			return found, d
		case !isNothing(err):
			q.fail(err)
			return nil, d
		}
	}
	q.notFound()
	return nil, decider{}
}

// showReview responds with a review. If the reviewer is an agent, its input guardrail checks
// the review first.
func (q reviewRequest) showReview(deciders []decider) {
	found, by := q.findReview(deciders)
	if found == nil {
		return
	}
	shown, err := q.options.Reviewers.Show(q.r.Context(), q.guard, found, by.agent)
	if err != nil {
		q.fail(err)
		return
	}
	if by.agent != nil {
		question, err := json.Marshal(shown, json.Deterministic(true))
		if err == nil {
			err = q.options.Reviewers.CheckQuestion(q.r.Context(), q.guard, by.agent, found, question)
		}
		if err != nil {
			q.refuseReviewer(err)
			return
		}
	}
	q.write(shown)
}

// decide approves or denies a review. If decision is "", it is in the body.
func (q reviewRequest) decide(deciders []decider, decision string) {
	found, by := q.findReview(deciders)
	if found == nil {
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
	if decision != reviewers.Approve && decision != reviewers.Deny {
		q.problem(http.StatusBadRequest, "Invalid decision", "decision must be approve or deny.")
		return
	}
	if len(said["comment"]) > review.MaxComment {
		q.problem(http.StatusBadRequest, "Comment too long", "A comment may have at most "+strconv.Itoa(review.MaxComment)+" bytes.")
		return
	}
	decided, err := q.record(found, by, decision == reviewers.Approve, said["comment"])
	if err == nil {
		calltrace.Decision(q.r.Context(), calltrace.EventReview, found.Agent, decision, found.Rule)
	}
	q.answerDecided(decided, err)
}

// record records a decision.
func (q reviewRequest) record(found *review.Review, by decider, approve bool, comment string) (*review.Review, error) {
	if by.agent == nil {
		return q.guard.Reviews.Decide(q.r.Context(), found.ID, by.name, approve, comment)
	}
	decided, err := q.options.Reviewers.DecideFor(q.r.Context(), q.guard, by.agent, found, approve, comment)
	if err == nil {
		decided.Inputs, decided.Outputs = nil, nil // not checked by a guardrail, see showReview
		q.options.Logger.Info("an agent has decided a review", zap.String("agent", by.agent.Name), zap.String("review", found.ID),
			zap.String("status", decided.Status), zap.String("user", q.user.ID))
	}
	return decided, err
}

func (q reviewRequest) answerDecided(decided *review.Review, err error) {
	_, refused := engagement.AsRefusal(err)
	switch {
	case errors.Is(err, review.ErrDecided):
		q.problem(http.StatusConflict, "Review already decided", "The review has the opposite decision, which cannot be changed.")
	case isNothing(err):
		q.problem(http.StatusGone, "Review is over", "The review has expired, or its approval was used.")
	case refused:
		q.refuseReviewer(err)
	case err != nil:
		q.fail(err)
	default:
		q.write(decided)
	}
}
