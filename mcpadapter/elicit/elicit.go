// Package elicit calls tools that may need something from the client before they have a result.
// There are two kinds of them (see Needs):
//
//   - Tools with non-inferrable arguments, which a model must not make up. The server asks the user
//     for them with a form (noninferrable.go, form.go).
//   - Tools of APIs that return MCP results themselves (native.go). Such an API may ask for
//     elicitations, sampling, or the roots of the client (input_required.go).
//
// Any call may turn out to need an account of the user at a third party, and a result may come with a page for the user (page.go).
//
// Request.Call runs a call in rounds (rounds.go): in each round it calls the API once, and gets what
// the API then needs from the client. How it gets it depends on the revision:
//
//   - Before 2026-07-28 the server sends requests to the client while the call is in progress
//     (ask.go), adapted to the client's revision (adapt.go).
//   - From 2026-07-28 on, the result of the client's request contains the server's requests. The
//     client responds with a new request. Between the two, the client stores the state of the call,
//     sealed by the server (request_state.go, package seal).
package elicit

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/seal"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

// Needs says what a tool may need from the client.
type Needs struct {
	// Native is set if the document declares that the operation returns native MCP results. An API
	// that merely relays third-party content must not be able to ask the user anything, so the media
	// type of the response alone is not enough.
	Native bool

	// NonInferrable is set if the tool has non-inferrable arguments.
	NonInferrable bool

	// Page is set if results of the tool come with a page for the user.
	Page bool
}

// NeedsOf returns what the tool may need from the client.
func NeedsOf(t *tools.Tool) Needs {
	return Needs{
		Native:        slices.Contains(t.Output.MediaTypes, content.NativeType),
		NonInferrable: slices.ContainsFunc(t.Definition.Arguments, func(a tools.Argument) bool { return a.NonInferrable }),
		Page:          t.Builtin == tools.CreateUpload,
	}
}

// Any reports whether the tool may need anything. If not, a call consists of one call to the API.
func (n Needs) Any() bool { return n.Native || n.NonInferrable || n.Page }

// A Request is a client's request that a tool is called for: tools/call, or the request for a prompt
// or a resource that is made from an operation.
type Request struct {
	Method    string         // method of the client's request; with Target it binds a sealed requestState
	Target    string         // name of the tool or prompt, or URI of the resource
	Params    jsontext.Value // params of the client's request
	Arguments []byte         // arguments of the tool, a JSON object or nil; must not be in a pooled buffer

	Revision protocol.Revision
	User     string                // user who sends the request; "" if there are no users
	Declared protocol.Capabilities // capabilities that the client has declared
	Progress bool                  // whether the client wants progress notifications

	// Ask sends a request to the client and waits for its result, in revisions before 2026-07-28. Its
	// error is a *ClientError if the client responded with an error. Ask is nil if the client cannot
	// be asked while its request is served.
	Ask func(method string, params jsontext.Value) (jsontext.Value, error)

	// Elicited is called with the id of a URL elicitation that the client gets in an error (2025-11-25), and the account
	// that the user connects.
	Elicited func(id string, needed *tools.Connection)

	// Sealer returns what seals the state that clients store (2026-07-28). It returns a Fault if the
	// keys are not available.
	Sealer func() (*seal.Sealer, *protocol.Fault)

	// IsTask is set if a task makes the call. It can wait for what the user does elsewhere.
	IsTask bool

	// StateTTL is how long the client may take to send the responses (2026-07-28). Default: 10
	// minutes.
	StateTTL time.Duration
}

// A Reply is the result of Request.Call. The caller must release it.
type Reply struct {
	// Outcome is the outcome of the last call. Its Failure may also say that the client could not be
	// asked or did not respond.
	tools.Outcome

	Native        jsontext.Value // the MCP result, a strict JSON object; nil if the API did not return a native result
	InputRequired []byte         // `"inputRequests":{…},"requestState":"…"` for a result of the type "input_required" (2026-07-28); nil otherwise

	// uncalled reports whether the Failure or InputRequired does not come from a call, so that the
	// Caller has not recorded it.
	uncalled bool
}

// failed returns the reply for a tool that was not called, or whose call could not be completed.
func failed(t *tools.Tool, kind tools.FailureKind, message string) Reply {
	return Reply{Outcome: tools.Outcome{Tool: t, Failure: &tools.Failure{Kind: kind, Message: message}}, uncalled: true}
}

// A call is one run of Request.Call.
type call struct {
	*Request
	caller tools.Caller
	tool   *tools.Tool
	needs  Needs
	round  round
}

// Call calls the tool until it has a final result or the client must respond first. It may ask the
// client and call the API several times. If it returns a Fault, the request gets an error response.
func (r *Request) Call(ctx context.Context, caller tools.Caller, t *tools.Tool, needs Needs) (Reply, *protocol.Fault) {
	c := call{Request: r, caller: caller, tool: t, needs: needs}
	result, f := c.run(ctx)
	c.record(&result)
	return result, f
}

// record records outcomes that Caller.Call cannot know: the call ended here, or the client must
// respond before there is a result.
func (c *call) record(r *Reply) {
	switch {
	case r.InputRequired != nil && r.uncalled:
		tools.RecordCall(c.caller, c.tool, tools.OutcomeInputRequired, "")
	case r.InputRequired != nil:
		tools.AmendCall(c.caller, tools.OutcomeInputRequired)
	case r.uncalled:
		tools.RecordCall(c.caller, c.tool, r.Name(), r.Failure.Reason())
	}
}

// supported returns the requests that the client can handle while its own request is served: its
// declared capabilities, limited to what the revision and the transport allow.
func (r *Request) supported() protocol.Capabilities {
	const requests = protocol.CanSample | protocol.CanSampleTools | protocol.CanElicit | protocol.CanElicitURL | protocol.CanListRoots
	switch {
	case r.Revision.Stateless():
		return r.Declared & requests
	case r.Ask == nil:
		return 0
	}
	able := r.Declared & requests
	if !r.Revision.SupportsElicitation() {
		able &^= protocol.CanElicit
	}
	if !r.Revision.SupportsRichElicitation() {
		able &^= protocol.CanElicitURL
	}
	if !r.Revision.SupportsRichSampling() {
		able &^= protocol.CanSampleTools
	}
	return able
}

// checkSupported returns a Fault if the client has not declared a needed capability (MCP 2026-07-28, error -32021). Revisions
// before 2026-07-28 have no such fault.
func (r *Request) checkSupported(needed protocol.Capabilities) *protocol.Fault {
	lacking := needed &^ r.supported()
	if lacking == 0 || !r.Revision.Stateless() {
		return nil
	}
	f := protocol.Faultf(http.StatusBadRequest, protocol.MissingClientCapability,
		"this request needs a capability that the client has not declared in _meta[%q]", protocol.MetaCapabilities)
	f.Data = append(append([]byte(`{"requiredCapabilities":`), lacking.Object()...), '}')
	return f
}

// AnswersForms reports whether a client with this ClientCapabilities object answers elicitations with a form.
func AnswersForms(capabilities jsontext.Value) bool {
	return protocol.ReadCapabilities(capabilities).Has(protocol.CanElicit)
}
