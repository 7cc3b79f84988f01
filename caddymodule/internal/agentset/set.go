package agentset

import (
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/plainrequest"
	"github.com/fairwayhq/fairway/tools/security"
)

// Set is a snapshot of the agents of one handler, of the tools of its toolsets, and of the
// capabilities that connect them. It is immutable.
type Set struct {
	Agents map[string]*Agent // by name
	Only   *Agent            // the only agent of the files; nil if there are none or several
	Names  *Names

	Routes *plainrequest.Routes // match plain requests to the tools of the matched toolsets
	Loaded bool                 // all toolsets that plain requests are matched to are loaded

	// Credentials are the places in a request where callers send credentials for the APIs.
	Credentials callerCredentials

	views      []*tools.Toolset // of each toolset; nil for one that is not loaded
	operations map[*tools.Tool]*Operation
	byKey      map[operationKey]*Operation
}

// Tools are the tools of a toolset at one time.
type Tools struct {
	Toolset *app.Toolset
	Tools   *tools.Toolset // nil if the toolset is not loaded
	Matched bool           // plain requests are matched to the tools
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
	narrowed map[*tools.Toolset]*tools.Toolset
}

// New links the agents to the tools of the toolsets. The error reports tools that do not
// exist; the Set can be used nevertheless. While a toolset is not loaded, or a lock withholds some of
// its tools, a missing tool is no error.
//
// Capabilities may be agents of any other server, because only a site's configuration limits them.
func New(read []*oagent.Agent, toolsets []Tools) (*Set, error) {
	return newSet(documents{read: read}, toolsets, make(map[string]string), func(oagent.Reference) error { return nil })
}

// documents are the agents of a Set. The names are unique.
type documents struct {
	read     []*oagent.Agent // from files
	accepted []*oagent.Agent // see Loader.Accept
}

func newSet(d documents, toolsets []Tools, owners map[string]string, checkRemote func(oagent.Reference) error) (*Set, error) {
	s := &Set{
		Agents:     make(map[string]*Agent, len(d.read)+len(d.accepted)),
		Loaded:     true,
		operations: make(map[*tools.Tool]*Operation),
		byKey:      make(map[operationKey]*Operation),
	}
	// An accepted agent must not take the place of a user who reviews, or of a tool that has gone.
	isAgent := func(name string) bool {
		return slices.ContainsFunc(d.read, func(a *oagent.Agent) bool { return a.Name == name })
	}
	s.Names = newNames(isAgent, checkRemote)
	var matched []*tools.Toolset
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
	s.Routes = plainrequest.NewRoutes(matched...)
	if slices.Contains(s.views, nil) {
		owners = nil // names are final when all toolsets are loaded
	}
	s.Names.nameOperations(owners)
	return s, s.link(d)
}

