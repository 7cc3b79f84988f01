package client

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/strictjson"
)

// A Call is a call of a tool, or a request for a resource, a prompt or a completion. One of Tool, Resource, Prompt and
// Completion is set.
type Call struct {
	Owner        share.Owner    // whose call it is. Owners do not share sessions with state
	Tool         string         // the server's own name of the tool
	Resource     string         // URI
	Prompt       string         // name
	Completion   jsontext.Value // params of completion/complete
	Arguments    jsontext.Value // of the tool or the prompt, a JSON object
	Header       http.Header    // of HTTP requests: credentials, and headers that repeat arguments
	Capabilities jsontext.Value // ClientCapabilities of the client that the call is for; nil for none
	Responses    jsontext.Value // inputResponses of that client; nil for none
	State        string         // requestState of the result that the responses belong to; "" for none
	Meta         jsontext.Value // members of _meta for the server, a JSON object; nil for none
	Reads        bool           // the call changes nothing, so that it may be repeated
	MaxMessage   int64          // bytes of one message of the server; 0 for defaultMaxMessage

	// Notify gets the params of a progress notification or a log message of the server, and the method. It may be nil.
	Notify func(method string, params jsontext.Value)

	// Progress asks the server for progress notifications, if Notify is set.
	Progress bool
}

// Call sends the request. The result is that of the method, such as a CallToolResult or, if the server needs something from the client first, an
// InputRequiredResult in the form of 2026-07-28. The error is an *Error if the server returned a JSON-RPC error, a
// *StatusError for another HTTP response, and an *UnavailableError if the server could not be reached.
//
// A request that has not been processed, because its session had ended or the connection failed, is sent once more. A
// request that the server may have processed is not, unless it only reads (Options.Retries).
func (s *Server) Call(ctx context.Context, c *Call) (jsontext.Value, error) {
	if isParked(c.State) {
		return s.resume(ctx, c)
	}
	for retries := 0; ; retries++ {
		result, err := s.callOnce(ctx, c)
		unavailable, _ := errors.AsType[*UnavailableError](err)
		if unavailable == nil || retries >= s.options.Retries || !c.Reads && !unavailable.Unsent() || s.stopped.Err() != nil {
			return result, err
		}
		if pause(ctx, min(minRetryDelay<<retries, maxRetryDelay)) != nil {
			return nil, err
		}
	}
}

// Between the attempts of one call.
const (
	minRetryDelay = 200 * time.Millisecond
	maxRetryDelay = 5 * time.Second
)

// callOnce sends the request of a call, and sends it once more in another session if it has not been processed.
func (s *Server) callOnce(ctx context.Context, c *Call) (jsontext.Value, error) {
	for repeated := false; ; repeated = true {
		opened, release, err := s.acquire(ctx, c.Owner, c.Header)
		if err != nil {
			return nil, err
		}
		e := &exchange{server: s, session: opened, owner: c.Owner, header: c.Header, release: release}
		result, err := e.begin(ctx, c)
		s.recordCall(err)
		unprocessed := errors.Is(err, errSessionGone) || errors.Is(err, errUnsent)
		if err != nil && s.endedSession(err, opened) && unprocessed && !repeated {
			continue
		}
		return result, err
	}
}

// recordCall records whether a call could connect to the server.
func (s *Server) recordCall(err error) {
	if unavailable, _ := errors.AsType[*UnavailableError](err); err != nil && (unavailable == nil || !unavailable.Unsent()) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backoff.record(err, &s.options)
}

// An exchange is one tools/call and what server and client say to each other until its result.
type exchange struct {
	server  *Server
	session *session
	owner   share.Owner
	header  http.Header
	release func() // ends the use of the session

	id       int64
	cancel   context.CancelFunc
	messages chan message
	done     chan outcome
	asked    message // the request of the server that waits for the response of the client
}

type outcome struct {
	response message
	err      error
}

func (o outcome) result() (jsontext.Value, error) {
	switch {
	case o.err != nil:
		return nil, o.err
	case o.response.fault != nil:
		return nil, o.response.fault
	case o.response.result.Kind() == 'n':
		return jsontext.Value("{}"), nil
	}
	return o.response.result, nil
}

