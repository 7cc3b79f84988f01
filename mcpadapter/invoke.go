package mcpadapter

import (
	"context"
	"encoding/base64"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// Headers of the inner request for APIs that return native MCP results. They tell the API what the
// client can do and carry the client's responses to it.
const (
	headerCapabilities   = "Mcp-Client-Capabilities" // JSON object
	headerInputResponses = "Mcp-Input-Responses"     // JSON object in unpadded URL-safe Base64
	headerRequestState   = "Mcp-Request-State"       // the API's own state; =?base64?…?= if a header cannot carry it as it is
	headerProgress       = "Mcp-Progress"            // "1" if the client wants progress notifications
)

const (
	// maxRounds is how many times one request of a client may call the API, for revisions where the
	// server sends requests to the client.
	maxRounds = 8

	// maxResponses is the maximum size of Mcp-Input-Responses, in bytes of Base64.
	maxResponses = 48 << 10
)

// An invocation is a tool call made for a request of the client. Besides tools/call, prompts and
// resources of operations also call tools.
type invocation struct {
	method    string // method of the client's request; with target it binds a sealed requestState
	target    string // name of the tool or prompt, or URI of the resource
	tool      string
	arguments []byte // JSON object or nil; must not be in a pooled buffer
}

// A reply is the result of an invocation. The caller must release it.
type reply struct {
	// Outcome is the outcome of the last call. Its Failure may also say that the client could not be
	// asked or did not respond.
	tool.Outcome

	// uncalled reports whether the Failure or asks does not come from a call, so that the Caller has
	// not recorded it.
	uncalled bool

	native         jsontext.Value // the MCP result, a strict JSON object; nil if the API did not return a native result
	inputRequired  []byte         // `"inputRequests":{…},"requestState":"…"` for a result of the type "input_required" (2026-07-28); nil otherwise
	requestContext *ocp.Incoming  // OCP context in _meta of the request; nil if none
}

// failed returns the reply for a tool that was not called, or whose call could not be completed.
func failed(t *tool.Tool, kind tool.FailureKind, message string) reply {
	return reply{Outcome: tool.Outcome{Tool: t, Failure: &tool.Failure{Kind: kind, Message: message}}, uncalled: true}
}

// invoke runs a tool. It checks the access token, adds the client's context, and reports progress.
// If the tool has non-inferrable arguments, or if the API returns native results, invoke may ask the
// client and call the tool several times.
func (x *exchange) invoke(i invocation) (reply, *jsonrpc.Fault) {
	ctx, own := x.context()
	t, known := x.tools.Tool(i.tool)
	if known {
		if f := x.checkAccess(t); f != nil {
			tool.RecordCall(x.caller, t, string(tool.Unauthorized))
			return reply{}, f
		}
	}
	ctx = x.withProgress(ctx)
	defer func() { x.reporter.stop(x.ctx.Err() != nil) }()
	if !known || !isNative(t) && !hasNonInferrable(t) {
		return reply{Outcome: x.caller.Call(ctx, i.tool, i.arguments), requestContext: own}, nil
	}
	r, f := x.invokeRounds(ctx, t, i)
	x.recordRounds(t, r)
	r.requestContext = own
	return r, f
}

// recordRounds records outcomes that Caller.Call cannot know: the adapter ended the invocation, or
// the client must respond before there is a result.
func (x *exchange) recordRounds(t *tool.Tool, r reply) {
	switch {
	case r.inputRequired != nil && r.uncalled:
		tool.RecordCall(x.caller, t, tool.OutcomeInputRequired)
	case r.inputRequired != nil:
		tool.AmendCall(x.caller, tool.OutcomeInputRequired)
	case r.uncalled:
		tool.RecordCall(x.caller, t, r.Name())
	}
}

// isNative reports whether the document declares that the operation returns native MCP results. An
// API that merely relays third-party content must not be able to ask the user anything, so the media
// type of the response alone is not enough.
func isNative(tool *tool.Tool) bool {
	return slices.Contains(tool.Answer.MediaTypes, content.NativeType)
}

// A round is one call of a tool in an invocation of several calls.
type round struct {
	roundState
	responses jsontext.Value // the client's responses to the last requests; nil if none
}

// invokeRounds calls a tool until it has a final result. From 2026-07-28 on each round is a
// separate request of the client; before that, all rounds belong to one request.
func (x *exchange) invokeRounds(ctx context.Context, tool *tool.Tool, i invocation) (reply, *jsonrpc.Fault) {
	var now round
	if x.version.Stateless() {
		var f *jsonrpc.Fault
		if now, f = x.resumeRound(i); f != nil {
			return reply{}, f
		}
	}
	arguments, r, f := x.completeArguments(tool, i, &now)
	if f != nil || r.Failure != nil || r.inputRequired != nil {
		return r, f
	}
	for count := 1; ; count++ {
		r, asked, f := x.callRound(ctx, tool, arguments, &now)
		if f != nil || asked == nil {
			return r, f
		}
		now.state = asked.state
		asking, again, f := x.forwardRequests(tool, i, asked, &now, count == maxRounds)
		r.Release() // asked refers to the result's buffer up to here
		if !again {
			return asking, f
		}
	}
}

// forwardRequests forwards the API's requests to the client. Before 2026-07-28 it waits for the
// responses and returns again = true: the tool must be called with them. From 2026-07-28 on it
// returns a reply with the requests.
func (x *exchange) forwardRequests(t *tool.Tool, i invocation, asked *inputRequired, now *round, last bool) (r reply, again bool, f *jsonrpc.Fault) {
	if x.version.Stateless() {
		r, f = x.returnRequests(t, i, asked, now)
		return r, false, f
	}
	if last {
		return failed(t, tool.Unreadable, "the API goes on asking after several answers: call the tool again, and look at the API if it does not end"), false, nil
	}
	now.responses, r = x.askClient(t, asked.requests)
	return r, r.Failure == nil, nil
}

// callRound calls the tool once. asked is not nil if the API needs responses from the client first.
func (x *exchange) callRound(ctx context.Context, t *tool.Tool, arguments []byte, now *round) (reply, *inputRequired, *jsonrpc.Fault) {
	if !isNative(t) {
		return reply{Outcome: x.caller.Call(ctx, t.Name, arguments)}, nil, nil
	}
	supplement, f := x.nativeSupplement(now)
	if f != nil {
		return reply{}, nil, f
	}
	r := reply{Outcome: x.caller.Call(tool.ContextWithSupplement(ctx, supplement), t.Name, arguments)}
	if r.Result == nil || r.Result.MediaType() != content.NativeType {
		return r, nil, nil
	}
	n, err := readNative(r.Result.Body)
	switch {
	case err != nil && r.Failure == nil:
		r.Failure = malformedNative(t, err)
		tool.AmendCall(x.caller, r.Name())
	case err != nil:
	case n.failure != nil:
		r.Release()
		return reply{}, nil, n.failure
	case r.Failure != nil:
	case n.asks != nil:
		return r, n.asks, nil
	default:
		r.native = n.result
	}
	return r, nil, nil
}

// nativeSupplement returns the headers for an API that returns native results.
func (x *exchange) nativeSupplement(now *round) (*tool.Supplement, *jsonrpc.Fault) {
	header := http.Header{headerCapabilities: {string(x.supportedRequests().appendTo(nil))}}
	if len(now.responses) > 0 {
		if base64.RawURLEncoding.EncodedLen(len(now.responses)) > maxResponses {
			return nil, jsonrpc.BadParams("the answers in inputResponses are larger than the %d bytes that can be passed on to the API: answer with less", maxResponses*3/4)
		}
		header[headerInputResponses] = []string{base64.RawURLEncoding.EncodeToString(now.responses)}
	}
	if now.state != "" {
		header[headerRequestState] = []string{encodeHeader(now.state)}
	}
	if x.progressToken() != nil {
		header[headerProgress] = []string{"1"}
	}
	return &tool.Supplement{Header: header}, nil
}

// supportedRequests returns the requests that the client can handle while this request is served: its declared
// capabilities, limited to what the revision and the transport allow.
func (x *exchange) supportedRequests() capabilities {
	const asks = canSample | canSampleTools | canElicit | canElicitURL | canListRoots
	switch {
	case x.version.Stateless():
		return x.client & asks
	case !x.canAsk():
		return 0
	}
	able := x.client & asks
	if !x.version.SupportsElicitation() {
		able &^= canElicit
	}
	if !x.version.SupportsRichElicitation() {
		able &^= canElicitURL
	}
	if !x.version.SupportsRichSampling() {
		able &^= canSampleTools
	}
	return able
}

// checkSupported returns a fault if the client has not declared a needed capability. Revisions before
// 2026-07-28 have no such error.
func (x *exchange) checkSupported(needed capabilities) *jsonrpc.Fault {
	if lacking := needed &^ x.supportedRequests(); lacking != 0 && x.version.Stateless() {
		return missingCapability(lacking)
	}
	return nil
}

// encodeHeader is the inverse of decodeHeader: it encodes a string in Base64 if a header cannot
// carry it as it is.
func encodeHeader(value string) string {
	plain, same := decodeHeader(value)
	if same && plain == value && isHeaderText(value) && value[0] != ' ' && value[len(value)-1] != ' ' {
		return value
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(value)) + "?="
}

// returnRequests returns the API's requests as the result of the request. The client responds with its next
// request.
func (x *exchange) returnRequests(t *tool.Tool, i invocation, asked *inputRequired, now *round) (reply, *jsonrpc.Fault) {
	if f := x.checkSupported(asked.requiredCapabilities()); f != nil {
		return reply{}, f
	}
	now.asked = false
	r := reply{Outcome: tool.Outcome{Tool: t}}
	r.inputRequired = x.appendAsks(nil, asked.raw, i, &now.roundState)
	return r, nil
}

// writeInputRequired writes a result of the type "input_required".
func (x *exchange) writeInputRequired(r reply) {
	b := x.appendResultHead(x.beginResult(), "input_required", nil)
	x.out.B = append(append(b, r.inputRequired...), "}}"...)
}

// appendAsks appends inputRequests and the sealed requestState as members of a result.
func (x *exchange) appendAsks(dst []byte, requests jsontext.Value, i invocation, m *roundState) []byte {
	if len(requests) > 0 {
		dst = append(append(dst, `"inputRequests":`...), requests...)
	}
	if m.empty() {
		return dst
	}
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	return wire.AppendString(append(dst, `"requestState":`...), x.sealRoundState(i, m))
}
