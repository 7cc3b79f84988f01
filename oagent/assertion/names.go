package assertion

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/celenv"
	"github.com/fairwayhq/fairway/internal/text"
)

// maxName is the maximum length of the name of a tool or an agent, in bytes (OpenAgentSpec v1,
// Names & References).
const maxName = 253

// Names is the set of tool and agent names that an expression may use after recent and
// history.
type Names struct {
	sorted []string
	known  map[string]bool
}

// NewNames returns a set of names.
func NewNames(names []string) *Names {
	s := &Names{sorted: make([]string, 0, len(names)), known: make(map[string]bool, len(names))}
	for _, name := range names {
		if !s.known[name] {
			s.known[name] = true
			s.sorted = append(s.sorted, name)
		}
	}
	sort.Strings(s.sorted)
	return s
}

// unknown returns a message about a name that the agent may not invoke.
func (s *Names) unknown(variable, name string) string {
	const most = 10 // names to list
	if strings.HasPrefix(name, "_") {
		if variable == "recent" {
			return fmt.Sprintf("recent has no %.64q; it has _name, and the names of tools and agents", name)
		}
		return fmt.Sprintf("%s has no %.64q; it has _list and _total, and the names of tools and agents", variable, name)
	}
	source := fmt.Sprintf("%s has no %.64q, because the agent has no such capability", variable, name)
	if near := text.Nearest(name, slices.Values(s.sorted)); near != "" {
		source += "; did you mean " + near + "?"
	}
	if len(s.sorted) == 0 || len(s.sorted) > most {
		return source
	}
	return source + " (it has " + strings.Join(s.sorted, ", ") + ")"
}

// rewriting is an expression whose names after recent and history are quoted for CEL. Without
// this step, CEL would parse recent.search-faqs.inputs as a subtraction. The rewriter changes
// it to recent.`search-faqs`.inputs. The edits map positions of errors back to the original
// text.
type rewriting struct {
	original string
	text     string
	edits    []edit // in order
}

// edit is a name that was replaced.
type edit struct {
	at, end       int // position of the name in the original text
	newAt, newEnd int // position of the replacement
}

// rewrite quotes the known names in an expression and prefers longer names. A '_' in the
// expression also matches a '-' in a known name. The error is an *celenv.CompileError.
func rewrite(expression string, names *Names) (*rewriting, error) {
	w := &rewriter{source: expression, names: names}
	if err := w.run(); err != nil {
		return nil, err
	}
	w.text.WriteString(expression[w.copied:])
	return &rewriting{original: expression, text: w.text.String(), edits: w.edits}, nil
}

// rewriter scans the tokens of an expression once.
type rewriter struct {
	source string
	names  *Names
	at     int // index of the next byte
	copied int // bytes of source that were copied to text
	text   strings.Builder
	edits  []edit

	afterDot bool // the last token was '.', so a word is a field
}

func (w *rewriter) run() error {
	for w.at < len(w.source) {
		c := w.source[w.at]
		switch {
		case c == '"' || c == '\'':
			w.skipLiteral(false)
		case c == '`':
			w.skipTo("`")
		case strings.HasPrefix(w.source[w.at:], "//"):
			w.skipTo("\n")
			continue
		case isWord(c):
			if err := w.word(); err != nil {
				return err
			}
		case c == '.':
			w.at++
			if strings.HasPrefix(strings.TrimLeft(w.source[w.at:], " \t\r\n"), "[") {
				return w.fault(w.at-1, `remove the dot before the index: write history["name"][0], not history.name.[0]`)
			}
			w.afterDot = true
			continue
		case strings.IndexByte(" \t\r\n?", c) >= 0:
			w.at++
			continue
		default:
			w.at++
		}
		w.afterDot = false
	}
	return nil
}

// word scans a word: an identifier, a number, or the prefix of a literal.
func (w *rewriter) word() error {
	start := w.at
	for w.at < len(w.source) && isWord(w.source[w.at]) {
		w.at++
	}
	word := w.source[start:w.at]
	if w.at < len(w.source) && (w.source[w.at] == '"' || w.source[w.at] == '\'') {
		switch strings.ToLower(word) {
		case "r", "b", "rb", "br":
			w.skipLiteral(strings.ContainsAny(word, "rR"))
			return nil
		}
	}
	if w.afterDot || w.names == nil || word != "recent" && word != "history" {
		return nil
	}
	return w.name(word)
}

// name replaces the name that follows a variable, if it is known.
func (w *rewriter) name(variable string) error {
	rest := w.source[w.at:]
	start := w.at + 1
	if strings.HasPrefix(rest, ".?") {
		start++
	} else if !strings.HasPrefix(rest, ".") {
		return nil
	}
	end := start
	for end < len(w.source) && end-start <= maxName && (isWord(w.source[end]) || w.source[end] == '-' || w.source[end] == '.') {
		end++
	}
	run := w.source[start:end]
	for length := len(run); length > 0; length-- {
		if !endsName(w.source[start+length:]) {
			continue
		}
		if name := strings.ReplaceAll(run[:length], "_", "-"); w.names.known[name] {
			if strings.HasPrefix(strings.TrimLeft(w.source[start+length:], " \t\r\n"), "(") {
				return nil // a function of that name: history.size()
			}
			w.replace(start, start+length, "`"+name+"`")
			return nil
		}
	}
	word, _, _ := strings.Cut(run, ".")
	if strings.Contains(word, "-") && !strings.HasPrefix(word, "_") {
		line, column := position(w.source, start)
		message := w.names.unknown(variable, strings.Trim(word, "-"))
		return &celenv.CompileError{Positions: []celenv.Position{{Line: line, Column: column, Message: message, Unknown: true}}}
	}
	return nil
}

