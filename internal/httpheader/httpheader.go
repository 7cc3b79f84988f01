// Package httpheader decides about header fields of HTTP messages by their names and values: which make servers see
// another method, path or protocol than the request itself has, which may accompany credentials of the gateway, which
// are forwarded, and whether a media type is JSON, text or binary.
//
// Whatever the gateway reads, sends or records is JSON, text or binary by the rules of this package, so that
// all protocols treat a response alike.
package httpheader

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Kind is the part of a request that a header overrides.
type Kind uint8

// The kinds of headers.
const (
	Ordinary Kind = iota

	// The only purpose of MethodOverride and PathOverride headers is to make a server
	// run another request than the one that was sent. Proxies do not add them by default.
	MethodOverride
	PathOverride

	// ProtocolSwitch headers request another protocol on the same connection.
	ProtocolSwitch

	// ForwardedTarget headers are added by proxies to report the method or the path
	// that they received. Some servers route by them.
	ForwardedTarget
)

// KindOf returns the kind of a header. It compares names in the form of Canonical.
func KindOf(name string) Kind {
	// Most names begin with another letter, and this function runs for each header of each request.
	if name == "" || strings.IndexByte("xuhspm", name[0]|0x20) < 0 {
		return Ordinary
	}
	return ofCanonical(Canonical(name))
}

// ofCanonical is KindOf for a name in the form of Canonical.
func ofCanonical(name string) Kind {
	switch name {
	case "X-Http-Method", "X-Http-Method-Override", "X-Method-Override", "X-Override-Method", "Method-Override", "Http-Method-Override":
		return MethodOverride
	case "X-Original-Url", "X-Rewrite-Url", "X-Rewrite-Uri", "X-Rewrite-Path", "X-Override-Url", "X-Override-Uri", "X-Override-Path",
		"X-Http-Path-Override", "X-Path-Override", "X-Url-Override", "X-Uri-Override",
		"X-Script-Name", "Script-Name", "Path-Info":
		return PathOverride
	case "Upgrade", "Http2-Settings":
		return ProtocolSwitch
	case "X-Forwarded-Uri", "X-Forwarded-Url", "X-Forwarded-Path", "X-Forwarded-Method",
		"X-Original-Uri", "X-Original-Path", "X-Original-Method", "X-Envoy-Original-Path", "X-Envoy-Original-Method":
		return ForwardedTarget
	}
	return Ordinary
}

// Canonical returns the name of a header in canonical form, with "-" in place of all
// characters that are neither letters nor digits. Servers that pass headers on as
// variables, such as CGI, do not distinguish these characters.
func Canonical(name string) string {
	for i := range len(name) {
		if isSeparator(rune(name[i])) {
			name = strings.Map(func(c rune) rune {
				if isSeparator(c) {
					return '-'
				}
				return c
			}, name)
			break
		}
	}
	return http.CanonicalHeaderKey(name)
}

// isSeparator reports whether servers may treat a character as "-".
func isSeparator(c rune) bool {
	return c != '-' && (c < '0' || '9' < c && c < 'A' || 'Z' < c && c < 'a' || 'z' < c)
}

// safe are the headers that a caller may send beside credentials of the gateway, in canonical form: they describe
// the message, its trace and the caller's device, and no API takes them for a user, a credential, a method or a
// path. Prefixes such as Accept- are too wide: Accept-Profile chooses a schema of the database in PostgREST. An
// Idempotency-Key is not safe, because two callers with the same credentials could get each other's responses.
var safe = map[string]bool{
	"Accept": true, "Accept-Charset": true, "Accept-Encoding": true, "Accept-Language": true,
	"Content-Disposition": true, "Content-Encoding": true, "Content-Language": true, "Content-Length": true, "Content-Type": true,
	"If-Match": true, "If-Modified-Since": true, "If-None-Match": true, "If-Range": true, "If-Unmodified-Since": true,
	"Cache-Control": true, "Pragma": true, "Priority": true, "Range": true, "Last-Event-Id": true, "User-Agent": true,
	"Origin":      true, // lets the API refuse requests of foreign pages
	"Traceparent": true, "Tracestate": true, "Baggage": true, "X-Request-Id": true, "X-Correlation-Id": true,
	// reverse_proxy replaces these, unless the client is a trusted proxy.
	"X-Forwarded-For": true, "X-Forwarded-Host": true, "X-Forwarded-Proto": true,
	// Ocp-User is not safe: it is the user on whose behalf an agent claims to act.
	"Ocp-Context-Id": true, "Ocp-Agent-Type": true, "Ocp-Current-Goal": true, "Ocp-Session": true, "Ocp-Workspace": true, "Ocp-Version": true,
}

// MayAccompany reports whether a header of a caller may be sent beside credentials that are not the caller's. Others
// may name a user or carry a credential, which the API would trust as the gateway's. The name must be in canonical
// form. Further are the canonical names of headers that the operator forwards.
func MayAccompany(name string, further []string) bool {
	return safe[name] || slices.Contains(further, name)
}

// CheckForwarded returns an error if an operator cannot forward a header.
func CheckForwarded(name string) error {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return fmt.Errorf("%q is not a valid header name", name)
	case KindOf(name) != Ordinary:
		return fmt.Errorf("%s is never forwarded: a server could run another operation than the one that was checked", name)
	case strings.HasPrefix(http.CanonicalHeaderKey(name), "Mcp-"), slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)):
		return fmt.Errorf("%s is never forwarded: it describes the client's own message or connection, and each tool call has its own; remove it", name)
	}
	return nil
}