// begin sends the request and waits for the result.
func (e *exchange) begin(ctx context.Context, c *Call) (jsontext.Value, error) {
	q := e.request(c)
	if e.session.modern { // such a server sends no requests while a call is in progress
		defer e.release()
		m, err := e.session.link.exchange(ctx, q, func(m message) { c.notify(&m) })
		if err != nil && ctx.Err() != nil {
			e.cancelled(q.id)
		}
		return outcome{m, err}.result()
	}
	var lasting context.Context
	lasting, e.cancel = context.WithCancel(e.server.stopped) // a parked call outlives the request
	e.id, e.messages, e.done = q.id, make(chan message), make(chan outcome, 1)
	go func() {
		m, err := e.session.link.exchange(lasting, q, func(m message) {
			select {
			case e.messages <- m:
			case <-lasting.Done():
			}
		})
		e.done <- outcome{m, err}
	}()
	return e.wait(ctx, c)
}

// request returns the request of a call.
func (e *exchange) request(c *Call) *outgoing {
	method, name, members := c.request()
	if c.State != "" {
		members = strictjson.AppendString(append(members, `,"requestState":`...), c.State)
	}
	if len(c.Responses) > 0 {
		members = append(append(members, `,"inputResponses":`...), c.Responses...)
	}
	q := e.session.request(method, name, nil, c.Header)
	var meta []byte
	if c.Notify != nil && c.Progress {
		meta = strconv.AppendInt([]byte(`"progressToken":`), q.id, 10)
	}
	if c.Notify != nil && e.session.modern {
		meta = append(strictjson.Comma(meta), `"io.modelcontextprotocol/logLevel":"debug"`...)
	}
	if len(c.Meta) > 2 {
		meta = append(strictjson.Comma(meta), c.Meta[1:len(c.Meta)-1]...)
	}
	q.params = e.server.params(e.session, members, meta, c.Capabilities)
	if c.MaxMessage > 0 {
		q.limit = c.MaxMessage
	}
	return q
}

// request returns the method, what the header Mcp-Name repeats, and the members of the parameters.
func (c *Call) request() (method, name string, members []byte) {
	switch {
	case c.Completion != nil:
		return methodComplete, "", c.Completion[1 : len(c.Completion)-1]
	case c.Resource != "":
		return methodReadResource, c.Resource, strictjson.AppendString([]byte(`"uri":`), c.Resource)
	case c.Prompt != "":
		method, name = methodGetPrompt, c.Prompt
	default:
		method, name = methodCallTool, c.Tool
	}
	members = strictjson.AppendString([]byte(`"name":`), name)
	return method, name, append(append(members, `,"arguments":`...), c.Arguments...)
}

func (c *Call) notify(m *message) {
	if c.Notify != nil && (m.method == methodProgress || m.method == MethodLog) {
		c.Notify(m.method, m.params)
	}
}

// wait passes on what the server sends until there is a result, or until the server needs something from the client.
func (e *exchange) wait(ctx context.Context, c *Call) (jsontext.Value, error) {
	for {
		select {
		case m := <-e.messages:
			if m.id == nil {
				c.notify(&m)
			} else if result := e.serve(ctx, c, &m); result != nil {
				return result, nil
			}
		case o := <-e.done:
			e.end()
			return o.result()
		case <-ctx.Done():
			e.abort()
			return nil, context.Cause(ctx)
		}
	}
}

// serve handles a request of the server. If the client must respond, it parks the call and returns an
// InputRequiredResult.
func (e *exchange) serve(ctx context.Context, c *Call, m *message) jsontext.Value {
	var answer []byte
	switch reason := refusalOf(m, c.Capabilities); {
	case m.method == methodPing:
		answer = response(m.id, []byte("{}"))
	case reason != "":
		answer = refusal(m.id, codeMethodNotFound, reason)
	default:
		state, err := e.park(*m)
		if err == nil {
			return inputRequired(m, state)
		}
		answer = refusal(m.id, codeInternal, err.Error())
	}
	_ = e.session.link.send(ctx, e.header, answer) // the server gives up by itself if it gets no response
	return nil
}

// end ends the use of the session.
func (e *exchange) end() {
	e.cancel()
	e.release()
}

// abort ends a call without waiting for its result.
func (e *exchange) abort() {
	e.cancelled(e.id)
	e.end()
}

// cancelled tells the server that the result of a request is not needed any more. A server of 2026-07-28 over HTTP
// learns it from the end of the stream.
func (e *exchange) cancelled(id int64) {
	if _, overHTTP := e.session.link.(*httpLink); overHTTP && e.session.modern {
		return
	}
	params := append(strconv.AppendInt([]byte(`{"requestId":`), id, 10), '}')
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	go func() {
		defer cancel()
		_ = e.session.link.send(ctx, e.header, notification(methodCancelled, params))
	}()
}
