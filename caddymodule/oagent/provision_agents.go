package oagent

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/oagent/agentset"
	"github.com/fairwayhq/fairway/internal/nearest"
	"github.com/fairwayhq/fairway/oagent"
)

// provisionAgents reads the agents and starts to watch their files.
func (o *Handler) provisionAgents() (err error) {
	if len(o.Files) == 0 {
		return errors.New("no files: give the file of an agent's document")
	}
	repl := caddy.NewReplacer()
	var paths []string
	for _, file := range o.Files {
		path, err := filepath.Abs(repl.ReplaceAll(file, ""))
		if err != nil {
			return err
		}
		if slices.Contains(paths, path) {
			return fmt.Errorf("%s is given twice", file)
		}
		paths = append(paths, path)
	}
	o.agents, err = agentset.Load(agentset.Options{
		Files: paths, Matched: o.toolsets, Others: o.others, Logger: o.logger,
		Check: func(read []*oagent.Agent) error {
			return errors.Join(o.checkIdentities(read), o.checkGuard(read))
		},
	})
	if err != nil {
		return err
	}
	o.showMetrics()
	o.agents.Watch(func() {
		o.showMetrics()
		o.app.NotifyAgentEndpoints()
	})
	return nil
}

// showMetrics creates the metrics of all agents, so that they are exported before the first
// request.
func (o *Handler) showMetrics() {
	for _, name := range o.agents.Last().AgentNames() {
		o.metrics.of(name)
	}
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

// checkGuard rejects a guard option with which none of the agents can govern a request.
func (o *Handler) checkGuard(agents []*oagent.Agent) error {
	names := make([]string, len(agents))
	for i, a := range agents {
		if names[i] = a.Name; a.Name == o.Guard {
			return nil
		}
	}
	switch {
	case o.Guard == "" && len(agents) > 1:
		return fmt.Errorf("there are several agents (%s), and nothing says which one governs a request: name it by guard, "+
			"as in: guard {http.ocp.agent_type}", strings.Join(names, ", "))
	case o.Guard == "" || strings.Contains(o.Guard, "{"):
		return nil
	}
	if near := nearest.Name(o.Guard, slices.Values(names)); near != "" {
		return fmt.Errorf("guard: there is no agent %q; did you mean %s?", o.Guard, near)
	}
	return fmt.Errorf("guard: there is no agent %q; there are: %s", o.Guard, strings.Join(names, ", "))
}
