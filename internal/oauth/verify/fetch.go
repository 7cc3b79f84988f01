package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/fetch"
	"github.com/fairwayhq/fairway/internal/text"
)

const (
	// maxDocument limits a metadata document or key set, in bytes.
	maxDocument = 512 << 10

	// fetchTimeout limits finding and fetching the key set of one issuer.
	fetchTimeout = 15 * time.Second

	// documentTimeout limits fetching one document.
	documentTimeout = 5 * time.Second

	// maxRedirects limits the redirects of one fetch. They must stay on the same host.
	maxRedirects = 3
)

// fetcher fetches documents over the network. It follows redirects only on the same host, so that
// one server cannot provide documents for another.
type fetcher struct {
	client *fetch.Client
}

// byteOrderMark may precede JSON, and is ignored (RFC 8259, section 8.1).
var byteOrderMark = []byte("\uFEFF")

// newFetcher returns a fetcher with the transport. Nil means a default one.
func newFetcher(transport http.RoundTripper) *fetcher {
	return &fetcher{client: fetch.New(fetch.Options{
		MaxSize:      maxDocument,
		MaxRedirects: maxRedirects,
		SameHost:     true,
		Timeout:      documentTimeout,
		Transport:    transport,
	})}
}

// get returns a document, and how long its server allows it to be cached. The duration is 0 if
// the server does not say. Errors contain the address.
func (f *fetcher) get(ctx context.Context, address string) ([]byte, time.Duration, error) {
	response, err := f.client.Get(ctx, address, http.Header{"Accept": {"application/json"}})
	switch {
	case errors.Is(err, fetch.ErrTooLarge):
		return nil, 0, fmt.Errorf("%s: larger than %d bytes", address, maxDocument)
	case err != nil:
		return nil, 0, fmt.Errorf("%s: %w", address, err)
	case response.Status != http.StatusOK:
		return nil, 0, fmt.Errorf("%s responded with status %s", address, text.StatusLine(response.Status))
	}
	return bytes.TrimPrefix(response.Body, byteOrderMark), maxAge(response.Header), nil
}

// readKeyFile reads a key set from a file.
func readKeyFile(path string) (*keySet, error) {
	document, err := buffer.ReadFile(path, maxDocument)
	if errors.Is(err, buffer.ErrTooLarge) {
		return nil, fmt.Errorf("%s: larger than %d bytes", path, maxDocument)
	}
	if err != nil {
		return nil, err
	}
	keys, err := parseKeys(document)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return keys, nil
}

// maxAge returns the max-age of Cache-Control (RFC 9111, section 5.2.2.1). It returns 0 if
// there is none.
func maxAge(header http.Header) time.Duration {
	for _, value := range header.Values("Cache-Control") {
		for directive := range strings.SplitSeq(value, ",") {
			name, seconds, _ := strings.Cut(strings.TrimSpace(directive), "=")
			if !strings.EqualFold(name, "max-age") {
				continue
			}
			if n, err := strconv.ParseUint(strings.Trim(seconds, `"`), 10, 31); err == nil {
				return time.Duration(n) * time.Second
			}
		}
	}
	return 0
}
