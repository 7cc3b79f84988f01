package protocol

import (
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
)

// A Revision is a published revision of MCP. Its methods say which features it has, so that no other
// code compares dates.
type Revision uint8

const (
	Unknown Revision = iota // not a revision that this server speaks

	// V20241105 has the transport HTTP+SSE instead of Streamable HTTP.
	V20241105

	// V20250326 adds Streamable HTTP, sessions, tool annotations, audio and completions. Only this
	// revision has JSON-RPC batches.
	V20250326

	// V20250618 adds elicitation, structuredContent, outputSchema, resource links, titles and the
	// required header MCP-Protocol-Version.
	V20250618

	// V20251125 adds icons, URL elicitation and tools in sampling. Its streams start with an event
	// id from which a client can resume.
	V20251125

	// V20260728 has no initialize and no sessions: each request describes itself in _meta and in
	// headers. The server cannot send requests; it puts them into results instead.
	V20260728
)

// NewestStateful is the newest revision that starts with initialize.
const NewestStateful = V20251125

// String returns the date that names the revision, or "" for unknown.
func (v Revision) String() string {
	switch v {
	case V20241105:
		return "2024-11-05"
	case V20250326:
		return "2025-03-26"
	case V20250618:
		return "2025-06-18"
	case V20251125:
		return "2025-11-25"
	case V20260728:
		return "2026-07-28"
	}
	return ""
}

// RevisionOf returns the revision with that name, or unknown.
func RevisionOf(name string) Revision {
	for v := V20241105; v <= V20260728; v++ {
		if v.String() == name {
			return v
		}
	}
	return Unknown
}

// Revisions is a list of revisions, newest first.
type Revisions []Revision

// EnabledRevisions returns the revisions with these names. Without names it returns all.
func EnabledRevisions(names []string) (enabled Revisions) {
	for v := V20260728; v > Unknown; v-- {
		if len(names) == 0 || slices.Contains(names, v.String()) {
			enabled = append(enabled, v)
		}
	}
	return enabled
}

// Has reports whether the set contains the revision.
func (s Revisions) Has(v Revision) bool { return slices.Contains(s, v) }

// Of returns the revision with that name if the set contains it, otherwise Unknown.
func (s Revisions) Of(name string) Revision {
	if v := RevisionOf(name); s.Has(v) {
		return v
	}
	return Unknown
}

// NewestStateful returns the newest revision with initialize, or Unknown.
func (s Revisions) NewestStateful() Revision {
	if i := slices.IndexFunc(s, func(v Revision) bool { return !v.Stateless() }); i >= 0 {
		return s[i]
	}
	return Unknown
}

// Names returns the names of the revisions.
func (s Revisions) Names() []string {
	names := make([]string, len(s))
	for i, v := range s {
		names[i] = v.String()
	}
	return names
}

// String lists the revisions for messages.
func (s Revisions) String() string {
	names := s.Names()
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return strings.Join(names, "")
}

// AppendTo appends the names as a JSON array.
func (s Revisions) AppendTo(dst []byte) []byte {
	dst = append(dst, '[')
	for _, v := range s {
		dst = append(append(append(strictjson.Comma(dst), '"'), v.String()...), '"')
	}
	return append(dst, ']')
}

// Stateless reports whether each request carries its own revision and capabilities, without a
// preceding initialize (MCP 2026-07-28).
func (v Revision) Stateless() bool { return v >= V20260728 }

// SupportsBatches reports whether a body may be a JSON-RPC batch. Only revision 2025-03-26 has batches.
func (v Revision) SupportsBatches() bool { return v == V20250326 }

// SupportsAnnotations reports whether tools have annotations.
func (v Revision) SupportsAnnotations() bool { return v >= V20250326 }

// SendsPrimingEvent reports whether a stream starts with an event that has an id and no data, from which the
// client can resume.
func (v Revision) SendsPrimingEvent() bool { return v == V20251125 }

// SupportsTitles reports whether tools and servers have a title besides their name.
func (v Revision) SupportsTitles() bool { return v >= V20250618 }

// SupportsStructuredContent reports whether a tool result may have structuredContent of that JSON type. kind is the
// first byte of the value.
func (v Revision) SupportsStructuredContent(kind byte) bool {
	return v >= V20260728 || v >= V20250618 && kind == '{'
}

// OmitsUnreadID reports whether an error response omits the id if the id of the request cannot be
// read. Earlier revisions follow JSON-RPC 2.0, where the id is null.
func (v Revision) OmitsUnreadID() bool { return v == Unknown || v >= V20251125 }

// SupportsProgressMessage reports whether a progress notification may have a message.
func (v Revision) SupportsProgressMessage() bool { return v >= V20250326 }

// SupportsAudio reports whether content may be audio.
func (v Revision) SupportsAudio() bool { return v >= V20250326 }

// SupportsResourceLinks reports whether content may be a resource_link.
func (v Revision) SupportsResourceLinks() bool { return v >= V20250618 }

