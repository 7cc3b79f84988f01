package oagent

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/ocp"
)

// linked is a snapshot of the agents and tools, and of the capabilities that connect them. It
// is immutable. A new one is built when an agent or a toolset changes.
type linked struct {
	agents map[string]*governed
	only   *governed // nil if there are none or several

	views      []*ocp.Toolset // of Handler.toolsets, then of Handler.others; nil for one that is not loaded
	routes     *ocp.Routes    // of Handler.toolsets
	loaded     bool           // all of Handler.toolsets are loaded
	operations map[*ocp.Tool]*operation
	byKey      map[operationKey]*operation
	names      *toolNames

	credentials callerCredentials
}

// operation is a tool under the name that agents use.
type operation struct {
	tool    *ocp.Tool
	toolset *agents.Toolset
	set     *ocp.Toolset
	name    string // in kebab case; qualified with its toolset's name if several tools have the name

	reread bool     // the caller's own headers may override the arguments of a call
	keys   []string // query parameters that contain a caller's credentials
}

// operationKey identifies an operation across reloads, and across handlers that have the same
// document with other options.
type operationKey struct{ toolset, tool string }

// governed is an agent and its capabilities.
type governed struct {
	*oagent.Agent
	capabilities map[*operation]*oagent.Capability
	asCaller     bool // some capability uses the caller's own credentials
	linked       *linked
	outcomes     *agentOutcomes

	mu       sync.Mutex
	narrowed map[*ocp.Toolset]*ocp.Toolset
}

// toolNames are the names of tools in agent documents. It implements oagent.Names.
type toolNames struct {
	own, other map[string][]*operation // by name, without the toolset's name
	qualified  map[string][]*operation // by name, with the toolset's name
	agents     map[string]*governed
	all        []string
}

// Tool returns the tool with that name. It prefers the site's own tools. It returns none if
// the name is ambiguous.
func (n *toolNames) Tool(name string) (string, *ocp.Tool, bool) {
	found := n.find(name)
	if found == nil {
		return "", nil, false
	}
	return found.toolset.Name, found.tool, true
}

func (n *toolNames) find(name string) *operation {
	for _, found := range [...][]*operation{n.qualified[name], n.own[name], n.other[name]} {
		switch len(found) {
		case 0:
		case 1:
			return found[0]
		default:
			return nil
		}
	}
	return nil
}

// Agent reports whether there is an agent with that name.
func (n *toolNames) Agent(name string) bool {
	return n.agents[name] != nil
}

// All returns the names of all tools and agents.
func (n *toolNames) All() []string {
	return n.all
}

