package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
)

// MaxDocument is the maximum size of an accepted document, in bytes.
const MaxDocument = 256 << 10

// ErrTooLarge reports a document of more than MaxDocument bytes.
var ErrTooLarge = fmt.Errorf("the document is larger than %s, the limit for accepted documents", humanize.IBytes(MaxDocument))

// Policy is the operator's allow-list for accepted documents. It contains no restrictions: a document may
// use the listed capabilities and identities in any way that the server permits.
type Policy struct {
	// Capabilities are references to tools and agents, as documents write them. A * at the end of
	// a reference to a tool, or of a reference to an agent of another server, stands for any
	// number of characters other than "." and "/". The tools of guardrails must be listed too.
	Capabilities []string

	// Identities are the values that static_identity may have.
	Identities []string
}

// CheckPattern returns an error if the text is not an entry of Policy.Capabilities.
func CheckPattern(pattern string) error {
	prefix, isWildcard := strings.CutSuffix(pattern, "*")
	if strings.Contains(prefix, "*") {
		return fmt.Errorf("%.64q: a * may only be at the end", pattern)
	}
	if !isWildcard {
		_, err := oagent.ParseReference(pattern)
		return err
	}
	reference, err := oagent.ParseReference(prefix + "x")
	switch {
	case err != nil:
		return err
	case reference.IsRemote() && !strings.HasSuffix(prefix, "/") && !strings.Contains(strings.TrimPrefix(prefix, oagent.Scheme), "/"):
		return fmt.Errorf("%.64q: a * may not be part of the host", pattern)
	case reference.Agent && !reference.IsRemote():
		return fmt.Errorf("%.64q: agents of this server must be listed by their names", pattern)
	}
	return nil
}

// Location is the location of an accepted document in messages.
func Location(name string) string { return "accepted document " + name }

// Read reads and checks a document that is to be accepted as the agent with that name. names are
// the tools and agents of the server. The error is ErrTooLarge or an oagent.LintErrors.
func (p *Policy) Read(source []byte, name string, names oagent.Names) (*oagent.Agent, error) {
	if len(source) > MaxDocument {
		return nil, ErrTooLarge
	}
	location := Location(name)
	a, err := oagent.ReadAgent(source, location)
	if err != nil {
		return nil, err
	}
	if a.Name != name {
		return nil, oagent.LintErrors{{Location: location, Line: a.Line, Rule: "name", Message: fmt.Sprintf("the document's name is %s, but the path ends in %s; they must be the same", a.Name, name)}}
	}
	faults := oagent.Lint(source, location, names)
	faults = append(faults, p.check(a, names)...)
	if len(faults) > 0 {
		return nil, faults
	}
	return a, nil
}

// Check returns an error for each capability, guardrail and identity of the agent that the Policy
// does not permit. The error is an oagent.LintErrors.
func (p *Policy) Check(a *oagent.Agent, names oagent.Names) error {
	if faults := p.check(a, names); len(faults) > 0 {
		return faults
	}
	return nil
}

func (p *Policy) check(a *oagent.Agent, names oagent.Names) (faults oagent.LintErrors) {
	add := func(line int, rule, what string, permitted []string) {
		hint := "it permits nothing"
		if len(permitted) > 0 {
			hint = "it permits " + text.Cut(strings.Join(permitted, ", "), maxListed)
		}
		faults = append(faults, &oagent.LintError{Location: a.Location, Line: line, Rule: rule, Message: fmt.Sprintf("%s is not in the operator's allow-list for accepted documents; %s", what, hint)})
	}
	for i := range a.Capabilities {
		c := &a.Capabilities[i]
		if !p.permits(c.Reference, names) {
			add(c.Line, c.Rule(), c.Reference.String(), p.Capabilities)
		}
		if c.StaticIdentity != "" && !slices.Contains(p.Identities, c.StaticIdentity) {
			add(c.Line, c.Rule()+".static_identity", "the identity "+c.StaticIdentity, p.Identities)
		}
	}
	for side, g := range map[string]*oagent.Guardrail{"input": a.Input, "output": a.Output} {
		if g != nil && !p.permits(oagent.Reference{Name: g.Tool}, names) {
			add(g.Line, "guardrails."+side+".tool_name", "the tool "+g.Tool, p.Capabilities)
		}
	}
	slices.SortStableFunc(faults, func(a, b *oagent.LintError) int { return a.Line - b.Line })
	return faults
}

// maxListed is the maximum length of a list in a message, in bytes.
const maxListed = 300

// permits reports whether a reference is in the allow-list. A wildcard never permits an agent of
// this server. The same tool may have several names.
func (p *Policy) permits(reference oagent.Reference, names oagent.Names) bool {
	target, err := reference.Resolve(names)
	isLocalAgent := err == nil && target.Tool == nil && !reference.IsRemote()
	for _, pattern := range p.Capabilities {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
			rest, ok := strings.CutPrefix(reference.String(), prefix)
			if ok && !isLocalAgent && !strings.ContainsAny(rest, "./") {
				return true
			}
			continue
		}
		listed, parseErr := oagent.ParseReference(pattern)
		switch {
		case parseErr != nil:
		case listed == reference:
			return true
		case err != nil || listed.IsRemote() || reference.IsRemote():
		case isLocalAgent:
			other, err := listed.Resolve(names)
			if err == nil && other.Tool == nil && listed.Name == reference.Name {
				return true
			}
		default:
			if other, err := listed.Resolve(names); err == nil && other.Tool == target.Tool {
				return true
			}
		}
	}
	return false
}
