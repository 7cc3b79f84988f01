package caddymodule

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
)

// representation is a response that was encoded in advance, with its entity tag.
type representation struct {
	content   []byte
	mediaType string
	tag       string
}

func newRepresentation(content []byte, mediaType string) representation {
	sum := sha256.Sum256(content)
	return representation{content: content, mediaType: mediaType, tag: `"` + hex.EncodeToString(sum[:16]) + `"`}
}

func (p *representation) serve(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Etag", p.tag)
	header.Set("Cache-Control", "no-cache") // it may be kept, and is asked for again
	if matchesTag(r.Header["If-None-Match"], p.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", p.mediaType)
	header.Set("Content-Length", strconv.Itoa(len(p.content)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(p.content) // the client may be gone
	}
}

// matchesTag compares weakly (RFC 9110, section 13.1.2): the tag with those of
// If-None-Match.
func matchesTag(values []string, tag string) bool {
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
