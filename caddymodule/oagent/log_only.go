package oagent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// Names in log_only that are not of an agent or a capability.
const (
	allAgents    = "*"          // all rules of all agents
	guardrailsOf = "guardrails" // AGENT/guardrails
)

// LogOnly are the names of rules of agents that are not enforced, see Handler.LogOnly.
type LogOnly []string

// unmarshal reads the option log_only. Without names it is for all agents.
func (l *LogOnly) unmarshal(b *directive.Block) error {
	if b.CountRemainingArgs() == 0 {
		*l = append(*l, allAgents)
		return nil
	}
	return b.List((*[]string)(l))
}

// check rejects names that other names include.
func (l LogOnly) check() error {
	if len(l) > 1 && slices.Contains(l, allAgents) {
		return errors.New("log_only without names is for all agents: remove the other names")
	}
	for _, name := range l {
		if agent, _, isPart := strings.Cut(name, "/"); isPart && slices.Contains(l, agent) {
			return fmt.Errorf("log_only %s has no effect: log_only %s is for all rules of the agent", name, agent)
		}
	}
	return nil
}

// mark marks the rules that the names select as not enforced. The error lists each name that selects no rule.
func (l LogOnly) mark(read []*oagent.Agent) error {
	var problems []error
	for _, name := range l {
		agent, part, _ := strings.Cut(name, "/")
		marked, why := false, "unknown agent"
		known := make(map[string]bool)
		for _, a := range read {
			known[a.Name] = true
			if agent != allAgents && agent != a.Name {
				continue
			}
			set, err := markLogOnly(a, part)
			if marked = marked || set; err != nil {
				why = err.Error()
			}
		}
		if near := text.Nearest(agent, maps.Keys(known)); agent != allAgents && !known[agent] && near != "" {
			why += "; did you mean " + near + "?"
		}
		if !marked {
			problems = append(problems, fmt.Errorf("log_only %s: %s", name, why))
		}
	}
	return errors.Join(problems...)
}

// markLogOnly marks the rules of an agent that are in log only: those of a capability or the guardrails, or all if part is "". It reports
// whether there are any; if not, the error says why. An agent that is in use already has its marks, and is not written again.
func markLogOnly(a *oagent.Agent, part string) (marked bool, err error) {
	err = errors.New("it has no restrictions and no guardrails, so there is nothing to try")
	known := make(map[string]bool)
	if a.Input != nil || a.Output != nil {
		known[guardrailsOf] = true
		if part == "" || part == guardrailsOf {
			marked = true
			if !a.GuardrailsLogOnly {
				a.GuardrailsLogOnly = true
			}
		}
	}
	for i := range a.Capabilities {
		c := &a.Capabilities[i]
		known[c.Reference.String()] = true
		if part != "" && part != c.Reference.String() && part != c.Reference.Name || c.Input == nil && c.Output == nil {
			continue
		}
		if part == guardrailsOf && marked {
			return false, errors.New("it is a capability and the guardrails: name the agent to try all of its rules")
		}
		marked = true
		if !c.LogOnly {
			c.LogOnly = true
		}
	}
	if part != "" && !known[part] {
		err = errors.New("the agent has no such capability or guardrails; it has " + strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	return marked, err
}

// reportLogOnly logs each rule of the agents that is not enforced.
func reportLogOnly(o *Handler) {
	set := o.Loader.Last()
	for _, a := range set.Documents() {
		logger := o.logger.With(zap.String("agent", a.Name))
		for i := range a.Capabilities {
			c := &a.Capabilities[i]
			if !c.LogOnly {
				continue
			}
			withCredentials := c.StaticIdentity != "" || injects(o, set, c)
			for _, r := range []*oagent.Restriction{c.Input, c.Output} {
				if r != nil && r.Assertion != nil {
					app.ReportLogOnly(logger, r.Assertion.Rule, withCredentials)
				}
			}
			for rule := range c.Reviewers() {
				app.ReportLogOnly(logger, rule, withCredentials)
			}
		}
		for _, side := range []engagement.Side{engagement.SideInput, engagement.SideOutput} {
			if g := a.Guardrail(side); g != nil && a.GuardrailsLogOnly {
				app.ReportLogOnly(logger, g.Assertion.Rule, false)
			}
		}
	}
}

// injects reports whether the toolset of a capability has credentials. While its document is not loaded, any toolset may be the one.
func injects(o *Handler, set *agentset.Set, c *oagent.Capability) bool {
	for _, a := range set.Agents {
		for op, other := range a.Capabilities {
			if other == c {
				return len(op.Toolset.Credentials) > 0
			}
		}
	}
	return !set.Loaded && slices.ContainsFunc(o.Matched, func(t *app.Toolset) bool { return len(t.Credentials) > 0 })
}

// reportTrial reports what rules in log only would have done to a call that passed. If the call has an entry in the log of calls, it is
// reported when the call has ended.
func (d *decision) reportTrial(ctx context.Context, o *Handler, e *outcome) {
	if ticket := d.admission.ticket; ticket != nil {
		if e.would.Effect == "" {
			e.would = ticket.Would
		}
		if ticket.Incomplete != "" {
			route.ReportIncomplete(o.logger, d.agentName(), ticket.Incomplete, "the evaluation took too long, or the record does not have a value")
		}
	}
	if e.would.Effect == "" {
		return
	}
	if entry := route.CallEntry(ctx); entry != nil {
		entry.Would = e.would
	} else {
		route.ReportWould(ctx, d.agentName(), e.would)
	}
}

// tried returns what inspectors in log only have found in a response before it is finished.
func (s *response) tried(i *route.Inspection) {
	entry := route.CallEntry(s.d.request.r.Context())
	switch {
	case i != nil:
		s.ticket.ResultWould = i.Would
	case entry != nil && s.ticket.Would.Effect == "":
		s.ticket.ResultWould = entry.Would
	}
}

// tryHeld judges the inspectors in log only of a plain response, if it is complete.
func (s *response) tryHeld(a *heldResponse) {
	switch {
	case a.NoBody || a.Size == 0:
	case a.incomplete || a.Body == nil:
		route.ReportIncomplete(s.d.request.handler.logger, "", s.inspection.Toolset+".inspect", "the response is larger than max_output")
	default:
		s.inspection.TryResponse(s.d.request.r.Context(), a.Status, a.Headers, a.Body.B)
	}
}
