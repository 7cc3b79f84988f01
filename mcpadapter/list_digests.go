package mcpadapter

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/mcpadapter/internal/subscription"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// digest computes the digests of a catalog. Files in folders are left out, because they change
// without a new catalog.
func (c *catalog) digest() (d subscription.Digests) {
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

// digests returns the digests of the unrestricted catalog.
func (s *Server) digests(tools *tool.Toolset) subscription.Digests {
	return s.catalogOf(tools).digests()
}

// successor returns the digests of the Server that replaces this one.
func (s *Server) successor() (d subscription.Digests, ok bool) {
	next := s.next.Load()
	if next == nil {
		return d, false
	}
	return next.current()
}

// current returns the digests of the Server's current tools. ok is false if they are not loaded yet.
func (s *Server) current() (d subscription.Digests, ok bool) {
	if s.options.Current == nil {
		return d, false
	}
	tools := s.options.Current()
	if tools == nil {
		return d, false
	}
	return s.digests(tools), true
}
