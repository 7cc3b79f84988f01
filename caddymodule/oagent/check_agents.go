package oagent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// checkDocuments rejects agents that the configuration does not support, before their tools are
// known.
func checkDocuments(o *Handler, read []*oagent.Agent) error {
	problem := errors.Join(checkIdentities(o, read), checkGuard(o, read))
	for _, a := range read {
		problem = errors.Join(problem, checkPeople(o, a))
	}
	if err := o.LogOnly.mark(read); err != nil && o.Loader == nil {
		problem = errors.Join(problem, err)
	} else if err != nil {
		o.logger.Warn("the changed agent documents do not have a rule that log_only names", zap.Error(err))
	}
	return problem
}

// checkPeople rejects an agent with a name for which people decide, because it would decide in their place.
func checkPeople(o *Handler, a *oagent.Agent) error {
	if o.Reviewers[a.Name].HasPeople() {
		return fmt.Errorf("%s: the agent has the name %s, for which people decide: rename the agent or the reviewer", a.Location, a.Name)
	}
	return nil
}

// checkIdentities rejects an agent that names credentials which are not configured.
func checkIdentities(o *Handler, read []*oagent.Agent) error {
	var problems []error
	for _, a := range read {
		for i := range a.Capabilities {
			c := &a.Capabilities[i]
			if _, ok := o.identities[c.StaticIdentity]; ok || c.StaticIdentity == "" {
				continue
			}
			hint := "add to oagent: identity " + c.StaticIdentity + " header_up Authorization \"Bearer {env.TOKEN}\""
			if near := text.Nearest(c.StaticIdentity, maps.Keys(o.identities)); near != "" {
				hint = "did you mean " + near + "?"
			}
			problems = append(problems, fmt.Errorf("%s:%d: %s.static_identity: unknown identity %s; %s", a.Location, c.Line, c.Rule(), c.StaticIdentity, hint))
		}
	}
	return errors.Join(problems...)
}

// checkGuard rejects a guard option with which none of the agents can govern a request.
func checkGuard(o *Handler, read []*oagent.Agent) error {
	guard := o.Guard
	names := make([]string, len(read))
	for i, a := range read {
		names[i] = a.Name
		if a.Name == guard {
			return nil
		}
	}
	switch {
	case guard == "" && (o.Host != nil || o.guards.hasEndpoint(o.site)):
		return nil // a call of a hosted agent, or at an endpoint of an agent, names its agent; with several agents, other requests are refused
	case guard == "" && len(read) > 1:
		return fmt.Errorf("several agents (%s) need the option guard, which selects the agent of a request, "+
			"as in: guard {http.ocp.agent_type}, or an endpoint before oagent with the option agent", strings.Join(names, ", "))
	case guard == "" || strings.Contains(guard, "{"):
		return nil
	}
	return fmt.Errorf("guard: unknown agent %q%s", guard, directive.DidYouMean(guard, names))
}

// checkLinked rejects agents whose documents require something that is not configured. It
// warns about reviews without a reviewer. Login reports whether users log in before they reach the reviews.
func checkLinked(o *Handler, login bool) error {
	set := o.Loader.Current()
	for _, name := range slices.Sorted(maps.Keys(o.Reviewers)) {
		if set.Agents[name] == nil && !o.Reviewers[name].HasPeople() {
			return fmt.Errorf("reviewer %s: unknown agent; the agents are %s; for a name that people decide about, add them in a block: people ann group:managers", name, set.ListAgents())
		}
	}
	for _, a := range set.Documents() {
		if err := checkGuardrails(o, set, a); err != nil {
			return err
		}
		for i := range a.Capabilities {
			for rule, reviewer := range a.Capabilities[i].Reviewers() {
				warnUndecidable(o, set, o.logger.With(zap.String("agent", a.Name), zap.String("rule", rule), zap.String("reviewer", reviewer)), reviewer, login)
			}
		}
	}
	warnInspectorReviews(o, set, login)
	return nil
}

// checkGuardrails checks that the tools of the guardrails can be called. It skips tools whose
// toolset is not loaded yet.
func checkGuardrails(o *Handler, set *agentset.Set, a *oagent.Agent) error {
	if a.Input == nil && a.Output == nil {
		return nil
	}
	if o.Chat == nil && o.Reviewers[a.Name] == nil && !o.Runs(a) {
		o.logger.Warn("the guardrails of an agent have no effect: add the subdirective chat for model traffic, model if this server runs the agent, or reviewer if the agent reviews",
			zap.String("agent", a.Name))
		return nil
	}
	for _, side := range []engagement.Side{engagement.SideInput, engagement.SideOutput} {
		guardrail := a.Guardrail(side)
		if guardrail == nil {
			continue
		}
		op := set.Names.Find(guardrail.Tool)
		if op == nil {
			continue // not loaded yet
		}
		if err := o.guardrails.CheckTool(op, side); err != nil {
			return fmt.Errorf("%s: guardrails.%s of agent %s: tool %s cannot be called: %w", a.Location, side, a.Name, guardrail.Tool, err)
		}
	}
	return nil
}

// warnUndecidable logs a warning if no reviewer can decide these reviews.
func warnUndecidable(o *Handler, set *agentset.Set, logger *zap.Logger, reviewer string, login bool) {
	name := strings.TrimPrefix(reviewer, oagent.Scheme)
	isAgent := name != reviewer || set.Agents[name] != nil
	switch {
	case isAgent && set.Agents[name] == nil:
		logger.Warn("the reviewer is an agent that is not configured on this site; only another site with the same store can call it",
			zap.String("nearest", text.Nearest(name, slices.Values(set.AgentNames()))))
	case isAgent && o.Reviewing.IsAsked(name):
	case o.Reviews == "":
		logger.Warn("an agent needs reviews, but the site has no endpoint for reviewers: add the subdirective reviews")
	case isAgent && o.Reviewers[name] == nil:
		logger.Warn("no user may decide for the agent that reviews: add the subdirective reviewer")
	case !login:
		logger.Warn("an agent needs reviews, but reviewers cannot log in: put agent_auth, basic_auth or forward_auth before oagent, for all paths")
	}
}
