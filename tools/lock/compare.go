package lock

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/aryann/difflib"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
)

// Limits of the text of a Change.
const (
	maxLines    = 30  // lines of one change
	maxLine     = 400 // bytes of a line
	diffContext = 30  // bytes before the first difference of two texts

	// maxCompared limits the comparison of two texts by lines: the product of their changed lines. Beyond it, all lines between
	// the first and the last difference count as changed.
	maxCompared = 1 << 16
)

// Kind is the kind of a Change.
type Kind string

// The kinds of changes.
const (
	New     Kind = "new"     // the lock does not have the tool
	Changed Kind = "changed" // the tool differs from the tool in the lock
	Gone    Kind = "gone"    // only the lock has the tool
)

// A Change is the difference between one tool and the lock.
type Change struct {
	Kind      Kind     `json:"change"`
	Tool      string   `json:"tool"`
	Operation string   `json:"operation"` // of the current tool; if it is gone, of the tool in the lock
	Lines     []string `json:"diff"`      // a diff for people: "- " precedes the tool in the lock, "+ " the current tool; limited
}

// OtherError reports a lock that shares no tool with a document that has another title.
type OtherError struct {
	Locked, Document string // titles
}

func (e *OtherError) Error() string {
	return fmt.Sprintf("the lock is of another document: it approves tools of %q, and none of them is a tool of %q: give the lock of this document, or %s",
		e.Locked, e.Document, approve)
}

// Check returns an *OtherError if the lock was made for another document.
func (l *Lock) Check(set *tools.Toolset) error {
	if len(l.tools) == 0 || len(set.Tools()) == 0 || l.document == set.Title ||
		slices.ContainsFunc(set.Tools(), func(t *tools.Tool) bool { return l.tools[t.Name] != nil }) {
		return nil
	}
	return &OtherError{text.Cut(l.document, maxLine), text.Cut(set.Title, maxLine)}
}

