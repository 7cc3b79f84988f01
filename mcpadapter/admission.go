package mcpadapter

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/fairwayhq/fairway/internal/buffer"
)

// admitPage decides whether the page may call from which the request comes, if it
// comes from one.
func (s *Server) admitPage(r *http.Request) *fault {
	if f := s.checkHost(r); f != nil {
		return f
	}
	return s.checkOrigin(r)
}

// admit decides from the head of the request whether its body is worth reading.
func (s *Server) admit(r *http.Request) *fault {
	switch r.Method {
	case http.MethodPost:
	case http.MethodGet:
		return admitStream(r)
	case http.MethodDelete:
		return nil
	case http.MethodOptions:
		return &fault{status: http.StatusNoContent, allow: true}
	default:
		f := faultf(http.StatusMethodNotAllowed, invalidRequest,
			"this endpoint answers POST, a stream on GET and the end of a session on DELETE, not %s", clip(r.Method, maxQuoted))
		f.anonymous, f.allow = true, true
		return f
	}
	if mediaType(r.Header.Get("Content-Type")) != "application/json" {
		return faultf(http.StatusUnsupportedMediaType, invalidRequest,
			"the Content-Type must be application/json, not %q", clip(r.Header.Get("Content-Type"), maxQuoted))
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return faultf(http.StatusUnsupportedMediaType, invalidRequest,
			"Content-Encoding %q is not supported: send the body as it is", clip(coding, maxQuoted))
	}
	if !acceptsJSON(r.Header["Accept"]) {
		return faultf(http.StatusNotAcceptable, invalidRequest,
			"answers are application/json, which the Accept header excludes: send \"application/json, text/event-stream\"")
	}
	return nil
}

// admitStream looks at a GET: all that there is to get is a stream.
func admitStream(r *http.Request) *fault {
	if acceptsStream(r.Header["Accept"]) {
		return nil
	}
	f := faultf(http.StatusNotAcceptable, invalidRequest,
		"GET opens a stream of events for MCP clients: let the Accept header list text/event-stream, or POST a request")
	f.anonymous = true
	return f
}

// acceptsStream reports whether an Accept header asks for text/event-stream.
func acceptsStream(accept []string) bool {
	for _, line := range accept {
		if line == "application/json, text/event-stream" { // as most clients write it
			return true
		}
		for part := range strings.SplitSeq(line, ",") {
			if mediaType(part) == "text/event-stream" && !refusedByWeight(part) {
				return true
			}
		}
	}
	return false
}

// checkHost refuses names that point a browser on this machine at a loopback
// address (DNS rebinding): with the name under an attacker's control, Origin and
// Host agree, and only the name itself gives it away. Browsers send an Origin
// with every POST; whatever sends none is no page, and may well be a proxy on
// this machine that passes the public name on.
func (s *Server) checkHost(r *http.Request) *fault {
	if len(r.Header["Origin"]) == 0 {
		return nil
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !loopback(local.String()) || loopback(r.Host) {
		return nil
	}
	if s.hosts["*"] || s.hosts[hostname(r.Host)] {
		return nil
	}
	f := faultf(http.StatusForbidden, invalidRequest,
		"pages of host %q are not served on a loopback address: use localhost, or name this host in the option hosts of the server's configuration",
		clip(r.Host, maxQuoted))
	f.anonymous = true
	return f
}

// checkOrigin refuses pages of other sites. A request without Origin comes from
// no page.
func (s *Server) checkOrigin(r *http.Request) *fault {
	origins := r.Header["Origin"]
	if len(origins) == 0 || s.origins["*"] {
		return nil
	}
	if len(origins) == 1 {
		origin := normalOrigin(origins[0])
		if s.origins[origin] || sameHost(origin, r.Host) {
			return nil
		}
	}
	f := faultf(http.StatusForbidden, invalidRequest,
		"origin %q may not call this server: name it in the option origins of the server's configuration", clip(origins[0], maxQuoted))
	f.anonymous = true
	return f
}

// sameHost reports whether an origin is of the host that the request names.
// Whether TLS ends here or before is not known, so the schemes do not count, and
// a default port of either is no difference.
func sameHost(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	return withoutDefaultPort(u.Host) == withoutDefaultPort(strings.ToLower(host))
}

func withoutDefaultPort(host string) string {
	if h, port, err := net.SplitHostPort(host); err == nil && (port == "80" || port == "443") {
		host = h
	}
	return strings.Trim(host, "[]")
}

func normalOrigin(origin string) string {
	return strings.ToLower(strings.TrimSuffix(strings.TrimSpace(origin), "/"))
}

// hostname returns the lower-case name in a Host header, without port.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// loopback reports whether an address or a Host header means this machine.
func loopback(host string) bool {
	name := hostname(host)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	address, err := netip.ParseAddr(name)
	return err == nil && address.Unmap().IsLoopback()
}

func mediaType(contentType string) string {
	if contentType == "application/json" {
		return contentType
	}
	contentType, _, _ = strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(contentType))
}

// acceptsJSON reports whether an Accept header leaves application/json possible.
// Clients must list it beside text/event-stream; one that lists nothing is
// served all the same.
func acceptsJSON(accept []string) bool {
	asked := false
	for _, line := range accept {
		for part := range strings.SplitSeq(line, ",") {
			asked = asked || strings.TrimSpace(part) != ""
			switch mediaType(part) {
			case "application/json", "application/*", "*/*":
				if !refusedByWeight(part) {
					return true
				}
			}
		}
	}
	return !asked
}

// refusedByWeight reports whether one element of Accept has the weight 0.
func refusedByWeight(part string) bool {
	_, parameters, _ := strings.Cut(part, ";")
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, weight, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		if strings.EqualFold(name, "q") {
			return strings.Trim(weight, "0.") == "" && weight != ""
		}
	}
	return false
}

// firstRead is how many bytes are set aside for a body before any arrived,
// whatever Content-Length promises.
const firstRead = 64 << 10

// readBody reads the whole body into b, up to the limit.
func (s *Server) readBody(b *buffer.Buffer, r *http.Request) *fault {
	limit := s.options.MaxBody
	if r.ContentLength > limit {
		return tooLarge(limit)
	}
	if r.Body == nil {
		return nil
	}
	if want := int(min(max(r.ContentLength+1, 512), firstRead)); cap(b.B) < want {
		b.B = make([]byte, 0, want)
	}
	switch err := b.ReadAll(r.Body, limit); {
	case err == nil:
		return nil
	case errors.Is(err, buffer.ErrTooLarge):
		return tooLarge(limit)
	default:
		return brokenOff(err, len(b.B))
	}
}

// brokenOff tells why a body ended early: a limit in front of this server, or a
// client that stopped sending.
func brokenOff(err error, read int) *fault {
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		return tooLarge(tooLong.Limit)
	}
	return faultf(http.StatusBadRequest, parseError, "the body broke off after %d bytes: send it again", read)
}

func tooLarge(limit int64) *fault {
	return faultf(http.StatusRequestEntityTooLarge, invalidRequest,
		"the body is larger than the limit of %d bytes: send less at once", limit)
}
