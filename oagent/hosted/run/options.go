package run

import (
	"cmp"
	"context"
	"crypto/rand"
	"time"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/store"
)

// Defaults of Options and Limits.
const (
	DefaultTurns        = 50
	DefaultTokens       = 200_000
	defaultContext      = 100_000
	defaultTime         = 10 * time.Minute
	defaultResultTokens = 8000
	defaultAgentGrace   = 15 * time.Minute
	DefaultLease        = 30 * time.Second
	DefaultSweep        = 15 * time.Second
	defaultModelPause   = 5 * time.Second
)

// Limits that cannot be configured.
const (
	MaxInput    = 64 << 10  // bytes of a message from the user
	MaxInputs   = 8         // messages from the user that the run has not read yet
	MaxMessage  = 256 << 10 // bytes of a message from the model, with its calls
	MaxParallel = 8         // tool calls of one run at the same time
	MaxDepth    = 8         // runs above a run
	maxOrigin   = 16 << 10  // bytes of New.Origin

	limitTokens = "tokens" // Ending.Rule of the limit that is one of the whole run

	maxTries       = 10 // attempts at the same step; nodes may die or fail during each
	maxTurnResults = 4  // the results of one turn together are limited to this multiple of Limits.ResultTokens
	bytesPerToken  = 4  // a common average for English text and JSON
	runsPerWorker  = 16 // runs in progress, for each worker
)

// Limits bound one run. A zero value is replaced by its default.
type Limits struct {
	// The maximum number of messages that the model generates for one input of the user. Default: 50.
	Turns int `json:"turns,omitempty"`

	// The maximum number of tokens, of all requests to the model and its responses together.
	// Default: 200000.
	Tokens int `json:"tokens,omitempty"`

	// The approximate maximum number of tokens of one request to the model. If the conversation is longer, the model gets old
	// results of tools shortened, and then no longer the oldest messages. Default: 100000.
	Context int `json:"context,omitempty"`

	// Time is how long nodes may work on one input of the user, or wait for a model that is unavailable. Waiting for
	// reviewers or for the user does not count.
	Time time.Duration `json:"-"`

	// ResultTokens is the approximate length of a tool result that the model gets. Longer ones
	// are cut.
	ResultTokens int `json:"-"`

	// Whether the model can ask the user questions, with the tool ask-user: on or off. Default: on.
	Questions Questions `json:"ask_user,omitempty"`

	// Whether the model summarizes the oldest messages before it no longer gets them: on or off. Each summary is a further request
	// to the model. Default: off.
	Summarize summaries `json:"summarize,omitempty"`
}

// Questions says whether an agent can ask its user.
type Questions string

// The values of Questions.
const (
	QuestionsAllowed Questions = "on"
	QuestionsNone    Questions = "off"
)

var defaultLimits = Limits{DefaultTurns, DefaultTokens, defaultContext, defaultTime, defaultResultTokens, QuestionsAllowed, SummariesNone}

// or returns the limits with those of another value in place of zero values.
func (l Limits) or(other *Limits) Limits {
	return Limits{
		Turns: cmp.Or(l.Turns, other.Turns), Tokens: cmp.Or(l.Tokens, other.Tokens), Context: cmp.Or(l.Context, other.Context),
		Time: cmp.Or(l.Time, other.Time), ResultTokens: cmp.Or(l.ResultTokens, other.ResultTokens), Questions: cmp.Or(l.Questions, other.Questions),
		Summarize: cmp.Or(l.Summarize, other.Summarize),
	}
}

// limitsOf returns the limits of an agent.
func (o *Options) limitsOf(agent string) *Limits {
	l := o.AgentLimits[agent].or(&o.Limits)
	return &l
}

