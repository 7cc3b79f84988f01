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
	"github.com/fairwayhq/fairway/caddymodule/route"
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
	name  string             // as review.Queue.Get expects it
	agent *oagent.Agent      // nil if a user decides
	by    engagement.Decider // who decides, if agent is nil and the review is known
}

// reviewRequest is a request to the endpoint for reviews.
type reviewRequest struct{ q *Request }

// serve serves reviews to their reviewers.
func (v reviewRequest) serve() error {
	deciders, err := v.decidersOf()
	if err != nil {
		return v.refused(err)
	}
	serve, methods := v.listReviews, []string{http.MethodGet}
	switch rest := v.q.Rest; {
	case len(rest) == 0 && v.q.R.URL.Query().Get("list") == "decisions":
		serve = v.listDecisions
	case len(rest) == 0:
	case len(rest) == 1:
		serve, methods = v.showReview, []string{http.MethodGet, http.MethodPost}
		if v.q.R.Method == http.MethodPost {
			serve = v.decide
		}
	case len(rest) == 2 && rest[1] == "original":
		serve = v.showOriginal
	case len(rest) == 2 && (rest[1] == reviewers.Approve || rest[1] == reviewers.Deny):
		serve, methods = v.decide, []string{http.MethodPost}
	default:
		return ErrNotFound
	}
	if err := v.q.Allow(methods...); err != nil {
		return err
	}
	return serve(deciders)
}

// decidersOf returns the names under which the request may decide reviews:
//
//   - those of its user, see reviewers.Service.Names,
//   - the name of the agent that governs it, if the user is configured as a reviewer for the
//     agent and the request's Engagement has not ended.
func (v reviewRequest) decidersOf() ([]decider, error) {
	var deciders []decider
	for _, name := range v.q.Options.Reviewers.Names(route.UserOf(v.q.R)) {
		deciders = append(deciders, decider{name: name})
	}
	binding, governed := v.q.Options.Govern(v.q.W, v.q.R)
	if !governed || !v.q.Options.Reviewers.MayDecideFor(v.q.User.ID, binding.Agent.Name) {
		return deciders, nil
	}
	if err := v.q.Guard.CheckActive(v.q.R.Context(), binding); err != nil {
		return nil, err
	}
	return append(deciders, decider{name: oagent.Scheme + binding.Agent.Name, agent: binding.Agent}), nil
}

// entry returns who decides a review under a name, and whether the request may do so now.
func (v reviewRequest) entry(d decider, r *review.Summary, now time.Time) (by engagement.Decider, may bool) {
	if d.agent != nil {
		return by, true
	}
	return v.q.Options.Reviewers.Entry(route.UserOf(v.q.R), r, now)
}

// refused returns the problem of an agent that cannot read or decide a review.
func (v reviewRequest) refused(err error) error {
	refusal, ok := engagement.AsRefusal(err)
	if !ok || refusal.Kind == engagement.KindStore {
		return err
	}
	if refusal.RetryAfter > 0 {
		v.q.W.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(refusal.RetryAfter.Seconds()))))
	}
	return NewProblem(refusal.Status(), "The agent cannot decide", text.Sentence(refusal.Message))
}

// listReviews responds with a page of open reviews, oldest first.
func (v reviewRequest) listReviews(deciders []decider) error {
	query := v.q.R.URL.Query()
	limit, err := pageSize(query, defaultReviewPage, maxReviewPage)
	if err != nil {
		return err
	}
	after, err := parseReviewCursor(query.Get("after"))
	if err != nil {
		return err
	}
	var all []openReview
	for _, d := range deciders {
		reviews, err := v.q.Guard.Reviews.List(v.q.R.Context(), d.name)
		if err != nil {
			return err
		}
		for _, r := range reviews {
			if _, may := v.entry(d, &r, time.Now()); !may {
				continue
			}
			all = append(all, openReview{r, d})
		}
	}
	slices.SortFunc(all, func(a, b openReview) int { return a.Compare(b.Summary) })
	if query.Get("list") == "ids" { // reads no reviews
		ids := make([]string, len(all))
		for i := range all {
			ids[i] = all[i].ID
		}
		return v.q.Write(map[string]any{"ids": ids})
	}
	if after != nil {
		all = slices.DeleteFunc(all, func(r openReview) bool { return r.Compare(*after) <= 0 })
	}
	page := reviewPage{Reviews: make([]listedReview, 0, min(int(limit), len(all)))}
	if int64(len(all)) > limit {
		all = all[:limit]
		page.Next = v.q.Options.Reviews + "?limit=" + strconv.FormatInt(limit, 10) + "&after=" + reviewCursor(all[limit-1].Summary)
	}
	room := maxListedInputs
	for _, r := range all {
		listed, err := v.listed(r, &room)
		if err != nil {
			return err
		}
		page.Reviews = append(page.Reviews, listed)
	}
	return v.q.Write(page)
}

