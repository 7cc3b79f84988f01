package result

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/itchyny/gojq"
)

// The functions of jq with regular expressions take time in proportion to the text, and can be stopped
// while they search. Those of gojq count the characters before each match, and cannot be stopped.

const (
	// maxRegexp is the maximum size of a regular expression, in instructions.
	maxRegexp = 5000

	// maxRegexps is how many regular expressions a program keeps.
	maxRegexps = 16

	// runesBetweenChecks is the number of characters that are searched between two checks of the time.
	runesBetweenChecks = 64

	// matchesBetweenChecks is the number of matches that are listed between two checks of the memory.
	matchesBetweenChecks = 1024

	// matchMemory and captureMemory are the bytes of a match and of each of its captures.
	matchMemory, captureMemory = 500, 400
)

// regexps are compiled regular expressions by their source and flags.
type regexps map[[2]string]*searcher

// A searcher finds the matches of a regular expression one by one.
type searcher struct {
	first *regexp.Regexp // the expression
	next  *regexp.Regexp // the expression anywhere after one character; its first group is the match
	names []string       // of the groups
}

// compile compiles a regular expression with the flags of jq.
func (c regexps) compile(source, flags string) (*searcher, error) {
	key := [2]string{source, flags}
	if s := c[key]; s != nil {
		return s, nil
	}
	source, flags = strings.Clone(source), strings.Clone(flags) // they may share memory with the body
	key = [2]string{source, flags}
	for _, flag := range flags {
		switch flag {
		case 'g':
		case 'i':
			source = "(?i)" + source
		case 'm':
			source = "(?s)" + source
		default:
			return nil, fmt.Errorf("unsupported regular expression flag: %q", flags)
		}
	}
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("invalid regular expression %q: %w", source, err)
	}
	if instructions(tree) > maxRegexp {
		return nil, errors.New("the regular expression is too large")
	}
	s := new(searcher)
	if s.first, err = regexp.Compile(source); err != nil {
		return nil, fmt.Errorf("invalid regular expression %q: %w", source, err)
	}
	if s.next, err = regexp.Compile(`\A(?s:.)(?s:.*?)(` + source + `)`); err != nil {
		return nil, fmt.Errorf("invalid regular expression %q: %w", source, err)
	}
	s.names = s.first.SubexpNames()
	if len(c) >= maxRegexps {
		clear(c)
	}
	c[key] = s
	return s, nil
}

// instructions returns an upper bound for the number of instructions of a regular expression.
func instructions(r *syntax.Regexp) int {
	n := 2 + len(r.Rune)
	for _, sub := range r.Sub {
		n = min(n+instructions(sub), maxRegexp+1)
	}
	if r.Op == syntax.OpRepeat {
		n = min(n*max(r.Min, r.Max, 1), maxRegexp+1)
	}
	return n
}

// find returns the positions of the first match at or after a position: its start and end, and those of
// its groups. It returns nil if there is none, or if the run has ended.
func (s *searcher) find(r *run, text string, from int) []int {
	if from == 0 {
		return s.first.FindReaderSubmatchIndex(&runeReader{run: r, text: text})
	}
	_, width := utf8.DecodeLastRuneInString(text[:from]) // ^ and \b depend on it
	found := s.next.FindReaderSubmatchIndex(&runeReader{run: r, text: text[from-width:]})
	if found == nil {
		return nil
	}
	for i := range found {
		if found[i] >= 0 {
			found[i] += from - width
		}
	}
	return found[2:]
}

// A runeReader reads a text until the run ends.
type runeReader struct {
	run  *run
	text string
	read int
}

func (r *runeReader) ReadRune() (c rune, width int, err error) {
	if r.read++; r.read%runesBetweenChecks == 0 && r.run.check() != nil || r.text == "" {
		return 0, 0, io.EOF
	}
	c, width = utf8.DecodeRuneInString(r.text)
	r.text = r.text[width:]
	return c, width, nil
}

// A matcher yields the matches in a text, as jq describes them.
type matcher struct {
	*searcher
	program *program
	all     bool // not only the first
	parts   bool // matches have the text before them; the text after the last one follows, without a match
	start   position
	from    int // where the next match may begin, in bytes; -1 after the last one
	end     int // of the last match
}