// relink returns the current snapshot. r and next are used to fetch documents that the site
// itself serves; they may be nil.
func (o *Handler) relink(r *http.Request, next caddyhttp.Handler) *linked {
	l := o.linked.Load()
	if o.isCurrent(l, r, next) {
		return l
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if l = o.linked.Load(); o.isCurrent(l, nil, nil) {
		return l
	}
	l, err := o.link(o.read)
	if err != nil {
		o.logger.Error("agents refer to what the toolsets do not have any more, and cannot use it", zap.Error(err))
	}
	o.linked.Store(l)
	return l
}

// isCurrent reports whether the snapshot has the current toolsets.
func (o *Handler) isCurrent(l *linked, r *http.Request, next caddyhttp.Handler) bool {
	current := true
	for i, t := range o.toolsets {
		if r != nil && t.FromSite {
			current = toolcall.DeclaredTools(t, r, next) == l.views[i] && current
			continue
		}
		current = t.Loader.Toolset() == l.views[i] && current
	}
	for i, t := range o.others {
		current = t.Loader.Toolset() == l.views[len(o.toolsets)+i] && current
	}
	return current
}

// link finds the tools of the agents. The snapshot can be used even if there is an error,
// which reports missing tools. While a toolset is not loaded, there is no such error.
func (o *Handler) link(read []*oagent.Agent) (*linked, error) {
	l := &linked{
		agents:     make(map[string]*governed, len(read)),
		loaded:     true,
		operations: make(map[*ocp.Tool]*operation),
		byKey:      make(map[operationKey]*operation),
	}
	l.names = &toolNames{
		own: make(map[string][]*operation), other: make(map[string][]*operation), qualified: make(map[string][]*operation), agents: l.agents,
	}
	var routed []*ocp.Toolset
	all := true
	for i, t := range slices.Concat(o.toolsets, o.others) {
		set := t.Loader.Toolset()
		l.views = append(l.views, set)
		own := i < len(o.toolsets)
		if set == nil {
			all, l.loaded = false, l.loaded && !own
			continue
		}
		l.add(t, set, own)
		l.credentials.add(set.SecuritySchemes)
		if own {
			routed = append(routed, set)
		}
	}
	l.credentials.sort()
	l.routes = ocp.NewRoutes(routed...)
	l.nameAll()
	for _, a := range read {
		l.agents[a.Name] = &governed{Agent: a, linked: l, outcomes: o.metrics.of(a.Name), narrowed: make(map[*ocp.Toolset]*ocp.Toolset)}
		if l.names.own[a.Name] == nil {
			l.names.all = append(l.names.all, a.Name)
		}
	}
	faults := make(oagent.LintErrors, 0, len(read))
	for _, a := range read {
		if len(read) == 1 {
			l.only = l.agents[a.Name]
		}
		faults = append(faults, oagent.AsLintErrors(a.Link(l.names))...)
		l.agents[a.Name].capabilities = l.capabilities(a)
		l.agents[a.Name].asCaller = slices.ContainsFunc(a.Capabilities, func(c oagent.Capability) bool { return c.UserIdentity })
	}
	if len(faults) > 0 && all {
		return l, faults
	}
	o.warnUncalled(l, read, all)
	return l, nil
}

// warnUncalled logs a warning for each capability that is an agent, because the gateway does
// not run agents. all reports whether all tools are known; until then, a name without
// oagent:// may be a tool's.
func (o *Handler) warnUncalled(l *linked, read []*oagent.Agent, all bool) {
	for _, a := range read {
		for i := range a.Capabilities {
			c := &a.Capabilities[i]
			target, err := c.Reference.Resolve(l.names)
			if err != nil || target.Tool != nil || !all && !c.Reference.Agent {
				continue
			}
			o.logger.Warn("a capability is an agent, and the gateway runs no agents: nothing calls it",
				zap.String("agent", a.Name), zap.String("capability", c.Reference.String()), zap.String("file", a.Location), zap.Int("line", c.Line))
		}
	}
}

// add adds the tools of a toolset. If another handler has the same tools with other options,
// they are the same operations.
func (l *linked) add(t *agents.Toolset, set *ocp.Toolset, own bool) {
	for _, tool := range set.Tools() {
		key := operationKey{t.Name, tool.Name}
		if known := l.byKey[key]; known != nil && known.tool.Method == tool.Method && known.tool.Path == tool.Path {
			l.operations[tool] = known
			continue
		}
		op := &operation{tool: tool, toolset: t, set: set, reread: saidInHeaders(tool), keys: queryCredentials(set.SecuritySchemes)}
		l.operations[tool], l.byKey[key] = op, op
		name := oagent.KebabName(tool.Name)
		if own {
			l.names.own[name] = append(l.names.own[name], op)
		} else {
			l.names.other[name] = append(l.names.other[name], op)
		}
		l.names.qualified[t.Qualifier()+"."+name] = append(l.names.qualified[t.Qualifier()+"."+name], op)
	}
}

func saidInHeaders(tool *ocp.Tool) bool {
	return slices.ContainsFunc(tool.Arguments, func(a ocp.Argument) bool { return a.In == ocp.InHeader || a.In == ocp.InCookie })
}

// nameAll gives each operation its shortest unique name.
func (l *linked) nameAll() {
	for qualified, operations := range l.names.qualified {
		for _, op := range operations {
			bare := oagent.KebabName(op.tool.Name)
			if op.name = bare; l.names.find(bare) != op {
				op.name = qualified
			}
		}
	}
	names := make(map[string]bool)
	for _, op := range l.byKey {
		names[op.name] = true
	}
	l.names.all = slices.Sorted(maps.Keys(names))
}

// capabilities returns those capabilities of the agent whose tools exist.
func (l *linked) capabilities(a *oagent.Agent) map[*operation]*oagent.Capability {
	capabilities := make(map[*operation]*oagent.Capability, len(a.Capabilities))
	for i := range a.Capabilities {
		c := &a.Capabilities[i]
		if target, err := c.Reference.Resolve(l.names); err == nil && target.Tool != nil {
			capabilities[l.operations[target.Tool]] = c
		}
	}
	return capabilities
}

// operation returns the operation of a tool, or nil if it is not known. toolset is the name of
// the tool's toolset.
func (l *linked) operation(tool *ocp.Tool, toolset string) *operation {
	if op := l.operations[tool]; op != nil {
		return op
	}
	return l.byKey[operationKey{toolset, tool.Name}] // a tool of another handler, or of the snapshot before a reload
}

// narrow returns the tools, which belong to t, that the agent may use.
func (g *governed) narrow(t *agents.Toolset, tools *ocp.Toolset) *ocp.Toolset {
	const most = 16 // number of cached toolsets; beyond that, the cache contains outdated ones
	g.mu.Lock()
	defer g.mu.Unlock()
	if narrowed := g.narrowed[tools]; narrowed != nil {
		return narrowed
	}
	if len(g.narrowed) == most {
		clear(g.narrowed)
	}
	narrowed := tools.Only(func(tool *ocp.Tool) bool {
		op := g.linked.operation(tool, t.Name)
		return op != nil && g.capabilities[op] != nil
	})
	g.narrowed[tools] = narrowed
	return narrowed
}

// agentNames lists the agents for messages.
func (l *linked) agentNames() string {
	names := slices.Sorted(maps.Keys(l.agents))
	const most = 10
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