// decisionList is the response with the latest decisions.
type decisionList struct {
	Open    []review.Summary `json:"open,omitempty"` // of all reviewers; only for auditors
	Decided []review.Decided `json:"decided"`
}

// listDecisions responds with the latest decisions about calls of this site's agents: to auditors those of all reviewers
// with what waits for others, and to users their own.
func (v reviewRequest) listDecisions([]decider) error {
	var list decisionList
	var err error
	if v.q.IsAuditor() {
		list.Open, list.Decided, err = v.q.Guard.Reviews.All(v.q.R.Context())
	} else {
		list.Decided, err = v.q.Guard.Reviews.DecidedBy(v.q.R.Context(), v.q.User.ID)
	}
	if err != nil {
		return err
	}
	agents := v.q.Options.Set().Agents
	elsewhere := func(r *review.Summary) bool { return agents[r.Agent] == nil }
	list.Open = slices.DeleteFunc(list.Open, func(r review.Summary) bool { return elsewhere(&r) })
	list.Decided = slices.DeleteFunc(list.Decided, func(r review.Decided) bool { return elsewhere(&r.Summary) })
	list.Open, list.Decided = list.Open[:min(len(list.Open), maxReviewPage)], list.Decided[:min(len(list.Decided), defaultReviewPage)]
	return v.q.Write(list)
}

