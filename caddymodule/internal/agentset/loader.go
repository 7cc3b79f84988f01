package agentset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dustin/go-humanize"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/watch"
	"github.com/fairwayhq/fairway/oagent"
)

// Options are the options of a Loader.
type Options struct {
	Files   []string       // absolute paths, and patterns of filepath.Glob
	Matched []*app.Toolset // plain requests are matched to their operations
	Others  []*app.Toolset // further toolsets whose tools agents may name
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
	states  map[string]fileState // of the files by path, before they were read; used by Load and then by Watch
	stop    func()               // stops watching the files; nil if they are not watched

	mu       sync.Mutex // held while a Set is built
	read     []*oagent.Agent
	accepted []*oagent.Agent
	owners   map[string]string // the toolset of each name without one in agent documents; see Names.resolve
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
	l := &Loader{options: options, owners: make(map[string]string)}
	l.updateStates()
	if len(l.states) == 0 {
		return nil, fmt.Errorf("no file matches %s: check the path; relative paths start at Caddy's working directory", strings.Join(options.Files, " "))
	}
	if err := l.load(expand(options.Files)); err != nil {
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
func (l *Loader) load(paths []string) error {
	read, err := ReadFiles(paths)
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

// reload reads the changed files. If they are invalid, the previous agents stay in force, except those whose
// files were deleted.
func (l *Loader) reload() bool {
	logger := l.options.Logger.With(zap.Strings("files", l.options.Files))
	l.revokeDeleted()
	if err := l.load(existing(expand(l.options.Files))); err != nil {
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
	set, err := newSet(d, toolsets, l.owners, l.options.CheckRemote)
	if permitted := l.permitted(set, d.accepted); len(permitted) < len(d.accepted) {
		d.accepted = permitted
		set, err = newSet(d, toolsets, l.owners, l.options.CheckRemote)
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

// warnFaults logs a warning about expressions of the agents that compile but are certainly wrong, such as an input that
// a tool does not have. Calls would be refused because of them. It repeats a warning only if the faults have changed.
// l.mu is held.
func (l *Loader) warnFaults(set *Set, read []*oagent.Agent) {
	if !set.complete() {
		return
	}
	found := make(map[string]string, len(read))
	for _, a := range read {
		faults := a.LintExpressions(set.Names)
		if len(faults) == 0 {
			continue
		}
		found[a.Name] = faults.Error()
		if l.faults[a.Name] != found[a.Name] {
			l.options.Logger.Warn("an expression of an agent cannot work: calls are refused because of it, or a value is not exposed; correct it, and check with caddy oagent lint --openapi",
				zap.String("agent", a.Name), zap.String("error", found[a.Name]))
		}
	}
	l.faults = found
}

// ReadFiles returns the valid agents of all files, in the order of the files. If a file is
// invalid or two agents have the same name, the error lists all problems.
func ReadFiles(paths []string) ([]*oagent.Agent, error) {
	var agents []*oagent.Agent
	var problems []error
	from := make(map[string]*oagent.Agent)
	for _, path := range paths {
		read, err := readFile(path)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		for _, a := range read {
			if other := from[a.Name]; other != nil {
				problems = append(problems, fmt.Errorf("%s:%d: agent name %s is already used at %s:%d: give each agent its own name",
					a.Location, a.Line, a.Name, other.Location, other.Line))
				continue
			}
			from[a.Name] = a
			agents = append(agents, a)
		}
	}
	return agents, errors.Join(problems...)
}

func readFile(path string) ([]*oagent.Agent, error) {
	file, err := os.Open(path) // a command may get a pipe, which watch.File does not read
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: check the path; relative paths start at Caddy's working directory", err)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w: give Caddy's user read permission", err)
	case err != nil:
		return nil, err
	}
	defer file.Close()
	content, err := buffer.ReadLimited(file, oagent.MaxDocument)
	switch {
	case errors.Is(err, buffer.ErrTooLarge):
		return nil, fmt.Errorf("%s is larger than %s, the limit for a file of agent documents: split it", path, humanize.IBytes(oagent.MaxDocument))
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return oagent.ReadAgents(content, path)
}

// fileState is what is known about a file of agent documents.
type fileState struct {
	state *watch.State
	err   string // of the last check
}

// expand returns the paths of files and patterns, with the files that match each pattern. A path of a file that
// exists is not a pattern. Patterns are those of filepath.Glob; one that matches no file has no paths.
func expand(files []string) (paths []string) {
	for _, file := range files {
		found := []string{file}
		if _, err := os.Lstat(file); err != nil && strings.ContainsAny(file, "*?[") {
			found, _ = filepath.Glob(file)
		}
		for _, path := range found {
			if !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// updateStates checks the files, and reports whether one has changed since the last check. An error
// counts as a change when it appears and when it ends.
func (l *Loader) updateStates() bool {
	paths := expand(l.options.Files)
	states := make(map[string]fileState, len(paths))
	changed := len(paths) != len(l.states)
	for _, path := range paths {
		known, listed := l.states[path]
		_, state, differs, err := watch.File{Path: path, MaxSize: oagent.MaxDocument}.Read(known.state)
		message := ""
		if err != nil {
			state, message = known.state, err.Error()
		}
		changed = changed || !listed || differs || message != known.err
		states[path] = fileState{state, message}
	}
	l.states = states
	return changed
}

// existing returns the paths of the files that were not deleted.
func existing(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), isDeleted)
}

func isDeleted(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// revokeDeleted removes the agents whose files were deleted, even if another file is invalid.
func (l *Loader) revokeDeleted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(l.read), func(a *oagent.Agent) bool {
		deleted := isDeleted(a.Location)
		if deleted {
			l.options.Logger.Warn("the file of an agent was deleted, so its calls are refused", zap.String("agent", a.Name), zap.String("file", a.Location))
		}
		return deleted
	})
	if len(left) < len(l.read) {
		l.read = left
		set, _ := l.link(left) // the following load reports the error
		l.current.Store(set)
	}
}
