package endpoints

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
	"github.com/fairwayhq/fairway/tools/logonly"
)

const (
	defaultAuditPage = 100 // entries
	maxAuditPage     = engagement.MaxPage
)

// engagementState is the response to GET of an Engagement.
type engagementState struct {
	*engagement.Summary
	Results jsontext.Value `json:"results"` // the exposed values
	Audit   string         `json:"audit"`   // path of its record
}

// auditPage is one page of a record.
type auditPage struct {
	Engagement string             `json:"engagement"` // of the Engagement
	From       int64              `json:"from"`       // number of the first entry
	Entries    []engagement.Entry `json:"entries"`
	Next       string             `json:"next,omitempty"` // path of the next page
}

// engagementRequest is a request to the endpoint for Engagements.
type engagementRequest struct{ *Request }

// serve serves the state of an Engagement, its record (/audit), what its hosted agent did (/trace), and for
// auditors the list of all Engagements. DELETE of an Engagement renews it.
func (q engagementRequest) serve() error {
	methods := []string{http.MethodGet}
	if len(q.Rest) == 1 && q.Options.Host != nil {
		if served, err := q.Options.Host.ServeRun(q.Request, q.Rest[0]); served || err != nil {
			return err
		}
	}
	switch {
	case len(q.Rest) == 0 && (q.IsAuditor() || q.Options.ListOwn || q.Options.Host != nil), len(q.Rest) == 2 && (q.Rest[1] == "audit" || q.Rest[1] == "trace"):
	case len(q.Rest) == 1:
		methods = append(methods, http.MethodDelete)
		if q.Options.Host != nil {
			methods = append(methods, http.MethodPost)
		}
	default:
		return ErrNotFound
	}
	if err := q.Allow(methods...); err != nil {
		return err
	}
	if len(q.Rest) == 0 {
		return q.listEngagements()
	}
	e, err := q.findEngagement(q.Rest[0])
	switch {
	case err != nil:
		return err
	case len(q.Rest) == 2 && q.Rest[1] == "trace":
		return q.writeTrace(e)
	case len(q.Rest) == 2:
		return q.writeAudit(e)
	case q.R.Method == http.MethodDelete:
		return q.renewEngagement(e)
	case q.R.Method == http.MethodPost:
		return q.Allow(http.MethodGet, http.MethodDelete) // its agent runs elsewhere
	}
	return q.writeState(e)
}

// findEngagement returns an Engagement by its key or by the user's own id for it. If the user
// may not see it, the error is the same as if it did not exist.
func (q engagementRequest) findEngagement(id string) (*engagement.Summary, error) {
	e, err := q.Guard.Engagements.Get(q.R.Context(), id)
	if err == nil && q.maySee(e) {
		return e, nil
	}
	if err != nil && !errors.Is(err, engagement.ErrNotFound) {
		return nil, err
	}
	if r := q.findRun(id); r != nil {
		of := oagent.Binding{Agent: &oagent.Agent{Name: r.Agent}, Engagement: r.ID, User: r.User, Reviewed: r.Reviewed}
		e, err := q.Guard.Engagements.Get(q.R.Context(), of.Key())
		if errors.Is(err, engagement.ErrNotFound) { // the agent has called no tool yet
			e, err = &engagement.Summary{Key: of.Key(), Agent: r.Agent, ID: r.ID, User: r.User}, nil
		}
		return e, err
	}
	wanted := q.R.URL.Query().Get("agent")
	for _, a := range q.Options.Set().Documents() {
		if wanted != "" && a.Name != wanted {
			continue
		}
		binding := oagent.Binding{Agent: a, Engagement: id, User: engagement.User{ID: q.User.ID}}
		q.Options.Reviewers.Bind(&binding)
		if reviewed, ok := review.ReviewedBy(id); ok && q.IsAuditor() {
			binding.Reviewed = reviewed
		}
		e, err := q.Guard.Engagements.Get(q.R.Context(), binding.Key())
		if err == nil && !q.IsAuditor() && q.isDeleted(e) {
			continue
		}
		if !errors.Is(err, engagement.ErrNotFound) {
			return e, err
		}
	}
	return nil, engagement.ErrNotFound
}

// maySee reports whether the user may see an Engagement.
func (q engagementRequest) maySee(e *engagement.Summary) bool {
	return q.mayRead(e) && (q.IsAuditor() || e.Reviewed != "" || !q.isDeleted(e))
}

// mayRead reports whether the user may see an Engagement if the user has not deleted it. The user of an Engagement in
// which an agent reviews may not, because it can contain data that is withheld from that user.
func (q engagementRequest) mayRead(e *engagement.Summary) bool {
	if e.Reviewed != "" {
		return q.IsAuditor() || q.Options.Reviewers.MayDecideFor(q.User.ID, e.Agent)
	}
	return q.IsAuditor() || e.User.ID == q.User.ID
}

