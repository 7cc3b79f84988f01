package agentset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/ocp/match"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// Set is a snapshot of the agents of one handler, of the tools of its toolsets, and of the
// capabilities that connect them. It is immutable.
type Set struct {
	Agents map[string]*Agent // by name
	Only   *Agent            // the only agent of the files; nil if there are none or several
	Names  *Names

	Routes *match.Routes // match plain requests to the tools of the matched toolsets
	Loaded bool          // all toolsets that plain requests are matched to are loaded

	// Credentials are the places in a request where callers send credentials for the APIs.
	Credentials CallerCredentials

	views      []*tool.Toolset // of each toolset; nil for one that is not loaded
	operations map[*tool.Tool]*Operation
	byKey      map[operationKey]*Operation
}

// Tools are the tools of a toolset at one time.
type Tools struct {
	Toolset *agents.Toolset
	Tools   *tool.Toolset // nil if the toolset is not loaded
	Matched bool          // plain requests are matched to the tools
}

// operationKey identifies an operation across reloads, and across handlers that have the same
// document with other options.
type operationKey struct{ toolset, tool string }

// Agent is an agent and the operations that its capabilities allow.
type Agent struct {
	*oagent.Agent
	Capabilities map[*Operation]*oagent.Capability
	AsCaller     bool // some capability uses the caller's own credentials
	Accepted     bool // the document is not from a file, see Loader.Accept

	// Lint returns what oagent.Agent.LintExpressions finds with the tools of the Set. That can take half a second
	// for a large document, so only the first call computes it.
	Lint func() oagent.LintErrors

	set      *Set
	mu       sync.Mutex
	narrowed map[*tool.Toolset]*tool.Toolset
}

// New links the agents to the tools of the toolsets. The error reports tools that do not
// exist; the Set can be used nevertheless. While a toolset is not loaded, or a lock withholds some of
// its tools, a missing tool is no error.
//
// Capabilities may be agents of any other server, because only a site's configuration limits them.
func New(read []*oagent.Agent, toolsets []Tools) (*Set, error) {
	return newSet(documents{read: read}, toolsets, func(oagent.Reference) error { return nil })
}

// documents are the agents of a Set. The names are unique.
type documents struct {
	read     []*oagent.Agent // from files
	accepted []*oagent.Agent // see Loader.Accept
}

func newSet(d documents, toolsets []Tools, checkRemote func(oagent.Reference) error) (*Set, error) {
	s := &Set{
		Agents:     make(map[string]*Agent, len(d.read)+len(d.accepted)),
		Loaded:     true,
		operations: make(map[*tool.Tool]*Operation),
		byKey:      make(map[operationKey]*Operation),
	}
	// An accepted agent must not take the place of a user who reviews, or of a tool that has gone.
	isAgent := func(name string) bool { return s.Agents[name] != nil && !s.Agents[name].Accepted }
	s.Names = newNames(isAgent, checkRemote)
	var matched []*tool.Toolset
	for _, t := range toolsets {
		s.views = append(s.views, t.Tools)
		if t.Tools == nil {
			s.Loaded = s.Loaded && !t.Matched
			continue
		}
		s.add(t)
		s.Credentials.add(t.Tools.SecuritySchemes)
		if t.Matched {
			matched = append(matched, t.Tools)
		}
	}
	s.Credentials.sort()
	s.Routes = match.NewRoutes(matched...)
	s.Names.nameOperations()
	return s, s.link(d)
}

// link adds the agents, and links their capabilities to the tools. The error contains nothing about
// accepted documents: their faults were reported when they were accepted.
func (s *Set) link(d documents) error {
	all := slices.Concat(d.read, d.accepted)
	for i, a := range all {
		s.Agents[a.Name] = &Agent{
			Agent: a, Accepted: i >= len(d.read), set: s, narrowed: make(map[*tool.Toolset]*tool.Toolset),
			Lint: sync.OnceValue(func() oagent.LintErrors { return a.LintExpressions(s.Names) }),
		}
		if s.Names.own[a.Name] == nil && i < len(d.read) {
			s.Names.all = append(s.Names.all, a.Name)
		}
	}
	if len(d.read) == 1 {
		s.Only = s.Agents[d.read[0].Name]
	}
	problems := make(oagent.LintErrors, 0, len(d.read))
	for i, a := range all {
		if i < len(d.read) {
			problems = append(problems, oagent.AsLintErrors(a.Link(s.Names))...)
		}
		s.Agents[a.Name].Capabilities = s.capabilities(a)
		s.Agents[a.Name].AsCaller = slices.ContainsFunc(a.Capabilities, func(c oagent.Capability) bool { return c.UserIdentity })
	}
	if len(problems) > 0 && s.complete() {
		return problems
	}
	return nil
}

