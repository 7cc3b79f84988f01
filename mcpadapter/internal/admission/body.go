package admission

import (
	"errors"
	"net/http"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
)

// firstRead is the largest buffer, in bytes, that is allocated for a body before any of it arrives.
// A large Content-Length alone must not reserve memory.
const firstRead = 64 << 10

// ReadBody reads the whole body of a request into b, up to limit bytes.
func ReadBody(b *buffer.Buffer, r *http.Request, limit int64) *jsonrpc.Fault {
	if r.ContentLength > limit {
		return TooLarge(limit)
	}
	if r.Body == nil {
		return nil
	}
	if want := int(min(max(r.ContentLength+1, 512), firstRead)); cap(b.B) < want {
		b.B = make([]byte, 0, want)
	}
	switch err := b.ReadAll(r.Body, limit); {
	case err == nil:
		return nil
	case errors.Is(err, buffer.ErrTooLarge):
		return TooLarge(limit)
	default:
		return incompleteBody(err, len(b.B))
	}
}

// incompleteBody returns the fault for a body that ended early: either a handler in front of this server
// limits bodies, or the client stopped sending.
func incompleteBody(err error, read int) *jsonrpc.Fault {
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		return TooLarge(tooLong.Limit)
	}
	return jsonrpc.Faultf(http.StatusBadRequest, jsonrpc.ParseError, "the body broke off after %d bytes: send it again", read)
}

// TooLarge returns the Fault for a body that is larger than the limit.
func TooLarge(limit int64) *jsonrpc.Fault {
	return jsonrpc.Faultf(http.StatusRequestEntityTooLarge, jsonrpc.InvalidRequest,
		"the body is larger than the limit of %d bytes: send less at once", limit)
}
