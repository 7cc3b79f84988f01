package oagent

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent/assertion"
	"github.com/fairwayhq/fairway/tools"
)

// maxFaults is the maximum number of faults that a message lists for one file.
const maxFaults = 20

// LintError is one fault in a document.
type LintError struct {
	Location     string // the file or URL of the document
	Line, Column int    // counted from 1; 0 if not known
	Rule         string // path in the document: capabilities.get-trip.input_restriction.assertion; "" for the whole document
	Message      string // what is wrong, and how to fix it
}

// Error returns the fault as file:line:column: path: message.
func (e *LintError) Error() string {
	var message strings.Builder
	message.WriteString(e.Location)
	if e.Line > 0 {
		fmt.Fprintf(&message, ":%d", e.Line)
		if e.Column > 0 {
			fmt.Fprintf(&message, ":%d", e.Column)
		}
	}
	if message.Len() > 0 {
		message.WriteString(": ")
	}
	if e.Rule != "" {
		message.WriteString(e.Rule + ": ")
	}
	message.WriteString(e.Message)
	return message.String()
}

// LintErrors are all faults in the documents of a file. It has at least one.
type LintErrors []*LintError

// Error returns one line for each fault up to maxFaults, and the number of the others.
func (e LintErrors) Error() string {
	lines := make([]string, 0, maxFaults+1)
	for i, fault := range e {
		if i == maxFaults {
			lines = append(lines, fmt.Sprintf("and %d more", len(e)-maxFaults))
			break
		}
		lines = append(lines, fault.Error())
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns each fault.
func (e LintErrors) Unwrap() []error {
	errs := make([]error, len(e))
	for i := range e {
		errs[i] = e[i]
	}
	return errs
}

// orNil returns the faults in document order, or nil if there are none.
func (e LintErrors) orNil() error {
	if len(e) == 0 {
		return nil
	}
	slices.SortStableFunc(e, func(a, b *LintError) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return e
}

// Lint returns all faults in the documents of a file, including those of LintExpressions. If
// names is not nil, it also checks the tools and agents that the documents refer to. An agent
// may refer to another agent of the same file.
func Lint(data []byte, location string, names Names) LintErrors {
	agents, err := ReadAgents(data, location)
	faults := AsLintErrors(err)
	if names == nil {
		for _, a := range agents {
			faults = append(faults, a.LintExpressions(nil)...)
		}
		return faults
	}
	known := &withAgents{Names: names}
	for _, a := range agents {
		known.agents = append(known.agents, a.Name)
	}
	for _, a := range agents {
		faults = append(faults, AsLintErrors(a.Link(known))...)
		faults = append(faults, a.LintExpressions(known)...)
	}
	return faults
}

// withAgents adds agents to names.
type withAgents struct {
	Names
	agents []string
}

func (w *withAgents) Agent(name string) bool {
	return slices.Contains(w.agents, name) || w.Names.Agent(name)
}

func (w *withAgents) All() []string {
	return slices.Concat(w.Names.All(), w.agents)
}

// CheckRemote implements RemoteNames.
func (w *withAgents) CheckRemote(r Reference) error { return checkRemote(w.Names, r) }

// LintExpressions returns faults in the agent's expressions that compile but are certainly
// wrong, see assertion.Linter. If names is not nil, the names and types of the tools' arguments
// are checked too.
func (a *Agent) LintExpressions(names Names) LintErrors {
	faults := slices.Clone(a.unknown)
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
func (a *Agent) tools(names Names) map[string]*tools.Tool {
	toolset := make(map[string]*tools.Tool)
	if names == nil {
		return toolset
	}
	for i := range a.Capabilities {
		reference := a.Capabilities[i].Reference
		if target, err := reference.Resolve(names); err == nil && target.Tool != nil {
			toolset[reference.Name] = target.Tool
		}
	}
	for _, g := range []*Guardrail{a.Input, a.Output} {
		if g == nil {
			continue
		}
		if _, tool, ok := names.Tool(g.Tool); ok && toolset[g.Tool] == nil {
			toolset[g.Tool] = tool
		}
	}
	return toolset
}

// Names are the tools and agents of a server.
type Names interface {
	// Tool returns the tool with that name, and the name of its toolset. The name is in kebab
	// case. It may have the toolset's name and a dot as a prefix.
	Tool(name string) (toolset string, tool *tools.Tool, ok bool)

	// Agent reports whether the server has an agent with that name.
	Agent(name string) bool

	// All returns the names of all tools and agents.
	All() []string

	// Renamed returns the name of the tool that had that name before the configuration renamed it, or "".
	Renamed(name string) string
}

// RemoteNames are the Names of a server that calls agents of other servers.
type RemoteNames interface {
	Names

	// CheckRemote returns an error if the server must not call that agent of another server.
	CheckRemote(r Reference) error
}

// Link checks that the server has every tool and agent that the document refers to. It changes
// nothing, so it can run again when a toolset changes. Reference.Resolve returns the current
// target of a reference. The error is a LintErrors.
func (a *Agent) Link(names Names) error {
	var faults LintErrors
	add := func(line int, rule string, err error) {
		faults = append(faults, &LintError{Location: a.Location, Line: line, Rule: rule, Message: err.Error()})
	}
	set := make(map[*tools.Tool]string)
	for i := range a.Capabilities {
		if len(faults) == maxFaults {
			break
		}
		c := &a.Capabilities[i]
		target, err := c.Reference.Resolve(names)
		if err != nil {
			add(c.Line, c.Rule(), err)
			continue
		}
		if target.Tool == nil {
			continue
		}
		// Two capabilities with the same tool are rejected: one could allow what the other
		// forbids.
		if other, taken := set[target.Tool]; taken {
			add(c.Line, c.Rule(), fmt.Errorf("%s is the same tool as %s; keep one of them", c.Reference.Name, other))
			continue
		}
		set[target.Tool] = c.Reference.Name
	}
	for _, g := range []struct {
		rule string
		*Guardrail
	}{{"guardrails.input", a.Input}, {"guardrails.output", a.Output}} {
		if g.Guardrail == nil {
			continue
		}
		if _, _, ok := names.Tool(g.Tool); !ok {
			add(g.Line, g.rule+".tool_name", noTool(g.Tool, names))
		}
	}
	return faults.orNil()
}

// Reviewers iterates over the reviewers of the capability. The key is the path of the
// require_review that names the reviewer.
func (c *Capability) Reviewers() iter.Seq2[string, string] {
	return func(yield func(rule, reviewer string) bool) {
		if c.Input != nil && c.Input.RequireReview != "" && !yield(c.Rule()+".input_restriction.require_review", c.Input.RequireReview) {
			return
		}
		if c.Output != nil && c.Output.RequireReview != "" {
			yield(c.Rule()+".output_restriction.require_review", c.Output.RequireReview)
		}
	}
}

func noTool(name string, names Names) error {
	if names.Agent(name) {
		return fmt.Errorf("%s is an agent; a guardrail needs a tool", name)
	}
	set := slices.DeleteFunc(slices.Clone(names.All()), func(candidate string) bool {
		_, _, ok := names.Tool(candidate)
		return !ok
	})
	return fmt.Errorf("unknown tool %s%s", name, suggestTool(name, names, set))
}

// suggestTool is like suggest. It prefers the tool that had the name before it was renamed.
func suggestTool(name string, names Names, known []string) string {
	if renamed := names.Renamed(name); renamed != "" {
		return "; it is renamed to " + renamed
	}
	return suggest(name, known)
}

// suggest returns "; did you mean …?" with the most similar name, or "".
func suggest(name string, names []string) string {
	if near := text.Nearest(name, slices.Values(names)); near != "" {
		return "; did you mean " + near + "?"
	}
	if len(names) == 0 {
		return "; there are none"
	}
	return ""
}

// AsLintErrors converts an error of ReadAgent, ReadAgents or Link to LintErrors. It returns
// nil if err is nil.
func AsLintErrors(err error) LintErrors {
	if faults, ok := errors.AsType[LintErrors](err); ok {
		return faults
	}
	if err == nil {
		return nil
	}
	return LintErrors{{Message: err.Error()}}
}
