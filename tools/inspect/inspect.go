// Package inspect decides what may pass between the callers of tools and an API: the arguments of calls, the
// responses, and the texts that describe tools. An Inspector lets a value pass, masks parts of it, or rejects it.
//
// A Chain applies inspectors in order. Package detect has inspectors that find secrets and personal data.
package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxBody limits what is inspected at once, in bytes. Larger values are rejected.
const MaxBody = 1 << 20

// Phase is what is inspected.
type Phase string

// The phases.
const (
	Arguments Phase = "arguments" // of a tool call: a JSON object
	Result    Phase = "result"    // the body of a response, unless it is one of the next three
	Error     Phase = "error"     // the body of a response with a status of 400 or more
	Resources Phase = "resources" // the body of a response that a client gets as a resource
	Prompts   Phase = "prompts"   // the body of a response that a client gets as a prompt
	List      Phase = "list"      // the texts of a tool in lists: a JSON object
	Request   Phase = "request"   // what a model gets: a JSON object
	Response  Phase = "response"  // what a model generates: a JSON object
)

// Phases are all phases.
var Phases = [...]Phase{Arguments, Result, Error, Resources, Prompts, List, Request, Response}

// A Message is a value to inspect. The other fields say where it belongs to.
type Message struct {
	Phase    Phase
	Body     []byte // decoded; inspectors do not change it
	JSON     bool   // the media type of Body is a JSON type
	Text     bool   // the media type of Body is a type of text
	Events   bool   // Body is the events of a stream, one a line, or an MCP result: clients may join their texts
	Tool     string // name of the tool in its toolset
	Toolset  string
	Protocol string
	Agent    string // name of the hosted agent that makes the call; "" if a client does
	User     string // id of the authenticated user, or ""
}

// isText reports whether Body is text. Inspectors let other bodies pass.
func (m *Message) isText() bool { return m.JSON || m.Text || utf8.Valid(m.Body) }

// A Verdict says what an inspector decides about a message.
type Verdict struct {
	Rejected bool
	Review   bool     // people must approve the message; Body is what they see
	Body     []byte   // replaces the body of the message; nil if it passes unchanged
	Labels   []string // what was found: "email", "github-token"
	Message  string   // of a rejection, for the model and its user; "" for a general one
	Reason   string   // for the log of the operator; never contains what was found
}

// An Inspector decides about messages. It is safe for concurrent use.
type Inspector interface {
	// Inspect returns the decision. After an error the message is rejected. Neither may contain what was found.
	Inspect(ctx context.Context, m *Message) (Verdict, error)
}

// Joining is an Inspector that decides together with those of its kind that follow it in a chain.
type Joining interface {
	Inspector

	// Join returns the verdict of the first steps of a chain, and how many these are. If one of them has rejected the message, it
	// also returns the name of that step.
	Join(chain Chain, m *Message) (verdict Verdict, steps int, rejecting string)

	// FindsIn reports whether the inspector would find something in a text.
	FindsIn(text string) bool
}

// A Step is an inspector of a Chain with its phases.
type Step struct {
	Name      string // of the inspector, for logs
	Inspector Inspector
	Phases    []Phase

	// Reviewer approves the arguments for which the inspector requires a review. "" makes it reject them instead.
	Reviewer string
	// Reviews makes the inspector require a review of what it would mask or reject.
	Reviews bool
	// LogOnly means that what the inspector would do is only reported, see Chain.Split.
	LogOnly bool
}

// A Chain applies inspectors in order. Each gets the body that the one before has passed.
type Chain []Step

// Split returns the steps that are enforced, and those in log only. Either is nil if there are none.
func (c Chain) Split() (enforced, logOnly Chain) {
	for _, step := range c {
		if step.LogOnly {
			logOnly = append(logOnly, step)
		} else {
			enforced = append(enforced, step)
		}
	}
	return enforced, logOnly
}

// Has reports whether the chain inspects a phase.
func (c Chain) Has(phase Phase) bool {
	return slices.ContainsFunc(c, func(s Step) bool { return slices.Contains(s.Phases, phase) })
}

// FindsIn reports whether an inspector of the chain that inspects results finds something in a text. Servers are not called.
func (c Chain) FindsIn(text string) bool {
	return slices.ContainsFunc(c, func(step Step) bool {
		joining, ok := step.Inspector.(Joining)
		return ok && slices.Contains(step.Phases, Result) && joining.FindsIn(text)
	})
}

