package oagent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxFaults is how many faults of a file are told. More may be found, not many.
const maxFaults = 20

// A LintError is one thing wrong with a document.
type LintError struct {
	Location     string // where the document is from
	Line, Column int    // from 1; 0 if not known
	Rule         string // the path in the document: capabilities.get-trip.input_restriction.assertion; "" for the whole
	Message      string // what is wrong, and what to do
}

// Error returns it as file:line:column: path: message.
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

// LintErrors are all that is wrong with the documents of a file, one at least.
type LintErrors []*LintError

// Error returns one line for each, and how many more there are.
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

// Unwrap returns each of them.
func (e LintErrors) Unwrap() []error {
	errs := make([]error, len(e))
	for i := range e {
		errs[i] = e[i]
	}
	return errs
}

// orNil returns them in the order of the document, nil if there are none.
func (e LintErrors) orNil() error {
	if len(e) == 0 {
		return nil
	}
	slices.SortStableFunc(e, func(a, b *LintError) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return e
}

// Lint returns all that is wrong with the documents of a file, with what
// LintExpressions finds. With names it
// looks for the tools and agents that they refer to as well; an agent may refer
// to another of the same file. Names may be nil.
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

// withAgents are names and some agents more.
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
