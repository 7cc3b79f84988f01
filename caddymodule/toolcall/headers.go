package toolcall

import (
	"net/http"
	"strings"

	"github.com/fairwayhq/fairway/internal/headerkind"
)

// copyHeaders copies headers of the client's request to the inner request. Copied headers take
// precedence over arguments. Headers of the client's message, its body, its connection and the
// tool protocol are not copied. Values are cloned, because handlers may change theirs in place.
//
// asOperator says that the gateway adds its own credentials to the call. Headers that name a
// user are not copied then, because the API would trust them as the operator's.
func copyHeaders(to, from http.Header, asOperator bool) {
	connectionOptions := headerkind.ConnectionOptions(from)
	isCopied := func(name string) bool {
		return headerkind.Forwarded(name, connectionOptions) && (!asOperator || !headerkind.NamesUser(name))
	}
	count := 1 // Accept-Encoding
	for name, values := range from {
		if isCopied(name) {
			count += len(values)
		}
	}
	backing := make([]string, 0, count)
	arguments := to["Cookie"]
	for name, values := range from {
		if !isCopied(name) {
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

// joinCookies appends the cookies from arguments to the caller's cookies. Cookies that the
// caller has sent take precedence.
func joinCookies(callerCookies, arguments []string) string {
	joined := strings.Join(callerCookies, "; ")
	has := func(name string) bool {
		for cookie := range strings.SplitSeq(joined, ";") {
			if existing, _, _ := strings.Cut(strings.TrimSpace(cookie), "="); existing == name {
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
