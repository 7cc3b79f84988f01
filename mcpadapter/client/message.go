package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

// Methods of MCP that this package uses itself.
const (
	methodDiscover    = "server/discover"
	methodInitialize  = "initialize"
	methodInitialized = "notifications/initialized"
	methodCancelled   = "notifications/cancelled"
	methodProgress    = "notifications/progress"
	methodListen      = "subscriptions/listen"
	methodPing        = "ping"
	methodSetLevel    = "logging/setLevel"
	methodListRoots   = "roots/list"
	methodListTools   = "tools/list"
	methodCallTool    = "tools/call"

	methodListResources = "resources/list"
	methodListTemplates = "resources/templates/list"
	methodReadResource  = "resources/read"
	methodListSkills    = "skills/list"
	methodListPrompts   = "prompts/list"
	methodGetPrompt     = "prompts/get"
	methodComplete      = "completion/complete"
)

// MethodLog is the method of notifications with a log message.
const MethodLog = "notifications/message"

// Codes of JSON-RPC errors.
const (
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603

	// Errors that only servers of 2026-07-28 or later return.
	codeHeaderMismatch      = -32020
	codeMissingCapability   = -32021
	codeUnsupportedRevision = -32022

	codeSessionNotFound = -32001 // of some servers, in place of the status 404
)

// Error is a JSON-RPC error that the server returned.
type Error struct {
	Code    int
	Message string
	Data    jsontext.Value // nil if absent
}

// maxErrorText is how many bytes of a server's error message are passed on.
const maxErrorText = 4 << 10

func (e *Error) Error() string {
	return fmt.Sprintf("the MCP server returned the error %d: %s", e.Code, e.Message)
}

// Append appends the error as a JSON object.
func (e *Error) Append(dst []byte) []byte {
	return (&protocol.Fault{Code: e.Code, Message: e.Message, Data: e.Data}).AppendTo(dst)
}

// StatusError is an HTTP response that is no JSON-RPC message.
type StatusError struct {
	Status     int
	RetryAfter string // the header Retry-After; "" if absent
	Location   string // of a redirect that was not followed; "" if absent
}

func (e *StatusError) Error() string {
	m := fmt.Sprintf("the MCP server responded with %d %s", e.Status, http.StatusText(e.Status))
	if e.Location != "" {
		m += fmt.Sprintf(" to %q, which is not followed: give mcp_server the address where the server is", text.Cut(e.Location, text.MaxQuoted))
	}
	return m
}

// A message is a JSON-RPC message of the server.
type message struct {
	id     jsontext.Value // nil for a notification
	method string         // "" for a response
	params jsontext.Value // of a request or a notification; nil if absent
	result jsontext.Value // of a response; nil if it has an error
	fault  *Error         // of a response; nil if it has a result
	err    error          // of a response that cannot be read; nil otherwise
}

// ErrUnreadable reports that the server was reached, but its response is no message.
var ErrUnreadable = errors.New("the MCP server sent")

// readMessage reads a message. It copies data, which may belong to a buffer that is reused.
func readMessage(data []byte) (m message, err error) {
	object, err := readJSON(data)
	if err != nil {
		return m, fmt.Errorf("%w a message that is not strict JSON: %w", ErrUnreadable, err)
	}
	if object.Kind() != '{' {
		return m, fmt.Errorf("%w %s instead of a message", ErrUnreadable, strictjson.KindName(object.Kind()))
	}
	for walk := strictjson.Into(object); walk.Next(); {
		switch {
		case walk.Is("id") && walk.Value.Kind() != 'n':
			m.id = walk.Value
		case walk.Is("method"):
			m.method = strictjson.Text(walk.Value)
		case walk.Is("params"):
			m.params = walk.Value
		case walk.Is("result"):
			m.result = walk.Value
		case walk.Is("error") && walk.Value.Kind() != 'n':
			m.fault = readError(walk.Value)
		}
	}
	if m.method == "" && m.result == nil && m.fault == nil {
		return m, fmt.Errorf("%w a message without method, result and error", ErrUnreadable)
	}
	return m, nil
}

