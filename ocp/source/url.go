package source

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

const (
	// defaultFetchTimeout is the time limit of one fetch, from the connection to the last
	// byte.
	defaultFetchTimeout = 30 * time.Second

	// maxRedirects is the maximum number of redirects in one fetch.
	maxRedirects = 5

	// maxAnswerHeader is the maximum size of a response header, in bytes.
	maxAnswerHeader = 256 << 10
)

// A URL reads a document from an http or https URL. It stores the ETag and
// Last-Modified of the response, so that an unchanged document is not sent again. Only a
// response with status 200 contains a document.
type URL struct {
	url     *url.URL
	maxSize int64
	timeout time.Duration
	client  *http.Client
}

// URLOptions are the limits of a URL.
type URLOptions struct {
	MaxSize int64         // bytes after decompression; 0 means DefaultMaxDocument
	Timeout time.Duration // of one fetch; 0 means 30 seconds
}

// NewURL returns the source for the document at address. The address may contain a
// user and password for basic authentication.
func NewURL(address string, options URLOptions) (*URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		// The parser's message contains the address, and with it the password.
		return nil, errors.New("the document's URL cannot be parsed; write it as https://host/path")
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("the document's URL %s has the scheme %q; http and https are read", shown(u), u.Scheme)
	}
	if u.Host == "" {
		return nil, fmt.Errorf("the document's URL %s names no host", shown(u))
	}
	timeout := options.Timeout
	if timeout <= 0 {
		timeout = defaultFetchTimeout
	}
	return &URL{
		url:     u,
		maxSize: options.MaxSize,
		timeout: timeout,
		client: &http.Client{
			CheckRedirect: checkRedirect,
			// Fetches are minutes apart, so connections are not kept open.
			Transport: &http.Transport{
				Proxy:                  http.ProxyFromEnvironment,
				DisableKeepAlives:      true,
				ForceAttemptHTTP2:      true,
				MaxResponseHeaderBytes: maxAnswerHeader,
			},
		},
	}, nil
}

// Location returns the URL without its credentials and query.
func (s *URL) Location() string {
	return shown(s.url)
}

// Fetch requests the document from the server and returns it if it has changed.
func (s *URL) Fetch(ctx context.Context, previous *Snapshot) (*Snapshot, bool, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("no answer within %v", s.timeout))
	defer cancel()
	snapshot, changed, err := s.fetch(bounded, previous)
	if err == nil {
		return snapshot, changed, nil
	}
	if ctx.Err() == nil && (bounded.Err() != nil || errors.Is(err, context.DeadlineExceeded)) { // a dialer's own clock may be ahead
		err = context.Cause(bounded)
	}
	return nil, false, fmt.Errorf("fetching %s: %w", s.Location(), err)
}

func (s *URL) fetch(ctx context.Context, previous *Snapshot) (*Snapshot, bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url.String(), nil)
	if err != nil {
		return nil, false, errors.New("the URL makes no request")
	}
	asked := previous.heldValidators()
	asked.ask(request.Header)
	response, err := s.client.Do(request)
	if err != nil {
		return nil, false, withoutURL(err)
	}
	defer response.Body.Close()
	fresh, err := checkAnswer(response.StatusCode, response.Header, asked)
	if err != nil {
		return nil, false, err
	}
	if !fresh {
		return previous, false, nil
	}
	body, err := readAtMost(response.Body, s.maxSize, response.ContentLength)
	if err != nil {
		return nil, false, fmt.Errorf("reading the body: %w", err)
	}
	// The transport has already decoded the compression that it requested itself.
	if body, err = unpack(body, response.Header, s.maxSize); err != nil {
		return nil, false, err
	}
	return answered(body, response.Header, s.Location(), previous)
}

// withoutURL removes the URL, which may contain secrets, from an HTTP client's error.
func withoutURL(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	return err
}

func checkRedirect(request *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	from := via[len(via)-1].URL
	switch {
	case request.URL.Scheme != "http" && request.URL.Scheme != "https":
		return fmt.Errorf("a redirect to the scheme %q", request.URL.Scheme)
	case from.Scheme == "https" && request.URL.Scheme == "http":
		return fmt.Errorf("a redirect from https down to http (%s)", shown(request.URL))
	}
	return nil
}