// newMatcher returns the matcher for the arguments of the function _match of gojq: a regular expression, and flags
// or null.
func (p *program) newMatcher(v any, args []any) (*matcher, error) {
	text, isText := v.(string)
	source, sourceIsText := args[0].(string)
	flags, flagsAreText := args[1].(string)
	if !isText || !sourceIsText || !flagsAreText && args[1] != nil {
		return nil, fmt.Errorf("match(%s; %s) cannot be applied to: %s", gojq.Preview(args[0]), gojq.Preview(args[1]), gojq.Preview(v))
	}
	s, err := p.compile(source, flags)
	if err != nil {
		return nil, err
	}
	return &matcher{searcher: s, program: p, all: strings.Contains(flags, "g"), start: position{text: text}}, nil
}

// Next implements gojq.Iter.
func (m *matcher) Next() (any, bool) {
	match, ok := m.next()
	_, failed := match.(error)
	switch {
	case failed || !ok && !m.parts:
		m.from, m.parts = -1, false
	case !ok:
		m.from, m.parts = -1, false
		return map[string]any{"before": m.start.text[m.end:]}, true
	case m.parts:
		match.(map[string]any)["before"] = m.start.text[m.end:m.start.bytes]
		m.end = m.start.bytes + len(match.(map[string]any)["string"].(string))
	}
	return match, ok
}

// next is Next without the parts between matches.
func (m *matcher) next() (any, bool) {
	if m.from < 0 {
		return nil, false
	}
	found := m.find(m.program.run, m.start.text, m.from)
	if err := m.program.run.check(); err != nil || found == nil {
		return err, err != nil
	}
	m.from = found[1]
	switch {
	case !m.all || found[0] == found[1] && m.from == len(m.start.text):
		m.from = -1
	case found[0] == found[1]:
		_, width := utf8.DecodeRuneInString(m.start.text[m.from:])
		m.from += width
	}
	return m.describe(m.start.to(found[0]), found), true
}

// parts is the function _parts, which yields the matches and the texts between them.
func (p *program) parts(v any, args []any) gojq.Iter {
	m, err := p.newMatcher(v, args)
	if err != nil {
		return gojq.NewIter(err)
	}
	m.parts = true
	return m
}

// match is the function _match of gojq. Its third argument is whether the result is only if there is a match.
func (p *program) match(v any, args []any) any {
	m, err := p.newMatcher(v, args)
	if err != nil {
		return err
	}
	if args[2] == true {
		found := m.find(p.run, m.start.text, 0)
		if p.run.err != nil {
			return p.run.err
		}
		return found != nil
	}
	list := []any{}
	for {
		match, ok := m.Next()
		if !ok {
			return list
		}
		if err, failed := match.(error); failed {
			return err
		}
		list = append(list, match)
		if len(list)%matchesBetweenChecks == 0 {
			if err := p.run.allow(cost{memory: len(list) * (matchMemory + captureMemory*(len(m.names)-1))}); err != nil {
				return err
			}
		}
	}
}

// A position is a place in a text, of which the number of characters before it is known.
type position struct {
	text         string
	bytes, runes int
}

// to moves to a later place.
func (p *position) to(bytes int) *position {
	p.runes += utf8.RuneCountInString(p.text[p.bytes:bytes])
	p.bytes = bytes
	return p
}

// describe returns a match as jq does. Start is its beginning.
func (s *searcher) describe(start *position, found []int) any {
	group := func(i int) map[string]any {
		from, to := found[2*i], found[2*i+1]
		if from < 0 {
			return map[string]any{"offset": -1, "length": 0, "string": nil}
		}
		before := utf8.RuneCountInString(start.text[min(start.bytes, from):from])
		return map[string]any{"offset": start.runes + before, "length": utf8.RuneCountInString(start.text[from:to]), "string": start.text[from:to]}
	}
	captures := make([]any, len(s.names)-1)
	for i := range captures {
		capture := group(i + 1)
		capture["name"] = nil
		if s.names[i+1] != "" {
			capture["name"] = s.names[i+1]
		}
		captures[i] = capture
	}
	whole := group(0)
	whole["captures"] = captures
	return whole
}
