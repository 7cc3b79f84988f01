package ocp

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp"
)

// The values that an answer's headers get for the context in it.
const (
	varyRequired = "OCP-Context-ID, OCP-Agent-Type"
	varyReply    = "OCP-Context-ID, OCP-Agent-Type, OCP-Session"
	varyEnhanced = "OCP-Context-ID, OCP-Agent-Type, OCP-Current-Goal, OCP-User, OCP-Workspace, OCP-Session"
	exposed      = "OCP-Context-ID, OCP-Session, OCP-Version"
)

// exchange is a request with OCP headers, and the http.ResponseWriter of its
// answer. The answer passes through as it comes, with a reply in its header; one
// that is to be enhanced is held until its end (ocp_hold.go).
//
// Handlers may flush from another goroutine than they write from, and a held
// answer may be released by a timer, so writes are serialised.
type exchange struct {
	caddyhttp.ResponseWriterWrapper
	handler *Handler
	in      *ocp.Incoming
	tool    *ocp.Tool // the operation; nil if it is not known
	outer   *exchange // of the request that made this tool call, if it speaks for the same context

	method   string
	endpoint string // URL without query
	ofTools  bool   // answered by a tool endpoint: not an answer of the API

	varying *varyingResponse // the writer of the answer if there is no valid context; may be nil

	calls ocp.Update // what the tool calls of the request have to tell; guarded by mu

	mu      sync.Mutex
	status  int // 0 until the final header is written or held
	hold    *hold
	discard bool // the client has the body already
}

// serve runs the handlers behind. What may be changed of r has been.
func (x *exchange) serve(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, tool *ocp.Tool) error {
	h := x.handler
	x.tool = tool
	if !x.in.Valid() {
		if h.Require && requiresContext(tool) {
			return refuseWithoutContext(w, tool, x.in)
		}
		if x.varying = h.varying(w, r, tool); x.varying != nil {
			w = x.varying
		}
		return next.ServeHTTP(w, r)
	}
	if h.enhancer != nil {
		restoreTags(r.Header)
		x.hold = h.enhancer.prepare(x.in, r, tool, h.MaxEnhanced)
	}
	if h.NoReply && x.hold == nil {
		return next.ServeHTTP(w, r)
	}
	// Handlers behind this one may rewrite the URL in place.
	x.ResponseWriter, x.method = w, r.Method
	if !h.NoReply {
		x.endpoint = endpointURL(r)
	}
	defer x.drop() // also when a handler panics to give up the answer
	err := next.ServeHTTP(x, r)
	x.finish(r, err)
	return err
}

// maxEndpoint is how long the URL of a history entry may be, in bytes. Whatever is
// longer would be shed again, after it has been encoded and compressed.
const maxEndpoint = 2 << 10

// endpointURL returns the URL of a request without its query, which may hold what
// is nobody else's business. One that is too long ends with a whole segment.
func endpointURL(r *http.Request) string {
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	endpoint := scheme + r.Host + r.URL.EscapedPath()
	if len(endpoint) > maxEndpoint {
		endpoint = endpoint[:strings.LastIndexByte(endpoint[:maxEndpoint], '/')+1]
	}
	return endpoint
}

// WriteHeader writes or holds the header of the answer.
func (x *exchange) WriteHeader(status int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.writeHeader(status)
}

func (x *exchange) writeHeader(status int) {
	switch {
	case x.status != 0:
		return
	case status == http.StatusSwitchingProtocols: // what follows is no HTTP
		x.status = status
		fallthrough
	case status < http.StatusOK:
		x.ResponseWriter.WriteHeader(status)
		return
	}
	x.status = status
	if x.hold != nil && x.hold.begin(x, status) {
		return
	}
	if x.hold.isKnown(status, x.ResponseWriter.Header()) {
		x.notModified()
		return
	}
	x.commit(status)
}

