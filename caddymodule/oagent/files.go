package oagent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/nearest"
	"github.com/fairwayhq/fairway/oagent"
)

// agentsInterval is how often the agents' files are checked for changes.
const agentsInterval = time.Second

// provisionFiles reads the agents and starts to watch their files.
func (o *Handler) provisionFiles() error {
	if len(o.Files) == 0 {
		return errors.New("no files: give the file of an agent's document")
	}
	repl := caddy.NewReplacer()
	for _, file := range o.Files {
		path, err := filepath.Abs(repl.ReplaceAll(file, ""))
		if err != nil {
			return err
		}
		if slices.Contains(o.paths, path) {
			return fmt.Errorf("%s is given twice", file)
		}
		o.paths = append(o.paths, path)
	}
	states := statFiles(o.paths)
	if err := o.readAgents(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		o.watch(ctx, states)
	}()
	o.stop = func() {
		cancel()
		<-ended
	}
	return nil
}

// readAgents reads the files. If all of them are valid, it replaces the agents.
func (o *Handler) readAgents() error {
	agents, err := readAgentFiles(o.paths)
	if err == nil {
		err = errors.Join(o.checkIdentities(agents), o.checkGoverning(agents))
	}
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	l, err := o.link(agents)
	if err != nil {
		return err
	}
	o.read = agents
	o.linked.Store(l)
	return nil
}

// readAgentFiles returns the agents of all files, or none if there is an error.
func readAgentFiles(paths []string) ([]*oagent.Agent, error) {
	var agents []*oagent.Agent
	var faults []error
	from := make(map[string]*oagent.Agent)
	for _, path := range paths {
		read, err := readAgentFile(path)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		for _, a := range read {
			if other := from[a.Name]; other != nil {
				faults = append(faults, fmt.Errorf("%s:%d: %s is the name of the agent in %s:%d already: give it another one",
					a.Location, a.Line, a.Name, other.Location, other.Line))
				continue
			}
			from[a.Name] = a
			agents = append(agents, a)
		}
	}
	return agents, errors.Join(faults...)
}

func readAgentFile(path string) ([]*oagent.Agent, error) {
	file, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: check the path; a relative one starts at Caddy's working directory", err)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w: let Caddy's user read the file", err)
	case err != nil:
		return nil, err
	}
	defer file.Close()
	var content buffer.Buffer
	switch err := content.ReadAll(io.LimitReader(file, oagent.MaxDocument+1), oagent.MaxDocument+1); {
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", path, err)
	case len(content.B) > oagent.MaxDocument:
		return nil, fmt.Errorf("%s has more than %d bytes, which is the most that a file of agents may have", path, oagent.MaxDocument)
	}
	return oagent.ReadAgents(content.B, path)
}

// checkIdentities rejects an agent that names credentials which are not configured.
func (o *Handler) checkIdentities(agents []*oagent.Agent) error {
	var faults []error
	for _, a := range agents {
		for i := range a.Capabilities {
			c := &a.Capabilities[i]
			if _, ok := o.identities[c.StaticIdentity]; ok || c.StaticIdentity == "" {
				continue
			}
			hint := "add to oagent: identity " + c.StaticIdentity + " header_up Authorization \"Bearer {env.TOKEN}\""
			if near := nearest.Name(c.StaticIdentity, func(yield func(string) bool) {
				for name := range o.identities {
					if !yield(name) {
						return
					}
				}
			}); near != "" {
				hint = "did you mean " + near + "?"
			}
			faults = append(faults, fmt.Errorf("%s:%d: %s.static_identity: there is no identity %s: %s", a.Location, c.Line, c.Rule(), c.StaticIdentity, hint))
		}
	}
	return errors.Join(faults...)
}

// watch reads the files again after one of them has changed.
func (o *Handler) watch(ctx context.Context, before []os.FileInfo) {
	tick := time.NewTicker(agentsInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := statFiles(o.paths)
		if slices.EqualFunc(before, now, sameState) {
			continue
		}
		before = now
		if err := o.readAgents(); err != nil {
			o.logger.Error("could not load the agents; those that there were stay", zap.Strings("files", o.paths), zap.Error(err))
			continue
		}
		o.app.NotifyAgentEndpoints()
		o.logger.Info("loaded the agents", zap.Strings("files", o.paths), zap.String("agents", o.linked.Load().agentNames()))
	}
}

// statFiles returns the file info of each file, nil for a missing one.
func statFiles(paths []string) []os.FileInfo {
	states := make([]os.FileInfo, len(paths))
	for i, path := range paths {
		if state, err := os.Stat(path); err == nil {
			states[i] = state
		}
	}
	return states
}

func sameState(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
