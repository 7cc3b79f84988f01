package mcpadapter

import (
	"context"
	"encoding/base64"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp"
)

// An API that answers with results of MCP learns in these headers what it needs
// to know of the client, and gets the answers to what it asked.
const (
	headerCapabilities   = "Mcp-Client-Capabilities" // JSON object
	headerInputResponses = "Mcp-Input-Responses"     // JSON object in unpadded URL-safe Base64
	headerRequestState   = "Mcp-Request-State"       // what the API gave, =?base64?…?= if a header cannot carry it
	headerProgress       = "Mcp-Progress"            // "1" if the client wants to hear of progress
)

const (
	// maxRounds is how often one request of a client that can be asked at once
	// goes to the API.
	maxRounds = 8

	// maxResponses is how many bytes of answers go to the API in a header, in
	// Base64.
	maxResponses = 48 << 10
)

// An invocation is a tool to be run for a request of the client.
type invocation struct {
	method    string // "tools/call": with target what a sealed requestState belongs to
	target    string // the name of the tool or prompt, the URI of the resource
	tool      string
	arguments []byte // JSON object or nil; not in a pooled body
}

// A reply is what came of an invocation. It must be released.
type reply struct {
	// Outcome is that of the last call. Its Failure is also what could not be
	// asked of the client, or was not answered.
	ocp.Outcome

	// uncalled reports whether the Failure or the questions (asks) do not come from a call, so
	// that the Caller has not recorded it.
	uncalled bool

	native jsontext.Value // the MCP result, checked to be a strict JSON object; nil if the API answered in its own words
	asks   []byte         // "inputRequests":{…},"requestState":"…", what the client is asked before there is an answer (2026-07-28); nil otherwise
	own    *ocp.Incoming  // the context that the request brought along; nil if none
}

// failed is the reply that the tool was not called, or not to an end.
func failed(tool *ocp.Tool, kind ocp.FailureKind, message string) reply {
	return reply{Outcome: ocp.Outcome{Tool: tool, Failure: &ocp.Failure{Kind: kind, Message: message}}, uncalled: true}
}

// invoke runs a tool: with what the client lets the API know, and, where the API
// or the tool needs more than the arguments, with the answers of the client. It
// may call the tool several times.
func (x *exchange) invoke(i invocation) (reply, *fault) {
	ctx, own := x.context()
	tool, known := x.tools.Tool(i.tool)
	if known {
		if f := x.checkAccess(tool); f != nil {
			ocp.RecordCall(x.caller, tool, string(ocp.Unauthorized))
			return reply{}, f
		}
	}
	ctx = x.hearing(ctx)
	defer func() { x.teller.stop(x.ctx.Err() != nil) }()
	if !known || !isNative(tool) && !hasNonInferrable(tool) {
		return reply{Outcome: x.caller.Call(ctx, i.tool, i.arguments), own: own}, nil
	}
	r, f := x.invokeInRounds(ctx, tool, i)
	x.recordRounds(tool, r)
	r.own = own
	return r, f
}

// recordRounds records what Call could not know of an invocation: that the adapter ended it,
// or that the client is asked before there is a result.
func (x *exchange) recordRounds(tool *ocp.Tool, r reply) {
	switch {
	case r.asks != nil && r.uncalled:
		ocp.RecordCall(x.caller, tool, ocp.OutcomeInputRequired)
	case r.asks != nil:
		ocp.AmendCall(x.caller, ocp.OutcomeInputRequired)
	case r.uncalled:
		ocp.RecordCall(x.caller, tool, r.Name())
	}
}

// isNative reports whether the API answers calls of the tool with results of MCP.
// It is for the document to declare: an API that passes on what others have sent
// it must not be able to ask the user by accident.
func isNative(tool *ocp.Tool) bool {
	return slices.Contains(tool.Answer.MediaTypes, nativeType)
}

// A round is one call of a tool that needs more than its arguments.
type round struct {
	memory
	responses jsontext.Value // to what was asked last; nil for none
}

// invokeInRounds calls a tool until there is an answer. Since 2026-07-28 each round
// is a request of the client, before that all are part of one.
func (x *exchange) invokeInRounds(ctx context.Context, tool *ocp.Tool, i invocation) (reply, *fault) {
	var now round
	if x.version.selfDescribing() {
		var f *fault
		if now, f = x.resumeRound(i); f != nil {
			return reply{}, f
		}
	}
	arguments, r, f := x.completeArguments(tool, i, &now)
	if f != nil || r.Failure != nil || r.asks != nil {
		return r, f
	}
	for count := 1; ; count++ {
		r, asked, f := x.callRound(ctx, tool, arguments, &now)
		if f != nil || asked == nil {
			return r, f
		}
		now.state = asked.state
		asking, again, f := x.putToClient(tool, i, asked, &now, count == maxRounds)
		r.Release() // what is asked lies in it
		if !again {
			return asking, f
		}
	}
}

