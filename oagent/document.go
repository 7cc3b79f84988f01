package oagent

// DocumentKind is what a document's kind must be.
const DocumentKind = "openagentspec:v1/agent"

// An Agent is an OpenAgentSpec document (OpenAgentSpec v1, Agent). It is
// immutable and safe for concurrent use.
type Agent struct {
	Name        string // RFC 1123 DNS subdomain, unique within a server
	Description string // what it is, in the third person
	Intent      string // its goal, in the second person
	Owner       string // whose it is

	Capabilities  []Capability // in the order of the document
	Input, Output *Guardrail   // nil if there is none
	Exposes       []Exposure   // in the order of the document

	RetainMemory bool // context may be kept over Engagements; true if the document does not say
	ShortCircuit int  // the number of repetitions that is refused, 2 at least; 0 if there is no limit

	Source   []byte // the document as it stands; must not be changed
	Location string // where the document is from, for people
	Hash     string // of Source: equal documents have equal hashes
	Line     int    // where the document begins, from 1

	index map[string]int // of Capabilities, by name; nil if the agent was not read
}

// A Capability is a tool or an agent that an Agent may invoke.
type Capability struct {
	Reference Reference

	CollectResults bool   // outputs belong in the Engagement; true if the document does not say
	UserIdentity   bool   // the tool is used as the calling user; true if the document does not say
	StaticIdentity string // names the credentials to use otherwise; "" if there are none

	Input, Output *Restriction // nil if there is none

	Line int // where it stands in the document
}

// A Restriction is what must hold before a capability is invoked, or before its
// result is used.
type Restriction struct {
	RequireReview string     // the user or agent who must confirm; "" if nobody
	Assertion     *Assertion // nil if there is none
}

// A Guardrail is a tool that looks at what the user says, or at what the model
// answers, and what must hold for the tool's output.
type Guardrail struct {
	Tool      string     // in kebab case
	Assertion *Assertion // never nil; see Assertion.CheckOutput
	Line      int
}

// An Exposure is a value of the Engagement that the calling user is told.
type Exposure struct {
	Name  string
	Value *Selection
}

// Capability returns the capability of that name, which is a tool's in kebab
// case or an agent's.
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
