package mcpadapter

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
)

// DefaultAskTimeout is how long the server waits for a client's response to a server-to-client
// request, such as an elicitation. The user of the client often has to answer.
const DefaultAskTimeout = 5 * time.Minute

// Reasons why a server-to-client request has no response.
var (
	errAskTimeout = errors.New("the client did not respond in time")
	errClosing    = errors.New("the server is shutting down")
)

// canAsk reports whether the server can send the client a request while it serves the client's own
// request. From 2026-07-28 on this is not possible: the server's requests are part of results
// instead (MCP 2026-07-28, Multi Round-Trip Requests).
func (q *request) canAsk() bool {
	return !q.version.Stateless() && q.channel != nil && q.state != nil && !q.batched
}

// ask sends a request to the client and waits for its result. It gives up if the client's own
// request is canceled, the connection ends, the server closes, or Options.AskTimeout passes.
func (q *request) ask(method string, params jsontext.Value) (jsontext.Value, error) {
	if !q.canAsk() {
		return nil, elicit.ErrCannotAsk
	}
	id, answer, forget, ok := q.state.Expect()
	if !ok {
		return nil, elicit.ErrCannotAsk
	}
	defer forget()
	defer q.connection.pause()()
	b := strictjson.AppendString([]byte(`{"jsonrpc":"2.0","id":`), id)
	b = strictjson.AppendString(append(b, `,"method":`...), method)
	if len(params) > 0 {
		b = append(append(b, `,"params":`...), params...)
	}
	if err := q.channel.Send(append(b, '}')); err != nil {
		return nil, err
	}
	var ended <-chan struct{}
	if q.connection != nil {
		ended = q.connection.ended
	}
	timeout := time.After(q.server.options.AskTimeout)
	alive := time.NewTicker(q.server.options.KeepAlive)
	defer alive.Stop()
	for {
		select {
		case a := <-answer:
			if a.Failure != nil {
				return nil, &elicit.ClientError{Failure: a.Failure}
			}
			return a.Result, nil
		case <-q.ctx.Done():
			return nil, q.cancelAsk(id, context.Cause(q.ctx))
		case <-q.server.asking.Done():
			return nil, q.cancelAsk(id, errClosing)
		case <-ended:
			return nil, q.cancelAsk(id, errClosing)
		case <-timeout:
			return nil, q.cancelAsk(id, errAskTimeout)
		case <-alive.C:
			if err := q.keepAlive(); err != nil {
				return nil, err
			}
		}
	}
}

// cancelAsk cancels a request to the client, so that the client closes the dialog (MCP 2025-11-25,
// Lifecycle, Timeouts). It returns reason.
func (c *client) cancelAsk(id string, reason error) error {
	b := strictjson.AppendString([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`), id)
	b = strictjson.AppendString(append(b, `,"reason":`...), reason.Error())
	_ = c.channel.Send(append(b, "}}"...)) // a client that has disconnected shows no dialog
	return reason
}

// keepAlive writes a comment to the event stream of the response, if the response is one. Users may
// take longer to answer than proxies keep an idle connection open.
func (c *client) keepAlive() error {
	if events, ok := c.channel.(*responseEvents); ok && c.connection == nil {
		return events.Comment()
	}
	return nil
}

// takeResponse delivers a client's response to the ask call that waits for it.
func (x *exchange) takeResponse(m *envelope) *protocol.Fault {
	if m.id == nil || (m.result == nil) == (m.failure == nil) {
		return protocol.Malformed("method is missing: the message is neither a request nor a notification nor a response")
	}
	if x.terms.Version.Stateless() {
		return protocol.Malformed("revision %v does not support responses from clients: send a request", x.terms.Version)
	}
	if x.state != nil {
		x.state.Deliver(strictjson.Text(m.id), session.Response{Result: m.result, Failure: m.failure})
	}
	return nil
}
