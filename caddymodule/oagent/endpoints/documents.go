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
func (q documentRequest) serve() {
	if q.R.Method == http.MethodPost {
		q.post()
		return
	}
	if len(q.Rest) == 2 && q.Rest[1] == memoryPath {
		q.Authenticated(q.memory)
		return
	}
	if q.Options.Accept != nil && len(q.Rest) == 1 && (q.R.Method == http.MethodPut || q.R.Method == http.MethodDelete) {
		q.Authenticated(func() { q.Options.Accept(q.Request) })
		return
	}
	if !q.Allow(http.MethodGet) {
		return
	}
	agents := q.Options.Set().Documents()
	switch len(q.Rest) {
	case 0:
		listed := make([]listedAgent, len(agents))
		for i, a := range agents {
			listed[i] = listedAgent{a.Name, a.Description, a.Owner, q.Options.Documents + "/" + a.Name}
		}
		q.Write(struct {
			Agents []listedAgent `json:"agents"`
		}{listed})
		return
	case 1:
		for _, a := range agents {
			if a.Name == q.Rest[0] {
				q.writeDocument(a)
				return
			}
		}
	}
	q.UnknownAgent()
}

// UnknownAgent responds that there is no such agent.
func (q *Request) UnknownAgent() {
	q.Problem(http.StatusNotFound, "Agent not found", "This site has no agent with that name. GET "+q.Options.Documents+" lists its agents.")
}

// memoryPath is the last segment of the path of what a hosted agent remembers of its user.
const memoryPath = "memory"

// memory shows the user what a hosted agent remembers of the user's earlier Engagements, or deletes
// it (OpenAgentSpec v1, lifespan.retain_memory).
func (q documentRequest) memory() {
	if !q.Allow(http.MethodGet, http.MethodDelete) {
		return
	}
	agent := q.Options.Set().Agents[q.Rest[0]]
	if agent == nil || !q.runs(agent.Agent) {
		q.UnknownAgent()
		return
	}
	q.Options.Host.ServeAgent(q.Request, agent.Agent)
}

// post begins an Engagement with a hosted agent.
func (q documentRequest) post() {
	if len(q.Rest) == 1 {
		for _, a := range q.Options.Set().Documents() {
			if a.Name == q.Rest[0] && q.runs(a) {
				q.Authenticated(func() { q.Options.Host.ServeAgent(q.Request, a) })
				return
			}
		}
	}
	if q.Options.Host != nil && len(q.Rest) == 1 && q.Options.Set().Agents[q.Rest[0]] == nil {
		q.UnknownAgent()
		return
	}
	q.W.Header().Set("Allow", "GET, HEAD")
	q.Problem(http.StatusMethodNotAllowed, "Method not allowed",
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
