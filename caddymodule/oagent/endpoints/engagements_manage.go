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

// listEngagements responds with a page of the Engagements of this site's agents, ordered by
// key. It is for auditors. Each page reads limit Engagements of the store and then filters
// them. For users, it has their own Engagements only. So a page may have fewer entries, or none, and still have a next page.
func (q engagementRequest) listEngagements() {
	query := q.r.URL.Query()
	limit, ok := q.limit(query, defaultEngagementPage, maxEngagementPage)
	if !ok {
		return
	}
	all, next, err := q.guard.Engagements.Page(q.r.Context(), query.Get("after"), int(limit))
	if err != nil {
		q.fail(err)
		return
	}
	wanted, agents := query.Get("agent"), q.options.Set().Documents()
	page := engagementPage{Engagements: make([]*engagement.Summary, 0, len(all))}
	for _, e := range all {
		hosted := slices.ContainsFunc(agents, func(a *oagent.Agent) bool { return a.Name == e.Agent })
		if hosted && (wanted == "" || e.Agent == wanted) && q.maySee(e) {
			page.Engagements = append(page.Engagements, e)
		}
	}
	if next != "" {
		rest := url.Values{"after": {next}, "limit": {strconv.FormatInt(limit, 10)}}
		if wanted != "" {
			rest.Set("agent", wanted)
		}
		page.Next = q.options.Engagements + "?" + rest.Encode()
	}
	q.write(page)
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
