package ocp

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/enhance"
	"github.com/fairwayhq/fairway/tools"
)

// streamDetectionDelay is how long a response is held after a handler requested a flush. reverse_proxy
// flushes every response of unknown length, so a flush does not prove that the response is a
// stream. A response that has not ended after this time is treated as a stream and passed on
// unchanged.
const streamDetectionDelay = time.Second

// Outcomes of an enhancement, in addition to the reasons of package enhance.
const (
	outcomeEnhanced    = "enhanced"
	outcomeStream      = "stream"    // it was flushed and did not end in time
	outcomeTrailers    = "trailers"  // it announces trailers, which may describe the body
	outcomeSigned      = "signed"    // its signature may cover the body
	outcomeNoTransform = "frozen"    // Cache-Control: no-transform
	outcomeAborted     = "not_ended" // a handler failed before its end
	outcomeCoding      = "coding"    // its content coding cannot be decoded
)

// enhancer decides which responses are held to be enhanced, and counts the outcomes. A nil
// enhancer holds none.
type enhancer struct {
	*enhance.Enhancer
	metrics *metrics
	logger  *zap.Logger
	logged  sync.Map // properties and reasons that have been logged
}

// newEnhancer compiles the expressions. It returns nil if there are none.
func newEnhancer(h *Handler) (*enhancer, error) {
	if len(h.Enhance) == 0 {
		return nil, nil
	}
	for _, e := range h.Enhance {
		if e.Declared && h.toolset == nil {
			return nil, fmt.Errorf("enhance %s: declared needs a toolset, whose document declares the property", e.Name)
		}
	}
	options := h.Options
	options.Limits.Body = int(h.MaxEnhanced)
	compiled, err := enhance.Compile(h.Enhance, options)
	if err != nil {
		return nil, fmt.Errorf("enhance: %w", err)
	}
	return &enhancer{Enhancer: compiled, metrics: h.metrics, logger: h.logger}, nil
}

// countOutcome counts the outcome of a response.
func (e *enhancer) countOutcome(outcome string) {
	e.metrics.enhanced.WithLabelValues(outcome).Inc()
}

// countFailures counts the properties that failed. Each property and reason is logged once,
// because an error in an expression occurs with every response.
func (e *enhancer) countFailures(failures []enhance.Failure) {
	for _, failure := range failures {
		e.metrics.failed.WithLabelValues(failure.Property, string(failure.Reason)).Inc()
		e.warnOnce(failure.Property, string(failure.Reason))
	}
}

// warnOnce logs a failed property, unless it has been logged before with this reason.
func (e *enhancer) warnOnce(property, reason string) {
	if _, logged := e.logged.LoadOrStore(property+" "+reason, struct{}{}); !logged {
		e.logger.Warn("expression of an enhanced property failed; further failures are only counted in fairway_ocp_property_failures_total",
			zap.String("property", property), zap.String("reason", reason))
	}
}

// responseBuffer is the part of a contextWriter that enhances a response at its end. It is nil if the response gets no
// property.
type responseBuffer struct {
	enhancer        *enhancer
	message         enhance.Exchange
	ifNoneMatch     []string // If-None-Match of the request
	ifModifiedSince string   // If-Modified-Since of the request

	dependsOnContext bool // the response depends on the context
	flushed          bool
	headerExposed    bool // a handler may be changing the header, so the timer must not read it
	timer            *time.Timer
}

// newBuffer returns the buffer for the response to r. It returns nil if the response gets no
// property. It changes the request so that the response is complete and in a decodable content
// coding.
func (e *enhancer) newBuffer(in *ocp.Incoming, r *http.Request, tool *tools.Tool) *responseBuffer {
	if e == nil || len(e.Properties(tool)) == 0 {
		return nil
	}
	h := &responseBuffer{enhancer: e}
	h.removeConditions(r)
	restrictCodings(r.Header)

	// Later handlers may rewrite the URL in place. Expressions get the original.
	request, address := r.WithContext(r.Context()), *r.URL
	request.URL = &address
	h.message = enhance.Exchange{Incoming: in, Request: request, Tool: tool}
	return h
}

