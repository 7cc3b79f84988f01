package agentset

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/internal/watch"
	"github.com/fairwayhq/fairway/oagent"
)

// Options are the options of a Loader.
type Options struct {
	Files   []string          // absolute paths
	Matched []*agents.Toolset // plain requests are matched to their operations
	Others  []*agents.Toolset // further toolsets whose tools agents may name
	Logger  *zap.Logger

	// Hosted reports whether this server runs the agent with that name. Default: none.
	Hosted func(name string) bool
	// Check rejects agents that the configuration does not support.
	Check func([]*oagent.Agent) error
	// CheckRemote rejects a capability that is an agent of another server. Default: none may be
	// used.
	CheckRemote func(oagent.Reference) error
	// Permit returns an error if an accepted agent uses what it must not use. Default: everything
	// is permitted.
	Permit func(*oagent.Agent, *Names) error
}

// Loader keeps the current Set of a handler.
type Loader struct {
	options Options
	states  []fileState // of the files, before they were read; used by Load and then by Watch
	stop    func()      // stops watching the files; nil if they are not watched

	mu       sync.Mutex // held while a Set is built
	read     []*oagent.Agent
	accepted []*oagent.Agent
	faults   map[string]string // of the agents' expressions that were logged, by name of the agent
	current  atomic.Pointer[Set]
}

// Load reads the files and returns a Loader. All files must be valid.
func Load(options Options) (*Loader, error) {
	if options.CheckRemote == nil {
		options.CheckRemote = func(r oagent.Reference) error {
			return fmt.Errorf("%s is an agent of another server: allow the server %s with the subdirective remote_agents", r, r.Host)
		}
	}
	l := &Loader{options: options, states: make([]fileState, len(options.Files))}
	l.updateStates()
	if err := l.load(); err != nil {
		return nil, err
	}
	return l, nil
}

// Static returns a Loader of agents that are not read from files.
func Static(read []*oagent.Agent, set *Set) *Loader {
	l := &Loader{read: read}
	l.current.Store(set)
	return l
}

// load reads the files. If all of them are valid, it replaces the agents.
func (l *Loader) load() error {
	read, err := ReadFiles(l.options.Files)
	if err == nil {
		err = l.options.Check(read)
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	set, err := l.link(read)
	if err != nil {
		return err
	}
	l.read = read
	l.current.Store(set)
	return nil
}

// Watch reads the files again when one of them has changed. It calls changed after it has
// replaced the agents. Stop ends it.
func (l *Loader) Watch(changed func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		watch.Poll(ctx, watch.Interval(), func(context.Context) {
			if l.updateStates() && l.reload() {
				changed()
			}
		})
	}()
	l.stop = func() {
		cancel()
		<-ended
	}
}

// reload reads the changed files. If they are invalid, the previous agents stay in force.
func (l *Loader) reload() bool {
	logger := l.options.Logger.With(zap.Strings("files", l.options.Files))
	if err := l.load(); err != nil {
		logger.Error("loading the changed agent documents failed; the previous agents stay in force", zap.Error(err))
		return false
	}
	logger.Info("loaded the changed agent documents", zap.String("agents", l.current.Load().ListAgents()))
	return true
}

// Stop ends watching the files.
func (l *Loader) Stop() {
	if l != nil && l.stop != nil {
		l.stop()
	}
}

// Last returns the Set that was built last. Its toolsets may be outdated.
func (l *Loader) Last() *Set { return l.current.Load() }

// Documents returns the agents in the order of the files.
func (l *Loader) Documents() []*oagent.Agent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.read
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
			current = toolcall.DeclaredTools(t, r, next) == set.views[i] && current
			continue
		}
		current = t.Loader.Toolset() == set.views[i] && current
	}
	for i, t := range l.options.Others {
		current = t.Loader.Toolset() == set.views[len(l.options.Matched)+i] && current
	}
	return current
}

// Accept replaces the agents that were accepted and are not from a file. If a file has an agent
// with the same name, that one stays in force.
func (l *Loader) Accept(agents []*oagent.Agent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepted = agents
	set, _ := l.link(l.read) // the error was reported when the files were read
	l.current.Store(set)
}

// link builds a Set with the current toolsets.
func (l *Loader) link(read []*oagent.Agent) (*Set, error) {
	toolsets := make([]Tools, 0, len(l.options.Matched)+len(l.options.Others))
	for _, t := range l.options.Matched {
		toolsets = append(toolsets, Tools{t, t.Loader.Toolset(), true})
	}
	for _, t := range l.options.Others {
		toolsets = append(toolsets, Tools{t, t.Loader.Toolset(), false})
	}
	d := documents{read, l.withoutNames(read)}
	set, err := newSet(d, toolsets, l.options.CheckRemote)
	if permitted := l.permitted(set, d.accepted); len(permitted) < len(d.accepted) {
		d.accepted = permitted
		set, err = newSet(d, toolsets, l.options.CheckRemote)
	}
	if err == nil {
		l.warnAgentCapabilities(set, read)
		l.warnFaults(set, read)
	}
	return set, err
}

// withoutNames returns the accepted agents whose names the files do not use.
func (l *Loader) withoutNames(read []*oagent.Agent) []*oagent.Agent {
	return slices.DeleteFunc(slices.Clone(l.accepted), func(a *oagent.Agent) bool {
		i := slices.IndexFunc(read, func(other *oagent.Agent) bool { return other.Name == a.Name })
		if i >= 0 {
			l.options.Logger.Warn("an accepted agent has no effect, because a file has an agent with the same name",
				zap.String("agent", a.Name), zap.String("file", read[i].Location))
		}
		return i >= 0
	})
}

// permitted returns the accepted agents that use only what they may use.
func (l *Loader) permitted(set *Set, accepted []*oagent.Agent) []*oagent.Agent {
	return slices.DeleteFunc(slices.Clone(accepted), func(a *oagent.Agent) bool {
		if l.options.Permit == nil {
			return false
		}
		err := l.options.Permit(a, set.Names)
		if err != nil {
			l.options.Logger.Error("an accepted agent uses what the configuration does not permit; it has no effect", zap.String("agent", a.Name), zap.Error(err))
		}
		return err != nil
	})
}

// warnAgentCapabilities logs a warning for each capability that is an agent which this server does
// not run. Until all toolsets are loaded, a name without oagent:// may be a
// tool's.
func (l *Loader) warnAgentCapabilities(set *Set, read []*oagent.Agent) {
	for _, a := range read {
		for i := range a.Capabilities {
			c := &a.Capabilities[i]
			target, err := c.Reference.Resolve(set.Names)
			if err != nil || target.Tool != nil || target.Remote || !set.complete() && !c.Reference.Agent {
				continue
			}
			if l.options.Hosted != nil && l.options.Hosted(c.Reference.Name) {
				continue
			}
			l.options.Logger.Warn("a capability names an agent that this server does not run, so it has no effect; to run the agent, give it a model",
				zap.String("agent", a.Name), zap.String("capability", c.Reference.String()), zap.String("file", a.Location), zap.Int("line", c.Line))
		}
	}
}
