package mcpadapter

import "github.com/fairwayhq/fairway/tools"

// advisedStructure is the maximum size of structuredContent that hosts of MCP Apps recommend, in
// bytes.
const advisedStructure = 10 << 10

// noteLargeStructure calls Options.OnLargeStructure once per tool whose structuredContent is larger
// than advisedStructure.
func (s *Server) noteLargeStructure(t *tools.Tool, size int) {
	if s.options.OnLargeStructure == nil || t == nil {
		return
	}
	if _, reported := s.reportedTools.LoadOrStore(t.Name, true); !reported {
		s.options.OnLargeStructure(t, size)
	}
}
