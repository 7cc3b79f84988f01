package otcadapter

import (
	"context"
	"encoding/base64"
	"net"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/keyedhash"
	"github.com/fairwayhq/fairway/ocp/tool"
	"github.com/fairwayhq/fairway/otcadapter/idempotency"
)

// serveIdempotent handles a call with a call_id from the client, which is an idempotency key
// (OTC 1.0, Tool Request Schema). If an earlier request had the same call_id, the client gets the
// stored response.
func (s *Server) serveIdempotent(ctx context.Context, w http.ResponseWriter, r *http.Request, c *call, user string) {
	c.maxRecorded = s.records.MaxResponse()
	response, outcome := s.records.Do(ctx, &idempotentCall{call: c, request: r, user: user, endpoint: s.records.Endpoint()})
	switch outcome {
	case idempotency.Canceled:
		return // the client has disconnected
	case idempotency.Ran:
	case idempotency.Replayed:
		tool.RecordCall(c.caller, c.tool.Tool, tool.OutcomeReplayed)
		w.Header().Set("Idempotent-Replayed", "true")
	default:
		response = c.withoutResponse(outcome)
	}
	writeCallResponse(w, &response)
}

// withoutResponse returns the response to a call whose own response is not available.
func (c *call) withoutResponse(outcome idempotency.Outcome) idempotency.Response {
	const doNotRepeat = "The call has been carried out: do not repeat it. Check the current state with another tool."
	var message, prompt string
	switch outcome {
	case idempotency.Conflict:
		return c.reject(nil, conflictingCallID(c.callID))
	case idempotency.Unavailable:
		return c.reject(nil, unavailable("the call was not run, because calls with a call_id cannot be recorded at the moment", idempotency.RetryAfter))
	case idempotency.Unfinished:
		message = "this call was started but not finished: the gateway that ran it stopped or lost its store, so it is unknown whether the call had an effect"
		prompt = "Do not repeat the call before you have checked the current state with another tool. If it had no effect, call again with a new call_id."
	case idempotency.TooLarge:
		message = "this call has already run; its response was too large to be stored"
		prompt = "The call has been carried out: do not repeat it. Read what you need with another tool, or request less with a new call_id."
	case idempotency.HadCredentials:
		message = "this call has already run; its response contained credentials of the call, so it was not stored"
		prompt = doNotRepeat
	default:
		message = "this call has already run; its stored response cannot be read"
		prompt = doNotRepeat
	}
	return idempotency.Response{Status: http.StatusOK, Body: c.encoder.appendLost(nil, message, prompt)}
}

// An idempotentCall is a call with a call_id from the client. It implements idempotency.Call.
type idempotentCall struct {
	*call
	request  *http.Request
	user     string // authenticated by the site; "" for none
	endpoint string // see idempotency.Options
}

// Identity implements idempotency.Call. There is one record for each call_id of one user at one
// endpoint. Callers that the site has not authenticated are distinguished by their credentials
// for the API.
func (c *idempotentCall) Identity(key *keyedhash.Key) (record string, content keyedhash.Digest) {
	h := key.Hash("record")
	h.Add(c.endpoint)
	h.Add(hostOf(c.request))
	h.Add(c.user)
	if c.user == "" {
		h.AddCredentials(c.request.Header, c.keyHeaders)
	}
	h.Add(c.callID)
	digest := h.Digest()
	var name [len(recordPrefix) + 43]byte // 43 characters for 32 bytes
	return string(base64.RawURLEncoding.AppendEncode(append(name[:0], recordPrefix...), digest[:])), c.contentHash(key)
}

// recordPrefix is the prefix of the key of each record in the store.
const recordPrefix = "otc/call/"

// contentHash hashes what two requests must have in common to be the same call: the tool, its
// input, its context, and the cookies of an unauthenticated caller. Tracing headers and the form
// of the response are not included.
func (c *idempotentCall) contentHash(key *keyedhash.Key) keyedhash.Digest {
	h := key.Hash("content")
	scratch := buffer.Get()
	defer buffer.Put(scratch)
	scratch.B = c.toolkit.appendID(scratch.B, c.tool.Name)
	h.AddBytes(scratch.B)
	addCanonical(h, c.input, scratch)
	addCanonical(h, c.context.raw, scratch)
	if c.user == "" {
		for _, cookie := range c.request.Header["Cookie"] {
			h.Add(cookie)
		}
	}
	return h.Digest()
}

// hostOf returns the site's host name without the port, because nodes of one site may have
// different ports. Records of one site are not valid for another.
func hostOf(r *http.Request) string {
	host := strings.ToLower(r.Host)
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// addCanonical adds JSON without white space and with sorted members. Null is treated as an empty
// object. Scratch is where the canonical form is put together.
func addCanonical(h keyedhash.Hash, value jsontext.Value, scratch *buffer.Buffer) {
	if isNull(value) {
		h.Add("{}")
		return
	}
	canonical := jsontext.Value(append(scratch.B[:0], value...))
	// The value is valid JSON. If it cannot be put into canonical form, it is hashed as it is.
	_ = canonical.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	h.AddBytes(canonical)
	scratch.B = canonical
}

// Idempotent implements idempotency.Call.
func (c *idempotentCall) Idempotent() bool { return c.tool.Idempotent() }

// ReadOnly implements idempotency.Call.
func (c *idempotentCall) ReadOnly() bool { return c.tool.ReadOnly() }

// Run implements idempotency.Call.
func (c *idempotentCall) Run(ctx context.Context, reserved int) idempotency.Response {
	return c.run(ctx, reserved)
}

// HasForm implements idempotency.Call.
func (c *idempotentCall) HasForm(body []byte) bool { return formOf(body) == c.encoder.form }

// Convert implements idempotency.Call.
func (c *idempotentCall) Convert(body []byte) []byte { return c.encoder.convert(body) }