// listed returns a review as a list entry. room is the number of bytes of inputs left on the
// page.
func (v reviewRequest) listed(r openReview, room *int) (listedReview, error) {
	listed := listedReview{Summary: r.Summary, Status: engagement.ReviewPending, Location: v.q.Options.Reviews + "/" + r.ID}
	found, err := v.q.Guard.Reviews.Get(v.q.R.Context(), r.ID, r.by.name)
	switch {
	case isNothing(err):
		return listed, nil
	case err != nil:
		return listed, err
	}
	listed.Status = found.Status
	switch {
	case r.by.agent != nil && r.by.agent.Enforces(engagement.SideInput):
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

// parseReviewCursor parses a cursor; nil for "". The error is errCursor.
func parseReviewCursor(cursor string) (*review.Summary, error) {
	if cursor == "" {
		return nil, nil
	}
	at, id, ok := strings.Cut(cursor, ".")
	n, err := strconv.ParseInt(at, 10, 64)
	if err != nil || !ok {
		return nil, errCursor
	}
	return &review.Summary{ID: id, AskedAt: time.UnixMilli(n)}, nil
}

// findReview returns a review and its decider.
func (v reviewRequest) findReview(deciders []decider) (*review.Review, decider, error) {
	for _, d := range deciders {
		found, err := v.q.Guard.Reviews.Get(v.q.R.Context(), v.q.Rest[0], d.name)
		switch {
		case err == nil:
			summary, now := found.Summary, time.Now()
			if !found.DecidedAt.IsZero() {
				now = found.DecidedAt // those whose time comes after the decision do not see it
			}
			var may bool
			if d.by, may = v.entry(d, &summary, now); may {
				return found, d, nil
			}
		case !isNothing(err):
			return nil, d, err
		}
	}
	return nil, decider{}, ErrNotFound
}

// showReview responds with a review. If the reviewer is an agent, its input guardrail checks
// the review first.
func (v reviewRequest) showReview(deciders []decider) error {
	found, by, err := v.findReview(deciders)
	if err != nil {
		return err
	}
	shown, err := v.q.Options.Reviewers.Show(v.q.R.Context(), v.q.Guard, found, by.agent)
	if err == nil && by.agent == nil {
		shown.MayEdit = v.mayEdit(found, by)
		err = v.addContext(shown)
	}
	if err != nil {
		return err
	}
	if by.agent != nil {
		question, err := json.Marshal(shown, json.Deterministic(true))
		if err == nil {
			err = v.q.Options.Reviewers.CheckQuestion(v.q.R.Context(), v.q.Guard, by.agent, found, question)
		}
		if err != nil {
			return v.refused(err)
		}
	}
	return v.q.Write(shown)
}

// showOriginal responds with the original inputs of a review, if its reviewer may read them.
func (v reviewRequest) showOriginal(deciders []decider) error {
	found, by, err := v.findReview(deciders)
	if err != nil {
		return err
	}
	originals := v.q.Options.Originals(route.UserOf(v.q.R))
	if by.agent != nil || originals == nil {
		return NewProblem(http.StatusForbidden, "Not allowed", "The option originals of oagent does not have this user, so only the masked inputs are available.")
	}
	inputs, err := v.q.Guard.Reviews.Original(v.q.R.Context(), found, by.by, originals)
	switch {
	case errors.Is(err, review.ErrDecided):
		return NewProblem(http.StatusGone, "Review is over", "The original inputs are deleted when a review is decided or expires.")
	case isNothing(err):
		return NewProblem(http.StatusNotFound, "No original", "This review has no other inputs than those that it shows.")
	case err != nil:
		return err
	}
	v.q.Options.Logger.Info("a reviewer has read the original inputs of a review", zap.String("review", found.ID), zap.String("user", by.by.User),
		zap.String("entry", by.by.Entry), zap.String("agent", found.Agent), zap.String("tool", found.Name))
	return v.q.Write(map[string]any{"id": found.ID, "inputs": inputs})
}

// maxReviewEntries is the number of entries of the Engagement, the latest, that a reviewer sees.
const maxReviewEntries = 50

// maxContextBytes limits the inputs and outputs of those entries; others are left out.
const maxContextBytes = 64 << 10

// addContext adds what a person needs to decide: the user's message, and the latest entries of the Engagement.
func (v reviewRequest) addContext(shown *reviewers.Shown) error {
	ctx := v.q.R.Context()
	e, err := v.q.Guard.Engagements.Get(ctx, shown.Key)
	if isNothing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	entries, err := v.q.Guard.Engagements.Entries(ctx, e.Key, max(e.First, e.Entries-maxReviewEntries), maxReviewEntries)
	if err != nil {
		return err
	}
	room, guarded := maxContextBytes, engagementRequest{v.q}.readsGuarded(e)
	for i := range slices.Backward(entries) {
		concealEntry(&entries[i], guarded)
		if room -= len(entries[i].Inputs) + len(entries[i].Outputs); room < 0 {
			entries[i].Inputs, entries[i].Outputs = nil, nil
		}
	}
	shown.Entries = entries
	if v.q.Options.Host != nil {
		shown.Request, shown.Task = v.q.Options.Host.Asked(ctx, &shown.Review.User, shown.Agent, e.ID)
	}
	return nil
}

// decide approves or denies a review. The decision is in the path or in the body.
func (v reviewRequest) decide(deciders []decider) error {
	found, by, err := v.findReview(deciders)
	if err != nil {
		return err
	}
	members := []string{"comment"}
	if len(v.q.Rest) == 1 {
		members = []string{"decision", "comment"}
	}
	var inputs jsontext.Value
	said, err := v.q.jsonObject(&inputs, members...)
	if err != nil {
		return err
	}
	decision := said["decision"]
	if len(v.q.Rest) == 2 {
		decision = v.q.Rest[1]
	}
	if decision != reviewers.Approve && decision != reviewers.Deny {
		return NewProblem(http.StatusBadRequest, "Invalid decision", "decision must be approve or deny.")
	}
	if len(said["comment"]) > review.MaxComment {
		return NewProblem(http.StatusBadRequest, "Comment too long", "A comment may have at most "+strconv.Itoa(review.MaxComment)+" bytes.")
	}
	if inputs != nil {
		if inputs, err = v.editedInputs(found, by, decision, inputs); err != nil {
			return err
		}
	}
	decided, err := v.record(found, by, decision == reviewers.Approve, said["comment"], inputs)
	if err == nil {
		calltrace.Decision(v.q.R.Context(), calltrace.EventReview, found.Agent, decision, found.Rule)
	}
	return v.answerDecided(decided, err)
}

// record records a decision. inputs are those of an approval with other ones; nil for an unchanged call.
func (v reviewRequest) record(found *review.Review, by decider, approve bool, comment string, inputs jsontext.Value) (*review.Review, error) {
	if inputs != nil {
		return v.q.Guard.Reviews.ApproveEdited(v.q.R.Context(), found.ID, by.name, by.by, inputs, comment)
	}
	if by.agent == nil {
		return v.q.Guard.Reviews.DecideBy(v.q.R.Context(), found.ID, by.name, by.by, approve, comment)
	}
	decided, err := v.q.Options.Reviewers.DecideFor(v.q.R.Context(), v.q.Guard, by.agent, found, approve, comment)
	if err == nil {
		decided.Inputs, decided.Outputs = nil, nil // not checked by a guardrail, see showReview
		v.q.Options.Logger.Info("an agent has decided a review", zap.String("agent", by.agent.Name), zap.String("review", found.ID),
			zap.String("status", decided.Status), zap.String("user", v.q.User.ID))
	}
	return decided, err
}

func (v reviewRequest) answerDecided(decided *review.Review, err error) error {
	switch {
	case errors.Is(err, review.ErrDecided) && decided != nil && decided.Abandoned:
		return NewProblem(http.StatusGone, "Review is over", text.Sentence("The review is over: "+decided.Comment))
	case errors.Is(err, review.ErrDecided):
		return NewProblem(http.StatusConflict, "Review already decided", "The review has another decision, which cannot be changed.")
	case errors.Is(err, review.ErrTooLarge):
		return NewProblem(http.StatusRequestEntityTooLarge, "Arguments too large", "The record of the Engagement has no room for these arguments; the operator can raise max_recorded.")
	case isNothing(err):
		return NewProblem(http.StatusGone, "Review is over", "The review has expired, or its approval was used.")
	case err != nil:
		return v.refused(err)
	}
	return v.q.Write(decided)
}
