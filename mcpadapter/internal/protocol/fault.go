package protocol

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// Error codes of JSON-RPC 2.0 and of MCP 2026-07-28.
const (
	ParseError              = -32700
	InvalidRequest          = -32600
	MethodNotFound          = -32601
	InvalidParams           = -32602
	InternalError           = -32603
	SessionNotFound         = -32001
	HeaderMismatch          = -32020
	MissingClientCapability = -32021
	UnsupportedVersion      = -32022
	URLElicitationRequired  = -32042 // of 2025-11-25
)

// A Fault is a JSON-RPC error response, with the HTTP status and the headers that go with it.
type Fault struct {
	Status  int // HTTP status
	Code    int
	Message string
	Data    []byte // JSON; nil to omit it

	IsResult  bool // of tools/call: write a tool result with isError in place of the error, so that hosts of MCP Apps ask the user to log in
	Anonymous bool // omit the id in every revision, because no message was read
	Allow     bool // set the Allow header
	FromAPI   bool // the API returned the error

	RetryAfter time.Duration // Retry-After; 0 to omit it
	Challenge  string        // WWW-Authenticate; "" to omit it
}

// Faultf returns a Fault with a formatted message.
func Faultf(status, code int, format string, args ...any) *Fault {
	return &Fault{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// WithoutID omits the id in every revision, because no message was read. It returns f.
func (f *Fault) WithoutID() *Fault {
	f.Anonymous = true
	return f
}

// BadParams returns a Fault for invalid parameters of a well-formed message.
func BadParams(format string, args ...any) *Fault {
	return Faultf(http.StatusOK, InvalidParams, format, args...)
}

// SetHeader sets the response headers of the fault.
func (f *Fault) SetHeader(header http.Header) {
	if f.Allow {
		header["Allow"] = []string{"POST, GET, DELETE"}
	}
	if f.RetryAfter > 0 {
		header["Retry-After"] = []string{strconv.Itoa(int(math.Ceil(f.RetryAfter.Seconds())))}
	}
	if f.Challenge != "" {
		header["Www-Authenticate"] = []string{f.Challenge}
	}
}

// Malformed returns the Fault for an invalid Envelope.
func Malformed(format string, args ...any) *Fault {
	return Faultf(http.StatusBadRequest, InvalidRequest, format, args...)
}

// AppendTo appends the error object of JSON-RPC.
func (f *Fault) AppendTo(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"code":`...), int64(f.Code), 10)
	dst = strictjson.AppendString(append(dst, `,"message":`...), f.Message)
	if f.Data != nil {
		dst = append(append(dst, `,"data":`...), f.Data...)
	}
	return append(dst, '}')
}
