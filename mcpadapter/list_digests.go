package mcpadapter

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// listDigests are hashes of the lists of tools, prompts and resources, in the order of
// notifications. They show a returning client which lists have changed. They are short, because
// session ids and event ids contain them; a collision costs a client one notification.
type listDigests [3]uint32

// digest computes the digests of a catalog. Files in folders are left out, because they change
// without a new catalog.
func (c *catalog) digest() (d listDigests) {
	sum := sha256.New()
	var b []byte
	for _, tool := range c.visible {
		b = c.decorate(c.server.appendTool(b[:0], tool, revision.V20260728), tool, revision.V20260728)
		sum.Write(b)
	}
	d[0] = binary.BigEndian.Uint32(sum.Sum(nil))
	for i, list := range [][]byte{c.index().AppendPrompts(nil), c.index().AppendResources(nil)} {
		sum := sha256.Sum256(list)
		d[i+1] = binary.BigEndian.Uint32(sum[:])
	}
	return d
}

// changes returns the lists whose digests differ.
func (d listDigests) changes(now listDigests) (c Change) {
	for i, n := range notifications {
		if d[i] != now[i] {
			c |= n.change
		}
	}
	return c
}

func (d listDigests) appendTo(dst []byte) []byte {
	for _, digest := range d {
		dst = binary.BigEndian.AppendUint32(dst, digest)
	}
	return dst
}

// listDigestSize is the number of bytes that appendTo appends.
const listDigestSize = 3 * 4

func readListDigests(raw []byte) (d listDigests) {
	for i := range d {
		d[i] = binary.BigEndian.Uint32(raw[4*i:])
	}
	return d
}

// eventID returns the id of a stream event after which the client knows these lists. Event ids must
// be unique, so suffix must be unique (MCP 2025-11-25, Streamable HTTP, Resumability and
// Redelivery).
func (d listDigests) eventID(suffix string) string {
	return hex.EncodeToString(d.appendTo(nil)) + "." + suffix
}

// digestsOfEvent returns the digests in an event id: the lists that the client knows if this is the
// last event it received.
func digestsOfEvent(id string) (d listDigests, ok bool) {
	text, _, _ := strings.Cut(id, ".")
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != listDigestSize {
		return d, false
	}
	return readListDigests(raw), true
}

// digests returns the digests of the unrestricted catalog.
func (s *Server) digests(tools *tool.Toolset) listDigests {
	return s.catalogOf(tools).digests()
}

// current returns the digests of the Server's current tools. ok is false if they are not loaded yet.
func (s *Server) current() (d listDigests, ok bool) {
	if s.options.Current == nil {
		return d, false
	}
	tools := s.options.Current()
	if tools == nil {
		return d, false
	}
	return s.digests(tools), true
}
