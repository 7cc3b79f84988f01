package mcpadapter

import (
	"net/http"
	"slices"
	"strings"
)

// A revision is a published revision of MCP. Its methods say which features it has, so that no other
// code compares dates.
type revision uint8

const (
	unknown revision = iota // not a revision that this server speaks

	// v20241105 has the transport HTTP+SSE instead of Streamable HTTP.
	v20241105

	// v20250326 adds Streamable HTTP, sessions, tool annotations, audio and completions. Only this
	// revision has JSON-RPC batches.
	v20250326

	// v20250618 adds elicitation, structuredContent, outputSchema, resource links, titles and the
	// required header MCP-Protocol-Version.
	v20250618

	// v20251125 adds icons, URL elicitation and tools in sampling. Its streams start with an event
	// id from which a client can resume.
	v20251125

	// v20260728 has no initialize and no sessions: each request describes itself in _meta and in
	// headers. The server cannot send requests; it puts them into results instead.
	v20260728
)

// newestInitialized is the newest revision that starts with initialize.
const newestInitialized = v20251125

// String returns the date that names the revision, or "" for unknown.
func (v revision) String() string {
	switch v {
	case v20241105:
		return "2024-11-05"
	case v20250326:
		return "2025-03-26"
	case v20250618:
		return "2025-06-18"
	case v20251125:
		return "2025-11-25"
	case v20260728:
		return "2026-07-28"
	}
	return ""
}

// revisionOf returns the revision with that name, or unknown.
func revisionOf(name string) revision {
	for v := v20241105; v <= v20260728; v++ {
		if v.String() == name {
			return v
		}
	}
	return unknown
}

// spokenOf returns the revisions with these names, newest first. Without names it returns all.
func spokenOf(names []string) (spoken []revision) {
	for v := v20260728; v > unknown; v-- {
		if len(names) == 0 || slices.Contains(names, v.String()) {
			spoken = append(spoken, v)
		}
	}
	return spoken
}

// Versions returns the names of all supported revisions, newest first.
func Versions() (names []string) {
	for _, v := range spokenOf(nil) {
		names = append(names, v.String())
	}
	return names
}

// speaks reports whether the server's options enable the revision.
func (s *Server) speaks(v revision) bool { return slices.Contains(s.spoken, v) }

// revisionOf returns the revision with that name if it is enabled, otherwise unknown.
func (s *Server) revisionOf(name string) revision {
	if v := revisionOf(name); s.speaks(v) {
		return v
	}
	return unknown
}

// newestHandshaken returns the newest enabled revision with initialize, or unknown.
func (s *Server) newestHandshaken() revision {
	for _, v := range s.spoken {
		if !v.selfDescribing() {
			return v
		}
	}
	return unknown
}

// spokenText lists the enabled revisions for messages.
func (s *Server) spokenText() string {
	names := make([]string, len(s.spoken))
	for i, v := range s.spoken {
		names[i] = v.String()
	}
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return strings.Join(names, "")
}

// appendSpoken appends the enabled revisions as a JSON array.
func (s *Server) appendSpoken(dst []byte) []byte {
	dst = append(dst, '[')
	for i, v := range s.spoken {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), v.String()...), '"')
	}
	return append(dst, ']')
}

// selfDescribing reports whether each request carries its own revision and capabilities, without a
// preceding initialize (MCP 2026-07-28).
func (v revision) selfDescribing() bool { return v >= v20260728 }

// batches reports whether a body may be a JSON-RPC batch. Only revision 2025-03-26 has batches.
func (v revision) batches() bool { return v == v20250326 }

// annotates reports whether tools have annotations.
func (v revision) annotates() bool { return v >= v20250326 }

// primes reports whether a stream starts with an event that has an id and no data, from which the
// client can resume.
func (v revision) primes() bool { return v == v20251125 }

// titles reports whether tools and servers have a title besides their name.
func (v revision) titles() bool { return v >= v20250618 }

// structures reports whether a tool result may have structuredContent of that JSON type. kind is the
// first byte of the value.
func (v revision) structures(kind byte) bool {
	return v >= v20260728 || v >= v20250618 && kind == '{'
}

// omitsUnreadID reports whether an error response omits the id if the id of the request cannot be
// read. Earlier revisions follow JSON-RPC 2.0, where the id is null.
func (v revision) omitsUnreadID() bool { return v == unknown || v >= v20251125 }

const versionHeader = "Mcp-Protocol-Version"

// headerRevision returns the revision in the request's header. Without the header it is 2025-03-26,
// because later revisions require the header (MCP 2025-06-18, Transports, Protocol Version Header).
func headerRevision(header http.Header) revision {
	name, present := headerValue(header, versionHeader)
	if !present {
		return v20250326
	}
	return revisionOf(name)
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