// endsName reports whether a name can end before rest.
func endsName(rest string) bool {
	if rest == "" {
		return true
	}
	if rest[0] == '-' && len(rest) > 1 {
		return !isWord(rest[1])
	}
	return !isWord(rest[0])
}

func (w *rewriter) replace(start, end int, by string) {
	w.text.WriteString(w.source[w.copied:start])
	from := w.text.Len()
	w.text.WriteString(by)
	w.edits = append(w.edits, edit{start, end, from, w.text.Len()})
	w.copied, w.at = end, end
}

// skipLiteral skips a literal whose quote is the next character.
func (w *rewriter) skipLiteral(raw bool) {
	quote := w.source[w.at : w.at+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(w.source[w.at:], triple) {
		quote = triple
	}
	w.at += len(quote)
	for w.at < len(w.source) {
		switch {
		case strings.HasPrefix(w.source[w.at:], quote):
			w.at += len(quote)
			return
		case w.source[w.at] == '\\' && !raw:
			w.at += 2
		default:
			w.at++
		}
	}
	w.at = len(w.source)
}

// skipTo skips the next byte and everything up to the end of the mark.
func (w *rewriter) skipTo(mark string) {
	w.at++
	if found := strings.Index(w.source[w.at:], mark); found >= 0 {
		w.at += found + len(mark)
		return
	}
	w.at = len(w.source)
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c >= utf8.RuneSelf
}

func (w *rewriter) fault(at int, message string) error {
	line, column := position(w.source, at)
	return &celenv.CompileError{Positions: []celenv.Position{{Line: line, Column: column, Message: message}}}
}

// restore maps the positions of a compile error to the original text.
func (r *rewriting) restore(err error) error {
	fault, ok := errors.AsType[*celenv.CompileError](err)
	if !ok || len(r.edits) == 0 {
		return err
	}
	restored := &celenv.CompileError{Positions: make([]celenv.Position, len(fault.Positions))}
	for i, place := range fault.Positions {
		if place.Line > 0 {
			place.Line, place.Column = position(r.original, r.offset(offset(r.text, place.Line, place.Column)))
		}
		restored.Positions[i] = place
	}
	return restored
}

// offset maps a byte offset of the rewritten text to the original text.
func (r *rewriting) offset(at int) int {
	shift := 0
	for _, e := range r.edits {
		if at < e.newAt {
			break
		}
		if at < e.newEnd {
			return e.at
		}
		shift = e.end - e.newEnd
	}
	return at + shift
}

// position converts a byte offset to line and column. Both count from 1; columns count
// characters.
func position(source string, at int) (line, column int) {
	before := source[:min(max(at, 0), len(source))]
	start := strings.LastIndexByte(before, '\n') + 1
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[start:]) + 1
}

// offset converts line and column to a byte offset.
func offset(source string, line, column int) int {
	at := 0
	for ; line > 1; line-- {
		newline := strings.IndexByte(source[at:], '\n')
		if newline < 0 {
			return len(source)
		}
		at += newline + 1
	}
	for ; column > 1 && at < len(source); column-- {
		_, size := utf8.DecodeRuneInString(source[at:])
		at += size
	}
	return at
}

// engagementVariables are the top-level names of an expression, apart from the variables of
// its own loops.
var engagementVariables = [...]string{"started_at", "user", "recent", "history"}

// undeclared is the beginning of CEL's message about an unknown name.
const undeclared = "undeclared reference to '"

// explainUnknown replaces CEL's messages about unknown names by messages that list the available
// names. unknown contains those names that are variables; the others are functions. names are
// the tools and agents that may be called.
func explainUnknown(err error, unknown []string, names *Names) error {
	fault, ok := errors.AsType[*celenv.CompileError](err)
	if !ok {
		return err
	}
	explained := &celenv.CompileError{Positions: slices.Clone(fault.Positions)}
	for i := range explained.Positions {
		place := &explained.Positions[i]
		rest, ok := strings.CutPrefix(place.Message, undeclared)
		name, _, _ := strings.Cut(rest, "'")
		switch {
		case !ok:
		case slices.Contains(unknown, name):
			place.Message = noVariable(name, names)
		default:
			place.Message = fmt.Sprintf("unknown function %.64s; check its name and how it is called", name)
		}
	}
	return explained
}

func noVariable(name string, names *Names) string {
	source := fmt.Sprintf("unknown variable %.64s", name)
	tool := strings.ReplaceAll(name, "_", "-")
	switch near := text.Nearest(name, slices.Values(engagementVariables[:])); {
	case name == "inputs" || name == "outputs":
		return fmt.Sprintf("%s; write recent.<tool>.%s for the current or the latest call of a tool", source, name)
	case name == outputVariable:
		return source + "; only the assertion of a guardrail has it; elsewhere write recent.<tool>.outputs"
	case names != nil && names.known[tool]:
		return fmt.Sprintf("%s; write recent.%[2]s for the latest call of %[2]s, or history.%[2]s for all of them", source, tool)
	case near != "":
		source += fmt.Sprintf("; did you mean %s?", near)
	}
	return source + "; known variables: " + strings.Join(engagementVariables[:], ", ")
}
