package mcpadapter

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/once"
)

// A call with an idempotency key is made once (package once). MCP defines no such key, so a client may give it in three places: a header
// of the request, _meta, and the argument tools.KeyArgument, which a model can fill.
const (
	keyHeader    = "Idempotency-Key" // draft-ietf-httpapi-idempotency-key-header
	metaKey      = "io.github.fairwayhq/idempotencyKey"
	metaReplayed = "io.github.fairwayhq/replayed" // member of a result's _meta: true if it is that of an earlier request
)

// keysOf returns the keys that the client has given for a call, nil if there are none. It removes the argument from the call.
func keysOf(q *request, c *toolCall) (given []string) {
	given = append(given, q.header[keyHeader]...)
	if key := strictjson.MemberOf(q.params.meta, metaKey); key != nil {
		given = append(given, strictjson.Text(key))
	}
	return once.TakeKey(c.callable.Tool, given, &c.arguments)
}

// callOnce serves a call with idempotency keys. It does not become a task: a client that cannot wait repeats it.
func callOnce(q *request, c *toolCall, records *once.Records, keys []string, w *response) *protocol.Fault {
	switch {
	case q.batched && q.header[keyHeader] != nil:
		return protocol.BadParams("the header %s is for one call, and a batch has several: give the key of each call in its _meta", keyHeader)
	case q.version.SupportsTaskParameter() && strictjson.HasMember(q.params.raw, "task"):
		return protocol.BadParams("a call with an idempotency key cannot be a task: leave out the key or the parameter task")
	case q.site.Access != nil:
		if f := c.checkScopes(); f != nil {
			return f
		}
	}
	caller, tool := q.caller, c.callable.Tool
	observed, _ := caller.(*observedCaller)
	if observed != nil {
		caller = observed.Caller
	}
	k := &keyedCall{call: c, id: q.id, Request: &once.Request{
		Endpoint: records.Endpoint(), User: q.site.User, Share: q.owner(q.site), Keys: keys,
		Tool: tool, ToolID: []byte(tool.Name), Prepared: tools.PrepareCall(caller, q.tools, tool.Name, c.arguments),
	}}
	if r := q.site.Request; r != nil {
		k.Host, k.Header, k.KeyHeaders = r.Host, r.Header, q.tools.KeyHeaders()
	}
	result, outcome, failure := records.Serve(q.ctx, q.caller, k.Request, k)
	w.call = k.ID
	switch {
	case failure != nil:
		q.answerFailure(w, callResult{Reply: elicit.Reply{Outcome: tools.Outcome{Tool: tool, Failure: failure}}})
	case outcome == once.Replayed:
		r := callResult{Reply: elicit.Reply{Native: result.Body}}
		meta := append(strictjson.Comma(r.nativeMeta(w.locale != "")), `"`+metaReplayed+`":true`...)
		b, _ := c.appendToolResult(w.result("complete", meta), r.Native) // this server wrote it, so it is valid
		w.end(b)
	case outcome == once.Ran && k.fault == nil:
		w.out.B = append(append(w.begin(), result.Body[1:]...), '}')
	}
	return k.fault
}

// A keyedCall is a call with an idempotency key. It implements once.Call. The stored response is the result as JSON.
type keyedCall struct {
	*once.Request
	call  *toolCall
	id    jsontext.Value  // of the client's request
	fault *protocol.Fault // of Run
}

// Run implements once.Call.
func (k *keyedCall) Run(ctx context.Context, reserved int) once.Response {
	w := response{out: &buffer.Buffer{B: make([]byte, reserved)}, id: k.id}
	w.prepare(&k.call.scope, k.call.meta)
	again, f := k.call.answerOnce(ctx, k.Request, &w)
	if k.fault = f; f != nil {
		return once.Response{Status: http.StatusOK, Body: w.out.B[:reserved], Retryable: !f.FromAPI}
	}
	body := append(w.out.B[:reserved], strictjson.MemberOf(w.out.B[reserved:], "result")...)
	return once.Response{Status: http.StatusOK, Body: body, Retryable: again, HasCredentials: k.HasCredentials(body[reserved:])}
}

// answerOnce makes the call and writes its result. Again reports whether the call may be made again.
func (c *toolCall) answerOnce(ctx context.Context, k *once.Request, w *response) (again bool, f *protocol.Fault) {
	c.ctx, c.arguments = ctx, k.Arguments(c.arguments)
	r, f := c.run()
	if f != nil {
		return false, f
	}
	defer r.Release()
	again = k.Conclude(&r.Outcome) || r.InputRequired != nil
	return again, c.answer(w, r)
}

// HasForm implements once.Call. There is no result after an error of the API.
func (k *keyedCall) HasForm(result []byte) bool { return len(result) > 0 }

// Convert implements once.Call. A result of another revision is converted when it is written.
func (k *keyedCall) Convert(result []byte) []byte {
	if len(result) == 0 {
		return nil
	}
	return result
}
