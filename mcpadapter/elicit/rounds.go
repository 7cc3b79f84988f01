package elicit

import (
	"context"
	"encoding/base64"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/security"
)

// Headers of the inner request for APIs that return native MCP results. They tell the API what the
// client can do and carry the client's responses to it.
const (
	HeaderCapabilities   = "Mcp-Client-Capabilities" // JSON object
	HeaderInputResponses = "Mcp-Input-Responses"     // JSON object in unpadded URL-safe Base64
	HeaderRequestState   = "Mcp-Request-State"       // the API's own state; =?base64?…?= if a header cannot carry it as it is
	HeaderProgress       = "Mcp-Progress"            // "1" if the client wants progress notifications
	HeaderMeta           = "Mcp-Meta"                // for MCP servers: members of _meta as a JSON object in unpadded URL-safe Base64
)

const (
	// MaxRounds is how many times one request of a client may call the API, for revisions where the
	// server sends requests to the client.
	MaxRounds = 8

	// MaxResponses is the maximum size of Mcp-Input-Responses, in bytes of Base64.
	MaxResponses = 48 << 10
)

// A round is one call of a tool in a Request.Call of several calls.
type round struct {
	roundState
	responses jsontext.Value // the client's responses to the last requests; nil if none
}

// run calls the tool until it has a final result. From 2026-07-28 on each round is a separate
// request of the client; before that, all rounds belong to one request.
func (c *call) run(ctx context.Context) (Reply, *protocol.Fault) {
	if c.Revision.Stateless() {
		if f := c.resume(); f != nil {
			return Reply{}, f
		}
	}
	if offered := c.round.Result; offered != nil {
		result := &tools.Result{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: offered}
		return c.offer(Reply{Outcome: tools.Outcome{Tool: c.tool, Result: result}, uncalled: true})
	}
	arguments, r, f := c.completeArguments()
	if f != nil || r.Failure != nil || r.InputRequired != nil {
		return r, f
	}
	for count := 1; ; count++ {
		r, asked, f := c.callRound(ctx, arguments)
		if f == nil && r.Failure != nil && r.Failure.Connection != nil {
			return c.connect(r)
		}
		if c.needs.Page && f == nil && r.Failure == nil {
			return c.offer(r)
		}
		if f != nil || asked == nil {
			return r, f
		}
		c.round.State = asked.state
		asking, again, f := c.forwardRequests(asked, count == MaxRounds)
		r.Release() // asked refers to the result's buffer up to here
		if !again {
			return asking, f
		}
	}
}

// forwardRequests forwards the API's requests to the client. Before 2026-07-28 it waits for the
// responses and returns again = true: the tool must be called with them. From 2026-07-28 on it
// returns a reply with the requests.
func (c *call) forwardRequests(asked *inputRequired, last bool) (r Reply, again bool, f *protocol.Fault) {
	if c.Revision.Stateless() {
		if f := c.checkSupported(neededFor(asked.requests)); f != nil {
			return Reply{}, false, f
		}
		c.round.Asked = false
		r, f = c.inputRequired(asked.raw)
		return r, false, f
	}
	if last {
		return failed(c.tool, tools.Unreadable, "the API requested more input after the maximum number of rounds; call the tool again, and check the API if this repeats"), false, nil
	}
	c.round.responses, r = c.askClient(asked.requests)
	return r, r.Failure == nil, nil
}

// callRound calls the tool once. asked is not nil if the API needs responses from the client first.
func (c *call) callRound(ctx context.Context, arguments []byte) (Reply, *inputRequired, *protocol.Fault) {
	if !c.needs.Native {
		return Reply{Outcome: c.caller.Call(ctx, c.tool.Name, arguments)}, nil, nil
	}
	supplement, f := c.supplement()
	if f != nil {
		return Reply{}, nil, f
	}
	ctx = tools.ContextWithNativeResult(security.ContextWithSupplement(ctx, supplement))
	r := Reply{Outcome: c.caller.Call(ctx, c.tool.Name, arguments)}
	if r.Result == nil || r.Result.MediaType() != content.NativeType {
		return r, nil, nil
	}
	n, err := readNative(r.Result.Body)
	switch {
	case err != nil && r.Failure == nil:
		r.Failure = MalformedNative(c.tool, err)
		tools.AmendCall(c.caller, r.Name())
	case err != nil:
	case n.failure != nil:
		if n.failure.Code == protocol.MissingClientCapability && c.Revision.Stateless() {
			n.failure.Status = http.StatusBadRequest
		}
		r.Release()
		n.failure.FromAPI = true
		return Reply{}, nil, n.failure
	case r.Failure != nil:
	case n.asked != nil:
		return r, n.asked, nil
	default:
		r.Native = n.result
	}
	return r, nil, nil
}

// supplement returns the headers for an API that returns native results.
func (c *call) supplement() (*security.Supplement, *protocol.Fault) {
	header := http.Header{HeaderCapabilities: {string(c.supported().Object())}}
	if responses := c.round.responses; len(responses) > 0 {
		if base64.RawURLEncoding.EncodedLen(len(responses)) > MaxResponses {
			return nil, protocol.BadParams("inputResponses is larger than the limit of %d bytes: shorten the responses", MaxResponses*3/4)
		}
		header[HeaderInputResponses] = []string{base64.RawURLEncoding.EncodeToString(responses)}
	}
	if c.round.State != "" {
		header[HeaderRequestState] = []string{protocol.EncodeHeader(c.round.State)}
	}
	if c.Progress {
		header[HeaderProgress] = []string{"1"}
	}
	if meta := protocol.ForwardedMeta(strictjson.MemberOf(c.Params, "_meta")); len(meta) > 0 && c.tool.Foreign != nil {
		if base64.RawURLEncoding.EncodedLen(len(meta)) > MaxResponses {
			return nil, protocol.BadParams("_meta is larger than the limit of %d bytes: shorten it", MaxResponses*3/4)
		}
		header[HeaderMeta] = []string{base64.RawURLEncoding.EncodeToString(meta)}
	}
	return &security.Supplement{Header: header}, nil
}

// elicit returns an elicitation as the result of the client's request.
func (c *call) elicit(key string, params jsontext.Value) (Reply, *protocol.Fault) {
	requests := append(strictjson.AppendString([]byte{'{'}, key), `:{"method":"`+MethodElicit+`","params":`...)
	return c.inputRequired(append(append(requests, params...), "}}"...))
}

// inputRequired returns a result with inputRequests and the sealed requestState. The client responds with its next request.
func (c *call) inputRequired(requests jsontext.Value) (r Reply, f *protocol.Fault) {
	r.Tool = c.tool
	if len(requests) > 0 {
		r.InputRequired = append([]byte(`"inputRequests":`), requests...)
	}
	if !c.round.empty() {
		var state string
		state, f = c.seal(c.round.roundState)
		r.InputRequired = strictjson.AppendString(append(strictjson.Comma(r.InputRequired), `"requestState":`...), state)
	}
	return r, f
}