// Reviewers returns who approves what the inspectors of the chain require reviews of.
func (c Chain) Reviewers() (reviewers []string) {
	for _, s := range c {
		if s.Reviewer != "" && !slices.Contains(reviewers, s.Reviewer) {
			reviewers = append(reviewers, s.Reviewer)
		}
	}
	return reviewers
}

// RejectedError says why a chain has rejected a message. Its Error is for the model and its user.
type RejectedError struct {
	Inspector string
	Labels    []string
	Message   string // "" if the inspector gives none
	Reason    string // for the log
	Failed    bool   // the inspector did not decide
}

func (r *RejectedError) Error() string {
	if r.Message != "" {
		return r.Message
	}
	if len(r.Labels) > 0 {
		return "the inspector " + r.Inspector + " found " + strings.Join(r.Labels, ", ")
	}
	return "the inspector " + r.Inspector + " rejected it"
}

// Inspect applies the chain. It returns the body that passes, which is that of the message if nothing changes, and the labels
// of what was masked. The error is a *RejectedError, or a *ReviewError.
func (c Chain) Inspect(ctx context.Context, m Message) (body []byte, labels []string, err error) {
	var review *ReviewError
	for i := 0; i < len(c); i++ {
		step := c[i]
		if !slices.Contains(step.Phases, m.Phase) || len(m.Body) == 0 || !m.isText() {
			continue
		}
		if len(m.Body) > MaxBody {
			return nil, nil, &RejectedError{Inspector: step.Name, Reason: "too large", Message: fmt.Sprintf(
				"it has %d KiB, and inspectors read at most %d KiB: select less of it", len(m.Body)>>10, MaxBody>>10)}
		}
		verdict, steps, err := c.decide(ctx, i, &m)
		if err != nil {
			return nil, nil, err
		}
		if review != nil { // the reviewer must not see what this step masks either
			shown := m
			shown.Body = review.Shown
			of, _, err := c.decide(ctx, i, &shown)
			if err != nil {
				return nil, nil, err
			}
			if of.Body != nil {
				review.Shown = of.Body
			}
		}
		switch {
		case verdict.Review:
			if review == nil {
				review = &ReviewError{Shown: m.Body}
				if verdict.Body != nil {
					review.Shown = verdict.Body
				}
			}
			review.Required = append(review.Required, Required{step.Name, step.Reviewer, verdict.Labels})
		case verdict.Body != nil:
			m.Body = verdict.Body
			labels = append(labels, verdict.Labels...)
		}
		i += steps - 1
	}
	if review != nil {
		review.Body, review.Masked = m.Body, labels
		return nil, nil, review
	}
	return m.Body, labels, nil
}

// decide returns the verdict of a step, and how many steps of the chain it is about. The error is a *RejectedError.
func (c Chain) decide(ctx context.Context, i int, m *Message) (verdict Verdict, steps int, err error) {
	step := c[i]
	steps = 1
	if joining, ok := step.Inspector.(Joining); ok {
		var rejecting string
		verdict, steps, rejecting = joining.Join(c[i:], m)
		step.Name = cmp.Or(rejecting, step.Name)
	} else if verdict, err = step.Inspector.Inspect(ctx, m); err != nil {
		return verdict, steps, &RejectedError{Inspector: step.Name, Failed: true, Reason: err.Error(), Message: "the inspector " + step.Name + " is not available; try again later"}
	}
	if step.Reviews && (verdict.Rejected || verdict.Body != nil) {
		verdict.Review, verdict.Rejected = true, false
	}
	switch {
	case verdict.Review && (m.Phase != Arguments || step.Reviewer == ""):
		err = &RejectedError{Inspector: step.Name, Labels: verdict.Labels, Reason: "a review is required, and is only possible for arguments, with the option reviewer"}
	case verdict.Rejected:
		err = &RejectedError{Inspector: step.Name, Labels: verdict.Labels, Message: verdict.Message, Reason: cmp.Or(verdict.Reason, "rejected")}
	}
	return verdict, steps, err
}

// ReviewError reports that people must approve a message before it passes. Callers that have no reviews treat it as a rejection.
type ReviewError struct {
	Required []Required
	Body     []byte   // passes after the approval
	Shown    []byte   // Body without what inspectors found, for reviewers and records
	Masked   []string // labels of what was masked in Body
}

// Required is a review that an inspector requires.
type Required struct {
	Inspector string
	Reviewer  string
	Labels    []string // what was found
}

func (r *ReviewError) Error() string {
	return "the inspector " + r.Required[0].Inspector + " requires a review of the arguments"
}
