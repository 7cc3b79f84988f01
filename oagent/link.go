package oagent

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/fairwayhq/fairway/internal/nearest"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// Names are the tools and agents of a server.
type Names interface {
	// Tool returns the tool with that name, and the name of its toolset. The name is in kebab
	// case. It may have the toolset's name and a dot as a prefix.
	Tool(name string) (toolset string, tool *tool.Tool, ok bool)

	// Agent reports whether the server has an agent with that name.
	Agent(name string) bool

	// All returns the names of all tools and agents.
	All() []string
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
	tools := make(map[*tool.Tool]string)
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
		if other, taken := tools[target.Tool]; taken {
			add(c.Line, c.Rule(), fmt.Errorf("%s is the same tool as %s; keep one of them", c.Reference.Name, other))
			continue
		}
		tools[target.Tool] = c.Reference.Name
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
	tools := slices.DeleteFunc(slices.Clone(names.All()), func(candidate string) bool {
		_, _, ok := names.Tool(candidate)
		return !ok
	})
	return fmt.Errorf("unknown tool %s%s", name, suggest(name, tools))
}

// suggest returns "; did you mean …?" with the most similar name, or "".
func suggest(name string, names []string) string {
	if near := nearest.Name(name, slices.Values(names)); near != "" {
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
