package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/ocp/internal/naming"
)

// A Merger makes one Toolset of the Toolsets of several documents. As long as these stay the same,
// Merge returns the same Toolset, by which adapters cache what they have encoded.
//
// A tool keeps its name if no tool of another document has it. Otherwise all tools with the name get
// the prefix of their Toolset: trains_list and buses_list. MergedNames says how names stay stable.
type Merger struct {
	options MergerOptions
	mu      sync.Mutex
	last    atomic.Pointer[Toolset]
}

// MergerOptions are the options of NewMerger.
type MergerOptions struct {
	Prefixes []string                         // of the names of tools, one for each Toolset; see MergePrefix
	Names    *MergedNames                     // may be shared by Mergers with the same prefixes; nil for new ones
	Finder   func([]*Tool) Finder             // makes the Finder; nil for none
	Changed  func(previous, current *Toolset) // called for each new Toolset; previous is nil for the first; may be nil
}

// NewMerger returns a Merger. The prefixes must be different.
func NewMerger(o MergerOptions) (*Merger, error) {
	for i, prefix := range o.Prefixes {
		if !naming.IsName(prefix) {
			return nil, fmt.Errorf("%q cannot be the prefix of names of tools", prefix)
		}
		if slices.Contains(o.Prefixes[:i], prefix) {
			return nil, fmt.Errorf("two toolsets have the prefix %s_ for names of their tools", prefix)
		}
	}
	if o.Names == nil {
		o.Names = NewMergedNames()
	}
	return &Merger{options: o}, nil
}

// MergePrefix returns the prefix for the names of the tools of a Toolset with that name, without the
// underscore that follows it. It is "" if the name has no letter and no digit.
func MergePrefix(toolset string) string { return naming.Shorten(naming.Sanitize(toolset)) }

