// Package keptcall has the record of one tool call, and the interface of what keeps it. Package calllog keeps the calls.
package keptcall

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools/logonly"
)

// Limits of one Call, in bytes unless they say otherwise.
const (
	MaxArguments = 4 << 10 // of the kept arguments
	MaxResult    = 4 << 10 // of the kept response
	MaxReason    = 512
	MaxText      = 128 // of each other text that a client chooses
	MaxGroups    = 16  // groups of the user
)

// Call is one tool call. A call in progress has no Number, Ended, Outcome, Reason, Status, Size and Result.
//
// The tags are all that a field needs to be kept, filtered and searched: json is its name, find says how Query.Match
// compares it ("equal" or "prefix"), and excludes it from searches for a text. Fields that clients choose come after those
// with find, so that no argument can look like one (see calllog).
type Call struct {
	Number   int64     `json:"number,omitzero"`          // of the ended call on its node, from 1
	ID       string    `json:"id,omitzero" find:"equal"` // which the client gets; of calls without one, the node and the number
	Node     string    `json:"node" find:"prefix"`
	Site     string    `json:"site"`     // the site of the endpoint, see route.Endpoint.SiteName
	Endpoint string    `json:"endpoint"` // path of the endpoint
	Began    time.Time `json:"began"`
	Ended    time.Time `json:"ended,omitzero"`

	User     string   `json:"user,omitzero" find:"prefix"` // "" if the caller is not authenticated
	Groups   []string `json:"groups,omitzero"`
	Agent    string   `json:"agent,omitzero" find:"prefix"` // name of the agent that the call is governed by, or that makes it; "" if there is none
	Protocol string   `json:"protocol" find:"equal"`
	Toolset  string   `json:"toolset" find:"prefix"`       // "" for an agent as a capability
	Tool     string   `json:"tool,omitzero" find:"prefix"` // "" if no tool has the name that the client sent; for an agent, its reference

	Outcome string        `json:"outcome,omitzero" find:"equal"`
	Reason  string        `json:"reason,omitzero"`  // why the call did not succeed: the message to the client
	Rule    string        `json:"rule,omitzero"`    // of the agent's document that refused the call
	Would   logonly.Would `json:"would,omitzero"`   // what a rule in log only would have done
	Request string        `json:"request,omitzero"` // method and path template of the inner request
	Status  int           `json:"status,omitzero"`  // of the API's response; 0 if there is none
	Sent    int           `json:"sent,omitzero"`    // bytes of the arguments
	Size    int           `json:"size,omitzero"`    // bytes of the response
	Took    float64       `json:"duration_ms"`      // milliseconds; of a call in progress, until it was read

	Trace      string         `json:"trace,omitzero" find:"prefix"`      // trace id
	Engagement string         `json:"engagement,omitzero" find:"prefix"` // key of the Engagement
	Review     string         `json:"review,omitzero"`                   // id of the review that the call waited for
	Arguments  jsontext.Value `json:"arguments,omitzero"`                // those that Config.Arguments allows, without white space
	Result     string         `json:"result,omitzero"`                   // the beginning of the response, if Config.Results allows it

	Slot int `json:"-"` // of the Recorder: its place among the calls in progress, from 1; 0 if it has none
}

// Limit cuts the texts that clients and APIs choose.
func (c *Call) Limit() {
	for _, chosen := range []*string{&c.User, &c.Trace, &c.Engagement, &c.Review} {
		*chosen = text.Cut(*chosen, MaxText)
	}
	c.Reason, c.Result, c.Would.Why = text.Cut(c.Reason, MaxReason), text.Cut(c.Result, MaxResult), text.Cut(c.Would.Why, MaxReason)
	c.Groups = c.Groups[:min(len(c.Groups), MaxGroups)]
}

// Tokens returns about how many tokens of a model the response has.
func (c *Call) Tokens() int { return c.Size / text.BytesPerToken }

// Recorder records the calls of a node.
type Recorder interface {
	// Begin records that a call begins. It sets Node, and Began if it is not set. It copies the allowed
	// arguments; arguments is a JSON object. The caller passes the same Call to Record when the call ends, or
	// to Forget.
	Begin(call *Call, arguments []byte)

	// Record records that a call has ended. It sets Number and Ended. If Begin was not called, it also sets
	// the fields that Begin sets, including the arguments. Result is the response, which is copied if it is kept.
	Record(call *Call, arguments, result []byte)

	// Forget removes a call in progress without recording it, because it will be continued later.
	Forget(call *Call)
}

// Source has the Recorder of a configuration.
type Source interface {
	// Active returns the recorder, or nil while calls are not kept.
	Active() Recorder
}
