package mcpadapter

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// Error codes of JSON-RPC 2.0 and of MCP 2026-07-28.
const (
	parseError              = -32700
	invalidRequest          = -32600
	methodNotFound          = -32601
	invalidParams           = -32602
	internalError           = -32603
	sessionNotFound         = -32001
	headerMismatch          = -32020
	missingClientCapability = -32021
	unsupportedVersion      = -32022
)

// A fault is a JSON-RPC error response, with the HTTP status and the headers that go with it.
type fault struct {
	status  int // HTTP status
	code    int
	message string
	data    []byte // JSON; nil to omit it

	anonymous bool // omit the id in every revision, because no message was read
	allow     bool // set the Allow header

	retryAfter time.Duration // Retry-After; 0 to omit it
	challenge  string        // WWW-Authenticate; "" to omit it
}

// faultf returns a fault with a formatted message.
func faultf(status, code int, format string, args ...any) *fault {
	return &fault{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

// badParams returns a fault for invalid parameters of a well-formed message.
func badParams(format string, args ...any) *fault {
	return faultf(http.StatusOK, invalidParams, format, args...)
}

// refuse writes the fault as the response to the current message.
func (x *exchange) refuse(f *fault) {
	x.status, x.fault = f.status, f
	if f.status == http.StatusNoContent {
		return
	}
	id := x.id
	if id == nil && !f.anonymous && !x.version.OmitsUnreadID() {
		id = jsontext.Value("null")
	}
	b := append(x.out.B, `{"jsonrpc":"2.0"`...)
	if id != nil {
		b = append(append(b, `,"id":`...), id...)
	}
	b = strconv.AppendInt(append(b, `,"error":{"code":`...), int64(f.code), 10)
	b = wire.AppendString(append(b, `,"message":`...), f.message)
	if f.data != nil {
		b = append(append(b, `,"data":`...), f.data...)
	}
	x.out.B = append(b, "}}"...)
}

// setHeader sets the response headers of the fault.
func (f *fault) setHeader(header http.Header) {
	if f.allow {
		header["Allow"] = []string{"POST, GET, DELETE"}
	}
	if f.retryAfter > 0 {
		header["Retry-After"] = []string{strconv.Itoa(int(math.Ceil(f.retryAfter.Seconds())))}
	}
	if f.challenge != "" {
		header["Www-Authenticate"] = []string{f.challenge}
	}
}
