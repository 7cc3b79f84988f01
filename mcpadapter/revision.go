package mcpadapter

import (
	"net/http"
	"slices"
	"strings"
)

// A revision is a published revision of the protocol. What it can do is asked
// of its methods, so that nothing else compares dates.
type revision uint8

const (
	unknown revision = iota // none that this server speaks
	v20241105
	v20250326
	v20250618
	v20251125
	v20260728
)

// newestInitialized is the newest revision that opens with initialize.
const newestInitialized = v20251125

// String returns the date that names the revision, "" for unknown.
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

// revisionOf returns the revision of that name, unknown if there is none.
func revisionOf(name string) revision {
	for v := v20241105; v <= v20260728; v++ {
		if v.String() == name {
			return v
		}
	}
	return unknown
}

// spokenOf returns the revisions of these names, newest first; all if there are
// none.
func spokenOf(names []string) (spoken []revision) {
	for v := v20260728; v > unknown; v-- {
		if len(names) == 0 || slices.Contains(names, v.String()) {
			spoken = append(spoken, v)
		}
	}
	return spoken
}

// Versions returns the names of all revisions there are, newest first.
func Versions() (names []string) {
	for _, v := range spokenOf(nil) {
		names = append(names, v.String())
	}
	return names
}

// speaks reports whether the server is to speak the revision.
func (s *Server) speaks(v revision) bool { return slices.Contains(s.spoken, v) }

// revisionOf returns the revision of that name if the server speaks it.
func (s *Server) revisionOf(name string) revision {
	if v := revisionOf(name); s.speaks(v) {
		return v
	}
	return unknown
}

// newestHandshaken returns the newest revision with initialize that the server
// speaks, unknown if there is none.
func (s *Server) newestHandshaken() revision {
	for _, v := range s.spoken {
		if !v.selfDescribing() {
			return v
		}
	}
	return unknown
}

// spokenText lists the revisions for people.
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

// appendSpoken appends the revisions as a JSON array.
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

// selfDescribing reports whether each request carries its own version and
// capabilities and no handshake comes before it.
func (v revision) selfDescribing() bool { return v >= v20260728 }

// batches reports whether a body may be an array of messages.
func (v revision) batches() bool { return v == v20250326 }

// annotates reports whether tools have annotations.
func (v revision) annotates() bool { return v >= v20250326 }

// primes reports whether a stream begins with an event that has an id and no
// data.
func (v revision) primes() bool { return v == v20251125 }

// titles reports whether tools and servers have a title beside their name.
func (v revision) titles() bool { return v >= v20250618 }

// structures reports whether a tool result may have structuredContent of that
// JSON kind: the first byte of the value.
func (v revision) structures(kind byte) bool {
	return v >= v20260728 || v >= v20250618 && kind == '{'
}

// omitsUnreadID reports whether an error about a message whose id cannot be read
// leaves the id out. Before, JSON-RPC 2.0 alone rules, and it is null.
func (v revision) omitsUnreadID() bool { return v == unknown || v >= v20251125 }

const versionHeader = "Mcp-Protocol-Version"

// headerRevision returns the revision that the request's header names: 2025-03-26
// if there is no header, since the revisions that know it demand it.
func headerRevision(header http.Header) revision {
	name, present := headerValue(header, versionHeader)
	if !present {
		return v20250326
	}
	return revisionOf(name)
}

// headerValue returns the only value of a field, without space around it. The
// name is in canonical form. A field that is sent twice has no value that both
// ends are sure to agree on and counts as "".
func headerValue(header http.Header, name string) (value string, present bool) {
	values := header[name]
	if len(values) != 1 {
		return "", len(values) > 0
	}
	return strings.Trim(values[0], " \t"), true
}