// putToClient asks the client what the API wants to know: at once, or since
// 2026-07-28 with the result of this request. Again says that it has answered, and
// the tool is to be called with that.
func (x *exchange) putToClient(tool *ocp.Tool, i invocation, asked *inputRequired, now *round, last bool) (r reply, again bool, f *fault) {
	if x.version.selfDescribing() {
		r, f = x.passOn(tool, i, asked, now)
		return r, false, f
	}
	if last {
		return failed(tool, ocp.Unreadable, "the API goes on asking after several answers: call the tool again, and look at the API if it does not end"), false, nil
	}
	now.responses, r = x.askClient(tool, asked.requests)
	return r, r.Failure == nil, nil
}

// callRound calls the tool once. What the API asks for before it answers is in
// asked; nil means that the reply is all.
func (x *exchange) callRound(ctx context.Context, tool *ocp.Tool, arguments []byte, now *round) (reply, *inputRequired, *fault) {
	if !isNative(tool) {
		return reply{Outcome: x.caller.Call(ctx, tool.Name, arguments)}, nil, nil
	}
	supplement, f := x.nativeSupplement(now)
	if f != nil {
		return reply{}, nil, f
	}
	r := reply{Outcome: x.caller.Call(ocp.ContextWithSupplement(ctx, supplement), tool.Name, arguments)}
	if r.Result == nil || r.Result.MediaType() != nativeType {
		return r, nil, nil
	}
	n, err := readNative(r.Result.Body)
	switch {
	case err != nil && r.Failure == nil:
		r.Failure = malformedNative(tool, err)
		ocp.AmendCall(x.caller, r.Name())
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

// nativeSupplement tells an API that answers with results of MCP of the client.
func (x *exchange) nativeSupplement(now *round) (*ocp.Supplement, *fault) {
	header := http.Header{headerCapabilities: {string(x.askable().appendTo(nil))}}
	if len(now.responses) > 0 {
		if base64.RawURLEncoding.EncodedLen(len(now.responses)) > maxResponses {
			return nil, badParams("the answers in inputResponses are larger than the %d bytes that can be passed on to the API: answer with less", maxResponses*3/4)
		}
		header[headerInputResponses] = []string{base64.RawURLEncoding.EncodeToString(now.responses)}
	}
	if now.state != "" {
		header[headerRequestState] = []string{encodeHeader(now.state)}
	}
	if x.progressToken() != nil {
		header[headerProgress] = []string{"1"}
	}
	return &ocp.Supplement{Header: header}, nil
}

// askable returns what the client can be asked for while this request is served:
// what it has declared, if there is a way to ask.
func (x *exchange) askable() capabilities {
	const asks = canSample | canSampleTools | canElicit | canElicitURL | canListRoots
	switch {
	case x.version.selfDescribing():
		return x.client & asks
	case !x.canAsk():
		return 0
	}
	able := x.client & asks
	if !x.version.elicits() {
		able &^= canElicit
	}
	if !x.version.elicitsMore() {
		able &^= canElicitURL
	}
	if !x.version.samplesMore() {
		able &^= canSampleTools
	}
	return able
}

// checkAskable refuses a request that cannot be served without asking the client
// for what it has not declared. Before 2026-07-28 no error of the protocol says so.
func (x *exchange) checkAskable(needed capabilities) *fault {
	if lacking := needed &^ x.askable(); lacking != 0 && x.version.selfDescribing() {
		return missingCapability(lacking)
	}
	return nil
}

// encodeHeader writes a text as the value of a header, in Base64 where it could
// not be carried as it is; decodeHeader undoes it.
func encodeHeader(value string) string {
	plain, same := decodeHeader(value)
	if same && plain == value && isHeaderText(value) && value[0] != ' ' && value[len(value)-1] != ' ' {
		return value
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(value)) + "?="
}

// passOn makes what the API asks the result of the request, for a client that
// answers with its next one.
func (x *exchange) passOn(tool *ocp.Tool, i invocation, asked *inputRequired, now *round) (reply, *fault) {
	if f := x.checkAskable(asked.needed()); f != nil {
		return reply{}, f
	}
	now.asked = false
	r := reply{Outcome: ocp.Outcome{Tool: tool}}
	r.asks = x.appendAsks(nil, asked.raw, i, &now.memory)
	return r, nil
}

// answerAsks answers with what the client is asked.
func (x *exchange) answerAsks(r reply) {
	b := x.appendResultHead(x.begin(), "input_required", nil)
	x.out.B = append(append(b, r.asks...), "}}"...)
}

// appendAsks appends what is asked, and sealed what must be known when the answers
// come; both as members of a result.
func (x *exchange) appendAsks(dst []byte, requests jsontext.Value, i invocation, m *memory) []byte {
	if len(requests) > 0 {
		dst = append(append(dst, `"inputRequests":`...), requests...)
	}
	if m.empty() {
		return dst
	}
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	return wire.AppendString(append(dst, `"requestState":`...), x.sealMemory(i, m))
}
