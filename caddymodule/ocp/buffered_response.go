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

	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/prepared"
	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/enhance"
)

// maxStreamHold is how long a response is held after a handler requested a flush. reverse_proxy
// flushes every response of unknown length, so a flush does not prove that the response is a
// stream. A response that has not ended after this time is treated as a stream and passed on
// unchanged.
const maxStreamHold = time.Second

// Outcomes of an enhancement, in addition to the reasons of package enhance.
const (
	outcomeEnhanced = "enhanced"
	outcomeStream   = "stream"    // it was flushed and did not end in time
	outcomeTrailers = "trailers"  // it announces trailers, which may describe the body
	outcomeSigned   = "signed"    // its signature may cover the body
	outcomeFrozen   = "frozen"    // Cache-Control: no-transform
	outcomeUnended  = "not_ended" // a handler failed before its end
	outcomeCoding   = "coding"    // its content coding cannot be decoded
)

// Enhancement is a property that is added to responses.
type Enhancement struct {
	// The name of the property: a letter, then letters, digits and underscores. Required.
	Property string `json:"property,omitempty"`

	// The CEL expression that computes the property. Variables:
	//
	//   - `ocp`: the fields of the context, as in ocp.current_goal
	//   - `request`: method, path, query, headers
	//   - `response`: status, headers, body
	//   - `tool`: name, operation_id, method, path, tags
	//   - `item`: the object that gets the property
	//
	// An expression that returns optional.none() adds nothing. If an expression fails, or its
	// value does not match the schema that the document declares, only this property is
	// missing. In a list, it is only missing in the item that failed. Required.
	Expression string `json:"expression,omitempty"`

	// Whether the property is only added to responses of operations that declare it in
	// x-ocp-enhanced-response. Default: false, it is added to every JSON response.
	Declared bool `json:"declared,omitempty"`
}

// enhancer decides which responses are held to be enhanced, and counts the outcomes. A nil
// enhancer holds none.
type enhancer struct {
	*enhance.Enhancer
	metrics *ocpMetrics
	logger  *zap.Logger
	logged  sync.Map // properties and reasons that have been logged
}

// newEnhancer compiles the expressions. It returns nil if there are none.
func newEnhancer(h *Handler) (*enhancer, error) {
	if len(h.Enhance) == 0 {
		return nil, nil
	}
	properties := make([]enhance.Property, 0, len(h.Enhance))
	for _, e := range h.Enhance {
		if e.Declared && h.toolset == nil {
			return nil, fmt.Errorf("enhance %s declared: that needs a toolset, whose document declares the property", e.Property)
		}
		properties = append(properties, enhance.Property{Name: e.Property, Expression: e.Expression, Declared: e.Declared})
	}
	compiled, err := enhance.Compile(properties, enhance.Options{
		Lists:  enhance.Lists(h.Lists),
		Wrap:   h.WrapName,
		Errors: h.EnhanceErrors,
		Limits: enhance.Limits{Body: int(h.MaxEnhanced)},
	})
	if err != nil {
		return nil, fmt.Errorf("enhance: %w", err)
	}
	return &enhancer{Enhancer: compiled, metrics: h.metrics, logger: h.logger}, nil
}

// tell counts the outcome of a response.
func (e *enhancer) tell(outcome string) {
	e.metrics.enhanced.WithLabelValues(outcome).Inc()
}

// tellFailures counts the properties that failed. Each property and reason is logged once,
// because an error in an expression occurs with every response.
func (e *enhancer) tellFailures(failures []enhance.Failure) {
	for _, failure := range failures {
		e.metrics.failed.WithLabelValues(failure.Property, string(failure.Reason)).Inc()
		e.warnOnce(failure.Property, string(failure.Reason))
	}
}

// warnOnce logs a failed property, unless it has been logged before with this reason.
func (e *enhancer) warnOnce(property, reason string) {
	if _, logged := e.logged.LoadOrStore(property+" "+reason, struct{}{}); !logged {
		e.logger.Warn("an answer was left without a property, as its expression failed; this is logged once, see the metric fairway_ocp_property_failures_total",
			zap.String("property", property), zap.String("reason", reason))
	}
}

// hold is the part of an exchange that keeps a response until its end. A nil hold keeps none.
type hold struct {
	enhancer *enhancer
	message  enhance.Exchange
	limit    int64    // bytes of the response
	known    []string // If-None-Match of the request
	since    string   // If-Modified-Since of the request

	body    *buffer.Buffer // nil unless the response is being held
	varies  bool           // the response depends on the context
	flushed bool
	settled bool // a handler may be changing the header, so the timer must not read it
	timer   *time.Timer
}

