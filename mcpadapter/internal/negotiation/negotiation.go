// Package negotiation determines the revision of MCP that a message uses and checks the message against
// the rules of that revision.
//
// Up to 2025-11-25, initialize negotiates the revision, and later HTTP requests repeat it in the header
// MCP-Protocol-Version. From 2026-07-28 on, there is no initialize: each request names its revision and
// the client's capabilities in _meta, and headers repeat parts of the body, so that proxies can route
// requests without parsing them. A header that contradicts the body is an error.
package negotiation

import (
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

// Members of _meta that describe a request (MCP 2026-07-28, Overview, _meta).
const (
	MetaVersion      = "io.modelcontextprotocol/protocolVersion"
	MetaCapabilities = elicit.MetaCapabilities
	MetaLogLevel     = "io.modelcontextprotocol/logLevel"
)

// Header fields, in canonical form: the revision, and values of the body that are repeated (MCP
// 2026-07-28, Streamable HTTP, Request Metadata).
const (
	VersionHeader = "Mcp-Protocol-Version"
	MethodHeader  = "Mcp-Method"
	NameHeader    = "Mcp-Name"
)

// A Message is what a negotiation needs to know about a JSON-RPC message.
type Message struct {
	Header  http.Header    // of the HTTP request; nil over a connection
	Method  string         // "" for a response
	Request bool           // whether the message has an id
	Params  jsontext.Value // nil if absent
	Meta    jsontext.Value // params._meta; nil if absent
	Named   string         // parameter that the header Mcp-Name repeats; "" for none
}

// Terms are what client and server have agreed on.
type Terms struct {
	Version protocol.Revision
	Client  elicit.Capabilities
}

// meta holds the members of _meta that decide how a request is served. A member is nil if it is
// absent.
type meta struct {
	version, capabilities, logLevel jsontext.Value
}

// Agree updates the terms for a message of an HTTP request. Version must be that of OfHeader or of the
// session. The terms are also valid for the error response if Agree returns a fault.
func (t *Terms) Agree(enabled protocol.Revisions, m *Message) *protocol.Fault {
	header, sent := HeaderValue(m.Header, VersionHeader)
	if f := CheckOnce(m.Header, VersionHeader); f != nil && m.Method != "initialize" {
		return f
	}
	described, f := readMeta(m.Meta)
	if f != nil {
		return f
	}
	if described.version == nil {
		return t.agreeByHeader(enabled, m, header, sent, described)
	}
	name := strictjson.Text(described.version)
	version := enabled.Of(name)
	switch {
	case described.version.Kind() != '"':
		return protocol.Faultf(http.StatusBadRequest, protocol.InvalidParams,
			"_meta[%q] must be a string, not %s", MetaVersion, strictjson.KindName(described.version.Kind()))
	case !sent && (version == protocol.Unknown || version.Stateless()):
		return mismatched("the header MCP-Protocol-Version is missing: send it with the value %q, as in _meta", name)
	case sent && header != name:
		return mismatched("the header MCP-Protocol-Version is %q and _meta[%q] is %q: send the same value in both",
			header, MetaVersion, name)
	case version == protocol.Unknown:
		return Unsupported(enabled, name)
	}
	t.Version = version
	if !version.Stateless() {
		return nil
	}
	return t.checkDescribed(m, described)
}

// AgreeWithoutHeaders is Agree for a message that came over a connection. Its revision is the one in
// _meta, or else Version, the one that initialize has negotiated.
func (t *Terms) AgreeWithoutHeaders(enabled protocol.Revisions, m *Message) *protocol.Fault {
	described, f := readMeta(m.Meta)
	if f != nil || described.version == nil || m.Method == "initialize" {
		return f
	}
	name := strictjson.Text(described.version)
	v := enabled.Of(name)
	if v == protocol.Unknown {
		return Unsupported(enabled, name)
	}
	t.Version = v
	if v.Stateless() {
		return t.checkMeta(m, described)
	}
	return nil
}

// agreeByHeader is Agree for a message without a revision in _meta.
func (t *Terms) agreeByHeader(enabled protocol.Revisions, m *Message, header string, sent bool, described meta) *protocol.Fault {
	spoken := enabled.Has(t.Version)
	switch {
	case spoken && t.Version.Stateless():
		return t.checkDescribed(m, described)
	case !spoken && m.Method == "initialize":
		// initialize negotiates the revision in its parameters, so a header with an unknown revision
		// is ignored.
		t.Version = protocol.NewestStateful
	case !spoken && !sent:
		return missingVersion(enabled, t.Version)
	case !spoken:
		return Unsupported(enabled, header)
	case !sent && m.Method == "initialize":
		t.Version = protocol.NewestStateful
	}
	return nil
}

// CheckBodiless checks the revision in the header of a GET or DELETE. Revisions without sessions
// allow neither method (MCP 2026-07-28, Streamable HTTP, Earlier Streamable HTTP Revisions).
func (t *Terms) CheckBodiless(enabled protocol.Revisions, r *http.Request) *protocol.Fault {
	f := CheckOnce(r.Header, VersionHeader)
	header, sent := HeaderValue(r.Header, VersionHeader)
	switch {
	case f != nil:
	case sent && !enabled.Has(t.Version):
		f = Unsupported(enabled, header)
	case t.Version.Stateless() || enabled.NewestStateful() == protocol.Unknown:
		f = protocol.Faultf(http.StatusMethodNotAllowed, protocol.InvalidRequest,
			"revision %v has neither sessions nor a stream on GET, so it does not support %s: send subscriptions/listen with POST", protocol.V20260728, r.Method)
		f.Allow = true
	default:
		return nil
	}
	return f.WithoutID()
}

// readMeta reads the members of _meta. All are nil if the message has no _meta.
func readMeta(raw jsontext.Value) (described meta, f *protocol.Fault) {
	switch raw.Kind() {
	case 0, 'n':
		return meta{}, nil
	case '{':
	default:
		return meta{}, protocol.Faultf(http.StatusBadRequest, protocol.InvalidParams, "_meta must be an object, not %s", strictjson.KindName(raw.Kind()))
	}
	for walk := strictjson.Into(raw); walk.Next(); {
		switch {
		case walk.Is(MetaVersion):
			described.version = walk.Value
		case walk.Is(MetaCapabilities):
			described.capabilities = walk.Value
		case walk.Is(MetaLogLevel):
			described.logLevel = walk.Value
		}
	}
	return described, nil
}

// checkDescribed checks a request against the rules of 2026-07-28: the headers must repeat the body,
// and _meta must have the required members. Notifications are exempt.
func (t *Terms) checkDescribed(m *Message, described meta) *protocol.Fault {
	if !m.Request || m.Method == "" {
		return nil
	}
	if f := checkRepeated(m.Header, MethodHeader, "method", m.Method); f != nil {
		return f
	}
	if m.Named != "" {
		if value := strictjson.MemberOf(m.Params, m.Named); value.Kind() == '"' {
			if f := checkRepeated(m.Header, NameHeader, "params."+m.Named, strictjson.Text(value)); f != nil {
				return f
			}
		}
	}
	return t.checkMeta(m, described)
}

// checkMeta checks _meta of a request against the rules of 2026-07-28 and stores the client's
// capabilities.
func (t *Terms) checkMeta(m *Message, described meta) *protocol.Fault {
	if !m.Request {
		return nil
	}
	if described.version == nil {
		return missingMeta(MetaVersion, `the revision, "2026-07-28"`)
	}
	switch kind := described.capabilities.Kind(); kind {
	case '{':
	case 0:
		return missingMeta(MetaCapabilities, "the client's capabilities, an object, {} if it has none")
	default:
		return badMeta(MetaCapabilities, "an object, {} if the client has no capabilities, not "+strictjson.KindName(kind))
	}
	if f := checkLogLevel(described.logLevel); f != nil {
		return f
	}
	t.Client = elicit.ReadCapabilities(described.capabilities)
	return nil
}

// checkRepeated checks that a header occurs once and equals the value in the body.
func checkRepeated(all http.Header, header, member, want string) *protocol.Fault {
	value, present := HeaderValue(all, header)
	if count := len(all[header]); count > 1 {
		return mismatched("the header %s is sent %d times: send it once, with the value of %s, %q", header, count, member, text.Cut(want, text.MaxQuoted))
	}
	if !present {
		return mismatched("the header %s is missing: send it with the value of %s, %q", header, member, text.Cut(want, text.MaxQuoted))
	}
	if header == NameHeader {
		plain, ok := protocol.DecodeHeader(value)
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

// checkLogLevel returns a fault for an unknown log level (MCP 2026-07-28, Logging, Error Handling).
// Null counts as absent.
func checkLogLevel(level jsontext.Value) *protocol.Fault {
	switch kind := level.Kind(); {
	case kind == 0, kind == 'n', protocol.LevelOf(strictjson.Text(level)) != 0:
		return nil
	case kind == '"':
		return badMeta(MetaLogLevel, protocol.LevelNames+", not "+text.Cut(string(level), text.MaxQuoted))
	default:
		return badMeta(MetaLogLevel, protocol.LevelNames+", not "+strictjson.KindName(kind))
	}
}

// mismatched returns the fault for a header that contradicts the body (MCP 2026-07-28, error
// -32020). Proxies route by these headers, so a contradiction must not be ignored.
func mismatched(format string, args ...any) *protocol.Fault {
	return protocol.Faultf(http.StatusBadRequest, protocol.HeaderMismatch, format, args...)
}

func missingMeta(key, what string) *protocol.Fault {
	return protocol.Faultf(http.StatusBadRequest, protocol.InvalidParams, "params._meta[%q] is missing: it must be %s", key, what)
}

func badMeta(key, what string) *protocol.Fault {
	return protocol.Faultf(http.StatusBadRequest, protocol.InvalidParams, "params._meta[%q] must be %s", key, what)
}

// missingVersion returns the fault for a request without the header MCP-Protocol-Version. Without
// it, MCP implies a revision that the operator has disabled.
func missingVersion(enabled protocol.Revisions, implied protocol.Revision) *protocol.Fault {
	f := protocol.Malformed("the header MCP-Protocol-Version is missing, which implies %v, and this revision is not supported: "+
		"send the header with a revision that this server supports, %s", implied, enabled)
	f.Data = append(enabled.AppendTo([]byte(`{"supported":`)), '}')
	return f
}

// Unsupported returns the fault for an unknown revision. It lists the supported ones.
func Unsupported(enabled protocol.Revisions, requested string) *protocol.Fault {
	f := protocol.Faultf(http.StatusBadRequest, protocol.UnsupportedVersion,
		"protocol version %q is not supported: this server supports %s", text.Cut(requested, text.MaxQuoted), enabled)
	f.Data = append(enabled.AppendTo([]byte(`{"supported":`)), `,"requested":`...)
	f.Data = append(strictjson.AppendString(f.Data, requested), '}')
	return f
}

// OfHeader returns the revision in the header of a request. Without the header it is 2025-03-26, because
// later revisions require the header (MCP 2025-06-18, Transports, Protocol Version Header).
func OfHeader(header http.Header) protocol.Revision {
	name, present := HeaderValue(header, VersionHeader)
	if !present {
		return protocol.V20250326
	}
	return protocol.RevisionOf(name)
}

// CheckOnce returns a fault for a header field that occurs more than once. name is in canonical form.
func CheckOnce(header http.Header, name string) *protocol.Fault {
	if n := len(header[name]); n > 1 {
		return mismatched("the header %s is sent %d times: send it once", name, n)
	}
	return nil
}

// HeaderValue returns the value of a header field, trimmed. name is in canonical form. A field that occurs more
// than once yields "", because proxy and server could disagree on its value.
func HeaderValue(header http.Header, name string) (value string, present bool) {
	values := header[name]
	if len(values) != 1 {
		return "", len(values) > 0
	}
	return strings.Trim(values[0], " \t"), true
}