// Options configures a Runner. What has no default is required.
type Options struct {
	Store store.Store
	Guard *oagent.Guard

	// Agent returns the agent with that name, or nil if this node does not host it.
	Agent func(name string) *oagent.Agent
	// Model returns the model of an agent.
	Model func(agent *oagent.Agent) (model.Model, error)
	Tools Tools

	// Realm separates the runs of Runners that share a store but not their agents. A Runner only
	// sees the runs of its realm. Default: "", the realm of all Runners without a name for it.
	Realm string

	// Queue distributes the runs over the nodes. A job is the id of a run to claim. The queue may lose
	// jobs: the next sweep of a node finds their runs (Sweep). Default: all runs stay on this node.
	Queue store.Queue

	// Limits are those of all agents.
	Limits Limits
	// AgentLimits are limits of single agents, by their names. Their zero values are those of Limits.
	AgentLimits map[string]Limits

	// Budgets returns the budgets that apply to a run.
	Budgets func(*Assignment) []Budget
	// Groups returns the groups of the user of a run, for DayUsage.
	Groups func(*Assignment) []string
	// BudgetChecked is called with each budget of a run before a request to its model. It must return quickly.
	BudgetChecked func(b *Budget, used model.Usage, isReached bool)

	// Node is the name of this node. Each Runner on a store needs its own. Default: a random name.
	Node string
	// Process is lease.ProcessOf of the store. If it is set, runs of an earlier process are resumed at once;
	// otherwise only when their leases have expired. Default: "", processes share the store.
	Process string
	// Workers is how many runs this node works on at the same time. A user can have about three quarters
	// of them, see package share. 16 times as many runs can be in progress, which includes those that are
	// queued. Default: defaultWorkers.
	Workers int
	// Lease is the time after which other nodes may claim the runs of a node that no longer responds.
	// Default: DefaultLease.
	Lease time.Duration
	// Sweep is the time between two searches for runs that can continue and that no node works on.
	// Default: DefaultSweep.
	Sweep time.Duration
	// ModelPause is the pause after the first failed request to a model that does not say how long to wait. It doubles with
	// each further one, up to a minute. Default: 5 seconds.
	ModelPause time.Duration
	// AgentGrace is how long runs of an agent that no node hosts wait for it to return. Then they end.
	// Default: 15 minutes.
	AgentGrace time.Duration
	// TTL is the lifetime of a run after its last change, and of what is retained of a user.
	// Default: oagent.DefaultTTL. It should not be less than that of the Guard.
	TTL time.Duration

	// Decide records the decision of a run about its review, see State.Review: approve or deny, with a
	// comment. The decision is "" if the run has ended, whether it has decided or not. If that fails, it is
	// repeated. The error may be an *engagement.Refusal.
	Decide func(ctx context.Context, st *State, decision, comment string) error

	// Notices are the notices about runs that are recorded. Default: none.
	Notices *NoticeOptions

	// Ended is called when this node has ended a run, or a round of it (State.Round). It must return quickly.
	Ended func(id string, round int)
	// Handover is called with each run that Close interrupts, and with those that have something to do
	// afterwards. A later Runner of this process can resume them at once, without waiting for its next
	// sweep.
	Handover func(id string)

	// Trace is called when this node begins to work on a run. It returns the context of the work, and a
	// function to call when the run waits or has ended.
	Trace func(ctx context.Context, st *State) (context.Context, func(*State))

	// Warn is called when more than 80 % of the runs that can be in progress are. It must return quickly.
	// Default: none.
	Warn func(share.Usage)
	// Report is called with errors that an operator should see. It must return quickly.
	Report func(id string, err error)
	// Now returns the current time. Default: time.Now.
	Now func() time.Time
}

func (o *Options) setDefaults() {
	o.Limits = o.Limits.or(&defaultLimits)
	if o.Node == "" {
		o.Node = rand.Text()
	}
	o.Node = o.Process + o.Node
	if o.Workers <= 0 {
		o.Workers = defaultWorkers()
	}
	if o.Lease <= 0 {
		o.Lease = DefaultLease
	}
	if o.Sweep <= 0 {
		o.Sweep = DefaultSweep
	}
	if o.ModelPause <= 0 {
		o.ModelPause = defaultModelPause
	}
	if o.AgentGrace <= 0 {
		o.AgentGrace = defaultAgentGrace
	}
	if o.TTL <= 0 {
		o.TTL = oagent.DefaultTTL
	}
	o.TTL = min(o.TTL, store.MaxTTL)
	if o.Now == nil {
		o.Now = time.Now
	}
}

// resultBytes returns the approximate number of bytes of each result, if a message has that many
// calls.
func (l *Limits) resultBytes(calls int) int {
	limit := l.ResultTokens * bytesPerToken
	return min(limit, maxTurnResults*limit/max(1, calls))
}
