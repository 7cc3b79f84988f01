package oauth

import (
	"errors"
	"net"
	"net/url"
	"strings"
)

// CheckAddress returns an error if it is not safe to send credentials to the address. It must use TLS, or be on this
// machine.
func CheckAddress(address string) error {
	_, err := ParseAddress(address)
	return err
}

// ParseAddress parses an address. It returns an error if it is not safe to fetch documents from the address that
// access decisions depend on. It must use TLS, or be on this machine.
func ParseAddress(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Hostname() == "":
		return nil, errors.New("not an absolute URL such as https://auth.example.com")
	case u.User != nil || u.Fragment != "":
		return nil, errors.New("the URL must not have a user, a password or a fragment")
	case u.Scheme == "https", u.Scheme == "http" && IsLoopback(u.Hostname()):
		return u, nil
	case u.Scheme == "http":
		return nil, errors.New("the URL is plain http, which is only allowed for a loopback address; use https")
	}
	return nil, errors.New("the scheme must be https")
}

// IsLoopback reports whether the host is this machine.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}
