package endpoints

import (
	"net/http"
	"strconv"

	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/oagent"
)

// documentRequest is a request to the endpoint for agent documents.
type documentRequest struct{ *Request }

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
func (q documentRequest) serve() error {
	if q.R.Method == http.MethodPost {
		return q.post()
	}
	if len(q.Rest) == 2 && q.Rest[1] == memoryPath {
		return q.authenticated(q.memory)
	}
	if q.Options.Accept != nil && len(q.Rest) == 1 && (q.R.Method == http.MethodPut || q.R.Method == http.MethodDelete) {
		return q.authenticated(func() error { return q.Options.Accept(q.Request) })
	}
	if err := q.Allow(http.MethodGet); err != nil {
		return err
	}
	agents := q.Options.Set().Documents()
	switch len(q.Rest) {
	case 0:
		listed := make([]listedAgent, len(agents))
		for i, a := range agents {
			listed[i] = listedAgent{a.Name, a.Description, a.Owner, q.Options.Documents + "/" + a.Name}
		}
		return q.Write(map[string]any{"agents": listed})
	case 1:
		for _, a := range agents {
			if a.Name == q.Rest[0] {
				q.writeDocument(a)
				return nil
			}
		}
	}
	return q.UnknownAgent()
}

// UnknownAgent returns the error that there is no such agent.
func (q *Request) UnknownAgent() error {
	return NewProblem(http.StatusNotFound, "Agent not found", "This site has no agent with that name. GET "+q.Options.Documents+" lists its agents.")
}

// memoryPath is the last segment of the path of what a hosted agent remembers of its user.
const memoryPath = "memory"

// memory shows the user what a hosted agent remembers of the user's earlier Engagements, or deletes
// it (OpenAgentSpec v1, lifespan.retain_memory).
func (q documentRequest) memory() error {
	if err := q.Allow(http.MethodGet, http.MethodDelete); err != nil {
		return err
	}
	agent := q.Options.Set().Agents[q.Rest[0]]
	if agent == nil || !q.runs(agent.Agent) {
		return q.UnknownAgent()
	}
	return q.Options.Host.ServeAgent(q.Request, agent.Agent)
}

// post begins an Engagement with a hosted agent.
func (q documentRequest) post() error {
	if len(q.Rest) == 1 {
		for _, a := range q.Options.Set().Documents() {
			if a.Name == q.Rest[0] && q.runs(a) {
				return q.authenticated(func() error { return q.Options.Host.ServeAgent(q.Request, a) })
			}
		}
	}
	if q.Options.Host != nil && len(q.Rest) == 1 && q.Options.Set().Agents[q.Rest[0]] == nil {
		return q.UnknownAgent()
	}
	q.W.Header().Set("Allow", "GET, HEAD")
	return NewProblem(http.StatusMethodNotAllowed, "Method not allowed",
		"Use GET to read the agent's document. This server does not run the agent: an Engagement begins with the agent's first call of the API.")
}

func (q documentRequest) writeDocument(a *oagent.Agent) {
	tag := `"` + a.Hash + `"`
	header := q.W.Header()
	header.Set("Etag", tag)
	header.Set("Cache-Control", "no-cache")
	if respond.MatchesTag(q.R.Header["If-None-Match"], tag) {
		q.W.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", "application/yaml")
	header.Set("Content-Length", strconv.Itoa(len(a.Source)))
	header.Set("X-Content-Type-Options", "nosniff")
	q.W.WriteHeader(http.StatusOK)
	if q.R.Method != http.MethodHead {
		_, _ = q.W.Write(a.Source)
	}
}