// isDeleted reports whether the user has deleted the Engagement of a hosted agent. Auditors still see its record.
func (q engagementRequest) isDeleted(e *engagement.Summary) bool {
	a := q.Options.Set().Agents[e.Agent]
	return a != nil && q.runs(a.Agent) && q.Options.Host.IsDeleted(q.R.Context(), e.ID)
}

func (q engagementRequest) writeState(e *engagement.Summary) error {
	state := engagementState{Summary: e, Results: jsontext.Value("{}"), Audit: q.Options.Engagements + "/" + e.Key + "/audit"}
	if e.Ended != nil && !q.IsAuditor() {
		ended := *e.Ended
		ended.Why = "" // may quote withheld data
		e.Ended = &ended
	}
	q.setRun(e)
	for _, a := range q.Options.Set().Documents() {
		if a.Name != e.Agent || !q.IsAuditor() && q.isUnchecked(e) {
			continue
		}
		exposed, err := q.Guard.Exposed(q.R.Context(), oagent.Binding{Agent: a, Engagement: e.ID, User: e.User, Reviewed: e.Reviewed, Identity: q.identityOf(e.User.ID)})
		if err != nil {
			return err
		}
		state.Results = exposed.Object
	}
	return q.Write(state)
}

func (q engagementRequest) writeAudit(e *engagement.Summary) error {
	query := q.R.URL.Query()
	from, err := number(query, "from", 0, 0, math.MaxInt32)
	if err != nil {
		return err
	}
	limit, err := pageSize(query, defaultAuditPage, maxAuditPage)
	if err != nil {
		return err
	}
	entries, err := q.Guard.Engagements.Entries(q.R.Context(), e.Key, from, int(limit))
	switch {
	case isNothing(err) && e.Entries == 0:
		entries = []engagement.Entry{}
	case err != nil:
		return err
	}
	if !q.IsAuditor() {
		guarded, unchecked := q.readsGuarded(e), q.hidesCalls(e)
		for i := range entries {
			concealEntry(&entries[i], guarded)
			if unchecked {
				entries[i].Inputs, entries[i].Outputs = nil, nil
			}
		}
	}
	page := auditPage{Engagement: e.Key, From: from, Entries: entries}
	if next := from + int64(len(entries)); len(entries) > 0 && next < e.Entries {
		page.Next = q.Options.Engagements + "/" + e.Key + "/audit?from=" + strconv.FormatInt(next, 10) + "&limit=" + strconv.FormatInt(limit, 10)
	}
	return q.Write(page)
}

// readsGuarded reports whether an agent with an input guardrail reviews in this Engagement.
// Such an agent may read its questions only through the review endpoint, where the guardrail
// checks them.
func (q engagementRequest) readsGuarded(e *engagement.Summary) bool {
	return e.Reviewed != "" && slices.ContainsFunc(q.Options.Set().Documents(), func(a *oagent.Agent) bool {
		return a.Name == e.Agent && a.Enforces(engagement.SideInput)
	})
}

// hidesCalls reports whether the record has inputs that a model of this server has written for a user whose
// agent has an output guardrail. The guardrail does not check them, and the user must not get them.
func (q engagementRequest) hidesCalls(e *engagement.Summary) bool {
	a := q.Options.Set().Agents[e.Agent]
	return a != nil && a.Enforces(engagement.SideOutput) && q.runs(a.Agent)
}

// isUnchecked reports whether the exposed values contain what the output guardrail has not checked.
func (q engagementRequest) isUnchecked(e *engagement.Summary) bool {
	if !q.hidesCalls(e) {
		return false
	}
	r := q.findRun(e.ID)
	return r == nil || !r.IsChecked(q.Options.Set().Agents[e.Agent].Agent)
}

// concealEntry removes from an entry what the user of the Engagement must not see: reasons
// that may quote values which an assertion has read, outputs of a guardrail's tool, and what rules in log only would have done. If
// guarded is true, it also removes the questions, see readsGuarded.
func concealEntry(e *engagement.Entry, guarded bool) {
	if guarded && e.Event == engagement.EntryQuestion {
		e.Inputs, e.Outputs = nil, nil
	}
	if e.Kind != "" {
		e.Why = ""
		e.Status = 0 // status of a withheld response
	}
	if e.Event == engagement.EntryGuardrail {
		e.Outputs = nil
	}
	e.Would = logonly.Would{}
}

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

