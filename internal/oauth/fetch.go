package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/buffer"
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

// fetcher fetches documents over the network.
type fetcher struct {
	client *http.Client
}

// newFetcher returns a fetcher with the transport. Nil means a default one.
func newFetcher(transport http.RoundTripper) *fetcher {
	if transport == nil {
		clone := http.DefaultTransport.(*http.Transport).Clone()
		clone.MaxIdleConnsPerHost = 1
		clone.IdleConnTimeout = 10 * time.Second
		transport = clone
	}
	return &fetcher{client: &http.Client{Transport: transport, CheckRedirect: stayOnHost}}
}

// close closes idle connections.
func (f *fetcher) close() {
	f.client.CloseIdleConnections()
}

// stayOnHost rejects redirects to another host, so that one server cannot provide documents for
// another.
func stayOnHost(r *http.Request, before []*http.Request) error {
	first := before[0].URL
	switch {
	case len(before) > maxRedirects:
		return fmt.Errorf("redirected more than %d times", maxRedirects)
	case r.URL.Host != first.Host:
		return errors.New("redirected to another host, which is not followed")
	case r.URL.Scheme != first.Scheme:
		return errors.New("redirected to another scheme, which is not followed")
	}
	return nil
}

// statusError is a response with another status than 200.
type statusError int

func (e statusError) Error() string {
	return fmt.Sprintf("responded with status %d %s", int(e), http.StatusText(int(e)))
}

// get returns a document, and how long its server allows it to be cached. The duration is 0 if
// the server does not say.
func (f *fetcher) get(ctx context.Context, address string) ([]byte, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, documentTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, 0, err
	}
	r.Header.Set("Accept", "application/json")
	response, err := f.client.Do(r)
	if err != nil {
		return nil, 0, err // the error contains the address
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, 0, fmt.Errorf("%s %w", address, statusError(response.StatusCode))
	}
	document, err := readLimited(response.Body)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", address, err)
	}
	return document, maxAge(response.Header), nil
}

// readLimited reads at most maxDocument bytes.
func readLimited(source io.Reader) ([]byte, error) {
	document, err := buffer.ReadLimited(source, maxDocument)
	if errors.Is(err, buffer.ErrTooLarge) {
		return nil, fmt.Errorf("larger than %d bytes", maxDocument)
	}
	return document, err
}

// readKeyFile reads a key set from a file.
func readKeyFile(path string) (*keySet, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	document, err := readLimited(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
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

// checkAddress returns an error if it is not safe to fetch documents from the address that
// access decisions depend on. It must use TLS, or be on this machine.
func checkAddress(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "":
		return nil, errors.New("not an absolute URL such as https://auth.example.com")
	case u.User != nil:
		return nil, errors.New("the URL must not have a user or password")
	case u.Scheme == "https", u.Scheme == "http" && isLoopback(u.Hostname()):
		return u, nil
	case u.Scheme == "http":
		return nil, errors.New("the URL is plain http, which is only allowed for a loopback address; use https")
	}
	return nil, errors.New("the scheme must be https")
}

// isLoopback reports whether the host is this machine.
func isLoopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
