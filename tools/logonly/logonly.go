// Package logonly says what rules that are not enforced would have done to a call.
package logonly

// Would says what a rule in log only would have done to a call that went through. It is zero if no such rule would have
// changed the decision of the rules that are enforced.
type Would struct {
	Effect string `json:"effect"` // one of the effects below
	Rule   string `json:"rule"`   // path in the agent's document, or the toolset and its option
	Why    string `json:"reason,omitzero"`
}

// Values of Would.Effect: the call would have been …
const (
	Refuse = "refused"
	Hold   = "held for review"
	Mask   = "masked"
)

// String says in words what would have happened.
func (w Would) String() string {
	if w.Effect == "" {
		return ""
	}
	return "would have been " + w.Effect
}