// notModified answers 304 and discards the body (RFC 9110, section 15.4.5).
func (x *exchange) notModified() {
	header := x.ResponseWriter.Header()
	for _, key := range []string{"Content-Length", "Content-Type", "Content-Encoding"} {
		delete(header, key)
	}
	x.discard = true
	x.status = http.StatusNotModified
	x.commit(x.status)
}

// commit writes the header with the reply in it.
func (x *exchange) commit(status int) {
	x.reply(status)
	x.ResponseWriter.WriteHeader(status)
}

// Write writes or holds a part of the body.
func (x *exchange) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.status == 0 {
		x.writeHeader(http.StatusOK)
	}
	if x.hold.holds() {
		return x.hold.write(x, p)
	}
	if x.discard {
		return len(p), nil
	}
	return x.ResponseWriter.Write(p)
}

// ReadFrom writes or holds all of source.
func (x *exchange) ReadFrom(source io.Reader) (int64, error) {
	x.mu.Lock()
	if x.status == 0 {
		x.writeHeader(http.StatusOK)
	}
	direct := !x.hold.holds() && !x.discard
	x.mu.Unlock()
	if !direct {
		return io.Copy(struct{ io.Writer }{x}, source)
	}
	return x.ResponseWriterWrapper.ReadFrom(source)
}

// FlushError sends what has been written to the client, unless it is held.
func (x *exchange) FlushError() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.status == 0 {
		x.writeHeader(http.StatusOK)
	}
	if x.hold.holds() {
		x.hold.flush(x)
		return nil
	}
	return http.NewResponseController(x.ResponseWriter).Flush()
}

// Header returns the header of the answer. Who asks for it while the answer is
// held may be about to change it (trailers), so nothing else may read it then.
func (x *exchange) Header() http.Header {
	if x.hold != nil {
		x.mu.Lock()
		x.hold.settle()
		x.mu.Unlock()
	}
	return x.ResponseWriter.Header()
}

// finish ends the answer.
func (x *exchange) finish(r *http.Request, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.hold.holds() && err == nil:
		x.hold.end(x, r)
	case x.hold.holds():
		x.hold.release(x, outcomeUnended)
	case x.status == 0:
		// The site's error routes, or the server, write it with this header.
		x.status = statusOf(err)
		x.reply(x.status)
	}
}

// statusOf returns the status that an answer gets of which no handler has written
// any.
func statusOf(err error) int {
	if err == nil {
		return http.StatusOK
	}
	if handlerError, ok := errors.AsType[caddyhttp.HandlerError](err); ok && handlerError.StatusCode != 0 {
		return handlerError.StatusCode
	}
	return http.StatusInternalServerError
}

// drop gives up what is still held: the answer has been given up.
func (x *exchange) drop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.hold.drop()
}

// reply writes into the header of the answer what it tells of the context. An
// answer to a tool call tells the request that made it.
func (x *exchange) reply(status int) {
	header := x.ResponseWriter.Header()
	vary := varyReply
	if x.hold != nil && x.hold.varies {
		vary = varyEnhanced
	}
	if x.handler.NoReply {
		if vary == varyEnhanced {
			addToken(header, "Vary", vary)
		}
		return
	}
	update := x.update(status, header)
	if x.outer != nil {
		x.outer.collect(update)
		return
	}
	reply := x.in.Reply(update)
	if reply == nil {
		return
	}
	x.handler.metrics.replied(reply.SetReplyHeaders(header))
	addToken(header, "Vary", vary)
	addToken(header, "Access-Control-Expose-Headers", exposed)
}

// addToken adds a line to a header that lists names. The values may be somebody
// else's, so they are not appended to in place.
func addToken(header http.Header, key, names string) {
	values := header[key]
	if len(values) == 1 && values[0] == "*" && key == "Vary" {
		return // it varies by everything already
	}
	header[key] = append(slices.Clip(values), names)
}

