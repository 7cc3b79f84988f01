package once

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/keyedhash"
	"github.com/fairwayhq/fairway/store/lease"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/callid"
)

// A Request says which call is made once, and for whom. Its rules are those of all protocols. It implements the methods of Call that
// do not depend on the form of responses.
type Request struct {
	Endpoint string // see Options

	// Who makes the call. Callers that the site has not authenticated are distinguished by their credentials for the API.
	Host       string // of the client's request
	User       string // authenticated by the site; "" for none
	Header     http.Header
	KeyHeaders []string // headers in which the API takes keys, canonical and sorted
	Share      store.Owner

	Keys []string // that the client gives in several places; see checkKeys
	Key  string   // default: the one of Keys

	// What is called. Two requests for the same call have the same ToolID, arguments and Context.
	Tool     *tools.Tool
	ToolID   []byte
	Prepared tools.Prepared
	Context  jsontext.Value

	ID callid.ID // of the call that Serve has recorded; zero if the Caller has

	apiKey  string // for the API; "" if it takes none
	private bool   // the result of the call must not be stored
}

// Identity implements Call. There is one record for each key of one caller at one endpoint. The content is the tool, its arguments, its
// context, and the cookies of an unauthenticated caller. Tracing headers and the form of the response are not included.
func (r *Request) Identity(key *keyedhash.Key) (record string, content keyedhash.Digest) {
	h := r.hash(key, "record")
	h.Add(r.Key)
	digest := h.Digest()
	var name [len(recordPrefix) + 43]byte // 43 characters for 32 bytes
	record = string(base64.RawURLEncoding.AppendEncode(append(name[:0], recordPrefix...), digest[:]))

	if keyArgument(r.Tool) != "" {
		h = r.hash(key, "api key")
		h.AddBytes(r.ToolID)
		h.Add(r.Key)
		r.apiKey = keyFor(h)
	}
	h = key.Hash("content")
	scratch := buffer.Get()
	defer buffer.Put(scratch)
	h.AddBytes(r.ToolID)
	addCanonical(h, r.Prepared.Arguments, scratch)
	addCanonical(h, r.Context, scratch)
	if r.User == "" {
		for _, cookie := range r.Header["Cookie"] {
			h.Add(cookie)
		}
	}
	return record, h.Digest()
}

// recordPrefix is the prefix of the key of each record in the store. It is that of the first protocol with records.
const recordPrefix = "otc/call/"

// hash starts a hash for the caller at the endpoint.
func (r *Request) hash(key *keyedhash.Key, purpose string) keyedhash.Hash {
	h := key.Hash(purpose)
	h.Add(r.Endpoint)
	h.Add(httpheader.HostName(r.Host))
	h.Add(r.User)
	if r.User == "" {
		h.AddCredentials(r.Header, r.KeyHeaders)
	}
	return h
}

// addCanonical adds JSON without white space and with sorted members. Null is treated as an empty
// object. Scratch is where the canonical form is put together.
func addCanonical(h keyedhash.Hash, value jsontext.Value, scratch *buffer.Buffer) {
	if len(value) == 0 || value.Kind() == 'n' {
		h.Add("{}")
		return
	}
	canonical := jsontext.Value(append(scratch.B[:0], value...))
	// The value is valid JSON. If it cannot be put into canonical form, it is hashed as it is.
	_ = canonical.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	h.AddBytes(canonical)
	scratch.B = canonical
}

// Idempotent implements Call.
func (r *Request) Idempotent() bool { return r.Tool.Idempotent() || r.Prepared.Resumes }

// ReadOnly implements Call.
func (r *Request) ReadOnly() bool { return r.Tool.ReadOnly() }

// Owner implements Call.
func (r *Request) Owner() store.Owner { return r.Share }

// Arguments returns the arguments of the call: those that the caller has given, with a key for the API if it takes one. Prepared has
// the descriptions of files in their place.
func (r *Request) Arguments(given jsontext.Value) jsontext.Value {
	if given.Kind() != '{' && r.apiKey != "" {
		given = r.Prepared.Arguments
	}
	return withKey(r.Tool, given, r.apiKey)
}

// HasCredentials reports whether a response is private, such as the URL of an upload, or repeats credentials of the client's request.
func (r *Request) HasCredentials(response []byte) bool {
	if r.private {
		return true
	}
	secrets := new(text.Secrets)
	for _, name := range append([]string{"Authorization"}, r.KeyHeaders...) {
		secrets.AddHeader(r.Header.Get(name))
	}
	return secrets.Contains(string(response))
}

