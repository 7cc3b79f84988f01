package oagent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/fairwayhq/fairway/internal/celenv"
	"github.com/fairwayhq/fairway/internal/yamltree"
	"github.com/fairwayhq/fairway/oagent/assertion"
)

// Limits on a file of documents.
const (
	MaxDocument     = 1 << 20   // bytes of a file
	maxAgents       = 1000      // documents in a file
	MaxCapabilities = 1000      // of one agent
	maxExposes      = 100       // of one agent
	maxExpressions  = 256 << 10 // bytes of all expressions of one agent; an alias counts each time it is used
)

// ReadAgent parses a document that contains one agent. Its messages begin with location. An unknown
// key, a missing key, a wrong type and an expression that does not compile are errors. If there is an
// error, no agent is returned, and the error is a LintErrors with all faults.
func ReadAgent(data []byte, location string) (*Agent, error) {
	agents, err := ReadAgents(data, location)
	if err != nil {
		return nil, err
	}
	if len(agents) > 1 {
		return nil, LintErrors{{Location: location, Line: agents[1].Line, Message: "a second agent starts here, but the file may contain only one"}}
	}
	return agents[0], nil
}

// ReadAgents parses a file of one or more agents, each a YAML document. It returns all of them
// or none.
func ReadAgents(data []byte, location string) ([]*Agent, error) {
	if len(data) > MaxDocument {
		return nil, LintErrors{{Location: location, Message: fmt.Sprintf("the file has %d bytes; the limit is %d", len(data), MaxDocument)}}
	}
	if !utf8.Valid(data) {
		return nil, LintErrors{{Location: location, Message: "the file is not valid UTF-8"}}
	}
	var agents []*Agent
	var faults LintErrors
	lines := make(map[string]int)
	for i, part := range splitDocuments(data) {
		if i == maxAgents {
			return nil, LintErrors{{Location: location, Line: part.line + 1, Message: fmt.Sprintf("the file has more than %d YAML documents", maxAgents)}}
		}
		r := reader{location: location, source: part.text, before: part.line}
		agent := r.read()
		faults = append(faults, r.faults...)
		if agent == nil {
			continue
		}
		if line, taken := lines[agent.Name]; taken && agent.Name != "" {
			faults = append(faults, &LintError{Location: location, Line: agent.Line, Rule: "name", Message: fmt.Sprintf("the agent in line %d already has the name %s; give each agent its own name", line, agent.Name)})
		}
		lines[agent.Name] = agent.Line
		agents = append(agents, agent)
	}
	if len(agents) == 0 && len(faults) == 0 {
		faults = LintErrors{{Location: location, Message: "the file contains no agent; an agent starts with kind: " + strconv.Quote(DocumentKind)}}
	}
	if err := faults.orNil(); err != nil {
		return nil, err
	}
	return agents, nil
}

// part is one document of a file.
type part struct {
	text []byte
	line int // lines of the file before this document
}

// splitDocuments splits a file at its document markers. YAML allows "---" and "..." at the
// start of a line only as markers. Directives and comments belong to the document that follows
// them.
func splitDocuments(data []byte) []part {
	var parts []part
	start, first, line := 0, 0, 0
	hasMarker, hasContent := false, false
	// cut ends the current document, if any, and begins the next. It drops an empty document.
	cut := func(end, lines int) {
		if hasContent {
			parts = append(parts, part{text: data[start:end], line: first})
		}
		start, first, hasMarker, hasContent = end, lines, false, false
	}
	for at := 0; at < len(data); line++ {
		end := len(data)
		if newline := bytes.IndexByte(data[at:], '\n'); newline >= 0 {
			end = at + newline + 1
		}
		text := bytes.TrimPrefix(data[at:end], []byte("\ufeff"))
		switch {
		case isMarker(text, "---"):
			if hasMarker || hasContent {
				cut(at, line)
			}
			hasMarker, hasContent = true, !isBlank(text[3:])
		case isMarker(text, "..."):
			cut(end, line+1)
		case !bytes.HasPrefix(text, []byte("%")) && !isBlank(text):
			hasContent = true
		}
		at = end
	}
	cut(len(data), line)
	return parts
}

func isMarker(line []byte, marker string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(marker))
	return ok && (len(rest) == 0 || strings.IndexByte(" \t\r\n", rest[0]) >= 0)
}

// isBlank reports whether a line has only whitespace or a comment.
func isBlank(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) == 0 || line[0] == '#'
}

// reader parses one document.
type reader struct {
	location string
	source   []byte
	before   int // lines of the file before this document
	faults   LintErrors
	pending  []uncompiled
}

// uncompiled is an expression to compile when all names are known.
type uncompiled struct {
	node    *yaml.Node
	rule    string
	compile func(assertion.Source, *assertion.Names) error
}

