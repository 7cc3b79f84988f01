package mcpadapter

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/sse"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
)

// HTTP+SSE, the transport of revision 2024-11-05 (Transports, HTTP with SSE), has two addresses: an
// event stream, and an address for POST requests. The first event of the stream names the second
// address, and all responses are sent on the stream. The stream is open on one server, so the
// client's messages must reach that same server.

// checkInitialized returns a fault for a request before initialize, which must be the first (MCP 2024-11-05, Lifecycle,
// Initialization). A ping is always allowed.
func (c *connection) checkInitialized(m *envelope) *protocol.Fault {
	if m.id == nil || m.method == "" || m.method == "initialize" || m.method == "ping" || c.initialized.Load() {
		return nil
	}
	return protocol.Malformed("%s came before initialize: send initialize first on this stream", text.Cut(m.method, text.MaxQuoted))
}

// readID reads the id of a request that is refused before its message is read. Revisions before 2025-11-25 require it in
// an error; later ones want none.
func (h *httpExchange) readID(f *protocol.Fault, r *http.Request) {
	if h.response.version.OmitsUnreadID() {
		h.response.id = nil
		return
	}
	if r.Method != http.MethodPost || f.Status == http.StatusRequestEntityTooLarge {
		return
	}
	f.Anonymous = false
	body := buffer.Get()
	defer buffer.Put(body)
	if h.response.id == nil && protocol.ReadBody(body, r, h.server.options.MaxBody) == nil {
		h.response.id = protocol.LenientID(body.B)
	}
}

// serveLegacyStream opens the stream of a client and serves its messages until the stream ends.
func (h *httpExchange) serveLegacyStream(w http.ResponseWriter, r *http.Request) *protocol.Fault {
	if !h.server.enabled.Has(protocol.V20241105) {
		f := protocol.Faultf(http.StatusMethodNotAllowed, protocol.InvalidRequest,
			"HTTP+SSE of revision 2024-11-05 is not available here: send requests with POST to the endpoint")
		f.Anonymous, f.Allow = true, true
		return f
	}
	stream := sse.NewWriter(w, h.server.writeWait)
	defer stream.Close()
	client := h.owner(h.site)
	c := h.server.newConnection(r.Context(), h.site, client, stream)
	c.legacy, c.terms.Version = true, protocol.V20241105
	defer c.stop()
	leave, f := h.server.streams.Join(c.watcher, client)
	if f != nil {
		return f.WithoutID()
	}
	defer leave()

	signer, f := h.server.signer(h.ctx)
	if f != nil {
		return f.WithoutID()
	}
	id := signer.Issue(protocol.V20241105, 0, session.Digests{}, h.site.User, time.Now().Add(h.server.options.SessionTTL))
	opened, err := signer.Open(id, h.site.User, time.Now())
	if err != nil {
		return protocol.Faultf(http.StatusInternalServerError, protocol.InternalError, "the stream could not be opened")
	}
	defer c.watcher.CloseAt(opened.Expires)()
	defer c.watcher.CloseAt(h.site.Expires)()
	defer c.wait()
	h.server.memory.legacy.Store(opened.Key, c)
	defer h.server.memory.legacy.Delete(opened.Key)

	h.status = 0 // the stream itself is the response
	target := strings.TrimSuffix(h.site.Base, "/") + "/message?sessionId=" + url.QueryEscape(id)
	if stream.Write("endpoint", "", []byte(target)) != nil {
		return nil
	}
	watch := &session.Watch{Host: &h.server.host, Watcher: c.watcher, Out: stream, KeepAlive: stream.Comment, State: &c.live, Stamp: h.server.newPolling(h.site, client).stamp, Lists: h.server.newListWatch(h.site)}
	end := watch.Run(c.ctx)
	if end == session.ServerClosing {
		c.drain(h.server.asking.Done())
	}
	close(c.ended)
	h.server.memory.legacy.Delete(opened.Key)
	if end == session.ServerClosing {
		c.wait() // wait while the stream can still carry the responses
	}
	c.live.End()
	return nil
}

// A KeptBody is the body of a request whose memory is counted until the request is served. Keep makes it count until
// release is called: the messages of an HTTP+SSE client are served after the response.
type KeptBody interface {
	Keep() (release func())
}

// takeLegacyMessage serves a POST of an HTTP+SSE client. It returns 202 at once; the response to the
// message follows on the stream.
func (h *httpExchange) takeLegacyMessage(r *http.Request) *protocol.Fault {
	query := r.URL.Query()
	id := query.Get("sessionId")
	if id == "" {
		return protocol.Faultf(http.StatusBadRequest, protocol.InvalidRequest, "the query parameter sessionId is missing: send the request to the address in the first event of the stream").WithoutID()
	}
	signer, f := h.server.signer(h.ctx)
	if f != nil {
		return f.WithoutID()
	}
	var open any // the connection, if there is one
	if opened, err := h.server.memory.lives.Resume(signer, id, h.site.User, time.Now()); err == nil {
		open, _ = h.server.memory.legacy.Load(opened.Key)
	}
	c, ok := open.(*connection)
	if !ok {
		return noLegacyStream()
	}
	body := buffer.Get()
	defer buffer.Put(body)
	if f := protocol.ReadBody(body, r, h.server.options.MaxBody); f != nil {
		return f
	}
	release := func() {}
	if counted, ok := r.Body.(KeptBody); ok {
		release = counted.Keep()
	}
	if !c.receive(r.Context(), bytes.Clone(body.B), release) {
		return noLegacyStream() // the stream is about to close
	}
	h.status = http.StatusAccepted
	return nil
}

// noLegacyStream returns the fault for a message to a stream that is not open on this server, or
// that accepts no more requests because the server closes.
func noLegacyStream() *protocol.Fault {
	return protocol.Faultf(http.StatusNotFound, protocol.SessionNotFound,
		"the stream is not open on this server: open a new one; if there are several servers, route each client to the same one").WithoutID()
}
