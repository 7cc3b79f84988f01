package metrics

import (
	"slices"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/internal/text"
)

// Callers configures the labels of the metrics fairway_caller_*, which say who calls tools.
type Callers struct {
	// The groups that the label `group` can have, in the order of their preference: the label is the first one
	// that the user is in. Default: none, the label is empty.
	Groups []string `json:"groups,omitempty"`

	// For how many users the label `user` has their id. Each user raises the number of series: of each tool, agent
	// and outcome. Further users are `other`. Default: 0, the label is empty.
	HighCardinalityUsers int `json:"high_cardinality_users,omitempty"`

	users userLabels
}

// userLabels are the users whose ids are labels.
type userLabels struct {
	sync.Mutex
	ids map[string]bool
}

// otherUsers is the label of users beyond HighCardinalityUsers.
const otherUsers = "other"

// The collectors of calls by who made them.
var (
	callerCalls    = directive.Counter("caller_calls_total", "Tool calls by who made them.", "group", "user", "agent", "toolset", "tool", "outcome")
	callerDuration = directive.CallDuration("caller_call_duration_seconds", "Duration of tool calls by who made them.", "group", "agent", "toolset", "tool")
	callerTokens   = directive.Counter("caller_result_tokens_total", "Tokens of the API's responses to tool calls, estimated by their size, by who made them.",
		"group", "user", "agent", "toolset", "tool")
)

// A CallBy is an ended tool call for the metrics of callers.
type CallBy struct {
	User                 *identity.User // its ID is "" if the caller is not authenticated
	Agent, Toolset, Tool string
	Outcome              string
	Duration             time.Duration
	Size                 int // bytes of the response
}

// Observe counts a call by who made it.
func (c *Callers) Observe(call *CallBy) {
	group, user := c.groupOf(call.User), c.userLabel(call.User.ID)
	callerCalls.WithLabelValues(group, user, call.Agent, call.Toolset, call.Tool, call.Outcome).Inc()
	callerDuration.WithLabelValues(group, call.Agent, call.Toolset, call.Tool).Observe(call.Duration.Seconds())
	callerTokens.WithLabelValues(group, user, call.Agent, call.Toolset, call.Tool).Add(float64(call.Size / text.BytesPerToken))
}

func (c *Callers) groupOf(user *identity.User) string {
	for _, group := range c.Groups {
		if slices.Contains(user.Groups, group) {
			return group
		}
	}
	return ""
}

func (c *Callers) userLabel(id string) string {
	if c.HighCardinalityUsers == 0 || id == "" {
		return ""
	}
	c.users.Lock()
	defer c.users.Unlock()
	switch {
	case c.users.ids[id]:
	case len(c.users.ids) >= c.HighCardinalityUsers:
		return otherUsers
	case c.users.ids == nil:
		c.users.ids = make(map[string]bool)
		fallthrough
	default:
		c.users.ids[id] = true
	}
	return id
}

// Options returns the options of the block caller_metrics.
func (c *Callers) Options(b *directive.Block) directive.Options {
	return directive.Options{
		"groups":                 directive.To(b.List, &c.Groups),
		"high_cardinality_users": directive.To(b.Positive, &c.HighCardinalityUsers),
	}
}