// Conclude returns whether the outcome leaves the call to be made again: the API was not called, or the same call may succeed later.
// All other outcomes are stored, also if the result was withheld. The failure says what happens if the client repeats the call.
func (r *Request) Conclude(outcome *tools.Outcome) (again bool) {
	f := outcome.Failure
	r.private = outcome.Result.IsPrivate()
	if f == nil {
		return false
	}
	more := ""
	interrupted := f.Kind == tools.TimedOut || f.Kind == tools.Unreachable
	switch {
	case f.Unsent, f.Kind == tools.UnknownTool, f.Kind == tools.InvalidArguments, f.Kind == tools.Unauthorized, f.Kind == tools.Restricted && !f.Made:
		return true
	case f.Retryable(outcome.Tool), interrupted && r.apiKey != "":
		again = true
		more = "; you can repeat this call with the same key, " + strconv.Quote(r.Key)
	case interrupted:
		more = "; with the same key, " + strconv.Quote(r.Key) + ", the call is not made again"
	}
	if more != "" {
		longer := *f
		longer.Message += more
		outcome.Failure = &longer
	}
	return again
}

// Serve makes the call of a request, or returns what an earlier request came to. If there is no response, failure says why. It records
// what the caller does not. An earlier response is handed out only if the user may still make the call.
func (r *Records) Serve(ctx context.Context, caller tools.Caller, q *Request, call Call) (response Response, outcome Outcome, failure *tools.Failure) {
	if err := q.checkKeys(); err != nil {
		failure = &tools.Failure{Kind: tools.InvalidArguments, Message: err.Error()}
	} else if response, outcome = r.Do(ctx, call); outcome == Canceled || outcome == Ran {
		return response, outcome, nil
	} else if outcome != Replayed {
		e := outcome.Explain("idempotency key")
		failure = &tools.Failure{Kind: e.Kind, Message: e.Message + ". " + e.Advice, RetryAfter: e.RetryAfter}
	} else if failure = q.Prepared.Refusal; failure == nil {
		q.ID = tools.RecordCall(caller, q.Tool, tools.OutcomeReplayed, "")
		return response, outcome, nil
	}
	q.ID = tools.RecordCall(caller, q.Tool, string(failure.Kind), failure.Message)
	return Response{}, outcome, failure
}

// maxKey is the length of the longest key, in bytes.
const maxKey = 255

// checkKeys sets the key of a call that has it in one place or several, with quotation marks or without.
func (r *Request) checkKeys() error {
	for i, next := range r.Keys {
		if len(next) >= len(`""`) && next[0] == '"' && next[len(next)-1] == '"' {
			next = next[1 : len(next)-1]
		}
		if next == "" || len(next) > maxKey || strings.ContainsFunc(next, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return fmt.Errorf("the idempotency key must have 1 to %d visible ASCII characters: use a UUID", maxKey)
		}
		if i > 0 && next != r.Key {
			return errors.New("the call has different idempotency keys in its header, _meta and arguments: give one of them, or the same in all")
		}
		r.Key = next
	}
	return nil
}

// TakeKey appends the key in the arguments of a call to those given elsewhere, and removes it from the arguments.
func TakeKey(t *tools.Tool, given []string, arguments *[]byte) []string {
	key := strictjson.MemberOf(*arguments, tools.KeyArgument)
	switch {
	case !t.TakesKey() || key == nil:
		return given
	case key.Kind() == '0': // models write short keys as numbers
		given = append(given, string(key))
	case key.Kind() != 'n': // and null for what they leave out
		given = append(given, strictjson.Text(key))
	}
	rest := strictjson.AppendWithout([]byte{'{'}, *arguments, func(w *strictjson.Walk) bool { return w.Is(tools.KeyArgument) })
	*arguments = append(rest, '}')
	return given
}

// apiKeyHeaders are the headers in which APIs take the key of a call.
var apiKeyHeaders = []string{
	"idempotency-key", "x-idempotency-key", "paypal-request-id", "x-payout-idempotency", "cko-idempotency-key", "x-qonto-idempotency-key",
	"x-unique-transaction-id",
}

// keyArgument returns the name of the argument that is the API's own key of the call; "" for none.
func keyArgument(t *tools.Tool) string {
	if t == nil || t.ReadOnly() {
		return ""
	}
	for i := range t.Definition.Arguments {
		a := &t.Definition.Arguments[i]
		if a.In == tools.InHeader && a.AllowsText() && slices.Contains(apiKeyHeaders, strings.ToLower(a.WireName)) {
			return a.Name
		}
	}
	return ""
}

// withKey returns the arguments with the key for the API, unless the caller gives one.
func withKey(t *tools.Tool, arguments jsontext.Value, key string) jsontext.Value {
	name := keyArgument(t)
	if name == "" || key == "" {
		return arguments
	}
	if given := strictjson.MemberOf(arguments, name); given != nil && given.Kind() != 'n' {
		return arguments
	}
	var all strictjson.ObjectBuilder
	for walk := strictjson.Into(arguments); walk.Next(); {
		if !walk.Is(name) {
			all.Add(strictjson.Text(walk.Name), walk.Value)
		}
	}
	all.Add(name, strictjson.AppendString(nil, key))
	return all.Close()
}

