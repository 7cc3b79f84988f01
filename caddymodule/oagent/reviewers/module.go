package reviewers

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairwayhq/fairway/oagent/review"
)

// Namespace has the programs of reviewing agents. In JSON, the member inlineKey has the name of the module.
const (
	namespace = "oagent.reviewers"
	inlineKey = "module"
)

// Asker is a guest module of the namespace oagent.reviewers: the program of a reviewing agent. Its methods are
// safe for concurrent use.
type Asker interface {
	// Ask returns the program's decision about a review. The context ends at the agent's timeout. An error means that nothing is
	// decided: it is logged, so it must contain no secrets and nothing of the question, and Ask is called again
	// later. A review may be asked about twice if the process ends in between; its ID stays the same.
	Ask(ctx context.Context, question *Question) (*Answer, error)

	// Target names the program in logs, without secrets.
	Target() string
}

// Question is a review that a program must decide. Its input guardrail has checked it.
type Question struct {
	Review *Shown
	JSON   []byte // the same, encoded
}

// Answer is the decision of a program.
type Answer struct {
	Decision string // Approve, Deny or Pending
	Comment  string // shown to others; at most review.MaxComment bytes
}

// check returns an error if the answer of a module is invalid.
func (a *Answer) check() error {
	switch {
	case a == nil || a.Decision != Approve && a.Decision != Deny && a.Decision != pending:
		return errors.New("decision in the response must be approve, deny or pending")
	case len(a.Comment) > review.MaxComment:
		return fmt.Errorf("comment in the response has %d bytes; the limit is %d", len(a.Comment), review.MaxComment)
	}
	return nil
}
