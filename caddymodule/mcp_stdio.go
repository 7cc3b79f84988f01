package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/ocp"
)

// maxToolsWait is how long a client on standard input waits for a document that
// is not a file.
const maxToolsWait = time.Minute

// stdioLine is a client on standard input and output. It comes to the endpoint as
// one request that lasts as long as the client does, through all the handlers in
// front, so that what they decide and set holds for it.
type stdioLine struct {
	in  io.Reader
	out io.Writer

	served bool  // by an endpoint
	err    error // why serving ended, nil for a clean end
}

type stdioKey struct{}

func contextWithStdio(ctx context.Context, line *stdioLine) context.Context {
	return context.WithValue(ctx, stdioKey{}, line)
}

// stdioOf returns the client on standard input that a request stands for, nil if
// it is a request like others.
func stdioOf(r *http.Request) *stdioLine {
	if r.Method != http.MethodGet {
		return nil
	}
	line, _ := r.Context().Value(stdioKey{}).(*stdioLine)
	if line == nil || line.served {
		return nil
	}
	return line
}

// serve serves the client until it ends.
func (l *stdioLine) serve(m *MCP, r *http.Request, next caddyhttp.Handler) {
	l.served = true
	tools, err := m.awaitTools(r, next)
	if err != nil {
		l.err = err
		return
	}
	l.err = m.server.ServeStdio(r.Context(), l.in, l.out, m.site(r, next, "", tools, new(requestCalls)))
}

// awaitTools returns the toolset, and waits for it if need be: nobody on standard
// input could be told to come again.
func (m *MCP) awaitTools(r *http.Request, next caddyhttp.Handler) (*ocp.Toolset, error) {
	markToolEndpoint(r)
	if tools := m.endpoint.current(r, next); tools != nil {
		return tools, nil
	}
	loader := m.endpoint.toolset.loader
	if m.endpoint.toolset.bySite {
		return nil, fmt.Errorf("the document %s of the site could not be loaded: %w", loader.Location(), loader.Err())
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxToolsWait)
	defer cancel()
	if err := loader.Load(ctx); err != nil {
		return nil, fmt.Errorf("the document could not be loaded: %w", err)
	}
	if tools := m.endpoint.current(r, next); tools != nil {
		return tools, nil
	}
	return nil, errors.New("the document has no tools")
}
