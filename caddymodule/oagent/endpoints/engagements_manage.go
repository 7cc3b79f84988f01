package endpoints

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// Page sizes of the list of Engagements.
const (
	defaultEngagementPage = 100
	maxEngagementPage     = 1000
)

// engagementPage is one page of the list.
type engagementPage struct {
	Engagements []*engagement.Summary `json:"engagements"`
	Next        string                `json:"next,omitempty"` // path of the next page
}

// listEngagements responds with a page of the Engagements of this site's agents, ordered by key. Auditors
// get all of them, users their own. The Engagements are filtered after they are read. So a page may have
// fewer entries than limit, or none, and still have a next page.
func (q engagementRequest) listEngagements() {
	query := q.r.URL.Query()
	limit, ok := q.limit(query, defaultEngagementPage, maxEngagementPage)
	if !ok {
		return
	}
	wanted, agents := query.Get("agent"), q.options.Set().Documents()
	shown := func(e *engagement.Summary) bool {
		hosted := slices.ContainsFunc(agents, func(a *oagent.Agent) bool { return a.Name == e.Agent })
		return hosted && (wanted == "" || e.Agent == wanted) && q.maySee(e)
	}
	all, next, err := q.readEngagements(query.Get("after"), int(limit), shown)
	if err != nil {
		q.fail(err)
		return
	}
	page := engagementPage{Engagements: all}
	if next != "" {
		rest := url.Values{"after": {next}, "limit": {strconv.FormatInt(limit, 10)}}
		if wanted != "" {
			rest.Set("agent", wanted)
		}
		page.Next = q.options.Engagements + "?" + rest.Encode()
	}
	q.write(page)
}

// readEngagements reads limit Engagements of the store, for users only their own, and returns those that
// shown returns true for, and where the next page begins.
func (q engagementRequest) readEngagements(after string, limit int, shown func(*engagement.Summary) bool) (found []*engagement.Summary, next string, err error) {
	if q.isAuditor() {
		found, next, err = q.guard.Engagements.Page(q.r.Context(), after, limit)
	} else {
		found, next, err = q.guard.Engagements.PageOf(q.r.Context(), q.user.ID, after, limit)
	}
	return slices.DeleteFunc(found, func(e *engagement.Summary) bool { return !shown(e) }), next, err
}

// renewEngagement ends an Engagement and begins a new one. The user may do this after the
// Engagement has ended; an auditor may do it at any time. Only an auditor may renew an
// Engagement in which an agent reviews.
func (q engagementRequest) renewEngagement(e *engagement.Summary) {
	if !q.sameOrigin() {
		return
	}
	auditor := q.isAuditor()
	if e.Reviewed != "" && !auditor {
		q.problem(http.StatusForbidden, "Auditors only", "An agent reviews in this Engagement. Ask an auditor to renew it.")
		return
	}
	renewed, err := q.guard.Renew(q.r.Context(), e.Key, engagement.Renewal{By: q.user.ID, Force: auditor})
	switch {
	case isNothing(err):
		q.notFound()
	case errors.Is(err, engagement.ErrActive):
		q.problem(http.StatusConflict, "The Engagement has not ended", "Its user can renew it after it has ended; an auditor can renew it at any time.")
	case errors.Is(err, engagement.ErrRecordFull):
		q.problem(http.StatusConflict, "The record of the Engagement is full", "The record of the earlier calls leaves no space for more. Use another id for the Engagement, or wait until this one expires.")
	case err != nil:
		q.fail(err)
	default:
		q.options.Logger.Info("renewed an Engagement", zap.String("agent", renewed.Agent), zap.String("engagement", renewed.Key), zap.String("user", q.user.ID))
		q.writeState(renewed)
	}
}
