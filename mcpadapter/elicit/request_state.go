package elicit

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
)

const (
	// requestStateTTL is how long a client may take to send the responses.
	requestStateTTL = 10 * time.Minute

	// MaxState is the maximum length of an API's requestState, in bytes.
	MaxState = 32 << 10

	// MaxInputResponses is the maximum number of responses in one request.
	MaxInputResponses = 64
)

// A roundState is the content of a sealed requestState: everything the server must know between two
// rounds of a request (MCP 2026-07-28, Multi Round-Trip Requests). The client stores it, so the
// server needs no state of its own. It is encrypted, bound to the user, the request and its
// arguments, and expires after requestStateTTL.
type roundState struct {
	asked   bool           // whether the last round asked the user for arguments
	answers jsontext.Value // arguments that the user gave, a JSON object; nil if none
	state   string         // requestState of the API; "" if none
}

func (m *roundState) empty() bool { return !m.asked && m.answers == nil && m.state == "" }

// resume reads the inputResponses and the requestState of the request into c.round, which stays zero
// if the request is the first one.
func (c *call) resume() (f *jsonrpc.Fault) {
	now := &c.round
	if now.responses, f = readInputResponses(wire.MemberOf(c.Params, "inputResponses")); f != nil {
		return f
	}
	sealed := wire.MemberOf(c.Params, "requestState")
	switch sealed.Kind() {
	case 0:
		return nil
	case '"':
	default:
		return jsonrpc.BadParams("params.requestState must be a string, not %s", wire.KindName(sealed.Kind()))
	}
	plain, err := c.Sealer().Unseal(wire.Text(sealed), c.binding())
	if err != nil {
		return jsonrpc.BadParams("params.requestState %v; call again without it", err)
	}
	until := int64(0)
	for walk := wire.Into(plain); walk.Next(); {
		switch {
		case walk.Is("until"):
			until, _ = strconv.ParseInt(string(walk.Value), 10, 64)
		case walk.Is("asked"):
			now.asked = walk.Value.Kind() == 't'
		case walk.Is("answers"):
			now.answers = walk.Value
		case walk.Is("state"):
			now.state = wire.Text(walk.Value)
		}
	}
	if time.Now().Unix() > until {
		return jsonrpc.BadParams("params.requestState has expired; call again without it")
	}
	return nil
}

// seal returns the sealed requestState that holds m.
func (r *Request) seal(m *roundState) string {
	b := strconv.AppendInt([]byte(`{"until":`), time.Now().Add(cmp.Or(r.StateTTL, requestStateTTL)).Unix(), 10)
	if m.asked {
		b = append(b, `,"asked":true`...)
	}
	if m.answers != nil {
		b = append(append(b, `,"answers":`...), m.answers...)
	}
	if m.state != "" {
		b = wire.AppendString(append(b, `,"state":`...), m.state)
	}
	return r.Sealer().Seal(append(b, '}'), r.binding())
}

// binding returns a string that identifies the request a state belongs to: the user, the method, the
// target and the arguments. The order of the arguments and the space between them do not matter.
func (r *Request) binding() string {
	arguments := jsontext.Value(slices.Clone(r.Arguments))
	if kind := arguments.Kind(); kind != '{' {
		arguments = jsontext.Value("{}")
	}
	if err := arguments.Format(jsontext.ReorderRawObjects(true)); err != nil {
		arguments = jsontext.Value(r.Arguments)
	}
	sum := sha256.Sum256(arguments)
	return strings.Join([]string{
		"requestState", strconv.Quote(r.User), strconv.Quote(r.Method), strconv.Quote(r.Target), hex.EncodeToString(sum[:]),
	}, " ")
}

// readInputResponses checks the type and the number of the inputResponses of a request. Whether they
// fit the requests is checked where they are used.
func readInputResponses(raw jsontext.Value) (jsontext.Value, *jsonrpc.Fault) {
	switch raw.Kind() {
	case 0:
		return nil, nil
	case '{':
	default:
		return nil, jsonrpc.BadParams("params.inputResponses must be an object, not %s", wire.KindName(raw.Kind()))
	}
	count := 0
	for walk := wire.Into(raw); walk.Next(); count++ {
		if walk.Value.Kind() != '{' {
			return nil, jsonrpc.BadParams("params.inputResponses[%s] must be the result of a request, an object, not %s",
				text.Cut(string(walk.Name), text.MaxQuoted), wire.KindName(walk.Value.Kind()))
		}
	}
	if count > MaxInputResponses {
		return nil, jsonrpc.BadParams("params.inputResponses has %d responses, more than the limit of %d; send only those that were requested", count, MaxInputResponses)
	}
	return raw, nil
}
