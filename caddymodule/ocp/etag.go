package ocp

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
)

// The entity tag of an enhanced answer is the upstream's with tagMark and a hash
// of the body behind it: "v1" becomes "v1-ocp.0123456789abcdef". So caches tell
// the two apart, and an If-Match can be put back into the upstream's words.
const (
	tagMark = "-ocp."
	tagHash = 8 // bytes
)

// retag gives the header the entity tag of the enhanced body and returns it; "" if
// the upstream's answer has none.
func retag(header http.Header, body []byte) string {
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

// restoreTags takes the marks off the tags of If-Match, by which a client makes a
// change depend on the resource being the one it has seen: the upstream knows its
// own tags only. If-None-Match and If-Range stay as they are, since what the
// upstream has not changed may be enhanced in another way by now, and its ranges
// are not those of an enhanced answer.
func restoreTags(header http.Header) {
	const key = "If-Match"
	for i, value := range header[key] {
		if strings.Contains(value, tagMark) {
			restored := slices.Clone(header[key])
			restored[i] = withoutMarks(value)
			header[key] = restored
		}
	}
}

// withoutMarks takes the mark off each tag of a list.
func withoutMarks(tags string) string {
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

func isHex(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
