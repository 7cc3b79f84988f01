package respond

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Prepared is a response that was encoded in advance, with its entity tag.
type Prepared struct {
	Content   []byte
	MediaType string
	Tag       string
}

// Prepare returns a response with the tag of its content.
func Prepare(content []byte, mediaType string) Prepared {
	sum := sha256.Sum256(content)
	return Prepared{Content: content, MediaType: mediaType, Tag: `"` + hex.EncodeToString(sum[:16]) + `"`}
}

// Serve responds to a GET or HEAD request. Clients may keep the response and must ask again.
func (p *Prepared) Serve(w http.ResponseWriter, r *http.Request) { p.serve(w, r, "no-cache") }

// ServePublic is Serve for a response that anyone may cache for a while.
func (p *Prepared) ServePublic(w http.ResponseWriter, r *http.Request, maxAge time.Duration) {
	p.serve(w, r, "public, max-age="+strconv.Itoa(int(maxAge.Seconds())))
}

func (p *Prepared) serve(w http.ResponseWriter, r *http.Request, cacheControl string) {
	header := w.Header()
	header.Set("Etag", p.Tag)
	header.Set("Cache-Control", cacheControl)
	if MatchesTag(r.Header["If-None-Match"], p.Tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", p.MediaType)
	header.Set("Content-Length", strconv.Itoa(len(p.Content)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(p.Content) // the client may have disconnected
	}
}

// MatchesTag compares weakly (RFC 9110, section 13.1.2): the tag with those of
// If-None-Match.
func MatchesTag(values []string, tag string) bool {
	tag = strings.TrimPrefix(tag, "W/")
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			item = strings.TrimSpace(item)
			if item == "*" || strings.TrimPrefix(item, "W/") == tag {
				return true
			}
		}
	}
	return false
}
