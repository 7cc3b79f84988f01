package toolcall

import (
	"net/http"
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
	named := headerkind.ConnectionOptions(from)
	carried := func(name string) bool {
		return headerkind.Forwarded(name, named) && (!asOperator || !headerkind.NamesUser(name))
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
