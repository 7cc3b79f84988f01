package oagent

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/prepared"
	"github.com/fairwayhq/fairway/internal/problem"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
	"github.com/fairwayhq/fairway/ocp"
)

// oagentPages are the endpoints of an oagent handler: agent documents, Engagements and
// reviews. An endpoint with an empty path is disabled.
type oagentPages struct {
	*Handler
	serve, engagements, reviews string // paths without a trailing slash
}

// pageRequest is one request to an endpoint.
type pageRequest struct {
	*oagentPages
	w     http.ResponseWriter
	r     *http.Request
	rest  []string // path segments below the endpoint's path
	user  engagement.User
	guard *oagent.Guard
}

// answer responds to the request if it goes to one of the endpoints.
func (p *oagentPages) answer(w http.ResponseWriter, r *http.Request) (answered bool, err error) {
	if ocp.CallFromContext(r.Context()) != nil {
		return false, nil
	}
	q := &pageRequest{oagentPages: p, w: w, r: r}
	switch {
	case q.below(p.serve):
		q.serveDefinition()
	case q.below(p.engagements):
		q.authenticated(q.serveEngagement)
	case q.below(p.reviews):
		q.authenticated(q.serveReview)
	default:
		return false, nil
	}
	return true, nil
}

// below reports whether the request's path is the given path or below it.
func (q *pageRequest) below(path string) bool {
	if path == "" {
		return false
	}
	rest, ok := strings.CutPrefix(q.r.URL.Path, path)
	if !ok || rest != "" && rest[0] != '/' {
		return false
	}
	if rest = strings.Trim(rest, "/"); rest != "" {
		q.rest = strings.Split(rest, "/")
	}
	return true
}

// authenticated calls page for an authenticated user. Other users get the same error whether
// the resource exists or not.
func (q *pageRequest) authenticated(page func()) {
	if q.user = q.bind(q.r, nil).User; q.user.ID == "" {
		q.problem(http.StatusUnauthorized, "Authentication is needed", "Who you are is not known, so nothing can be shown. Log in first.")
		return
	}
	var err error
	if q.guard, err = q.Handler.guard(q.r); err != nil {
		q.fail(err)
		return
	}
	page()
}

// allow reports whether the method is one of the given methods. If not, it sends an error
// response.
func (q *pageRequest) allow(methods ...string) bool {
	if slices.Contains(methods, q.r.Method) || q.r.Method == http.MethodHead && slices.Contains(methods, http.MethodGet) {
		return true
	}
	allowed := strings.Join(methods, ", ")
	if slices.Contains(methods, http.MethodGet) {
		allowed += ", HEAD"
	}
	q.w.Header().Set("Allow", allowed)
	q.problem(http.StatusMethodNotAllowed, "The method is not allowed", "This takes "+allowed+".")
	return false
}

func (q *pageRequest) problem(status int, title, detail string) {
	problem.Write(q.w, status, title, detail)
}

func (q *pageRequest) notFound() {
	q.problem(http.StatusNotFound, "There is nothing here", "There is no such thing, or it is not yours to see.")
}

// fail responds with an error of the store.
func (q *pageRequest) fail(err error) {
	if q.r.Context().Err() == nil {
		q.logger.Error("the records of agents cannot be read", zap.Error(err))
	}
	q.w.Header().Set("Retry-After", "2")
	q.problem(http.StatusServiceUnavailable, "The records cannot be read", "The records of agents cannot be read just now. Try again later.")
}

// write responds with JSON that must not be cached.
func (q *pageRequest) write(value any) {
	body, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		q.fail(err)
		return
	}
	header := q.w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	q.w.WriteHeader(http.StatusOK)
	if q.r.Method != http.MethodHead {
		_, _ = q.w.Write(body) // the client may have disconnected
	}
}

// listedAgent is an entry in the list of agents.
type listedAgent struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Owner       string `json:"owner"`
	Definition  string `json:"definition"` // path of the document
}

