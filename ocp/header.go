package ocp

import (
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Version is the version of the protocol that is implemented here, as
// OCP-Version carries it.
const Version = "1.0"

// The seven headers (OCP 1.0, HTTP Headers) as they are keys of an http.Header.
// In a Fault and in messages they are spelled as in the protocol: OCP-Context-ID.
const (
	HeaderContextID   = "Ocp-Context-Id"
	HeaderAgentType   = "Ocp-Agent-Type"
	HeaderCurrentGoal = "Ocp-Current-Goal"
	HeaderSession     = "Ocp-Session"
	HeaderUser        = "Ocp-User"
	HeaderWorkspace   = "Ocp-Workspace"
	HeaderVersion     = "Ocp-Version"
)

// The limits of the headers: characters, but for the session.
const (
	MaxContextID   = 64
	MaxAgentType   = 128
	MaxCurrentGoal = 256
	MaxUser        = 64
	MaxWorkspace   = 128

	// MaxSession is how long an OCP-Session value may be, in bytes.
	MaxSession = 8 << 10

	// maxVersion bounds OCP-Version, of which the protocol says no length.
	maxVersion = 32
)

// headerNames spells each header as the protocol does.
var headerNames = [...]struct{ key, name string }{
	{HeaderContextID, "OCP-Context-ID"},
	{HeaderAgentType, "OCP-Agent-Type"},
	{HeaderCurrentGoal, "OCP-Current-Goal"},
	{HeaderSession, "OCP-Session"},
	{HeaderUser, "OCP-User"},
	{HeaderWorkspace, "OCP-Workspace"},
	{HeaderVersion, "OCP-Version"},
}

// HeaderName returns the protocol's spelling of one of the header keys, "" for
// any other key.
func HeaderName(key string) string {
	for _, h := range headerNames {
		if h.key == key {
			return h.name
		}
	}
	return ""
}

// ReadOptions say how strictly headers and sessions are read. The zero value is
// as wide as the text of the protocol, with its limits.
type ReadOptions struct {
	// Strict follows the context schema where it and the text disagree: a
	// context id must match ^ocp-[a-f0-9]{8,}$, and a session that does not
	// conform to the schema is ignored as a whole.
	Strict bool

	MaxSession  int // bytes of an OCP-Session value; 0 means MaxSession
	MaxInflated int // bytes of a session's JSON; 0 means MaxInflated

	// Cache keeps decoded sessions for the next message that has the same one;
	// nil keeps none.
	Cache *SessionCache
}

func (o ReadOptions) maxSession() int {
	if o.MaxSession > 0 {
		return o.MaxSession
	}
	return MaxSession
}

func (o ReadOptions) maxInflated() int {
	if o.MaxInflated > 0 {
		return o.MaxInflated
	}
	return MaxInflated
}

// Headers are the OCP headers of one message. A header that is absent or was
// ignored is "". Whatever stands here is what a client says of itself: User is
// never an identity.
type Headers struct {
	ContextID   string
	AgentType   string
	CurrentGoal string
	User        string
	Workspace   string
	Version     string
	Session     *Session // not decoded yet; nil if absent or ignored

	// Faults has one entry for each header that was ignored, and for no other.
	Faults []Fault
}

// ReadHeaders reads the OCP headers of a request or a response. Each header is
// taken or ignored on its own account (OCP 1.0, Error Handling). Without OCP
// headers it allocates nothing.
func ReadHeaders(header http.Header, options ReadOptions) Headers {
	var h Headers
	h.ContextID = h.read(header, HeaderContextID, func(value string) Reason {
		return checkContextID(value, options.Strict)
	})
	h.AgentType = h.read(header, HeaderAgentType, checkAgentType)
	h.CurrentGoal = h.read(header, HeaderCurrentGoal, checkCurrentGoal)
	h.User = h.read(header, HeaderUser, checkUser)
	h.Workspace = h.read(header, HeaderWorkspace, checkWorkspace)
	h.Version = h.read(header, HeaderVersion, checkVersion)
	session := h.read(header, HeaderSession, func(value string) Reason {
		return checkSession(value, options)
	})
	if session != "" {
		h.Session = &Session{encoded: session, options: options}
	}
	return h
}

// read returns the value of one header, "" if it is absent or wrong. A header
// that came twice is wrong: whoever reads next might take the other value.
func (h *Headers) read(header http.Header, key string, check func(string) Reason) string {
	values := header[key]
	if len(values) == 0 {
		return ""
	}
	reason := ReasonRepeated
	if len(values) == 1 {
		value := strings.Trim(values[0], " \t")
		if reason = check(value); reason == "" {
			return value
		}
	}
	h.Faults = append(h.Faults, Fault{Field: HeaderName(key), Reason: reason})
	return ""
}

// Valid reports whether both required headers are there (OCP 1.0, Required
// Headers). Without them the message has no context.
func (h *Headers) Valid() bool {
	return h.ContextID != "" && h.AgentType != ""
}

// Present reports whether the message had any OCP header, good or not.
func (h *Headers) Present() bool {
	return h.ContextID != "" || h.AgentType != "" || h.Session != nil || len(h.Faults) > 0 ||
		h.CurrentGoal != "" || h.User != "" || h.Workspace != "" || h.Version != ""
}

// Set writes the headers that are there and removes the others.
func (h *Headers) Set(header http.Header) {
	session := ""
	if h.Session != nil {
		session = h.Session.encoded
	}
	setHeader(header, HeaderContextID, h.ContextID)
	setHeader(header, HeaderAgentType, h.AgentType)
	setHeader(header, HeaderCurrentGoal, h.CurrentGoal)
	setHeader(header, HeaderUser, h.User)
	setHeader(header, HeaderWorkspace, h.Workspace)
	setHeader(header, HeaderVersion, h.Version)
	setHeader(header, HeaderSession, session)
}

// DropIgnored removes from header, which the Headers were read from, those that
// were ignored, and leaves the others as they came.
func (h *Headers) DropIgnored(header http.Header) {
	for _, fault := range h.Faults {
		for _, known := range headerNames {
			if known.name == fault.Field {
				delete(header, known.key)
			}
		}
	}
}

// DeleteHeaders removes all OCP headers.
func DeleteHeaders(header http.Header) {
	for _, h := range headerNames {
		delete(header, h.key)
	}
}

func setHeader(header http.Header, key, value string) {
	if value == "" {
		delete(header, key)
		return
	}
	header[key] = []string{value}
}

func checkContextID(value string, strict bool) Reason {
	if strict && value != "" && !isSchemaContextID(value) {
		return ReasonPattern
	}
	return checkPattern(value, MaxContextID, isContextIDByte)
}

// isSchemaContextID matches ^ocp-[a-f0-9]{8,}$, the pattern of the schema, which
// the examples of the text itself do not keep to.
func isSchemaContextID(value string) bool {
	const shortest = 8
	digits, ok := strings.CutPrefix(value, "ocp-")
	if !ok || len(digits) < shortest {
		return false
	}
	for i := range len(digits) {
		if c := digits[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func checkAgentType(value string) Reason   { return checkPattern(value, MaxAgentType, isAgentTypeByte) }
func checkCurrentGoal(value string) Reason { return checkText(value, MaxCurrentGoal) }
func checkUser(value string) Reason        { return checkText(value, MaxUser) }
func checkWorkspace(value string) Reason   { return checkText(value, MaxWorkspace) }

func isContextIDByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-'
}

func isAgentTypeByte(c byte) bool {
	return isContextIDByte(c) || c == '_' || c == '.'
}

// checkPattern checks a value of ASCII characters, of which there are as many as
// bytes.
func checkPattern(value string, longest int, allowed func(byte) bool) Reason {
	switch {
	case value == "":
		return ReasonEmpty
	case len(value) > longest && utf8.RuneCountInString(value) > longest:
		return ReasonTooLong
	}
	for i := range len(value) {
		if !allowed(value[i]) {
			return ReasonPattern
		}
	}
	return ""
}

// checkText checks free text: UTF-8 without control characters, which have no
// place in a header and none in the logs that it ends up in.
func checkText(value string, longest int) Reason {
	if value == "" {
		return ReasonEmpty
	}
	characters := 0
	for i, r := range value {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(value[i:], "\ufffd"):
			return ReasonUTF8
		case unicode.IsControl(r) && r != '\t':
			return ReasonControl
		}
		if characters++; characters > longest {
			return ReasonTooLong
		}
	}
	return ""
}

// checkVersion accepts a semantic version, whose patch number may be missing as
// it is in "1.0".
func checkVersion(value string) Reason {
	switch {
	case value == "":
		return ReasonEmpty
	case len(value) > maxVersion:
		return ReasonTooLong
	}
	numbers := value
	if end := strings.IndexAny(value, "-+"); end >= 0 {
		numbers = value[:end]
		if suffix := value[end+1:]; suffix == "" || strings.ContainsFunc(suffix, isNoVersionRune) {
			return ReasonPattern
		}
	}
	parts := 1
	for i, digits := 0, 0; i <= len(numbers); i++ {
		switch {
		case i < len(numbers) && '0' <= numbers[i] && numbers[i] <= '9':
			digits++
		case digits == 0 || i < len(numbers) && numbers[i] != '.':
			return ReasonPattern
		case i < len(numbers):
			parts, digits = parts+1, 0
		}
	}
	if parts < 2 || parts > 3 {
		return ReasonPattern
	}
	return ""
}

func isNoVersionRune(r rune) bool {
	return r >= utf8.RuneSelf || !isContextIDByte(byte(r)) && r != '.' && r != '+'
}
