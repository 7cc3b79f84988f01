// Package endpoints serves agent documents, Engagements and reviews over HTTP: the subdirectives
// serve, engagements and reviews of the directive oagent.
//
// Data passes through it in this order:
//
//   - Endpoints.Serve compares the path of a request with the paths of the endpoints. It ignores
//     other requests.
//   - For Engagements and reviews, the site must have authenticated the user.
//   - One of these types answers the request: documentRequest (documents.go), engagementRequest
//     (engagements.go) or reviewRequest (reviews.go). They read and change
//     the records through the Guard. A Host responds to those about an Engagement whose agent this server runs (host.go).
//   - The response is JSON that must not be cached, or a problem document. A user gets the same
//     response for a resource of another user as for one that does not exist.
package endpoints

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/caddymodule/oagent/reviewers"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
)

// Options are what the endpoints need of the oagent handler. An endpoint with an empty path is
// disabled.
type Options struct {
	Documents   string   // path of the agents' documents
	Engagements string   // path of the Engagements
	Reviews     string   // path of the reviews
	Auditors    []string // users who may see every Engagement, see identity.User.IsIn
	ListOwn     bool     // users may list their own Engagements, not only auditors all of them

	// Set returns the agents of the site.
	Set func() *agentset.Set
	// Guard returns the Guard that has the Engagements and reviews.
	Guard func(context.Context) (*oagent.Guard, error)
	// User returns the authenticated user of a request.
	User func(*http.Request) engagement.User
	// Govern returns the Engagement of a request with the agent that governs it; false if no
	// agent does.
	Govern func(http.ResponseWriter, *http.Request) (oagent.Binding, bool)
	// BoundBody limits the body of a request that is read next. If release is not nil, it must be called afterwards.
	BoundBody func(*http.Request) (release func())
	// Host runs the agents of the site; nil if none is hosted.
	Host Host
	// Accept responds to an authenticated request that changes an agent document; nil if all of them are from files.
	Accept func(*Request) error
	// Reviewers decide on behalf of agents.
	Reviewers *reviewers.Service
	// Originals returns the keys of original inputs if a user may read them, or nil.
	Originals func(user *identity.User) *review.Originals
	Logger    *zap.Logger
	// StoreFailed logs errors of the store.
	StoreFailed func(error)
}

// Endpoints serve agent documents, Engagements and reviews.
type Endpoints struct{ options Options }

// New returns the endpoints. Slashes at the end of a path are ignored.
func New(options Options) *Endpoints {
	for _, path := range []*string{&options.Documents, &options.Engagements, &options.Reviews} {
		*path = strings.TrimRight(*path, "/")
	}
	return &Endpoints{options}
}

// Below returns the same endpoints below another path. Documents are only served if they have a path of
// their own.
func (e *Endpoints) Below(base string) *Endpoints {
	options := e.options
	if options.Documents != "" {
		options.Documents = base + "/agents"
	}
	options.Engagements, options.Reviews, options.ListOwn = base+"/engagements", base+"/reviews", true
	return New(options)
}

// Request is one request to an endpoint.
type Request struct {
	Options *Options
	W       http.ResponseWriter
	R       *http.Request
	Rest    []string // path segments below the endpoint's path
	User    engagement.User
	Guard   *oagent.Guard
}

// Serve responds to the request if it goes to one of the endpoints. It reports whether it did. The request must not be
// that of a tool call.
func (e *Endpoints) Serve(w http.ResponseWriter, r *http.Request) bool {
	switch path := r.URL.Path; {
	case isBelow(path, e.options.Documents):
		q := e.newRequest(w, r, e.options.Documents)
		q.fail(documentRequest{q}.serve())
	case isBelow(path, e.options.Engagements):
		q := e.newRequest(w, r, e.options.Engagements)
		q.fail(q.authenticated(engagementRequest{q}.serve))
	case isBelow(path, e.options.Reviews):
		q := e.newRequest(w, r, e.options.Reviews)
		q.fail(q.authenticated(reviewRequest{q}.serve))
	default:
		return false
	}
	return true
}

// isBelow reports whether a path is that of an endpoint, or below it. The path of an endpoint that is not
// served is "".
func isBelow(path, endpoint string) bool {
	rest, ok := strings.CutPrefix(path, endpoint)
	return ok && endpoint != "" && (rest == "" || rest[0] == '/')
}

// newRequest returns the request to the endpoint with that path.
func (e *Endpoints) newRequest(w http.ResponseWriter, r *http.Request, endpoint string) *Request {
	q := &Request{Options: &e.options, W: w, R: r}
	if rest := strings.Trim(r.URL.Path[len(endpoint):], "/"); rest != "" {
		q.Rest = strings.Split(rest, "/")
	}
	return q
}