// serveDefinition serves the agent documents (OpenAgentSpec v1, Server, rules 1 and 3.1). Rule
// 3.3 (POST begins an Engagement) is for servers that run their agents. This gateway does not
// run agents: an Engagement begins with an agent's first call to the API.
func (q *pageRequest) serveDefinition() {
	if q.r.Method == http.MethodPost {
		q.w.Header().Set("Allow", "GET, HEAD")
		q.problem(http.StatusMethodNotAllowed, "The method is not allowed",
			"This takes GET, HEAD: it is the agent's document. No agent runs here; an Engagement begins with what an agent asks of the API.")
		return
	}
	if !q.allow(http.MethodGet) {
		return
	}
	hosted := q.agents.Current().Documents()
	switch len(q.rest) {
	case 0:
		listed := make([]listedAgent, len(hosted))
		for i, a := range hosted {
			listed[i] = listedAgent{a.Name, a.Description, a.Owner, q.oagentPages.serve + "/" + a.Name}
		}
		q.write(struct {
			Agents []listedAgent `json:"agents"`
		}{listed})
		return
	case 1:
		for _, a := range hosted {
			if a.Name == q.rest[0] {
				q.writeDefinition(a)
				return
			}
		}
	}
	q.problem(http.StatusNotFound, "There is no such agent", "This site has no agent of that name. "+q.oagentPages.serve+" lists those that it has.")
}

func (q *pageRequest) writeDefinition(a *oagent.Agent) {
	tag := `"` + a.Hash + `"`
	header := q.w.Header()
	header.Set("Etag", tag)
	header.Set("Cache-Control", "no-cache")
	if prepared.MatchesTag(q.r.Header["If-None-Match"], tag) {
		q.w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", "application/yaml")
	header.Set("Content-Length", strconv.Itoa(len(a.Source)))
	header.Set("X-Content-Type-Options", "nosniff")
	q.w.WriteHeader(http.StatusOK)
	if q.r.Method != http.MethodHead {
		_, _ = q.w.Write(a.Source)
	}
}

// jsonObject reads a small JSON body of a POST that changes something. If the request is
// invalid, it sends an error response and returns false. In particular it rejects requests
// that a form on another site could have sent (CSRF).
func (q *pageRequest) jsonObject(members ...string) (map[string]string, bool) {
	if !q.sameOrigin() {
		return nil, false
	}
	body, err := readSmall(q.w, q.r)
	if err != nil {
		q.problem(http.StatusRequestEntityTooLarge, "The body is too large", "It may have "+strconv.Itoa(maxDecision)+" bytes, and must come to its end.")
		return nil, false
	}
	kind, _, _ := strings.Cut(q.r.Header.Get("Content-Type"), ";")
	hasNone := len(body) == 0 && kind == ""
	if !hasNone && !strings.EqualFold(strings.TrimSpace(kind), "application/json") {
		q.problem(http.StatusUnsupportedMediaType, "The body must be JSON", "Send the header Content-Type: application/json, or neither a body nor this header.")
		return nil, false
	}
	values := make(map[string]string, len(members))
	if len(body) == 0 {
		return values, true
	}
	parts, err := wire.Members(nil, body)
	if err != nil {
		q.problem(http.StatusBadRequest, "The body is not good JSON", "It must be one JSON object of strings.")
		return nil, false
	}
	for _, m := range parts {
		if !slices.Contains(members, m.Name) || json.Unmarshal(m.Value, new(string)) != nil {
			q.problem(http.StatusBadRequest, "The body has something else", "Its members are strings: "+strings.Join(members, ", ")+".")
			return nil, false
		}
		var text string
		_ = json.Unmarshal(m.Value, &text) // was checked above
		values[m.Name] = text
	}
	return values, true
}

// sameOrigin refuses a request that changes something if the browser's headers Sec-Fetch-Site
// or Origin show that it comes from another site. It returns false then.
func (q *pageRequest) sameOrigin() bool {
	if err := http.NewCrossOriginProtection().Check(q.r); err != nil {
		q.problem(http.StatusForbidden, "The request comes from another site", "Such requests change nothing here. Send it from this site, or from a program.")
		return false
	}
	return true
}

// isNothing reports whether the error means that the resource does not exist.
func isNothing(err error) bool {
	return errors.Is(err, engagement.ErrNotFound) || errors.Is(err, review.ErrNotFound)
}

// number parses a non-negative integer query parameter. If it is invalid, it sends an error
// response and returns false.
func (q *pageRequest) number(query url.Values, name string, preset, least, most int64) (int64, bool) {
	text := query.Get(name)
	if text == "" {
		return preset, true
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		q.problem(http.StatusBadRequest, "A number is wrong",
			fmt.Sprintf("%s is a whole number from %d to %d.", name, least, most))
		return 0, false
	}
	return n, true
}

// limit parses the query parameter for the number of items on a page.
func (q *pageRequest) limit(query url.Values, preset, most int64) (int64, bool) {
	return q.number(query, "limit", preset, 1, most)
}
