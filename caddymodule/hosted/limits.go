package hosted

import (
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

// Limits are limits on the run of an agent. Those of a single agent have the other ones as defaults.
type Limits struct {
	run.Limits

	// The maximum time that the server works on one input of the user, or waits for a model that is unavailable. The time in
	// which the run waits for a reviewer or for its user does not count. Default: 10m.
	Time caddy.Duration `json:"time,omitempty"`
}

// Run returns the limits for the Runner. A nil Limits returns the defaults.
func (l *Limits) Run() run.Limits {
	if l == nil {
		return run.Limits{}
	}
	limits := l.Limits
	limits.Time = time.Duration(l.Time)
	return limits
}

// Check returns an error for an invalid limit. A nil Limits is valid.
func (l *Limits) Check() error {
	if l == nil {
		return nil
	}
	if l.Questions != "" && l.Questions != run.QuestionsAllowed && l.Questions != run.QuestionsNone {
		return fmt.Errorf("limits: ask_user %q: use on or off", l.Questions)
	}
	if l.Summarize != "" && l.Summarize != run.SummariesWritten && l.Summarize != run.SummariesNone {
		return fmt.Errorf("limits: summarize %q: use on or off", l.Summarize)
	}
	return errors.Join(directive.NotNegative("limits: turns", int64(l.Turns)), directive.NotNegative("limits: tokens", int64(l.Tokens)),
		directive.NotNegative("limits: context", int64(l.Context)), directive.NotNegative("limits: time", int64(l.Time)))
}

// unmarshalLimits parses the block of the option limits. Syntax:
//
//	limits [<agents...>] {
//		turns     <number>
//		tokens    <number>
//		context   <number>
//		time      <duration>
//		ask_user  on | off
//		summarize on | off
//	}
func unmarshalLimits(outer *directive.Block) (*Limits, error) {
	l := new(Limits)
	b := directive.NewBlock(outer.Dispenser)
	return l, b.Read("limits", directive.Options{
		"turns":   directive.To(b.Positive, &l.Turns),
		"tokens":  directive.To(b.Positive, &l.Tokens),
		"context": directive.To(b.Positive, &l.Context),
		"time":    directive.To(b.Period, &l.Time),
		"ask_user": func() error {
			return b.OneOf((*string)(&l.Questions), string(run.QuestionsAllowed), string(run.QuestionsNone))
		},
		"summarize": func() error {
			return b.OneOf((*string)(&l.Summarize), string(run.SummariesWritten), string(run.SummariesNone))
		},
	})
}

// runLimits returns the limits of single agents for the Runner.
func runLimits(of map[string]*Limits) map[string]run.Limits {
	all := make(map[string]run.Limits, len(of))
	for agent, l := range of {
		all[agent] = l.Run()
	}
	return all
}

// unmarshalLimits parses limits of single agents, or those of all others.
func (c *Config) unmarshalLimits(b *directive.Block) error {
	agents := b.RemainingArgs()
	if len(agents) == 0 && c.Limits != nil {
		return b.Err("limits is given twice: put all options into one limits")
	}
	for _, agent := range agents {
		if c.AgentLimits[agent] != nil {
			return b.Errf("limits of agent %s are given twice", agent)
		}
	}
	l, err := unmarshalLimits(b)
	if len(agents) == 0 {
		c.Limits = l
		return err
	}
	if c.AgentLimits == nil {
		c.AgentLimits = make(map[string]*Limits)
	}
	for _, agent := range agents {
		c.AgentLimits[agent] = l
	}
	return err
}