// prepare returns the hold for the response to r. It returns nil if the response gets no
// property. It changes the request so that the response is complete and in a decodable content
// coding.
func (e *enhancer) prepare(in *ocp.Incoming, r *http.Request, tool *ocp.Tool, limit int64) *hold {
	if e == nil || len(e.Properties(tool)) == 0 {
		return nil
	}
	h := &hold{enhancer: e, limit: limit}
	h.takeConditions(r)
	restrictCodings(r.Header)

	// Later handlers may rewrite the URL in place. Expressions get the original.
	request, address := r.WithContext(r.Context()), *r.URL
	request.URL = &address
	h.message = enhance.Exchange{Incoming: in, Request: request, Tool: tool}
	return h
}

// takeConditions removes the conditions of a GET or HEAD before the request reaches the
// upstream. The upstream only knows its plain response, so it would respond with 304 to a
// client that has the plain response and should get the enhanced one. The conditions are
// checked when the response is complete.
func (h *hold) takeConditions(r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return
	}
	h.known, h.since = r.Header["If-None-Match"], r.Header.Get("If-Modified-Since")
	delete(r.Header, "If-None-Match")
	delete(r.Header, "If-Modified-Since")
}

// isKnown reports whether the client already has the response, which is not enhanced. The date
// is only considered if no entity tag is given (RFC 9110, section 13.1.3).
func (h *hold) isKnown(status int, header http.Header) bool {
	switch {
	case h == nil || status != http.StatusOK:
		return false
	case len(h.known) > 0:
		return len(header["Etag"]) == 1 && prepared.MatchesTag(h.known, header["Etag"][0])
	}
	return h.since != "" && h.since == header.Get("Last-Modified")
}

// holds reports whether the response is being held.
func (h *hold) holds() bool {
	return h != nil && h.body != nil
}

// begin decides whether to hold the response. Its header is complete at this point.
func (h *hold) begin(x *exchange, status int) bool {
	if x.ofTools {
		return false
	}
	header := x.ResponseWriter.Header()
	h.message.Status, h.message.Header = status, header
	head := h.message.Request.Method == http.MethodHead
	h.varies = status == http.StatusNotModified // the client's stored response may be an enhanced one
	if reason := h.takes(head); reason != "" {
		if reason != string(enhance.Status) && reason != string(enhance.NoBody) {
			h.enhancer.tell(reason)
		}
		return false
	}
	h.varies = true
	if head {
		// The response to GET would have another body, whose length and tag are unknown.
		forgetBody(header)
		delete(header, "Content-Length")
		delete(header, "Etag")
		return false
	}
	h.body = buffer.Get()
	return true
}

// takes returns why the response cannot be enhanced, as far as its header shows. It returns ""
// if it may be enhanced. A HEAD is treated like the GET.
func (h *hold) takes(head bool) (reason string) {
	header := h.message.Header
	switch {
	case len(header["Trailer"]) > 0:
		return outcomeTrailers
	case len(header["Signature-Input"]) > 0:
		return outcomeSigned
	case listsToken(header["Cache-Control"], "no-transform"):
		return outcomeFrozen
	case caddyhttp.IsIncremental(header):
		return outcomeStream
	}
	message := h.message
	if head {
		get := *h.message.Request
		get.Method = http.MethodGet
		message.Request = &get
	}
	took := h.enhancer.Suits(&message)
	if took == enhance.Encoded {
		if !decodable(header) {
			return outcomeCoding
		}
		message.Header = header.Clone()
		delete(message.Header, "Content-Encoding")
		took = h.enhancer.Suits(&message)
	}
	return string(took)
}

// write keeps a part of the body. If the body exceeds the limit, the response is released.
func (h *hold) write(x *exchange, p []byte) (int, error) {
	if int64(len(h.body.B))+int64(len(p)) > h.limit {
		h.release(x, string(enhance.TooLarge))
		return x.ResponseWriter.Write(p)
	}
	h.body.B = append(h.body.B, p...)
	h.watch(x)
	return len(p), nil
}

// flush records that a handler requested a flush.
func (h *hold) flush(x *exchange) {
	h.flushed = true
	h.watch(x)
}

// watch starts the timer that distinguishes a stream from a response of unknown length.
func (h *hold) watch(x *exchange) {
	if !h.flushed || h.settled || h.timer != nil || len(h.body.B) == 0 {
		return
	}
	h.timer = time.AfterFunc(maxStreamHold, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if h.body == nil || h.settled {
			return
		}
		h.release(x, outcomeStream)
		_ = http.NewResponseController(x.ResponseWriter).Flush() // the client may have disconnected
	})
}

