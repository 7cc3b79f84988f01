package ocp

import (
	"io"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/enhance"
)

// varyingResponse is the http.ResponseWriter of a request without a valid context. If the
// response would be enhanced for a request with a context, it adds Vary, so that a shared cache
// does not give the plain response to an agent (RFC 9110, section 12.5.5). It changes nothing
// else and holds nothing.
type varyingResponse struct {
	caddyhttp.ResponseWriterWrapper
	handler *Handler
	hold    hold // only used for its decision about the header; never holds a body
	ofTools bool // a tool endpoint responds
	begun   bool
}

// varying returns the writer for a request without a valid context. It returns nil if no
// response to the request could be enhanced.
func (h *Handler) varying(w http.ResponseWriter, r *http.Request, tool *ocp.Tool) *varyingResponse {
	if h.enhancer == nil || len(h.enhancer.Properties(tool)) == 0 {
		return nil
	}
	v := &varyingResponse{handler: h, hold: hold{enhancer: h.enhancer}}
	v.ResponseWriter = w
	v.hold.message = enhance.Exchange{Request: r, Tool: tool}
	return v
}

// WriteHeader adds Vary to the header and writes it.
func (v *varyingResponse) WriteHeader(status int) {
	if !v.begun && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		v.begun = true
		if header := v.ResponseWriter.Header(); v.couldBeEnhanced(status, header) {
			addToken(header, "Vary", varyEnhanced)
		}
	}
	v.ResponseWriter.WriteHeader(status)
}

// couldBeEnhanced reports whether the response would be enhanced for a request with a context.
func (v *varyingResponse) couldBeEnhanced(status int, header http.Header) bool {
	if v.ofTools {
		return false
	}
	v.hold.message.Status, v.hold.message.Header = status, header
	return status == http.StatusNotModified || v.hold.takes(v.hold.message.Request.Method == http.MethodHead) == ""
}

// begin writes the implied header.
func (v *varyingResponse) begin() {
	if !v.begun {
		v.WriteHeader(http.StatusOK)
	}
}

// Write writes a part of the body.
func (v *varyingResponse) Write(p []byte) (int, error) {
	v.begin()
	return v.ResponseWriter.Write(p)
}

// ReadFrom writes all of source.
func (v *varyingResponse) ReadFrom(source io.Reader) (int64, error) {
	v.begin()
	return v.ResponseWriterWrapper.ReadFrom(source)
}

// FlushError flushes the response.
func (v *varyingResponse) FlushError() error {
	v.begin()
	return http.NewResponseController(v.ResponseWriter).Flush()
}
