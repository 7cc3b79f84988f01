package tools

import "slices"

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
