package oauth

import (
	"net/http"
	"strings"
)

// MaxToken limits the length of a token, in bytes.
const MaxToken = 8 << 10

// Bearer returns the access token in a request's header. It returns "" if there is none (RFC
// 6750, section 2.1). Credentials of other schemes are ignored. An error is an *Error with
// InvalidRequest.
func Bearer(header http.Header) (string, error) {
	values := header["Authorization"]
	token, found := "", false
	for _, value := range values {
		scheme, rest, _ := strings.Cut(strings.TrimSpace(value), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			continue
		}
		token, found = strings.TrimLeft(rest, " "), true
	}
	switch {
	case !found:
		return "", nil
	case len(values) > 1:
		return "", invalidRequest("the request has several Authorization headers; send one")
	case token == "":
		return "", invalidRequest("the Authorization header has no token after Bearer")
	case !IsToken68(token):
		return "", invalidRequest("the token in the Authorization header has characters that are not allowed in a token")
	}
	return token, nil
}

// IsToken68 reports whether text has the form that RFC 6750, section 2.1, requires: letters,
// digits and some marks, then any number of equals signs.
func IsToken68(text string) bool {
	text = strings.TrimRight(text, "=")
	for i := range len(text) {
		c := text[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '-', c == '.', c == '_', c == '~', c == '+', c == '/':
		default:
			return false
		}
	}
	return text != ""
}
