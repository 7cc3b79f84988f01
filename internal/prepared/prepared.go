package prepared

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
)

// Response is a response that was encoded in advance, with its entity tag.
type Response struct {
	Content   []byte
	MediaType string
	Tag       string
}

func New(content []byte, mediaType string) Response {
	sum := sha256.Sum256(content)
	return Response{Content: content, MediaType: mediaType, Tag: `"` + hex.EncodeToString(sum[:16]) + `"`}
}

func (p *Response) Serve(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Etag", p.Tag)
	header.Set("Cache-Control", "no-cache") // it may be kept, and is asked for again
	if MatchesTag(r.Header["If-None-Match"], p.Tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", p.MediaType)
	header.Set("Content-Length", strconv.Itoa(len(p.Content)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(p.Content) // the client may be gone
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
