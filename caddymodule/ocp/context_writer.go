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

	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/enhance"
	"github.com/fairwayhq/fairway/tools"
)

// Values of Vary and Access-Control-Expose-Headers in responses to requests with a context.
const (
	varyRequired   = "OCP-Context-ID, OCP-Agent-Type"
	varyReply      = "OCP-Context-ID, OCP-Agent-Type, OCP-Session"
	varyEnhanced   = "OCP-Context-ID, OCP-Agent-Type, OCP-Current-Goal, OCP-User, OCP-Workspace, OCP-Session"
	exposedHeaders = "OCP-Context-ID, OCP-Session, OCP-Version"
)

// contextWriter is a request with OCP headers, and the http.ResponseWriter of its response. The
// response passes through as it is written, with a reply in its header. A response that is to
// be enhanced is held until its end (buffered_response.go).
//
// Handlers may flush from another goroutine than they write from, and a timer may release a
// held response. Therefore writes are serialized.
type contextWriter struct {
	caddyhttp.ResponseWriterWrapper
	handler      *Handler
	in           *ocp.Incoming
	tool         *tools.Tool    // the operation; nil if it is unknown
	clientWriter *contextWriter // contextWriter of the request that made this tool call, if both have the same context

	method       string
	endpoint     string // URL without query
	toolEndpoint bool   // a tool endpoint responds, not the API

	varyWriter *varyWriter // writer of the response if the context is not valid; may be nil

	callUpdates ocp.Update // updates of the request's tool calls; guarded by mu

	mu       sync.Mutex
	rec      respond.Recorder
	buffered *responseBuffer // nil if the response is not enhanced
}

// serve runs the next handlers. The caller has already changed r for the upstream.
func (x *contextWriter) serve(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, tool *tools.Tool) error {
	h := x.handler
	x.tool = tool
	if !x.in.Valid() {
		if h.Require && requiresContext(tool) {
			return rejectWithoutContext(w, tool, x.in)
		}
		if x.varyWriter = h.newVaryWriter(w, r, tool); x.varyWriter != nil {
			w = x.varyWriter
		}
		return next.ServeHTTP(w, r)
	}
	if h.enhancer != nil {
		restoreUpstreamTags(r.Header)
		x.buffered = h.enhancer.newBuffer(x.in, r, tool)
	}
	if h.NoReply && x.buffered == nil {
		return next.ServeHTTP(w, r)
	}
	// Later handlers may rewrite the URL in place.
	x.ResponseWriter, x.method = w, r.Method
	x.rec.Headers, x.rec.Limit, x.rec.Policy = w.Header(), h.MaxEnhanced, x
	if !h.NoReply {
		x.endpoint = endpointURL(r)
	}
	defer x.discardHeld() // even if a handler panics to abort the response
	err := next.ServeHTTP(x, r)
	x.finish(r, err)
	return err
}

// maxEndpoint limits the URL of a history entry, in bytes. A longer one would be removed again
// after it has been encoded and compressed.
const maxEndpoint = 2 << 10

// endpointURL returns the URL of a request without its query, which may contain private data. A
// URL that is too long is cut after a complete segment.
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

// WriteHeader writes the header of the response, or holds it.
func (x *contextWriter) WriteHeader(status int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.writeHeader(status)
}

// writeHeader is WriteHeader with mu held.
func (x *contextWriter) writeHeader(status int) {
	switch {
	case x.rec.Status != 0:
	case status == http.StatusSwitchingProtocols: // what follows is not HTTP
		x.rec.Status = status
		x.rec.SendTo(x.ResponseWriter, false)
		x.ResponseWriter.WriteHeader(status)
	case status < http.StatusOK:
		x.ResponseWriter.WriteHeader(status)
	default:
		x.rec.WriteHeader(status)
	}
}

// Begin implements respond.Policy: it sends the response, unless it may be enhanced.
func (x *contextWriter) Begin() {
	switch {
	case x.buffered != nil && x.buffered.start(x):
		x.rec.Hold()
	case x.buffered.matchesCondition(x.rec.Status, x.rec.Headers):
		x.notModified()
	default:
		x.commit()
	}
}

