package text

import (
	"net/url"
	"strings"
)

// RedactURL returns an address without user, password, query and fragment.
func RedactURL(address string) string {
	if !strings.Contains(address, "://") {
		return address
	}
	u, err := url.Parse(address)
	if err != nil {
		return "(a URL that cannot be parsed)"
	}
	u.User, u.RawQuery, u.Fragment, u.RawFragment = nil, "", "", ""
	return u.String()
}
