package mcp

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/tools"
)

// maxToolsWait limits how long a client on standard input waits for a document that is not a
// file.
const maxToolsWait = time.Minute

// StdioClient is a client on standard input and output. It reaches the endpoint as a single
// request that lasts as long as the client. The request passes all handlers before the
// endpoint, so their decisions and variables apply to the client.
type StdioClient struct {
	In  io.Reader
	Out io.Writer

	Served bool  // set by the endpoint that serves the client
	Err    error // why serving ended, nil for a clean end
}

// stdioKey is the context key of ContextWithStdio.
type stdioKey struct{}

// ContextWithStdio returns a context for the request that carries the client to the endpoint.
func ContextWithStdio(ctx context.Context, client *StdioClient) context.Context {
	return context.WithValue(ctx, stdioKey{}, client)
}

// stdioClient returns the client on standard input that a GET request carries. It returns nil for an
// ordinary request.
func stdioClient(r *http.Request) *StdioClient {
	client, _ := r.Context().Value(stdioKey{}).(*StdioClient)
	if client == nil || client.Served {
		return nil
	}
	return client
}

// serve serves the client until it disconnects.
func (l *StdioClient) serve(m *Handler, r *http.Request, next caddyhttp.Handler) {
	l.Served = true
	toolset, err := m.AwaitTools(r, next)
	if err != nil {
		l.Err = err
		return
	}
	h := &host{handler: m, request: r, next: next, tools: toolset, streams: true}
	l.Err = m.server.ServeStdio(r.Context(), l.In, l.Out, h.site(""))
}

// AwaitTools returns the tools. It waits until the documents are loaded, because a client on
// standard input cannot be asked to retry.
func (m *Handler) AwaitTools(r *http.Request, next caddyhttp.Handler) (*tools.Toolset, error) {
	return m.Endpoint.Await(r, next, maxToolsWait)
}
