package mcpadapter

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
)

// maxServing is the maximum number of requests that one connection serves at once. Further requests
// wait.
const maxServing = 64

// A connection carries messages in both directions while it is open: over stdio, or over the stream
// and the POST requests of HTTP+SSE. Its calls run with the context and the identity of the request
// that opened it.
type connection struct {
	server *Server
	site   *Site
	ctx    context.Context
	stop   context.CancelFunc // cancels ctx
	owner  share.Owner
	out    protocol.Channel
	legacy bool // whether it is HTTP+SSE
	live   session.State

	watcher *session.Watcher // for the whole connection; selects no notifications before initialize
	ended   chan struct{}    // closed when the client sends no more messages
	slots   share.Slots
	serving sync.WaitGroup

	mu      sync.Mutex
	terms   protocol.Terms // negotiated by initialize
	closing bool           // new messages are rejected

	initialized atomic.Bool

	panicked string // panic value and stack of the goroutine that panicked; "" if none did
}

// newConnection returns a connection. The caller must call wait when it is done with it.
func (s *Server) newConnection(ctx context.Context, site *Site, owner share.Owner, out protocol.Channel) *connection {
	ctx, stop := context.WithCancel(ctx)
	c := &connection{
		server:  s,
		site:    site,
		ctx:     ctx,
		stop:    stop,
		owner:   owner,
		out:     out,
		watcher: session.NewWatcher(0),
		ended:   make(chan struct{}),
		slots:   share.NewSlots("requests of a connection", maxServing),
		terms:   protocol.Terms{Version: protocol.NewestStateful},
	}
	c.live.Watch(c.watcher)
	return c
}

// receive serves one message or batch of the connection. It serves requests concurrently, except
// initialize, which decides how the following messages are read.
//
// Requests are registered before receive returns, so that the next message can cancel them. receive
// blocks while the connection serves maxServing requests, until ctx ends. It returns false if it
// rejects the request because the connection closes. It calls release when the body is no longer used.
func (c *connection) receive(ctx context.Context, body []byte, release func()) bool {
	started := false
	defer func() {
		if !started {
			release()
		}
	}()
	ids := c.requests(body)
	if ids == nil {
		c.serve(body)
		return true
	}
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return false
	case <-c.ctx.Done():
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		<-c.slots
		return false
	}
	ids = slices.DeleteFunc(ids, func(id jsontext.Value) bool { return !c.live.Register(c.ctx, id) })
	started = true
	c.serving.Go(func() {
		defer release()
		defer func() { <-c.slots }()
		defer func() {
			for _, id := range ids {
				c.live.Unregister(id)
			}
		}()
		c.serveAlone(body)
	})
	return true
}

// serveAlone runs serve in a goroutine of its own. A panic in such a goroutine would end the whole
// process, so serveAlone recovers it and closes the connection; wait then panics with the same value
// in the goroutine that owns the connection.
func (c *connection) serveAlone(body []byte) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.panicked = fmt.Sprintf("%v\n%s", value, debug.Stack())
		c.stop()
	}()
	c.serve(body)
}

// pause frees the slot of a request while it waits for a response from the client. Otherwise that
// response could be stuck behind requests that wait for a slot. resume takes a slot again before the
// request goes on.
func (c *connection) pause() (resume func()) {
	if c == nil {
		return func() {}
	}
	<-c.slots
	return func() { c.slots <- struct{}{} }
}

// requests returns the ids of the requests in a body that can be served concurrently with the
// messages after it. It returns nil if the body must be served before the next message is read.
func (c *connection) requests(body []byte) (ids []jsontext.Value) {
	if int64(len(body)) > c.server.options.MaxBody || strictjson.Check(body) != nil {
		return nil
	}
	if body = bytes.TrimLeft(body, " \t\r\n"); body[0] == '{' {
		m, f := readEnvelope(body)
		if f != nil || m.id == nil || m.method == "" || m.method == "initialize" {
			return nil
		}
		return []jsontext.Value{m.id}
	}
	ids = []jsontext.Value{}
	for walk := strictjson.Into(body); walk.Next() && len(ids) < maxBatch; {
		if m, f := readEnvelope(walk.Value); f == nil && m.id != nil && m.method != "" {
			ids = append(ids, m.id)
		}
	}
	return ids
}

// drain rejects new requests and waits until those in progress have ended or until is closed. The
// client can still respond to requests of the server.
func (c *connection) drain(until <-chan struct{}) {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	served := make(chan struct{})
	go func() {
		c.serving.Wait()
		close(served)
	}()
	select {
	case <-served:
	case <-until:
	case <-c.ctx.Done():
	}
}

// wait returns when all received requests have been served. It rejects new ones.
func (c *connection) wait() {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.serving.Wait()
	c.stop()
	if c.panicked != "" {
		panic(c.panicked)
	}
}

// serve serves one body and sends the response.
func (c *connection) serve(body []byte) {
	out := buffer.Get()
	defer buffer.Put(out)
	tools := c.site.Host.Tools()
	x := exchange{
		client:   client{channel: c.out, connection: c, state: &c.live},
		server:   c.server,
		site:     c.site,
		ctx:      c.ctx,
		tools:    tools,
		caller:   c.site.Host.Caller(tools),
		terms:    c.negotiated(),
		response: response{out: out},
		status:   http.StatusOK,
	}
	if limit := c.server.options.MaxBody; int64(len(body)) > limit {
		x.refuse(protocol.TooLarge(limit))
	} else {
		x.serve(body)
	}
	if out.B = append(out.B, x.response.trailer...); len(out.B) == 0 {
		return
	}
	_ = c.out.Send(out.B) // a write error ends the reading side of the connection
}

// negotiated returns the terms for the next message.
func (c *connection) negotiated() protocol.Terms {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.terms
}

// setNegotiated stores what initialize has negotiated and starts notifications.
func (c *connection) setNegotiated(terms protocol.Terms) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.terms = terms
	c.initialized.Store(true)
	c.watcher.Want(session.All)
}

// cancelRequest serves notifications/cancelled.
func (x *exchange) cancelRequest(params jsontext.Value) {
	id := strictjson.MemberOf(params, "requestId")
	if x.state != nil && (id.Kind() == '"' || id.Kind() == '0') {
		x.state.Cancel(id)
	}
}
