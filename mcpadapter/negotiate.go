package mcpadapter

import (
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/headervalue"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
)

// Members of _meta that describe a request (MCP 2026-07-28, Overview, _meta).
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = elicit.MetaCapabilities
	metaLogLevel     = "io.modelcontextprotocol/logLevel"
)

// Header fields that repeat values of the body, in canonical form (MCP 2026-07-28, Streamable HTTP,
// Request Metadata).
const (
	methodHeader = "Mcp-Method"
	nameHeader   = "Mcp-Name"
)

// meta holds the members of _meta that decide how a request is served. A member is nil if it is
// absent.
type meta struct {
	version, capabilities, logLevel jsontext.Value
}

// agree determines the revision of a message and checks the headers and _meta against the rules of
// that revision:
//
//   - Up to 2025-11-25, initialize negotiates the revision, and later HTTP requests repeat it in the header MCP-Protocol-Version.
//   - From 2026-07-28 on, there is no initialize: each request names its revision both in the header and in _meta.
func (x *exchange) agree(method string) *jsonrpc.Fault {
	if x.batched && method == "initialize" {
		return jsonrpc.Malformed("initialize must not be part of a batch: send it by itself")
	}
	if x.connection != nil {
		return x.connection.agree(x, method)
	}
	header, sent := headerValue(x.header, versionHeader)
	described, f := x.readMeta()
	if f != nil {
		return f
	}
	if described.version == nil {
		return x.agreeByHeader(method, header, sent, described)
	}
	name := wire.Text(described.version)
	version := x.server.revisionOf(name)
	switch {
	case described.version.Kind() != '"':
		return jsonrpc.Faultf(http.StatusBadRequest, jsonrpc.InvalidParams,
			"_meta[%q] must be a string, not %s", metaVersion, wire.KindName(described.version.Kind()))
	case !sent && (version == revision.Unknown || version.Stateless()):
		return mismatched("the header MCP-Protocol-Version is missing: send it with the value %q, as in _meta", name)
	case sent && header != name:
		return mismatched("the header MCP-Protocol-Version is %q and _meta[%q] is %q: send the same value in both",
			header, metaVersion, name)
	case version == revision.Unknown:
		return x.server.unsupportedVersion(name)
	}
	x.version = version
	if !version.Stateless() {
		return nil
	}
	return x.checkDescribed(method, described)
}

// agreeByHeader is agree for a message without a revision in _meta.
func (x *exchange) agreeByHeader(method, header string, sent bool, described meta) *jsonrpc.Fault {
	spoken := x.server.supports(x.version)
	switch {
	case spoken && x.version.Stateless():
		return x.checkDescribed(method, described)
	case !spoken && method == "initialize":
		// initialize negotiates the revision in its parameters, so a header with an unknown revision
		// is ignored.
		x.version = revision.NewestStateful
	case !spoken && !sent:
		return x.server.missingVersion(x.version)
	case !spoken:
		return x.server.unsupportedVersion(header)
	case !sent && method == "initialize":
		x.version = revision.NewestStateful
	}
	return nil
}

// agreeWithoutBody checks the revision in the header of a GET or DELETE. Revisions without sessions
// allow neither method (MCP 2026-07-28, Streamable HTTP, Earlier Streamable HTTP Revisions).
func (h *httpExchange) agreeWithoutBody(method string) *jsonrpc.Fault {
	var f *jsonrpc.Fault
	header, sent := headerValue(h.header, versionHeader)
	switch {
	case sent && !h.server.supports(h.version):
		f = h.server.unsupportedVersion(header)
	case h.version.Stateless() || h.server.newestStateful() == revision.Unknown:
		f = jsonrpc.Faultf(http.StatusMethodNotAllowed, jsonrpc.InvalidRequest,
			"revision %v has neither sessions nor a stream on GET, so no %s: send subscriptions/listen with POST", revision.V20260728, method)
		f.Allow = true
	default:
		return nil
	}
	f.Anonymous = true
	return f
}

// readMeta reads the members of _meta. All are nil if the message has no _meta.
func (x *exchange) readMeta() (described meta, f *jsonrpc.Fault) {
	raw := x.params.meta
	switch raw.Kind() {
	case 0, 'n':
		return meta{}, nil
	case '{':
	default:
		return meta{}, jsonrpc.Faultf(http.StatusBadRequest, jsonrpc.InvalidParams, "_meta must be an object, not %s", wire.KindName(raw.Kind()))
	}
	for walk := wire.Into(raw); walk.Next(); {
		switch {
		case walk.Is(metaVersion):
			described.version = walk.Value
		case walk.Is(metaCapabilities):
			described.capabilities = walk.Value
		case walk.Is(metaLogLevel):
			described.logLevel = walk.Value
		}
	}
	return described, nil
}

// checkDescribed checks a request against the rules of 2026-07-28: the headers must repeat the body,
// and _meta must have the required members. Notifications are exempt.
func (x *exchange) checkDescribed(method string, described meta) *jsonrpc.Fault {
	if x.id == nil || method == "" {
		return nil
	}
	if f := x.checkRepeated(methodHeader, "method", method); f != nil {
		return f
	}
	if named, ok := methods[method]; ok && named.named != "" {
		if value := wire.MemberOf(x.params.raw, named.named); value.Kind() == '"' {
			if f := x.checkRepeated(nameHeader, "params."+named.named, wire.Text(value)); f != nil {
				return f
			}
		}
	}
	return x.checkMeta(described)
}

