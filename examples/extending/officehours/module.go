// Package officehours is an example of a guest module of oagent.reviewers: it approves calls in office hours.
package officehours

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/caddymodule/oagent/reviewers"
)

func init() {
	caddy.RegisterModule(new(OfficeHours))
}

// OfficeHours approves a call between two hours of the day, and denies it otherwise.
type OfficeHours struct {
	// The first hour, in UTC. Default: 0.
	From int `json:"from,omitempty"`

	// The hour after the last one, at most 24. Required.
	To int `json:"to,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (*OfficeHours) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "oagent.reviewers.office_hours", New: func() caddy.Module { return new(OfficeHours) }}
}

// Provision checks the options.
func (o *OfficeHours) Provision(caddy.Context) error {
	if o.From < 0 || o.To <= o.From || o.To > 24 {
		return fmt.Errorf("office_hours: %d to %d are not hours of a day", o.From, o.To)
	}
	return nil
}

// Target implements reviewers.Asker.
func (o *OfficeHours) Target() string { return fmt.Sprintf("office hours %d-%d", o.From, o.To) }

// Ask implements reviewers.Asker.
func (o *OfficeHours) Ask(_ context.Context, question *reviewers.Question) (*reviewers.Answer, error) {
	if hour := question.Review.AskedAt.UTC().Hour(); hour < o.From || hour >= o.To {
		return &reviewers.Answer{Decision: reviewers.Deny, Comment: "asked at " + question.Review.AskedAt.Format(time.Kitchen)}, nil
	}
	return &reviewers.Answer{Decision: reviewers.Approve, Comment: "in office hours"}, nil
}

// UnmarshalCaddyfile parses: office_hours <from> <to>
func (o *OfficeHours) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // office_hours
	var from, to string
	if !d.AllArgs(&from, &to) || d.NextBlock(d.Nesting()) {
		return d.Err("office_hours needs two hours, as in: ask office_hours 8 18")
	}
	var errFrom, errTo error
	o.From, errFrom = strconv.Atoi(from)
	o.To, errTo = strconv.Atoi(to)
	if errFrom != nil || errTo != nil {
		return d.Errf("office_hours: %q or %q is not an hour", from, to)
	}
	return nil
}

// Interface guards
var (
	_ reviewers.Asker       = (*OfficeHours)(nil)
	_ caddy.Provisioner     = (*OfficeHours)(nil)
	_ caddyfile.Unmarshaler = (*OfficeHours)(nil)
)
