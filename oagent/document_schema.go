package oagent

import (
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/fairwayhq/fairway/internal/yamltree"
	"github.com/fairwayhq/fairway/oagent/assertion"
)

// Limits on the strings of a document.
const (
	maxProse      = 64 << 10 // bytes of a description or an intent
	maxIdentifier = 1024     // bytes of the identifier of a user, of credentials or of an owner
	maxExposure   = 128      // bytes of the name of an exposed value

	// MaxShortCircuit is the maximum value of short_circuit.
	MaxShortCircuit = 1000
)

const (
	capabilityRule = "capabilities."
	guardrailRule  = "guardrails."
	exposureRule   = "exposes."
)

// field is a key that a mapping may have.
type field struct {
	name     string
	required string // an example for the error message if it is missing; "" if it is optional
	read     func(n *yaml.Node, rule string)
}

// agent reads the whole document (OpenAgentSpec v1, Agent).
func (r *reader) agent(a *Agent, root *yaml.Node) {
	if kind := yamltree.Member(root, "kind"); kind != nil && !yamltree.IsNull(kind) && kind.Value != DocumentKind {
		r.fault(kind, "kind", "unsupported kind %.64q; expected %q", kind.Value, DocumentKind)
		return
	}
	r.mapping(root, "", []field{
		{"kind", "kind: " + strconv.Quote(DocumentKind), func(n *yaml.Node, rule string) { r.text(n, rule, maxIdentifier) }},
		{"name", "name: my-agent", func(n *yaml.Node, rule string) { a.Name = r.name(n, rule) }},
		{"description", "a description of the agent, in the third person", func(n *yaml.Node, rule string) { a.Description = r.text(n, rule, maxProse) }},
		{"intent", "the goal of the agent, in the second person", func(n *yaml.Node, rule string) { a.Intent = r.text(n, rule, maxProse) }},
		{"owner", "the team or person that owns the agent", func(n *yaml.Node, rule string) { a.Owner = r.identifier(n, rule) }},
		{"capabilities", "a mapping of tools and agents, or {} for none", func(n *yaml.Node, rule string) { r.capabilities(a, n, rule) }},
		{"guardrails", "", func(n *yaml.Node, rule string) {
			r.mapping(n, rule, []field{
				{"input", "", func(n *yaml.Node, rule string) { a.Input = r.guardrail(n, rule) }},
				{"output", "", func(n *yaml.Node, rule string) { a.Output = r.guardrail(n, rule) }},
			})
		}},
		{"exposes", "", func(n *yaml.Node, rule string) { r.exposes(a, n, rule) }},
		{"lifespan", "", func(n *yaml.Node, rule string) {
			r.mapping(n, rule, []field{
				{"retain_memory", "", func(n *yaml.Node, rule string) { a.RetainMemory = r.boolean(n, rule) }},
				{"short_circuit", "", func(n *yaml.Node, rule string) { a.ShortCircuit = r.shortCircuit(n, rule) }},
			})
		}},
	})
}

func (r *reader) capabilities(a *Agent, n *yaml.Node, rule string) {
	lines := make(map[string]int)
	a.index = make(map[string]int)
	r.each(n, rule, MaxCapabilities, func(key, value *yaml.Node, rule string) {
		reference, err := ParseReference(key.Value)
		if err != nil {
			r.fault(key, rule, "%v", err)
			return
		}
		if line, taken := lines[reference.Name]; taken {
			r.fault(key, rule, "line %d already has %s, and both would share one entry of the Engagement; keep one of them", line, reference.Name)
			return
		}
		lines[reference.Name] = key.Line
		a.index[reference.Name] = len(a.Capabilities)
		a.Capabilities = append(a.Capabilities, r.capability(reference, value, rule, key.Line))
	})
}

func (r *reader) capability(reference Reference, n *yaml.Node, rule string, line int) Capability {
	c := Capability{Reference: reference, CollectResults: true, UserIdentity: true, Line: line}
	if yamltree.IsNull(n) {
		return c
	}
	r.mapping(n, rule, []field{
		{"collect_results", "", func(n *yaml.Node, rule string) { c.CollectResults = r.boolean(n, rule) }},
		{"user_identity", "", func(n *yaml.Node, rule string) { c.UserIdentity = r.boolean(n, rule) }},
		{"static_identity", "", func(n *yaml.Node, rule string) { c.StaticIdentity = r.identifier(n, rule) }},
		{"input_restriction", "", func(n *yaml.Node, rule string) { c.Input = r.restriction(n, rule) }},
		{"output_restriction", "", func(n *yaml.Node, rule string) { c.Output = r.restriction(n, rule) }},
	})
	return c
}