// Overflow implements respond.Policy: a response that is too large is not enhanced.
func (x *contextWriter) Overflow(int64) error {
	x.buffered.sendUnchanged(x, string(enhance.TooLarge))
	return nil
}

// notModified responds with 304 and discards the body (RFC 9110, section 15.4.5).
func (x *contextWriter) notModified() {
	for _, key := range []string{"Content-Length", "Content-Type", "Content-Encoding"} {
		delete(x.rec.Headers, key)
	}
	x.rec.Release()
	x.rec.Status, x.rec.NoBody = http.StatusNotModified, true
	x.writeReply()
	x.ResponseWriter.WriteHeader(x.rec.Status)
}

// commit writes the header, including the reply. The body is passed on.
func (x *contextWriter) commit() {
	x.writeReply()
	x.ResponseWriter.WriteHeader(x.rec.Status)
	x.rec.SendTo(x.ResponseWriter, false)
}

// Write writes a part of the body, or holds it.
func (x *contextWriter) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	n, err := x.rec.Write(p)
	if x.rec.Holds() {
		x.buffered.startTimer(x)
	}
	return n, err
}

// ReadFrom writes all of source, or holds it.
func (x *contextWriter) ReadFrom(source io.Reader) (int64, error) {
	x.mu.Lock()
	if x.rec.Status == 0 {
		x.writeHeader(http.StatusOK)
	}
	sends := x.rec.Sends()
	x.mu.Unlock()
	if sends {
		return x.ResponseWriterWrapper.ReadFrom(source)
	}
	return io.Copy(struct{ io.Writer }{x}, source)
}

// FlushError flushes the response, unless it is held.
func (x *contextWriter) FlushError() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.rec.Status == 0 {
		x.writeHeader(http.StatusOK)
	}
	if x.rec.Holds() {
		x.buffered.flushed = true
		x.buffered.startTimer(x)
		return nil
	}
	return http.NewResponseController(x.ResponseWriter).Flush()
}

// Header returns the header of the response. While the response is held, a handler that calls
// Header may change it at any time, for example to add trailers. Nothing else may read the
// header from then on.
func (x *contextWriter) Header() http.Header {
	if x.buffered != nil {
		x.mu.Lock()
		if x.rec.Holds() {
			x.buffered.headerExposed = true
			x.buffered.stopTimer()
		}
		x.mu.Unlock()
	}
	return x.ResponseWriter.Header()
}

// finish completes the response.
func (x *contextWriter) finish(r *http.Request, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.rec.Holds() && err == nil:
		x.buffered.finish(x, r)
	case x.rec.Holds():
		x.buffered.sendUnchanged(x, outcomeAborted)
	case x.rec.Status == 0:
		// The site's error routes, or the server, write the response with this header.
		x.rec.Status = statusOf(err)
		x.writeReply()
	}
}

// statusOf returns the status of a response that no handler has written.
func statusOf(err error) int {
	if err == nil {
		return http.StatusOK
	}
	if handlerError, ok := errors.AsType[caddyhttp.HandlerError](err); ok && handlerError.StatusCode != 0 {
		return handlerError.StatusCode
	}
	return http.StatusInternalServerError
}

// discardHeld discards a response that is still held after its handler has aborted it.
func (x *contextWriter) discardHeld() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.rec.Holds() {
		x.buffered.stopTimer()
		x.rec.Release()
	}
}

// writeReply writes the OCP reply into the response header. The update of a tool call goes to the
// contextWriter of the request that made the call.
func (x *contextWriter) writeReply() {
	header := x.ResponseWriter.Header()
	vary := varyReply
	if x.buffered != nil && x.buffered.dependsOnContext {
		vary = varyEnhanced
	}
	if x.handler.NoReply {
		if vary == varyEnhanced {
			addToken(header, "Vary", vary)
		}
		return
	}
	update := x.update(x.rec.Status, header)
	if x.clientWriter != nil {
		x.clientWriter.addCallUpdate(update)
		return
	}
	reply := x.in.Reply(update)
	if reply == nil {
		return
	}
	x.handler.metrics.countReply(reply.SetReplyHeaders(header))
	addToken(header, "Vary", vary)
	addToken(header, "Access-Control-Expose-Headers", exposedHeaders)
}

