package source

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/fairwayhq/fairway/internal/fetch"
)

// errNoSite reports that a Site has no SiteFetch yet, because the site has not
// received a request.
var errNoSite = errors.New("the document is served by this site, and no request to the site has arrived yet")

// A SiteFetch sends a GET request for a path through the site's own handlers, with the given
// header. The body may be compressed, as the response header says. It must return when ctx
// is done.
type SiteFetch func(ctx context.Context, path string, header http.Header) (status int, answer http.Header, body []byte, err error)

// A Site reads a document that the site itself serves. The first request to the site
// determines how to reach it; Use then sets the SiteFetch.
type Site struct {
	Path    string // "/openapi.json", with its query if it has one
	MaxSize int64  // bytes after decompression; 0 means DefaultMaxDocument

	site atomic.Pointer[SiteFetch]
}

// Use sets the function for later fetches. It is safe for concurrent use.
func (s *Site) Use(get SiteFetch) {
	s.site.Store(&get)
}

// Location returns the path.
func (s *Site) Location() string {
	path, _, _ := strings.Cut(s.Path, "?")
	return path
}

// Fetch requests the document from the site and returns it if it has changed.
func (s *Site) Fetch(ctx context.Context, previous *Snapshot) (*Snapshot, bool, error) {
	site := s.site.Load()
	if site == nil {
		return nil, false, fmt.Errorf("fetching %s: %w", s.Location(), errNoSite)
	}
	snapshot, changed, err := s.fetch(ctx, *site, previous)
	if err != nil {
		return nil, false, fmt.Errorf("fetching %s from the site: %w", s.Location(), err)
	}
	return snapshot, changed, nil
}

func (s *Site) fetch(ctx context.Context, site SiteFetch, previous *Snapshot) (*Snapshot, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, defaultFetchTimeout)
	defer cancel()
	asked := previous.heldValidators()
	status, answer, body, err := site(ctx, s.Path, asked.header())
	if err != nil {
		return nil, false, err
	}
	response := fetch.Response{Status: status, Header: answer, Body: body}
	return readResponse(response, s.Location(), sizeLimit(s.MaxSize), asked, previous)
}