// checkMeta checks _meta of a request against the rules of 2026-07-28 and stores the client's
// capabilities.
func (x *exchange) checkMeta(described meta) *jsonrpc.Fault {
	if x.id == nil {
		return nil
	}
	if described.version == nil {
		return missingMeta(metaVersion, `the revision, "2026-07-28"`)
	}
	switch kind := described.capabilities.Kind(); kind {
	case '{':
	case 0:
		return missingMeta(metaCapabilities, "the client's capabilities, an object, {} if it has none")
	default:
		return badMeta(metaCapabilities, "an object, {} if the client has no capabilities, not "+wire.KindName(kind))
	}
	if f := checkLogLevel(described.logLevel); f != nil {
		return f
	}
	x.client = elicit.ReadCapabilities(described.capabilities)
	return nil
}

// checkRepeated checks that a header occurs once and equals the value in the body.
func (x *exchange) checkRepeated(header, member, want string) *jsonrpc.Fault {
	value, present := headerValue(x.header, header)
	if count := len(x.header[header]); count > 1 {
		return mismatched("the header %s is sent %d times: send it once, with the value of %s, %q", header, count, member, text.Cut(want, text.MaxQuoted))
	}
	if !present {
		return mismatched("the header %s is missing: send it with the value of %s, %q", header, member, text.Cut(want, text.MaxQuoted))
	}
	if header == nameHeader {
		plain, ok := headervalue.Decode(value)
		if !ok {
			return mismatched("the header %s is not valid Base64 between =?base64? and ?=", header)
		}
		value = plain
	}
	if value != want {
		return mismatched("the header %s is %q and %s is %q: send the same value in both",
			header, text.Cut(value, text.MaxQuoted), member, text.Cut(want, text.MaxQuoted))
	}
	return nil
}

// mismatched returns the fault for a header that contradicts the body (MCP 2026-07-28, error
// -32020). Proxies route by these headers, so a contradiction must not be ignored.
func mismatched(format string, args ...any) *jsonrpc.Fault {
	return jsonrpc.Faultf(http.StatusBadRequest, jsonrpc.HeaderMismatch, format, args...)
}

func missingMeta(key, what string) *jsonrpc.Fault {
	return jsonrpc.Faultf(http.StatusBadRequest, jsonrpc.InvalidParams, "params._meta[%q] is missing: it must be %s", key, what)
}

func badMeta(key, what string) *jsonrpc.Fault {
	return jsonrpc.Faultf(http.StatusBadRequest, jsonrpc.InvalidParams, "params._meta[%q] must be %s", key, what)
}

// missingVersion returns the fault for a request without the header MCP-Protocol-Version. Without
// it, MCP implies a revision that the operator has disabled.
func (s *Server) missingVersion(implied revision.Revision) *jsonrpc.Fault {
	f := jsonrpc.Malformed("the header MCP-Protocol-Version is missing, which means %v, and that is not supported: "+
		"send the header with a revision that this server speaks, %s", implied, s.enabledNames())
	f.Data = append(s.appendEnabled([]byte(`{"supported":`)), '}')
	return f
}

// unsupportedVersion returns the fault for an unknown revision. It lists the supported ones.
func (s *Server) unsupportedVersion(requested string) *jsonrpc.Fault {
	f := jsonrpc.Faultf(http.StatusBadRequest, jsonrpc.UnsupportedVersion,
		"protocol version %q is not supported: this server speaks %s", text.Cut(requested, text.MaxQuoted), s.enabledNames())
	f.Data = append(s.appendEnabled([]byte(`{"supported":`)), `,"requested":`...)
	f.Data = append(wire.AppendString(f.Data, requested), '}')
	return f
}

// supports reports whether the server's options enable the revision.
func (s *Server) supports(v revision.Revision) bool { return slices.Contains(s.enabled, v) }

// revisionOf returns the revision with that name if it is enabled, otherwise unknown.
func (s *Server) revisionOf(name string) revision.Revision {
	if v := revision.Of(name); s.supports(v) {
		return v
	}
	return revision.Unknown
}

// newestStateful returns the newest enabled revision with initialize, or unknown.
func (s *Server) newestStateful() revision.Revision {
	for _, v := range s.enabled {
		if !v.Stateless() {
			return v
		}
	}
	return revision.Unknown
}

// enabledNames lists the enabled revisions for messages.
func (s *Server) enabledNames() string {
	names := make([]string, len(s.enabled))
	for i, v := range s.enabled {
		names[i] = v.String()
	}
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return strings.Join(names, "")
}

// appendEnabled appends the enabled revisions as a JSON array.
func (s *Server) appendEnabled(dst []byte) []byte {
	dst = append(dst, '[')
	for i, v := range s.enabled {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), v.String()...), '"')
	}
	return append(dst, ']')
}

// headerRevision returns the revision in the request's header. Without the header it is 2025-03-26,
// because later revisions require the header (MCP 2025-06-18, Transports, Protocol Version Header).
func headerRevision(header http.Header) revision.Revision {
	name, present := headerValue(header, versionHeader)
	if !present {
		return revision.V20250326
	}
	return revision.Of(name)
}

// headerValue returns the value of a header field, trimmed. name is in canonical form. A field that
// occurs more than once yields "", because proxy and server could disagree on its value.
func headerValue(header http.Header, name string) (value string, present bool) {
	values := header[name]
	if len(values) != 1 {
		return "", len(values) > 0
	}
	return strings.Trim(values[0], " \t"), true
}

const versionHeader = "Mcp-Protocol-Version"

// Versions returns the names of all supported revisions, newest first.
func Versions() []string { return revision.Versions() }