// update returns what the answer tells the agent that is new.
func (x *exchange) update(status int, header http.Header) ocp.Update {
	now := time.Now()
	if x.ofTools {
		update := x.calls
		update.At = now
		return update
	}
	update := x.upstreamUpdate(header)
	update.At = now
	if len(update.Entries) == 0 {
		update.Entries = []ocp.HistoryEntry{x.entry(now, status)}
	}
	x.declare(&update, status)
	return update
}

// maxMethod bounds the method in a history entry, in characters.
const maxMethod = 32

// entry returns the history entry of this request.
func (x *exchange) entry(now time.Time, status int) ocp.HistoryEntry {
	operation, name := "", ""
	if x.tool != nil {
		operation, name = x.tool.OperationID, x.tool.Name
	}
	entry := ocp.CallEntry(now, x.endpoint, operation, name, status)
	metadata := make([]byte, 0, len(`{"method":"OPTIONS","status":000}`))
	metadata = append(metadata, `{"method":`...)
	metadata = wire.AppendString(metadata, clipText(x.method, maxMethod)) // HTTP/2 lets any text be a method
	metadata = append(metadata, `,"status":`...)
	metadata = strconv.AppendInt(metadata, int64(status), 10)
	entry.Metadata = append(metadata, '}')
	return entry
}

// declare adds what the operation's updates_context promises and an answer by
// itself can tell.
func (x *exchange) declare(update *ocp.Update, status int) {
	if x.tool == nil || x.tool.OCP == nil {
		return
	}
	what := x.tool.Method + " " + x.tool.Path + " answered " + strconv.Itoa(status)
	if text := http.StatusText(status); text != "" {
		what += " " + text
	}
	switch {
	case status >= http.StatusBadRequest && update.ErrorContext == "":
		update.ErrorContext = what
	case status < http.StatusMultipleChoices && !x.tool.ReadOnly() && len(update.RecentChanges) == 0:
		update.RecentChanges = []string{x.tool.Name + ": " + what}
	}
	update.Only(x.tool.OCP.UpdatesContext)
}

// upstreamUpdate returns what an upstream that speaks OCP itself tells of the
// context. What it only echoes is not new.
func (x *exchange) upstreamUpdate(header http.Header) (update ocp.Update) {
	if len(header[ocp.HeaderSession]) == 0 {
		return update
	}
	const kept = ocp.MaxHistory / 2 // of either side, so that a merge cuts nothing off
	sent := *x.in.Context()
	sent.History = sent.History[max(0, len(sent.History)-kept):]
	merged := sent.Clone()
	options := x.handler.read
	options.Cache = nil // hardly an answer is like another
	if !merged.MergeHeaders(header, &sent, options) {
		return update
	}
	changed := func(now, before string) string {
		if now == before {
			return ""
		}
		return now
	}
	update.CurrentGoal = changed(merged.CurrentGoal, sent.CurrentGoal)
	update.ContextSummary = changed(merged.ContextSummary, sent.ContextSummary)
	update.ErrorContext = changed(merged.ErrorContext, sent.ErrorContext)
	for _, change := range merged.RecentChanges {
		if !slices.Contains(sent.RecentChanges, change) {
			update.RecentChanges = append(update.RecentChanges, change)
		}
	}
	if fresh := len(merged.History) - len(sent.History); fresh > 0 {
		update.Entries = merged.History[len(sent.History):]
	}
	return update
}

// collect notes what a tool call of the request has to tell.
func (x *exchange) collect(u ocp.Update) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ofTools = true
	c := &x.calls
	c.Entries = append(c.Entries, u.Entries...)
	c.RecentChanges = append(c.RecentChanges, u.RecentChanges...)
	for _, text := range []struct {
		to   *string
		from string
	}{
		{&c.CurrentGoal, u.CurrentGoal},
		{&c.ContextSummary, u.ContextSummary},
		{&c.ErrorContext, u.ErrorContext},
	} {
		if text.from != "" {
			*text.to = text.from
		}
	}
}
