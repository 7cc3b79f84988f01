package oagent

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent/assertion"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// DocumentKind is the required value of a document's kind.
const DocumentKind = "openagentspec:v1/agent"

// Agent is a parsed OpenAgentSpec document (OpenAgentSpec v1, Agent). It is immutable and safe
// for concurrent use.
type Agent struct {
	Name        string // RFC 1123 DNS subdomain, unique within a server
	Description string // written in the third person
	Intent      string // the goal, written in the second person
	Owner       string // identifier of the owner

	Capabilities  []Capability // in document order
	Input, Output *Guardrail   // nil if absent
	Exposes       []Exposure   // in document order

	RetainMemory bool // whether context may be kept across Engagements; default true
	ShortCircuit int  // the number of repetitions that is refused, at least 2; 0 if there is no limit

	GuardrailsLogOnly bool // the guardrails are not enforced, see Capability.LogOnly

	OutputSchema *OutputSchema // of the final answer of a hosted agent; nil if it is text

	Source   []byte // the document's bytes; must not be changed
	Location string // the document's location for messages
	Hash     string // digest of Source
	Line     int    // first line of the document in its file, counted from 1

	unknown LintErrors     // names in Exposes that are no capabilities; such values are never exposed
	index   map[string]int // name → index in Capabilities; nil if the agent was not built by ReadAgent
}

// Capability is a tool or an agent that an Agent may invoke.
type Capability struct {
	Reference Reference

	CollectResults bool   // whether to add outputs to the Engagement; default true
	UserIdentity   bool   // whether the tool is called with the calling user's identity; default true
	StaticIdentity string // identifier of the credentials to use otherwise; "" if none

	Input, Output *Restriction // nil if absent

	// LogOnly means that the restrictions are not enforced: the Guard decides without them, and records what they would have
	// changed (see Ticket.Would). The document cannot say so; the reader of the document may set it before the Agent is used.
	LogOnly bool

	Line int // its line in the document
}

// Restriction is a condition on a capability. An input restriction must hold before the
// capability is invoked, an output restriction before its result is used.
type Restriction struct {
	RequireReview string               // the user or agent that must confirm; "" if none
	Assertion     *assertion.Assertion // nil if absent
}

// Guardrail names a tool that checks the user's input or the model's output, and the assertion
// that must hold for the tool's output.
type Guardrail struct {
	Tool      string               // in kebab case
	Assertion *assertion.Assertion // never nil; see assertion.Assertion.CheckOutput
	Line      int
}

// Enforces reports whether the agent has a guardrail of that side that can refuse a text.
func (a *Agent) Enforces(side engagement.Side) bool {
	return a.Guardrail(side) != nil && !a.GuardrailsLogOnly
}

// Exposure is a value of the Engagement that is returned to the calling user.
type Exposure struct {
	Name  string
	Value *assertion.Selection
}

// Capability returns the capability with that name. The name of a tool is in kebab case.
func (a *Agent) Capability(name string) (*Capability, bool) {
	if a.index != nil {
		i, ok := a.index[name]
		if !ok {
			return nil, false
		}
		return &a.Capabilities[i], true
	}
	for i := range a.Capabilities {
		if a.Capabilities[i].Reference.Name == name {
			return &a.Capabilities[i], true
		}
	}
	return nil, false
}

// Rule returns the path of the capability in its document.
func (c *Capability) Rule() string {
	return capabilityRule + c.Reference.String()
}

// RequiresReview reports whether a restriction of the capability requires a review. It may be nil.
func (c *Capability) RequiresReview(r *Restriction) bool {
	return r != nil && r.RequireReview != "" && !c.LogOnly
}

// collected returns the outputs, or nil if the record must not keep them.
func (c *Capability) collected(outputs jsontext.Value) jsontext.Value {
	if !c.CollectResults {
		return nil
	}
	return outputs
}

// Identity selects the credentials that a capability is called with.
type Identity struct {
	User   bool   // the calling user's own credentials
	Static string // name of configured credentials; "" if none
}

// Identity selects the credentials that the capability is called with (OpenAgentSpec v1,
// Agent, user_identity and static_identity):
//
//	user_identity  static_identity  the caller is known  credentials
//	true           any              yes                  the user's
//	true           named            no                   the named
//	true           none             no                   none
//	false          named            any                  the named
//	false          none             any                  none
//
// If the result is none, no credentials of the caller are sent to the upstream.
func (c *Capability) Identity(callerKnown bool) Identity {
	if c.UserIdentity && callerKnown {
		return Identity{User: true}
	}
	return Identity{Static: c.StaticIdentity}
}