// SupportsContentMeta reports whether content blocks may have _meta, and annotations may have
// lastModified.
func (v Revision) SupportsContentMeta() bool { return v >= V20250618 }

// SupportsIcons reports whether tools, resources and prompts may have icons.
func (v Revision) SupportsIcons() bool { return v >= V20251125 }

// SupportsOutputSchema reports whether tools may have an outputSchema.
func (v Revision) SupportsOutputSchema() bool { return v >= V20250618 }

// RequiresObjectOutput reports whether the type of an outputSchema must be object.
func (v Revision) RequiresObjectOutput() bool { return v < V20260728 }

// SupportsElicitation reports whether clients may support form elicitation.
func (v Revision) SupportsElicitation() bool { return v >= V20250618 }

// SupportsRichElicitation reports whether forms may have multiple choices, titled choices and defaults, and
// whether clients may support URL elicitation.
func (v Revision) SupportsRichElicitation() bool { return v >= V20251125 }

// SupportsRichSampling reports whether sampling may have tools and messages with several parts.
func (v Revision) SupportsRichSampling() bool { return v >= V20251125 }

// SupportsCompletion reports whether servers declare the capability completions.
func (v Revision) SupportsCompletion() bool { return v >= V20250326 }

// SupportsExtensions reports whether servers declare the extensions that they support.
func (v Revision) SupportsExtensions() bool { return v >= V20260728 }

// SupportsTaskParameter reports whether clients ask for tasks with a parameter of tools/call. Only
// revision 2025-11-25 has this form of tasks; later ones have an extension.
func (v Revision) SupportsTaskParameter() bool { return v == V20251125 }

// Up to 2025-11-25, initialize negotiates the revision, and later HTTP requests repeat it in the header
// MCP-Protocol-Version. From 2026-07-28 on, there is no initialize: each request names its revision and
// the client's capabilities in _meta, and headers repeat parts of the body, so that proxies can route
// requests without parsing them. A header that contradicts the body is an error.

// Members of _meta that describe a request (MCP 2026-07-28, Overview, _meta).
const (
	MetaVersion      = "io.modelcontextprotocol/protocolVersion"
	MetaCapabilities = "io.modelcontextprotocol/clientCapabilities"
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
	Version Revision
	Client  Capabilities
}

// meta holds the members of _meta that decide how a request is served. A member is nil if it is
// absent.
type meta struct {
	version, capabilities, logLevel jsontext.Value
}

// Agree updates the terms for a message of an HTTP request. Version must be that of RevisionOfHeader or of the
// session. The terms are also valid for the error response if Agree returns a fault.
func (t *Terms) Agree(enabled Revisions, m *Message) *Fault {
	header, sent := HeaderValue(m.Header, VersionHeader)
	if f := CheckHeaderOnce(m.Header, VersionHeader); f != nil && m.Method != "initialize" {
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
		return Faultf(http.StatusBadRequest, InvalidParams,
			"_meta[%q] must be a string, not %s", MetaVersion, strictjson.KindName(described.version.Kind()))
	case !sent && (version == Unknown || version.Stateless()):
		return mismatched("the header MCP-Protocol-Version is missing: send it with the value %q, as in _meta", name)
	case sent && header != name:
		return mismatched("the header MCP-Protocol-Version is %q and _meta[%q] is %q: send the same value in both",
			header, MetaVersion, name)
	case version == Unknown:
		return UnsupportedRevision(enabled, name)
	}
	t.Version = version
	if !version.Stateless() {
		return nil
	}
	return t.checkDescribed(m, described)
}

// AgreeWithoutHeaders is Agree for a message that came over a connection. Its revision is the one in
// _meta, or else Version, the one that initialize has negotiated.
func (t *Terms) AgreeWithoutHeaders(enabled Revisions, m *Message) *Fault {
	described, f := readMeta(m.Meta)
	if f != nil || described.version == nil || m.Method == "initialize" {
		return f
	}
	name := strictjson.Text(described.version)
	v := enabled.Of(name)
	if v == Unknown {
		return UnsupportedRevision(enabled, name)
	}
	t.Version = v
	if v.Stateless() {
		return t.checkMeta(m, described)
	}
	return nil
}

// agreeByHeader is Agree for a message without a revision in _meta.
func (t *Terms) agreeByHeader(enabled Revisions, m *Message, header string, sent bool, described meta) *Fault {
	spoken := enabled.Has(t.Version)
	switch {
	case spoken && t.Version.Stateless():
		return t.checkDescribed(m, described)
	case !spoken && m.Method == "initialize":
		// initialize negotiates the revision in its parameters, so a header with an unknown revision
		// is ignored.
		t.Version = NewestStateful
	case !spoken && !sent:
		return missingVersion(enabled, t.Version)
	case !spoken:
		return UnsupportedRevision(enabled, header)
	case !sent && m.Method == "initialize":
		t.Version = NewestStateful
	}
	return nil
}

