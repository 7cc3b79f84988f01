package mcpadapter

import (
	"sync"

	"github.com/fairwayhq/fairway/ocp/tool"
)

// advisedStructure is the maximum size of structuredContent that hosts of MCP Apps recommend, in
// bytes.
const advisedStructure = 10 << 10

// maxNoted is the maximum number of tools whose large results are reported.
const maxNoted = 4096

// noteLargeStructure calls Options.OnLargeStructure once per tool whose structuredContent is larger
// than advisedStructure.
func (s *Server) noteLargeStructure(tool *tool.Tool, size int) {
	if s.options.OnLargeStructure == nil || tool == nil {
		return
	}
	if s.reportedTools.first(tool.Name) {
		s.options.OnLargeStructure(tool, size)
	}
}

// reportedTools holds the names of the tools that were reported.
type reportedTools struct {
	mu    sync.Mutex
	tools map[string]struct{}
}

// first reports whether the name is new, and adds it.
func (n *reportedTools) first(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.tools[name]; known || len(n.tools) >= maxNoted {
		return false
	}
	if n.tools == nil {
		n.tools = make(map[string]struct{})
	}
	n.tools[name] = struct{}{}
	return true
}