func (r *reader) restriction(n *yaml.Node, rule string) *Restriction {
	restriction := &Restriction{}
	r.mapping(n, rule, []field{
		{"require_review", "", func(n *yaml.Node, rule string) { restriction.RequireReview = r.identifier(n, rule) }},
		{"assertion", "", func(n *yaml.Node, rule string) {
			r.expression(n, rule, func(source assertion.Source, names *assertion.Names) (err error) {
				restriction.Assertion, err = assertion.Compile(source, names)
				return err
			})
		}},
	})
	return restriction
}

func (r *reader) guardrail(n *yaml.Node, rule string) *Guardrail {
	g := &Guardrail{Line: n.Line}
	r.mapping(n, rule, []field{
		{"tool_name", "the tool that the guardrail calls", func(n *yaml.Node, rule string) { g.Tool = r.name(n, rule) }},
		{"assertion", "what must hold for the tool's output, in CEL", func(n *yaml.Node, rule string) {
			r.expression(n, rule, func(source assertion.Source, _ *assertion.Names) (err error) {
				g.Assertion, err = assertion.CompileOutput(source)
				return err
			})
		}},
	})
	return g
}

func (r *reader) exposes(a *Agent, n *yaml.Node, rule string) {
	r.each(n, rule, MaxExposes, func(key, value *yaml.Node, rule string) {
		if len(key.Value) > maxExposure || strings.ContainsFunc(key.Value, unicode.IsControl) || strings.TrimSpace(key.Value) == "" {
			r.fault(key, rule, "a name must have 1 to %d characters, all printable", maxExposure)
		}
		i := len(a.Exposes)
		a.Exposes = append(a.Exposes, Exposure{Name: key.Value})
		r.expression(value, rule, func(source assertion.Source, names *assertion.Names) (err error) {
			a.Exposes[i].Value, err = assertion.CompileSelection(source, names)
			return err
		})
	})
}

// expression reads a CEL expression, which is compiled when all names are known.
func (r *reader) expression(n *yaml.Node, rule string, compile func(assertion.Source, *assertion.Names) error) {
	n = yamltree.Resolve(n)
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool" {
		plain := *n
		plain.Value = strconv.FormatBool(r.boolean(n, rule))
		n = &plain
	} else {
		before := len(r.faults)
		if r.text(n, rule, MaxExpressions); before != len(r.faults) {
			return
		}
	}
	r.pending = append(r.pending, uncompiled{node: n, rule: rule, compile: compile})
}

func (r *reader) name(n *yaml.Node, rule string) string {
	before := len(r.faults)
	name := r.text(n, rule, maxIdentifier)
	if before != len(r.faults) {
		return ""
	}
	if err := CheckName(name); err != nil {
		r.fault(n, rule, "%v", err)
	}
	return name
}

// identifier reads the identifier of a user, of credentials or of an owner.
func (r *reader) identifier(n *yaml.Node, rule string) string {
	before := len(r.faults)
	text := r.text(n, rule, maxIdentifier)
	switch {
	case before != len(r.faults):
	case text == "None":
		r.fault(n, rule, `None is a string in YAML; omit %s, write null, or quote "none" if that is the name`, lastKey(rule))
	case strings.TrimSpace(text) != text || strings.ContainsFunc(text, unicode.IsControl):
		r.fault(n, rule, "%.64q has leading or trailing space, or characters that are not printable", text)
	}
	return text
}

func (r *reader) shortCircuit(n *yaml.Node, rule string) int {
	n = yamltree.Resolve(n)
	number, err := strconv.Atoi(n.Value)
	switch {
	case n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || err != nil:
		r.fault(n, rule, "expected a whole number, not %s", yamltree.Describe(n))
	case number < 2:
		r.fault(n, rule, "%d would refuse every call; use 2 or more, or omit short_circuit for no limit", number)
	case number > MaxShortCircuit:
		r.fault(n, rule, "%d exceeds the limit of %d", number, MaxShortCircuit)
	}
	return number
}
