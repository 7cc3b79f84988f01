package endpoints

import (
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
	"github.com/fairwayhq/fairway/oagent/hosted/run"
	"github.com/fairwayhq/fairway/oagent/review"
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
type engagementRequest struct{ *request }

// serve serves the state of an Engagement, its record (/audit), what its hosted agent did (/trace), and for
// auditors the list of all Engagements. DELETE of an Engagement renews it.
func (q engagementRequest) serve() {
	methods := []string{http.MethodGet}
	if len(q.rest) == 1 {
		hosted := &runRequest{q: q.request}
		st, ok := hosted.find(q.rest[0])
		if !ok {
			return
		}
		if st != nil {
			hosted.serve(st)
			return
		}
	}
	switch {
	case len(q.rest) == 0 && (q.isAuditor() || q.options.ListOwn || q.options.Host != nil), len(q.rest) == 2 && (q.rest[1] == "audit" || q.rest[1] == "trace"):
	case len(q.rest) == 1:
		methods = append(methods, http.MethodDelete)
		if q.options.Host != nil {
			methods = append(methods, http.MethodPost)
		}
	default:
		q.notFound()
		return
	}
	if !q.allow(methods...) {
		return
	}
	if len(q.rest) == 0 {
		q.listEngagements()
		return
	}
	e, err := q.findEngagement(q.rest[0])
	switch {
	case isNothing(err):
		q.notFound()
	case err != nil:
		q.fail(err)
	case len(q.rest) == 2 && q.rest[1] == "trace":
		q.writeTrace(e)
	case len(q.rest) == 2:
		q.writeAudit(e)
	case q.r.Method == http.MethodDelete:
		q.renewEngagement(e)
	case q.r.Method == http.MethodPost:
		q.allow(http.MethodGet, http.MethodDelete) // its agent runs elsewhere
	default:
		q.writeState(e)
	}
}

// findEngagement returns an Engagement by its key or by the user's own id for it. If the user
// may not see it, the error is the same as if it did not exist.
func (q engagementRequest) findEngagement(id string) (*engagement.Summary, error) {
	e, err := q.guard.Engagements.Get(q.r.Context(), id)
	if err == nil && q.maySee(e) {
		return e, nil
	}
	if err != nil && !errors.Is(err, engagement.ErrNotFound) {
		return nil, err
	}
	if st, ok := (&runRequest{q: q.request}).lookUp(id); ok {
		of := oagent.Binding{Agent: &oagent.Agent{Name: st.Agent}, Engagement: st.ID, User: st.User, Reviewed: st.Reviewed}
		e, err := q.guard.Engagements.Get(q.r.Context(), of.Key())
		if errors.Is(err, engagement.ErrNotFound) { // the agent has called no tool yet
			e, err = &engagement.Summary{Key: of.Key(), Agent: st.Agent, ID: st.ID, User: st.User}, nil
		}
		return e, err
	}
	wanted := q.r.URL.Query().Get("agent")
	for _, a := range q.options.Set().Documents() {
		if wanted != "" && a.Name != wanted {
			continue
		}
		binding := oagent.Binding{Agent: a, Engagement: id, User: engagement.User{ID: q.user.ID}}
		q.options.Reviewers.Bind(&binding)
		if reviewed, ok := review.ReviewedBy(id); ok && q.isAuditor() {
			binding.Reviewed = reviewed
		}
		e, err := q.guard.Engagements.Get(q.r.Context(), binding.Key())
		if err == nil && !q.isAuditor() && q.isDeleted(e) {
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
	return q.mayRead(e) && (q.isAuditor() || e.Reviewed != "" || !q.isDeleted(e))
}

// mayRead reports whether the user may see an Engagement if the user has not deleted it. The user of an Engagement in
// which an agent reviews may not, because it can contain data that is withheld from that user.
func (q engagementRequest) mayRead(e *engagement.Summary) bool {
	if e.Reviewed != "" {
		return q.isAuditor() || q.options.Reviewers.MayDecideFor(q.user.ID, e.Agent)
	}
	return q.isAuditor() || e.User.ID == q.user.ID
}

// isDeleted reports whether the user has deleted the Engagement of a hosted agent. Auditors still see its record.
func (q engagementRequest) isDeleted(e *engagement.Summary) bool {
	a := q.options.Set().Agents[e.Agent]
	if a == nil || !q.options.Host.Runs(a.Agent) {
		return false
	}
	runner, err := q.options.Host.Runner(q.r.Context())
	if err != nil {
		return true
	}
	deleted, err := runner.Conversation(e.ID).IsDeleted(q.r.Context())
	return deleted || err != nil
}

func (q engagementRequest) writeState(e *engagement.Summary) {
	state := engagementState{Summary: e, Results: jsontext.Value("{}"), Audit: q.options.Engagements + "/" + e.Key + "/audit"}
	if e.Ended != nil && !q.isAuditor() {
		ended := *e.Ended
		ended.Why = "" // may quote withheld data
		e.Ended = &ended
	}
	q.setRun(e)
	for _, a := range q.options.Set().Documents() {
		if a.Name != e.Agent || !q.isAuditor() && q.isUnchecked(e) {
			continue
		}
		exposed, err := q.guard.Exposed(q.r.Context(), oagent.Binding{Agent: a, Engagement: e.ID, User: e.User, Reviewed: e.Reviewed, Identity: q.identityOf(e.User.ID)})
		if err != nil {
			q.fail(err)
			return
		}
		state.Results = exposed.Object
	}
	q.write(state)
}

func (q engagementRequest) writeAudit(e *engagement.Summary) {
	query := q.r.URL.Query()
	from, ok := q.number(query, "from", 0, 0, math.MaxInt32)
	if !ok {
		return
	}
	limit, ok := q.limit(query, defaultAuditPage, maxAuditPage)
	if !ok {
		return
	}
	entries, err := q.guard.Engagements.Entries(q.r.Context(), e.Key, from, int(limit))
	switch {
	case isNothing(err) && e.Entries == 0:
		entries = []engagement.Entry{}
	case isNothing(err):
		q.notFound()
		return
	case err != nil:
		q.fail(err)
		return
	}
	if !q.isAuditor() {
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
		page.Next = q.options.Engagements + "/" + e.Key + "/audit?from=" + strconv.FormatInt(next, 10) + "&limit=" + strconv.FormatInt(limit, 10)
	}
	q.write(page)
}

// readsGuarded reports whether an agent with an input guardrail reviews in this Engagement.
// Such an agent may read its questions only through the review endpoint, where the guardrail
// checks them.
func (q engagementRequest) readsGuarded(e *engagement.Summary) bool {
	return e.Reviewed != "" && slices.ContainsFunc(q.options.Set().Documents(), func(a *oagent.Agent) bool {
		return a.Name == e.Agent && a.Input != nil
	})
}

// hidesCalls reports whether the record has inputs that a model of this server has written for a user whose
// agent has an output guardrail. The guardrail does not check them, and the user must not get them.
func (q engagementRequest) hidesCalls(e *engagement.Summary) bool {
	a := q.options.Set().Agents[e.Agent]
	return a != nil && a.Output != nil && q.options.Host.Runs(a.Agent)
}

// isUnchecked reports whether the exposed values contain what the output guardrail has not checked.
func (q engagementRequest) isUnchecked(e *engagement.Summary) bool {
	if !q.hidesCalls(e) {
		return false
	}
	st, ok := (&runRequest{q: q.request}).lookUp(e.ID)
	return !ok || !st.IsChecked(q.options.Set().Agents[e.Agent].Agent)
}

// concealEntry removes from an entry what the user of the Engagement must not see: reasons
// that may quote values which an assertion has read, and outputs of a guardrail's tool. If
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
func (q engagementRequest) listEngagements() {
	query := q.r.URL.Query()
	limit, ok := q.limit(query, defaultEngagementPage, maxEngagementPage)
	if !ok {
		return
	}
	agents := q.options.Set().Documents()
	title := strings.ToLower(query.Get("title"))
	isWanted := func(name, value string) bool { return query.Get(name) == "" || query.Get(name) == value }
	shown := func(e *engagement.Summary) bool {
		known := slices.ContainsFunc(agents, func(a *oagent.Agent) bool { return a.Name == e.Agent })
		if !known || !isWanted("agent", e.Agent) || !isWanted("user", e.User.ID) || !q.mayRead(e) {
			return false
		}
		st := q.setRun(e)
		switch {
		case q.isAuditor():
		case st == nil && !q.maySee(e): // deleted
			return false
		case st != nil && st.Parent != "": // the user sees that of the calling agent
			return false
		}
		return isWanted("status", e.Status) && strings.Contains(strings.ToLower(e.Title), title)
	}
	all, next, err := q.readEngagements(query, int(limit), shown)
	if isNothing(err) {
		q.problem(http.StatusBadRequest, "Invalid cursor", "after must be the value in the next link of the previous page.")
		return
	}
	if err != nil {
		q.fail(err)
		return
	}
	page := engagementPage{Engagements: all}
	if next != "" {
		query.Set("after", next)
		query.Set("limit", strconv.FormatInt(limit, 10))
		page.Next = q.options.Engagements + "?" + query.Encode()
	}
	q.write(page)
}

// readEngagements reads limit Engagements of the store, for users only their own, and returns those that
// shown returns true for, and where the next page begins.
func (q engagementRequest) readEngagements(query url.Values, limit int, shown func(*engagement.Summary) bool) (found []*engagement.Summary, next string, err error) {
	records, after, user := q.guard.Engagements, query.Get("after"), q.user.ID
	if q.isAuditor() {
		user = query.Get("user")
	}
	switch {
	case query.Get("order") == "newest":
		found, next, err = records.Newest(q.r.Context(), user, after, limit, shown)
		if found == nil {
			found = []*engagement.Summary{}
		}
		return found, next, err
	case user == "":
		found, next, err = records.Page(q.r.Context(), after, limit)
	default:
		found, next, err = records.PageOf(q.r.Context(), user, after, limit)
	}
	return slices.DeleteFunc(found, func(e *engagement.Summary) bool { return !shown(e) }), next, err
}

// setRun sets the status and the title of an Engagement to those of its run, if this server runs the agent. It returns
// the run; nil if there is none.
func (q engagementRequest) setRun(e *engagement.Summary) *run.State {
	a := q.options.Set().Agents[e.Agent]
	if a == nil || !q.options.Host.Runs(a.Agent) {
		return nil
	}
	h := &runRequest{q: q.request}
	st, ok := h.lookUp(e.ID)
	if !ok || st.Agent != e.Agent || st.User.ID != e.User.ID {
		return nil
	}
	if runner, err := q.options.Host.Runner(q.r.Context()); err == nil {
		e.Status, e.Title = string(runner.StatusForUser(q.r.Context(), st)), st.Title
	}
	return st
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
