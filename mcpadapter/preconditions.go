package mcpadapter

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/mediatype"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
)

// admitPage checks the Host and Origin headers of requests that web pages make. Requests without an
// Origin header always pass (MCP, Streamable HTTP, Security Warning).
func (s *Server) admitPage(r *http.Request) *jsonrpc.Fault {
	if f := s.checkHost(r); f != nil {
		return f
	}
	return s.checkOrigin(r)
}

// admit checks the method and the headers of a request before its body is read.
func (s *Server) admit(r *http.Request) *jsonrpc.Fault {
	switch r.Method {
	case http.MethodPost:
	case http.MethodGet:
		return admitStream(r)
	case http.MethodDelete:
		return nil
	case http.MethodOptions:
		return &jsonrpc.Fault{Status: http.StatusNoContent, Allow: true}
	default:
		f := jsonrpc.Faultf(http.StatusMethodNotAllowed, jsonrpc.InvalidRequest,
			"this endpoint answers POST, a stream on GET and the end of a session on DELETE, not %s", text.Cut(r.Method, text.MaxQuoted))
		f.Anonymous, f.Allow = true, true
		return f
	}
	if mediatype.Base(r.Header.Get("Content-Type")) != "application/json" {
		return jsonrpc.Faultf(http.StatusUnsupportedMediaType, jsonrpc.InvalidRequest,
			"the Content-Type must be application/json, not %q", text.Cut(r.Header.Get("Content-Type"), text.MaxQuoted))
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return jsonrpc.Faultf(http.StatusUnsupportedMediaType, jsonrpc.InvalidRequest,
			"Content-Encoding %q is not supported: send the body as it is", text.Cut(coding, text.MaxQuoted))
	}
	if !acceptsJSON(r.Header["Accept"]) {
		return jsonrpc.Faultf(http.StatusNotAcceptable, jsonrpc.InvalidRequest,
			"answers are application/json, which the Accept header excludes: send \"application/json, text/event-stream\"")
	}
	return nil
}

// admitStream checks a GET request. A GET can only open an event stream, so the Accept header must
// list text/event-stream.
func admitStream(r *http.Request) *jsonrpc.Fault {
	if acceptsStream(r.Header["Accept"]) {
		return nil
	}
	f := jsonrpc.Faultf(http.StatusNotAcceptable, jsonrpc.InvalidRequest,
		"GET opens a stream of events for MCP clients: let the Accept header list text/event-stream, or POST a request")
	f.Anonymous = true
	return f
}

// acceptsStream reports whether an Accept header lists text/event-stream.
func acceptsStream(accept []string) bool {
	for _, line := range accept {
		if line == "application/json, text/event-stream" { // the spelling that most clients use
			return true
		}
		for part := range strings.SplitSeq(line, ",") {
			if mediatype.Base(part) == "text/event-stream" && !refusedByWeight(part) {
				return true
			}
		}
	}
	return false
}

// checkHost protects servers on loopback addresses against DNS rebinding: an attacker's page
// resolves its own host name to 127.0.0.1 and calls a server on the user's machine. Origin and Host
// then agree, so only the host name itself reveals the attack. The check applies to requests with an
// Origin header, which browsers send with every POST. A request without it does not come from a
// page; it may come from a reverse proxy on this machine that forwards the public host name.
func (s *Server) checkHost(r *http.Request) *jsonrpc.Fault {
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
	f := jsonrpc.Faultf(http.StatusForbidden, jsonrpc.InvalidRequest,
		"pages of host %q are not served on a loopback address: use localhost, or name this host in the option hosts of the server's configuration",
		text.Cut(r.Host, text.MaxQuoted))
	f.Anonymous = true
	return f
}

// checkOrigin rejects requests from pages of other sites. A request without an Origin header does
// not come from a page.
func (s *Server) checkOrigin(r *http.Request) *jsonrpc.Fault {
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
	f := jsonrpc.Faultf(http.StatusForbidden, jsonrpc.InvalidRequest,
		"origin %q may not call this server: name it in the option origins of the server's configuration", text.Cut(origins[0], text.MaxQuoted))
	f.Anonymous = true
	return f
}

// sameHost reports whether an origin has the host that the request names. It ignores the scheme,
// because a proxy may terminate TLS in front of this server, and it treats the default ports 80 and
// 443 as no port.
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

// normalOrigin returns an origin in lower case, without a trailing slash.
func normalOrigin(origin string) string {
	return strings.ToLower(strings.TrimSuffix(strings.TrimSpace(origin), "/"))
}

// hostname returns the name in a Host header in lower case, without the port.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// loopback reports whether an address or a Host header refers to this machine.
func loopback(host string) bool {
	name := hostname(host)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	address, err := netip.ParseAddr(name)
	return err == nil && address.Unmap().IsLoopback()
}

// acceptsJSON reports whether an Accept header allows application/json. MCP requires clients to list
// it beside text/event-stream; a client that sends no Accept header is served too.
func acceptsJSON(accept []string) bool {
	asked := false
	for _, line := range accept {
		for part := range strings.SplitSeq(line, ",") {
			asked = asked || strings.TrimSpace(part) != ""
			switch mediatype.Base(part) {
			case "application/json", "application/*", "*/*":
				if !refusedByWeight(part) {
					return true
				}
			}
		}
	}
	return !asked
}

// refusedByWeight reports whether an element of an Accept header has the weight 0 (q=0).
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

// firstRead is the largest buffer, in bytes, that is allocated for a body before any of it arrives.
// A large Content-Length alone must not reserve memory.
const firstRead = 64 << 10

// readBody reads the whole body into b, up to Options.MaxBody bytes.
func (s *Server) readBody(b *buffer.Buffer, r *http.Request) *jsonrpc.Fault {
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
		return incompleteBody(err, len(b.B))
	}
}

// incompleteBody returns the fault for a body that ended early: either a handler in front of this server
// limits bodies, or the client stopped sending.
func incompleteBody(err error, read int) *jsonrpc.Fault {
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		return tooLarge(tooLong.Limit)
	}
	return jsonrpc.Faultf(http.StatusBadRequest, jsonrpc.ParseError, "the body broke off after %d bytes: send it again", read)
}

func tooLarge(limit int64) *jsonrpc.Fault {
	return jsonrpc.Faultf(http.StatusRequestEntityTooLarge, jsonrpc.InvalidRequest,
		"the body is larger than the limit of %d bytes: send less at once", limit)
}
