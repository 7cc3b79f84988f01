package oagent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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
	var text strings.Builder
	text.WriteString(e.Location)
	if e.Line > 0 {
		fmt.Fprintf(&text, ":%d", e.Line)
		if e.Column > 0 {
			fmt.Fprintf(&text, ":%d", e.Column)
		}
	}
	if text.Len() > 0 {
		text.WriteString(": ")
	}
	if e.Rule != "" {
		text.WriteString(e.Rule + ": ")
	}
	text.WriteString(e.Message)
	return text.String()
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
