package mcpadapter

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// DefaultAskTimeout is how long a client, and often the person in front of it,
// may take to answer a request of the server.
const DefaultAskTimeout = 5 * time.Minute

// Why a client cannot be asked, or did not answer.
var (
	errNoWayToAsk = errors.New("the client's request came without a session or leaves no stream to ask on")
	errAskTimeout = errors.New("the client did not answer in time")
	errClosing    = errors.New("the server is shutting down")
)

// A refusedAskError is the error with which a client answered a request of the server.
type refusedAskError struct{ failure jsontext.Value }

func (r *refusedAskError) Error() string { return "the client answered with an error" }

// canAsk reports whether requests can be sent to the client while its own is
// being served. Since 2026-07-28 they are part of results instead.
func (x *exchange) canAsk() bool {
	return !x.version.selfDescribing() && x.channel != nil && x.live != nil && !x.batched
}

// ask sends the client a request and waits for the result.
func (x *exchange) ask(method string, params jsontext.Value) (jsontext.Value, error) {
	if !x.canAsk() {
		return nil, errNoWayToAsk
	}
	id, answer, forget, ok := x.live.expect()
	if !ok {
		return nil, errNoWayToAsk
	}
	defer forget()
	defer x.connection.pause()()
	b := wire.AppendString([]byte(`{"jsonrpc":"2.0","id":`), id)
	b = wire.AppendString(append(b, `,"method":`...), method)
	if len(params) > 0 {
		b = append(append(b, `,"params":`...), params...)
	}
	if err := x.channel.send(append(b, '}')); err != nil {
		return nil, err
	}
	var ended <-chan struct{}
	if x.connection != nil {
		ended = x.connection.ended
	}
	timeout := time.NewTimer(x.server.options.AskTimeout)
	defer timeout.Stop()
	alive := time.NewTicker(x.server.options.KeepAlive)
	defer alive.Stop()
	for {
		select {
		case a := <-answer:
			if a.failure != nil {
				return nil, &refusedAskError{a.failure}
			}
			return a.result, nil
		case <-x.ctx.Done():
			return nil, x.retract(id, context.Cause(x.ctx))
		case <-x.server.asking.Done():
			return nil, x.retract(id, errClosing)
		case <-ended:
			return nil, x.retract(id, errClosing)
		case <-timeout.C:
			return nil, x.retract(id, errAskTimeout)
		case <-alive.C:
			if err := x.keepAlive(); err != nil {
				return nil, err
			}
		}
	}
}

// retract tells the client that its answer is not waited for any more, so that no
// dialog stays open for it (MCP 2025-11-25, Lifecycle, Timeouts), and returns why.
func (x *exchange) retract(id string, reason error) error {
	b := wire.AppendString([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`), id)
	b = wire.AppendString(append(b, `,"reason":`...), reason.Error())
	_ = x.channel.send(append(b, "}}"...)) // whoever is gone has no dialog
	return reason
}

// keepAlive shows a sign of life on the stream that answers the client's request,
// if it is one: people take longer to answer than proxies wait.
func (x *exchange) keepAlive() error {
	if stream, ok := x.channel.(*eventStream); ok && x.connection == nil {
		return stream.comment()
	}
	return nil
}

// takeResponse hands a response of the client to what waits for it.
func (x *exchange) takeResponse(m *envelope) *fault {
	if x.id == nil || (m.result == nil) == (m.failure == nil) {
		return malformed("the message has no method: it is neither a request nor a notification nor a response")
	}
	if x.version.selfDescribing() {
		return malformed("revision %v has no responses from clients: send a request", x.version)
	}
	if x.live != nil {
		x.live.deliver(text(x.id), response{m.result, m.failure})
	}
	return nil
}

// missingCapability refuses a request that needs of the client what it has not
// declared (MCP 2026-07-28, error -32021).
func missingCapability(needed capabilities) *fault {
	f := faultf(http.StatusBadRequest, missingClientCapability,
		"this request needs a capability that the client has not declared in _meta[%q]", metaCapabilities)
	f.data = append(needed.appendTo([]byte(`{"requiredCapabilities":`)), '}')
	return f
}
