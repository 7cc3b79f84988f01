package console

import (
	"net/url"
	"strings"

	guard "github.com/fairwayhq/fairway/caddymodule/oagent"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// agentsModel are the agents of the site, and the Engagements that the viewer may see.
type agentsModel struct {
	Agents      []agentModel         `json:"agents"`
	Engagements []engagement.Summary `json:"engagements"`   // the latest change first
	Next        string               `json:"next,omitzero"` // path of the next page

	Filters  []filter   `json:"-"` // links
	Statuses []string   `json:"-"`
	IsFirst  bool       `json:"-"` // it is the first page
	query    url.Values // of the page
	base     string     // of the console
}

// agentModel describes an agent. What its document says is for auditors.
type agentModel struct {
	Name         string            `json:"name"`
	Directive    int               `json:"oagent"` // position of its oagent directive on the site, from 0
	Description  string            `json:"description"`
	Owner        string            `json:"owner,omitzero"`
	Intent       string            `json:"intent,omitzero"`
	Location     string            `json:"location,omitzero"`
	Capabilities []capabilityModel `json:"capabilities,omitzero"`
	Rules        []string          `json:"rules,omitzero"` // of the whole agent, explained
	Lint         []string          `json:"lint,omitzero"`
	Source       string            `json:"source,omitzero"`
}

// capabilityModel describes a capability.
type capabilityModel struct {
	Name    string `json:"name"`
	Tool    string `json:"tool,omitzero"` // method and path; "" if it is no tool that is loaded
	Rules   []rule `json:"rules,omitzero"`
	Missing bool   `json:"missing,omitzero"`
}

// rule explains a restriction. Code is the expression that it ends with.
type rule struct {
	Words string `json:"words"`
	Code  string `json:"code,omitzero"`
}

// serveAgents serves the agents with their Engagements, and one agent.
func (p *recordPages) serveAgents() (*page, error) {
	if len(p.in.rest) > 2 || !p.in.isRead() {
		return nil, errNotFound
	}
	m := &agentsModel{Agents: []agentModel{}, Engagements: []engagement.Summary{}, base: p.site.base, query: url.Values{}}
	if p.in.api {
		m.base += "/api"
	}
	for n, h := range p.site.guards() {
		documents, names := h.Agents()
		for _, a := range documents {
			switch {
			case len(p.in.rest) < 2:
				m.Agents = append(m.Agents, p.describeAgent(n, a, names))
			case a.Name == p.in.rest[1] && p.in.viewer.Auditor:
				return &page{view: "agents", template: "agent", title: a.Name, model: p.describeAgent(n, a, names)}, nil
			}
		}
	}
	if len(p.in.rest) == 2 {
		return nil, errNotFound
	}
	if err := p.addEngagements(m); err != nil {
		return nil, err
	}
	return &page{view: "agents", template: "agents", part: "rows", title: "Agents", model: m}, nil
}

// describeAgent returns the model of an agent.
func (p *recordPages) describeAgent(n int, a guard.AgentDocument, names oagent.Names) agentModel {
	m := agentModel{Name: a.Name, Directive: n, Description: a.Description}
	if !p.in.viewer.Auditor {
		return m
	}
	m.Owner, m.Intent, m.Location, m.Source = a.Owner, a.Intent, a.Location, string(a.Source)
	for i := range a.Capabilities {
		c := &a.Capabilities[i]
		described := capabilityModel{Name: c.Reference.String(), Rules: capabilityRules(c)}
		if target, err := c.Reference.Resolve(names); err != nil {
			described.Missing = true
		} else if target.Tool != nil {
			described.Tool = target.Tool.Operation()
		}
		m.Capabilities = append(m.Capabilities, described)
	}
	logOnly := ""
	if a.GuardrailsLogOnly {
		logOnly = inLogOnly
	}
	if a.Input != nil {
		m.Rules = append(m.Rules, "Each request to the model is checked by the tool "+a.Input.Tool+logOnly+": "+a.Input.Assertion.Expression)
	}
	if a.Output != nil {
		m.Rules = append(m.Rules, "Each response of the model is checked by the tool "+a.Output.Tool+logOnly+": "+a.Output.Assertion.Expression)
	}
	if a.ShortCircuit > 0 {
		m.Rules = append(m.Rules, "It ends when the agent makes the same call "+plural(a.ShortCircuit, "time")+".")
	}
	if !a.RetainMemory {
		m.Rules = append(m.Rules, "It keeps no memory from one Engagement to the next.")
	}
	for _, e := range a.Exposes {
		m.Rules = append(m.Rules, "Its user sees the value of "+e.Name+": "+e.Value.Expression)
	}
	for _, fault := range a.Lint() {
		m.Lint = append(m.Lint, fault.Error())
	}
	return m
}

// inLogOnly says that a rule is not enforced.
const inLogOnly = " (in log only, not enforced)"

// capabilityRules explains the restrictions of a capability.
func capabilityRules(c *oagent.Capability) []rule {
	var rules []rule
	logOnly := ""
	if c.LogOnly {
		logOnly = inLogOnly
	}
	add := func(r *oagent.Restriction, condition, approval string) {
		if r == nil {
			return
		}
		if r.Assertion != nil {
			rules = append(rules, rule{condition + logOnly, strings.TrimSpace(r.Assertion.Expression)})
		}
		if r.RequireReview != "" {
			rules = append(rules, rule{r.RequireReview + approval + logOnly, ""})
		}
	}
	add(c.Input, "The call is made only if", " must approve the call before it is made.")
	add(c.Output, "The result is released only if", " must approve the result before it is released.")
	switch {
	case !c.UserIdentity && c.StaticIdentity != "":
		rules = append(rules, rule{"Called with the credentials " + c.StaticIdentity + " of the gateway, not with the user’s.", ""})
	case !c.UserIdentity:
		rules = append(rules, rule{"Called without the user’s credentials.", ""})
	}
	if !c.CollectResults {
		rules = append(rules, rule{"Results are not recorded.", ""})
	}
	return rules
}
