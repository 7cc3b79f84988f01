package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"

	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/sse"
)

// dialSSE opens a link over HTTP+SSE (MCP 2024-11-05): messages of the server come on the stream of a GET, whose first
// event has the address for those of the client. Credentials go to that address, so it must have the same origin.
func dialSSE(ctx context.Context, d *dialer, credentials http.Header, limit int64) (*pipe, error) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)                                                                              // until the address has arrived
	r, err := d.do(lasting, http.MethodGet, d.endpoint, nil, credentials, http.Header{"Accept": {"text/event-stream"}}) //nolint:bodyclose // closed by the goroutine that reads it
	if err != nil {
		cancel()
		return nil, err
	}
	if r.StatusCode != http.StatusOK || httpheader.MediaType(r.Header.Get("Content-Type")) != "text/event-stream" {
		cancel()
		_ = r.Body.Close()
		return nil, statusError(r)
	}
	p, address := newPipe(), make(chan string, 1)
	var target atomic.Pointer[string]
	p.end = cancel
	p.write = func(ctx context.Context, header http.Header, data []byte) error {
		if to := target.Load(); to != nil {
			return d.post(ctx, *to, header, data)
		}
		return errUnsent
	}
	go func() {
		defer r.Body.Close()
		p.fail(p.readEvents(r.Body, int(limit), address))
	}()
	select {
	case raw := <-address:
		if !stop() {
			break
		}
		to, err := messageAddress(r.Request.URL, raw)
		if err != nil {
			cancel()
			return nil, err
		}
		target.Store(&to)
		return p, nil
	case <-p.closed:
		cancel()
		return nil, &UnavailableError{p.err}
	case <-ctx.Done():
	}
	cancel()
	return nil, context.Cause(ctx)
}

// readEvents delivers the messages of the stream until it ends.
func (p *pipe) readEvents(body io.Reader, limit int, address chan<- string) error {
	for e, err := range sse.Events(body, limit) {
		switch {
		case err != nil:
			return err
		case string(e.Name) == "endpoint":
			select {
			case address <- string(e.Data):
			default: // only the first one counts
			}
		default:
			p.deliver(e.Data)
		}
	}
	return errors.New("its stream has ended")
}

// messageAddress returns the address for messages, which must have the origin of the stream.
func messageAddress(stream *url.URL, raw string) (string, error) {
	target, err := stream.Parse(raw)
	if err != nil || origin(target) != origin(stream) {
		return "", fmt.Errorf("the MCP server names an address for messages at another origin than %s://%s", stream.Scheme, stream.Host)
	}
	return target.String(), nil
}

// post sends a message whose response comes on the stream.
func (d *dialer) post(ctx context.Context, address string, header http.Header, data []byte) error {
	r, err := d.do(ctx, http.MethodPost, address, data, header)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, maxErrorBody))
	_ = r.Body.Close()
	switch refused := statusError(r); {
	case isUnknownSession(r.StatusCode):
		return fmt.Errorf("%w: %w", errSessionGone, refused)
	case r.StatusCode/100 != 2:
		return refused
	}
	return nil
}
