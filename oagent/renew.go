package oagent

import (
	"context"

	"github.com/fairwayhq/fairway/oagent/engagement"
)

// Renew ends the Engagement with that key and begins a new one, see engagement.Records.Renew.
// Undecided reviews of the old Engagement are denied, and held results are deleted.
func (g *Guard) Renew(ctx context.Context, key string, renewal engagement.Renewal) (*engagement.Summary, error) {
	renewed, dropped, err := g.Engagements.Renew(ctx, key, renewal)
	if err != nil {
		return nil, err
	}
	ctx, cancel := engagement.Detach(ctx)
	defer cancel()
	for i := range dropped {
		_ = g.Reviews.Abandon(ctx, dropped[i].ID, "the Engagement was renewed") // best effort: the Engagement no longer refers to the review
	}
	return renewed, nil
}
