package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/fairwayhq/fairway/internal/fetch"
)

const (
	// defaultFetchTimeout is the time limit of one fetch, from the connection to the last
	// byte.
	defaultFetchTimeout = 30 * time.Second

	// maxRedirects is the maximum number of redirects in one fetch.
	maxRedirects = 5
)

// A URL reads a document from an http or https URL. It stores the ETag and
// Last-Modified of the response, so that an unchanged document is not sent again. Only a
// response with status 200 contains a document.
type URL struct {
	url     *url.URL
	maxSize int64
	client  *fetch.Client
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
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, fmt.Errorf("the document's URL %s needs the scheme http or https, and a host; write it as https://host/path", fetch.Shown(u))
	}
	maxSize := sizeLimit(options.MaxSize)
	timeout := cmp.Or(max(options.Timeout, 0), defaultFetchTimeout)
	return &URL{
		url:     u,
		maxSize: maxSize,
		client:  fetch.New(fetch.Options{MaxSize: maxSize, MaxRedirects: maxRedirects, Timeout: timeout}),
	}, nil
}

// Location returns the URL without its credentials and query.
func (s *URL) Location() string {
	return fetch.Shown(s.url)
}

// Fetch requests the document from the server and returns it if it has changed.
func (s *URL) Fetch(ctx context.Context, previous *Snapshot) (*Snapshot, bool, error) {
	asked := previous.heldValidators()
	response, err := s.client.Get(ctx, s.url.String(), asked.header())
	if errors.Is(err, fetch.ErrTooLarge) {
		err = tooLarge(s.maxSize)
	}
	var snapshot *Snapshot
	var changed bool
	if err == nil {
		snapshot, changed, err = readResponse(*response, s.Location(), s.maxSize, asked, previous)
	}
	if err != nil {
		return nil, false, fmt.Errorf("fetching %s: %w", s.Location(), err)
	}
	return snapshot, changed, nil
}