// complete reports whether all tools of the documents are known: all toolsets are loaded, and no lock
// withholds tools.
func (s *Set) complete() bool {
	return !slices.ContainsFunc(s.views, func(set *tool.Toolset) bool { return set == nil || len(set.Withheld) > 0 })
}

// add adds the tools of a toolset. If another handler has the same tools with other options,
// they are the same operations.
func (s *Set) add(t Tools) {
	for _, tool := range t.Tools.Tools() {
		key := operationKey{t.Toolset.Name, tool.Name}
		if known := s.byKey[key]; known != nil && known.Tool.Method == tool.Method && known.Tool.Path == tool.Path {
			s.operations[tool] = known
			continue
		}
		op := &Operation{
			Tool: tool, Toolset: t.Toolset, Set: t.Tools,
			Overridable: hasHeaderArguments(tool), CredentialQueries: QueryCredentials(t.Tools.SecuritySchemes),
		}
		s.operations[tool], s.byKey[key] = op, op
		s.Names.add(op, t.Matched)
	}
}

func hasHeaderArguments(t *tool.Tool) bool {
	return slices.ContainsFunc(t.RuleArguments(), func(a tool.Argument) bool { return a.In == tool.InHeader || a.In == tool.InCookie })
}

// capabilities returns those capabilities of the agent whose tools exist.
func (s *Set) capabilities(a *oagent.Agent) map[*Operation]*oagent.Capability {
	capabilities := make(map[*Operation]*oagent.Capability, len(a.Capabilities))
	for i := range a.Capabilities {
		c := &a.Capabilities[i]
		if target, err := c.Reference.Resolve(s.Names); err == nil && target.Tool != nil {
			capabilities[s.operations[target.Tool]] = c
		}
	}
	return capabilities
}

// Operation returns the operation of a tool, or nil if it is not known. toolset is the name of
// the tool's toolset. It is needed only for tools of another handler or of an earlier Set.
func (s *Set) Operation(tool *tool.Tool, toolset string) *Operation {
	if op := s.operations[tool]; op != nil {
		return op
	}
	return s.byKey[operationKey{toolset, tool.Name}]
}

// Narrow returns the tools, which belong to t, that the agent may use.
func (a *Agent) Narrow(t *agents.Toolset, tools *tool.Toolset) *tool.Toolset {
	const most = 16 // number of cached toolsets; beyond that, the cache contains outdated ones
	a.mu.Lock()
	defer a.mu.Unlock()
	if narrowed := a.narrowed[tools]; narrowed != nil {
		return narrowed
	}
	if len(a.narrowed) == most {
		clear(a.narrowed)
	}
	narrowed := tools.Only(func(tool *tool.Tool) bool {
		op := a.set.Operation(tool, t.Name)
		return op != nil && a.Capabilities[op] != nil
	})
	a.narrowed[tools] = narrowed
	return narrowed
}

// Documents returns the agents, ordered by name.
func (s *Set) Documents() []*oagent.Agent {
	documents := make([]*oagent.Agent, 0, len(s.Agents))
	for _, name := range s.AgentNames() {
		documents = append(documents, s.Agents[name].Agent)
	}
	return documents
}

// AgentNames returns the names of the agents in alphabetical order.
func (s *Set) AgentNames() []string {
	return slices.Sorted(maps.Keys(s.Agents))
}

// ListAgents returns the names of the agents for a message. It shortens a long list.
func (s *Set) ListAgents() string {
	const most = 10
	names := s.AgentNames()
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
