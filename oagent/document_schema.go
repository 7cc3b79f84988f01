package oagent

import (
	"slices"
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

	// maxShortCircuit is the maximum value of short_circuit.
	maxShortCircuit = 1000
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
		{extension, "", func(n *yaml.Node, rule string) {
			r.mapping(n, rule, []field{
				{"output_schema", "", func(n *yaml.Node, rule string) { a.OutputSchema = r.outputSchema(n, rule) }},
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
	r.each(n, rule, maxExposes, func(key, value *yaml.Node, rule string) {
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
		if r.text(n, rule, maxExpressions); before != len(r.faults) {
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
		r.fault(n, rule, `None is a string in YAML; omit %s, write null, or quote "none" if that is the name`, rule[strings.LastIndexByte(rule, '.')+1:])
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
	case number > maxShortCircuit:
		r.fault(n, rule, "%d exceeds the limit of %d", number, maxShortCircuit)
	}
	return number
}

// mapping reads the fields of a mapping. A key whose value is null counts as absent.
func (r *reader) mapping(n *yaml.Node, rule string, fields []field) {
	seen := make(map[string]bool)
	r.each(n, rule, len(fields)+maxFaults, func(key, value *yaml.Node, rule string) {
		at := slices.IndexFunc(fields, func(f field) bool { return f.name == key.Value })
		if at < 0 {
			r.fault(key, rule, "unknown key%s; known keys: %s", suggest(key.Value, namesOf(fields)), strings.Join(namesOf(fields), ", "))
			return
		}
		if !yamltree.IsNull(value) {
			seen[key.Value] = true
			fields[at].read(value, rule)
		}
	})
	if yamltree.Resolve(n).Kind != yaml.MappingNode {
		return
	}
	for _, f := range fields {
		if f.required != "" && !seen[f.name] {
			r.fault(n, join(rule, f.name), "missing required key; expected %s", f.required)
		}
	}
}

func namesOf(fields []field) []string {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].name
	}
	return names
}

// each calls entry for each entry of a mapping. It checks that the keys are unique strings.
func (r *reader) each(n *yaml.Node, rule string, most int, entry func(key, value *yaml.Node, rule string)) {
	mapping := yamltree.Resolve(n)
	if mapping.Kind != yaml.MappingNode {
		r.fault(n, rule, "expected a mapping of keys to values, not %s", yamltree.Describe(mapping))
		return
	}
	if len(mapping.Content) > 2*most {
		r.fault(n, rule, "the limit is %d entries", most)
		return
	}
	keys := make(yamltree.Keys)
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		path := rule
		if yamltree.IsString(key) {
			path = join(rule, key.Value)
		}
		if err := keys.Add(key); err != nil {
			r.fault(key, path, "%v", err)
			continue
		}
		entry(key, value, path)
	}
}

func join(rule, key string) string {
	const most = maxName // bytes of a key in a path
	if len(key) > most {
		key = strings.ToValidUTF8(key[:most], "") + "…"
	}
	if strings.ContainsFunc(key, unicode.IsControl) {
		key = strconv.Quote(key)
	}
	if rule == "" {
		return key
	}
	return rule + "." + key
}

// text reads a non-empty string.
func (r *reader) text(n *yaml.Node, rule string, most int) string {
	n = yamltree.Resolve(n)
	switch {
	case n.Kind != yaml.ScalarNode:
		r.fault(n, rule, "expected a string, not %s", yamltree.Describe(n))
	case n.ShortTag() != "!!str":
		r.fault(n, rule, "expected a string, not %s; put it in quotes", yamltree.Describe(n))
	case strings.TrimSpace(n.Value) == "":
		r.fault(n, rule, "the value is empty")
	case len(n.Value) > most:
		r.fault(n, rule, "the value has %d bytes; the limit is %d", len(n.Value), most)
	}
	return n.Value
}

// boolean reads true or false. It also accepts True and False, as Python writes them.
func (r *reader) boolean(n *yaml.Node, rule string) bool {
	value, ok := yamltree.Bool(n)
	if !ok {
		r.fault(n, rule, "expected true or false, not %s", yamltree.Describe(yamltree.Resolve(n)))
	}
	return value
}
