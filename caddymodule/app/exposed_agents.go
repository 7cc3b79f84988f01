package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/internal/metrics"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/loader"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/schema"
	"github.com/fairwayhq/fairway/tools/source"
)

// exposedToolset is the name of the toolset of hosted agents that an endpoint serves as tools.
const exposedToolset = "agents"

// AgentMedia are the media types of the result of an agent as a tool. The second is that of an API
// that writes MCP results itself, so that an agent can ask its user.
var AgentMedia = [...]string{"application/json", "application/vnd.mcp.result+json"}

// HostedAgent is an agent that an oagent handler runs.
type HostedAgent struct {
	Name, Description string
	Path              string // at which a POST starts it

	OutputSchema jsontext.Value // JSON Schema of the answer; nil if it is text
}

// ExposedAgents are the hosted agents of a site that an endpoint serves as tools. Toolset has these
// tools. It is loaded when the app starts, because the handler that hosts the agents may follow the
// endpoint.
type ExposedAgents struct {
	*Toolset
	names          []string // of the agents; none for all
	site           Site
	protocol, path string // of the endpoint
	app            *App
}

// ExposeAgents returns the tools of the hosted agents with the names, or of all if there are none. A
// client can use them at the path, by the protocol.
func (a *App) ExposeAgents(at Site, names []string, protocol, path string, logger *zap.Logger) (*ExposedAgents, error) {
	if _, taken := a.ToolsetsByName[exposedToolset]; taken {
		return nil, fmt.Errorf("expose_agents: a toolset has the name %s, which is that of the agents: give the toolset another name", exposedToolset)
	}
	e := &ExposedAgents{names: names, site: at, protocol: protocol, path: path, app: a}
	d := &Document{Key: DocumentKey{Name: exposedToolset, BuildOptions: tools.BuildOptions{ResponseSchemas: true}}, loggedWarnings: make(map[string]struct{}), inputs: newInputFiles(nil)}
	d.logger.Store(logger)
	d.responseSchemas.Store(true)
	d.Loader = loader.New(loader.Options{
		Source: exposedSource{e}, Build: e.build, Refresh: -1, Observer: loader.Observer{Loaded: d.loaded, Failed: d.failed},
	})
	metrics.All.Acquire(exposedToolset)
	d.hideFailing = metrics.All.ExportFailing(exposedToolset, d.Loader.Err)
	e.Toolset = &Toolset{Name: exposedToolset, Document: d, MaxTokens: -1, Limits: Limits{MaxResponse: DefaultMaxResponse}}
	a.exposed = append(a.exposed, e)
	return e, nil
}

// checkExposed returns an error if an endpoint serves an agent that the site does not host.
func checkExposed(a *App) error {
	for _, e := range a.exposed {
		hosted := e.hosted()
		if len(hosted) == 0 {
			return fmt.Errorf("%s %s: expose_agents needs hosted agents, and no oagent handler of the site hosts any: add model to oagent", e.protocol, e.path)
		}
		for _, name := range e.names {
			if err := checkHosted(name, hosted); err != nil {
				return fmt.Errorf("%s %s: expose_agents: %w", e.protocol, e.path, err)
			}
		}
	}
	return nil
}

// loadExposed loads the tools of exposed agents.
func loadExposed(a *App) error {
	for _, e := range a.exposed {
		if err := e.Loader.Load(context.Background()); err != nil {
			return fmt.Errorf("%s %s: expose_agents: %w", e.protocol, e.path, err)
		}
	}
	return nil
}

func checkHosted(name string, hosted []HostedAgent) error {
	known := make([]string, len(hosted))
	for i, agent := range hosted {
		known[i] = agent.Name
	}
	if slices.Contains(known, name) {
		return nil
	}
	if near := text.Nearest(name, slices.Values(known)); near != "" {
		return fmt.Errorf("unknown agent %q; did you mean %s?", name, near)
	}
	return fmt.Errorf("unknown agent %q; the hosted agents are %s. For agents that users add with accept, write expose_agents without names",
		name, strings.Join(known, ", "))
}

// reloadExposed loads the tools of exposed agents again, because the agents may have changed.
func reloadExposed(a *App) {
	for _, e := range a.exposed {
		_ = e.Loader.Load(context.Background()) // an error is logged
	}
}

// closeExposed releases the metrics of the exposed agents. It leaves the list as it is, because a handler whose
// documents change may read it until its own cleanup.
func closeExposed(a *App) {
	for _, e := range a.exposed {
		e.hideFailing()
		metrics.All.Release(exposedToolset)
	}
}

// hosted returns the agents that the handlers of the site host, ordered by name. If several host an agent
// with the same name, the first one counts.
func (e *ExposedAgents) hosted() []HostedAgent {
	byName := make(map[string]HostedAgent)
	for _, h := range e.app.GuardHandlers {
		if !h.Site().SameSite(e.site) {
			continue
		}
		for _, agent := range h.HostedAgents() {
			if _, taken := byName[agent.Name]; !taken {
				byName[agent.Name] = agent
			}
		}
	}
	all := make([]HostedAgent, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, byName[name])
	}
	return all
}

