package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/fetch"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/yamltree"
	"github.com/fairwayhq/fairway/oagent"
)

const (
	// maxDescription is the maximum length of a description, in bytes. The model gets it.
	maxDescription = 1024

	maxDepth = 64 // levels of a definition

	minFresh   = time.Minute      // minimum time for which a definition is used without revalidation
	maxFresh   = time.Hour        // maximum of that time
	maxStale   = 24 * time.Hour   // maximum time for which a definition is used while its server does not respond
	retryPause = 30 * time.Second // after a failed fetch
)

// cached is the definition of an agent in the cache.
type cached struct {
	snapshot   atomic.Pointer[snapshot] // nil before the first fetch
	fetching   sync.Mutex               // held during a fetch
	refreshing atomic.Bool              // a fetch in the background was started
}

// snapshot is the state after a fetch. It is immutable.
type snapshot struct {
	description string    // at most maxDescription bytes, without control characters; "" if there is no definition
	err         error     // why there is none
	tag         string    // entity tag of the definition
	confirmed   time.Time // when the server last confirmed the definition
	until       time.Time // until then nothing is fetched
}

// Description returns the description of an agent in its definition. That is the only part of the document that this server
// uses; the other server enforces the rest. The definition is fetched if none is known. A known one that
// is no longer fresh is used at once and fetched again in the background.
func (c *Client) Description(ctx context.Context, reference oagent.Reference) (string, error) {
	h, err := c.host(reference)
	if err != nil {
		return "", &Error{Message: err.Error()}
	}
	c.mu.Lock()
	e := c.definitions[reference.String()]
	if e == nil {
		e = new(cached)
		c.definitions[reference.String()] = e
	}
	c.mu.Unlock()
	now := time.Now()
	if s := e.snapshot.Load(); s != nil && s.description != "" && now.Before(s.confirmed.Add(maxStale)) {
		if now.After(s.until) && e.refreshing.CompareAndSwap(false, true) {
			c.refreshing.Go(func() {
				defer e.refreshing.Store(false)
				_, _ = c.refresh(context.WithoutCancel(ctx), h, reference, e)
			})
		}
		return s.description, nil
	}
	return c.refresh(ctx, h, reference, e)
}

// refresh fetches the definition, unless another goroutine has just fetched it.
func (c *Client) refresh(ctx context.Context, h *host, reference oagent.Reference, e *cached) (string, error) {
	e.fetching.Lock()
	defer e.fetching.Unlock()
	old := e.snapshot.Load()
	if old == nil {
		old = new(snapshot)
	}
	if time.Now().Before(old.until) {
		return old.description, old.err
	}
	next, err := c.fetch(ctx, h, reference, old)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return "", stopped(ctx)
	default:
		c.report(reference.String(), errors.Join(err, errors.Unwrap(err)))
		kept := *old
		next = &kept
		next.until = time.Now().Add(retryPause)
		if isFinal(err) || time.Now().After(old.confirmed.Add(maxStale)) {
			next.description, next.tag = "", ""
			next.err = &Error{Message: fmt.Sprintf("the definition of the agent %s is not available: %v", reference, err), Cause: err}
		}
	}
	e.snapshot.Store(next)
	return next.description, next.err
}

// fetch fetches the definition.
func (c *Client) fetch(ctx context.Context, h *host, reference oagent.Reference, old *snapshot) (*snapshot, error) {
	r, err := h.request(ctx, http.MethodGet, address(reference), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/yaml, application/x-yaml, text/yaml;q=0.9, */*;q=0.1")
	if old.tag != "" {
		r.Header.Set("If-None-Match", old.tag)
	}
	response, err := h.fetcher.Get(ctx, r.URL.String(), r.Header)
	if errors.Is(err, fetch.ErrTooLarge) || err == nil && len(response.Body) > oagent.MaxDocument {
		return nil, &invalidError{fmt.Errorf("it is larger than %d bytes", oagent.MaxDocument)}
	}
	if err != nil {
		return nil, brief(err)
	}
	now := time.Now()
	next := &snapshot{confirmed: now, until: now.Add(freshFor(response.Header))}
	switch {
	case response.Status == http.StatusNotModified && old.description != "":
		next.description, next.tag = old.description, old.tag
	case response.Status != http.StatusOK:
		return nil, &statusError{response.Status}
	default:
		if next.description, err = readDefinition(response.Body, reference.Name); err != nil {
			return nil, &invalidError{err}
		}
		next.tag = response.Header.Get("Etag")
	}
	return next, nil
}

// readDefinition returns the description in a document. Keys that are not used here may have any value.
func readDefinition(data []byte, name string) (string, error) {
	if !utf8.Valid(data) {
		return "", errors.New("it is not valid UTF-8")
	}
	// Nodes are not expanded, so an alias costs as much as its text.
	root, err := yamltree.Parse(data, yamltree.Options{Aliases: true, MaxDepth: maxDepth})
	if err != nil {
		return "", errors.New("it is not a YAML document")
	}
	value := func(key string) string {
		if n := yamltree.Member(root, key); n != nil && yamltree.IsString(n) {
			return n.Value
		}
		return ""
	}
	description := printable(value("description"), maxDescription)
	switch {
	case value("kind") != oagent.DocumentKind:
		return "", fmt.Errorf("its kind is %.64q, not %q", value("kind"), oagent.DocumentKind)
	case value("name") != name:
		return "", fmt.Errorf("it is the definition of another agent, %.64q", value("name"))
	case description == "":
		return "", errors.New("it has no description")
	}
	return description, nil
}

// printable returns a text of another server without control characters, cut to the limit.
func printable(s string, limit int) string {
	return text.Cut(strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return ' '
		}
		return r
	}, s)), limit)
}

// freshFor returns how long a response may be used without revalidation (RFC 9111, section 5.2.2).
func freshFor(header http.Header) time.Duration {
	for directive := range strings.SplitSeq(header.Get("Cache-Control"), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		if seconds, err := strconv.Atoi(value); strings.EqualFold(name, "max-age") && err == nil {
			return min(max(time.Duration(min(seconds, int(maxFresh.Seconds())))*time.Second, minFresh), maxFresh)
		}
	}
	return minFresh
}