// CheckBodiless checks the revision in the header of a GET or DELETE. Revisions without sessions
// allow neither method (MCP 2026-07-28, Streamable HTTP, Earlier Streamable HTTP Revisions).
func (t *Terms) CheckBodiless(enabled Revisions, r *http.Request) *Fault {
	f := CheckHeaderOnce(r.Header, VersionHeader)
	header, sent := HeaderValue(r.Header, VersionHeader)
	switch {
	case f != nil:
	case sent && !enabled.Has(t.Version):
		f = UnsupportedRevision(enabled, header)
	case t.Version.Stateless() || enabled.NewestStateful() == Unknown:
		f = Faultf(http.StatusMethodNotAllowed, InvalidRequest,
			"revision %v has neither sessions nor a stream on GET, so it does not support %s: send subscriptions/listen with POST", V20260728, r.Method)
		f.Allow = true
	default:
		return nil
	}
	return f.WithoutID()
}

// readMeta reads the members of _meta. All are nil if the message has no _meta.
func readMeta(raw jsontext.Value) (described meta, f *Fault) {
	switch raw.Kind() {
	case 0, 'n':
		return meta{}, nil
	case '{':
	default:
		return meta{}, Faultf(http.StatusBadRequest, InvalidParams, "_meta must be an object, not %s", strictjson.KindName(raw.Kind()))
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
func (t *Terms) checkDescribed(m *Message, described meta) *Fault {
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
func (t *Terms) checkMeta(m *Message, described meta) *Fault {
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
	t.Client = ReadCapabilities(described.capabilities)
	return nil
}

// checkRepeated checks that a header occurs once and equals the value in the body.
func checkRepeated(all http.Header, header, member, want string) *Fault {
	value, present := HeaderValue(all, header)
	if count := len(all[header]); count > 1 {
		return mismatched("the header %s is sent %d times: send it once, with the value of %s, %q", header, count, member, text.Cut(want, text.MaxQuoted))
	}
	if !present {
		return mismatched("the header %s is missing: send it with the value of %s, %q", header, member, text.Cut(want, text.MaxQuoted))
	}
	if header == NameHeader {
		plain, ok := DecodeHeader(value)
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
func checkLogLevel(level jsontext.Value) *Fault {
	switch kind := level.Kind(); {
	case kind == 0, kind == 'n', LevelOf(strictjson.Text(level)) != 0:
		return nil
	case kind == '"':
		return badMeta(MetaLogLevel, LevelNames+", not "+text.Cut(string(level), text.MaxQuoted))
	default:
		return badMeta(MetaLogLevel, LevelNames+", not "+strictjson.KindName(kind))
	}
}

// mismatched returns the fault for a header that contradicts the body (MCP 2026-07-28, error
// -32020). Proxies route by these headers, so a contradiction must not be ignored.
func mismatched(format string, args ...any) *Fault {
	return Faultf(http.StatusBadRequest, HeaderMismatch, format, args...)
}

func missingMeta(key, what string) *Fault {
	return Faultf(http.StatusBadRequest, InvalidParams, "params._meta[%q] is missing: it must be %s", key, what)
}

func badMeta(key, what string) *Fault {
	return Faultf(http.StatusBadRequest, InvalidParams, "params._meta[%q] must be %s", key, what)
}

// missingVersion returns the fault for a request without the header MCP-Protocol-Version. Without
// it, MCP implies a revision that the operator has disabled.
func missingVersion(enabled Revisions, implied Revision) *Fault {
	f := Malformed("the header MCP-Protocol-Version is missing, which implies %v, and this revision is not supported: "+
		"send the header with a revision that this server supports, %s", implied, enabled)
	f.Data = append(enabled.AppendTo([]byte(`{"supported":`)), '}')
	return f
}

// UnsupportedRevision returns the fault for an unknown revision. It lists the supported ones.
func UnsupportedRevision(enabled Revisions, requested string) *Fault {
	f := Faultf(http.StatusBadRequest, UnsupportedVersion,
		"protocol version %q is not supported: this server supports %s", text.Cut(requested, text.MaxQuoted), enabled)
	f.Data = append(enabled.AppendTo([]byte(`{"supported":`)), `,"requested":`...)
	f.Data = append(strictjson.AppendString(f.Data, requested), '}')
	return f
}

// RevisionOfHeader returns the revision in the header of a request. Without the header it is 2025-03-26, because
// later revisions require the header (MCP 2025-06-18, Transports, Protocol Version Header).
func RevisionOfHeader(header http.Header) Revision {
	name, present := HeaderValue(header, VersionHeader)
	if !present {
		return V20250326
	}
	return RevisionOf(name)
}

// CheckHeaderOnce returns a fault for a header field that occurs more than once. name is in canonical form.
func CheckHeaderOnce(header http.Header, name string) *Fault {
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
