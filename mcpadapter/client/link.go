package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
)

// A link carries messages to a server and back. It is safe for concurrent use.
type link interface {
	// exchange sends a request and returns the response. It passes other messages of the server that belong to the
	// request to receive, one at a time. If receive is nil, nothing but the response belongs to the request.
	exchange(ctx context.Context, q *outgoing, receive func(message)) (message, error)

	// send sends a notification, or a response to a request of the server.
	send(ctx context.Context, header http.Header, data []byte) error

	// listen calls changed for each list that the server reports as changed, until ctx is done or the link ends.
	// It returns nil if the server does not report changes.
	listen(ctx context.Context, changed func()) error

	// isStateful reports whether the server keeps state for the link.
	isStateful() bool

	close()
}

var (
	// errSessionGone means that the server no longer knows the session. The request was not processed.
	errSessionGone = errors.New("the session with the MCP server has ended")

	// errUnsent means that the request has not reached the server.
	errUnsent = errors.New("the request was not sent")

	// errNoTransport means that the server does not speak Streamable HTTP at this address.
	errNoTransport = errors.New("the address does not speak Streamable HTTP")
)

// UnavailableError means that the server cannot be reached at the moment.
type UnavailableError struct {
	Err error
}

func (e *UnavailableError) Error() string { return "the MCP server is not available: " + e.Err.Error() }
func (e *UnavailableError) Unwrap() error { return e.Err }

// Unsent reports whether the request has not reached the server.
func (e *UnavailableError) Unsent() bool { return errors.Is(e.Err, errUnsent) }

// unreachable wraps an error of the HTTP transport. Errors from before the connection existed also wrap errUnsent.
func unreachable(err error) error {
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Op == "dial" {
		return &UnavailableError{fmt.Errorf("%w: %w", errUnsent, failed)}
	}
	return &UnavailableError{err}
}
