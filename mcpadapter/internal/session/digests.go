package session

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// Digests are hashes of the lists of tools, prompts and resources, in this order. They show a returning client which lists have changed. They are short, because
// session ids and event ids contain them; a collision costs a client one notification.
type Digests [3]uint32

// Changes returns the lists whose digests differ.
func (d Digests) Changes(now Digests) (c Lists) {
	for i := range d {
		if d[i] != now[i] {
			c |= notifications[i].list
		}
	}
	return c
}

// AppendTo appends the digests in binary form, digestSize bytes.
func (d Digests) AppendTo(dst []byte) []byte {
	for _, digest := range d {
		dst = binary.BigEndian.AppendUint32(dst, digest)
	}
	return dst
}

// digestSize is the number of bytes that AppendTo appends.
const digestSize = 3 * 4

// readDigests is the inverse of AppendTo. raw must have at least digestSize bytes.
func readDigests(raw []byte) (d Digests) {
	for i := range d {
		d[i] = binary.BigEndian.Uint32(raw[4*i:])
	}
	return d
}

// EventID returns the id of a stream event after which the client knows these lists. Event ids must
// be unique, so suffix must be unique (MCP 2025-11-25, Streamable HTTP, Resumability and
// Redelivery).
func (d Digests) EventID(suffix string) string {
	return hex.EncodeToString(d.AppendTo(nil)) + "." + suffix
}

// DigestsOfEvent returns the digests in an event id: the lists that the client knows if this is the
// last event it received.
func DigestsOfEvent(id string) (d Digests, ok bool) {
	text, _, _ := strings.Cut(id, ".")
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != digestSize {
		return d, false
	}
	return readDigests(raw), true
}
