package mcpadapter

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
	"github.com/fairwayhq/fairway/mcpadapter/internal/stream"
)

// DefaultAskTimeout is how long the server waits for a client's response to a server-to-client
// request, such as an elicitation. The user of the client often has to answer.
const DefaultAskTimeout = 5 * time.Minute

// Reasons why a server-to-client request has no response.
var (
	errAskTimeout = errors.New("the client did not answer in time")
	errClosing    = errors.New("the server is shutting down")
)

// canAsk reports whether the server can send the client a request while it serves the client's own
// request. From 2026-07-28 on this is not possible: the server's requests are part of results
// instead (MCP 2026-07-28, Multi Round-Trip Requests).
func (x *exchange) canAsk() bool {
	return !x.version.Stateless() && x.channel != nil && x.state != nil && !x.batched
}

// ask sends a request to the client and waits for its result. It gives up if the client's own
// request is canceled, the connection ends, the server closes, or Options.AskTimeout passes.
func (x *exchange) ask(method string, params jsontext.Value) (jsontext.Value, error) {
	if !x.canAsk() {
		return nil, elicit.ErrCannotAsk
	}
	id, answer, forget, ok := x.state.Expect()
	if !ok {
		return nil, elicit.ErrCannotAsk
	}
	defer forget()
	defer x.connection.pause()()
	b := wire.AppendString([]byte(`{"jsonrpc":"2.0","id":`), id)
	b = wire.AppendString(append(b, `,"method":`...), method)
	if len(params) > 0 {
		b = append(append(b, `,"params":`...), params...)
	}
	if err := x.channel.Send(append(b, '}')); err != nil {
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
			if a.Failure != nil {
				return nil, &elicit.ClientError{Failure: a.Failure}
			}
			return a.Result, nil
		case <-x.ctx.Done():
			return nil, x.cancelAsk(id, context.Cause(x.ctx))
		case <-x.server.asking.Done():
			return nil, x.cancelAsk(id, errClosing)
		case <-ended:
			return nil, x.cancelAsk(id, errClosing)
		case <-timeout.C:
			return nil, x.cancelAsk(id, errAskTimeout)
		case <-alive.C:
			if err := x.keepAlive(); err != nil {
				return nil, err
			}
		}
	}
}

// cancelAsk cancels a request to the client, so that the client closes the dialog (MCP 2025-11-25,
// Lifecycle, Timeouts). It returns reason.
func (x *exchange) cancelAsk(id string, reason error) error {
	b := wire.AppendString([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`), id)
	b = wire.AppendString(append(b, `,"reason":`...), reason.Error())
	_ = x.channel.Send(append(b, "}}"...)) // a client that has disconnected shows no dialog
	return reason
}

// keepAlive writes a comment to the event stream of the response, if the response is one. Users may
// take longer to answer than proxies keep an idle connection open.
func (x *exchange) keepAlive() error {
	if stream, ok := x.channel.(*stream.EventStream); ok && x.connection == nil {
		return stream.Comment()
	}
	return nil
}

// takeResponse delivers a client's response to the ask call that waits for it.
func (x *exchange) takeResponse(m *jsonrpc.Envelope) *jsonrpc.Fault {
	if x.id == nil || (m.Result == nil) == (m.Failure == nil) {
		return jsonrpc.Malformed("the message has no method: it is neither a request nor a notification nor a response")
	}
	if x.version.Stateless() {
		return jsonrpc.Malformed("revision %v has no responses from clients: send a request", x.version)
	}
	if x.state != nil {
		x.state.Deliver(wire.Text(x.id), session.Response{Result: m.Result, Failure: m.Failure})
	}
	return nil
}