// document returns an OpenAPI document in which each agent is an operation.
func (e *ExposedAgents) document() ([]byte, error) {
	type object = map[string]any
	textOf := func(description string) object { return object{"type": "string", "description": description} }
	content := func(value jsontext.Value) object {
		properties := object{
			"status":  textOf("complete, or awaiting-additional-input if the agent needs its user."),
			"text":    textOf("The answer of the agent."),
			"exposes": object{"description": "The values that the agent exposes."},
			"questions": object{"type": "array", "description": "What the agent asks its user.", "items": object{
				"type": "object", "required": []string{"id", "text"}, "properties": object{"id": textOf("The id of the question."), "text": textOf("The question.")},
			}},
			"reason":     textOf("Why the agent needs its user, apart from questions."),
			"engagement": textOf("The path at which the user finds the Engagement, and answers questions."),
		}
		if value != nil {
			properties["value"] = value
		}
		return object{
			AgentMedia[0]: object{"schema": object{"type": "object", "required": []string{"status", "engagement"}, "properties": properties}},
			AgentMedia[1]: object{},
		}
	}
	paths, schemas := object{}, object{}
	for _, agent := range e.hosted() {
		if len(e.names) > 0 && !slices.Contains(e.names, agent.Name) {
			continue
		}
		var value jsontext.Value // the schema of the member value of the answer
		if agent.OutputSchema != nil {
			pointer := "#/components/schemas/" + agent.Name
			root, err := openapi.Parse(agent.OutputSchema, openapi.Limits{})
			if err != nil {
				return nil, err
			}
			schemas[agent.Name] = jsontext.Value(moveReferences(root, pointer).AppendJSON(nil))
			value = jsontext.Value(`{"$ref":"` + pointer + `"}`)
		}
		paths[agent.Path] = object{"post": object{
			"operationId": agent.Name,
			"description": agent.Description,
			"requestBody": object{"required": true, "content": object{AgentMedia[0]: object{"schema": object{
				"type":                 "object",
				"properties":           object{"input": textOf("The message to the agent.")},
				"required":             []string{"input"},
				"additionalProperties": false,
			}}}},
			"responses": object{"200": object{"description": "The answer of the agent", "content": content(value)}},
		}}
	}
	security := []object{}
	if e.protocol == "mcp" { // otc would demand a token from callers whom the site has authenticated in another way, too
		security = append(security, object{"login": []string{}})
	}
	return json.Marshal(object{
		"openapi": "3.1.0",
		"info":    object{"title": "Agents", "version": "1.0.0", "description": "Agents that this server runs."},
		"paths":   paths, "security": security,
		"components": object{"schemas": schemas, "securitySchemes": object{"login": object{"type": "http", "scheme": "bearer"}}},
	}, json.Deterministic(true))
}

// moveReferences returns a JSON Schema that is part of a document, at the pointer. References to the schema itself
// begin with the pointer.
func moveReferences(n *openapi.Node, pointer string) *openapi.Node {
	switch n.Kind() {
	case '{':
		return n.Map(func(name string, value *openapi.Node) *openapi.Node {
			switch within, ok := strings.CutPrefix(value.Text(), "#"); {
			case name == "$ref" && ok:
				return openapi.Text(pointer + within)
			case name == "const", name == "enum", name == "default", name == "examples":
				return value
			}
			return moveReferences(value, pointer)
		})
	case '[':
		items := slices.Clone(n.Items())
		for i := range items {
			items[i] = moveReferences(items[i], pointer)
		}
		return openapi.List(items...)
	}
	return n
}

// build builds the tools. A server that also has other tools is described by these, so the toolset has no name
// and no title.
func (e *ExposedAgents) build(ctx context.Context, data []byte, location string, previous *tools.Toolset) (*tools.Toolset, []string, error) {
	toolset, files, err := e.Document.build(ctx, data, location, previous)
	if err == nil {
		toolset.Name, toolset.Title, toolset.Version, toolset.Description = "", "", "", ""
		for _, t := range toolset.Tools() {
			response, err := schema.Parse(t.Output.Schema)
			t.Output.Assured = err == nil && response.Property("value") != nil
		}
	}
	return toolset, files, err
}

// exposedSource is the source of the document of exposed agents.
type exposedSource struct{ *ExposedAgents }

// Location implements source.Source.
func (s exposedSource) Location() string { return "the agents of " + s.protocol + " " + s.path }

// Fetch implements source.Source.
func (s exposedSource) Fetch(context.Context, *source.Snapshot) (*source.Snapshot, bool, error) {
	if !s.app.started.Load() {
		return nil, false, errors.New("the configuration has not started yet")
	}
	data, err := s.document()
	if err != nil {
		return nil, false, err
	}
	return &source.Snapshot{Data: data, Location: s.Location()}, true, nil
}