// authenticated calls page for an authenticated user. Other users get the same error whether
// the resource exists or not.
func (q *Request) authenticated(page func() error) (err error) {
	if q.User = q.Options.User(q.R); q.User.ID == "" && !isAuditor(q.R.Context()) {
		return NewProblem(http.StatusUnauthorized, "Authentication required", "The request is not authenticated. Log in first.")
	}
	if q.Guard, err = q.Options.Guard(q.R.Context()); err != nil {
		return err
	}
	return page()
}

// Allow returns an error if the method is not one of the given methods.
func (q *Request) Allow(methods ...string) error {
	if slices.Contains(methods, q.R.Method) || q.R.Method == http.MethodHead && slices.Contains(methods, http.MethodGet) {
		return nil
	}
	allowed := strings.Join(methods, ", ")
	if slices.Contains(methods, http.MethodGet) {
		allowed += ", HEAD"
	}
	q.W.Header().Set("Allow", allowed)
	return NewProblem(http.StatusMethodNotAllowed, "Method not allowed", "Use one of: "+allowed+".")
}

// problem is an error for which the response is this problem document.
type problem struct {
	status        int
	title, detail string
}

// Error implements error.
func (p *problem) Error() string { return p.detail }

// NewProblem returns an error for which the response is a problem document.
func NewProblem(status int, title, detail string) error { return &problem{status, title, detail} }

var (
	// ErrNotFound is the problem of a resource that does not exist, or that the user may not see.
	ErrNotFound = NewProblem(http.StatusNotFound, "Not found", "The resource does not exist, or you may not see it.")

	errCursor = NewProblem(http.StatusBadRequest, "Invalid cursor", "after must be the value in the next link of the previous page.")
)

// fail responds to an error: that of NewProblem, that a record does not exist, or else one of the store. It does nothing without one.
func (q *Request) fail(err error) {
	if err == nil {
		return
	}
	if isNothing(err) {
		err = ErrNotFound
	}
	p, known := errors.AsType[*problem](err)
	if !known {
		if q.R.Context().Err() == nil {
			q.Options.StoreFailed(err)
		}
		q.W.Header().Set("Retry-After", "2")
		p = &problem{http.StatusServiceUnavailable, "Records unavailable", "The records are temporarily unavailable. Try again later."}
	}
	respond.WriteProblem(q.W, p.status, p.title, p.detail)
}

// Write responds with JSON that must not be cached.
func (q *Request) Write(value any) error {
	body, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return err
	}
	header := q.W.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	q.W.WriteHeader(http.StatusOK)
	if q.R.Method != http.MethodHead {
		_, _ = q.W.Write(body) // the client may have disconnected
	}
	return nil
}

// jsonObject reads a small JSON body of a POST that changes something. It rejects requests
// that a form on another site could have sent (CSRF). The member inputs can have any value, which goes to inputs.
func (q *Request) jsonObject(inputs *jsontext.Value, members ...string) (map[string]string, error) {
	body, err := q.ReadBody(maxBody + oagent.LargestMaxPayload)
	if err != nil {
		return nil, err
	}
	parts, err := MembersOf(body)
	if err != nil {
		return nil, err
	}
	values := make(map[string]string, len(members))
	for _, m := range parts {
		if m.Name == "inputs" {
			*inputs = m.Value
			continue
		}
		if !slices.Contains(members, m.Name) || json.Unmarshal(m.Value, new(string)) != nil {
			return nil, NewProblem(http.StatusBadRequest, "Unknown member", "The body may have these members, which must be strings: "+strings.Join(members, ", ")+". It may also have the object inputs.")
		}
		var text string
		_ = json.Unmarshal(m.Value, &text) // was checked above
		values[m.Name] = text
	}
	return values, nil
}

// ReadBody reads the JSON in the body of a request that changes something, of at most limit bytes. It does not check the JSON.
func (q *Request) ReadBody(limit int64) ([]byte, error) {
	if err := q.SameOrigin(); err != nil {
		return nil, err
	}
	body, err := q.ReadSmall(limit)
	if err != nil {
		return nil, q.BodyProblem(err, http.StatusRequestEntityTooLarge, "Body too large", "The body must be complete and have at most "+strconv.FormatInt(limit, 10)+" bytes.")
	}
	kind, _, _ := strings.Cut(q.R.Header.Get("Content-Type"), ";")
	hasNone := len(body) == 0 && kind == ""
	if !hasNone && !strings.EqualFold(strings.TrimSpace(kind), "application/json") {
		return nil, NewProblem(http.StatusUnsupportedMediaType, "Unsupported media type", "Send the header Content-Type: application/json, or neither a body nor this header.")
	}
	return body, nil
}

// MembersOf returns the members of the object in a body. No body is an object without members.
func MembersOf(body []byte) ([]strictjson.Member, error) {
	if len(body) == 0 {
		return nil, nil
	}
	members, err := strictjson.Members(nil, body)
	if err != nil {
		return nil, NewProblem(http.StatusBadRequest, "Invalid JSON", "The body must be one JSON object: "+err.Error()+".")
	}
	return members, nil
}

