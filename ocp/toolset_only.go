package ocp

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
)

// Only returns the Toolset with those of its tools that keep wants, in their
// order. The tools are the same, and all else is said of the document as it was;
// the Hash is another one.
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