// WithRunKey returns the arguments of a call of a run, which has the id, with a key for the API if it takes one. Current returns the key
// of the hash.
func WithRunKey(t *tools.Tool, arguments jsontext.Value, id string, current func() (*keyedhash.Key, error)) (jsontext.Value, error) {
	if keyArgument(t) == "" {
		return arguments, nil
	}
	key, err := current()
	if err != nil {
		return nil, err
	}
	h := key.Hash("api key of a run")
	h.Add(id)
	return withKey(t, arguments, keyFor(h)), nil
}

// keyFor returns the key for the API: some APIs want a UUID.
func keyFor(h keyedhash.Hash) string {
	digest := h.Digest()
	return UUID([16]byte(digest[:16]))
}

// UUID returns the text of a UUID of version 4 (RFC 9562).
func UUID(id [16]byte) string {
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	var digits [36]byte
	hex.Encode(digits[0:8], id[0:4])
	hex.Encode(digits[9:13], id[4:6])
	hex.Encode(digits[14:18], id[6:8])
	hex.Encode(digits[19:23], id[8:10])
	hex.Encode(digits[24:36], id[10:16])
	digits[8], digits[13], digits[18], digits[23] = '-', '-', '-', '-'
	return string(digits[:])
}

// A recordState is the state of the call that a record is about.
type recordState byte

const (
	stateBegun     recordState = 'b' // a node runs the call, or ran it when the node died
	stateDone      recordState = 'd' // the record has the response
	stateNotStored recordState = 'l' // the record has a notStoredReason instead of the response
	recordVersion              = 1   // of the format
)

// A notStoredReason is the reason why a record has no response.
type notStoredReason string

const (
	notStoredTooLarge    notStoredReason = ""  // the response was larger than Options.MaxResponse
	notStoredCredentials notStoredReason = "c" // the response repeated credentials of the call
	notStoredDropped     notStoredReason = "d" // the store dropped the response to make room
)

// Offsets of the fields of a record's header. The body of the response follows.
const (
	offsetState     = 1
	offsetRetryable = 2
	offsetStatus    = 3
	offsetLeaseEnd  = 5
	offsetProcess   = 13
	offsetToken     = offsetProcess + lease.TokenSize
	offsetContent   = offsetToken + lease.TokenSize
	headerSize      = offsetContent + len(keyedhash.Digest{})
)

// A record is what the store has of a call.
type record struct {
	state     recordState
	retryable bool             // see Response.Retryable
	status    int              // of the response
	lease     lease.Lease      // of stateBegun, without its tries
	content   keyedhash.Digest // see Call.Identity
	body      []byte
}

// writeHeader encodes the record's fields into the first headerSize bytes of b.
func (r *record) writeHeader(b []byte) {
	b[0] = recordVersion
	b[offsetState] = byte(r.state)
	b[offsetRetryable] = 0
	if r.retryable {
		b[offsetRetryable] = 1
	}
	binary.BigEndian.PutUint16(b[offsetStatus:], uint16(r.status))
	binary.BigEndian.PutUint64(b[offsetLeaseEnd:], uint64(r.lease.Until.UnixMilli()))
	copy(b[offsetProcess:], r.lease.Node)
	copy(b[offsetToken:], r.lease.Token)
	copy(b[offsetContent:], r.content[:])
}

// encode returns the encoded record, without a body.
func (r *record) encode() []byte {
	b := make([]byte, headerSize, headerSize+len(notStoredDropped))
	r.writeHeader(b)
	return b
}

// tombstone returns the encoded record that remains when the store drops the response.
func (r *record) tombstone() []byte {
	t := *r
	t.state = stateNotStored
	return append(t.encode(), notStoredDropped...)
}

// isValid reports whether the fields of a decoded record are valid.
func (r *record) isValid() bool {
	switch r.state {
	case stateBegun:
		return true
	case stateDone, stateNotStored:
		return r.status >= http.StatusOK && r.status < 600
	}
	return false
}

// decodeRecord decodes a record. It returns false if the record does not have this version's
// format. A lease with the names of known shares their memory.
func decodeRecord(b []byte, known *lease.Lease) (r record, ok bool) {
	if len(b) < headerSize || b[0] != recordVersion {
		return record{}, false
	}
	r = record{
		state:     recordState(b[offsetState]),
		retryable: b[offsetRetryable] != 0,
		status:    int(binary.BigEndian.Uint16(b[offsetStatus:])),
		body:      b[headerSize:],
	}
	copy(r.content[:], b[offsetContent:])
	if r.lease.Seq = 2; r.state == stateBegun { // the claim is the first change of the lease, the response the second one
		r.lease = lease.Lease{
			Node:  shared(bytes.TrimRight(b[offsetProcess:offsetToken], "\x00"), known.Node),
			Token: shared(b[offsetToken:offsetContent], known.Token),
			Until: time.UnixMilli(int64(binary.BigEndian.Uint64(b[offsetLeaseEnd:]))),
			Seq:   1,
		}
	}
	return r, r.isValid()
}

// shared returns the value as a text, in the memory of known if both are equal.
func shared(value []byte, known string) string {
	if string(value) == known {
		return known
	}
	return string(value)
}
