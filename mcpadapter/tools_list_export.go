package mcpadapter

import (
	"io"

	"github.com/fairwayhq/fairway/ocp/tool"
)

// WriteTools writes the result of tools/list as one page, {"tools":[…]}, in the newest enabled
// revision with initialize. Each tool is on a line of its own and is written before the next one is
// encoded.
func (s *Server) WriteTools(out io.Writer, tools *tool.Toolset) error {
	c, v := s.newCatalog(tools, nil), s.enabled.NewestStateful()
	b := []byte(`{"tools":[`)
	for i, tool := range c.visible {
		if i > 0 {
			b = append(b, ',')
		}
		b = c.decorate(s.appendTool(append(b, '\n'), tool, v), tool, v)
		if _, err := out.Write(b); err != nil {
			return err
		}
		b = b[:0]
	}
	_, err := out.Write(append(b, "\n]}\n"...))
	return err
}
