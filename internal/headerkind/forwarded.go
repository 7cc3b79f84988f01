package headerkind

import (
	"net/http"
	"slices"
	"strings"
)

// ConnectionOptions returns the additional hop-by-hop headers that the Connection header
// lists (RFC 9110, section 7.6.1). Usually there are none and the result is nil.
func ConnectionOptions(header http.Header) (names []string) {
	for _, value := range header["Connection"] {
		for option := range strings.SplitSeq(value, ",") {
			option = http.CanonicalHeaderKey(strings.TrimSpace(option))
			if option != "" && option != "Keep-Alive" && option != "Close" {
				names = append(names, option)
			}
		}
	}
	return names
}

// Forwarded reports whether a header of the client's request is copied to the inner
// request of a tool call. The name must be in canonical form.
func Forwarded(name string, connection []string) bool {
	if slices.Contains(connection, name) {
		return false
	}
	if name == "" || name[0] == ':' {
		return false
	}
	name = Canonical(name)
	switch name {
	case "Alt-Svc", "Connection", "Http2-Settings", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade": // describe the connection
		return false
	case "Dnt", "Expect", "Host", "Last-Event-Id", "Origin", "Range", "Referer", "Upgrade-Insecure-Requests": // describe the client's message
		return false
	}
	if Of(name) != Ordinary {
		return false // would make some servers run another operation than the one that was checked
	}
	switch name[0] {
	case 'A':
		return !strings.HasPrefix(name, "Accept")
	case 'C':
		return !strings.HasPrefix(name, "Content-")
	case 'I':
		return !strings.HasPrefix(name, "If-")
	case 'M':
		return !strings.HasPrefix(name, "Mcp-")
	case 'S':
		return !strings.HasPrefix(name, "Sec-")
	}
	return true
}
