package ocp

import (
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/ocp/callcontext"
)

// Version is the implemented version of the protocol, as sent in OCP-Version.
const Version = "1.0"

// The seven headers (OCP 1.0, HTTP Headers), as keys of an http.Header. Faults and
// messages use the spelling of the protocol, such as OCP-Context-ID.
const (
	HeaderContextID   = callcontext.HeaderContextID
	HeaderAgentType   = callcontext.HeaderAgentType
	HeaderCurrentGoal = callcontext.HeaderCurrentGoal
	HeaderSession     = callcontext.HeaderSession
	HeaderUser        = callcontext.HeaderUser
	HeaderWorkspace   = callcontext.HeaderWorkspace
	HeaderVersion     = callcontext.HeaderVersion
)

// The limits of the headers, in characters unless noted otherwise.
const (
	maxContextID   = 64
	maxAgentType   = 128
	MaxCurrentGoal = 256
	MaxUser        = 64
	MaxWorkspace   = 128

	// MaxSession is the maximum length of an OCP-Session value, in bytes.
	MaxSession = 8 << 10

	// maxVersion limits OCP-Version. The protocol does not define a limit.
	maxVersion = 32
)

// headerNames maps each header key to the spelling of the protocol.
var headerNames = [...]struct{ key, name string }{
	{HeaderContextID, "OCP-Context-ID"},
	{HeaderAgentType, "OCP-Agent-Type"},
	{HeaderCurrentGoal, "OCP-Current-Goal"},
	{HeaderSession, "OCP-Session"},
	{HeaderUser, "OCP-User"},
	{HeaderWorkspace, "OCP-Workspace"},
	{HeaderVersion, "OCP-Version"},
}

// HeaderName returns the protocol's spelling of a header key, or "" for any other key.
func HeaderName(key string) string {
	for _, h := range headerNames {
		if h.key == key {
			return h.name
		}
	}
	return ""
}

// ReadOptions configure how strictly headers and sessions are read. The zero value accepts
// everything that the text of the protocol allows, with its limits.
type ReadOptions struct {
	// Strict follows the context schema where the schema and the text of the protocol
	// disagree: a context id must match ^ocp-[a-f0-9]{8,}$, and a session that does not
	// conform to the schema is ignored as a whole.
	Strict bool

	MaxSession  int // maximum bytes of an OCP-Session value; 0 means the constant MaxSession
	MaxInflated int // maximum bytes of a session's JSON; 0 means 1 MiB

	// Cache keeps decoded sessions, for later messages with the same session. nil disables
	// caching.
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
	return maxInflated
}

// Headers are the OCP headers of one message. A header that is absent or was ignored is
// "". The client chooses all values, so User must never be used as an identity.
type Headers struct {
	ContextID   string
	AgentType   string
	CurrentGoal string
	User        string
	Workspace   string
	Version     string
	Session     *Session // not decoded yet; nil if absent or ignored

	// Faults has one entry for each ignored header.
	Faults []Fault
}

// ReadHeaders reads the OCP headers of a request or a response. Each header is accepted or
// ignored independently of the others (OCP 1.0, Error Handling). If there are no OCP
// headers, ReadHeaders does not allocate.
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
		h.Session = &Session{encoded: session, options: options, contextID: h.ContextID, agentType: h.AgentType}
	}
	return h
}

// read returns the value of one header, or "" if it is absent or invalid. A repeated
// header is invalid, because another reader might use a different one of its values.
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

// Valid reports whether both required headers are present (OCP 1.0, Required Headers).
// Without them the message has no context.
func (h *Headers) Valid() bool {
	return h.ContextID != "" && h.AgentType != ""
}

// Present reports whether the message has any OCP header, valid or not.
func (h *Headers) Present() bool {
	return h.ContextID != "" || h.AgentType != "" || h.Session != nil || len(h.Faults) > 0 ||
		h.CurrentGoal != "" || h.User != "" || h.Workspace != "" || h.Version != ""
}

// Set writes the headers that have a value and removes the others.
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

// DropIgnored removes the ignored headers from header and leaves all others unchanged.
// Header must be the one that the Headers were read from.
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
	return checkPattern(value, maxContextID, isContextIDByte)
}

// isSchemaContextID matches ^ocp-[a-f0-9]{8,}$, the pattern of the schema. The examples in
// the text of the protocol do not follow this pattern.
func isSchemaContextID(value string) bool {
	const shortest = 8
	digits, ok := strings.CutPrefix(value, "ocp-")
	return ok && len(digits) >= shortest && strings.Trim(digits, "0123456789abcdef") == ""
}

func checkAgentType(value string) Reason   { return checkPattern(value, maxAgentType, isAgentTypeByte) }
func checkCurrentGoal(value string) Reason { return checkText(value, MaxCurrentGoal) }
func checkUser(value string) Reason        { return checkText(value, MaxUser) }
func checkWorkspace(value string) Reason   { return checkText(value, MaxWorkspace) }

func isContextIDByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-'
}

func isAgentTypeByte(c byte) bool {
	return isContextIDByte(c) || c == '_' || c == '.'
}

// checkPattern checks a value that may contain only ASCII characters.
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

// checkText checks free text: it must be UTF-8 without control characters, which are not
// valid in headers and not safe in logs.
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

// checkVersion accepts a semantic version. The patch number may be missing, as in "1.0".
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
