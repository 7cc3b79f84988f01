package mcpadapter

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/wire"
)

// maxServing is how many requests of one connection are served at once; those
// that come on top wait.
const maxServing = 64

// A connection carries messages both ways for as long as it is open: standard
// input and output, or the stream and the posts of HTTP+SSE. Its calls run in the
// context, and with the identity, of the request that opened it.
type connection struct {
	server *Server
	site   *Site
	ctx    context.Context
	stop   context.CancelFunc // ends ctx
	client string
	out    channel
	live   live

	watcher *watcher      // of the whole connection; wants nothing before initialize
	ended   chan struct{} // closed when the client sends nothing more
	slots   chan struct{}
	serving sync.WaitGroup

	mu      sync.Mutex
	version revision // as settled by initialize
	can     capabilities
	over    bool // nothing more is taken in

	panicked string // what a message that was served panicked with; "" if none did
}

// newConnection returns a connection, for which wait must be called in the end.
func (s *Server) newConnection(ctx context.Context, site *Site, client string, out channel) *connection {
	ctx, stop := context.WithCancel(ctx)
	return &connection{
		server:  s,
		site:    site,
		ctx:     ctx,
		stop:    stop,
		client:  client,
		out:     out,
		watcher: newWatcher(0),
		ended:   make(chan struct{}),
		slots:   make(chan struct{}, maxServing),
		version: newestInitialized,
	}
}

// receive serves one body that came over the connection. Requests are served
// concurrently, except initialize, which decides how the next messages are read.
// They are registered before receive returns, so that the next message can cancel
// them. receive blocks while the connection serves maxServing requests; ctx ends
// that. It reports false for requests that the connection takes no more.
func (c *connection) receive(ctx context.Context, body []byte) bool {
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
	if c.over {
		<-c.slots
		return false
	}
	ids = slices.DeleteFunc(ids, func(id jsontext.Value) bool { return !c.live.register(c.ctx, id) })
	c.serving.Go(func() {
		defer func() { <-c.slots }()
		defer func() {
			for _, id := range ids {
				c.live.unregister(id)
			}
		}()
		c.serveAlone(body)
	})
	return true
}

// serveAlone is serve in a goroutine of its own, where a panic would end the
// process and everybody's connections. It ends this one, whose own goroutine
// panics with it.
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

// pause lets another request be served while one waits for the client, whose
// answer could otherwise stand behind requests that wait in turn. The request goes
// on when there is room for it again.
func (c *connection) pause() (resume func()) {
	if c == nil {
		return func() {}
	}
	<-c.slots
	return func() { c.slots <- struct{}{} }
}

// requests returns the ids of the requests in a body that are served concurrently
// with the messages after it. It returns nil if the body has to be served before
// the next message is read.
func (c *connection) requests(body []byte) (ids []jsontext.Value) {
	if int64(len(body)) > c.server.options.MaxBody || wire.Check(body) != nil {
		return nil
	}
	if body = bytes.TrimLeft(body, " \t\r\n"); body[0] == '{' {
		m := readEnvelope(body)
		if m.id == nil || m.method == nil || text(m.method) == "initialize" {
			return nil
		}
		return []jsontext.Value{m.id}
	}
	ids = []jsontext.Value{}
	for walk := wire.Into(body); walk.Next() && len(ids) < maxBatch; {
		if m := readEnvelope(walk.Value); m.id != nil && m.method != nil {
			ids = append(ids, m.id)
		}
	}
	return ids
}

// drain takes no more requests, and returns when those that are being served have
// ended, or at the end of until. The client can still answer what it is asked.
func (c *connection) drain(until <-chan struct{}) {
	c.mu.Lock()
	c.over = true
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

// wait returns when everything that was received has been served. Nothing is
// received any more.
func (c *connection) wait() {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	c.serving.Wait()
	c.stop()
	if c.panicked != "" {
		panic(c.panicked)
	}
}

// serve answers one body.
func (c *connection) serve(body []byte) {
	out := buffer.Get()
	defer buffer.Put(out)
	tools := c.site.Tools()
	c.mu.Lock()
	x := exchange{
		server:     c.server,
		site:       c.site,
		tools:      tools,
		caller:     c.site.Caller(tools),
		ctx:        c.ctx,
		out:        out,
		channel:    c.out,
		connection: c,
		live:       &c.live,
		version:    c.version,
		client:     c.can,
		status:     http.StatusOK,
	}
	c.mu.Unlock()
	if limit := c.server.options.MaxBody; int64(len(body)) > limit {
		x.refuse(tooLarge(limit))
	} else {
		x.serve(body)
	}
	if len(out.B)+len(x.kept) == 0 {
		return
	}
	out.B = append(out.B, x.kept...)
	_ = c.out.send(out.B) // an error ends the connection's reading side
}

// settle notes what initialize has settled.
func (c *connection) settle(v revision, can capabilities) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version, c.can = v, can
	c.watcher.wanted.Store(uint32(everyChange))
}

// agree finds the revision of a message that has no HTTP header: its own word in
// _meta, or else what initialize has settled.
func (c *connection) agree(x *exchange, method string) *fault {
	described, f := x.readMeta()
	if f != nil || described.version == nil || method == "initialize" {
		return f
	}
	name := text(described.version)
	v := c.server.revisionOf(name)
	if v == unknown {
		return x.server.unsupportedVersion(name)
	}
	x.version = v
	if v.selfDescribing() {
		return x.checkMeta(described)
	}
	return nil
}

// cancelRequest serves notifications/cancelled.
func (x *exchange) cancelRequest() {
	id := member(x.params.raw, "requestId")
	if x.live != nil && (id.Kind() == '"' || id.Kind() == '0') {
		x.live.cancel(id)
	}
}
