package calllog

import (
	"cmp"
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
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
//
// The tags are all that a field needs to be kept, filtered and searched: json is its name, find says how Query.Match
// compares it ("equal" or "prefix"), and excludes it from searches for a text. Fields that clients choose come after those
// with find, so that no argument can look like one (see filter.fits).
type Call struct {
	Number   int64     `json:"number,omitzero"` // of the ended call on its node, from 1
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

	Outcome string  `json:"outcome,omitzero" find:"equal"`
	Reason  string  `json:"reason,omitzero"`  // why the call did not succeed: the message to the client
	Rule    string  `json:"rule,omitzero"`    // of the agent's document that refused the call
	Request string  `json:"request,omitzero"` // method and path template of the inner request
	Status  int     `json:"status,omitzero"`  // of the API's response; 0 if there is none
	Sent    int     `json:"sent,omitzero"`    // bytes of the arguments
	Size    int     `json:"size,omitzero"`    // bytes of the response
	Took    float64 `json:"duration_ms"`      // milliseconds; of a call in progress, until it was read

	Trace      string         `json:"trace,omitzero" find:"prefix"`      // trace id
	Engagement string         `json:"engagement,omitzero" find:"prefix"` // key of the Engagement
	Review     string         `json:"review,omitzero"`                   // id of the review that the call waited for
	Arguments  jsontext.Value `json:"arguments,omitzero"`                // those that Config.Arguments allows, without white space
	Result     string         `json:"result,omitzero"`                   // the beginning of the response, if Config.Results allows it

	slot int // in Recorder.running, from 1; 0 if it has none
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

// appendLower appends data to dst, with ASCII letters in lower case.
func appendLower(dst, data []byte) []byte {
	const each = 0x0101010101010101 // eight bytes at a time: a search does this with all lines
	for ; len(data) >= 8; data = data[8:] {
		word := binary.LittleEndian.Uint64(data)
		low := word & (0x7f * each)
		upper := (low + (0x80-'A')*each) &^ (low + (0x7f-'Z')*each) &^ word & (0x80 * each) // the high bit of each byte from A to Z
		dst = binary.LittleEndian.AppendUint64(dst, word|upper>>2)
	}
	for _, c := range data {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

// Tokens returns about how many tokens of a model the response has.
func (c *Call) Tokens() int { return c.Size / text.BytesPerToken }
