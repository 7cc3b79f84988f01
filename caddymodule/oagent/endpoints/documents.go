package endpoints

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/fairwayhq/fairway/caddymodule/hosted"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/hosted/registry"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

// documentRequest is a request to the endpoint for agent documents.
type documentRequest struct{ *request }

// listedAgent is an entry in the list of agents.
type listedAgent struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Owner       string `json:"owner"`
	Definition  string `json:"definition"` // path of the document
}

// serve serves the agent documents (OpenAgentSpec v1, Server, rules 1 and 3.1). If the agent is
// hosted, POST begins an Engagement (rule 3.3). An Engagement with an agent that runs elsewhere
// begins with the agent's first call to the API.
func (q documentRequest) serve() {
	if q.r.Method == http.MethodPost {
		q.post()
		return
	}
	if len(q.rest) == 2 && q.rest[1] == memoryPath {
		q.authenticated(q.memory)
		return
	}
	if q.options.Accept != nil && len(q.rest) == 1 && (q.r.Method == http.MethodPut || q.r.Method == http.MethodDelete) {
		q.authenticated(q.change)
		return
	}
	if !q.allow(http.MethodGet) {
		return
	}
	agents := q.options.Set().Documents()
	switch len(q.rest) {
	case 0:
		listed := make([]listedAgent, len(agents))
		for i, a := range agents {
			listed[i] = listedAgent{a.Name, a.Description, a.Owner, q.options.Documents + "/" + a.Name}
		}
		q.write(struct {
			Agents []listedAgent `json:"agents"`
		}{listed})
		return
	case 1:
		for _, a := range agents {
			if a.Name == q.rest[0] {
				q.writeDocument(a)
				return
			}
		}
	}
	q.unknownAgent()
}

func (q documentRequest) unknownAgent() {
	q.problem(http.StatusNotFound, "Agent not found", "This site has no agent with that name. GET "+q.options.Documents+" lists its agents.")
}

// memoryPath is the last segment of the path of what a hosted agent remembers of its user.
const memoryPath = "memory"

// memory shows the user what a hosted agent remembers of the user's earlier Engagements, or deletes
// it (OpenAgentSpec v1, lifespan.retain_memory).
func (q documentRequest) memory() {
	if !q.allow(http.MethodGet, http.MethodDelete) {
		return
	}
	agent := q.options.Set().Agents[q.rest[0]]
	if agent == nil || !q.options.Host.Runs(agent.Agent) {
		q.unknownAgent()
		return
	}
	runs := runRequest{q: q.request}
	if q.r.Method == http.MethodDelete && !q.sameOrigin() || !runs.open() {
		return
	}
	if q.r.Method == http.MethodDelete {
		if err := runs.runner.Forget(q.r.Context(), agent.Name, q.user); err != nil {
			q.fail(err)
			return
		}
		q.w.Header().Set("Cache-Control", "no-store")
		q.w.WriteHeader(http.StatusNoContent)
		return
	}
	remembered, err := runs.runner.Remembered(q.r.Context(), agent.Name, q.user)
	if err != nil {
		q.fail(err)
		return
	}
	q.write(struct {
		Remembered []run.Retained `json:"remembered"`
	}{append([]run.Retained{}, remembered...)})
}

// post begins an Engagement with a hosted agent.
func (q documentRequest) post() {
	if len(q.rest) == 1 {
		for _, a := range q.options.Set().Documents() {
			if a.Name == q.rest[0] && q.options.Host.Runs(a) {
				q.authenticated(func() { (&runRequest{q: q.request}).start(a) })
				return
			}
		}
	}
	if q.options.Host != nil && len(q.rest) == 1 && q.options.Set().Agents[q.rest[0]] == nil {
		q.unknownAgent()
		return
	}
	q.w.Header().Set("Allow", "GET, HEAD")
	q.problem(http.StatusMethodNotAllowed, "Method not allowed",
		"Use GET to read the agent's document. This server does not run the agent: an Engagement begins with the agent's first call of the API.")
}

