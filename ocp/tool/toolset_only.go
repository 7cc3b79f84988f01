package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
)

// Only returns a Toolset with the tools for which keep returns true, in the same order.
// The tools and the information about the document are shared; the Hash is different.
func (s *Toolset) Only(keep func(*Tool) bool) *Toolset {
	narrow := *s
	narrow.tools = nil
	narrow.byName = make(map[string]*Tool)
	sum := sha256.New()
	sum.Write([]byte(s.Hash))
	for _, t := range s.tools {
		if !keep(t) {
			continue
		}
		narrow.tools = append(narrow.tools, t)
		narrow.byName[t.Name] = t
		sum.Write([]byte("\x00" + t.Name))
	}
	narrow.Hash = hex.EncodeToString(sum.Sum(nil))
	narrow.SecuritySchemes = maps.Clone(s.SecuritySchemes)
	return &narrow
}
