package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools/build"
)

// A Merger makes one Toolset of the Toolsets of several documents. As long as these stay the same,
// Merge returns the same Toolset, by which adapters cache what they have encoded.
//
// Of several tools with a name, one keeps it. The others get the prefix of their Toolset: list and buses_list. mergedNames
// says which one, and how names stay stable.
type Merger struct {
	options MergeOptions
	names   mergedNames
	mu      sync.Mutex
	last    atomic.Pointer[mergedResult]
}

// result is a Toolset and the parts that it was made of.
type mergedResult struct {
	parts []*Toolset
	whole *Toolset
}

// MergeOptions are the options of NewMerger.
type MergeOptions struct {
	Prefixes []string                         // of the names of tools, one for each Toolset; see Prefix
	Finder   func(*Toolset) Finder            // makes the Finder; nil for none
	Yields   []bool                           // the Toolsets whose tools are left out if they do not get their plain names; nil for none
	Yielded  func(names []string)             // called with the names of tools that are left out; may be nil
	Moved    func(names []string)             // called with plain names that no tool has, since they would belong to another Toolset than before; may be nil
	Changed  func(previous, current *Toolset) // called for each new Toolset; previous is nil for the first; may be nil
}

// NewMerger returns a Merger. The prefixes must be different.
func NewMerger(o MergeOptions) (*Merger, error) {
	for i, prefix := range o.Prefixes {
		if !build.IsName(prefix) {
			return nil, fmt.Errorf("%q cannot be the prefix of names of tools", prefix)
		}
		if slices.Contains(o.Prefixes[:i], prefix) {
			return nil, fmt.Errorf("two toolsets have the prefix %s_ for names of their tools", prefix)
		}
	}
	return &Merger{options: o, names: mergedNames{make(map[string]nameKey), make(map[int]bool), make(map[string]bool)}}, nil
}

// MergePrefix returns the prefix for the names of the tools of a Toolset with that name, without the
// underscore that follows it. The extension of a document does not count. It is "" if the name has no letter and no digit.
func MergePrefix(toolset string) string {
	for _, extension := range []string{".json", ".yaml", ".yml"} {
		toolset = strings.TrimSuffix(toolset, extension)
	}
	return build.ShortenName(build.SanitizeName(toolset))
}