// removeConditions removes the conditions of a GET or HEAD before the request reaches the
// upstream. The upstream only knows its plain response, so it would respond with 304 to a
// client that has the plain response and should get the enhanced one. The conditions are
// checked when the response is complete.
func (h *responseBuffer) removeConditions(r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return
	}
	h.ifNoneMatch, h.ifModifiedSince = r.Header["If-None-Match"], r.Header.Get("If-Modified-Since")
	delete(r.Header, "If-None-Match")
	delete(r.Header, "If-Modified-Since")
}

// matchesCondition reports whether the client already has the response, which is not enhanced. The date
// is only considered if no entity tag is given (RFC 9110, section 13.1.3).
func (h *responseBuffer) matchesCondition(status int, header http.Header) bool {
	switch {
	case h == nil || status != http.StatusOK:
		return false
	case len(h.ifNoneMatch) > 0:
		return len(header["Etag"]) == 1 && respond.MatchesTag(h.ifNoneMatch, header["Etag"][0])
	}
	return h.ifModifiedSince != "" && h.ifModifiedSince == header.Get("Last-Modified")
}

// start decides whether to hold the response. Its header is complete at this point.
func (h *responseBuffer) start(x *contextWriter) bool {
	if x.toolEndpoint {
		return false
	}
	status, header := x.rec.Status, x.rec.Headers
	h.message.Status, h.message.Header = status, header
	head := h.message.Request.Method == http.MethodHead
	h.dependsOnContext = status == http.StatusNotModified // the client's stored response may be an enhanced one
	if reason := h.rejectReason(head); reason != "" {
		if reason != string(enhance.Status) && reason != string(enhance.NoBody) {
			h.enhancer.countOutcome(reason)
		}
		return false
	}
	h.dependsOnContext = true
	if head {
		// The response to GET would have another body, whose length and tag are unknown.
		deleteBodyHeaders(header)
		delete(header, "Content-Length")
		delete(header, "Etag")
		return false
	}
	return true
}

// rejectReason returns why the response cannot be enhanced, as far as its header shows. It returns ""
// if it may be enhanced. A HEAD is treated like the GET.
func (h *responseBuffer) rejectReason(head bool) (reason string) {
	header := h.message.Header
	switch {
	case len(header["Trailer"]) > 0:
		return outcomeTrailers
	case len(header["Signature-Input"]) > 0:
		return outcomeSigned
	case listsToken(header["Cache-Control"], "no-transform"):
		return outcomeNoTransform
	case caddyhttp.IsIncremental(header):
		return outcomeStream
	}
	message := h.message
	if head {
		get := *h.message.Request
		get.Method = http.MethodGet
		message.Request = &get
	}
	unsuited := h.enhancer.Suits(&message)
	if unsuited == enhance.Encoded {
		if !hasDecodableCoding(header) {
			return outcomeCoding
		}
		message.Header = header.Clone()
		delete(message.Header, "Content-Encoding")
		unsuited = h.enhancer.Suits(&message)
	}
	return string(unsuited)
}

// startTimer starts the timer that distinguishes a stream from a response of unknown length.
func (h *responseBuffer) startTimer(x *contextWriter) {
	if !h.flushed || h.headerExposed || h.timer != nil || len(x.rec.Body.B) == 0 {
		return
	}
	h.timer = time.AfterFunc(streamDetectionDelay, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if !x.rec.Holds() || h.headerExposed {
			return
		}
		h.sendUnchanged(x, outcomeStream)
		_ = http.NewResponseController(x.ResponseWriter).Flush() // the client may have disconnected
	})
}

// stopTimer stops the timer.
func (h *responseBuffer) stopTimer() {
	if h.timer != nil {
		h.timer.Stop()
	}
}

// sendUnchanged sends the held response unchanged and stops holding.
func (h *responseBuffer) sendUnchanged(x *contextWriter, outcome string) {
	h.stopTimer()
	if outcome != "" {
		h.enhancer.countOutcome(outcome)
	}
	body := x.rec.TakeBody()
	x.commit()
	_, _ = x.ResponseWriter.Write(body.B) // the next write reports a disconnected client
	buffer.Put(body)
}