// settle stops the timer, because a handler has the header and may change it.
func (h *hold) settle() {
	if h.body != nil {
		h.settled = true
		h.stop()
	}
}

// stop stops the timer.
func (h *hold) stop() {
	if h.timer != nil {
		h.timer.Stop()
	}
}

// release sends the held response unchanged and stops holding.
func (h *hold) release(x *exchange, outcome string) {
	h.stop()
	if outcome != "" {
		h.enhancer.tell(outcome)
	}
	body := h.body
	h.body = nil
	x.commit(x.status)
	_, _ = x.ResponseWriter.Write(body.B) // the next write reports a disconnected client
	buffer.Put(body)
}

// drop discards the held response.
func (h *hold) drop() {
	if h.holds() {
		h.stop()
		buffer.Put(h.body)
		h.body = nil
	}
}

// end enhances the complete response and sends it.
func (h *hold) end(x *exchange, r *http.Request) {
	h.stop()
	if hasTrailers(h.message.Header) {
		h.release(x, outcomeTrailers)
		return
	}
	content, decoded, ok := h.content()
	if !ok {
		h.release(x, outcomeCoding)
		return
	}
	defer buffer.Put(decoded)
	out := buffer.Get()
	defer buffer.Put(out)
	body, outcome := h.enhancer.Append(r.Context(), out.B, content, &h.message)
	h.enhancer.tellFailures(outcome.Failures)
	if !outcome.Enhanced() {
		h.enhancer.tell(string(outcome.Reason))
		if outcome.Reason.Fault() {
			h.enhancer.warnOnce(outcome.Property, string(outcome.Reason))
		}
		if h.isKnown(x.status, h.message.Header) {
			h.drop()
			x.notModified()
			return
		}
		h.release(x, "")
		return
	}
	out.B = body
	h.enhancer.tell(outcomeEnhanced)
	h.send(x, out.B)
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

// content returns the body without its content coding. If there was one, decoded is the buffer
// of the content, which the caller must release.
func (h *hold) content() (content []byte, decoded *buffer.Buffer, ok bool) {
	coding := h.message.Header["Content-Encoding"]
	if len(coding) == 0 {
		return h.body.B, nil, true
	}
	coded := buffer.Get() // a copy: if anything fails, the original is sent
	coded.B = append(coded.B, h.body.B...)
	decoded, err := toolcall.DecodeBody(http.Header{"Content-Encoding": coding}, coded, h.limit)
	if err != nil {
		return nil, nil, false
	}
	return decoded.B, decoded, true
}

// send sends the enhanced body with a matching header. If the client already has that body, it
// sends 304.
func (h *hold) send(x *exchange, body []byte) {
	header := h.message.Header
	forgetBody(header)
	delete(header, "Content-Encoding")
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	tag := retag(header, body)
	x.reply(x.status)
	method := h.message.Request.Method
	unchanged := tag != "" && x.status == http.StatusOK && method == http.MethodGet && prepared.MatchesTag(h.known, tag)
	held := h.body
	h.body = nil
	defer buffer.Put(held)
	if unchanged {
		delete(header, "Content-Length")
		delete(header, "Content-Type")
		x.ResponseWriter.WriteHeader(http.StatusNotModified)
		return
	}
	x.ResponseWriter.WriteHeader(x.status)
	_, _ = x.ResponseWriter.Write(body) // the client may have disconnected
}

// forgetBody removes headers that describe the upstream's body. No modification date can be
// given either, because the context can change the enhanced body at any time.
func forgetBody(header http.Header) {
	for _, key := range []string{"Accept-Ranges", "Content-Digest", "Content-Md5", "Digest", "Last-Modified", "Repr-Digest"} {
		delete(header, key)
	}
}

// decodable reports whether toolcall.DecodeBody supports the content coding.
func decodable(header http.Header) bool {
	coding := header["Content-Encoding"]
	return len(coding) == 1 && isDecodable(coding[0])
}

// isDecodable reports whether toolcall.DecodeBody supports the named coding.
func isDecodable(coding string) bool {
	switch strings.ToLower(strings.TrimSpace(coding)) {
	case "", "identity", "gzip", "x-gzip", "deflate", "zstd":
		return true
	}
	return false
}

// restrictCodings removes codings from Accept-Encoding that toolcall.DecodeBody does not
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
