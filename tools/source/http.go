package source

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/fetch"
	"github.com/fairwayhq/fairway/internal/text"
)

// accept is the Accept header for documents.
const accept = "application/openapi+json, application/openapi+yaml, application/json, application/yaml;q=0.9, */*;q=0.5"

// validators are the values from a response that a later conditional request sends.
type validators struct {
	etag         string
	lastModified string
}

// header returns the header of a request for a document.
func (v validators) header() http.Header {
	header := http.Header{"Accept": {accept}, "User-Agent": {"Fairway"}}
	if v.etag != "" {
		header.Set("If-None-Match", v.etag)
	}
	if v.lastModified != "" {
		header.Set("If-Modified-Since", v.lastModified)
	}
	return header
}

func (s *Snapshot) heldValidators() validators {
	if s == nil {
		return validators{}
	}
	return s.validators
}

// readResponse returns the document of a response, or previous if it has not changed.
func readResponse(response fetch.Response, location string, limit int64, asked validators, previous *Snapshot) (*Snapshot, bool, error) {
	fresh, err := checkAnswer(response.Status, response.Header, asked)
	switch {
	case err != nil:
		return nil, false, err
	case !fresh:
		return previous, false, nil
	case int64(len(response.Body)) > limit:
		return nil, false, tooLarge(limit)
	}
	// The transport has already decoded the compression that it requested itself.
	body, err := unpack(response.Body, response.Header, limit)
	if err != nil {
		return nil, false, err
	}
	return answered(body, response.Header, location, previous)
}

// checkAnswer decides from the status and header of a response whether its body is a new
// document (fresh) or the document has not changed.
func checkAnswer(status int, header http.Header, asked validators) (fresh bool, err error) {
	switch {
	case status == http.StatusNotModified && asked != validators{}:
		return false, nil
	case status != http.StatusOK:
		return false, fmt.Errorf("status %s instead of a document", text.StatusLine(status))
	}
	contentType, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	if strings.EqualFold(strings.TrimSpace(contentType), "text/html") {
		return false, errors.New("a text/html page instead of a document")
	}
	return true, nil
}

// unpack decodes the Content-Encoding of a complete body.
func unpack(body []byte, header http.Header, limit int64) ([]byte, error) {
	switch encoding := strings.ToLower(strings.TrimSpace(header.Get("Content-Encoding"))); encoding {
	case "", "identity":
		return body, nil
	case "gzip", "x-gzip":
		unzipped, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, fmt.Errorf("decompressing: %w", err)
		}
		body, err = buffer.ReadLimited(unzipped, limit)
		if errors.Is(err, buffer.ErrTooLarge) {
			err = tooLarge(limit)
		}
		if err != nil {
			return nil, fmt.Errorf("decompressing: %w", err)
		}
		return body, nil
	default:
		return nil, fmt.Errorf("the body has the content encoding %q, which the request did not accept; serve the document without compression, or with gzip", encoding)
	}
}

// answered creates the snapshot for a fresh response.
func answered(data []byte, header http.Header, location string, previous *Snapshot) (*Snapshot, bool, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, false, errors.New("an empty body instead of a document")
	}
	snapshot := &Snapshot{
		Data:     data,
		Location: location,
		hash:     sha256.Sum256(data),
		validators: validators{
			etag:         header.Get("Etag"),
			lastModified: header.Get("Last-Modified"),
		},
	}
	changed := !snapshot.sameContent(previous)
	if !changed {
		snapshot.Data = nil
	}
	return snapshot, changed, nil
}