// Merge returns the Toolset of all tools of the parts, in their order. There is one part for each
// prefix; a part is nil if its document is not loaded. Merge returns nil if all are.
func (m *Merger) Merge(parts ...*Toolset) *Toolset {
	if last := m.last.Load(); last != nil && slices.Equal(last.parts, parts) {
		return last.whole
	}
	if !slices.ContainsFunc(parts, func(part *Toolset) bool { return part != nil }) {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.last.Load()
	if last == nil {
		last = new(mergedResult)
	} else if slices.Equal(last.parts, parts) {
		return last.whole
	}
	current := &mergedResult{parts: slices.Clone(parts)}
	assigned := m.names.assign(&m.options, parts)
	left, names, yielded := assigned.withoutYielded()
	current.whole = m.merge(left, names)
	m.last.Store(current)
	if m.options.Yielded != nil && len(yielded) > 0 {
		m.options.Yielded(yielded)
	}
	if m.options.Moved != nil && len(assigned.report) > 0 {
		m.options.Moved(assigned.report)
	}
	if m.options.Changed != nil {
		m.options.Changed(last.whole, current.whole)
	}
	return current.whole
}

// maxDescription limits the description of a merged Toolset, in bytes. The descriptions of
// the documents get equal shares.
const maxDescription = 2000

// merge makes the Toolset of the parts.
func (m *Merger) merge(parts []*Toolset, names [][]string) *Toolset {
	s := Join(parts, names)
	sum := sha256.New()
	var toolsets, titles, descriptions, versions []string
	loaded := len(s.Parts())
	for i, part := range parts {
		if part == nil {
			continue
		}
		if part.Name != "" {
			toolsets = append(toolsets, part.Name)
		}
		titles = appendNew(titles, part.Title)
		versions = appendNew(versions, part.Version)
		if part.Description != "" {
			descriptions = append(descriptions, strings.TrimPrefix(part.Title+": ", ": ")+text.Cut(part.Description, maxDescription/loaded))
		}
		s.Report.Operations += part.Report.Operations
		s.Report.Excluded += part.Report.Excluded
		s.Report.Warnings = append(s.Report.Warnings, part.Report.Warnings...)
		if s.MCP == nil {
			s.MCP = part.MCP
		}
		fmt.Fprintf(sum, "%s\x00%s\x00", m.options.Prefixes[i], part.Hash)
		for _, name := range names[i] {
			fmt.Fprintf(sum, "%s\x00", name)
		}
	}
	s.Name, s.Title, s.Version = strings.Join(toolsets, "-"), strings.Join(titles, ", "), strings.Join(versions, "+")
	s.Description = strings.Join(descriptions, "\n\n")
	s.Hash = hex.EncodeToString(sum.Sum(nil))
	if m.options.Finder != nil {
		s.Finder = m.options.Finder(s)
	}
	return s
}

// appendNew appends a text that is neither empty nor in the list.
func appendNew(list []string, source string) []string {
	if source == "" || slices.Contains(list, source) {
		return list
	}
	return append(list, source)
}

// joined describes the parts of a Toolset of several documents.
type joined struct {
	parts     []*Toolset          // nil for a part that is not loaded
	originals map[string]partTool // by the name in the joined Toolset
}

// partTool is a tool of one part.
type partTool struct {
	part int
	tool *Tool
}

// Join returns the Toolset of all tools of the parts, in their order. A part is nil if its document is
// not loaded. Names holds the name in the new Toolset for each tool of each part; the names must be
// unique. The caller sets the fields that describe the Toolset. See package tools.
func Join(parts []*Toolset, names [][]string) *Toolset {
	s := &Toolset{joined: &joined{parts: parts, originals: make(map[string]partTool)}}
	for i, part := range parts {
		if part == nil {
			continue
		}
		for j, own := range part.tools {
			t := own
			if name := names[i][j]; name != own.Name {
				t = own.clone()
				t.Name = name
			}
			s.tools = append(s.tools, t)
			s.joined.originals[t.Name] = partTool{i, own}
		}
	}
	s.index()
	return s
}

// Parts returns the Toolsets that Join has combined in this one, without those that are not loaded.
// If Join has not made this Toolset, Parts returns the Toolset itself.
func (s *Toolset) Parts() []*Toolset {
	if s.joined == nil {
		return []*Toolset{s}
	}
	return slices.DeleteFunc(slices.Clone(s.joined.parts), func(part *Toolset) bool { return part == nil })
}

// LacksPart reports whether Join had to leave out a document that is not loaded.
func (s *Toolset) LacksPart() bool { return s.joined != nil && slices.Contains(s.joined.parts, nil) }

// Original returns the position of the part that a tool belongs to, and the tool of that part, which
// may have another name. If Join has not made the Toolset, or if the tool is built in, it returns -1
// and the same tool.
func (s *Toolset) Original(t *Tool) (part int, own *Tool) {
	if s.joined == nil || t.Builtin != "" {
		return -1, t
	}
	if home, ok := s.joined.originals[t.Name]; ok {
		return home.part, home.tool
	}
	return -1, t
}

// PartOf returns the Toolset of the document that a tool belongs to. It is the Toolset itself unless
// Join has made it. Names such as those of security schemes are defined by that document.
func (s *Toolset) PartOf(t *Tool) *Toolset {
	if part, _ := s.Original(t); part >= 0 {
		return s.joined.parts[part]
	}
	return s
}

// NameIn returns the name that a tool of the part at this position has in the Toolset. It is "" if there
// is no such tool.
func (s *Toolset) NameIn(part int, name string) string {
	if s.joined == nil {
		return name
	}
	for _, t := range s.tools {
		if home := s.joined.originals[t.Name]; home.part == part && home.tool.Name == name {
			return t.Name
		}
	}
	return ""
}
