package ocp

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
)

// The entity tag of an enhanced response is the upstream's tag followed by tagMark and a hash
// of the body: "v1" becomes "v1-ocp.0123456789abcdef". Caches can therefore distinguish both
// responses, and an If-Match can be converted back to the upstream's tag.
const (
	tagMark = "-ocp."
	tagHash = 8 // bytes
)

// setEnhancedTag sets the entity tag of the enhanced body and returns it. It returns "" if the
// upstream's response has none.
func setEnhancedTag(header http.Header, body []byte) string {
	tags := header["Etag"]
	if len(tags) != 1 || !strings.HasSuffix(tags[0], `"`) || len(tags[0]) < 2 {
		delete(header, "Etag")
		return ""
	}
	sum := sha256.Sum256(body)
	tag := tags[0][:len(tags[0])-1] + tagMark + hex.EncodeToString(sum[:tagHash]) + `"`
	header["Etag"] = []string{tag}
	return tag
}

// restoreUpstreamTags converts the tags of If-Match back to the upstream's own tags, because the
// upstream does not know those of enhanced responses. If-None-Match and If-Range stay
// unchanged: even if the upstream's resource has not changed, the enhanced response may have,
// and the upstream's ranges do not apply to it.
func restoreUpstreamTags(header http.Header) {
	const key = "If-Match"
	for i, value := range header[key] {
		if strings.Contains(value, tagMark) {
			restored := slices.Clone(header[key])
			restored[i] = stripMarks(value)
			header[key] = restored
		}
	}
}

// stripMarks removes the mark from each tag of a list.
func stripMarks(tags string) string {
	const length = len(tagMark) + 2*tagHash
	var plain strings.Builder
	for {
		at := strings.Index(tags, tagMark)
		if at < 0 {
			plain.WriteString(tags)
			return plain.String()
		}
		if rest := tags[at:]; len(rest) > length && rest[length] == '"' && isHex(rest[len(tagMark):length]) {
			plain.WriteString(tags[:at])
			tags = rest[length:]
			continue
		}
		plain.WriteString(tags[:at+len(tagMark)])
		tags = tags[at+len(tagMark):]
	}
}

// isHex reports whether the text consists of lower-case hexadecimal digits.
func isHex(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
