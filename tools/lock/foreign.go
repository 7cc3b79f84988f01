package lock

import (
	"fmt"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
)

// Instructions is the Tool of a Change of what an MCP server says of itself: its title and its instructions. No tool has
// this name.
const Instructions = "instructions of the server"

// maxMember is how many bytes of a member of a definition an entry shows.
const maxMember = 1000

// describeDefinition returns the members of the definition of a tool of an MCP server. Those that are shown in full as
// another field of the entry are repeated only if a shape has changed that field.
func describeDefinition(f *tools.Foreign, e *entry) map[string]string {
	members := make(map[string]string)
	for walk := strictjson.Into(f.Definition); walk.Next(); {
		name := strictjson.Text(walk.Name)
		if value := strictjson.Text(walk.Value); name == "title" && value == e.Title || name == "description" && value == e.Description {
			continue
		}
		value := string(canonical(walk.Value))
		if len(value) > maxMember {
			value = fmt.Sprintf("%s (%d bytes, %s)", text.Cut(value, maxMember), len(value), short(value))
		}
		members[name] = value
	}
	return members
}

// compareServer returns how the title and the instructions of an MCP server differ from the lock.
func (l *Lock) compareServer(set *tools.Toolset) []Change {
	if !set.Foreign || l.document == set.Title && l.instructions == set.Description {
		return nil
	}
	lines := findingsOf(set, Instructions)
	lines = append(lines, differing("title: ", l.document, set.Title)...)
	lines = append(lines, differing("instructions: ", l.instructions, set.Description)...)
	return []Change{{Changed, Instructions, "the MCP server", bounded(lines)}}
}

// Server returns the title and the instructions of the MCP server that were approved.
func (l *Lock) Server() (title, instructions string) { return l.document, l.instructions }

// findingsOf returns what is suspicious in the texts of a tool, as lines that precede its differences.
func findingsOf(set *tools.Toolset, name string) (lines []string) {
	for _, w := range set.Report.Warnings {
		if w.Suspect == name && name != "" {
			lines = append(lines, "! "+oneLine(w.Reason))
		}
	}
	return lines
}