func (q documentRequest) writeDocument(a *oagent.Agent) {
	tag := `"` + a.Hash + `"`
	header := q.w.Header()
	header.Set("Etag", tag)
	header.Set("Cache-Control", "no-cache")
	if respond.MatchesTag(q.r.Header["If-None-Match"], tag) {
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

// documentTypes are the media types that an agent document may be sent with.
var documentTypes = []string{"", "application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "application/json", "text/plain"}

// change accepts or deletes an agent document (OpenAgentSpec v1, Server, rule 2).
func (q documentRequest) change() {
	if !q.sameOrigin() {
		return
	}
	if !q.options.Accept.Permits(q.user.ID) {
		q.problem(http.StatusForbidden, "Not permitted", "You may not change agent documents on this site.")
		return
	}
	condition := registry.ConditionOf(q.r.Header)
	if q.r.Method == http.MethodDelete {
		if err := q.options.Accept.Delete(q.r.Context(), q.rest[0], q.user.ID, condition); err != nil {
			q.failChange(err)
			return
		}
		q.w.WriteHeader(http.StatusNoContent)
		return
	}
	kind, _, _ := strings.Cut(q.r.Header.Get("Content-Type"), ";")
	if !slices.Contains(documentTypes, strings.ToLower(strings.TrimSpace(kind))) {
		q.problem(http.StatusUnsupportedMediaType, "Unsupported media type", "Send the document with the header Content-Type: application/yaml.")
		return
	}
	source, err := q.readSmall(registry.MaxDocument)
	if errors.Is(err, buffer.ErrTooLarge) {
		q.failChange(registry.ErrTooLarge)
		return
	}
	if err != nil {
		q.failBody(err, http.StatusBadRequest, "Incomplete body", "The document was not received completely.")
		return
	}
	entry, created, err := q.options.Accept.Put(q.r.Context(), registry.Change{Name: q.rest[0], Source: source, By: q.user.ID, Condition: condition})
	if err != nil {
		q.failChange(err)
		return
	}
	q.w.Header().Set("Etag", entry.Tag())
	status := http.StatusNoContent
	if created {
		q.w.Header().Set("Location", q.options.Documents+"/"+entry.Name)
		status = http.StatusCreated
	}
	q.w.WriteHeader(status)
}

// failChange responds with an error of the Service.
func (q documentRequest) failChange(err error) {
	switch _, invalid := errors.AsType[oagent.LintErrors](err); {
	case invalid:
		q.problem(http.StatusUnprocessableEntity, "Invalid agent document", err.Error())
	case errors.Is(err, registry.ErrTooLarge):
		q.problem(http.StatusRequestEntityTooLarge, "Document too large", sentence(err))
	case errors.Is(err, registry.ErrPrecondition):
		q.problem(http.StatusPreconditionFailed, "Precondition failed", sentence(err)+" GET "+q.options.Documents+"/"+q.rest[0]+" returns its Etag.")
	case errors.Is(err, registry.ErrNotFound):
		q.unknownAgent()
	case errors.Is(err, registry.ErrFull):
		q.problem(http.StatusInsufficientStorage, "Too many agent documents", sentence(err))
	case errors.Is(err, hosted.ErrFromFile):
		q.problem(http.StatusConflict, "Agent of a file", sentence(err)+" Use another name, or change the file.")
	case errors.Is(err, hosted.ErrNotLoaded):
		q.w.Header().Set("Retry-After", "2")
		q.problem(http.StatusServiceUnavailable, "Tools not loaded", sentence(err)+" Try again later.")
	default:
		q.fail(err)
	}
}

// sentence returns the message of an error as a sentence.
func sentence(err error) string {
	message := err.Error()
	return strings.ToUpper(message[:1]) + message[1:] + "."
}
