package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/ocp"
)

// maxToolsWait is how long a client on standard input waits for a document that
// is not a file.
const maxToolsWait = time.Minute

// StdioLine is a client on standard input and output. It comes to the endpoint as
// one request that lasts as long as the client does, through all the handlers in
// front, so that what they decide and set holds for it.
type StdioLine struct {
	In  io.Reader
	Out io.Writer

	Served bool  // by an endpoint
	Err    error // why serving ended, nil for a clean end
}

type stdioKey struct{}

func ContextWithStdio(ctx context.Context, line *StdioLine) context.Context {
	return context.WithValue(ctx, stdioKey{}, line)
}

// stdioOf returns the client on standard input that a request stands for, nil if
// it is a request like others.
func stdioOf(r *http.Request) *StdioLine {
	if r.Method != http.MethodGet {
		return nil
	}
	line, _ := r.Context().Value(stdioKey{}).(*StdioLine)
	if line == nil || line.Served {
		return nil
	}
	return line
}

// serve serves the client until it ends.
func (l *StdioLine) serve(m *Handler, r *http.Request, next caddyhttp.Handler) {
	l.Served = true
	tools, err := m.AwaitTools(r, next)
	if err != nil {
		l.Err = err
		return
	}
	l.Err = m.server.ServeStdio(r.Context(), l.In, l.Out, m.site(r, next, "", tools, new(toolcall.RequestCalls)))
}

// AwaitTools returns the toolset, and waits for it if need be: nobody on standard
// input could be told to come again.
func (m *Handler) AwaitTools(r *http.Request, next caddyhttp.Handler) (*ocp.Toolset, error) {
	toolcall.MarkToolEndpoint(r)
	if tools := m.Endpoint.Current(r, next); tools != nil {
		return tools, nil
	}
	loader := m.Endpoint.Toolset.Loader
	if m.Endpoint.Toolset.BySite {
		return nil, fmt.Errorf("the document %s of the site could not be loaded: %w", loader.Location(), loader.Err())
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxToolsWait)
	defer cancel()
	if err := loader.Load(ctx); err != nil {
		return nil, fmt.Errorf("the document could not be loaded: %w", err)
	}
	if tools := m.Endpoint.Current(r, next); tools != nil {
		return tools, nil
	}
	return nil, errors.New("the document has no tools")
}