// readJSON returns a copy of data as strict JSON. Servers cut texts inside a character, begin with a byte order mark, and respond with a
// batch of one message.
func readJSON(data []byte) (jsontext.Value, error) {
	var object jsontext.Value
	if err := strictjson.Check(data); err == nil {
		object = jsontext.Value(data).Clone()
	} else {
		mended, failed := jsontext.AppendFormat(nil, bytes.TrimPrefix(data, []byte("\ufeff")), jsontext.AllowInvalidUTF8(true)) // with U+FFFD
		if failed != nil || strictjson.Check(mended) != nil {
			return nil, err
		}
		object = mended
	}
	if batch := strictjson.Into(object); object.Kind() == '[' && batch.Next() {
		if only := batch.Value; !batch.Next() {
			return only, nil
		}
	}
	return object, nil
}

// unreadableID reports whether data was to be a response, although it is not strict JSON, and returns the id, "" if it cannot
// be found. The package encoding/json reads wrong UTF-8 and names that are repeated.
func unreadableID(data []byte) (id string, isResponse bool) {
	var envelope struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
	}
	if err := json.Unmarshal(data, &envelope); err == nil || envelope.Version != "" {
		return string(envelope.ID), envelope.Version != "" && envelope.Method == ""
	}
	data = bytes.TrimLeft(data, " \t")
	return "", bytes.HasPrefix(data, []byte("{")) && bytes.Contains(data, []byte(`"jsonrpc"`)) && !bytes.Contains(data, []byte(`"method"`))
}

func readError(raw jsontext.Value) *Error {
	e := &Error{Code: codeInternal, Message: text.Cut(strictjson.Text(strictjson.MemberOf(raw, "message")), maxErrorText)}
	if code, err := strconv.ParseInt(string(strictjson.MemberOf(raw, "code")), 10, 32); err == nil {
		e.Code = int(code)
	}
	e.Data = strictjson.MemberOf(raw, "data")
	return e
}

// An outgoing is a request of the gateway.
type outgoing struct {
	id     int64
	method string
	name   string      // what the header Mcp-Name repeats; "" for none
	params []byte      // a JSON object
	header http.Header // of the HTTP request: credentials, and headers that repeat arguments
	limit  int64       // bytes of one message of the server
}

func (q *outgoing) encode() []byte {
	b := make([]byte, 0, len(q.params)+96)
	b = strconv.AppendInt(append(b, `{"jsonrpc":"2.0","id":`...), q.id, 10)
	b = strictjson.AppendString(append(b, `,"method":`...), q.method)
	return append(append(append(b, `,"params":`...), q.params...), '}')
}

// isResponse reports whether the message is the response to the request.
func (q *outgoing) isResponse(m *message) bool {
	return m.method == "" && (m.requestID() == strconv.FormatInt(q.id, 10) || m.id == nil && m.fault != nil)
}

// requestID returns the id of the request that the message responds to. Some servers write it as a text, or with a fraction.
func (m *message) requestID() string {
	return strings.TrimSuffix(strings.Trim(string(m.id), `"`), ".0")
}

// notification returns the message of a notification.
func notification(method string, params []byte) []byte {
	b := strictjson.AppendString([]byte(`{"jsonrpc":"2.0","method":`), method)
	if params != nil {
		b = append(append(b, `,"params":`...), params...)
	}
	return append(b, '}')
}

// response returns the response to a request of the server.
func response(id, result jsontext.Value) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	return append(append(append(b, `,"result":`...), result...), '}')
}

// refusal returns the error response to a request of the server.
func refusal(id jsontext.Value, code int, reason string) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	return append((&Error{Code: code, Message: reason}).Append(append(b, `,"error":`...)), '}')
}
