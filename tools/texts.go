package tools

// WithTexts returns a Toolset with other titles and descriptions of tools. Change returns those of a tool, and whether the
// tool is kept. If nothing changes, WithTexts returns the original.
func (s *Toolset) WithTexts(change func(t *Tool) (title, description string, keep bool)) *Toolset {
	changed := *s
	changed.tools = make([]*Tool, 0, len(s.tools))
	var changes []string
	for _, t := range s.tools {
		title, description, keep := change(t)
		switch {
		case !keep:
			changes = append(changes, t.Name)
			continue
		case title != t.Definition.Title || description != t.Definition.Description:
			t = t.clone()
			t.Definition.Title, t.Definition.Description = title, description
			t.list()
			changes = append(changes, t.Name+"\x00"+title+"\x00"+description)
		}
		changed.tools = append(changed.tools, t)
	}
	if changes == nil {
		return s
	}
	changed.rehash("texts", changes)
	changed.index()
	return &changed
}
