package caddymodule

import (
	"net/http"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/internal/headerkind"
)

// carryHeaders completes the header of a tool call: what the caller's own request
// says of the caller goes along and wins over arguments; what belongs to that
// message, its body, its connection or the tool protocol stays behind. Values
// are copied, as handlers may change theirs in place. A call asOperator is made with
// the gateway's credentials: headers that name a user stay behind, because the API
// would take them for the operator's word.
func carryHeaders(to, from http.Header, asOperator bool) {
	named := connectionOptions(from)
	carried := func(name string) bool {
		return carried(name, named) && !(asOperator && headerkind.NamesUser(name))
	}
	count := 1 // Accept-Encoding
	for name, values := range from {
		if carried(name) {
			count += len(values)
		}
	}
	backing := make([]string, 0, count)
	arguments := to["Cookie"]
	for name, values := range from {
		if !carried(name) {
			continue
		}
		start := len(backing)
		backing = append(backing, values...)
		to[name] = backing[start:len(backing):len(backing)]
	}
	start := len(backing)
	backing = append(backing, "identity")
	to["Accept-Encoding"] = backing[start:len(backing):len(backing)]
	if cookies := from["Cookie"]; len(arguments) > 0 && len(cookies) > 0 {
		to["Cookie"] = []string{joinCookies(cookies, arguments)}
	}
}

// joinCookies appends to the caller's cookies those arguments that have another
// name.
func joinCookies(carried, arguments []string) string {
	joined := strings.Join(carried, "; ")
	has := func(name string) bool {
		for cookie := range strings.SplitSeq(joined, ";") {
			if held, _, _ := strings.Cut(strings.TrimSpace(cookie), "="); held == name {
				return true
			}
		}
		return false
	}
	for cookie := range strings.SplitSeq(strings.Join(arguments, "; "), "; ") {
		if name, _, _ := strings.Cut(cookie, "="); !has(name) {
			joined += "; " + cookie
		}
	}
	return joined
}

// connectionOptions returns the further hop-by-hop headers that Connection
// names (RFC 9110, section 7.6.1), nil in the usual case.
func connectionOptions(header http.Header) (names []string) {
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

// carried reports whether a header of the caller's request, named in canonical
// form, goes along with the tool call.
func carried(name string, connection []string) bool {
	if slices.Contains(connection, name) {
		return false
	}
	if strings.IndexByte(name, '_') >= 0 {
		// CGI and its heirs read "_" as "-".
		name = http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
	}
	switch name {
	case "Alt-Svc", "Connection", "Http2-Settings", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade": // the connection's
		return false
	case "Dnt", "Expect", "Host", "Last-Event-Id", "Origin", "Range", "Referer", "Upgrade-Insecure-Requests": // the message's
		return false
	}
	if headerkind.Of(name) != headerkind.Ordinary {
		return false // it would make some servers run another operation than the one that was called and judged
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
	case ':':
		return false
	}
	return true
}