// link adds the agents, and links their capabilities to the tools. The error contains nothing about
// accepted documents: their faults were reported when they were accepted.
func (s *Set) link(d documents) error {
	all := slices.Concat(d.read, d.accepted)
	for i, a := range all {
		s.Agents[a.Name] = &Agent{
			Agent: a, Accepted: i >= len(d.read), set: s, narrowed: make(map[*tools.Toolset]*tools.Toolset),
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
	return !slices.ContainsFunc(s.views, func(set *tools.Toolset) bool { return set == nil || len(set.Withheld) > 0 })
}

// add adds the tools of a toolset. If another handler has the same tools with other options,
// they are the same operations.
func (s *Set) add(t Tools) {
	var credentials callerCredentials
	credentials.add(t.Tools.SecuritySchemes)
	for _, tool := range t.Tools.Tools() {
		key := operationKey{t.Toolset.Name, tool.Name}
		if known := s.byKey[key]; known != nil && known.Tool.Plan.Method == tool.Plan.Method && known.Tool.Plan.Path == tool.Plan.Path {
			s.operations[tool] = known
			continue
		}
		op := &Operation{
			Tool: tool, Toolset: t.Toolset, Set: t.Tools,
			Overridable: hasHeaderArguments(tool), CredentialQueries: queryCredentials(t.Tools.SecuritySchemes), Credentials: credentials,
		}
		s.operations[tool], s.byKey[key] = op, op
		s.Names.add(op, t.Matched)
	}
}

func hasHeaderArguments(t *tools.Tool) bool {
	return slices.ContainsFunc(t.RuleArguments(), func(a tools.Argument) bool { return a.In == tools.InHeader || a.In == tools.InCookie })
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
func (s *Set) Operation(tool *tools.Tool, toolset string) *Operation {
	if op := s.operations[tool]; op != nil {
		return op
	}
	return s.byKey[operationKey{toolset, tool.Name}]
}

// Current returns the Set with the current toolsets.
func (l *Loader) Current() *Set { return l.CurrentFor(nil, nil) }

// CurrentFor is like Current for a request. r and next are used to fetch documents that the
// site itself serves; they may be nil.
func (l *Loader) CurrentFor(r *http.Request, next caddyhttp.Handler) *Set {
	set := l.current.Load()
	if l.isCurrent(set, r, next) {
		return set
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if set = l.current.Load(); l.isCurrent(set, nil, nil) {
		return set
	}
	set, err := l.link(l.read)
	if err != nil {
		l.options.Logger.Error("agents refer to tools that the reloaded toolsets no longer have; the agents cannot use them", zap.Error(err))
	}
	l.current.Store(set)
	return set
}

// isCurrent reports whether the Set has the current toolsets.
func (l *Loader) isCurrent(set *Set, r *http.Request, next caddyhttp.Handler) bool {
	current := true
	for i, t := range l.options.Matched {
		if r != nil && t.FromSite {
			current = route.DeclaredTools(t, r, next) == set.views[i] && current
			continue
		}
		current = t.Loader.Toolset() == set.views[i] && current
	}
	for i, t := range l.options.Others {
		current = t.Loader.Toolset() == set.views[len(l.options.Matched)+i] && current
	}
	return current
}

// Narrow returns the tools, which belong to t, that the agent may use.
func (a *Agent) Narrow(t *app.Toolset, set *tools.Toolset) *tools.Toolset {
	const most = 16 // number of cached toolsets; beyond that, the cache contains outdated ones
	a.mu.Lock()
	defer a.mu.Unlock()
	if narrowed := a.narrowed[set]; narrowed != nil {
		return narrowed
	}
	if len(a.narrowed) == most {
		clear(a.narrowed)
	}
	narrowed := set.Only(func(tool *tools.Tool) bool {
		op := a.set.Operation(tool, t.Name)
		return op != nil && a.Capabilities[op] != nil
	})
	a.narrowed[set] = narrowed
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

// callerCredentials are the places in a request where callers send credentials for the APIs,
// according to the security schemes of their documents. The header Authorization is always
// included.
type callerCredentials struct {
	Headers          []string // canonical names, without Authorization
	queries, cookies []string
}

func (c *callerCredentials) add(schemes map[string]*security.Scheme) {
	for _, s := range schemes {
		if s.Type != "apiKey" {
			continue
		}
		switch s.In {
		case "header":
			c.Headers = append(c.Headers, textproto.CanonicalMIMEHeaderKey(s.ParameterName))
		case "query":
			c.queries = append(c.queries, s.ParameterName)
		case "cookie":
			c.cookies = append(c.cookies, s.ParameterName)
		}
	}
}

func (c *callerCredentials) sort() {
	for _, names := range []*[]string{&c.Headers, &c.queries, &c.cookies} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
}

// In reports whether the request has credentials. further contains those in the query and in
// cookies, as pairs of name and value.
func (c *callerCredentials) In(r *http.Request) (further []string, found bool) {
	isSet := func(name string) bool {
		return slices.ContainsFunc(r.Header[name], func(value string) bool { return value != "" })
	}
	found = isSet("Authorization") || slices.ContainsFunc(c.Headers, isSet)
	if len(c.queries) > 0 && r.URL.RawQuery != "" {
		query := r.URL.Query()
		for _, name := range c.queries {
			if value := query.Get(name); value != "" {
				further = append(further, "query "+name, value)
			}
		}
	}
	for _, name := range c.cookies {
		if cookie, err := r.Cookie(name); err == nil && cookie.Value != "" {
			further = append(further, "cookie "+name, cookie.Value)
		}
	}
	return further, found || len(further) > 0
}

// queryCredentials returns the query parameters that may contain a caller's credentials.
func queryCredentials(schemes map[string]*security.Scheme) (names []string) {
	for _, s := range schemes {
		switch {
		case s.Type == "http" && strings.EqualFold(s.Scheme, "bearer"), s.Type == "oauth2", s.Type == "openIdConnect":
			names = append(names, "access_token") // the other place of a bearer token (RFC 6750, section 2.3)
		case s.Type == "apiKey" && s.In == "query":
			names = append(names, s.ParameterName)
		}
	}
	return names
}