// Merge returns the Toolset of all tools of the parts, in their order. There is one part for each
// prefix; a part is nil if its document is not loaded. Merge returns nil if all are.
func (m *Merger) Merge(parts ...*Toolset) *Toolset {
	if last := m.last.Load(); last != nil && slices.Equal(last.merged.parts, parts) {
		return last
	}
	if !slices.ContainsFunc(parts, func(part *Toolset) bool { return part != nil }) {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.last.Load()
	if last != nil && slices.Equal(last.merged.parts, parts) {
		return last
	}
	current := m.merge(slices.Clone(parts))
	m.last.Store(current)
	if m.options.Changed != nil {
		m.options.Changed(last, current)
	}
	return current
}

// merged says what a Toolset of several documents is made of.
type merged struct {
	parts []*Toolset          // nil for a part that is not loaded
	homes map[string]partTool // by the name in the merged Toolset
}

// partTool is a tool of one part.
type partTool struct {
	part int
	tool *Tool
}

// maxMergedDescription limits the description of a merged Toolset, in bytes. The descriptions of
// the documents get equal shares.
const maxMergedDescription = 2000

// merge makes the Toolset of the parts.
func (m *Merger) merge(parts []*Toolset) *Toolset {
	s := &Toolset{merged: &merged{parts: parts, homes: make(map[string]partTool)}}
	names := m.options.Names.assign(m.options.Prefixes, parts)
	sum := sha256.New()
	var toolsets, titles, descriptions, versions []string
	loaded := m.loaded(parts)
	for i, part := range parts {
		if part == nil {
			continue
		}
		toolsets = append(toolsets, part.Name)
		titles = appendNew(titles, part.Title)
		versions = appendNew(versions, part.Version)
		if part.Description != "" {
			descriptions = append(descriptions, strings.TrimPrefix(part.Title+": ", ": ")+text.Cut(part.Description, maxMergedDescription/loaded))
		}
		s.Operations += part.Operations
		s.Excluded += part.Excluded
		s.Warnings = append(s.Warnings, part.Warnings...)
		if s.MCP == nil {
			s.MCP = part.MCP
		}
		fmt.Fprintf(sum, "%s\x00%s\x00", m.options.Prefixes[i], part.Hash)
		for j, own := range part.tools {
			t := own
			if name := names[i][j]; name != own.Name {
				t = own.clone()
				t.Name = name
			}
			s.tools = append(s.tools, t)
			s.merged.homes[t.Name] = partTool{i, own}
			fmt.Fprintf(sum, "%s\x00", t.Name)
		}
	}
	s.Name, s.Title, s.Version = strings.Join(toolsets, "-"), strings.Join(titles, ", "), strings.Join(versions, "+")
	s.Description = strings.Join(descriptions, "\n\n")
	s.Hash = hex.EncodeToString(sum.Sum(nil))
	s.index()
	if m.options.Finder != nil {
		s.Finder = m.options.Finder(s.tools)
	}
	return s
}

// loaded returns the number of parts that are loaded.
func (m *Merger) loaded(parts []*Toolset) (count int) {
	for _, part := range parts {
		if part != nil {
			count++
		}
	}
	return count
}

// appendNew appends a text that is neither empty nor in the list.
func appendNew(list []string, text string) []string {
	if text == "" || slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// Parts returns the Toolsets that a Merger has made this one of, without those that are not loaded.
// For all other Toolsets it returns the Toolset itself.
func (s *Toolset) Parts() []*Toolset {
	if s.merged == nil {
		return []*Toolset{s}
	}
	return slices.DeleteFunc(slices.Clone(s.merged.parts), func(part *Toolset) bool { return part == nil })
}

// Own returns the position of the part that a tool belongs to, and the tool as the part has it, with
// its own name. The position is -1, and the tool is the same, if a Merger has not made the Toolset or if the tool
// is a built-in one.
func (s *Toolset) Own(t *Tool) (part int, own *Tool) {
	if s.merged == nil || t.Builtin != "" {
		return -1, t
	}
	if home, ok := s.merged.homes[t.Name]; ok {
		return home.part, home.tool
	}
	return -1, t
}

// PartOf returns the Toolset of the document that a tool belongs to. It is the Toolset itself unless a
// Merger has made it. The names of security schemes, for one, have the meaning that this document
// gives them.
func (s *Toolset) PartOf(t *Tool) *Toolset {
	if part, _ := s.Own(t); part >= 0 {
		return s.merged.parts[part]
	}
	return s
}

// NameIn returns the name that a tool of the part at this position has in the Toolset. It is "" if there
// is no such tool.
func (s *Toolset) NameIn(part int, name string) string {
	if s.merged == nil {
		return name
	}
	for _, t := range s.tools {
		if home := s.merged.homes[t.Name]; home.part == part && home.tool.Name == name {
			return t.Name
		}
	}
	return ""
}

// maxRemembered is the number of names that MergedNames remembers.
const maxRemembered = 1 << 16

// MergedNames holds the names that tools of several documents have got, so that a name never comes
// to mean a tool of another document while the program runs, however the documents change:
//
//   - Where two documents had the same name once, both tools keep their prefixes.
//   - A name without prefix stays with its document. If the document loses the tool and another
//     document gets one with the name, that one has its prefix.
//
// It is safe for concurrent use.
type MergedNames struct {
	mu        sync.Mutex
	owners    map[string]nameKey  // by the name in the merged Toolset
	contested map[string]struct{} // names that several documents have had at once
}

// nameKey identifies a tool of a part.
type nameKey struct{ prefix, name string }

// prefixed returns the name with its prefix.
func (k nameKey) prefixed() string { return naming.Shorten(k.prefix + "_" + k.name) }

// unique returns a name with the prefix that no other tool has. It is for the rare case that another
// tool has the name that prefixed returns.
func (k nameKey) unique() string {
	sum := sha256.Sum256([]byte(k.prefix + "\x00" + k.name))
	suffix := "_" + hex.EncodeToString(sum[:4])
	name := k.prefix + "_" + k.name
	return name[:min(len(name), naming.MaxLength-len(suffix))] + suffix
}

// NewMergedNames returns MergedNames without names.
func NewMergedNames() *MergedNames {
	return &MergedNames{owners: make(map[string]nameKey), contested: make(map[string]struct{})}
}

// assign returns the names of the tools of each part.
func (n *MergedNames) assign(prefixes []string, parts []*Toolset) [][]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.forget()
	plain, prefixed := make(map[string]int), make(map[string]int)
	each := func(do func(part, at int, key nameKey)) {
		for i, part := range parts {
			if part == nil {
				continue
			}
			for j, t := range part.tools {
				do(i, j, nameKey{prefixes[i], t.Name})
			}
		}
	}
	each(func(_, _ int, key nameKey) { plain[key.name]++ })
	for name, count := range plain {
		if count > 1 {
			n.contested[name] = struct{}{}
		}
	}
	names := make([][]string, len(parts))
	each(func(part, at int, key nameKey) {
		if names[part] == nil {
			names[part] = make([]string, len(parts[part].tools))
		}
		if _, contested := n.contested[key.name]; !contested && n.isFree(key.name, key) {
			names[part][at] = key.name
		} else {
			prefixed[key.prefixed()]++
		}
	})
	each(func(part, at int, key nameKey) {
		if names[part][at] != "" {
			return
		}
		name := key.prefixed()
		if owner, owned := n.owners[name]; owned && owner != key || !owned && (plain[name] > 0 || prefixed[name] > 1) {
			name = key.unique()
		}
		names[part][at] = name
	})
	each(func(part, at int, key nameKey) { n.owners[names[part][at]] = key })
	return names
}

// isFree reports whether no other tool has had the name.
func (n *MergedNames) isFree(name string, key nameKey) bool {
	owner, owned := n.owners[name]
	return !owned || owner == key
}

// forget makes room if too many names are remembered.
func (n *MergedNames) forget() {
	if len(n.owners) > maxRemembered || len(n.contested) > maxRemembered {
		clear(n.owners)
		clear(n.contested)
	}
}