// addToken adds a value to a header with a list of names. It does not append in place, because
// other code may share the slice.
func addToken(header http.Header, key, names string) {
	values := header[key]
	if len(values) == 1 && values[0] == "*" && key == "Vary" {
		return // it varies by everything already
	}
	header[key] = append(slices.Clip(values), names)
}

// update returns the changes of the context that the response reports.
func (x *contextWriter) update(status int, header http.Header) ocp.Update {
	now := time.Now()
	if x.toolEndpoint {
		update := x.callUpdates
		update.At = now
		return update
	}
	update := x.upstreamUpdate(header)
	update.At = now
	if len(update.Entries) == 0 {
		update.Entries = []ocp.HistoryEntry{x.historyEntry(now, status)}
	}
	x.addDeclaredUpdates(&update, status)
	return update
}

// maxMethod limits the method in a history entry, in bytes.
const maxMethod = 32

// historyEntry returns the history entry of this request.
func (x *contextWriter) historyEntry(now time.Time, status int) ocp.HistoryEntry {
	operation, name := "", ""
	if x.tool != nil {
		operation, name = x.tool.Definition.OperationID, x.tool.Name
	}
	entry := ocp.CallEntry(now, x.endpoint, operation, name, status)
	metadata := make([]byte, 0, len(`{"method":"OPTIONS","status":000}`))
	metadata = append(metadata, `{"method":`...)
	metadata = strictjson.AppendString(metadata, text.Cut(x.method, maxMethod)) // HTTP/2 allows any text as a method
	metadata = append(metadata, `,"status":`...)
	metadata = strconv.AppendInt(metadata, int64(status), 10)
	entry.Metadata = append(metadata, '}')
	return entry
}

// addDeclaredUpdates adds the updates that the operation declares in updates_context and that follow from
// the response's status.
func (x *contextWriter) addDeclaredUpdates(update *ocp.Update, status int) {
	if x.tool == nil || x.tool.OCP == nil {
		return
	}
	what := x.tool.Plan.Method + " " + x.tool.Plan.Path + " answered " + strconv.Itoa(status)
	if source := http.StatusText(status); source != "" {
		what += " " + source
	}
	switch {
	case status >= http.StatusBadRequest && update.ErrorContext == "":
		update.ErrorContext = what
	case status < http.StatusMultipleChoices && !x.tool.ReadOnly() && len(update.RecentChanges) == 0:
		update.RecentChanges = []string{x.tool.Name + ": " + what}
	}
	update.Only(x.tool.OCP.UpdatesContext)
}

// upstreamUpdate returns the changes of the context that an upstream with its own OCP support
// reports. Values that it only repeats are not changes.
func (x *contextWriter) upstreamUpdate(header http.Header) (update ocp.Update) {
	if len(header[ocp.HeaderSession]) == 0 {
		return update
	}
	const maxEntries = ocp.MaxHistory / 2 // of either side, so that a merge drops nothing
	sent := *x.in.Context()
	sent.History = sent.History[max(0, len(sent.History)-maxEntries):]
	merged := sent.Clone()
	options := x.handler.readOptions
	options.Cache = nil // responses rarely repeat
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
	if added := len(merged.History) - len(sent.History); added > 0 {
		update.Entries = merged.History[len(sent.History):]
	}
	return update
}

// addCallUpdate records the update of a tool call that the request made.
func (x *contextWriter) addCallUpdate(u ocp.Update) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.toolEndpoint = true
	c := &x.callUpdates
	c.Entries = append(c.Entries, u.Entries...)
	c.RecentChanges = append(c.RecentChanges, u.RecentChanges...)
	for _, source := range []struct {
		to   *string
		from string
	}{
		{&c.CurrentGoal, u.CurrentGoal},
		{&c.ContextSummary, u.ContextSummary},
		{&c.ErrorContext, u.ErrorContext},
	} {
		if source.from != "" {
			*source.to = source.from
		}
	}
}
