package hosted

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	guard "github.com/fairwayhq/fairway/caddymodule/oagent"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/schema"
	"github.com/fairwayhq/fairway/tools/source"
)

// exposedToolset is the name of the toolset of hosted agents that an endpoint serves as tools.
const exposedToolset = "agents"

// agentMedia are the media types of the result of an agent as a tool. The second is that of an API
// that writes MCP results itself, so that an agent can ask its user.
var agentMedia = [...]string{"application/json", "application/vnd.mcp.result+json"}

// hostedAgent is an agent that an oagent handler runs.
type hostedAgent struct {
	name, description string
	path              string // at which a POST starts it

	outputSchema jsontext.Value // JSON Schema of the answer; nil if it is text
}

// exposedAgents are the hosted agents of a site that an endpoint serves as tools. The toolset has these
// tools. It is loaded when the app starts, because the handler that hosts the agents may follow the
// endpoint.
type exposedAgents struct {
	*app.Toolset
	names          []string // of the agents; none for all
	site           site.Site
	protocol, path string // of the endpoint
	guards         *guard.Guards
	app            *site.App
}

func init() { site.Register(func() site.Section { return new(exposure) }) }

// exposure is the section of the app `agents` for hosted agents that endpoints serve as tools. It implements app.HostedAgents.
type exposure struct {
	app     *app.App
	guards  *guard.Guards
	exposed []*exposedAgents
}

// Options implements site.Section.
func (*exposure) Options(*directive.Block) directive.Options { return nil }

// Provision implements site.Section.
func (x *exposure) Provision(_ caddy.Context, a *site.App) (err error) {
	if x.app, err = site.Get[*app.App](a); err != nil {
		return err
	}
	if x.guards, err = site.Get[*guard.Guards](a); err != nil {
		return err
	}
	x.guards.OnChange(func() { _ = x.load() }) // an error is logged
	return nil
}

// Expose implements app.HostedAgents.
func (x *exposure) Expose(at site.Site, names []string, protocol, path string, logger *zap.Logger) (*app.Toolset, error) {
	if _, taken := x.app.ToolsetsByName[exposedToolset]; taken {
		return nil, fmt.Errorf("expose_agents: a toolset has the name %s, which is that of the agents: give the toolset another name", exposedToolset)
	}
	e := &exposedAgents{names: names, site: at, protocol: protocol, path: path, guards: x.guards, app: x.app.Site}
	e.Toolset = app.NewToolset(exposedToolset, exposedSource{e}, finishExposed, logger)
	x.exposed = append(x.exposed, e)
	return e.Toolset, nil
}

// Start implements site.Starter. It returns an error if an endpoint serves an agent that the site does not host.
func (x *exposure) Start() error {
	for _, e := range x.exposed {
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
	return x.load()
}

// load loads the tools of exposed agents, which may have changed.
func (x *exposure) load() error {
	var failed error
	for _, e := range x.exposed {
		if err := e.Loader.Load(context.Background()); err != nil {
			failed = cmp.Or(failed, fmt.Errorf("%s %s: expose_agents: %w", e.protocol, e.path, err))
		}
	}
	return failed
}

// Cleanup releases the toolsets. It leaves the list as it is, because a handler whose
// documents change may read it until its own cleanup.
func (x *exposure) Cleanup() error {
	for _, e := range x.exposed {
		e.Close()
	}
	return nil
}

func checkHosted(name string, hosted []hostedAgent) error {
	known := make([]string, len(hosted))
	for i, agent := range hosted {
		known[i] = agent.name
	}
	if slices.Contains(known, name) {
		return nil
	}
	return fmt.Errorf("unknown hosted agent %q%s. For agents that users add with accept, write expose_agents without names", name, directive.DidYouMean(name, known))
}

// hosted returns the agents that the handlers of the site host, ordered by name. If several host an agent
// with the same name, the first one counts.
func (e *exposedAgents) hosted() []hostedAgent {
	byName := make(map[string]hostedAgent)
	for _, h := range e.guards.At(e.site) {
		for _, agent := range hostedAgents(h) {
			if _, taken := byName[agent.name]; !taken {
				byName[agent.name] = agent
			}
		}
	}
	all := make([]hostedAgent, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, byName[name])
	}
	return all
}

// hostedAgents returns the agents that a handler runs.
func hostedAgents(o *guard.Handler) (hosted []hostedAgent) {
	for _, agent := range o.Loader.Last().Documents() {
		if o.Runs(agent) {
			exposed := hostedAgent{name: agent.Name, description: agent.Description, path: strings.TrimRight(o.Serve, "/") + "/" + agent.Name}
			if agent.OutputSchema != nil {
				exposed.outputSchema = agent.OutputSchema.JSON
			}
			hosted = append(hosted, exposed)
		}
	}
	return hosted
}

// document returns an OpenAPI document in which each agent is an operation.
func (e *exposedAgents) document() ([]byte, error) {
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
			agentMedia[0]: object{"schema": object{"type": "object", "required": []string{"status", "engagement"}, "properties": properties}},
			agentMedia[1]: object{},
		}
	}
	paths, schemas := object{}, object{}
	for _, agent := range e.hosted() {
		if len(e.names) > 0 && !slices.Contains(e.names, agent.name) {
			continue
		}
		var value jsontext.Value // the schema of the member value of the answer
		if agent.outputSchema != nil {
			pointer := "#/components/schemas/" + agent.name
			root, err := openapi.Parse(agent.outputSchema, openapi.Limits{})
			if err != nil {
				return nil, err
			}
			schemas[agent.name] = jsontext.Value(moveReferences(root, pointer).AppendJSON(nil))
			value = jsontext.Value(`{"$ref":"` + pointer + `"}`)
		}
		paths[agent.path] = object{"post": object{
			"operationId": agent.name,
			"description": agent.description,
			"requestBody": object{"required": true, "content": object{agentMedia[0]: object{"schema": object{
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

// finishExposed changes the built tools of agents. A server that also has other tools is described by these, so the toolset has no name
// and no title.
func finishExposed(toolset *tools.Toolset) {
	toolset.Name, toolset.Title, toolset.Version, toolset.Description = "", "", "", ""
	for _, t := range toolset.Tools() {
		response, err := schema.Parse(t.Output.Schema)
		t.Output.Assured = err == nil && response.Property("value") != nil
	}
}

// exposedSource is the source of the document of exposed agents.
type exposedSource struct{ *exposedAgents }

// Location implements source.Source.
func (s exposedSource) Location() string { return "the agents of " + s.protocol + " " + s.path }

// Fetch implements source.Source.
func (s exposedSource) Fetch(context.Context, *source.Snapshot) (*source.Snapshot, bool, error) {
	if !s.app.Started() {
		return nil, false, errors.New("the configuration has not started yet")
	}
	data, err := s.document()
	if err != nil {
		return nil, false, err
	}
	return &source.Snapshot{Data: data, Location: s.Location()}, true, nil
}

// Interface guards
var (
	_ app.HostedAgents   = (*exposure)(nil)
	_ site.Starter       = (*exposure)(nil)
	_ caddy.CleanerUpper = (*exposure)(nil)
)
