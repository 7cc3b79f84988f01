package oagent

import (
	"fmt"
	"net/http"
	"slices"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/review"
	"github.com/fairwayhq/fairway/tools/inspect"
)

// Inspectors of a toolset with the action review require that reviewers approve a call. The reviewers and the record see its
// arguments without what the inspectors have found. This file is for such calls.

// Originals configures the encryption of original arguments, and who may read them.
type Originals struct {
	// The users who may read the original arguments of the reviews that they decide. An entry group:NAME is for the members of
	// a group. Default: none; reviews do not keep the originals.
	Users []string `json:"users,omitempty"`

	// The secret from which the keys are derived, with at least 16 bytes; the same on all nodes. Placeholders such as
	// {env.REVIEW_SECRET} are replaced. Required.
	Secret string `json:"secret,omitempty"`

	// The secret before the current one. What it encrypted can be read. Default: none.
	PreviousSecret string `json:"previous_secret,omitempty"`

	opened *review.Originals
}

// unmarshalOriginals reads the subdirective originals.
func (o *Handler) unmarshalOriginals(b *directive.Block) error {
	o.Originals = new(Originals)
	return b.Single(func(b *directive.Block) error {
		if b.CountRemainingArgs() > 0 {
			if err := b.Each(&o.Originals.Users, identity.CheckEntry); err != nil {
				return err
			}
		}
		inner := directive.NewBlock(b.Dispenser)
		return inner.Read("originals", directive.Options{
			"secret": func() error { return inner.ReadSecrets(&o.Originals.Secret, &o.Originals.PreviousSecret) },
		})
	})
}

// provisionOriginals derives the keys, and rejects a toolset whose inspectors require reviews without them.
func (o *Handler) provisionOriginals() error {
	if o.Originals != nil {
		secrets, err := directive.Secrets("originals", "REVIEW_SECRET", o.Originals.Secret, o.Originals.PreviousSecret)
		if err != nil {
			return err
		}
		for _, entry := range o.Originals.Users {
			if err := identity.CheckEntry(entry); err != nil {
				return fmt.Errorf("originals %s: %w", entry, err)
			}
		}
		o.Originals.opened = review.NewOriginals(secrets)
		o.Originals.opened.Keep = len(o.Originals.Users) > 0
		return nil
	}
	for _, t := range o.Matched {
		if t.Inspect.Reviewers() != nil {
			return fmt.Errorf("an inspector of toolset %s requires reviews, for which oagent needs a secret, as in: originals group:privacy { secret {env.REVIEW_SECRET} }", t.Name)
		}
	}
	return nil
}

// Keys returns the keys for original arguments, or nil.
func (o *Originals) Keys() *review.Originals {
	if o == nil {
		return nil
	}
	return o.opened
}

// mayRead returns the keys if the user may read originals, or nil.
func (o *Originals) mayRead(user *identity.User) *review.Originals {
	if o == nil || !user.IsIn(o.Users) {
		return nil
	}
	return o.opened
}

// warnInspectorReviews logs a warning for each reviewer of an inspector who cannot decide.
func warnInspectorReviews(o *Handler, set *agentset.Set, login bool) {
	for _, t := range o.Matched {
		for _, reviewer := range t.Inspect.Reviewers() {
			warnUndecidable(o, set, o.logger.With(zap.String("toolset", t.Name), zap.String("reviewer", reviewer)), reviewer, login)
		}
	}
}

// requireReview returns what the inspectors require, for the Guard. Shown are the arguments for reviewers and records.
func requireReview(q request, op requestedOperation, required *inspect.ReviewError) (*oagent.Inspected, *refusalError) {
	shown, err := oagent.CheckInputs(required.Shown)
	switch {
	case err != nil:
		return nil, refuseUnreviewable(q, op, "the inspector shows the reviewer no JSON object: "+err.Error())
	case q.handler.Originals == nil:
		return nil, refuseUnreviewable(q, op, "oagent has no option originals")
	}
	inspected := &oagent.Inspected{Inputs: shown}
	for _, r := range required.Required {
		inspected.Required = append(inspected.Required, oagent.RequiredReview{
			Reviewer: r.Reviewer, Rule: "inspect." + r.Inspector, Inspector: r.Inspector, Found: slices.Clone(r.Labels),
		})
	}
	return inspected, nil
}

// WarnUnreviewable logs that a call was refused, because inspectors require a review that is not possible.
func WarnUnreviewable(logger *zap.Logger, toolset, tool, cause string) {
	logger.Warn("a tool call was refused: an inspector requires a review that is not possible",
		zap.String("toolset", toolset), zap.String("tool", tool), zap.String("cause", cause))
}

// refuseUnreviewable refuses a call for which inspectors require a review that is not possible.
func refuseUnreviewable(q request, op requestedOperation, cause string) *refusalError {
	WarnUnreviewable(q.handler.logger, op.operation.Toolset.Name, op.name, cause)
	return refuse(kindInspected, http.StatusForbidden, "", "the call of "+op.name+
		" was not made: an inspector requires a review of its arguments, which is not possible: "+cause, nil)
}
