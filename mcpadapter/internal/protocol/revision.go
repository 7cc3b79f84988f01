package protocol

import (
	"slices"
	"strings"
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
	for _, v := range s {
		if !v.Stateless() {
			return v
		}
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
	for i, v := range s {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), v.String()...), '"')
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
