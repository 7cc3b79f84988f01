package elicit

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
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
	Until   int64          `json:"until"`            // time in Unix seconds after which the state is rejected
	Asked   bool           `json:"asked,omitzero"`   // whether the last round asked the user for arguments
	Answers jsontext.Value `json:"answers,omitzero"` // arguments that the user gave, a JSON object; nil if none
	State   string         `json:"state,omitzero"`   // requestState of the API; "" if none
	Result  jsontext.Value `json:"result,omitzero"`  // the result whose page was offered; nil if none
}

func (m *roundState) empty() bool {
	return !m.Asked && m.Answers == nil && m.State == "" && m.Result == nil
}

// resume reads the inputResponses and the requestState of the request into c.round, which stays zero
// if the request is the first one.
func (c *call) resume() (f *protocol.Fault) {
	now := &c.round
	if now.responses, f = readInputResponses(strictjson.MemberOf(c.Params, "inputResponses")); f != nil {
		return f
	}
	sealed := strictjson.MemberOf(c.Params, "requestState")
	switch sealed.Kind() {
	case 0:
		return nil
	case '"':
	default:
		return protocol.BadParams("params.requestState must be a string, not %s", strictjson.KindName(sealed.Kind()))
	}
	sealer, f := c.Sealer()
	if f != nil {
		return f
	}
	plain, err := sealer.Unseal(strictjson.Text(sealed), c.binding())
	if err != nil {
		return protocol.BadParams("params.requestState %v; call again without it", err)
	}
	if err := json.Unmarshal(plain, &now.roundState); err != nil || time.Now().Unix() > now.Until {
		return protocol.BadParams("params.requestState has expired; call again without it")
	}
	return nil
}

// seal returns the sealed requestState that holds m.
func (r *Request) seal(m roundState) (string, *protocol.Fault) {
	sealer, f := r.Sealer()
	if f != nil {
		return "", f
	}
	m.Until = time.Now().Add(cmp.Or(r.StateTTL, requestStateTTL)).Unix()
	plain, err := json.Marshal(m)
	if err != nil {
		return "", protocol.Faultf(http.StatusOK, protocol.InternalError, "the state of the call cannot be stored: %v", err)
	}
	return sealer.Seal(plain, r.binding()), nil
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

// readInputResponses checks the type and the number of the inputResponses of a request, and returns them without that about a
// page, which the API does not get. Whether they fit the requests is checked where they are used.
func readInputResponses(raw jsontext.Value) (jsontext.Value, *protocol.Fault) {
	if kind := raw.Kind(); kind != 0 && kind != '{' {
		return nil, protocol.BadParams("params.inputResponses must be an object, not %s", strictjson.KindName(kind))
	}
	count := 0
	var others strictjson.ObjectBuilder
	for walk := strictjson.Into(raw); walk.Next(); count++ {
		if walk.Value.Kind() != '{' {
			return nil, protocol.BadParams("params.inputResponses[%s] must be the result of a request, an object, not %s",
				text.Cut(string(walk.Name), text.MaxQuoted), strictjson.KindName(walk.Value.Kind()))
		}
		if !walk.Is(pageKey) {
			others.Add(strictjson.Text(walk.Name), walk.Value)
		}
	}
	if count > MaxInputResponses {
		return nil, protocol.BadParams("params.inputResponses has %d responses, more than the limit of %d; send only those that were requested", count, MaxInputResponses)
	}
	if others == nil {
		return nil, nil
	}
	return others.Close(), nil
}