// SameOrigin refuses a request that changes something if the browser's headers Sec-Fetch-Site
// or Origin show that it comes from another site.
func (q *Request) SameOrigin() error {
	if http.NewCrossOriginProtection().Check(q.R) != nil {
		return NewProblem(http.StatusForbidden, "Cross-origin request", "Requests from another site may not change anything. Send the request from this site, or from a program.")
	}
	return nil
}

// number parses an integer query parameter.
func number(query url.Values, name string, preset, least, most int64) (int64, error) {
	text := query.Get(name)
	if text == "" {
		return preset, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, NewProblem(http.StatusBadRequest, "Invalid number", fmt.Sprintf("%s must be a whole number from %d to %d.", name, least, most))
	}
	return n, nil
}

// pageSize parses the query parameter for the number of items on a page.
func pageSize(query url.Values, preset, most int64) (int64, error) {
	return number(query, "limit", preset, 1, most)
}

func (q *Request) IsAuditor() bool {
	return route.UserOf(q.R).IsIn(q.Options.Auditors) || isAuditor(q.R.Context())
}

// identityOf returns the groups and claims of a user if the user sends the request, nil otherwise.
func (q *Request) identityOf(user string) *identity.User {
	if known := route.UserOf(q.R); known.ID == user {
		return known
	}
	return nil
}

// isNothing reports whether the error means that the resource does not exist.
func isNothing(err error) bool {
	return errors.Is(err, engagement.ErrNotFound) || errors.Is(err, review.ErrNotFound)
}

// maxBody is the maximum size of the body of most requests, in bytes.
const maxBody = 16 << 10

// ReadSmall reads a body of at most limit bytes.
func (q *Request) ReadSmall(limit int64) ([]byte, error) {
	r := q.R
	if r.Body == nil {
		return nil, nil
	}
	if r.ContentLength > limit && r.Header.Get("Expect") != "" {
		return nil, buffer.ErrTooLarge // the client waits for a response before it sends the body
	}
	if release := q.Options.BoundBody(r); release != nil {
		defer release()
	}
	return buffer.ReadLimited(r.Body, limit)
}

// BodyProblem returns the error for a body that was not read because of its speed or of the memory for bodies, and the given problem
// otherwise.
func (q *Request) BodyProblem(err error, status int, title, detail string) error {
	if known, message := respond.BodyFailure(err); known != 0 {
		q.W.Header().Set("Retry-After", respond.BodyRetry)
		status, title, detail = known, "The body cannot be read now", "The request was refused: "+message+"."
	}
	return NewProblem(status, title, detail)
}

// Host runs agents of the handler. Package hosted implements it.
type Host interface {
	// Runs reports whether this server runs the agent.
	Runs(agent *oagent.Agent) bool

	// ServeAgent responds to a POST to the document of an agent, which begins an Engagement, and to a request about what the agent
	// remembers of the user.
	ServeAgent(q *Request, agent *oagent.Agent) error

	// ServeRun responds to a request to an Engagement if it has a run that the user may see. It reports whether it did.
	ServeRun(q *Request, id string) (bool, error)

	// ServeTrace responds with what an agent did in a run.
	ServeTrace(q *Request, id string, withoutTexts bool) error

	// Find returns a run; nil if there is none, or if the store fails.
	Find(ctx context.Context, id string) *Run

	// IsDeleted reports whether the user has deleted a run. It does so too if the store fails.
	IsDeleted(ctx context.Context, id string) bool

	// Asked returns what the user has asked of an agent, in the run with that id. If another agent has called it, task is what that
	// agent has asked.
	Asked(ctx context.Context, user *engagement.User, agent, id string) (request, task string)
}

// Run is a run of a hosted agent, as a Host returns it.
type Run struct {
	ID, Agent     string
	User          engagement.User
	Reviewed      string // see engagement.Ref
	Review        string // id of the review that the run decides; "" for none
	Parent        string // id of the run that has started it; "" for none
	Title, Status string

	// IsChecked reports whether the output guardrail of the agent has checked what the run exposes.
	IsChecked func(*oagent.Agent) bool
}

// runs reports whether this server runs the agent.
func (q *Request) runs(agent *oagent.Agent) bool {
	return q.Options.Host != nil && q.Options.Host.Runs(agent)
}

// MayFollow reports whether the user may see a run of a user. A run that decides a review can contain data that
// is withheld from its user.
func (q *Request) MayFollow(user, agent, reviewID string) bool {
	return q.IsAuditor() || reviewID == "" && user == q.User.ID || reviewID != "" && q.Options.Reviewers.MayDecideFor(q.User.ID, agent)
}

// findRun returns a run that the user may see, or nil.
func (q *Request) findRun(id string) *Run {
	if q.Options.Host == nil {
		return nil
	}
	if r := q.Options.Host.Find(q.R.Context(), id); r != nil && q.MayFollow(r.User.ID, r.Agent, r.Review) {
		return r
	}
	return nil
}
