package oagent

import (
	"github.com/fairwayhq/fairway/oagent/assertion"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// LintExpressions returns faults in the agent's expressions that compile but are certainly
// wrong, see assertion.Linter. If names is not nil, the names and types of the tools' arguments
// are checked too.
func (a *Agent) LintExpressions(names Names) LintErrors {
	var faults LintErrors
	l := assertion.Linter{
		Names: assertion.NewNames(a.names()),
		Tools: a.tools(names),
		Report: func(e assertion.Source, fault string) {
			faults = append(faults, &LintError{Location: a.Location, Line: e.Line, Rule: e.Rule, Message: fault})
		},
	}
	for i := range a.Capabilities {
		c := &a.Capabilities[i]
		if c.Input != nil && c.Input.Assertion != nil {
			l.Restriction(c.Input.Assertion, c.Reference.Name, true)
		}
		if c.Output != nil && c.Output.Assertion != nil {
			l.Restriction(c.Output.Assertion, c.Reference.Name, false)
		}
	}
	for _, exposure := range a.Exposes {
		l.Selection(exposure.Value)
	}
	return faults
}

// tools returns the tools that the agent's expressions refer to, by the name that they use.
func (a *Agent) tools(names Names) map[string]*tool.Tool {
	tools := make(map[string]*tool.Tool)
	if names == nil {
		return tools
	}
	for i := range a.Capabilities {
		reference := a.Capabilities[i].Reference
		if target, err := reference.Resolve(names); err == nil && target.Tool != nil {
			tools[reference.Name] = target.Tool
		}
	}
	for _, g := range []*Guardrail{a.Input, a.Output} {
		if g == nil {
			continue
		}
		if _, tool, ok := names.Tool(g.Tool); ok && tools[g.Tool] == nil {
			tools[g.Tool] = tool
		}
	}
	return tools
}
