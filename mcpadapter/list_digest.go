package mcpadapter

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/fairwayhq/fairway/ocp"
)

// listDigests tell one state of the lists from another: of tools, prompts and
// resources, in the order of notifications. They are short, because the id of a
// session and of an event carry them; two states that happen to have the same digest
// cost a client one notification.
type listDigests [3]uint32

// digest computes the digests of a catalog. Files in folders are not part of it: they
// come and go without a new catalog.
func (c *catalog) digest() (d listDigests) {
	sum := sha256.New()
	var b []byte
	for _, tool := range c.visible {
		b = c.decorate(c.server.appendTool(b[:0], tool, v20260728), tool, v20260728)
		sum.Write(b)
	}
	d[0] = binary.BigEndian.Uint32(sum.Sum(nil))
	for i, list := range [][]byte{c.shelf().appendPrompts(nil), c.shelf().appendResources(nil)} {
		sum := sha256.Sum256(list)
		d[i+1] = binary.BigEndian.Uint32(sum[:])
	}
	return d
}

// changes returns which lists differ.
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

// listDigestSize is how many bytes appendTo appends.
const listDigestSize = 3 * 4

func readListDigests(raw []byte) (d listDigests) {
	for i := range d {
		d[i] = binary.BigEndian.Uint32(raw[4*i:])
	}
	return d
}

// eventID returns the id of an event after which the client knows these lists. No two
// events may have the same id, so suffix must be unique.
func (d listDigests) eventID(suffix string) string {
	return hex.EncodeToString(d.appendTo(nil)) + "." + suffix
}

// digestsOfEvent returns the lists that a client knows which saw this event last.
func digestsOfEvent(id string) (d listDigests, ok bool) {
	text, _, _ := strings.Cut(id, ".")
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != listDigestSize {
		return d, false
	}
	return readListDigests(raw), true
}

// digests returns those of the tools, for users that may see everything.
func (s *Server) digests(tools *ocp.Toolset) listDigests {
	return s.catalogOf(tools).digests()
}

// current returns the digests of the Server's tools of the moment. It is not ok if
// they are not known yet.
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
