package ocp

import (
	"io"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/ocp/enhance"
	"github.com/fairwayhq/fairway/tools"
)

// varyWriter is the http.ResponseWriter of a request without a valid context. If the
// response would be enhanced for a request with a context, it adds Vary, so that a shared cache
// does not give the plain response to an agent (RFC 9110, section 12.5.5). It changes nothing
// else and holds nothing.
type varyWriter struct {
	caddyhttp.ResponseWriterWrapper
	handler       *Handler
	buffered      responseBuffer // only used for its decision about the header; never holds a body
	toolEndpoint  bool           // a tool endpoint responds
	headerWritten bool
}

// newVaryWriter returns the writer for a request without a valid context. It returns nil if no
// response to the request could be enhanced.
func (h *Handler) newVaryWriter(w http.ResponseWriter, r *http.Request, tool *tools.Tool) *varyWriter {
	if h.enhancer == nil || len(h.enhancer.Properties(tool)) == 0 {
		return nil
	}
	v := &varyWriter{handler: h, buffered: responseBuffer{enhancer: h.enhancer}}
	v.ResponseWriter = w
	v.buffered.message = enhance.Exchange{Request: r, Tool: tool}
	return v
}

// WriteHeader adds Vary to the header and writes it.
func (v *varyWriter) WriteHeader(status int) {
	if !v.headerWritten && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		v.headerWritten = true
		if header := v.ResponseWriter.Header(); v.couldBeEnhanced(status, header) {
			addToken(header, "Vary", varyEnhanced)
		}
	}
	v.ResponseWriter.WriteHeader(status)
}

// couldBeEnhanced reports whether the response would be enhanced for a request with a context.
func (v *varyWriter) couldBeEnhanced(status int, header http.Header) bool {
	if v.toolEndpoint {
		return false
	}
	v.buffered.message.Status, v.buffered.message.Header = status, header
	return status == http.StatusNotModified || v.buffered.rejectReason(v.buffered.message.Request.Method == http.MethodHead) == ""
}

// writeImpliedHeader writes the implied header.
func (v *varyWriter) writeImpliedHeader() {
	if !v.headerWritten {
		v.WriteHeader(http.StatusOK)
	}
}

// Write writes a part of the body.
func (v *varyWriter) Write(p []byte) (int, error) {
	v.writeImpliedHeader()
	return v.ResponseWriter.Write(p)
}

// ReadFrom writes all of source.
func (v *varyWriter) ReadFrom(source io.Reader) (int64, error) {
	v.writeImpliedHeader()
	return v.ResponseWriterWrapper.ReadFrom(source)
}

// FlushError flushes the response.
func (v *varyWriter) FlushError() error {
	v.writeImpliedHeader()
	return http.NewResponseController(v.ResponseWriter).Flush()
}
