package mcpadapter

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/internal/buffer"
)

// HTTP+SSE (MCP 2024-11-05, Transports) has two addresses: a stream, and one that
// takes messages. The stream's first event names the second; answers come on the
// stream. As the stream is open on one server, so must the messages come there.

// legacyClients are the open streams of HTTP+SSE by the key of their session.
type legacyClients struct {
	mu          sync.Mutex
	connections map[sessionKey]*connection
}

func (l *legacyClients) add(key sessionKey, c *connection) (remove func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.connections == nil {
		l.connections = make(map[sessionKey]*connection)
	}
	l.connections[key] = c
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.connections, key)
	}
}

func (l *legacyClients) get(key sessionKey) *connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.connections[key]
}

// wantsLegacyStream reports whether a GET of the endpoint itself comes from a
// client of HTTP+SSE: one that knows neither sessions nor the version header.
func wantsLegacyStream(r *http.Request) bool {
	return r.Header[sessionHeader] == nil && r.Header[versionHeader] == nil
}

// serveLegacyStream opens the stream of a client and serves its messages until it
// ends.
func (x *exchange) serveLegacyStream(w http.ResponseWriter, r *http.Request) *fault {
	if !x.server.speaks(v20241105) {
		f := faultf(http.StatusMethodNotAllowed, invalidRequest,
			"HTTP+SSE of revision 2024-11-05 is not offered here: POST to the endpoint itself")
		f.anonymous, f.allow = true, true
		return f
	}
	stream := &eventStream{w: w, wait: x.server.writeWait}
	defer stream.close()
	client := x.listener()
	c := x.server.newConnection(r.Context(), x.site, client, stream)
	defer c.stop()
	leave, f := x.server.join(c.watcher, client)
	if f != nil {
		f.anonymous = true
		return f
	}
	defer leave()

	id := x.server.signer().issue(v20241105, 0, listDigests{}, x.site.User, time.Now().Add(x.server.options.SessionTTL))
	opened, err := x.server.signer().open(id, x.site.User, time.Now())
	if err != nil {
		return faultf(http.StatusInternalServerError, internalError, "the stream could not be opened")
	}
	defer c.watcher.closeAt(opened.expires)()
	defer c.watcher.closeAt(x.site.Expires)()
	defer c.wait()
	remove := x.server.legacy.add(opened.key, c)
	defer remove()

	x.identify()
	x.status = 0 // the stream is the answer
	target := strings.TrimSuffix(x.site.Base, "/") + "/message?sessionId=" + url.QueryEscape(id)
	if stream.write("endpoint", "", []byte(target)) != nil {
		return nil
	}
	watch := &watch{server: x.server, watcher: c.watcher, out: stream, keepAlive: stream.comment, resources: c.live.watched, stamp: x.stamp, lists: x.newListWatch()}
	end := watch.run(c.ctx)
	if end == serverClosing {
		c.drain(x.server.asking.Done())
	}
	close(c.ended)
	remove()
	if end == serverClosing {
		c.wait() // the answers still have a stream to go to
	}
	c.live.end()
	return nil
}

// takeLegacyMessage serves the POST of a message of HTTP+SSE. It is accepted at
// once and answered on the stream.
func (x *exchange) takeLegacyMessage(r *http.Request) *fault {
	query := r.URL.Query()
	id := query.Get("sessionId")
	if id == "" {
		f := faultf(http.StatusBadRequest, invalidRequest, "the query parameter sessionId is missing: post to the address that the stream's first event names")
		f.anonymous = true
		return f
	}
	var c *connection
	if opened, err := x.server.session(id, x.site.User); err == nil {
		c = x.server.legacy.get(opened.key)
	}
	if c == nil {
		return noLegacyStream()
	}
	body := buffer.Get()
	defer buffer.Put(body)
	if f := x.server.readBody(body, r); f != nil {
		return f
	}
	if !c.receive(r.Context(), bytes.Clone(body.B)) {
		return noLegacyStream() // which ends
	}
	x.status = http.StatusAccepted
	return nil
}

// noLegacyStream is the fault of a message for a stream that this server does not have,
// or that takes no requests because the server closes.
func noLegacyStream() *fault {
	f := faultf(http.StatusNotFound, sessionNotFound,
		"there is no such stream open on this server: open a new one, and where several servers share the work, let a client always reach the same")
	f.anonymous = true
	return f
}
