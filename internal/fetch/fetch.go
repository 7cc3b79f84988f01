// Package fetch gets documents over HTTP for the gateway itself: OpenAPI documents, and the metadata
// and keys of authorization servers. It is not for calls of an API, which run through Caddy's
// handlers or a client of the user.
//
// A [Client] limits the time, the size and the redirects of a fetch. Its errors do not contain the
// URL, because the URL may contain secrets. The caller adds what may be shown of it, and decides
// what a status means.
package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/fairwayhq/fairway/internal/buffer"
)

const (
	// maxHeader is the maximum size of a response header, in bytes.
	maxHeader = 256 << 10

	// maxTrusted is the maximum number of bytes to allocate in advance for an announced size.
	maxTrusted = 32 << 20

	// idleTimeout is how long a connection stays open for the next fetch. Fetches of one document
	// are minutes apart, but the metadata and the keys of an issuer are fetched one after the other.
	idleTimeout = 10 * time.Second
)

// ErrTooLarge reports a response with more bytes than the limit.
var ErrTooLarge = errors.New("larger than the limit")

// Options configure a Client. All limits are required.
type Options struct {
	MaxSize      int64         // of a response in bytes, after decompression by the transport
	MaxRedirects int           // of one fetch
	SameHost     bool          // follow redirects only to the same scheme, host and port
	Timeout      time.Duration // of one fetch, from the connection to the last byte

	// Transport sends the requests. Default: a transport that uses the proxy of the environment.
	Transport http.RoundTripper
}

// A Client gets documents. It is safe for concurrent use.
type Client struct {
	options Options
	client  http.Client
}

// New returns a Client.
func New(options Options) *Client {
	if options.Transport == nil {
		options.Transport = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			ForceAttemptHTTP2:      true,
			IdleConnTimeout:        idleTimeout,
			MaxIdleConnsPerHost:    1,
			MaxResponseHeaderBytes: maxHeader,
		}
	}
	c := &Client{options: options}
	c.client = http.Client{Transport: options.Transport, CheckRedirect: c.checkRedirect}
	return c
}

// Close closes idle connections.
func (c *Client) Close() {
	c.client.CloseIdleConnections()
}

// A Response is a complete response.
type Response struct {
	Status int
	Header http.Header
	Body   []byte // only with status 200
}

// Get sends a GET request with the header, and returns the response with any status. If the response
// is too large, the error is ErrTooLarge.
func (c *Client) Get(ctx context.Context, address string, header http.Header) (*Response, error) {
	return c.send(ctx, http.MethodGet, address, header, nil)
}

// Post is Get with a POST request that has this body.
func (c *Client) Post(ctx context.Context, address string, header http.Header, body []byte) (*Response, error) {
	return c.send(ctx, http.MethodPost, address, header, bytes.NewReader(body))
}

// send sends a request within the time limit.
func (c *Client) send(ctx context.Context, method, address string, header http.Header, body io.Reader) (*Response, error) {
	bounded, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	response, err := c.exchange(bounded, method, address, header, body)
	// The clock of the dialer may be ahead of the context's.
	if err != nil && ctx.Err() == nil && (bounded.Err() != nil || errors.Is(err, context.DeadlineExceeded)) {
		return nil, fmt.Errorf("no complete response within %v", c.options.Timeout)
	}
	return response, err
}

func (c *Client) exchange(ctx context.Context, method, address string, header http.Header, body io.Reader) (*Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, errors.New("the URL is invalid")
	}
	if header != nil {
		request.Header = header
	}
	received, err := c.client.Do(request)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return nil, failed.Err // without the URL
	}
	if err != nil {
		return nil, err
	}
	defer received.Body.Close()
	response := &Response{Status: received.StatusCode, Header: received.Header}
	if response.Status != http.StatusOK {
		return response, nil
	}
	if received.ContentLength > c.options.MaxSize {
		return nil, ErrTooLarge
	}
	var content buffer.Buffer
	content.Grow(int(min(max(received.ContentLength, 0), maxTrusted)) + 1) // one more, so that EOF is found without growing
	switch err := content.ReadAll(received.Body, c.options.MaxSize); {
	case errors.Is(err, buffer.ErrTooLarge):
		return nil, ErrTooLarge
	case err != nil:
		return nil, fmt.Errorf("reading the body: %w", err)
	}
	response.Body = content.B
	return response, nil
}

// A RedirectError reports a redirect that is not followed.
type RedirectError struct{ error }

func (c *Client) checkRedirect(request *http.Request, via []*http.Request) error {
	if err := c.redirectProblem(request, via); err != nil {
		return &RedirectError{err}
	}
	return nil
}

// redirectProblem returns why a redirect is not followed.
func (c *Client) redirectProblem(request *http.Request, via []*http.Request) error {
	if len(via) > c.options.MaxRedirects {
		return fmt.Errorf("more than %d redirects", c.options.MaxRedirects)
	}
	from, to := via[len(via)-1].URL, request.URL
	switch {
	case to.Scheme != "http" && to.Scheme != "https":
		return fmt.Errorf("a redirect to the scheme %q", to.Scheme)
	case c.options.SameHost && to.Host != from.Host:
		return errors.New("a redirect to another host, which is not followed")
	case c.options.SameHost && to.Scheme != from.Scheme:
		return errors.New("a redirect to another scheme, which is not followed")
	case from.Scheme == "https" && to.Scheme == "http":
		return fmt.Errorf("a redirect from https down to http (%s)", Shown(to))
	}
	return nil
}

// Shown returns the URL without possible secrets: user, password and query, since some APIs take
// keys in the query.
func Shown(u *url.URL) string {
	bare := *u
	bare.User, bare.Fragment, bare.RawFragment = nil, "", ""
	if bare.RawQuery != "" {
		bare.RawQuery = "…"
	}
	return bare.String()
}
