package mcpadapter

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/mcpadapter/internal/admission"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/negotiation"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
	"github.com/fairwayhq/fairway/mcpadapter/internal/stream"
	"github.com/fairwayhq/fairway/mcpadapter/internal/subscription"
)

// HTTP+SSE, the transport of revision 2024-11-05 (Transports, HTTP with SSE), has two addresses: an
// event stream, and an address for POST requests. The first event of the stream names the second
// address, and all responses are sent on the stream. The stream is open on one server, so the
// client's messages must reach that same server.

// wantsLegacyStream reports whether a GET of the endpoint comes from an HTTP+SSE client, which sends
// neither a session id nor a version header.
func wantsLegacyStream(r *http.Request) bool {
	return r.Header[sessionHeader] == nil && r.Header[negotiation.VersionHeader] == nil
}

// serveLegacyStream opens the stream of a client and serves its messages until the stream ends.
func (h *httpExchange) serveLegacyStream(w http.ResponseWriter, r *http.Request) *jsonrpc.Fault {
	if !h.server.enabled.Has(revision.V20241105) {
		f := jsonrpc.Faultf(http.StatusMethodNotAllowed, jsonrpc.InvalidRequest,
			"HTTP+SSE of revision 2024-11-05 is not available here: send requests with POST to the endpoint")
		f.Anonymous, f.Allow = true, true
		return f
	}
	stream := stream.NewEventStream(w, h.server.writeWait)
	defer stream.Close()
	client := h.clientIdentity()
	c := h.server.newConnection(r.Context(), h.site, client, stream)
	defer c.stop()
	leave, f := h.server.join(c.watcher, client)
	if f != nil {
		f.Anonymous = true
		return f
	}
	defer leave()

	id := h.server.signer().Issue(revision.V20241105, 0, subscription.Digests{}, h.site.User, time.Now().Add(h.server.options.SessionTTL))
	opened, err := h.server.signer().Open(id, h.site.User, time.Now())
	if err != nil {
		return jsonrpc.Faultf(http.StatusInternalServerError, jsonrpc.InternalError, "the stream could not be opened")
	}
	defer c.watcher.CloseAt(opened.Expires)()
	defer c.watcher.CloseAt(h.site.Expires)()
	defer c.wait()
	remove := h.server.legacy.add(opened.Key, c)
	defer remove()

	q := newWatchRequest(&h.message)
	h.status = 0 // the stream itself is the response
	target := strings.TrimSuffix(h.site.Base, "/") + "/message?sessionId=" + url.QueryEscape(id)
	if stream.Write("endpoint", "", []byte(target)) != nil {
		return nil
	}
	watch := &subscription.Watch{Host: &h.server.host, Watcher: c.watcher, Out: stream, KeepAlive: stream.Comment, Resources: c.live.Watched, Stamp: q.stamp, Lists: q.newListWatch()}
	end := watch.Run(c.ctx)
	if end == subscription.ServerClosing {
		c.drain(h.server.asking.Done())
	}
	close(c.ended)
	remove()
	if end == subscription.ServerClosing {
		c.wait() // wait while the stream can still carry the responses
	}
	c.live.End()
	return nil
}

// takeLegacyMessage serves a POST of an HTTP+SSE client. It returns 202 at once; the response to the
// message follows on the stream.
func (h *httpExchange) takeLegacyMessage(r *http.Request) *jsonrpc.Fault {
	query := r.URL.Query()
	id := query.Get("sessionId")
	if id == "" {
		f := jsonrpc.Faultf(http.StatusBadRequest, jsonrpc.InvalidRequest, "the query parameter sessionId is missing: send the request to the address in the first event of the stream")
		f.Anonymous = true
		return f
	}
	var c *connection
	if opened, err := h.server.states.Resume(h.server.signer(), id, h.site.User, time.Now()); err == nil {
		c = h.server.legacy.get(opened.Key)
	}
	if c == nil {
		return noLegacyStream()
	}
	body := buffer.Get()
	defer buffer.Put(body)
	if f := admission.ReadBody(body, r, h.server.options.MaxBody); f != nil {
		return f
	}
	if !c.receive(r.Context(), bytes.Clone(body.B)) {
		return noLegacyStream() // the stream is about to close
	}
	h.status = http.StatusAccepted
	return nil
}

// noLegacyStream returns the fault for a message to a stream that is not open on this server, or
// that accepts no more requests because the server closes.
func noLegacyStream() *jsonrpc.Fault {
	f := jsonrpc.Faultf(http.StatusNotFound, jsonrpc.SessionNotFound,
		"the stream is not open on this server: open a new one; if there are several servers, route each client to the same one")
	f.Anonymous = true
	return f
}

// legacyClients holds the open HTTP+SSE streams by the key of their session.
type legacyClients struct {
	mu          sync.Mutex
	connections map[session.Key]*connection
}

func (l *legacyClients) add(key session.Key, c *connection) (remove func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.connections == nil {
		l.connections = make(map[session.Key]*connection)
	}
	l.connections[key] = c
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.connections, key)
	}
}

func (l *legacyClients) get(key session.Key) *connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.connections[key]
}
