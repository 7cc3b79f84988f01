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
// A tool keeps its name if no tool of another document has it. Otherwise all tools with the name get
// the prefix of their Toolset: trains_list and buses_list. Names says how names stay stable.
type Merger struct {
	options MergeOptions
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
	Names    *MergedNames                     // may be shared by Mergers with the same prefixes; nil for new ones
	Finder   func(*Toolset) Finder            // makes the Finder; nil for none
	Yields   []bool                           // the Toolsets whose tools are left out if another one has a tool with the name; nil for none
	Yielded  func(names []string)             // called with the names of tools that are left out; may be nil
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
	if o.Names == nil {
		o.Names = NewMergedNames()
	}
	return &Merger{options: o}, nil
}

// MergePrefix returns the prefix for the names of the tools of a Toolset with that name, without the
// underscore that follows it. It is "" if the name has no letter and no digit.
func MergePrefix(toolset string) string { return build.ShortenName(build.SanitizeName(toolset)) }

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
	current.whole = m.merge(m.yield(parts))
	m.last.Store(current)
	if m.options.Changed != nil {
		m.options.Changed(last.whole, current.whole)
	}
	return current.whole
}

// yield returns the parts without the tools that are left out because of Yields.
func (m *Merger) yield(parts []*Toolset) []*Toolset {
	if !slices.Contains(m.options.Yields, true) {
		return parts
	}
	count := make(map[string]int)
	for _, part := range parts {
		if part != nil {
			for _, t := range part.Tools() {
				count[t.Name]++
			}
		}
	}
	left, names := slices.Clone(parts), []string(nil)
	for i, part := range parts {
		if part == nil || !m.options.Yields[i] {
			continue
		}
		unique := func(t *Tool) bool { return t.IsRequest() || count[t.Name] == 1 }
		for _, t := range part.Tools() {
			if !unique(t) {
				names = append(names, m.options.Prefixes[i]+"."+t.Name)
			}
		}
		left[i] = part.Only(unique)
	}
	if m.options.Yielded != nil && len(names) > 0 {
		m.options.Yielded(names)
	}
	return left
}

// maxDescription limits the description of a merged Toolset, in bytes. The descriptions of
// the documents get equal shares.
const maxDescription = 2000

// merge makes the Toolset of the parts.
func (m *Merger) merge(parts []*Toolset) *Toolset {
	names := m.options.Names.assign(m.options.Prefixes, parts)
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