// fault adds an error at a node.
func (r *reader) fault(n *yaml.Node, rule, format string, arguments ...any) {
	r.faults = append(r.faults, &LintError{
		Location: r.location,
		Line:     n.Line,
		Column:   n.Column,
		Rule:     rule,
		Message:  fmt.Sprintf(format, arguments...),
	})
}

// read returns the agent, or nil if the document is empty. The agent is valid only if there
// are no faults.
func (r *reader) read() *Agent {
	root, err := yamltree.Parse(r.source, yamltree.Options{Aliases: true, Before: r.before})
	switch {
	case errors.Is(err, yamltree.ErrEmpty):
		return nil
	case errors.Is(err, yamltree.ErrSecondDocument): // YAML accepts more line breaks than splitDocuments does
		r.faults = append(r.faults, &LintError{
			Location: r.location, Line: r.before + 1,
			Message: "a second document starts here after a line break other than LF; end each line with LF or CR LF",
		})
		return nil
	case err != nil:
		r.faults = append(r.faults, r.syntax(err))
		return nil
	case yamltree.IsNull(root):
		return nil
	}
	a := &Agent{RetainMemory: true, Source: r.source, Location: r.location, Line: root.Line}
	sum := sha256.Sum256(r.source)
	a.Hash = hex.EncodeToString(sum[:])
	r.agent(a, root)
	if len(r.faults) == 0 {
		r.compile(a)
	}
	return a
}

// syntax converts an error of the YAML parser to a LintError.
func (r *reader) syntax(err error) *LintError {
	fault := &LintError{Location: r.location}
	if located, ok := errors.AsType[*yamltree.Error](err); ok {
		fault.Line, err = located.Line, located.Err
	}
	fault.Message = "invalid YAML: " + err.Error()
	return fault
}

// compile compiles the expressions. They may use the names of all capabilities, so this runs
// last.
func (r *reader) compile(a *Agent) {
	names := assertion.NewNames(a.names())
	total := 0
	for _, p := range r.pending {
		if len(r.faults) >= maxFaults {
			return
		}
		if total += len(p.node.Value); total > maxExpressions {
			r.fault(p.node, p.rule, "all expressions together exceed the limit of %d bytes", maxExpressions)
			return
		}
		source := assertion.Source{Expression: p.node.Value, Rule: p.rule, Line: p.node.Line}
		switch err := p.compile(source, names); {
		case err == nil:
		case strings.HasPrefix(p.rule, exposureRule) && assertion.IsUnknownName(err):
			a.unknown = append(a.unknown, r.locate(p, err)...) // the value never exists, and nothing depends on it
		default:
			r.faults = append(r.faults, r.locate(p, err)...)
		}
	}
}

// locate converts a compile error to LintErrors, with the most exact position in the file.
func (r *reader) locate(p uncompiled, err error) LintErrors {
	fault, ok := errors.AsType[*celenv.CompileError](err)
	if !ok {
		return LintErrors{{Location: r.location, Line: p.node.Line, Column: p.node.Column, Rule: p.rule, Message: err.Error()}}
	}
	var faults LintErrors
	for _, place := range fault.Positions {
		e := &LintError{Location: r.location, Line: p.node.Line, Column: p.node.Column, Rule: p.rule, Message: place.Message}
		switch {
		case place.Line == 0:
		case p.node.Style&yaml.LiteralStyle != 0:
			e.Line, e.Column = e.Line+place.Line, 0
		case r.isVerbatim(p.node):
			e.Column += place.Column - 1
			if p.node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
				e.Column++
			}
		default:
			e.Message = fmt.Sprintf("line %d, column %d of the expression: %s", place.Line, place.Column, place.Message)
		}
		faults = append(faults, e)
	}
	return faults
}

// isVerbatim reports whether the text of a scalar is in its line unchanged. Only then can a
// position in the expression be mapped to a column of the file.
func (r *reader) isVerbatim(n *yaml.Node) bool {
	line := r.source
	for range n.Line - r.before - 1 {
		_, line, _ = bytes.Cut(line, []byte("\n"))
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	runes := []rune(string(line))
	if n.Column > len(runes) {
		return false
	}
	return strings.HasPrefix(strings.TrimLeft(string(runes[n.Column-1:]), `"'`), n.Value)
}

// names returns the names that the Engagement of the agent can have entries for.
func (a *Agent) names() []string {
	var names []string
	for i := range a.Capabilities {
		names = append(names, a.Capabilities[i].Reference.Name)
	}
	for _, g := range []*Guardrail{a.Input, a.Output} {
		if g != nil && !slices.Contains(names, g.Tool) {
			names = append(names, g.Tool)
		}
	}
	return names
}
