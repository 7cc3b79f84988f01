package calllog

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools/result"
)

// Limits of one Call, in bytes unless they say otherwise.
const (
	MaxArguments = 4 << 10 // of the kept arguments
	MaxResult    = 4 << 10 // of the kept response
	MaxReason    = 512
	maxText      = 128 // of each other text that a client chooses
	maxGroups    = 16  // groups of the user
)

// Call is one tool call. A call in progress has no Number, Ended, Outcome, Reason, Status, Size and Result.
type Call struct {
	Number   int64     `json:"number,omitzero"` // of the ended call on its node, from 1
	Node     string    `json:"node"`
	Site     string    `json:"site"`     // the site of the endpoint, see route.Endpoint.SiteName
	Endpoint string    `json:"endpoint"` // path of the endpoint
	Began    time.Time `json:"began"`
	Ended    time.Time `json:"ended,omitzero"`

	User     string   `json:"user,omitzero"` // "" if the caller is not authenticated
	Groups   []string `json:"groups,omitzero"`
	Agent    string   `json:"agent,omitzero"` // name of the agent that the call is governed by, or that makes it; "" if there is none
	Protocol string   `json:"protocol"`
	Toolset  string   `json:"toolset"`       // "" for an agent as a capability
	Tool     string   `json:"tool,omitzero"` // "" if no tool has the name that the client sent; for an agent, its reference

	Outcome string  `json:"outcome,omitzero"`
	Reason  string  `json:"reason,omitzero"`  // why the call did not succeed: the message to the client
	Rule    string  `json:"rule,omitzero"`    // of the agent's document that refused the call
	Request string  `json:"request,omitzero"` // method and path template of the inner request
	Status  int     `json:"status,omitzero"`  // of the API's response; 0 if there is none
	Sent    int     `json:"sent,omitzero"`    // bytes of the arguments
	Size    int     `json:"size,omitzero"`    // bytes of the response
	Took    float64 `json:"duration_ms"`      // milliseconds; of a call in progress, until it was read

	Trace      string         `json:"trace,omitzero"`      // trace id
	Engagement string         `json:"engagement,omitzero"` // key of the Engagement
	Review     string         `json:"review,omitzero"`     // id of the review that the call waited for
	Arguments  jsontext.Value `json:"arguments,omitzero"`  // those that Config.Arguments allows, without white space
	Result     string         `json:"result,omitzero"`     // the beginning of the response, if Config.Results allows it

	slot int // in Recorder.running, from 1; 0 if it has none
}

// appendJSON appends the call to b as json.Marshal encodes it, in one line. Every call is encoded once, and
// json.Marshal would take several times as long.
func (c *Call) appendJSON(b []byte) []byte {
	b = append(b, '{')
	number := func(name string, n int64) {
		if n != 0 {
			b = strconv.AppendInt(appendName(b, name), n, 10)
		}
	}
	quoted := func(name, s string) {
		if s != "" {
			b = appendQuoted(appendName(b, name), s)
		}
	}
	number("number", c.Number)
	b = appendQuoted(appendName(b, "node"), c.Node)
	b = appendQuoted(appendName(b, "site"), c.Site)
	b = appendQuoted(appendName(b, "endpoint"), c.Endpoint)
	b = appendTime(appendName(b, "began"), c.Began)
	if !c.Ended.IsZero() {
		b = appendTime(appendName(b, "ended"), c.Ended)
	}
	quoted("user", c.User)
	if c.Groups != nil {
		b = append(appendName(b, "groups"), '[')
		for i, group := range c.Groups {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendQuoted(b, group)
		}
		b = append(b, ']')
	}
	quoted("agent", c.Agent)
	b = appendQuoted(appendName(b, "protocol"), c.Protocol)
	b = appendQuoted(appendName(b, "toolset"), c.Toolset)
	quoted("tool", c.Tool)
	quoted("outcome", c.Outcome)
	quoted("reason", c.Reason)
	quoted("rule", c.Rule)
	quoted("request", c.Request)
	number("status", int64(c.Status))
	number("sent", int64(c.Sent))
	number("size", int64(c.Size))
	b = strconv.AppendFloat(appendName(b, "duration_ms"), c.Took, 'f', -1, 64)
	quoted("trace", c.Trace)
	quoted("engagement", c.Engagement)
	quoted("review", c.Review)
	if c.Arguments != nil {
		b = append(appendName(b, "arguments"), c.Arguments...)
	}
	quoted("result", c.Result)
	return append(b, '}')
}

// appendName appends the name of a member, after a comma if it is not the first one.
func appendName(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(append(append(b, '"'), name...), '"', ':')
}

// appendQuoted appends a JSON string. U+FFFD replaces bytes that are not UTF-8.
func appendQuoted(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}

// appendTime appends a time as a JSON string.
func appendTime(b []byte, t time.Time) []byte {
	return append(t.AppendFormat(append(b, '"'), time.RFC3339Nano), '"')
}

// ID identifies an ended call on all nodes.
func (c *Call) ID() string { return c.Node + "." + strconv.FormatInt(c.Number, 10) }

// parseID returns the node and the number of a call.
func parseID(id string) (node string, number int64, ok bool) {
	dot := strings.LastIndexByte(id, '.')
	if dot < 1 {
		return "", 0, false
	}
	number, err := strconv.ParseInt(id[dot+1:], 10, 64)
	return id[:dot], number, err == nil && number > 0
}

// newestFirst orders calls in progress by their begin.
func newestFirst(a, b Call) int {
	return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(b.Node, a.Node))
}

// limit cuts the texts that clients and APIs choose.
func (c *Call) limit() {
	for _, chosen := range []*string{&c.User, &c.Trace, &c.Engagement, &c.Review} {
		*chosen = text.Cut(*chosen, maxText)
	}
	c.Reason, c.Result = text.Cut(c.Reason, MaxReason), text.Cut(c.Result, MaxResult)
	c.Groups = c.Groups[:min(len(c.Groups), maxGroups)]
}

// texts returns the texts that a search looks at.
func (c *Call) texts() []string {
	return append([]string{
		c.Endpoint, c.User, c.Agent, c.Toolset, c.Tool, c.Outcome, c.Reason, c.Rule, c.Request, c.Trace, c.Engagement, c.Review, string(c.Arguments), c.Result,
	}, c.Groups...)
}

// Tokens returns about how many tokens of a model the response has.
func (c *Call) Tokens() int { return c.Size / result.BytesPerToken }