// Compare returns how the tools of a toolset differ from the lock: changed ones and new ones in the
// order of the document, then those that are gone, by name.
func (l *Lock) Compare(set *tools.Toolset) []Change {
	current := Of(set)
	var changed, added, gone []Change
	for _, t := range set.Tools() {
		now := current.tools[t.Name]
		switch was := l.tools[t.Name]; {
		case was == nil:
			added = append(added, Change{New, t.Name, now.Operation, append(findingsOf(set, t.Name), now.lines("+ ")...)})
		case !was.same(now):
			changed = append(changed, Change{Changed, t.Name, now.Operation, append(findingsOf(set, t.Name), compare(was, now, set)...)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.tools)) {
		if current.tools[name] == nil {
			line := "- " + l.tools[name].Operation
			if i := slices.IndexFunc(set.Tools(), func(t *tools.Tool) bool { return t.Unshaped.Former == name }); i >= 0 {
				line += text.NowNamed(set.Tools()[i].Name)
			}
			gone = append(gone, Change{Gone, name, l.tools[name].Operation, []string{line}})
		}
	}
	return slices.Concat(l.compareServer(set), changed, added, gone)
}

// Withheld returns the names of the tools that are changed or new.
func Withheld(changes []Change) map[string]bool {
	names := make(map[string]bool)
	for i := range changes {
		if changes[i].Kind != Gone {
			names[changes[i].Tool] = true
		}
	}
	return names
}

// Count returns the number of changes of a kind, and the names of the first ones.
func Count(changes []Change, kind Kind, most int) (count int, names []string) {
	for i := range changes {
		if changes[i].Kind != kind {
			continue
		}
		if count++; count <= most {
			names = append(names, changes[i].Tool)
		}
	}
	return count, names
}

// lines describes a whole tool.
func (e *entry) lines(sign string) []string {
	lines := []string{sign + e.Operation}
	if e.Title != "" {
		lines = append(lines, sign+"title: "+oneLine(e.Title))
	}
	for line := range strings.SplitSeq(e.Description, "\n") {
		lines = append(lines, sign+"description: "+oneLine(line))
	}
	for _, name := range slices.Sorted(maps.Keys(e.Hints)) {
		lines = append(lines, fmt.Sprintf("%s%s: %t", sign, oneLine(name), e.Hints[name]))
	}
	if len(e.Arguments) > 0 {
		lines = append(lines, sign+"arguments: "+oneLine(strings.Join(slices.Sorted(maps.Keys(e.Arguments)), " ")))
	}
	for _, member := range slices.Sorted(maps.Keys(e.Definition)) {
		lines = append(lines, sign+oneLine(member)+": "+oneLine(e.Definition[member]))
	}
	return bounded(lines)
}

// compare describes the differences between two versions of a tool.
func compare(was, now *entry, set *tools.Toolset) []string {
	lines := differing("", was.Operation, now.Operation)
	lines = append(lines, differing("title: ", was.Title, now.Title)...)
	lines = append(lines, differing("description: ", was.Description, now.Description)...)
	lines = append(lines, differing("select: ", was.Select, now.Select)...)
	for _, name := range sortedKeys(was.Hints, now.Hints) {
		lines = append(lines, differing(name+": ", shown(was.Hints, name), shown(now.Hints, name))...)
	}
	for _, name := range sortedKeys(was.Arguments, now.Arguments) {
		before, had := was.Arguments[name]
		after, has := now.Arguments[name]
		switch {
		case !has:
			line := "- argument " + oneLine(name)
			if t, _ := set.Tool(now.Name); t.RenamedArgument(name) != "" {
				line += text.NowNamed(t.RenamedArgument(name))
			}
			lines = append(lines, line)
		case !had:
			lines = append(lines, "+ argument "+oneLine(name)+": "+schemaOf(set, now.Name, name))
		case before != after:
			lines = append(lines, "  argument "+oneLine(name)+" changed, and is now: "+schemaOf(set, now.Name, name))
		}
	}
	for _, name := range sortedKeys(was.Filled, now.Filled) {
		before, had := was.Filled[name]
		after, has := now.Filled[name]
		switch {
		case !has:
			lines = append(lines, "- the gateway sends "+oneLine(name))
		case !had:
			lines = append(lines, "+ the gateway sends "+oneLine(name))
		case before != after:
			lines = append(lines, "  the value that the gateway sends as "+oneLine(name)+" changed")
		}
	}
	for _, member := range sortedKeys(was.Definition, now.Definition) {
		lines = append(lines, differing(member+": ", was.Definition[member], now.Definition[member])...)
	}
	if was.Response != now.Response && was.Response != "" && now.Response != "" {
		lines = append(lines, "  the schema of responses changed")
	}
	if len(lines) == 0 {
		lines = append(lines, "  the schemas that arguments share ($defs), the order of arguments, the media type of the body, the security requirements, "+
			"x-mcp, the use of OCP context, or the digest in the lock changed")
	}
	return bounded(lines)
}

// shown returns a hint as text, or "" if it is not set.
func shown(hints map[string]bool, name string) string {
	if value, set := hints[name]; set {
		return fmt.Sprint(value)
	}
	return ""
}

// sortedKeys returns the keys of both maps.
func sortedKeys[V any](a, b map[string]V) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}

// schemaOf returns the argument of a tool as a line.
func schemaOf(set *tools.Toolset, name, argument string) string {
	t, _ := set.Tool(name)
	for i := range t.Definition.Arguments {
		if a := &t.Definition.Arguments[i]; a.Name == argument {
			required := ""
			if a.Required {
				required = "required, "
			}
			return oneLine(fmt.Sprintf("%sin %s, %s", required, a.In, a.Schema))
		}
	}
	return ""
}

// differing returns lines for two texts that differ: the lines that only one of them has. If one line became
// another, both begin shortly before the first difference, so that they show a change at the end of a long line.
func differing(name, was, now string) []string {
	if was == now {
		return nil
	}
	before, after := changedLines(was, now)
	cut := 0
	if len(before) == 1 && len(after) == 1 {
		cut = max(commonPrefix(before[0], after[0])-diffContext, 0)
	}
	var lines []string
	for _, side := range []struct {
		sign  string
		lines []string
	}{{"- ", before}, {"+ ", after}} {
		for _, line := range side.lines {
			if line = strings.ToValidUTF8(line[cut:], ""); line == "" {
				continue
			}
			if cut > 0 {
				line = "…" + line
			}
			lines = append(lines, side.sign+oneLine(name)+oneLine(line))
		}
	}
	if len(lines) == 0 {
		lines = append(lines, "  "+oneLine(name)+"empty lines changed")
	}
	return lines
}

// changedLines returns the lines of each text that the other one does not have at that place.
func changedLines(was, now string) (before, after []string) {
	before, after = strings.Split(was, "\n"), strings.Split(now, "\n")
	for len(before) > 0 && len(after) > 0 && before[0] == after[0] {
		before, after = before[1:], after[1:]
	}
	for len(before) > 0 && len(after) > 0 && before[len(before)-1] == after[len(after)-1] {
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	if len(before)*len(after) > maxCompared {
		return before, after
	}
	var removed, added []string
	for _, record := range difflib.Diff(before, after) {
		switch record.Delta {
		case difflib.LeftOnly:
			removed = append(removed, record.Payload)
		case difflib.RightOnly:
			added = append(added, record.Payload)
		}
	}
	return removed, added
}

// commonPrefix returns the number of bytes that both texts begin with.
func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// oneLine returns a text as one short line. Characters that could hide text or move the cursor of a
// terminal are replaced by a visible character.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
	return text.Cut(s, maxLine)
}

// bounded returns at most maxLines lines.
func bounded(lines []string) []string {
	if len(lines) <= maxLines {
		return lines
	}
	return append(lines[:maxLines-1:maxLines-1], fmt.Sprintf("  … %d more lines", len(lines)-maxLines+1))
}