// finish enhances the complete response and sends it.
func (h *responseBuffer) finish(x *contextWriter, r *http.Request) {
	h.stopTimer()
	if hasTrailers(h.message.Header) {
		h.sendUnchanged(x, outcomeTrailers)
		return
	}
	content, decoded, ok := h.decodedBody(x.rec.Body, x.rec.Limit)
	if !ok {
		h.sendUnchanged(x, outcomeCoding)
		return
	}
	defer buffer.Put(decoded)
	out := buffer.Get()
	defer buffer.Put(out)
	body, outcome := h.enhancer.Append(r.Context(), out.B, content, &h.message)
	h.enhancer.countFailures(outcome.Failures)
	if !outcome.Enhanced() {
		h.enhancer.countOutcome(string(outcome.Reason))
		if outcome.Reason.Fault() {
			h.enhancer.warnOnce(outcome.Property, string(outcome.Reason))
		}
		if h.matchesCondition(x.rec.Status, h.message.Header) {
			x.notModified()
			return
		}
		h.sendUnchanged(x, "")
		return
	}
	out.B = body
	h.enhancer.countOutcome(outcomeEnhanced)
	h.sendEnhanced(x, out.B)
}

// hasTrailers reports whether a handler has set trailers without announcing them.
func hasTrailers(header http.Header) bool {
	for key := range header {
		if strings.HasPrefix(key, http.TrailerPrefix) {
			return true
		}
	}
	return false
}

// decodedBody returns the body without its content coding. If there was one, decoded is the buffer
// of the content, which the caller must release.
func (h *responseBuffer) decodedBody(body *buffer.Buffer, limit int64) (content []byte, decoded *buffer.Buffer, ok bool) {
	coding := h.message.Header["Content-Encoding"]
	if len(coding) == 0 {
		return body.B, nil, true
	}
	coded := buffer.Get() // a copy: if anything fails, the original is sent
	coded.B = append(coded.B, body.B...)
	decoded, err := route.DecodeBody(http.Header{"Content-Encoding": coding}, coded, limit)
	if err != nil {
		return nil, nil, false
	}
	return decoded.B, decoded, true
}

// sendEnhanced sends the enhanced body with a matching header. If the client already has that body, it
// sends 304.
func (h *responseBuffer) sendEnhanced(x *contextWriter, body []byte) {
	header := h.message.Header
	deleteBodyHeaders(header)
	delete(header, "Content-Encoding")
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	tag := setEnhancedTag(header, body)
	x.writeReply()
	method := h.message.Request.Method
	unchanged := tag != "" && x.rec.Status == http.StatusOK && method == http.MethodGet && respond.MatchesTag(h.ifNoneMatch, tag)
	defer x.rec.Release()
	if unchanged {
		delete(header, "Content-Length")
		delete(header, "Content-Type")
		x.ResponseWriter.WriteHeader(http.StatusNotModified)
		return
	}
	x.ResponseWriter.WriteHeader(x.rec.Status)
	_, _ = x.ResponseWriter.Write(body) // the client may have disconnected
}

// deleteBodyHeaders removes headers that describe the upstream's body. No modification date can be
// given either, because the context can change the enhanced body at any time.
func deleteBodyHeaders(header http.Header) {
	for _, key := range []string{"Accept-Ranges", "Content-Digest", "Content-Md5", "Digest", "Last-Modified", "Repr-Digest"} {
		delete(header, key)
	}
}

// hasDecodableCoding reports whether route.DecodeBody supports the content coding.
func hasDecodableCoding(header http.Header) bool {
	coding := header["Content-Encoding"]
	return len(coding) == 1 && isDecodable(coding[0])
}

// isDecodable reports whether route.DecodeBody supports the named coding.
func isDecodable(coding string) bool {
	switch strings.ToLower(strings.TrimSpace(coding)) {
	case "", "identity", "gzip", "x-gzip", "deflate", "zstd":
		return true
	}
	return false
}

// restrictCodings removes codings from Accept-Encoding that route.DecodeBody does not
// support.
func restrictCodings(header http.Header) {
	values := header["Accept-Encoding"]
	if len(values) == 0 {
		return
	}
	var kept []string
	for item := range strings.SplitSeq(strings.Join(values, ","), ",") {
		coding, _, _ := strings.Cut(item, ";")
		if strings.TrimSpace(coding) != "" && isDecodable(coding) {
			kept = append(kept, strings.TrimSpace(item))
		}
	}
	if len(kept) == 0 {
		kept = []string{"identity"}
	}
	header["Accept-Encoding"] = []string{strings.Join(kept, ", ")}
}

// listsToken reports whether a header with a list of names contains the name.
func listsToken(values []string, token string) bool {
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(item), token) {
				return true
			}
		}
	}
	return false
}
