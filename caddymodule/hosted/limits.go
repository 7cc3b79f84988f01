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
	// The maximum number of messages that the model generates for one input of the user. Default: 50.
	Turns int `json:"turns,omitempty"`

	// The maximum number of tokens, of all requests to the model and its responses together.
	// Default: 200000.
	Tokens int `json:"tokens,omitempty"`

	// The approximate maximum number of tokens of one request to the model. If the conversation is longer, the model gets old
	// results of tools shortened, and then no longer the oldest messages. Default: 100000.
	Context int `json:"context,omitempty"`

	// The maximum time that the server works on one input of the user, or waits for a model that is unavailable. The time in
	// which the run waits for a reviewer or for its user does not count. Default: 10m.
	Time caddy.Duration `json:"time,omitempty"`

	// Whether the model can ask the user questions, with the tool ask-user: on or off. Default: on.
	AskUser run.Questions `json:"ask_user,omitempty"`

	// Whether the model summarizes the oldest messages before it no longer gets them: on or off. Each summary is a further request
	// to the model. Default: off.
	Summarize run.Summaries `json:"summarize,omitempty"`
}

// Run returns the limits for the Runner. A nil Limits returns the defaults.
func (l *Limits) Run() run.Limits {
	if l == nil {
		return run.Limits{}
	}
	return run.Limits{Turns: l.Turns, Tokens: int64(l.Tokens), Context: int64(l.Context), Time: time.Duration(l.Time), Questions: l.AskUser, Summarize: l.Summarize}
}

// Check returns an error for an invalid limit. A nil Limits is valid.
func (l *Limits) Check() error {
	if l == nil {
		return nil
	}
	if l.AskUser != "" && l.AskUser != run.QuestionsAllowed && l.AskUser != run.QuestionsNone {
		return fmt.Errorf("limits: ask_user %q: use on or off", l.AskUser)
	}
	if l.Summarize != "" && l.Summarize != run.SummariesWritten && l.Summarize != run.SummariesNone {
		return fmt.Errorf("limits: summarize %q: use on or off", l.Summarize)
	}
	return errors.Join(directive.NotNegative("limits: turns", int64(l.Turns)), directive.NotNegative("limits: tokens", int64(l.Tokens)),
		directive.NotNegative("limits: context", int64(l.Context)), directive.NotNegative("limits: time", int64(l.Time)))
}

// UnmarshalLimits parses the block of the option limits. Syntax:
//
//	limits [<agents...>] {
//		turns     <number>
//		tokens    <number>
//		context   <number>
//		time      <duration>
//		ask_user  on | off
//		summarize on | off
//	}
func UnmarshalLimits(outer *directive.Block) (*Limits, error) {
	l := new(Limits)
	b := directive.NewBlock(outer.Dispenser)
	return l, b.Read("limits", directive.Options{
		"turns":   directive.To(b.Positive, &l.Turns),
		"tokens":  directive.To(b.Positive, &l.Tokens),
		"context": directive.To(b.Positive, &l.Context),
		"time":    directive.To(b.Period, &l.Time),
		"ask_user": func() error {
			return b.OneOf((*string)(&l.AskUser), string(run.QuestionsAllowed), string(run.QuestionsNone))
		},
		"summarize": func() error {
			return b.OneOf((*string)(&l.Summarize), string(run.SummariesWritten), string(run.SummariesNone))
		},
	})
}

// AgentLimits returns the limits of single agents for the Runner.
func AgentLimits(of map[string]*Limits) map[string]run.Limits {
	all := make(map[string]run.Limits, len(of))
	for agent, l := range of {
		all[agent] = l.Run()
	}
	return all
}