// listEngagements responds with a page of the Engagements of this site's agents, ordered by key, or with order=newest
// by their latest change. Auditors get all of them, users their own. The Engagements are filtered after they are read.
// So a page may have fewer entries than limit, or none, and still have a next page.
func (q engagementRequest) listEngagements() error {
	query := q.R.URL.Query()
	limit, err := pageSize(query, defaultEngagementPage, maxEngagementPage)
	if err != nil {
		return err
	}
	agents := q.Options.Set().Documents()
	title := strings.ToLower(query.Get("title"))
	isWanted := func(name, value string) bool { return query.Get(name) == "" || query.Get(name) == value }
	shown := func(e *engagement.Summary) bool {
		known := slices.ContainsFunc(agents, func(a *oagent.Agent) bool { return a.Name == e.Agent })
		if !known || !isWanted("agent", e.Agent) || !isWanted("user", e.User.ID) || !q.mayRead(e) {
			return false
		}
		r := q.setRun(e)
		switch {
		case q.IsAuditor():
		case r == nil && !q.maySee(e): // deleted
			return false
		case r != nil && r.Parent != "": // the user sees that of the calling agent
			return false
		}
		return isWanted("status", e.Status) && strings.Contains(strings.ToLower(e.Title), title)
	}
	all, next, err := q.readEngagements(query, int(limit), shown)
	if isNothing(err) {
		return errCursor
	}
	if err != nil {
		return err
	}
	page := engagementPage{Engagements: all}
	if next != "" {
		query.Set("after", next)
		query.Set("limit", strconv.FormatInt(limit, 10))
		page.Next = q.Options.Engagements + "?" + query.Encode()
	}
	return q.Write(page)
}

// readEngagements reads limit Engagements of the store, for users only their own, and returns those that
// shown returns true for, and where the next page begins.
func (q engagementRequest) readEngagements(query url.Values, limit int, shown func(*engagement.Summary) bool) (found []*engagement.Summary, next string, err error) {
	records, after, user := q.Guard.Engagements, query.Get("after"), q.User.ID
	if q.IsAuditor() {
		user = query.Get("user")
	}
	if query.Get("order") == "newest" {
		found, next, err = records.Newest(q.R.Context(), user, after, limit, shown)
		if found == nil {
			found = []*engagement.Summary{}
		}
		return found, next, err
	}
	found, next, err = records.Page(q.R.Context(), user, after, limit)
	return slices.DeleteFunc(found, func(e *engagement.Summary) bool { return !shown(e) }), next, err
}

// setRun sets the status and the title of an Engagement to those of its run, if this server runs the agent. It returns
// the run; nil if there is none.
func (q engagementRequest) setRun(e *engagement.Summary) *Run {
	a := q.Options.Set().Agents[e.Agent]
	if a == nil || !q.runs(a.Agent) {
		return nil
	}
	r := q.findRun(e.ID)
	if r == nil || r.Agent != e.Agent || r.User.ID != e.User.ID {
		return nil
	}
	e.Status, e.Title = r.Status, r.Title
	return r
}

// writeTrace responds with what the hosted agent of an Engagement did. Only its user and auditors get it. The user does
// not get texts of the model that the output guardrail has not checked.
func (q engagementRequest) writeTrace(e *engagement.Summary) error {
	r := q.findRun(e.ID)
	if r == nil || r.Agent != e.Agent || !q.IsAuditor() && (r.Review != "" || r.User.ID != q.User.ID) {
		return ErrNotFound
	}
	return q.Options.Host.ServeTrace(q.Request, r.ID, !q.IsAuditor() && q.hidesCalls(e))
}

// renewEngagement ends an Engagement and begins a new one. The user may do this after the
// Engagement has ended; an auditor may do it at any time. Only an auditor may renew an
// Engagement in which an agent reviews.
func (q engagementRequest) renewEngagement(e *engagement.Summary) error {
	if err := q.SameOrigin(); err != nil {
		return err
	}
	auditor := q.IsAuditor()
	if e.Reviewed != "" && !auditor {
		return NewProblem(http.StatusForbidden, "Auditors only", "An agent reviews in this Engagement. Ask an auditor to renew it.")
	}
	renewed, err := q.Guard.Renew(q.R.Context(), e.Key, engagement.Renewal{By: q.User.ID, Force: auditor})
	switch {
	case errors.Is(err, engagement.ErrActive):
		return NewProblem(http.StatusConflict, "The Engagement has not ended", "Its user can renew it after it has ended; an auditor can renew it at any time.")
	case errors.Is(err, engagement.ErrRecordFull):
		return NewProblem(http.StatusConflict, "The record of the Engagement is full", "The record of the earlier calls leaves no space for more. Use another id for the Engagement, or wait until this one expires.")
	case err != nil:
		return err
	}
	q.Options.Logger.Info("renewed an Engagement", zap.String("agent", renewed.Agent), zap.String("engagement", renewed.Key), zap.String("user", q.User.ID))
	return q.writeState(renewed)
}

type auditorKey struct{}

// ContextWithAuditor returns the context of a request that another handler has allowed to see all
// Engagements.
func ContextWithAuditor(ctx context.Context) context.Context {
	return context.WithValue(ctx, auditorKey{}, true)
}

// isAuditor reports whether the context is one of ContextWithAuditor.
func isAuditor(ctx context.Context) bool {
	is, _ := ctx.Value(auditorKey{}).(bool)
	return is
}