// ownHeaders are those of each message and each connection.
var ownHeaders = []string{
	"Accept", "Accept-Charset", "Accept-Encoding", "Alt-Svc", "Connection", "Content-Digest", "Content-Disposition", "Content-Encoding", "Content-Length",
	"Content-Location", "Content-Md5", "Content-Range", "Content-Type", "Expect", "Host", "If-Range", "Keep-Alive", "Last-Event-Id",
	"Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Range", "Te", "Trailer", "Transfer-Encoding",
}

// HostName returns the name in a Host header in lower case, without the port: nodes of a site may listen on
// different ports.
func HostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(host)
}

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

// identityWords are in the names of headers by which handlers and gateways tell an API who calls and for whom.
var identityWords = []string{
	"user", "email", "group", "role", "auth", "identity", "principal", "claim", "consumer", "subject", "account", "tenant", "org", "customer",
	"project", "workspace", "jwt", "token", "secret", "key", "cert", "-dn", "session", "sudo", "impersonate", "behalf", "run-as", "act-as", "remote-", "scope",
}

// Identifies reports whether a header may say who calls, or for whom. Idempotency-Key and User-Agent do not.
func Identifies(name string) bool {
	name = strings.ToLower(Canonical(name))
	if name == "user-agent" || name == "idempotency-key" {
		return false
	}
	return slices.ContainsFunc(identityWords, func(word string) bool { return strings.Contains(name, word) })
}

// Forwarded reports whether a header of the client's request is copied to the inner
// request of a tool call. The name must be in canonical form. Listed are the canonical names of headers that the operator
// forwards, which CheckForwarded accepts.
func Forwarded(name string, connection []string, listed ...string) bool {
	if slices.Contains(connection, name) {
		return false
	}
	if slices.Contains(listed, name) {
		return true
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
	if ofCanonical(name) != Ordinary {
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

// MediaType returns the media type of a Content-Type in lower case, without its parameters. IsJSON and IsText take it.
func MediaType(contentType string) string {
	if semicolon := strings.IndexByte(contentType, ';'); semicolon >= 0 {
		contentType = contentType[:semicolon]
	}
	return strings.ToLower(strings.TrimSpace(contentType))
}

// IsJSON reports whether content of the media type is a single JSON value. Streams of JSON values
// are text.
func IsJSON(mediaType string) bool {
	return strings.HasSuffix(mediaType, "/json") || strings.HasSuffix(mediaType, "+json")
}

// IsText reports whether content of the media type is text other than JSON. This includes SVG.
func IsText(mediaType string) bool {
	if strings.HasPrefix(mediaType, "text/") {
		return mediaType != "text/json"
	}
	if strings.HasSuffix(mediaType, "+xml") || strings.HasSuffix(mediaType, "+yaml") {
		return true
	}
	subtype, ok := strings.CutPrefix(mediaType, "application/")
	if !ok {
		return false
	}
	switch subtype {
	case "xml", "yaml", "x-yaml", "toml", "javascript", "x-javascript", "graphql", "sql", "jwt",
		"sparql-query", "sparql-update", "x-www-form-urlencoded", "x-ndjson", "ndjson", "jsonl",
		"json-seq", "problem":
		return true
	}
	return false
}

// IsMediaType reports whether a media type is valid in an Accept header.
func IsMediaType(m string) bool {
	return strings.Count(m, "/") == 1 && !strings.ContainsFunc(m, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\\"[]?={}`, r)
	})
}

// Accept returns an Accept header for the declared media types: JSON types first, then the other declared types, then
// any type with a lower quality. If there is no declared type, JSON comes first.
func Accept(mediaTypes []string) string {
	ordered := slices.Clone(mediaTypes)
	slices.SortStableFunc(ordered, func(a, b string) int { return Preference(a) - Preference(b) })
	if len(ordered) == 0 {
		return "application/json, */*;q=0.8"
	}
	if !slices.Contains(ordered, "*/*") {
		ordered = append(ordered, "*/*;q=0.8")
	}
	return strings.Join(ordered, ", ")
}

// Preference orders the media types of a response. JSON has the lowest number and comes first.
func Preference(contentType string) int {
	switch m := MediaType(contentType); {
	case m == "application/json":
		return 0
	case IsJSON(m) || m == "*/*" || m == "application/*":
		return 1
	case m == "application/x-www-form-urlencoded":
		return 2
	case m == "multipart/form-data":
		return 3
	case strings.HasPrefix(m, "text/"):
		return 4
	}
	return 5
}

// MaxAge returns how long a response may be kept by its Cache-Control (RFC 9111, section 5.2.2), and whether the
// header says so.
func MaxAge(header http.Header) (age time.Duration, known bool) {
	for _, line := range header["Cache-Control"] {
		for directive := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
			switch strings.ToLower(name) {
			case "no-store", "no-cache":
				return 0, true
			case "max-age":
				if seconds, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 32); err == nil {
					age, known = time.Duration(seconds)*time.Second, true
				}
			}
		}
	}
	return age, known
}
