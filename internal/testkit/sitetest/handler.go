package sitetest

import (
	"net/http"
	"net/http/httptest"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// HandlerBody is what HandlerAPI responds with.
var HandlerBody = []byte(`{"id":"7","from":"Bern","to":"Berlin","price":{"amount":59.5,"currency":"CHF"}}`)

// HandlerAPI is the least that an API can be: it responds with HandlerBody.
func HandlerAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header()["Content-Type"] = []string{"application/json"}
	_, err := w.Write(HandlerBody)
	return err
}

// EndpointRequest returns a request to an MCP endpoint, as Caddy prepares it for handlers.
func EndpointRequest() *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	r.Header = http.Header{
		"Content-Type":         {"application/json"},
		"Accept":               {"application/json, text/event-stream"},
		"User-Agent":           {"agent/1.0"},
		"Authorization":        {"Bearer abcdefgh"},
		"Mcp-Protocol-Version": {"2025-06-18"},
	}
	return caddyhttp.PrepareRequest(r, caddy.NewReplacer(), nil, new(caddyhttp.Server))
}

// HandlerRequest returns a request to the API with the header, as Caddy prepares it for handlers, and what its
// response is written to.
func HandlerRequest(header http.Header) (*http.Request, *Discard) {
	r := httptest.NewRequest(http.MethodGet, "/trips", nil)
	r.Header = header.Clone()
	w := NewDiscard()
	return caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server)), w
}

// Discard is an http.ResponseWriter that keeps the header and the status only.
type Discard struct {
	Status int
	header http.Header
}

// NewDiscard returns a Discard to which nothing has been written.
func NewDiscard() *Discard { return &Discard{header: make(http.Header)} }

// Header implements http.ResponseWriter.
func (d *Discard) Header() http.Header { return d.header }

// WriteHeader implements http.ResponseWriter.
func (d *Discard) WriteHeader(status int) { d.Status = status }

// Write implements http.ResponseWriter.
func (d *Discard) Write(p []byte) (int, error) { return len(p), nil }
