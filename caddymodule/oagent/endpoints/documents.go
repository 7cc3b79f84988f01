package endpoints

import (
	"net/http"
	"strconv"

	"github.com/fairwayhq/fairway/internal/prepared"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/run"
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
	hosted := q.options.Set().Documents()
	switch len(q.rest) {
	case 0:
		listed := make([]listedAgent, len(hosted))
		for i, a := range hosted {
			listed[i] = listedAgent{a.Name, a.Description, a.Owner, q.options.Documents + "/" + a.Name}
		}
		q.write(struct {
			Agents []listedAgent `json:"agents"`
		}{listed})
		return
	case 1:
		for _, a := range hosted {
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
	hosted := runRequest{request: q.request}
	if q.r.Method == http.MethodDelete && !hosted.sameOrigin() || !hosted.open() {
		return
	}
	if q.r.Method == http.MethodDelete {
		if err := hosted.runner.Forget(q.r.Context(), agent.Name, q.user); err != nil {
			q.fail(err)
			return
		}
		q.w.Header().Set("Cache-Control", "no-store")
		q.w.WriteHeader(http.StatusNoContent)
		return
	}
	remembered, err := hosted.runner.Remembered(q.r.Context(), agent.Name, q.user)
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
				q.authenticated(func() { (&runRequest{request: q.request}).start(a) })
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
